"""Does choosing without labels work? The pick of each criterion against a random pick and the best one.

python benchmarks/selection.py --out results                  twenty families of 18 on blocks, two kinds (a GPU)
python benchmarks/selection.py --out results --families 2     a first look on a CPU

Families of the first kind are β-VAEs at three strengths with six seeds each; those of the second are DAVA, β-TCVAE and
β-VAE at two strengths each with three seeds. Every criterion picks a model from each family, without labels. Then the
labels are looked at. Intervals are bootstraps over families.
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
from sober.shared import Shared
from sober.types import Adam, Codes, Run
from sober.workflows.opened import Results
from sober.workflows.train import train
from sober.worlds import world

KINDS: dict[str, tuple[dict[str, dict[str, list[float]]], int]] = {
    "beta_vae": ({"beta_vae": {"beta": [1.0, 2.0, 4.0]}}, 6),
    "fit": (
        {"dava": {"delta_c": [0.0025, 0.005]}, "beta_tcvae": {"beta": [2.0, 4.0]}, "beta_vae": {"beta": [2.0, 4.0]}},
        3,
    ),
}
SUITED_TO = 8_000  # steps of training: criteria are set as they suit that, which gives discriminators 1,000 at 1e-3
METRICS = ("mig", "dci_disentanglement")


def supervised(codes: Codes) -> dict[str, float]:
    found = score(codes, metrics=list(METRICS))
    return {name: float(found[name]) for name in METRICS}


def families(kind: str, count: int, steps: int) -> list[list[Run]]:
    """So many families, each with seeds of its own."""
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
                seeds=range(at * seeds, (at + 1) * seeds),
                steps=steps,
                latents=6,
                optimiser=Adam(1e-3),
            )
        ]
        for at in range(count)
    ]


def judged(results: Results, groups: list[list[Run]], workers: int) -> list[dict[str, dict[str, list[float]]]]:
    """For each group of runs: what each criterion and each metric says of its models; worst of all where unfit."""
    codes = {run: codes for run, codes in results.encode() if fit_to_judge(codes)}
    whole = Evidence(results.world, tuple(codes), tuple(codes.values()), None, results.model)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        labels = dict(zip(whole.runs, pool.map(supervised, whole.codes), strict=True))
    found = []
    for group in groups:
        part, shared = whole.only(run for run in group if run in codes), Shared()
        criteria = {}
        for name, criterion in CRITERIA.items():
            judgement = criterion(part, criterion.suited(SUITED_TO), shared=shared)
            sign = 1 if criterion.better == "higher" else -1
            unfit = np.array([bool(set(flags) & set(UNFIT)) for flags in judgement.flags])
            criteria[name] = np.where(unfit, -1e9, sign * judgement.scores).tolist()
        metrics = {name: [labels[run][name] for run in part.runs] for name in METRICS}
        found.append({"criteria": criteria, "metrics": metrics})
    return found


def table(found: list[dict[str, dict[str, list[float]]]], metric: str) -> list[str]:
    """A row for each criterion: the metric of its pick, how often it beats random, rank correlation, with intervals."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(found), (10_000, len(found)))
    lines = []
    ranks = {name: [rankdata(each["criteria"][name]) for each in found] for name in found[0]["criteria"]}
    rules = {**ranks, "udr + pipe_rec": [a + b for a, b in zip(ranks["udr"], ranks["pipe_rec"], strict=True)]}
    for rule, values in rules.items():
        pick, beats, above, correlation = [], [], [], []
        for said, each in zip(values, found, strict=True):
            labels = np.array(each["metrics"][metric])
            chosen = int(np.argmax(said))
            pick.append(labels[chosen])
            others = np.delete(labels, chosen)
            beats.append(np.mean(labels[chosen] > others) + 0.5 * np.mean(labels[chosen] == others))
            above.append(float(labels[chosen] > labels.mean()))
            correlation.append(np.corrcoef(rankdata(said), rankdata(labels))[0, 1] if np.ptp(said) else 0.0)
        cells = [_interval(np.array(values_), draws) for values_ in (pick, above, beats, correlation)]
        lines.append(f"| {rule} | " + " | ".join(cells) + " |")
    random = _interval(np.array([np.mean(each["metrics"][metric]) for each in found]), draws)
    best = _interval(np.array([np.max(each["metrics"][metric]) for each in found]), draws)
    return [*lines, f"| *random pick* | {random} | | | |", f"| *best pick* | {best} | | | |"]


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
    chosen = parser.parse_args()
    device = jax.local_devices()[0]
    os.environ["JAX_PLATFORMS"] = "cpu"  # of the processes that score: the device is taken
    print(f"{datetime.date.today()}, {device.device_kind}, {chosen.families} families of 18, {chosen.steps} steps")
    for kind in chosen.kinds.split(","):
        groups = families(kind, chosen.families, chosen.steps)
        folder = (chosen.models or chosen.out) / kind
        results = train([run for group in groups for run in group], world("blocks"), folder)
        print(f"{kind}: trained", flush=True)
        found = judged(results, groups, max(1, (os.cpu_count() or 2) - 2))
        (chosen.out / f"{kind}.json").write_text(json.dumps(found))
        for metric in METRICS:
            print(f"\n{kind}, {metric}\n")
            print("| picked by | its score | above the mean | beats a random model | rank correlation |")
            print("|---|---:|---:|---:|---:|")
            print("\n".join(table(found, metric)), flush=True)


if __name__ == "__main__":
    main()
