"""Models to Codes: every picture of a world, or a sample of them, once per model and kept beside it.

codes/IDENTITY.safetensors              the codes of every picture
codes/IDENTITY-SEED-COUNT.safetensors   of so many pictures, the first of a sequence drawn by a seed
codes/IDENTITY-DIGEST.safetensors       of the pictures of an index

Codes are computed in float32 whatever the models were trained in. All models of a pass see the same pictures, which are
rendered on the device; how many models and pictures go at once is bounded by memory, never by the size of the world.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from sober.device import compiler_options, evenly, free_memory, keep_compilations, local_devices
from sober.errors import RequestError
from sober.files import load_arrays, save_arrays
from sober.methods import METHODS, structure
from sober.models.family import Family
from sober.models.model import Model, blank, stacked
from sober.nets import find_nets
from sober.spread import MODELS, SHARED, Spread, mapped
from sober.types import Codes, Run
from sober.worlds import World

BATCH = 512  # pictures in one forward pass of light nets
BLOCK = 10_000  # pictures of a sequence that are drawn together
MOST = 32  # models in one forward pass of a device: more are no faster, and a GPU's compiler tries kernels on them all
HOST_BYTES = 2**30  # of codes held in memory at once

Progress = Callable[[int, int], None]  # how much of how much is done
Index = Int[np.ndarray, " N"]


@dataclasses.dataclass(frozen=True)
class Draw:
    """So many pictures of a world, drawn by a seed: a shorter draw is the beginning of a longer one."""

    count: int
    seed: int = 0

    def index(self, world: World) -> Index:
        blocks = -(-self.count // BLOCK)
        keys = [jax.random.fold_in(jax.random.key(self.seed), block) for block in range(blocks)]
        return np.concatenate([np.asarray(world.index(key, BLOCK)) for key in keys])[: self.count]


Pictures = Draw | Index | None  # None is every picture that there is


def enough(world: World, count: int, seed: int = 0) -> Draw | None:
    """So many pictures of a world; all of them where there are no more, and none has nuisance that is drawn."""
    if count < 1:
        raise RequestError(f"sample must be at least 1, got {count}")
    return None if world.size <= count and not world.stochastic else Draw(count, seed)


def by_index(world: World) -> bool:
    """Whether the codes of every picture stand in the order of the pictures: not where a sample stands for them."""
    return np.array_equal(world.everything(), np.arange(world.size))


def index_of(world: World, pictures: Pictures) -> Index:
    """The places of these pictures in their world."""
    if pictures is None:
        return world.everything()
    index = world.checked(pictures.index(world) if isinstance(pictures, Draw) else pictures)
    if index.ndim != 1 or not len(index):
        raise RequestError("index must be a list of whole numbers, the pictures to encode")
    return index


def encode(
    family: Family,
    runs: Sequence[Run] | None = None,
    *,
    pictures: Pictures = None,
    within: Pictures | Literal["the same"] = "the same",
    progress: Progress | None = None,
) -> Iterator[tuple[Run, Codes]]:
    """Codes of finished runs (all, or the given ones): of every picture, of a draw, or of those in an index.

    What is on disk is read, be it a part of what is there; the rest is computed, as many models at a time as memory
    allows, and stored: of the pictures in `within`, where others will want to know of more than these. Runs come in the
    order asked for, one in memory at a time. `progress(done, total)` is told how many codes are there of those that are
    computed.
    """
    wanted = list(family.finished if runs is None else runs)
    if not wanted:
        raise RequestError(f"{family.folder} has no finished model: run the command that trains them again to go on")
    whole = pictures if isinstance(within, str) else within
    index = index_of(family.world, whole)
    keep_compilations()
    missing = {run.identity: run for run in wanted if _stored(family, run, pictures) is None}
    total, done = len(missing) * len(index), 0
    for run in wanted:
        if run.identity in missing:
            together = [other for other in missing.values() if structure(other) == structure(run)]
            at_once = evenly(together, models_at_once(run, len(index)))[0]

            def told(codes: int, before: int = done) -> None:
                if progress is not None:
                    progress(before + codes, total)

            compute(family, at_once, index, whole, told)
            done += len(at_once) * len(index)
            for other in at_once:
                del missing[other.identity]
        yield run, read_codes(family, run, pictures=pictures)


def codes_path(family: Family, run: Run, pictures: Pictures = None) -> Path:
    """Where a run's codes of these pictures are kept."""
    if pictures is None:
        name = run.identity
    elif isinstance(pictures, Draw):
        name = f"{run.identity}-{pictures.seed}-{pictures.count}"
    else:
        name = f"{run.identity}-{hashlib.sha256(np.asarray(pictures, '<i8').tobytes()).hexdigest()[:12]}"
    return family.folder / "codes" / f"{name}.safetensors"


def read_codes(family: Family, run: Run, *, pictures: Pictures = None) -> Codes:
    """Codes that `encode` has stored, of these pictures or of more."""
    stored = _stored(family, run, pictures)
    if stored is None:
        raise RequestError(
            f"there are no such codes of run {run.identity} in {family.folder / 'codes'}: encode it first"
        )
    path, rows = stored
    arrays, about = load_arrays(path)
    if about.get("run") != run.identity:
        raise RequestError(f"{path} holds the codes of another run: move it elsewhere")
    factors = family.world.labels(index_of(family.world, pictures))
    flags = tuple(sorted({*json.loads(about["flags"]), *family.world.flags}))
    mean, logvar = (arrays[name] if rows is None else arrays[name][rows] for name in ("mean", "logvar"))
    return Codes(mean, logvar if _has_spread(family, run) else None, factors, family.world.factors, flags)


def _has_spread(family: Family, run: Run) -> bool:
    """Whether codes of a run have log-variances that mean something."""
    return run.method not in METHODS or blank(run, family.world.image_shape).reading.has_spread


def forget(family: Family, runs: Sequence[Run]) -> None:
    """Removes the codes of runs, which can be computed again."""
    for run in runs:
        for path in (family.folder / "codes").glob(f"{run.identity}*.safetensors"):
            path.unlink(missing_ok=True)


def _stored(family: Family, run: Run, pictures: Pictures) -> tuple[Path, Index | slice | None] | None:
    """The file that has a run's codes of these pictures, and where in it they are; None where there is none."""
    path = codes_path(family, run, pictures)
    if path.exists():
        return path, None
    if isinstance(pictures, Draw):
        for other in sorted(path.parent.glob(f"{run.identity}-{pictures.seed}-*.safetensors")):
            count = int(other.stem.rpartition("-")[2])
            if count > pictures.count:
                return other, slice(pictures.count)
    whole = codes_path(family, run)
    if pictures is None or not whole.exists():
        return None
    everything, index = family.world.everything(), index_of(family.world, pictures)
    if by_index(family.world):
        return whole, index
    return (whole, slice(len(index))) if np.array_equal(everything[: len(index)], index) else None


def compute(family: Family, runs: Sequence[Run], index: Index, pictures: Pictures, told: Callable[[int], None]) -> None:
    """One pass of pictures through the encoders of models alike, stored."""
    trained = [family.model(run) for run in runs]
    (family.folder / "codes").mkdir(exist_ok=True)
    mean, logvar = one_pass(family.world, trained, index, told)
    for m, run in enumerate(runs):
        about = {
            "kind": "sober.codes",
            "run": run.identity,
            "flags": json.dumps(_flags(trained[m], mean[m], logvar[m])),
        }
        save_arrays(codes_path(family, run, pictures), {"mean": mean[m], "logvar": logvar[m]}, about)


def encode_pictures(world: World, models: Sequence[Model], index: Index) -> list[Codes]:
    """Codes of the pictures of an index under each of these models, with their factors; nothing is kept.

    The world need not be the one that they were trained on, if its pictures have the same shape.
    """
    if wrong := {model.image_shape for model in models} - {world.image_shape}:
        raise RequestError(f"{world.spec} has pictures of {world.image_shape}, and the models see {wrong.pop()}")
    index = world.checked(np.asarray(index))
    factors, encoded = world.labels(index), {}
    alike: dict[Any, list[int]] = {}
    for m, model in enumerate(models):
        alike.setdefault((structure(model.run), model.run.nets), []).append(m)
    for places in alike.values():
        for part in evenly(places, models_at_once(models[places[0]].run, len(index))):
            chosen = [models[m] for m in part]
            for m, mean, logvar in zip(part, *one_pass(world, chosen, index), strict=True):
                flags = tuple(sorted({*_flags(models[m], mean, logvar), *world.flags}))
                spread = logvar if models[m].autoencoder.reading.has_spread else None
                encoded[m] = Codes(mean, spread, factors, world.factors, flags)
    return [encoded[m] for m in range(len(models))]


def one_pass(
    world: World, trained: Sequence[Model], index: Index, told: Callable[[int], None] = lambda codes: None
) -> tuple[Float[np.ndarray, "M N D"], Float[np.ndarray, "M N D"]]:
    """Means and log-variances of pictures under models alike, as many pictures at a time as nets take."""
    spread = Spread(len(trained))
    models = spread.place(stacked(trained))
    first = trained[0].run
    mean = np.empty((len(trained), len(index), first.latents), np.float32)
    logvar = np.empty_like(mean)
    batch = pictures_at_once(first)
    for start in range(0, len(index), batch):
        part = index[start : start + batch]
        padded = np.pad(part, (0, batch - len(part)), mode="edge")  # one shape, one compilation
        data, places = world.gather(padded)
        means, logvars = spread.trimmed(_forward()(world, models, spread.copied(data), places))
        mean[:, start : start + len(part)] = means[:, : len(part)]
        logvar[:, start : start + len(part)] = logvars[:, : len(part)]
        told(len(trained) * (start + len(part)))
    return mean, logvar


def _flags(model: Model, mean: Float[np.ndarray, "N D"], logvar: Float[np.ndarray, "N D"]) -> list[str]:
    finite = np.isfinite(mean).all() and np.isfinite(logvar).all()
    return ["diverged"] * (model.diverged is not None) + ["not_finite"] * (not finite)


@functools.cache
def _forward() -> Callable[..., tuple[Float[Array, "M B D"], Float[Array, "M B D"]]]:
    """Pictures by index to codes of every model; compiled once per world and shape."""

    def forward(world: World, models: Any, data: Any, index: Int[Array, " B"]) -> tuple[Array, Array]:
        def of_models(models: Any, data: Any, index: Int[Array, " B"]) -> tuple[Array, Array]:
            images = world.pixels(data, index, jax.random.key(0))
            return jax.vmap(lambda model: model.encode(images))(models)

        return mapped(of_models, (MODELS, SHARED, SHARED))(models, data, index)

    return jax.jit(forward, static_argnums=0, compiler_options=compiler_options("for seconds"))


def pictures_at_once(run: Run) -> int:
    """In one forward pass."""
    return find_nets(run.nets).at_once(BATCH)


def models_at_once(run: Run, pictures: int) -> int:
    by_host = HOST_BYTES // (pictures * run.latents * 8)
    by_device = free_memory() // (
        BATCH * 2**21
    )  # light nets take some 2 MB of activations a picture, and others fewer pictures
    return int(max(1, min(len(local_devices()) * max(1, min(MOST, by_device)), by_host)))
