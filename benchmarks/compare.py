"""How often `sober.compare` calls a difference real where there is none: two codes of one law, time and again.

    python benchmarks/compare.py --trials 200 --rows 600

Each trial draws factors, and two codes of the same factors with noise of their own, so that any difference is chance.
Prints, for each score, the share of trials whose interval leaves out 0: 5% is what intervals of 95% promise.
"""

from __future__ import annotations

import argparse
import collections

import numpy as np

from sober.metrics.comparison import compared
from sober.metrics.inputs import as_codes

METRICS = ("factor_vae", "mig", "modularity", "explicitness", "sap", "irs", "gaussian_total_correlation", "mcc", "r2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--metrics", nargs="+", default=METRICS)
    asked = parser.parse_args()
    missed, real = collections.Counter[str](), 0
    for trial in range(asked.trials):
        found = compared(pair(trial, asked.rows), asked.metrics, seed=trial)
        missed.update(each.score for each in found.differences if not each.low <= 0 <= each.high)
        real += bool(found.real())
    scores = [each.score for each in found.differences]
    print(f"{asked.trials} trials of {asked.rows} rows: share of intervals without 0, where there is no difference")
    for score in scores:
        print(f"  {score:<32} {missed[score] / asked.trials:.1%}")
    print(f"  {'any, after adjusting':<32} {real / asked.trials:.1%}")


def pair(trial: int, rows: int) -> dict:
    rng = np.random.default_rng(trial)
    factors = rng.integers(0, [3, 4, 5], (rows, 3))
    mixing = np.eye(3, 5) + 0.2
    codes = (factors @ mixing + 0.7 * rng.normal(size=(rows, 5)) for _ in range(2))
    return {name: as_codes(each, factors) for name, each in zip("ab", codes, strict=True)}


if __name__ == "__main__":
    main()
