"""fid: how far are a model's pictures from those of the world? (Heusel et al. 2017; in the DAVA paper B.4)

Features of each set of pictures are taken for Gaussian. The distance of two sets is the Fréchet distance of their
Gaussians (`estimators/frechet.py`):

    fid_reconstructions    from x̂ = Dec(z), z ~ q(z|x), to the world's pictures
    fid_mixed              from x̃ = Dec(z̃), z̃ drawn latent by latent, to the world's pictures: the paper's Figures 7, 20
    fid_between            from x̃ to x̂, the two kinds that PIPE tells apart: Figure 19

All three use the same pictures x, drawn as for training. PIPE uses both kinds of codes too
(`criteria/mixed_codes.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sober.contracts import Cost, ProgressCallback
from sober.errors import RequestError
from sober.estimators.frechet import FeatureMoments, Gaussian, frechet_distance
from sober.metrics.metric import Meaning, Measured
from sober.shared import Shared
from sober.tasks.features import FEATURES, Features, check_name, features_of, fingerprint, is_file, pixels, why_not
from sober.tasks.task import Subjects, Task
from sober.types import Setting

if TYPE_CHECKING:  # these need JAX
    from sober.criteria.mixed_codes import Mixing
    from sober.models.model import Model
    from sober.worlds import World

PICTURES = 10_000
MOST = 32  # models that decode at once on a device
HOST_BYTES = 2**30  # of pictures and moments held in memory at once
STEPS = 0.008  # cost of encoding one picture and decoding two, in steps of a β-VAE
BY_FUNCTION, BY_NETWORK = 2e-5, 0.1  # seconds for features of one picture on two cores; of Inception, a guess

__all__ = ["FEATURES", "fid", "frechet_distance", "pixels"]


class ModelMoments(NamedTuple):
    """The moments of both kinds of pictures that a model makes, and whether all pixels were finite."""

    reconstructions: FeatureMoments
    mixed: FeatureMoments
    finite: bool


def perform(
    subjects: Subjects,
    *,
    seed: int,
    progress: ProgressCallback,
    shared: Shared,
    features: str,
    sha256: str,
    pictures: float,
    mixing: Mixing,
    black: float,
    white: float,
) -> list[Measured]:
    from sober.criteria.same_program import same_program_groups  # noqa: PLC0415 -- needs JAX

    world, models, count = subjects.world, subjects.models, int(pictures)
    assert world is not None, "models have a world"
    compute = features_of(features, black, white)
    world_moments = _world_moments(world, compute, count, seed)
    reference, width = Gaussian(world_moments), len(world_moments.mean)
    common = ("own_features",) * (not is_file(features)) + ("few_pictures",) * (count <= width)
    results: dict[int, Measured] = {}
    for group in same_program_groups(models, _at_once(world, width)):

        def report_done(done: int, before: int = len(results), size: int = len(group)) -> None:
            progress(before * count + size * done, len(models) * count)

        members = [models[m] for m in group]
        moments = _model_moments(members, world, compute, width, mixing, count, seed, report_done)
        for m, model_moments in zip(group, moments, strict=True):
            flags = common + ("not_finite",) * (not model_moments.finite)
            results[m] = Measured(_distances(reference, model_moments), flags)
    return [results[m] for m in range(len(models))]


def _at_once(world: World, features: int) -> int:
    """How many models decode at once, so that their moments and a batch of pictures fit into memory."""
    from sober.device import local_devices  # noqa: PLC0415 -- needs JAX
    from sober.tasks.decoded_pictures import BATCH  # noqa: PLC0415 -- needs JAX

    size = 2 * (8 * features**2 + 4 * BATCH * math.prod(world.image_shape))
    return max(1, min(MOST * len(local_devices()), HOST_BYTES // size))


def _world_moments(world: World, compute: Features, count: int, seed: int) -> FeatureMoments:
    from sober.tasks.decoded_pictures import world_pictures  # noqa: PLC0415 -- needs JAX

    moments: FeatureMoments | None = None
    for images in world_pictures(world, count, seed):
        rows = compute(images)
        moments = FeatureMoments(rows.shape[1]) if moments is None else moments
        moments.add(rows)
    assert moments is not None, "there are two pictures at least"
    return moments


def _model_moments(
    models: Sequence[Model],
    world: World,
    compute: Features,
    width: int,
    mixing: Mixing,
    count: int,
    seed: int,
    report_done: Callable[[int], None],
) -> list[ModelMoments]:
    """FeatureMoments of models of one program, batch by batch."""
    from sober.tasks.decoded_pictures import decoded_pictures  # noqa: PLC0415 -- needs JAX

    moments = [(FeatureMoments(width), FeatureMoments(width)) for _ in models]
    finite, done = np.ones(len(models), bool), 0
    for batch in decoded_pictures(models, world, mixing, count, seed):
        for m, (reconstructions, mixed) in enumerate(moments):
            reconstructions.add(compute(batch.reconstructions[m]))
            mixed.add(compute(batch.mixed[m]))
        finite &= batch.finite
        done += batch.mixed.shape[1]
        report_done(done)
    return [ModelMoments(*pair, bool(all_finite)) for pair, all_finite in zip(moments, finite, strict=True)]


def _distances(reference: Gaussian, moments: ModelMoments) -> dict[str, float]:
    reconstructions, mixed = Gaussian(moments.reconstructions), Gaussian(moments.mixed)
    return {
        "fid_reconstructions": reconstructions.distance(reference),
        "fid_mixed": mixed.distance(reference),
        "fid_between": mixed.distance(reconstructions),
    }


def complete(settings: Mapping[str, Setting], world: World | None) -> Mapping[str, Setting]:
    """Adds the fingerprint of the file that computes features, so that rows say which network it was."""
    features = str(settings["features"])
    check_name(features)
    if settings["mixing"] not in ("uniform", "permuted"):
        raise RequestError(f"fid: codes are mixed 'uniform' or 'permuted', not {settings['mixing']!r}")
    if not float(settings["pictures"]) >= 2:
        raise RequestError(f"fid: pictures must be at least 2, got {settings['pictures']}")
    sha256 = settings["sha256"] or fingerprint(features)
    return {**settings, "sha256": sha256 if is_file(features) else ""}


def refuses(settings: Mapping[str, Setting], world: World | None) -> str:
    return why_not(str(settings["features"]), str(settings["sha256"]))


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    pictures = float(settings["pictures"])
    seconds = BY_NETWORK if is_file(str(settings["features"])) else BY_FUNCTION
    return Cost(seconds=(1 + 2 * models) * pictures * seconds, steps=STEPS * pictures)


def _meaning(title: str, summary: str, headline: bool = False) -> Meaning:
    summary = f"Fréchet distance between features of {summary}"
    return Meaning(summary, 0, math.inf, "lower", title=title, headline=headline)


fid = Task(
    name="fid",
    summary="do the model's pictures look like those of the world?",
    reference="Heusel et al. (2017) GANs Trained by a Two Time-Scale Update Rule Converge to a Local Nash Equilibrium",
    scores={
        "fid_reconstructions": _meaning("FID of reconstructions", "reconstructions and of the world's pictures"),
        "fid_mixed": _meaning(
            "FID of mixed codes", "pictures of mixed codes and of the world's pictures", headline=True
        ),
        "fid_between": _meaning(
            "FID from reconstructions to mixed codes", "pictures of mixed codes and of reconstructions"
        ),
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
