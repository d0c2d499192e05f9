"""Runs, from what a person wants to try: every combination of values, each with every seed."""

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


class Pictured(Protocol):
    """What runs must know of a world: its label and the shape of its pictures."""

    @property
    def label(self) -> str: ...

    @property
    def image_shape(self) -> tuple[int, int, int]: ...


def grid(
    world: Pictured,
    method: str,
    sweep: Sweep,
    *,
    seeds: int | Iterable[int] = 1,
    training: Training = Training(),  # noqa: B008 (frozen)
    **options: Any,
) -> list[Run]:
    """Every combination of the sweep's values, each with every seed, as runs.

    A sweep may be the name of a study, such as "sober_look": then it is the values that study gave the method.
    `options` change single fields of `training`, as in `steps=6000, learning_rate=1e-3`. Nets follow the size of the
    pictures where none are named. So does precision the device: bfloat16 matrix products on a GPU, float32 on a CPU.

    >>> sober.grid(sober.world("blocks"), "beta_vae", {"beta": [1, 2, 4]}, seeds=4, steps=6000, latents=6)
    """
    training = training.but(**options)
    chosen = find_method(method)
    values = chosen.sweep(sweep) if isinstance(sweep, str) else sweep
    if chosen.nets is not None and training.nets not in (None, chosen.nets):
        raise RequestError(f"method {method} needs nets {chosen.nets!r}, not {training.nets!r}: leave --nets out")
    nets = training.nets or chosen.nets or default_nets(world.image_shape)
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
            hyper=chosen.settings(dict(zip(values, combination, strict=True))),
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
