"""Makes a folder of results from codes that an earlier script saved as one npz file a method.

    python tools/take_codes.py CODES OUT --world dsprites

Each npz has `mean` (M, N, D), `logvar_byte`, `factors`, and `about`: for each model its run, whether it diverged, and
where each term of training ended. The weights of such models were not kept. The folder is measured as others are:
`sober score OUT`, `sober select OUT`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

from sober.errors import RequestError  # noqa: E402
from sober.evaluation.cohorts import cohorts_of  # noqa: E402
from sober.files import save_arrays  # noqa: E402
from sober.models.encode import codes_path, sample_of  # noqa: E402
from sober.models.family import Family  # noqa: E402
from sober.models.model import TrainingRecord  # noqa: E402
from sober.results.folder import Folder  # noqa: E402
from sober.results.request import Measure, Request, asked_of  # noqa: E402
from sober.types import Run  # noqa: E402
from sober.worlds import world as open_world  # noqa: E402

LOWEST, SPAN = -12.0, 16.0  # a byte b is the log-variance LOWEST + b / 255 * SPAN


def take(codes: Path, out: Path, spec: str) -> Folder:
    """The folder of results, with a record and the codes of each model."""
    world = open_world(spec)
    content = {path: np.load(path, allow_pickle=False) for path in sorted(codes.glob("*.npz"))}
    records = {path: json.loads(str(arrays["about"])) for path, arrays in content.items()}
    runs = [Run.of(model["run"]) for models in records.values() for model in models]
    measure = Measure(pictures=len(next(iter(content.values()))["factors"]))
    request = Request("train", asked_of(runs), {world.label: world.spec}, tuple(cohorts_of(runs)), measure)
    folder = Folder.begin(out, request)
    family = Family(folder.path, world.spec, tuple(runs))
    for name in ("models", "codes"):
        (folder.path / name).mkdir(exist_ok=True)
    for path, models in records.items():
        means, logvars, factors = (content[path][name] for name in ("mean", "logvar_byte", "factors"))
        pictures = sample_of(world, len(factors))
        if pictures is None or not np.array_equal(world.labels(pictures.index(world)), factors):
            sys.exit(f"{path}: its factors are not those of the pictures that Sober draws with seed 0")
        for m, model in enumerate(models):
            run = Run.of(model["run"])
            if run.identity != model["identity"]:
                sys.exit(f"{path}: run {model['identity']} has another identity here, {run.identity}")
            ended = {term: np.array([value]) for term, value in model["ended"].items()} | {
                "step": np.array([run.steps])
            }
            TrainingRecord(run, world.image_shape, model["diverged"], ended).save(folder.model_path(run))
            logvar = (logvars[m].astype(np.float32) / 255 * SPAN + LOWEST).astype(np.float16)
            flags = ["diverged"] if model["diverged"] is not None else []
            metadata = {"kind": "sober.codes", "run": run.identity, "flags": json.dumps(flags)}
            arrays = {"mean": means[m], "logvar": logvar, "kl": np.asarray(model["kl"], np.float32)}
            save_arrays(codes_path(family, run, pictures), arrays, metadata)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("codes", type=Path, help="folder of npz files")
    parser.add_argument("out", type=Path, help="folder of results to make")
    parser.add_argument("--world", required=True, help="the world that the models were trained on")
    arguments = parser.parse_args()
    try:
        print(take(arguments.codes, arguments.out, arguments.world).summary())
    except RequestError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
