"""A table of the papers: its title and paper, the results that it needs, and the function that makes it.

A table declares itself with `@table(...)` above its function, and stands in `registry.py` with one line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from sober.errors import counted
from sober.results.runs import Runs, as_runs
from sober.results.tables.estimates import RESAMPLES
from sober.short_text import as_call, as_table

if TYPE_CHECKING:
    import polars as pl

SOBER_LOOK = "Locatello et al. 2020"
UDR = "Duan et al. 2020"
DAVA = "Estermann & Wattenhofer 2023"
CHEN = "Chen et al. 2018"
EASTWOOD = "Eastwood & Williams 2018"
SEVEN_SCORES = ("beta_vae", "factor_vae", "mig", "modularity", "dci_disentanglement", "sap", "irs")  # of the Sober Look


SETTINGS_THEN_SEEDS = "settings, and then seeds within them,"
QUESTIONS = {  # what an interval answers, by what is drawn again for it
    "runs": "other seeds of the same settings",
    "runs of each setting": "other seeds of the same settings",
    "seeds": "other seeds of the same settings",
    "settings": "other settings",
    SETTINGS_THEN_SEEDS: "other settings with other seeds",
    "partners": "other partners of the same runs",
}


class Need(NamedTuple):
    """A condition that results must meet before a table can be made of them."""

    words: str  # after "needs", in the sentence that says why a table was not made
    is_met: Callable[[Runs], bool]

    def __repr__(self) -> str:
        return as_call(self)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a paper. Calling it makes the table from results."""

    name: str
    title: str
    paper: str
    function: Callable[..., pl.DataFrame]
    needs: tuple[Need, ...]
    drawn: str = "runs"  # what is drawn again to find intervals; empty if intervals are Student's t over the runs
    scores: tuple[str, ...] = ()  # the scores that the paper's table covers; empty for all

    def __repr__(self) -> str:
        return as_call(self)

    def __call__(self, data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
        """Makes the table from results, with intervals from `resamples` draws."""
        return self.function(as_runs(data), resamples=resamples, seed=seed)

    def lacking(self, runs: Runs) -> str | None:
        """Why the table cannot be made of these runs, or None if it can."""
        if len(sound := runs.not_diverged().run_frame) < 2:
            return f"needs at least two runs that did not diverge: there {'is 1' if len(sound) else 'are none'}"
        unmet = [need.words for need in self.needs if not need.is_met(runs.not_diverged())]
        return f"needs {' and '.join(unmet)}" if unmet else None

    def caption(self, runs: Runs, resamples: int = RESAMPLES) -> str:
        """The title and paper, how many runs there are, and how intervals were made."""
        return f"{self.title} ({self.paper}). {run_counts(runs)} {self._intervals(resamples)}"

    def _intervals(self, resamples: int) -> str:
        if not self.drawn:
            return "Intervals, where there are any: 95%, Student's t over runs."
        drawn = f"{self.drawn} drawn again {resamples:,} times"
        return f"Intervals: 95%, {drawn}. They say what {QUESTIONS[self.drawn]} would change."


def table(
    title: str, paper: str, *, needs: tuple[Need, ...], drawn: str = "runs", scores: tuple[str, ...] = ()
) -> Callable[[Callable[..., pl.DataFrame]], Table]:
    """Turns the function below it into a table with the function's name."""

    def declare(function: Callable[..., pl.DataFrame]) -> Table:
        return Table(function.__name__, title, paper, function, needs, drawn, scores)

    return declare


def run_counts(runs: Runs) -> str:
    """How many runs there are, how many diverged, and at what scale they were trained."""
    diverged = int(runs.run_column("diverged").sum())
    left_out = f"{diverged:,} diverged and {'is' if diverged == 1 else 'are'} left out" if diverged else "none diverged"
    scale = " | ".join(scale or "full study" for scale in runs.scales)
    return f"{counted(len(runs.run_frame), 'run')}, {left_out}. Scale: {scale}."


class ResultTable(NamedTuple):
    """A table made from results, with its caption."""

    table: Table
    frame: pl.DataFrame
    caption: str

    def __repr__(self) -> str:
        return as_table(self.caption, self.frame.to_dicts())


def common_settings(runs: Runs) -> list[str]:
    """Settings that were trained on every world."""
    run_frame = runs.run_frame
    settings_by_world = [
        set(run_frame.filter(run_frame["world"] == world)["setting"]) for world in runs.unique("world")
    ]
    return [setting for setting in runs.unique("setting") if all(setting in settings for settings in settings_by_world)]


# Needs that several tables share.

WORLDS = Need("at least two worlds", lambda runs: len(runs.unique("world")) > 1)
SETTINGS = Need("at least two settings that all worlds share", lambda runs: len(common_settings(runs)) > 1)
SEEDS = Need("at least two seeds", lambda runs: len(runs.unique("seed")) > 1)
METHODS = Need("at least two methods", lambda runs: len(runs.unique("method")) > 1)
ONE_METRIC = Need("a supervised metric", lambda runs: bool(runs.metrics()))
TWO_METRICS = Need("at least two supervised metrics", lambda runs: len(runs.metrics()) > 1)
CRITERIA = Need("a number that needs no labels, such as udr or elbo", lambda runs: bool(runs.criteria()))
TWO_CRITERIA = Need("at least two numbers that need no labels", lambda runs: len(runs.criteria()) > 1)
STRENGTH = Need(
    "a method with one hyperparameter that varies", lambda runs: bool(runs.run_frame["strength"].is_not_null().any())
)
