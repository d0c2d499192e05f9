"""Seconds for the metrics of one model, against scikit-learn where it can do the same work, in one run.

python benchmarks/metrics.py                     the whole grid of dSprites, 10 latents: battery, memory, ratios
python benchmarks/metrics.py --sklearn-rows 2000 compares trees on so many rows (all 10,000 take minutes)

The codes are each factor plus noise in a latent of its own, and five latents of noise, over all 737,280 pictures. Codes
are already encoded; compilation (once per machine) is left out and shown by itself.
"""

from __future__ import annotations

import argparse
import datetime
import os
import resource
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import sober
from sober.estimators.linear import one_vs_rest
from sober.metrics import METRICS, as_codes, score_many
from sober.metrics.matrices import predictability
from sober.metrics.rows import split
from sober.types import Codes, Setting

SIZES = (3, 6, 40, 32, 32)


def codes(seed: int) -> Codes:
    """A model's codes, another for each seed."""
    rng = np.random.default_rng(seed)
    factors = np.stack(np.unravel_index(np.arange(np.prod(SIZES)), SIZES), axis=1)
    mean = rng.standard_normal((len(factors), 10), dtype=np.float32)
    mean[:, :5] *= 0.3
    mean[:, :5] += (factors - factors.mean(axis=0)) / factors.std(axis=0)
    return as_codes(mean, factors)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def battery(rounds: int) -> None:
    print("| metric | seconds |\n|---|---:|")
    found = []
    for seed in range(rounds):
        model = codes(seed)
        started = time.perf_counter()
        scores = sober.score(model)
        found.append((time.perf_counter() - started, scores.seconds))
    total, each = min(found, key=lambda pair: pair[0])
    for name, spent in each.items():
        print(f"| {name} | {spent:.3f} |")
    print(f"| **whole battery** | **{total:.2f}** |")


def many(models: int) -> None:
    names = [name for name, metric in METRICS.items() if metric.seconds < 1]
    ready = [codes(seed) for seed in range(min(models, 20))]  # 20 of them are 1.8 GB, so they come round again
    coming = (ready[at % len(ready)] for at in range(models))
    spent = seconds(lambda: list(score_many(coming, metrics=names)))
    print(f"\n{models} models without boosted trees: {spent:.1f} s, {spent / models:.2f} s each")


def against_sklearn(rows: int) -> None:
    """The same fits by scikit-learn: trees on so many rows, linear models on the study's."""
    print("\n| the same fits | rows | Sober | scikit-learn | ratio |\n|---|---:|---:|---:|---:|")
    few: dict[str, Setting] = {"train": rows, "test": rows // 2}
    taken = [seconds(partial(METRICS["dci"], codes(0), {**few, "trees": trees})) for trees in ("boosted", "sklearn")]
    line("boosted trees for DCI", rows, *taken)
    learn, check = split(codes(0), 10_000, 5_000, 0)
    line("support vector machines for SAP", 10_000, *_svm(learn, check))
    line("logistic regressions for explicitness", 10_000, *_logistic(learn))


def line(what: str, rows: int, ours: float, theirs: float) -> None:
    print(f"| {what} | {rows:,} | {ours:.3f} s | {theirs:.2f} s | {theirs / ours:.0f} |", flush=True)


def _svm(learn: Codes, check: Codes) -> tuple[float, float]:
    def theirs() -> None:
        for j in range(10):
            for k in range(5):
                model = LinearSVC(C=0.01, class_weight="balanced", random_state=0)
                model.fit(learn.mean[:, [j]], learn.factors[:, k]).predict(check.mean[:, [j]])

    return seconds(lambda: predictability(learn, check)), seconds(theirs)


def _logistic(learn: Codes) -> tuple[float, float]:
    def theirs() -> None:
        for k in range(5):
            OneVsRestClassifier(LogisticRegression()).fit(learn.mean, learn.factors[:, k])

    def ours() -> None:
        for k in range(5):
            one_vs_rest(learn.mean, learn.factors[:, k])

    return seconds(ours), seconds(theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of the battery; the best is shown")
    parser.add_argument("--models", type=int, default=100, help="to take through the battery without DCI")
    parser.add_argument("--sklearn-rows", type=int, default=1_000, help="for scikit-learn's trees; 0 leaves it out")
    chosen = parser.parse_args()
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, {np.prod(SIZES):,} rows, 10 latents\n")
    first = seconds(lambda: sober.score(codes(0), metrics="dci"))
    print(f"first DCI, with compilation or loading what was compiled: {first:.1f} s\n")
    battery(chosen.rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\nlargest memory of the process: {peak:.2f} GiB, of which the codes and factors are 0.06")
    if chosen.models:
        many(chosen.models)
    if chosen.sklearn_rows:
        against_sklearn(chosen.sklearn_rows)


if __name__ == "__main__":
    main()
