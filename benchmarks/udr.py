"""Microseconds for one ordered pair of models in UDR, against scikit-learn on the same rows and folds, in one run.

python benchmarks/udr.py                    20 models with 10 latents each, 10,000 rows, one core
python benchmarks/udr.py --sklearn-pairs 0  leaves scikit-learn out
python benchmarks/udr.py --models 408 --partners 50 --sklearn-pairs 0

Times are of the processor, for the one thread in use. Codes are already encoded; compilation, once per machine, is left
out. Every model holds ten sources in an order of its own, with noise, so that all latents are informative and every
path is followed through all of them.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time
from collections.abc import Callable

import numpy as np
import threadpoolctl
from sklearn.linear_model import LassoCV, MultiTaskLassoCV

from sober.criteria.udr import all_to_all, udr
from sober.estimators.lasso import Columns, regressions
from sober.types import Codes


def models(count: int, rows: int, latents: int) -> list[Codes]:
    rng = np.random.default_rng(0)
    sources = rng.standard_normal((rows, latents))
    noisy = [sources[:, rng.permutation(latents)] + 0.3 * rng.standard_normal((rows, latents)) for _ in range(count)]
    none = np.zeros((rows, 0), int)
    return [Codes(mean.astype(np.float32), np.full(mean.shape, -4.6, np.float32), none, ()) for mean in noisy]


def least(rounds: int, work: Callable[[], object]) -> float:
    """The least processor time of this thread in some rounds: what others do on the machine only adds to it."""
    taken = []
    for _ in range(rounds):
        started = time.thread_time()
        work()
        taken.append(time.thread_time() - started)
    return min(taken)


def line(what: str, seconds: float, ratio: float | None = None) -> None:
    print(f"| {what} | {1e6 * seconds:,.0f} | {'' if ratio is None else f'{ratio:,.0f}'} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--partners", type=int, help="of each model, in the whole of udr; else all others")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--latents", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=10, help="of which the best is shown")
    parser.add_argument("--sklearn-pairs", type=int, default=2, help="pairs for scikit-learn; 0 leaves it out")
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{datetime.date.today()}, {os.cpu_count()} cores of which one is used, load {load:.1f}")
    print(f"{chosen.models} models, {chosen.rows:,} rows, {chosen.latents} latents, 5 folds, 100 strengths\n")
    codes = models(chosen.models, chosen.rows, chosen.latents)
    some = codes[: min(len(codes), 50)]  # whose lassos are timed by themselves, all with all
    z = [(mean - mean.mean(axis=0)) / mean.std(axis=0) for mean in (each.mean.astype(np.float64) for each in some)]
    pairs = np.array([(i, j) for i in range(len(some)) for j in range(len(some)) if i != j])
    with threadpoolctl.threadpool_limits(1):
        columns = Columns.of(z)
        found, strength = regressions(columns, pairs)
        ours = least(chosen.rounds, lambda: regressions(columns, pairs)) / len(pairs)
        print("| one ordered pair | µs | scikit-learn takes so many times longer |\n|---|---:|---:|")
        line("lassos, Sober", ours)
        sums = least(chosen.rounds, lambda: columns.products(range(len(some)), range(len(some)))) / len(pairs)
        line("of which sums of products", sums)
        who = all_to_all(len(codes), chosen.partners)
        count = sum(map(len, who))
        line("whole of udr, lasso", least(chosen.rounds, lambda: udr(codes, partners=who)) / count)
        spearman = least(chosen.rounds, lambda: udr(codes, partners=who, similarity="spearman")) / count
        line("whole of udr, spearman", spearman)
        if not chosen.sklearn_pairs:
            return
        apart = [0.0, 0.0]
        started = time.thread_time()
        for at, (i, j) in enumerate(pairs[: chosen.sklearn_pairs]):
            for t in range(chosen.latents):
                theirs = LassoCV(cv=5).fit(z[j], z[i][:, t])
                apart[0] = max(apart[0], abs(theirs.alpha_ / strength[at, t] - 1))
                apart[1] = max(apart[1], float(np.abs(theirs.coef_ - found[at, t]).max()))
        spent = (time.thread_time() - started) / chosen.sklearn_pairs
        line("the same lassos, LassoCV", spent, spent / ours)
        spent = least(1, lambda: MultiTaskLassoCV(cv=5).fit(z[pairs[0, 1]], z[pairs[0, 0]]))
        line("all latents in one, MultiTaskLassoCV", spent, spent / ours)
    print(f"\nlargest difference from LassoCV: strength {apart[0]:.1e} of itself, coefficient {apart[1]:.1e}")


if __name__ == "__main__":
    main()
