"""fid: how far are pictures that a model makes from those of the world? (Heusel et al. 2017; in the DAVA paper B.4)

Features of pictures are taken for Gaussian, and sets of pictures are as far apart as these (`estimators/frechet.py`):

    fid_reconstructions    of x̂ = Dec(z), z ~ q(z|x), from the world's pictures
    fid_mixed              of x̃ = Dec(z̃), z̃ drawn latent by latent, from the world's pictures: the paper's Figures 7, 20
    fid_between            of x̃ from x̂, the two kinds that PIPE tells apart: Figure 19

All three are of the same pictures x, drawn as for training, and both kinds of codes are PIPE's (`criteria/mixing.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sober.criteria.criterion import Cost, Progress
from sober.errors import RequestError
from sober.estimators.frechet import Gaussian, Moments, frechet_distance
from sober.metrics.metric import Meaning, Measured
from sober.shared import Shared
from sober.tasks.features import FEATURES, Features, check_name, features_of, fingerprint, is_file, pixels, why_not
from sober.tasks.task import Subjects, Task
from sober.types import Setting

if TYPE_CHECKING:  # these need JAX
    from sober.criteria.mixing import Mixing
    from sober.models.model import Model
    from sober.worlds import World

PICTURES = 10_000
MOST = 32  # models that decode at once on a device
HOST_BYTES = 2**30  # of pictures, and of moments, held in memory at once
STEPS = 0.008  # of a β-VAE, that a picture takes to encode and two take to decode
BY_FUNCTION, BY_NETWORK = 2e-5, 0.1  # seconds for features of a picture on two cores; of Inception, a guess

__all__ = ["FEATURES", "fid", "frechet_distance", "pixels"]


class Sets(NamedTuple):
    """The moments of both kinds of pictures that a model makes, and whether all pixels were numbers."""

    reconstructions: Moments
    mixed: Moments
    finite: bool


def perform(
    subjects: Subjects,
    *,
    seed: int,
    progress: Progress,
    shared: Shared,
    features: str,
    sha256: str,
    pictures: float,
    mixing: Mixing,
    black: float,
    white: float,
) -> list[Measured]:
    from sober.criteria.alike import alike  # noqa: PLC0415 -- needs JAX

    world, models, count = subjects.world, subjects.models, int(pictures)
    assert world is not None, "models have a world"
    compute = features_of(features, black, white)
    of_world = _of_world(world, compute, count, seed)
    reference, width = Gaussian(of_world), len(of_world.mean)
    common = ("own_features",) * (not is_file(features)) + ("few_pictures",) * (count <= width)
    results: dict[int, Measured] = {}
    for group in alike(models, _at_once(world, width)):

        def told(done: int, before: int = len(results), among: int = len(group)) -> None:
            progress(before * count + among * done, len(models) * count)

        sets = _of_models([models[m] for m in group], world, compute, width, mixing, count, seed, told)
        for m, of_model in zip(group, sets, strict=True):
            flags = common + ("not_finite",) * (not of_model.finite)
            results[m] = Measured(_distances(reference, of_model), flags)
    return [results[m] for m in range(len(models))]


def _at_once(world: World, features: int) -> int:
    """So many models, as bounded by their moments and by the pictures of a batch."""
    from sober.device import local_devices  # noqa: PLC0415 -- needs JAX
    from sober.tasks.decoded import BATCH  # noqa: PLC0415 -- needs JAX

    size = 2 * (8 * features**2 + 4 * BATCH * math.prod(world.image_shape))
    return max(1, min(MOST * len(local_devices()), HOST_BYTES // size))


def _of_world(world: World, compute: Features, count: int, seed: int) -> Moments:
    from sober.tasks.decoded import world_pictures  # noqa: PLC0415 -- needs JAX

    moments: Moments | None = None
    for images in world_pictures(world, count, seed):
        rows = compute(images)
        moments = Moments(rows.shape[1]) if moments is None else moments
        moments.add(rows)
    assert moments is not None, "there are two pictures at least"
    return moments


def _of_models(
    models: Sequence[Model],
    world: World,
    compute: Features,
    width: int,
    mixing: Mixing,
    count: int,
    seed: int,
    told: Callable[[int], None],
) -> list[Sets]:
    """Of models alike, batch by batch."""
    from sober.tasks.decoded import decoded_pictures  # noqa: PLC0415 -- needs JAX

    moments = [(Moments(width), Moments(width)) for _ in models]
    finite, done = np.ones(len(models), bool), 0
    for batch in decoded_pictures(models, world, mixing, count, seed):
        for m, (reconstructions, mixed) in enumerate(moments):
            reconstructions.add(compute(batch.reconstructions[m]))
            mixed.add(compute(batch.mixed[m]))
        finite &= batch.finite
        done += batch.mixed.shape[1]
        told(done)
    return [Sets(*of_model, bool(true)) for of_model, true in zip(moments, finite, strict=True)]


def _distances(reference: Gaussian, sets: Sets) -> dict[str, float]:
    reconstructions, mixed = Gaussian(sets.reconstructions), Gaussian(sets.mixed)
    return {
        "fid_reconstructions": reconstructions.distance(reference),
        "fid_mixed": mixed.distance(reference),
        "fid_between": mixed.distance(reconstructions),
    }


def complete(settings: Mapping[str, Setting], world: World | None) -> Mapping[str, Setting]:
    """With the fingerprint of the file that gives features, so that a row says which network it was."""
    features = str(settings["features"])
    check_name(features)
    if settings["mixing"] not in ("uniform", "permuted"):
        raise RequestError(f"fid: codes are mixed 'uniform' or 'permuted', not {settings['mixing']!r}")
    if not float(settings["pictures"]) >= 2:
        raise RequestError(f"fid: pictures must be at least 2, got {settings['pictures']}")
    known = settings["sha256"] or fingerprint(features)
    return {**settings, "sha256": known if is_file(features) else ""}


def refuses(settings: Mapping[str, Setting], world: World | None) -> str:
    return why_not(str(settings["features"]), str(settings["sha256"]))


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    pictures = float(settings["pictures"])
    each = BY_NETWORK if is_file(str(settings["features"])) else BY_FUNCTION
    return Cost(seconds=(1 + 2 * models) * pictures * each, steps=STEPS * pictures)


def _meaning(summary: str, headline: bool = False) -> Meaning:
    return Meaning(f"Fréchet distance of features of {summary}", 0, math.inf, "lower", headline=headline)


fid = Task(
    name="fid",
    summary="do pictures that the model makes look like those of the world?",
    reference="Heusel et al. (2017) GANs Trained by a Two Time-Scale Update Rule Converge to a Local Nash Equilibrium",
    scores={
        "fid_reconstructions": _meaning("reconstructions from the world's pictures"),
        "fid_mixed": _meaning("pictures of mixed codes from the world's pictures", headline=True),
        "fid_between": _meaning("pictures of mixed codes from reconstructions"),
    },
    perform=perform,
    settings={
        "features": "pixels",
        "sha256": "",
        "pictures": PICTURES,
        "mixing": "uniform",
        "black": 0.0,
        "white": 1.0,
    },
    quick={"pictures": 300},
    needs="models",
    supervised=False,
    complete=complete,
    refuses=refuses,
    cost=cost,
)
