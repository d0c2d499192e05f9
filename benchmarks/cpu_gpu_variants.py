"""Time of a training step with the other device's variant of each operation in nets/cpu_gpu_variants.py.

python benchmarks/cpu_gpu_variants.py                    all tables
python benchmarks/cpu_gpu_variants.py --only blocks --rounds 31

Models are 16 `small` ones on blocks; and `conv` ones on dsprites, grey and in colour: one on a CPU, 64 on a GPU.

Models have plain layers: kernels would take the place of most variants. A step of a β-VAE, batch 64, is timed as
shipped and with one variant exchanged, in turns whose order alternates. Each ratio compares two turns of one round, so
a machine that slows down slows both. Printed are the median and the quartiles over rounds, of seconds and of processor
time, which is steadier on a busy CPU (on a GPU it says nothing). Above 1 the variant as shipped is faster. The first
row exchanges nothing and shows the noise. Compilation is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import time
from collections.abc import Callable, Iterator
from statistics import quantiles
from typing import NamedTuple
from unittest import mock

import jax

from family_steps import FamilySteps
from sober.nets.cpu_gpu_variants import VARIANTS, Variant
from sober.worlds import World
from train import TABLES, family_runs

Steps = Callable[[int], float]


class Times(NamedTuple):
    """Seconds by the clock, and of all cores of the processor; or ratios of them."""

    clock: float
    processor: float


@contextlib.contextmanager
def exchanged(name: str) -> Iterator[mock.Mock]:
    """Exchanges an operation for the other device's variant while a program is traced; yields the mock called."""
    cpu, gpu = VARIANTS[name]
    other = mock.Mock(side_effect=Variant(cpu=gpu, gpu=cpu))
    with mock.patch.dict(VARIANTS, {name: other}):
        yield other


def turn(steps: Steps, count: int) -> Times:
    """The time of a step, mean over `count` steps."""
    before = time.process_time()
    clock = steps(count)
    return Times(clock / count, (time.process_time() - before) / count)


def ratios(shipped: Steps, exchanged_steps: Steps, seconds: float, rounds: int) -> list[Times]:
    """In each round, the time of a step with the exchanged variant, divided by that of a step as shipped."""
    variants = (shipped, exchanged_steps)
    # Equally many steps for both: each turn also allocates memory, a cost that is shared by its steps.
    count = max(1, int(seconds / min(turn(steps, 2).clock for steps in variants)))
    measured = []
    for number in range(rounds):
        times = {steps: turn(steps, count) for steps in variants[:: 1 if number % 2 else -1]}
        measured.append(Times(*(a / b for a, b in zip(times[exchanged_steps], times[shipped], strict=True))))
    return measured


def table(title: str, world: World, models: int, seconds: float, rounds: int) -> None:
    print(f"\n### {title}, models: {models}\n")
    print("| the other variant of | step ÷ as shipped | quartiles | processor time | quartiles |")
    print("|---|---:|---:|---:|---:|", flush=True)
    runs = family_runs(world, models)
    shipped = FamilySteps(world, runs, plain=True)
    line("nothing", ratios(shipped, FamilySteps(world, runs, plain=True), seconds, rounds))
    for variant in VARIANTS:
        with exchanged(variant) as other:
            steps = FamilySteps(world, runs, plain=True)
        if other.called:
            line(variant, ratios(shipped, steps, seconds, rounds))
        else:
            print(f"| {variant} | not in these nets | | | |", flush=True)


def line(variant: str, measured: list[Times]) -> None:
    cells = []
    for values in zip(*measured, strict=True):
        low, middle, high = quantiles(values, n=4)
        cells += [f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
    print(f"| {variant} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each turn")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--only", choices=TABLES, help="one table")
    arguments = parser.parse_args()
    device = jax.local_devices()[0]
    print(f"{datetime.date.today()}, {device.device_kind} ({device.platform}), jax {jax.__version__}")
    for name, (title, opened) in TABLES.items():
        if arguments.only in (None, name):
            models = 16 if name == "blocks" else 1 if device.platform == "cpu" else 64
            table(title, opened(), models, arguments.seconds, arguments.rounds)


if __name__ == "__main__":
    main()
