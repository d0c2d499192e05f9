"""Model-steps per second of families, against one model at a time and against PyTorch, eager and tuned, in one run.

python benchmarks/train.py                         every table, on whatever device there is
python benchmarks/train.py --only dsprites --models 1,64,256 --seconds 5

A model-step is one optimiser step of one model: batch 64, Adam, β-VAE, pictures drawn on the device. *Sober* is the
program that `sober train` chooses on this machine; where it has kernels, *Sober, plain layers* is the program without
them. Contenders are measured in turns, round by round, so that a machine that slows down slows all of them down; each
figure is the median round. Compilation is left out. On a GPU the last column compares with a program that only moves
the bytes of a step (`floor.py`), at the bandwidth of a copy in the same run.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key

from family_steps import FamilySteps
from floor import copy_bandwidth, step_bytes
from sober.device import free_memory, local_devices
from sober.model_placement import ModelPlacement
from sober.models.grid import grid
from sober.nets import NETS
from sober.training.cohort import program, signature
from sober.types import Factor, Run
from sober.worlds import Grid, World
from sober.worlds import world as open_world

BATCH, LATENTS = 64, 10


class ColouredSprites(Grid):
    """dSprites with a random brightness in each of three channels: the papers' RGB shape at the same drawing cost."""

    name = "coloured sprites"
    summary = reference = ""
    image_shape = (64, 64, 3)

    def __init__(self) -> None:
        self.sprites = open_world("dsprites")
        self.factors: tuple[Factor, ...] = self.sprites.factors

    def make_data(self) -> Any:
        return self.sprites.data

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n 64 64 3"]:
        brightness = jax.random.uniform(key, (len(index), 1, 1, 3), minval=0.5)
        return self.sprites.pixels(data, index, key) * brightness


TABLES: dict[str, tuple[str, Callable[[], World]]] = {
    "blocks": ("blocks, 16 × 16 × 1", lambda: open_world("blocks")),
    "dsprites": ("dsprites, 64 × 64 × 1", lambda: open_world("dsprites")),
    "rgb": ("dsprites in colour, 64 × 64 × 3", ColouredSprites),
}


def family_runs(world: World, models: int) -> list[Run]:
    return grid(world, "beta_vae", {"beta": 4.0}, seeds=models, latents=LATENTS, batch=BATCH)


def families(world: World, models: int) -> dict[str, Callable[[int], float]]:
    """The steps of a family as `sober train` makes them and, where that has kernels, also by plain layers."""
    runs = family_runs(world, models)
    contenders = {"Sober": FamilySteps(world, runs)}
    if contenders["Sober"].uses_kernels:
        contenders["Sober, plain layers"] = FamilySteps(world, runs, plain=True)
    return dict(contenders)


def torch_steps(world: World) -> dict[str, Callable[[int], float]]:
    """The same work of one model in PyTorch, eager and tuned. Nothing where torch is not installed."""
    try:
        import torch_baseline  # noqa: PLC0415
    except ImportError:
        return {}
    device = "cuda" if torch_baseline.torch.cuda.is_available() and jax.default_backend() == "gpu" else "cpu"
    pictures = world.render(np.arange(0, world.size, world.size // 2048))
    return torch_baseline.contenders(pictures, LATENTS, BATCH, device)


def rates(contenders: dict[str, tuple[int, Callable[[int], float]]], seconds: float, rounds: int) -> dict[str, float]:
    """Model-steps a second of each contender (models, steps), measured in turns."""
    once = {name: steps(1) for name, (_, steps) in contenders.items()}
    rounds = max(1, min(rounds, int(seconds / max(once.values()))))  # fewer rounds if a step takes seconds
    counts = {name: max(1, int(seconds / rounds / once[name])) for name in contenders}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (_, steps) in contenders.items():
            times[name].append(steps(counts[name]))
    return {name: models * counts[name] / median(times[name]) for name, (models, _) in contenders.items()}


def table(
    title: str, world: World, models: Sequence[int], seconds: float, rounds: int, bandwidth: float | None
) -> None:
    """Prints a table; with a bandwidth in bytes a second, also each rate as a share of the floor's."""
    run = family_runs(world, 1)[0]
    plain_program = program(world, signature(run))
    memory = plain_program.memory(plain_program.inputs([run]))
    print(f"\n### {title}: nets `{run.nets}`, {run.precision}\n", flush=True)
    contenders = families(world, 1) | (torch_steps(world) if run.nets == "conv" else {})
    moved = step_bytes(NETS[run.nets], world.image_shape, LATENTS, BATCH, run.precision)
    at_best = bandwidth / moved if bandwidth else None  # model-steps a second on one device
    if at_best:
        print(f"Floor: {moved / 1e6:,.1f} MB a step, {at_best:,.0f} model-steps/s on a device.")
    print("\n| what | models | model-steps/s | × one at a time |" + (" of the floor |" if at_best else ""))
    print("|---|---:|---:|---:|" + ("---:|" if at_best else ""), flush=True)
    result = rates({name: (1, steps) for name, steps in contenders.items()}, seconds * len(contenders), rounds)

    def line(name: str, count: int, rate: float) -> None:
        share = f" {rate / at_best / len(ModelPlacement(count).devices):.0%} |" if at_best else ""
        times = rate / result["Sober"]
        print(f"| {name} | {count} | {rate:,.{0 if rate > 100 else 1}f} | {times:.2f} |{share}", flush=True)

    for name, rate in result.items():
        line(name, 1, rate)
    for count in models:
        if count == 1:
            continue
        if count > len(local_devices()) * memory.models(free_memory()):
            print(f"| Sober | {count} | does not fit at once | |" + (" |" if at_best else ""))
            continue
        steps = {name: (count, family) for name, family in families(world, count).items()}
        for name, rate in rates(steps, seconds * len(steps), rounds).items():
            line(name, count, rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="1,16,64,256", help="family sizes")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each figure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=TABLES, help="one table")
    arguments = parser.parse_args()
    models = [int(count) for count in arguments.models.split(",")]
    device = jax.local_devices()[0]
    print(f"{datetime.date.today()}, {device.device_kind} ({device.platform}), jax {jax.__version__}")
    bandwidth = None if device.platform == "cpu" else copy_bandwidth()
    if bandwidth:
        print(f"A copy of 2 GiB reads and writes {bandwidth / 1e12:.2f} TB/s.")
    for name, (title, opened) in TABLES.items():
        if arguments.only in (None, name):
            table(title, opened(), models, arguments.seconds, arguments.rounds, bandwidth)


if __name__ == "__main__":
    main()
