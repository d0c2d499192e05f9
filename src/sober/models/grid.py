"""Grids of runs: every combination of hyperparameter values, with every seed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import jax

from sober.errors import RequestError, listed
from sober.methods import find_method
from sober.nets import default_nets, find_nets
from sober.types import Run, Setting, Training

Sweep = Mapping[str, Setting | Sequence[Setting]] | str  # values, or the name of a published sweep


class PictureSource(Protocol):
    """What `grid` needs of a world: its label and the shape of its pictures."""

    @property
    def label(self) -> str: ...

    @property
    def image_shape(self) -> tuple[int, int, int]: ...


def grid(
    world: PictureSource,
    method: str,
    sweep: Sweep,
    *,
    seeds: int | Iterable[int] = 1,
    training: Training = Training(),  # noqa: B008 (frozen)
    **options: Any,
) -> list[Run]:
    """Runs for every combination of the sweep's values, with every seed.

    A sweep may be the name of a study, such as "sober_look": the values that the study gave this method. `options`
    change single fields of `training`, as in `steps=6000, learning_rate=1e-3`. By default, the size of the pictures
    chooses the nets, and the device the precision: bfloat16 matrix products on a GPU, float32 on a CPU.

    >>> sober.grid(sober.world("blocks"), "beta_vae", {"beta": [1, 2, 4]}, seeds=4, steps=6000, latents=6)
    """
    training = training.but(**options)
    entry = find_method(method)
    values = entry.sweep(sweep) if isinstance(sweep, str) else sweep
    if entry.nets is not None and training.nets not in (None, entry.nets):
        raise RequestError(f"method {method} needs nets {entry.nets!r}, not {training.nets!r}: leave --nets out")
    nets = training.nets or entry.nets or default_nets(world.image_shape)
    find_nets(nets)
    if isinstance(seeds, int) and seeds < 1:
        raise RequestError(f"seeds must be at least 1, got {seeds}")
    axes = [axis if isinstance(axis, list | tuple) else [axis] for axis in values.values()]
    if empty := [name for name, axis in zip(values, axes, strict=True) if not axis]:
        raise RequestError(f"no values given for {listed(empty)}")
    runs = [
        Run(
            world=world.label,
            method=method,
            hyper=entry.settings(dict(zip(values, combination, strict=True))),
            nets=nets,
            latents=training.latents,
            optimiser=training.optimiser,
            steps=training.steps,
            batch=training.batch,
            seed=seed,
            precision=training.precision or ("float32" if jax.default_backend() == "cpu" else "bfloat16"),
        )
        for combination in itertools.product(*axes)
        for seed in (range(seeds) if isinstance(seeds, int) else seeds)
    ]
    if len({run.identity for run in runs}) < len(runs):
        raise RequestError("the sweep or the seeds name the same run twice")
    return runs
