"""Models to codes: every picture of a world, or a sample, encoded once per model and stored beside it.

codes/IDENTITY.safetensors              codes of every picture
codes/IDENTITY-SEED-COUNT.safetensors   codes of the first COUNT pictures of the sequence drawn with SEED
codes/IDENTITY-DIGEST.safetensors       codes of the pictures at given indices

Codes are computed in float32, whatever precision the models were trained in. All models of a pass see the same
pictures, rendered on the device. Memory bounds how many models and pictures go at once; the world's size does not.
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

from sober.device import compiler_options, equal_chunks, free_memory, local_devices
from sober.errors import RequestError
from sober.files import expecting, load_arrays, parse_json, save_arrays
from sober.files.model_files import finished_runs
from sober.methods import METHODS, structure
from sober.model_placement import MODELS, SHARED, ModelPlacement, on_each_device
from sober.models.family import Family
from sober.models.model import Model, NoWeightsError, blank, has_weights, model_of, stacked
from sober.models.packed_codes import unpacked
from sober.nets import find_nets
from sober.types import Codes, Run
from sober.worlds import World

BATCH = 512  # pictures in one forward pass of light nets
SAMPLE_BLOCK = 10_000  # pictures of a sample drawn with one key
# Models in one forward pass of a device: more are no faster, and a GPU's compiler tries kernels on them all.
MODELS_AT_ONCE = 32
HOST_BYTES = 2**30  # codes held in memory at once
ENCODED_WORLDS = 4  # worlds whose encoding programs are kept in memory

EncodingProgress = Callable[[int, int], None]  # called with codes computed so far, and in all
Index = Int[np.ndarray, " N"]


@dataclasses.dataclass(frozen=True)
class PictureSample:
    """`count` pictures of a world drawn with a seed. A smaller sample is the beginning of a larger one."""

    count: int
    seed: int = 0

    def index(self, world: World) -> Index:
        blocks = -(-self.count // SAMPLE_BLOCK)
        keys = [jax.random.fold_in(jax.random.key(self.seed), block) for block in range(blocks)]
        return np.concatenate([np.asarray(world.index(key, SAMPLE_BLOCK)) for key in keys])[: self.count]


Pictures = PictureSample | Index | None  # None is every picture of the world


def sample_of(world: World, count: int, seed: int = 0) -> PictureSample | None:
    """A sample of `count` pictures; None, which is every picture, if a world without drawn nuisance has no more."""
    if count < 1:
        raise RequestError(f"pictures must be at least 1, got {count}")
    return None if world.size <= count and not world.stochastic else PictureSample(count, seed)


def codes_follow_index(world: World) -> bool:
    """Whether row i of the codes of every picture is picture i. It is not where a sample stands for every picture."""
    return np.array_equal(world.everything(), np.arange(world.size))


def picture_index(world: World, pictures: Pictures) -> Index:
    """The indices of these pictures in their world."""
    if pictures is None:
        return world.everything()
    index = world.checked(pictures.index(world) if isinstance(pictures, PictureSample) else pictures)
    if index.ndim != 1 or not len(index):
        raise RequestError("index must be a list of whole numbers, the pictures to encode")
    return index


def encode(
    family: Family,
    runs: Sequence[Run] | None = None,
    *,
    pictures: Pictures = None,
    within: Pictures | Literal["the same"] = "the same",
    progress: EncodingProgress | None = None,
) -> Iterator[tuple[Run, Codes]]:
    """Codes of finished runs (all, or the given ones) for every picture, a sample, or the pictures of an index.

    Reads codes that are on disk, also from a file that holds more pictures. Computes and stores the others, as many
    models at a time as memory allows. `within` names a larger set of pictures to store, for later requests. Yields runs
    in the order given, with one in memory at a time. Calls `progress(done, total)` as codes are computed.
    """
    wanted = list(finished_runs(family.folder, family.runs) if runs is None else runs)
    if not wanted:
        raise RequestError(f"{family.folder} has no finished model: run the command that trains them again to go on")
    to_store = pictures if isinstance(within, str) else within
    index = picture_index(family.world, to_store)
    missing = {run.identity: run for run in wanted if _stored_codes(family, run, pictures) is None}
    _need_weights(family, list(missing.values()))
    total, done = len(missing) * len(index), 0
    for run in wanted:
        if run.identity in missing:
            stackable = [other for other in missing.values() if structure(other) == structure(run)]
            group = equal_chunks(stackable, models_at_once(run, len(index)))[0]

            def report(codes: int, before: int = done) -> None:
                if progress is not None:
                    progress(before + codes, total)

            encode_and_store(family, group, index, to_store, report)
            done += len(group) * len(index)
            for other in group:
                del missing[other.identity]
        yield run, read_codes(family, run, pictures=pictures)


def _need_weights(family: Family, runs: Sequence[Run]) -> None:
    """Refuses runs whose models cannot encode further pictures, and says how many the folder keeps codes of."""
    for run in runs:
        if not has_weights(family.folder, run):
            stems = [path.stem for path in (family.folder / "codes").glob(f"{run.identity}-*-*.safetensors")]
            most = max((int(stem.rpartition("-")[2]) for stem in stems), default=0)
            advice = f"ask for at most the {most:,} pictures whose codes are kept" if most else "no codes are kept"
            raise NoWeightsError(f"{family.folder} keeps no weights of run {run.identity}: {advice}")


def codes_path(family: Family, run: Run, pictures: Pictures = None) -> Path:
    """The file for a run's codes of these pictures."""
    if pictures is None:
        name = run.identity
    elif isinstance(pictures, PictureSample):
        name = f"{run.identity}-{pictures.seed}-{pictures.count}"
    else:
        name = f"{run.identity}-{hashlib.sha256(np.asarray(pictures, '<i8').tobytes()).hexdigest()[:12]}"
    return family.folder / "codes" / f"{name}.safetensors"


def read_codes(family: Family, run: Run, *, pictures: Pictures = None) -> Codes:
    """Codes of these pictures that `encode` has stored, also from a file that holds more pictures."""
    stored = _stored_codes(family, run, pictures)
    if stored is None:
        raise RequestError(
            f"there are no such codes of run {run.identity} in {family.folder / 'codes'}: encode it first"
        )
    path, rows = stored
    arrays, metadata = load_arrays(path)
    if metadata.get("run") != run.identity:
        raise RequestError(f"{path} holds the codes of another run: move it elsewhere")
    factors = family.world.labels(picture_index(family.world, pictures))
    with expecting(path, "a file of codes"):
        flags = tuple(sorted({*parse_json(metadata["flags"]), *family.world.flags}))
        mean, logvar = (array if rows is None else array[rows] for array in unpacked(arrays).values())
    has_logvar = not {"logvar", "logvar_byte"}.isdisjoint(arrays) and _has_logvar(family, run)
    return Codes(mean, logvar if has_logvar else None, factors, family.world.factors, flags)


def _has_logvar(family: Family, run: Run) -> bool:
    """Whether the log-variances of a run's codes mean anything."""
    return run.method not in METHODS or blank(run, family.world.image_shape).reading.has_spread


def remove_codes(family: Family, runs: Sequence[Run]) -> None:
    """Removes the stored codes of runs; `encode` can compute them again."""
    for run in runs:
        for path in (family.folder / "codes").glob(f"{run.identity}*.safetensors"):
            path.unlink(missing_ok=True)


def _stored_codes(family: Family, run: Run, pictures: Pictures) -> tuple[Path, Index | slice | None] | None:
    """The file that holds a run's codes of these pictures and their rows in it (None for all rows), or None."""
    path = codes_path(family, run, pictures)
    if path.exists():
        return path, None
    if isinstance(pictures, PictureSample):
        for larger in sorted(path.parent.glob(f"{run.identity}-{pictures.seed}-*.safetensors")):
            count = larger.stem.rpartition("-")[2]
            if count.isdecimal() and int(count) > pictures.count:
                return larger, slice(pictures.count)
    complete = codes_path(family, run)
    if pictures is None or not complete.exists():
        return None
    everything, index = family.world.everything(), picture_index(family.world, pictures)
    if codes_follow_index(family.world):
        return complete, index
    return (complete, slice(len(index))) if np.array_equal(everything[: len(index)], index) else None


def encode_and_store(
    family: Family, runs: Sequence[Run], index: Index, pictures: Pictures, report: Callable[[int], None]
) -> None:
    """Encodes pictures with models of one structure, and stores the codes of each."""
    trained = [model_of(family.folder, run) for run in runs]
    (family.folder / "codes").mkdir(exist_ok=True)
    mean, logvar = encode_together(family.world, trained, index, report)
    for m, run in enumerate(runs):
        metadata = {
            "kind": "sober.codes",
            "run": run.identity,
            "flags": json.dumps(_flags(trained[m], mean[m], logvar[m])),
        }
        save_arrays(codes_path(family, run, pictures), {"mean": mean[m], "logvar": logvar[m]}, metadata)


def encode_pictures(world: World, models: Sequence[Model], index: Index) -> list[Codes]:
    """The codes and factors of the pictures of an index, from each model in turn; nothing is stored.

    The models may have been trained on another world with pictures of the same shape.
    """
    if other_shapes := {model.image_shape for model in models} - {world.image_shape}:
        raise RequestError(f"{world.spec} has pictures of {world.image_shape}, and the models see {other_shapes.pop()}")
    index = world.checked(np.asarray(index))
    factors, encoded = world.labels(index), {}
    by_structure: dict[Any, list[int]] = {}
    for m, model in enumerate(models):
        by_structure.setdefault((structure(model.run), model.run.nets), []).append(m)
    for stackable in by_structure.values():
        for group in equal_chunks(stackable, models_at_once(models[stackable[0]].run, len(index))):
            codes = encode_together(world, [models[m] for m in group], index)
            for m, mean, logvar in zip(group, *codes, strict=True):
                flags = tuple(sorted({*_flags(models[m], mean, logvar), *world.flags}))
                own_logvar = logvar if models[m].autoencoder.reading.has_spread else None
                encoded[m] = Codes(mean, own_logvar, factors, world.factors, flags)
    return [encoded[m] for m in range(len(models))]


def encode_together(
    world: World, trained: Sequence[Model], index: Index, report: Callable[[int], None] = lambda codes: None
) -> tuple[Float[np.ndarray, "M N D"], Float[np.ndarray, "M N D"]]:
    """Means and log-variances of pictures from models of one structure, one batch of pictures at a time."""
    placement = ModelPlacement(len(trained))
    models = placement.place(stacked(trained))
    first = trained[0].run
    mean = np.empty((len(trained), len(index), first.latents), np.float32)
    logvar = np.empty_like(mean)
    batch = pictures_at_once(first)
    for start in range(0, len(index), batch):
        rows = index[start : start + batch]
        padded = np.pad(rows, (0, batch - len(rows)), mode="edge")  # one shape, one compilation
        data, places = world.gather(padded)
        means, logvars = placement.fetched(_forward(world)(models, placement.replicated(data), places))
        mean[:, start : start + len(rows)] = means[:, : len(rows)]
        logvar[:, start : start + len(rows)] = logvars[:, : len(rows)]
        report(len(trained) * (start + len(rows)))
    return mean, logvar


def _flags(model: Model, mean: Float[np.ndarray, "N D"], logvar: Float[np.ndarray, "N D"]) -> list[str]:
    finite = np.isfinite(mean).all() and np.isfinite(logvar).all()
    return ["diverged"] * (model.diverged is not None) + ["not_finite"] * (not finite)


@functools.lru_cache(maxsize=ENCODED_WORLDS)
def _forward(world: World) -> Callable[..., tuple[Float[Array, "M B D"], Float[Array, "M B D"]]]:
    """The program from picture indices to codes of every model; compiled once per shape."""

    def forward(models: Any, data: Any, index: Int[Array, " B"]) -> tuple[Array, Array]:
        def of_models(models: Any, data: Any, index: Int[Array, " B"]) -> tuple[Array, Array]:
            images = world.pixels(data, index, jax.random.key(0))
            return jax.vmap(lambda model: model.encode(images))(models)

        return on_each_device(of_models, (MODELS, SHARED, SHARED))(models, data, index)

    return jax.jit(forward, compiler_options=compiler_options("for seconds"))


def pictures_at_once(run: Run) -> int:
    """How many pictures go through a run's nets in one forward pass."""
    return find_nets(run.nets).at_once(BATCH)


def models_at_once(run: Run, pictures: int) -> int:
    """How many models like that of a run encode this many pictures together, by the memory of host and devices."""
    by_host = HOST_BYTES // (pictures * run.latents * 8)
    by_device = free_memory() // (BATCH * 2**21)  # a batch takes as much for all nets: see `Nets.at_once`
    return int(max(1, min(len(local_devices()) * max(1, min(MODELS_AT_ONCE, by_device)), by_host)))
