"""Model-steps per second of every training method beside β-VAE, families of one size, in one run.

python benchmarks/methods.py                              all methods, 64 models, on dSprites (a GPU)
python benchmarks/methods.py --world blocks --models 16   on a CPU

Each method trains with its defaults; rounds of β-VAE and of the method alternate, so that both see the same machine.
Compilation is left out. The last column says how many programs were compiled for two seeds and two values of every
hyperparameter: one.
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Callable
from statistics import median

import jax

from sober.methods import METHODS
from sober.models.grid import grid
from sober.spread import Spread
from sober.training.cohort import Program, signature
from sober.types import Run
from sober.worlds import World, world

BATCH = 64


def runs_of(opened: World, method: str, models: int, scale: float = 1.0, seed: int = 0) -> list[Run]:
    """Runs of the method with every number among its hyperparameters times `scale`."""
    numbers = {h.name: scale * h.default for h in METHODS[method].hyper if isinstance(h.default, float)}
    return grid(opened, method, numbers, seeds=range(seed, seed + models), batch=BATCH)


def stepper(opened: World, method: str, models: int) -> tuple[Callable[[int], float], Callable[[], int]]:
    """A function that trains a family for n steps and returns the seconds it took, and one that counts programs."""
    runs = runs_of(opened, method, models)
    program = Program(opened, signature(runs[0]))
    spread = Spread(models)
    inputs, data = spread.place(program.inputs(runs)), spread.copied(opened.data)
    carry = program.init(inputs, data)

    def steps(n: int) -> float:
        nonlocal carry
        started = time.perf_counter()
        carry = jax.block_until_ready(program.advance(carry, data, inputs, int(carry.step) + n))
        return time.perf_counter() - started

    def programs() -> int:
        nonlocal carry
        others = spread.place(program.inputs(runs_of(opened, method, models, scale=0.9, seed=models)))
        carry = program.advance(program.init(others, data), data, others, 2)
        return int(program.advance._cache_size())

    steps(1)  # compiles
    return steps, programs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="dsprites")
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each figure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--methods", default=",".join(METHODS), help="which, separated by commas")
    chosen = parser.parse_args()
    opened, device = world(chosen.world), jax.local_devices()[0]
    print(f"{datetime.date.today()}, {device.device_kind} ({device.platform}), jax {jax.__version__}")
    print(f"{opened.name}, {chosen.models} models, batch {BATCH}\n")
    print("| method | model-steps/s | of β-VAE | programs |\n|---|---:|---:|---:|", flush=True)
    reference, _ = stepper(opened, "beta_vae", chosen.models)
    for method in chosen.methods.split(","):
        steps, programs = stepper(opened, method, chosen.models)
        count, base = (max(1, int(chosen.seconds / chosen.rounds / each(1))) for each in (steps, reference))
        taken = [(steps(count) / count, reference(base) / base) for _ in range(chosen.rounds)]
        rate = chosen.models / median(own for own, _ in taken)
        share = median(other / own for own, other in taken)
        print(f"| {method} | {rate:,.0f} | {share:.2f} | {programs()} |", flush=True)


if __name__ == "__main__":
    main()
