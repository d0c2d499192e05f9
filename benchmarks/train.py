"""Model-steps per second of families, against one model at a time and against PyTorch eager, in one run.

python benchmarks/train.py                         every table, on whatever device there is
python benchmarks/train.py --only dsprites --models 1,64,256 --seconds 5

A model-step is one optimiser step of one model: batch 64, Adam, β-VAE, pictures drawn on the device. What is compared
is measured in turns, round by round, so that a machine that slows down slows down all of it alike; each figure is the
median round. Compilation is left out.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sober.device import free_memory, local_devices
from sober.models.grid import grid
from sober.spread import Spread
from sober.training.cohort import Program, signature
from sober.types import Factor
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


def family_steps(world: World, models: int) -> Callable[[int], float]:
    """A function that trains `models` models for n steps and returns the seconds it took."""
    runs = grid(world, "beta_vae", {"beta": 4.0}, seeds=models, latents=LATENTS, batch=BATCH)
    program = Program(world, signature(runs[0]))
    spread = Spread(models)
    inputs, data = spread.place(program.inputs(runs)), spread.copied(world.data)
    carry = program.init(inputs, data)

    def steps(n: int) -> float:
        nonlocal carry
        started = time.perf_counter()
        carry = jax.block_until_ready(program.advance(carry, data, inputs, int(carry.step) + n))
        return time.perf_counter() - started

    steps(1)  # compiles
    return steps


def torch_steps(world: World) -> Callable[[int], float] | None:
    """The same work as everyone writes it in PyTorch: one model, eager. None where torch is not installed."""
    try:
        import torch  # noqa: PLC0415
        from torch import nn  # noqa: PLC0415
    except ImportError:
        return None
    device = "cuda" if torch.cuda.is_available() and jax.default_backend() == "gpu" else "cpu"
    channels = world.image_shape[2]
    widths, back = (channels, 32, 32, 64, 64), (64, 64, 32, 32, channels)
    encoder: list[Any] = []
    for i, o in itertools.pairwise(widths):
        encoder += [nn.Conv2d(i, o, 4, 2, 1), nn.ReLU()]
    encoder += [nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 2 * LATENTS)]
    decoder = [nn.Linear(LATENTS, 256), nn.ReLU(), nn.Linear(256, 1024), nn.ReLU(), nn.Unflatten(1, (64, 4, 4))]
    for i, o in itertools.pairwise(back):
        decoder += [nn.ConvTranspose2d(i, o, 4, 2, 1), nn.ReLU()]
    enc, dec = nn.Sequential(*encoder).to(device), nn.Sequential(*decoder[:-1]).to(device)
    optimiser = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 1e-4)
    pictures = world.render(np.arange(0, world.size, world.size // 2048))
    pool = torch.tensor(pictures).permute(0, 3, 1, 2).float().to(device) / 255

    def one() -> None:
        images = pool[torch.randint(0, len(pool), (BATCH,), device=device)]
        mean, logvar = enc(images).chunk(2, 1)
        logits = dec(mean + torch.exp(logvar / 2) * torch.randn_like(mean))
        rec = nn.functional.binary_cross_entropy_with_logits(logits, images, reduction="sum") / BATCH
        loss = rec + 4.0 * 0.5 * (logvar.exp() + mean**2 - 1 - logvar).sum() / BATCH
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    def steps(n: int) -> float:
        started = time.perf_counter()
        for _ in range(n):
            one()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started

    steps(2)
    return steps


def rates(contenders: dict[str, tuple[int, Callable[[int], float]]], seconds: float, rounds: int) -> dict[str, float]:
    """Model-steps a second of each contender (models, steps), measured in turns."""
    once = {name: steps(1) for name, (_, steps) in contenders.items()}
    rounds = max(1, min(rounds, int(seconds / max(once.values()))))  # where a step takes seconds, fewer do
    counts = {name: max(1, int(seconds / rounds / once[name])) for name in contenders}
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (_, steps) in contenders.items():
            taken[name].append(steps(counts[name]))
    return {name: models * counts[name] / median(taken[name]) for name, (models, _) in contenders.items()}


def table(title: str, world: World, models: Sequence[int], seconds: float, rounds: int) -> None:
    run = grid(world, "beta_vae", {"beta": 4.0}, batch=BATCH)[0]
    program = Program(world, signature(run))
    memory = program.memory(program.inputs([run]))
    print(f"\n### {title}: nets `{run.nets}`, {run.precision}\n")
    print("| what | models | model-steps/s | × one at a time |\n|---|---:|---:|---:|", flush=True)
    single = family_steps(world, 1)
    eager = torch_steps(world) if run.nets == "conv" else None
    first = {"Sober": (1, single)} | ({"PyTorch eager": (1, eager)} if eager else {})
    result = rates(first, seconds * len(first), rounds)
    base = result["Sober"]
    for name, rate in result.items():
        line(name, 1, rate, base)
    for count in models:
        if count == 1:
            continue
        if count > len(local_devices()) * memory.models(free_memory()):
            print(f"| Sober | {count} | does not fit at once | |")
            continue
        rate = rates({"family": (count, family_steps(world, count))}, seconds, rounds)["family"]
        line("Sober", count, rate, base)


def line(name: str, models: int, rate: float, base: float) -> None:
    print(f"| {name} | {models} | {rate:,.{0 if rate > 100 else 1}f} | {rate / base:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="1,16,64,256", help="family sizes")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each figure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("blocks", "dsprites", "rgb"), help="one table")
    chosen = parser.parse_args()
    models = [int(count) for count in chosen.models.split(",")]
    device = jax.local_devices()[0]
    print(f"{datetime.date.today()}, {device.device_kind} ({device.platform}), jax {jax.__version__}")
    tables: dict[str, tuple[str, Callable[[], World]]] = {
        "blocks": ("blocks, 16 × 16 × 1", lambda: open_world("blocks")),
        "dsprites": ("dsprites, 64 × 64 × 1", lambda: open_world("dsprites")),
        "rgb": ("dsprites in colour, 64 × 64 × 3", ColouredSprites),
    }
    for name, (title, opened) in tables.items():
        if chosen.only in (None, name):
            table(title, opened(), models, chosen.seconds, chosen.rounds)


if __name__ == "__main__":
    main()
