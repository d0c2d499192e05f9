"""How often `sober.compare` calls a difference real although both codes follow one law, over many pairs of codes.

    python benchmarks/compare.py --trials 200 --rows 600

Each trial draws factors and two codes of these factors with independent noise, so any difference is chance. Prints for
each score the share of trials whose interval excludes 0: intervals of 95% promise 5%.
"""

from __future__ import annotations

import argparse
import collections

import numpy as np

from sober.metrics.common.inputs import as_codes
from sober.metrics.scoring.comparison import compared

METRICS = ("factor_vae", "mig", "modularity", "explicitness", "sap", "irs", "gaussian_total_correlation", "mcc", "r2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--metrics", nargs="+", default=METRICS)
    arguments = parser.parse_args()
    missed, real = collections.Counter[str](), 0
    for trial in range(arguments.trials):
        comparison = compared(pair(trial, arguments.rows), arguments.metrics, seed=trial)
        missed.update(row.score for row in comparison.differences if not row.low <= 0 <= row.high)
        real += bool(comparison.real())
    scores = [row.score for row in comparison.differences]
    print(f"{arguments.trials} trials of {arguments.rows} rows: share of intervals that exclude 0, with no difference")
    for score in scores:
        print(f"  {score:<32} {missed[score] / arguments.trials:.1%}")
    print(f"  {'any, after adjusting':<32} {real / arguments.trials:.1%}")


def pair(trial: int, rows: int) -> dict:
    rng = np.random.default_rng(trial)
    factors = rng.integers(0, [3, 4, 5], (rows, 3))
    mixing = np.eye(3, 5) + 0.2
    codes = (factors @ mixing + 0.7 * rng.normal(size=(rows, 5)) for _ in range(2))
    return {name: as_codes(array, factors) for name, array in zip("ab", codes, strict=True)}


if __name__ == "__main__":
    main()
