"""Whether a setting chosen by one metric in one world does well by another metric, or in another world."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from sober.results.runs import Runs
from sober.results.stats import (
    beats_random,
    interval,
    resampled,
    tournament,
)
from sober.results.tables.estimates import ESTIMATE, frame
from sober.results.tables.number_groups import paper_scores
from sober.results.tables.table import (
    SEEDS,
    SETTINGS,
    SEVEN_SCORES,
    SOBER_LOOK,
    TWO_METRICS,
    common_settings,
    table,
)

if TYPE_CHECKING:
    import polars as pl


@table(
    "Probability that a chosen setting does as well as one drawn at random, on another seed",
    f"{SOBER_LOOK}, Table 1",
    needs=(SETTINGS, SEEDS, TWO_METRICS),
    drawn="seeds",
    scores=SEVEN_SCORES,
)
def transfer(runs: Runs, *, resamples: int, seed: int) -> pl.DataFrame:
    """How often the best setting of one seed does as well as a random setting when the metric or the world changes.

    It compares the paper's seven scores that the runs have, or all metrics if they have fewer than two of the seven.
    With one world, the table has the rows of the same world only.
    """
    runs = runs.not_diverged()
    names = paper_scores(runs, transfer.scores)
    signs = np.array([float(runs.numbers[name].sign) for name in names])
    grid = runs.grid(names, common_settings(runs)) * signs[:, None, None]
    played, blind = tournament(grid), tournament(grid, blind=True)
    counts = resampled(grid.shape[-1], resamples=resamples, seed=seed)
    estimate = interval(beats_random(played), beats_random(played, counts=counts))
    numbers = [*estimate, beats_random(blind)]
    kinds = ("same", "different")
    rows = [
        (kinds[metric], kinds[world], *(number[metric, world].tolist() for number in numbers))
        for metric, world in itertools.product((0, 1), range(min(len(grid), 2)))
    ]
    return frame({"metric": str, "world": str, **ESTIMATE, "chance": float}, rows)
