"""Seconds for the metrics of one model, against scikit-learn where it can do the same work, in one run.

python benchmarks/metrics.py                     the whole grid of dSprites, 10 latents: battery, memory, ratios
python benchmarks/metrics.py --declared          each metric's processor time beside the cost that it declares
python benchmarks/metrics.py --sklearn-rows 2000 compares trees on that many rows (all 10,000 take minutes)

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
from sober.metrics.common.metric_rows import split
from sober.metrics.common.predictability import predictability
from sober.parallel import one_thread
from sober.types import Codes, Setting

SIZES = (3, 6, 40, 32, 32)


def codes(seed: int) -> Codes:
    """Codes of a model; each seed is another model."""
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
    rounds_seconds = []
    for seed in range(rounds):
        model = codes(seed)
        started = time.perf_counter()
        scores = sober.score(model)
        rounds_seconds.append((time.perf_counter() - started, scores.seconds))
    total, by_metric = min(rounds_seconds, key=lambda pair: pair[0])
    for name, metric_seconds in by_metric.items():
        print(f"| {name} | {metric_seconds:.3f} |")
    print(f"| **whole battery** | **{total:.2f}** |")


def declared(names: list[str], rounds: int) -> None:
    """The processor time of each metric alone, beside the time that it declares to plans."""
    small, full = drawn_codes(600, 0), drawn_codes(20_000, 1)
    print("| metric | declared, s | processor time, s | declared ÷ measured |\n|---|---:|---:|---:|")
    for name in names:
        metric, times = METRICS[name], []
        metric(small)  # compiles, or loads the compiled code
        for _ in range(rounds):
            started = time.process_time()
            with one_thread():  # as where models are scored side by side
                metric(full)
            times.append(time.process_time() - started)
        took = min(times)
        print(f"| {name} | {metric.seconds:g} | {took:.3f} | {metric.seconds / took:.1f} |", flush=True)


def drawn_codes(rows: int, seed: int) -> Codes:
    """Codes of `rows` random pictures."""
    model, chosen = codes(seed), np.random.default_rng(seed).integers(0, np.prod(SIZES), rows)
    logvar = np.full((rows, 10), -2.4, np.float32)
    return as_codes(model.mean[chosen], model.factors[chosen], logvar=logvar)


def many(models: int) -> None:
    names = [name for name, metric in METRICS.items() if metric.default and metric.seconds < 1]
    ready = [codes(seed) for seed in range(min(models, 20))]  # 20 of them are 1.8 GB, so they are scored in turns
    repeated = (ready[index % len(ready)] for index in range(models))
    total = seconds(lambda: list(score_many(repeated, metrics=names)))
    print(f"\n{models} models without boosted trees: {total:.1f} s, {total / models:.2f} s each")


def against_sklearn(rows: int) -> None:
    """The same fits by scikit-learn: trees on `rows` rows, linear models on as many as in the study."""
    print("\n| the same fits | rows | Sober | scikit-learn | ratio |\n|---|---:|---:|---:|---:|")
    settings: dict[str, Setting] = {"train": rows, "test": rows // 2}
    tree_seconds = [
        seconds(partial(METRICS["dci"], codes(0), {**settings, "trees": trees})) for trees in ("boosted", "sklearn")
    ]
    line("boosted trees for DCI", rows, *tree_seconds)
    learn, check = split(codes(0), 10_000, 5_000, 0)
    line("support vector machines for SAP", 10_000, *_svm(learn, check))
    line("logistic regressions for explicitness", 10_000, *_logistic(learn))


def line(label: str, rows: int, ours: float, reference: float) -> None:
    print(f"| {label} | {rows:,} | {ours:.3f} s | {reference:.2f} s | {reference / ours:.0f} |", flush=True)


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
    parser.add_argument("--declared", nargs="*", metavar="NAME", help="only the costs that metrics declare")
    arguments = parser.parse_args()
    if arguments.declared is not None:
        declared(arguments.declared or list(METRICS), arguments.rounds)
        return
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, {np.prod(SIZES):,} rows, 10 latents\n")
    first = seconds(lambda: sober.score(codes(0), metrics="dci"))
    print(f"first DCI, with compiling or loading the compiled code: {first:.1f} s\n")
    battery(arguments.rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\nlargest memory of the process: {peak:.2f} GiB; codes and factors take 0.06 of it")
    if arguments.models:
        many(arguments.models)
    if arguments.sklearn_rows:
        against_sklearn(arguments.sklearn_rows)


if __name__ == "__main__":
    main()
