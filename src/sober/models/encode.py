"""Models to Codes: every picture of the grid, or a chosen sample, once per model and kept beside it.

Codes are computed in float32 whatever the models were trained in. All models of a pass see the same pictures, which are
rendered on the device; how many models and pictures go at once is bounded by memory, never by the size of the world.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from sober.device import compiler_options, evenly, free_memory, keep_compilations
from sober.errors import RequestError
from sober.files import load_arrays, save_arrays
from sober.models.family import Family
from sober.models.model import stacked
from sober.types import Codes, Run
from sober.worlds import World

BATCH = 512  # pictures in one forward pass
MODELS = 32  # in one forward pass: more are no faster, and a GPU's compiler tries kernels on what they would take
HOST_BYTES = 2**30  # of codes held in memory at once

Progress = Callable[[int, int], None]


def encode(
    family: Family,
    runs: Sequence[Run] | None = None,
    *,
    index: Int[np.ndarray, " N"] | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Run, Codes]]:
    """Codes of finished runs (all, or the given ones): for the whole grid, or for the pictures in `index`.

    What is on disk is read; the rest is computed, as many models at a time as memory allows, and stored. Runs come in
    the order asked for, one in memory at a time. `progress(done, total)` is told how many codes are there of those that
    are computed.
    """
    wanted = list(family.finished if runs is None else runs)
    if not wanted:
        raise RequestError(f"{family.folder} has no finished model: run the same 'sober train' command to go on")
    pictures = _checked(family.world, index)
    keep_compilations()
    missing = {run.identity: run for run in wanted if not codes_path(family, run, index).exists()}
    total, done = len(missing) * len(pictures), 0
    for run in wanted:
        if run.identity in missing:
            same = [other for other in missing.values() if _nets(other) == _nets(run)]
            at_once = evenly(same, models_at_once(run, len(pictures)))[0]
            before = done

            def told(codes: int, before: int = before) -> None:
                if progress is not None:
                    progress(before + codes, total)

            _compute(family, at_once, pictures, index, told)
            done += len(at_once) * len(pictures)
            for other in at_once:
                del missing[other.identity]
        yield run, read_codes(family, run, index=index)


def codes_path(family: Family, run: Run, index: Int[np.ndarray, " N"] | None = None) -> Path:
    """Where a run's codes are kept: one file for the grid, one for each sample."""
    sample = "" if index is None else "-" + hashlib.sha256(np.asarray(index, "<i8").tobytes()).hexdigest()[:12]
    return family.folder / "codes" / f"{run.identity}{sample}.safetensors"


def read_codes(family: Family, run: Run, *, index: Int[np.ndarray, " N"] | None = None) -> Codes:
    """Codes that `encode` has stored."""
    path = codes_path(family, run, index)
    arrays, about = load_arrays(path)
    if about.get("run") != run.identity:
        raise RequestError(f"{path} holds the codes of another run: delete it to make it again")
    factors = family.world.labels(_checked(family.world, index))
    flags = tuple(sorted({*json.loads(about["flags"]), *family.world.flags}))
    return Codes(arrays["mean"], arrays["logvar"], factors, family.world.factors, flags)


def _compute(
    family: Family, runs: Sequence[Run], pictures: Int[np.ndarray, " N"], index: Any, told: Callable[[int], None]
) -> None:
    trained = [family.model(run) for run in runs]
    models = stacked(trained)
    (family.folder / "codes").mkdir(exist_ok=True)
    mean = np.empty((len(runs), len(pictures), runs[0].latents), np.float32)
    logvar = np.empty_like(mean)
    for start in range(0, len(pictures), BATCH):
        part = pictures[start : start + BATCH]
        padded = np.pad(part, (0, BATCH - len(part)), mode="edge")  # one shape, one compilation
        means, logvars = _forward()(family.world, models, *family.world.gather(padded))
        mean[:, start : start + len(part)] = means[:, : len(part)]
        logvar[:, start : start + len(part)] = logvars[:, : len(part)]
        told(len(runs) * (start + len(part)))
    for at, run in enumerate(runs):
        finite = np.isfinite(mean[at]).all() and np.isfinite(logvar[at]).all()
        flags = ["diverged"] * (trained[at].diverged is not None) + ["not_finite"] * (not finite)
        about = {"kind": "sober.codes", "run": run.identity, "flags": json.dumps(flags)}
        save_arrays(codes_path(family, run, index), {"mean": mean[at], "logvar": logvar[at]}, about)


@functools.cache
def _forward() -> Callable[..., tuple[Float[Array, "M B D"], Float[Array, "M B D"]]]:
    """Pictures by index to codes of every model; compiled once per world and shape."""

    def forward(world: World, models: Any, data: Any, index: Int[Array, " B"]) -> tuple[Array, Array]:
        images = world.pixels(data, index, jax.random.key(0))
        return jax.vmap(lambda model: model.encode(images))(models)

    return jax.jit(forward, static_argnums=0, compiler_options=compiler_options("for seconds"))


def _nets(run: Run) -> tuple[str, int]:
    return run.nets, run.latents


def models_at_once(run: Run, pictures: int) -> int:
    by_host = HOST_BYTES // (pictures * run.latents * 8)
    by_device = free_memory() // (BATCH * 2**21)  # some 2 MB of activations a picture covers every net here
    return int(max(1, min(MODELS, by_host, by_device)))


def _checked(world: World, index: Int[np.ndarray, " N"] | None) -> Int[np.ndarray, " N"]:
    if index is None:
        return world.everything()
    checked = world.checked(index)
    if checked.ndim != 1 or not len(checked):
        raise RequestError("index must be a list of whole numbers, the pictures to encode")
    return checked
