"""What drawing a batch costs beside the training step it feeds, and how long a family waits for pictures in a file.

python benchmarks/worlds.py                               every rendered world, 64 models
python benchmarks/worlds.py --models 1 --worlds rooms,teapots
python benchmarks/worlds.py --file 4                      a file of 4 GB that stays on disk, in shards

Drawing is timed alone, for as many models as train; the step is that of a β-VAE with `conv` nets on pictures with as
many channels. Both in one run.
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from sober.files import map_npy, write_npy
from sober.models.grid import grid
from sober.spread import Spread
from sober.training.cohort import Program, signature
from sober.training.feed import Feed
from sober.worlds import WORLDS, World, world
from sober.worlds.stored import Stored
from sober.worlds.world import Labels

BATCH = 64


def drawn_here() -> list[str]:
    """Every world that is drawn at the size of the nets that are timed, and whose files, if it needs any, are here."""
    drawn = [kind() for kind in WORLDS.values() if kind.origin == "drawn"]
    return [each.name for each in drawn if each.image_shape[:2] == (64, 64) and each.absent() is None]


def seconds_each(steps: Callable[[int], float], seconds: float, rounds: int = 3) -> float:
    """Seconds a step takes: the median of rounds that last about as long as asked for together."""
    steps(1)  # compiles
    count = max(1, int(seconds / rounds / max(steps(2) / 2, 1e-6)))
    return median(steps(count) / count for _ in range(rounds))


def drawing(opened: World, models: int) -> Callable[[int], float]:
    """A function that draws n batches for every model."""

    @jax.jit
    def draw(data: Any, n: int) -> Any:
        def one(step: int, total: Any) -> Any:
            keys = jax.random.split(jax.random.fold_in(jax.random.key(0), step), models)
            return total + jax.vmap(lambda key: jnp.sum(opened.draw(data, key, BATCH)))(keys)

        return jax.lax.fori_loop(0, n, one, jnp.zeros(models))

    def steps(n: int) -> float:
        started = time.perf_counter()
        jax.block_until_ready(draw(opened.data, n))
        return time.perf_counter() - started

    return steps


def training(opened: World, models: int) -> Callable[[int], float]:
    """A function that trains a family for n steps."""
    runs = grid(opened, "beta_vae", {}, seeds=models, batch=BATCH, nets="conv")
    program = Program(opened, signature(runs[0]))
    spread = Spread(models)
    inputs = spread.place(program.inputs(runs))
    carry, feed = program.init(inputs, opened.example), Feed(opened, spread)

    def steps(n: int) -> float:
        nonlocal carry
        started = time.perf_counter()
        step = int(carry.step)
        stop = step + n
        while step < stop:
            data, end = feed.at(step, 10**9)
            step = min(stop, end)
            carry = jax.block_until_ready(program.advance(carry, data, inputs, step))
        steps.waited = feed.waited  # type: ignore[attr-defined]
        return time.perf_counter() - started

    return steps


class Numbers(Stored):
    """Pictures of random bytes in a file, kept there."""

    name = "numbers"
    summary = reference = "random"
    factors = ()
    image_shape = (64, 64, 3)
    resident = False
    pictures = np.zeros((0, 64, 64, 3), np.uint8)

    def __init__(self, path: Path, gigabytes: float) -> None:
        self.size = int(gigabytes * 1e9 / 12288)
        part = np.random.default_rng(0).integers(0, 256, (8192, 64, 64, 3), dtype=np.uint8)
        parts = (part[: self.size - start] for start in range(0, self.size, len(part)))
        write_npy(path, (self.size, 64, 64, 3), part.dtype, parts)
        self.pictures = map_npy(path)

    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        return np.zeros((len(index), 0), np.int32)


def waiting(gigabytes: float, models: int, steps: int) -> None:
    with TemporaryDirectory() as folder:
        train = training(Numbers(Path(folder) / "pictures.npy", gigabytes), models)
        train(1)  # compiles, and reads the first shard
        before = train.waited  # type: ignore[attr-defined]
        taken = train(steps)
        waited = train.waited - before  # type: ignore[attr-defined]
        print(f"\na file of {gigabytes:g} GB in shards: {steps} steps of {models} models in {taken:.1f} s, of which")
        print(
            f"{waited:.2f} s, {waited / taken:.1%}, waiting for pictures; {models * steps / taken:,.0f} model-steps/s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", help="separated by commas; by default every one that is drawn at 64 x 64")
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--file", type=float, help="gigabytes of pictures in a file, instead of rendered worlds")
    parser.add_argument("--steps", type=int, default=6000, help="with --file")
    chosen = parser.parse_args()
    device = jax.local_devices()[0]
    print(f"{datetime.date.today()}, {device.device_kind} ({device.platform}), jax {jax.__version__}", flush=True)
    if chosen.file is not None:
        return waiting(chosen.file, chosen.models, chosen.steps)
    steps: dict[int, float] = {}
    print(f"\n| world | drawing {chosen.models} batches of {BATCH}, ms | of a step |\n|---|---:|---:|", flush=True)
    for name in chosen.worlds.split(",") if chosen.worlds else drawn_here():
        opened = world(name)
        channels = opened.image_shape[2]
        if channels not in steps:
            steps[channels] = seconds_each(training(opened, chosen.models), chosen.seconds)
        taken = seconds_each(drawing(opened, chosen.models), chosen.seconds)
        print(f"| {name} | {1e3 * taken:.2f} | {taken / steps[channels]:.1%} |", flush=True)
    for channels, each in steps.items():
        print(f"\na step with {channels} channels: {1e3 * each:.1f} ms, {chosen.models / each:,.0f} model-steps/s")
    return None


if __name__ == "__main__":
    main()
