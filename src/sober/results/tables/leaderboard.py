"""Settings, the best first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float
from numpy.ma import MaskedArray

from sober.results.runs import Runs, places
from sober.results.stats import (
    median_intervals,
    probability_best,
    quartiles,
)
from sober.results.tables.estimates import ESTIMATE, frame
from sober.results.tables.table import (
    SOBER_LOOK,
    table,
)

if TYPE_CHECKING:
    import polars as pl


@table(
    "Settings, the best first",
    f"{SOBER_LOOK}, Figures 5 to 7",
    needs=(),
)
def leaderboard(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """Each setting in each world: median and quartiles of each number over seeds, the best setting first.

    `best` is the probability that its run is the best when one run of each setting is drawn.
    """
    names = runs.ordered(runs.main_numbers())
    worlds, settings = runs.unique("world"), runs.unique("setting")
    grid = runs.grid(names, settings)
    flat = grid.reshape(-1, grid.shape[-1])
    medians = median_intervals(flat, resamples=resamples, seed=seed)
    quarters = quartiles(flat)
    numbers = [column.reshape(grid.shape[:-1]).tolist() for column in (quarters[0], *medians, quarters[2])]
    n = np.ma.count(grid, axis=-1)
    tally = _flagged_and_diverged(runs, names)
    rows = []
    for (w, world), (k, name) in itertools.product(enumerate(worlds), enumerate(names)):
        better = runs.numbers[name].better
        best, setting_rows = _chances(grid[w, k], better), []
        for s, setting in enumerate(settings):
            if (world, setting) in tally:
                flags, diverged = tally[world, setting]
                counts = (int(n[w, k, s]), flags[k], diverged)
                setting_rows.append((world, name, setting, *counts, *(column[w][k][s] for column in numbers), best[s]))
        sign = 1 if better == "lower" else -1
        rows += sorted(setting_rows, key=lambda row: (row[7] is None, sign * (row[7] or 0.0)))  # by the median
    labels = {"world": str, "metric": str, "setting": str, "n": int, "flagged": int, "diverged": int}
    return frame({**labels, "lower": float, **ESTIMATE, "upper": float, "best": float}, rows)


def _flagged_and_diverged(runs: Runs, names: Sequence[str]) -> dict[tuple[str, str], tuple[list[int], int]]:
    """By world and setting: how many runs are flagged in each column without having diverged; how many diverged."""
    diverged = runs.run_column("diverged")
    flagged = runs.flagged[:, [runs.names.index(name) for name in names]] & ~diverged[:, None]
    keys = list(runs.run_frame.select("world", "setting").iter_rows())
    row_of = places(dict.fromkeys(keys))
    rows = np.array([row_of[key] for key in keys])
    flags, diverged_runs = np.zeros((len(row_of), len(names)), int), np.bincount(rows, weights=diverged)
    np.add.at(flags, rows, flagged)
    return {key: (flags[row].tolist(), int(diverged_runs[row])) for key, row in row_of.items()}


def _chances(scores: Float[MaskedArray, "S R"], better: Literal["higher", "lower", "neither"]) -> list[float | None]:
    """Each setting's probability to be best; None if it has no scores, or if the number has no better end."""
    scored = np.flatnonzero(np.ma.count(scores, axis=1) > 0)
    chances: list[float | None] = [None] * len(scores)
    if better != "neither" and len(scored):
        sign = -1.0 if better == "lower" else 1.0
        for s, chance in zip(scored, probability_best([sign * scores[s].compressed() for s in scored]), strict=True):
            chances[s] = float(chance)
    return chances
