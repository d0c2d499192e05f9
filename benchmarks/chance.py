"""Seconds that `chance` takes: 20 shuffles of a battery, against one score and against 20 scores of shuffled factors.

python benchmarks/chance.py                        the default battery, 20,000 rows of 10 latents and 5 factors
python benchmarks/chance.py --metrics mig sap irs  some metrics
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import sober

SIZES = (3, 6, 10, 8, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--shuffles", type=int, default=20)
    parser.add_argument("--metrics", nargs="+")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    factors = rng.integers(0, SIZES, (arguments.rows, len(SIZES)))
    codes = rng.normal(size=(arguments.rows, 10))
    codes[:, : len(SIZES)] += factors
    orders = [rng.permutation(arguments.rows) for _ in range(arguments.shuffles)]

    def score(order: np.ndarray | None = None, chance: int = 0) -> sober.Scores:
        return sober.score(
            codes, factors if order is None else factors[order], metrics=arguments.metrics, chance=chance
        )

    score()  # compiles
    once = seconds(score)
    shuffled = seconds(lambda: score(chance=arguments.shuffles)) - once
    loop = seconds(lambda: [score(order) for order in orders])
    print(f"one score            {once:8.2f} s")
    print(f"{arguments.shuffles} shuffles          {shuffled:8.2f} s, {shuffled / loop:.2f} of the loop")
    print(f"{arguments.shuffles} scores, in a loop {loop:8.2f} s")


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
