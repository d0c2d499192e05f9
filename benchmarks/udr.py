"""Microseconds for one ordered pair of models in UDR, against scikit-learn on the same rows and folds, in one run.

python benchmarks/udr.py                    20 models with 10 latents each, 10,000 rows, one core
python benchmarks/udr.py --sklearn-pairs 0  leaves scikit-learn out
python benchmarks/udr.py --models 408 --partners 50 --sklearn-pairs 0

Times are processor times of the one thread in use. Codes are already encoded; compilation, once per machine, is left
out. Every model holds ten sources in its own order, with noise, so all latents are informative and every lasso path
runs through all of them.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LassoCV, MultiTaskLassoCV

from sober.criteria.udr import all_to_all, udr
from sober.estimators.lasso import ModelColumns, regressions
from sober.parallel import one_thread
from sober.types import Codes


def models(count: int, rows: int, latents: int) -> list[Codes]:
    rng = np.random.default_rng(0)
    sources = rng.standard_normal((rows, latents))
    noisy = [sources[:, rng.permutation(latents)] + 0.3 * rng.standard_normal((rows, latents)) for _ in range(count)]
    none = np.zeros((rows, 0), int)
    return [Codes(mean.astype(np.float32), np.full(mean.shape, -4.6, np.float32), none, ()) for mean in noisy]


def least(rounds: int, work: Callable[[], object]) -> float:
    """The least processor time of this thread over several rounds: other work on the machine only adds to it."""
    times = []
    for _ in range(rounds):
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return min(times)


def line(label: str, seconds: float, ratio: float | None = None) -> None:
    print(f"| {label} | {1e6 * seconds:,.0f} | {'' if ratio is None else f'{ratio:,.0f}'} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--partners", type=int, help="of each model, in the whole of udr; else all others")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--latents", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=10, help="the best of these rounds is shown")
    parser.add_argument("--sklearn-pairs", type=int, default=2, help="pairs for scikit-learn; 0 leaves it out")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, one in use, load {load:.1f}")
    print(f"{arguments.models} models, {arguments.rows:,} rows, {arguments.latents} latents, 5 folds, 100 strengths\n")
    codes = models(arguments.models, arguments.rows, arguments.latents)
    lasso_codes = codes[: min(len(codes), 50)]  # for timing the lassos alone, all models with all
    means = [model.mean.astype(np.float64) for model in lasso_codes]
    z = [(mean - mean.mean(axis=0)) / mean.std(axis=0) for mean in means]
    pairs = np.array([(i, j) for i in range(len(z)) for j in range(len(z)) if i != j])
    with one_thread():
        columns = ModelColumns.of(z)
        weights, strength = regressions(columns, pairs)
        ours = least(arguments.rounds, lambda: regressions(columns, pairs)) / len(pairs)
        print("| one ordered pair | µs | scikit-learn ÷ Sober |\n|---|---:|---:|")
        line("lassos, Sober", ours)
        sums = least(arguments.rounds, lambda: columns.products(range(len(z)), range(len(z)))) / len(pairs)
        line("sums of products among these", sums)
        partners = all_to_all(len(codes), arguments.partners)
        count = sum(map(len, partners))
        line("whole of udr, lasso", least(arguments.rounds, lambda: udr(codes, partners=partners)) / count)
        spearman = least(arguments.rounds, lambda: udr(codes, partners=partners, similarity="spearman")) / count
        line("whole of udr, spearman", spearman)
        if not arguments.sklearn_pairs:
            return
        strength_difference = weight_difference = 0.0
        started = time.thread_time()
        for pair, (i, j) in enumerate(pairs[: arguments.sklearn_pairs]):
            for t in range(arguments.latents):
                reference = LassoCV(cv=5).fit(z[j], z[i][:, t])
                strength_difference = max(strength_difference, abs(reference.alpha_ / strength[pair, t] - 1))
                weight_difference = max(weight_difference, float(np.abs(reference.coef_ - weights[pair, t]).max()))
        their_seconds = (time.thread_time() - started) / arguments.sklearn_pairs
        line("the same lassos, LassoCV", their_seconds, their_seconds / ours)
        their_seconds = least(1, lambda: MultiTaskLassoCV(cv=5).fit(z[pairs[0, 1]], z[pairs[0, 0]]))
        line("all latents in one, MultiTaskLassoCV", their_seconds, their_seconds / ours)
    print(
        f"\nlargest difference from LassoCV: strength {strength_difference:.1e} of itself, "
        f"coefficient {weight_difference:.1e}"
    )


if __name__ == "__main__":
    main()
