"""Single runs that a paper shows: the best of a method by a criterion, and those that two metrics dispute."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import scipy

from sober.results.estimates import RESAMPLES, frame
from sober.results.means import measured
from sober.results.runs import Runs, as_runs
from sober.results.within import judging

if TYPE_CHECKING:
    import polars as pl

DISPUTED = 5  # runs of each two metrics, as in Chen et al., Figure S14


def best_by_criterion(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Duan et al., Figure 4: of each method the run that a criterion puts first, and all that is known of it."""
    runs = as_runs(data)
    rows, names = [], measured(runs)
    for (world, method), part in runs.by("world", "method"):
        for criterion in judging(runs):
            if not part.turned(criterion).count():
                continue
            best = int(np.ma.argmax(part.turned(criterion)))
            about = part.about.row(best, named=True)
            values = zip(names, part.columns(names)[best].tolist(), strict=True)
            whose = (world, method, criterion, about["setting"], about["seed"], about["run"])
            rows += [(*whose, name, value) for name, value in values if value is not None]
    labels = {**dict.fromkeys(("world", "method", "criterion", "setting"), str), "seed": int, "run": str}
    return frame({**labels, "metric": str, "value": float}, rows)


def disputed(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Chen et al., Figures S12 to S14: runs that one metric ranks much higher than another, the most disputed first.

    `by_metric` and `by_other` are the shares of the world's other runs that the run is better than, `value` is the
    first less the second.
    """
    runs, rows = as_runs(data), []
    names = [name for name in runs.metrics() if runs.numbers[name].sign]
    for (world,), part in runs.by("world"):
        for metric, other in itertools.permutations(names, 2):
            columns = [part.turned(name) for name in (metric, other)]
            both = np.flatnonzero(~(np.ma.getmaskarray(columns[0]) | np.ma.getmaskarray(columns[1])))
            if len(both) < 2:
                continue
            ranks = np.array([scipy.stats.rankdata(column.data[both], method="min") - 1 for column in columns])
            shares = ranks / (len(both) - 1)
            apart = shares[0] - shares[1]
            for place, at in enumerate(np.argsort(-apart, kind="stable")[:DISPUTED].tolist(), start=1):
                about = part.about.row(int(both[at]), named=True)
                whose = (place, about["setting"], about["seed"], about["run"], len(both))
                rows.append((world, metric, other, *whose, *shares[:, at].tolist(), float(apart[at])))
    labels = {**dict.fromkeys(("world", "metric", "other"), str), "place": int, "setting": str, "seed": int, "run": str}
    return frame({**labels, "n": int, "by_metric": float, "by_other": float, "value": float}, rows)
