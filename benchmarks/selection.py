"""Does choosing without labels work? The pick of each criterion against a random pick and the best one.

python benchmarks/selection.py --out results                  twenty families of 18 on blocks, two kinds (a GPU)
python benchmarks/selection.py --out results --families 2     a first look on a CPU

A family of the first kind has β-VAEs at three strengths with six seeds each; one of the second kind has DAVA, β-TCVAE
and β-VAE at two strengths each with three seeds. Every criterion picks a model from each family without labels; the
labels then score the picks. Intervals are bootstraps over families.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import jax
import numpy as np
from scipy.stats import rankdata

from sober.criteria import CRITERIA, Evidence, fit_to_judge
from sober.criteria.criterion import UNFIT
from sober.metrics import score
from sober.models.grid import grid
from sober.requests.results import Results
from sober.requests.train import train
from sober.shared import Shared
from sober.types import Adam, Codes, Run
from sober.worlds import world

KINDS: dict[str, tuple[dict[str, dict[str, list[float]]], int]] = {
    "beta_vae": ({"beta_vae": {"beta": [1.0, 2.0, 4.0]}}, 6),
    "fit": (
        {"dava": {"delta_c": [0.0025, 0.005]}, "beta_tcvae": {"beta": [2.0, 4.0]}, "beta_vae": {"beta": [2.0, 4.0]}},
        3,
    ),
}
SUITED_TO = 8_000  # steps of training that criteria are set for: discriminators get 1,000 steps at 1e-3
METRICS = ("mig", "dci_disentanglement")


def supervised(codes: Codes) -> dict[str, float]:
    scores = score(codes, metrics=list(METRICS))
    return {name: float(scores[name]) for name in METRICS}


def families(kind: str, count: int, steps: int) -> list[list[Run]]:
    """Families of runs, each with its own seeds."""
    blocks = world("blocks")
    methods, seeds = KINDS[kind]
    return [
        [
            run
            for method, sweep in methods.items()
            for run in grid(
                blocks,
                method,
                sweep,
                seeds=range(family * seeds, (family + 1) * seeds),
                steps=steps,
                latents=6,
                optimiser=Adam(1e-3),
            )
        ]
        for family in range(count)
    ]


def scores_of_families(
    results: Results, groups: list[list[Run]], workers: int
) -> list[dict[str, dict[str, list[float]]]]:
    """For each family: the scores of its models by each criterion and metric. Unfit models get the worst score."""
    codes = {run: codes for run, codes in results.encode() if fit_to_judge(codes)}
    evidence = Evidence(results.world, tuple(codes), tuple(codes.values()), None, results.model)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        labels = dict(zip(evidence.runs, pool.map(supervised, evidence.codes), strict=True))
    families_scores = []
    for group in groups:
        family_evidence, shared = evidence.only(run for run in group if run in codes), Shared()
        criteria = {}
        for name, criterion in CRITERIA.items():
            judgement = criterion(family_evidence, criterion.suited(SUITED_TO), shared=shared)
            sign = 1 if criterion.better == "higher" else -1
            unfit = np.array([bool(set(flags) & set(UNFIT)) for flags in judgement.flags])
            criteria[name] = np.where(unfit, -1e9, sign * judgement.scores).tolist()
        metrics = {name: [labels[run][name] for run in family_evidence.runs] for name in METRICS}
        families_scores.append({"criteria": criteria, "metrics": metrics})
    return families_scores


def table(families_scores: list[dict[str, dict[str, list[float]]]], metric: str) -> list[str]:
    """A row for each criterion: the metric of its pick, how often it beats random, rank correlation, with intervals."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(families_scores), (10_000, len(families_scores)))
    lines = []
    names = families_scores[0]["criteria"]
    ranks = {name: [rankdata(family["criteria"][name]) for family in families_scores] for name in names}
    rules = {**ranks, "udr + pipe_rec": [a + b for a, b in zip(ranks["udr"], ranks["pipe_rec"], strict=True)]}
    for rule, values in rules.items():
        pick, beats, above, correlation = [], [], [], []
        for rule_ranks, family in zip(values, families_scores, strict=True):
            labels = np.array(family["metrics"][metric])
            best = int(np.argmax(rule_ranks))
            pick.append(labels[best])
            others = np.delete(labels, best)
            beats.append(np.mean(labels[best] > others) + 0.5 * np.mean(labels[best] == others))
            above.append(float(labels[best] > labels.mean()))
            rank_correlation = np.corrcoef(rankdata(rule_ranks), rankdata(labels))[0, 1] if np.ptp(rule_ranks) else 0.0
            correlation.append(rank_correlation)
        cells = [_interval(np.array(values_), draws) for values_ in (pick, above, beats, correlation)]
        lines.append(f"| {rule} | " + " | ".join(cells) + " |")
    labels_of_families = [family["metrics"][metric] for family in families_scores]
    random_pick = _interval(np.array([np.mean(labels) for labels in labels_of_families]), draws)
    best_pick = _interval(np.array([np.max(labels) for labels in labels_of_families]), draws)
    return [*lines, f"| *random pick* | {random_pick} | | | |", f"| *best pick* | {best_pick} | | | |"]


def _interval(values: np.ndarray, draws: np.ndarray) -> str:
    low, high = np.quantile(values[draws].mean(axis=1), (0.025, 0.975))
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for models and results")
    parser.add_argument("--families", type=int, default=20)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--models", type=Path, help="folder for models, if not in --out")
    arguments = parser.parse_args()
    device = jax.local_devices()[0]
    os.environ["JAX_PLATFORMS"] = "cpu"  # for the scoring processes: this one uses the device
    print(
        f"{datetime.date.today()}, {device.device_kind}, {arguments.families} families of 18, {arguments.steps} steps"
    )
    for kind in arguments.kinds.split(","):
        groups = families(kind, arguments.families, arguments.steps)
        folder = (arguments.models or arguments.out) / kind
        results = train([run for group in groups for run in group], world("blocks"), folder)
        print(f"{kind}: trained", flush=True)
        families_scores = scores_of_families(results, groups, max(1, (os.cpu_count() or 2) - 2))
        (arguments.out / f"{kind}.json").write_text(json.dumps(families_scores))
        for metric in METRICS:
            print(f"\n{kind}, {metric}\n")
            print("| picked by | its score | above the mean | beats a random model | rank correlation |")
            print("|---|---:|---:|---:|---:|")
            print("\n".join(table(families_scores, metric)), flush=True)


if __name__ == "__main__":
    main()
