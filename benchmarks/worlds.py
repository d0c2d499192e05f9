"""What drawing a batch costs beside the training step it feeds, and how long a family waits for pictures in a file.

python benchmarks/worlds.py                               every rendered world, 64 models
python benchmarks/worlds.py --models 1 --worlds rooms,teapots
python benchmarks/worlds.py --side 224                    10,000 large pictures of every world in colour
python benchmarks/worlds.py --file 4                      a file of 4 GB that stays on disk, in shards

Drawing is timed alone, for as many models as train; the step trains β-VAEs with `conv` nets on pictures with as many
channels, with the program that `sober train` chooses and, if that has kernels, also by plain layers. All in one
run.
"""

from __future__ import annotations

import argparse
import datetime
import os
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

from family_steps import FamilySteps
from sober.files import map_npy, write_npy
from sober.models.grid import grid
from sober.worlds import WORLDS, World, world
from sober.worlds.stored_world import StoredWorld
from sober.worlds.world import Labels

BATCH = 64


def drawn_here() -> list[str]:
    """Every drawn world of 64 x 64 pixels whose files, if it needs any, are present."""
    worlds = [kind() for kind in WORLDS.values() if kind.origin == "drawn"]
    return [world.name for world in worlds if world.image_shape[:2] == (64, 64) and world.absent() is None]


def seconds_each(steps: Callable[[int], float], seconds: float, rounds: int = 3) -> float:
    """Seconds a step takes: the median of rounds that together last about `seconds`."""
    steps(1)  # compiles
    count = max(1, int(seconds / rounds / max(steps(2) / 2, 1e-6)))
    return median(steps(count) / count for _ in range(rounds))


def drawing(opened: World, models: int) -> Callable[[int], float]:
    """A function that draws n batches for every model."""

    @jax.jit
    def draw(data: Any, n: int) -> Any:
        def draw_once(step: int, total: Any) -> Any:
            keys = jax.random.split(jax.random.fold_in(jax.random.key(0), step), models)
            return total + jax.vmap(lambda key: jnp.sum(opened.draw(data, key, BATCH)))(keys)

        return jax.lax.fori_loop(0, n, draw_once, jnp.zeros(models))

    def steps(n: int) -> float:
        started = time.perf_counter()
        jax.block_until_ready(draw(opened.data, n))
        return time.perf_counter() - started

    return steps


def training(opened: World, models: int, *, plain: bool = False) -> FamilySteps:
    """A family in training, with the program that `sober train` chooses or with plain layers."""
    return FamilySteps(opened, grid(opened, "beta_vae", {}, seeds=models, batch=BATCH, nets="conv"), plain=plain)


def large(names: list[str], side: int, count: int = 10_000, block: int = 256, rounds: int = 3) -> None:
    """Prints what `count` pictures of each world take, and what the first use takes before them."""
    print(f"\n{count:,} pictures of {side} x {side}, in seconds: least and most of {rounds} times\n")
    print("| world | first use, processor | wall | processor |\n|---|---:|---:|---:|", flush=True)
    for name in names:
        with TemporaryDirectory() as folder:
            os.environ["SOBER_CACHE"] = folder
            opened = world(name, size=side)
            started = time.process_time()
            index = np.random.default_rng(0).integers(0, opened.size, count)
            opened.render(index[:block])  # makes what the cache holds, and compiles
            first = time.process_time() - started
            wall, processor = [], []
            for _ in range(rounds):
                starts = time.perf_counter(), time.process_time()
                for start in range(0, count, block):
                    opened.render(index[start : start + block])
                wall.append(time.perf_counter() - starts[0])
                processor.append(time.process_time() - starts[1])
            ranges = " | ".join(f"{min(seconds):.1f} to {max(seconds):.1f}" for seconds in (wall, processor))
            print(f"| {name} | {first:.1f} | {ranges} |", flush=True)


class Numbers(StoredWorld):
    """Pictures of random bytes that stay in a file."""

    name = "numbers"
    summary = reference = "random"
    factors = ()
    image_shape = (64, 64, 3)
    resident = False
    pictures = np.zeros((0, 64, 64, 3), np.uint8)

    def __init__(self, path: Path, gigabytes: float) -> None:
        self.size = int(gigabytes * 1e9 / 12288)
        chunk = np.random.default_rng(0).integers(0, 256, (8192, 64, 64, 3), dtype=np.uint8)
        chunks = (chunk[: self.size - start] for start in range(0, self.size, len(chunk)))
        write_npy(path, (self.size, 64, 64, 3), chunk.dtype, chunks)
        self.pictures = map_npy(path)

    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        return np.zeros((len(index), 0), np.int32)


def waiting(gigabytes: float, models: int, steps: int) -> None:
    with TemporaryDirectory() as folder:
        train = training(Numbers(Path(folder) / "pictures.npy", gigabytes), models)
        before = train.feed.waited
        total = train(steps)
        waited = train.feed.waited - before
        print(f"\na file of {gigabytes:g} GB in shards: {steps} steps of {models} models in {total:.1f} s;")
        print(
            f"{waited:.2f} s, {waited / total:.1%}, waiting for pictures; {models * steps / total:,.0f} model-steps/s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", help="separated by commas; by default the worlds that are drawn at 64 x 64")
    parser.add_argument("--side", type=int, help="of large pictures, to draw 10,000 of each world instead")
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--file", type=float, help="gigabytes of pictures in a file, instead of rendered worlds")
    parser.add_argument("--steps", type=int, default=6000, help="with --file")
    arguments = parser.parse_args()
    device = jax.local_devices()[0]
    print(f"{datetime.date.today()}, {device.device_kind} ({device.platform}), jax {jax.__version__}", flush=True)
    if arguments.file is not None:
        return waiting(arguments.file, arguments.models, arguments.steps)
    names = arguments.worlds.split(",") if arguments.worlds else drawn_here()
    if arguments.side is not None:
        return large([name for name in names if world(name).image_shape[2] == 3], arguments.side)
    steps: dict[int, float] = {}
    plain_steps: dict[int, float] = {}
    print(f"\n| world | drawing {arguments.models} batches of {BATCH}, ms | of a step |\n|---|---:|---:|", flush=True)
    for name in names:
        opened = world(name)
        channels = opened.image_shape[2]
        if channels not in steps:
            family = training(opened, arguments.models)
            steps[channels] = seconds_each(family, arguments.seconds)
            if family.uses_kernels:
                plain_family = training(opened, arguments.models, plain=True)
                plain_steps[channels] = seconds_each(plain_family, arguments.seconds)
        drawing_seconds = seconds_each(drawing(opened, arguments.models), arguments.seconds)
        print(f"| {name} | {1e3 * drawing_seconds:.2f} | {drawing_seconds / steps[channels]:.1%} |", flush=True)
    for channels, seconds in steps.items():
        rate = arguments.models / seconds
        print(f"\na step with {channels} channels: {1e3 * seconds:.1f} ms, {rate:,.0f} model-steps/s")
        if channels in plain_steps:
            print(f"by plain layers: {1e3 * plain_steps[channels]:.1f} ms")
    return None


if __name__ == "__main__":
    main()
