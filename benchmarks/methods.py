"""Model-steps per second of every training method beside β-VAE, families of one size, in one run.

python benchmarks/methods.py                              all methods, 64 models, on dSprites (a GPU)
python benchmarks/methods.py --world blocks --models 16   on a CPU

Each method trains with its defaults; rounds of β-VAE and of the method alternate, so that both see the same machine.
Compilation is left out. Families train with the program that `sober train` chooses on this machine; *by plain layers*
is the rate of the same program without kernels. The last column says how many programs were compiled for two seeds and
two values of every hyperparameter: one.
"""

from __future__ import annotations

import argparse
import datetime
from statistics import median

import jax

from family_steps import FamilySteps
from sober.methods import METHODS
from sober.models.grid import grid
from sober.types import Run
from sober.worlds import World, world

BATCH = 64


def runs_of(opened: World, method: str, models: int, scale: float = 1.0, seed: int = 0) -> list[Run]:
    """Runs of the method with every number among its hyperparameters times `scale`."""
    numbers = {h.name: scale * h.default for h in METHODS[method].hyper if isinstance(h.default, float)}
    return grid(opened, method, numbers, seeds=range(seed, seed + models), batch=BATCH)


def programs_compiled(family: FamilySteps, opened: World, method: str) -> int:
    """How many programs the family's steps have compiled once other seeds and hyperparameters have trained too."""
    others = runs_of(opened, method, family.models, scale=0.9, seed=family.models)
    family.inputs = family.placement.place(family.program.inputs(others))
    family.carry = family.program.init(family.inputs, opened.example)
    family(2)
    return int(family.program.advance._cache_size())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="dsprites")
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each figure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--methods", default=",".join(METHODS), help="which, separated by commas")
    arguments = parser.parse_args()
    opened, device = world(arguments.world), jax.local_devices()[0]
    print(f"{datetime.date.today()}, {device.device_kind} ({device.platform}), jax {jax.__version__}")
    print(f"{opened.name}, {arguments.models} models, batch {BATCH}\n")
    reference = FamilySteps(opened, runs_of(opened, "beta_vae", arguments.models))
    print(f"{reference.reason or 'these nets have no kernels'}\n")
    print("| method | model-steps/s | of β-VAE | by plain layers | programs |\n|---|---:|---:|---:|---:|", flush=True)
    for method in arguments.methods.split(","):
        runs = runs_of(opened, method, arguments.models)
        steps = FamilySteps(opened, runs)
        plain = FamilySteps(opened, runs, plain=True) if steps.uses_kernels else None
        count, base = (max(1, int(arguments.seconds / arguments.rounds / family(1))) for family in (steps, reference))
        times = [(steps(count) / count, reference(base) / base) for _ in range(arguments.rounds)]
        rate = arguments.models / median(seconds for seconds, _ in times)
        share = median(of_reference / seconds for seconds, of_reference in times)
        plain_rate = f"{arguments.models * count / plain(count):,.0f}" if plain else "the same"
        programs = programs_compiled(steps, opened, method)
        print(f"| {method} | {rate:,.0f} | {share:.2f} | {plain_rate} | {programs} |", flush=True)


if __name__ == "__main__":
    main()
