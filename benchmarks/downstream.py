"""Seconds for the task downstream with one model of dSprites, against scikit-learn on the same rows, in one run.

python benchmarks/downstream.py                   everything; of scikit-learn's trees on 10,000 rows only some stages
python benchmarks/downstream.py --tree-stages 100 all their stages, which takes many minutes

Codes are each factor plus noise in a latent of its own, and five latents of noise: 15,000 rows of 10 latents, factors
of 3, 6, 40, 32 and 32 values. scikit-learn is LogisticRegressionCV(Cs=10, cv=5) and GradientBoostingClassifier(), each
on one core; all stages of trees take equally long, so a few of 100 suffice. The table has processor time, which
other work on the machine changes little; Sober uses all cores. Compilation (once per machine) is left out.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time
import warnings

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV

from sober.estimators.folds import stratified
from sober.metrics import as_codes
from sober.parallel import one_thread
from sober.tasks import TASKS, Subjects
from sober.tasks.downstream import Experiment, by_logistic, by_trees, training_sets
from sober.types import Codes

VALUES = (3, 6, 40, 32, 32)
STAGES = 100  # of boosted trees, by default


def model_codes(seed: int, rows: int = 15_000) -> Codes:
    """Codes of random pictures by a model; each seed is another model."""
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(values, size=rows) for values in VALUES], axis=1)
    mean = rng.standard_normal((rows, 10), dtype=np.float32)
    mean[:, :5] *= 0.3
    mean[:, :5] += (factors - factors.mean(axis=0)) / factors.std(axis=0)
    return as_codes(mean, factors)


def timed_logistic(learn: Codes, check: Codes) -> tuple[float, list[float]]:
    """Seconds of scikit-learn for one set of rows, and the accuracy for each factor."""
    accuracies, started = [], time.process_time()
    for target, truth in zip(learn.factors.T, check.factors.T, strict=True):
        fold = stratified(target, 5)  # scikit-learn's own folds, where it does not refuse the classes
        splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(5)]
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore")
            model = LogisticRegressionCV(Cs=10, cv=splits, scoring="accuracy").fit(learn.mean, target)
        accuracies.append(float(np.mean(model.predict(check.mean) == truth)))
    return time.process_time() - started, accuracies


def timed_trees(learn: Codes, check: Codes, stages: int) -> tuple[float, list[float]]:
    """The same for trees. The seconds of all stages are extrapolated from `stages` of them."""
    accuracies, started = [], time.process_time()
    for target, truth in zip(learn.factors.T, check.factors.T, strict=True):
        model = GradientBoostingClassifier(n_estimators=stages, random_state=0).fit(learn.mean, target)
        accuracies.append(float(np.mean(model.predict(check.mean) == truth)))
    return (time.process_time() - started) * STAGES / stages, accuracies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of the task; the range is shown")
    parser.add_argument("--tree-stages", type=int, default=3, help="of scikit-learn's trees of 10,000 rows, of 100")
    arguments = parser.parse_args()
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before\n")
    task, codes = TASKS["downstream"], model_codes(0)
    task(Subjects((codes,)), task.quick)
    wall_seconds, core_seconds = [], []
    for _ in range(arguments.rounds):
        wall_start, core_start = time.perf_counter(), time.process_time()
        (outcome,) = task(Subjects((codes,)))
        wall_seconds.append(time.perf_counter() - wall_start)
        core_seconds.append(time.process_time() - core_start)
    print(
        f"the whole task for one model: {min(wall_seconds):.1f} to {max(wall_seconds):.1f} s, "
        f"processor time {min(core_seconds):.1f} s\n"
    )

    learn, check = training_sets(codes, 5_000, 10_000, 0)
    print("| predictor | rows | Sober | scikit-learn | ratio | accuracies, Sober | scikit-learn |")
    print("|---|---:|---:|---:|---:|---|---|")
    total = 0.0
    for name, predict in (("logistic", by_logistic), ("boosted", by_trees)):
        for rows in learn:
            size = len(rows.mean)
            started = time.process_time()
            predict(Experiment((rows,), check, 0, 5, 10, STAGES, "optimum", "boosted"))
            ours = time.process_time() - started
            stages = arguments.tree_stages if size == 10_000 else STAGES
            reference, accuracies = (
                timed_logistic(rows, check) if name == "logistic" else timed_trees(rows, check, stages)
            )
            total += reference
            complete = name == "logistic" or stages == STAGES
            their_accuracies = _listed(accuracies) if complete else f"({stages} stages alone)"
            our_accuracies = _listed(outcome.parts[f"{name}_{size}_per_factor"])
            seconds = f"{ours:.2f} s | {reference:.1f} s | {reference / ours:.0f}"
            print(f"| {name} | {size:,} | {seconds} | {our_accuracies} | {their_accuracies} |", flush=True)
    print(f"\nscikit-learn in all: {total:.0f} s of a core, {total / min(core_seconds):.0f} times as many")


def _listed(accuracies: np.ndarray | list[float]) -> str:
    return " ".join(f"{accuracy:.3f}" for accuracy in accuracies)


if __name__ == "__main__":
    main()
