"""What a training step takes with the other device's form of each operation that is written twice (nets/forms.py).

python benchmarks/forms.py                    16 `small` models on blocks, and `conv` ones on dsprites, grey and in
                                              colour: one on a CPU, 64 on a GPU
python benchmarks/forms.py --only blocks --rounds 31

A step of a β-VAE, batch 64, as shipped and with one form exchanged, in turns: first one, then the other, in the next
round the other way round. A ratio is that of two turns of one round, so that a machine that slows down slows down both;
printed are the median of the rounds and the quartiles, of seconds and of the processor's time, which on a busy CPU is
the steadier of the two (on a GPU it says nothing). Above 1 the form as shipped is faster. The first row exchanges
nothing: it is what noise looks like. Compilation is left out.
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

from sober.nets.forms import FORMS, Form
from sober.worlds import World
from train import TABLES, family_steps

Steps = Callable[[int], float]


class Times(NamedTuple):
    """Seconds by the clock, and of all cores of the processor; or ratios of them."""

    clock: float
    processor: float


@contextlib.contextmanager
def exchanged(name: str) -> Iterator[mock.Mock]:
    """While a program is traced, the other device's form of an operation. Yields what is called instead."""
    cpu, gpu = FORMS[name]
    other = mock.Mock(side_effect=Form(cpu=gpu, gpu=cpu))
    with mock.patch.dict(FORMS, {name: other}):
        yield other


def turn(steps: Steps, count: int) -> Times:
    """What a step takes, the mean of so many."""
    before = time.process_time()
    clock = steps(count)
    return Times(clock / count, (time.process_time() - before) / count)


def ratios(shipped: Steps, other: Steps, seconds: float, rounds: int) -> list[Times]:
    """In each round, what a step of the other takes, divided by what a step as shipped takes."""
    both = (shipped, other)
    # As many steps for both: each turn also takes memory from the system, which more steps would share.
    count = max(1, int(seconds / min(turn(steps, 2).clock for steps in both)))
    measured = []
    for number in range(rounds):
        taken = {steps: turn(steps, count) for steps in both[:: 1 if number % 2 else -1]}
        measured.append(Times(*(a / b for a, b in zip(taken[other], taken[shipped], strict=True))))
    return measured


def table(title: str, world: World, models: int, seconds: float, rounds: int) -> None:
    print(f"\n### {title}, models: {models}\n")
    print("| the other form of | step ÷ as shipped | quartiles | processor time | quartiles |")
    print("|---|---:|---:|---:|---:|", flush=True)
    shipped = family_steps(world, models)
    line("nothing", ratios(shipped, family_steps(world, models), seconds, rounds))
    for form in FORMS:
        with exchanged(form) as other:
            steps = family_steps(world, models)
        if other.called:
            line(form, ratios(shipped, steps, seconds, rounds))
        else:
            print(f"| {form} | not in these nets | | | |", flush=True)


def line(form: str, measured: list[Times]) -> None:
    cells = []
    for values in zip(*measured, strict=True):
        low, middle, high = quantiles(values, n=4)
        cells += [f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
    print(f"| {form} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each turn")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--only", choices=TABLES, help="one table")
    chosen = parser.parse_args()
    device = jax.local_devices()[0]
    print(f"{datetime.date.today()}, {device.device_kind} ({device.platform}), jax {jax.__version__}")
    for name, (title, opened) in TABLES.items():
        if chosen.only in (None, name):
            models = 16 if name == "blocks" else 1 if device.platform == "cpu" else 64
            table(title, opened(), models, chosen.seconds, chosen.rounds)


if __name__ == "__main__":
    main()
