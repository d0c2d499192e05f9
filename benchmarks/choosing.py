"""Populations of models to try rules of choice on, with the numbers that rules and labels give each model.

python benchmarks/choosing.py train blocks --out runs      trains a population; a CPU will do
python benchmarks/choosing.py measure runs/blocks          writes results/choosing/: run `sober score` and `sober select
                                                           --criterion elbo,reconstruction` on the folder before

The folder may come from elsewhere; it needs the codes of its models. docs/make_choosing.py makes a page of the files.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from sober.criteria import CRITERIA, Evidence, fit_to_judge
from sober.criteria.criterion import REPLICATES
from sober.evaluation.families import families_of
from sober.evaluation.mean_picture import losses_of_mean_picture
from sober.files import save_arrays
from sober.methods import METHODS
from sober.models.encode import PictureSample
from sober.models.grid import grid
from sober.requests.results import Results
from sober.requests.train import train
from sober.results.folder import Folder
from sober.types import Adam, Run, Setting, Training
from sober.worlds import WORLDS, world

OUT = Path(__file__).parents[1] / "results" / "choosing"
PICTURES = 10_000
LABELS = ("beta_vae", "factor_vae", "mig", "dci_disentanglement", "sap")  # how disentangled codes are
KEPT = ("explicitness", "dci_informativeness")  # how much codes say about the factors, in whichever form
UNLABELLED = ("train_reconstruction", "train_kl", "kl", "reconstruction", "elbo", "pipe")
SOBER_LOOK = ("beta_vae", "beta_tcvae", "factor_vae", "dip_vae_i", "dip_vae_ii", "annealed_vae")
AS_FIT = ("beta_vae", "beta_tcvae", "dava")
ROOMS: Mapping[str, Mapping[str, Setting | Sequence[Setting]]] = {
    "beta_vae": {"beta": [1.0, 2.0, 4.0, 8.0]},
    "beta_tcvae": {"beta": [2.0, 4.0]},
    "dip_vae_ii": {"lambda_od": [5.0, 20.0]},
}
SEEDS = 5  # of the large populations; with more seeds, a population is made of families as `fit` trains them
FEW = 12  # models: such a population is one family


def population(name: str) -> list[Run]:
    """The runs of a population: methods at several strengths, with several seeds."""
    if name == "blocks":
        return [run for method in SOBER_LOOK for run in _blocks(method, _sweep(method, 6000), SEEDS)]
    if name == "rooms32":
        rooms, training = world("rooms", size=32), Training(steps=4000, latents=10, optimiser=Adam(1e-3), nets="small")
        return [
            run for method, hyper in ROOMS.items() for run in grid(rooms, method, hyper, seeds=3, training=training)
        ]
    if name == "blocks_fit":
        return [run for method in AS_FIT for run in _blocks(method, METHODS[method].advised(True, 6000), 12)]
    training = Training(steps=2000, latents=10, optimiser=Adam(1e-3), nets="small")
    methods = AS_FIT[:2]  # DAVA takes too long on a CPU
    return [
        run
        for method in methods
        for run in grid(world(name), method, METHODS[method].advised(False, 2000), seeds=3, training=training)
    ]


def _sweep(method: str, steps: int) -> Mapping[str, Setting | Sequence[Setting]]:
    sweep = METHODS[method].sweeps["sober_look"]
    return {**sweep, "iteration_threshold": steps // 3} if method == "annealed_vae" else sweep


def _blocks(method: str, sweep: Mapping[str, Setting | Sequence[Setting]], seeds: int) -> list[Run]:
    return grid(world("blocks"), method, sweep, seeds=seeds, steps=6000, latents=6, optimiser=Adam(1e-3))


def families(runs: Sequence[Run]) -> dict[str, list[list[Run]]]:
    """Ways to part a population into families that share no model: by method, by seed, and by settings at random."""
    by_method: dict[object, list[Run]] = {}
    by_seed: dict[int, list[Run]] = {}
    by_setting: dict[object, list[Run]] = {}
    for run in runs:
        by_method.setdefault(run.method, []).append(run)
        by_seed.setdefault(run.seed, []).append(run)
        by_setting.setdefault(run.seedless, []).append(run)
    if len(runs) <= FEW:
        return {"fit": [list(runs)]}
    if len(by_seed) > SEEDS:
        groups = np.array_split(sorted(by_seed), len(by_seed) // 3)
        return {"fit": [[run for seed in group.tolist() for run in by_seed[seed]] for group in groups]}
    settings = list(by_setting.values())
    parts = np.array_split(np.random.default_rng(0).permutation(len(settings)), len(settings) // 6)
    return {
        "methods": list(by_method.values()),
        "seeds": list(by_seed.values()),
        "settings": [[run for number in numbers for run in settings[number]] for numbers in parts],
    }


def measure(folder: Path, label: str, out: Path) -> Path:
    """Writes the numbers that rules and labels give a folder's models of a world. UDR compares models of a family."""
    results = Results.of(Folder.open(folder))
    family = results.families[label]
    codes = {run: codes for run, codes in results.encode(family.runs, pictures=PICTURES) if fit_to_judge(codes)}
    evidence = Evidence(family.world, tuple(codes), tuple(codes.values()), None, results.model)
    numbers = results.table(["run", "metric", "value"])
    columns = {name: _column(numbers, evidence.runs, name) for name in (*LABELS, *KEPT, *UNLABELLED)}
    arrays = {name: column for name, column in columns.items() if not np.isnan(column).any()}
    for way, groups in families(evidence.runs).items():
        member, udr = np.full(len(codes), -1, np.int16), np.full(len(codes), np.nan)
        draws = np.full((REPLICATES, len(codes)), np.nan, np.float16)
        for number, group in enumerate(groups):
            judgement = CRITERIA["udr"](evidence.only(group))
            places = [evidence.runs.index(run) for run in group]
            member[places], udr[places], draws[:, places] = number, judgement.scores, judgement.replicates
        arrays |= {f"{way}.family": member, f"{way}.udr": udr, f"{way}.udr_draws": draws}
    settings = [run.seedless for run in evidence.runs]
    of_mean_picture = losses_of_mean_picture(family.world, PictureSample(PICTURES), evidence.runs)
    facts = {
        "world": label,
        "mean_picture": float(of_mean_picture[0]),  # its reconstruction loss, in nats
        "steps": evidence.runs[0].steps,
        "runs": [run.identity for run in evidence.runs],
        "words": [f"{results.words(run)}, seed {run.seed}" for run in evidence.runs],
        "settings": [settings.index(setting) for setting in settings],
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{label if label in WORLDS else folder.name}.safetensors"
    save_arrays(path, arrays, {"kind": "sober.choosing", "about": json.dumps(facts)})
    return path


def _column(numbers: pl.DataFrame, runs: Sequence[Run], name: str) -> np.ndarray:
    by_run = dict(numbers.filter(metric=name).select("run", "value").iter_rows())
    return np.array([by_run.get(run.identity, np.nan) for run in runs], float)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "measure"])
    parser.add_argument(
        "name", help="a population to train (blocks, blocks_fit, rooms32, rooms), or a folder to measure"
    )
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    if arguments.what == "train":
        runs = population(arguments.name)
        train(runs, world(runs[0].world), arguments.out / arguments.name)
        return
    folder = Path(arguments.name)
    for label in families_of(Folder.open(folder)):
        print(measure(folder, label, arguments.out))


if __name__ == "__main__":
    main()
