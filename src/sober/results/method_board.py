"""Methods by world: the mean of a score over all models of a method, with its interval, and its best setting."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sober.errors import RequestError, choices, listed
from sober.results.runs import Runs, as_runs
from sober.results.stats import Interval, interval, mean_interval, settings_then_seeds
from sober.short_text import as_call, as_table

if TYPE_CHECKING:
    import polars as pl

SCORES = ("mig", "dci_disentanglement", "factor_vae")  # that the board shows if nobody names others


class Standing(NamedTuple):
    """A method in a world, by one score."""

    source: str  # the folder
    world: str
    method: str
    steps: tuple[int, ...]  # of training; methods are compared at equal steps only
    models: int
    settings: int
    mean: Interval  # over models; the interval draws settings and their seeds again
    best_setting: str  # of the best mean over seeds
    best: Interval  # over the seeds of that setting, by Student's t

    def __repr__(self) -> str:
        return as_call(self)


@dataclasses.dataclass(frozen=True)
class Board:
    """Methods by world for one score, the best first."""

    score: str
    better: str
    standings: tuple[Standing, ...]

    def __repr__(self) -> str:
        return as_table(f"Methods by {self.score}, {self.better} is better", self.rows())

    def groups(self) -> dict[tuple[str, str], list[Standing]]:
        """The standings that can be compared, by world and folder."""
        grouped: dict[tuple[str, str], list[Standing]] = {}
        for standing in self.standings:
            grouped.setdefault((standing.world, standing.source), []).append(standing)
        return grouped

    def rows(self) -> list[dict[str, object]]:
        """The standings as rows of a table."""
        return [
            {
                "world": standing.world,
                "method": standing.method,
                "models": standing.models,
                self.score: in_words(standing.mean),
                "best setting": standing.best_setting,
                "its mean": in_words(standing.best),
                "folder": standing.source,
            }
            for standing in self.standings
        ]

    def plain(self) -> list[dict[str, Any]]:
        """The standings as plain values, for JSON."""
        return [
            {
                **standing._asdict(),
                "score": self.score,
                "better": self.better,
                "mean": standing.mean._asdict(),
                "best": standing.best._asdict(),
            }
            for standing in self.standings
        ]


class Comparison(NamedTuple):
    """Methods that can be compared: of one folder, in one world. The first score sorts them."""

    world: str
    source: str  # the folder
    standings: Mapping[str, Mapping[str, Standing]]  # by score and method

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(sorted({steps for standing in self.first.values() for steps in standing.steps}))

    @property
    def first(self) -> Mapping[str, Standing]:
        """The methods by the first score that the folder has."""
        return next(iter(self.standings.values()))

    def __repr__(self) -> str:
        return as_call(self)


def comparisons(boards: Sequence[Board]) -> list[Comparison]:
    """The standings of several boards, side by side for each world and folder; the longest training comes first."""
    grouped: dict[tuple[str, str], dict[str, dict[str, Standing]]] = {}
    for board in boards:
        for place, standings in board.groups().items():
            grouped.setdefault(place, {})[board.score] = {standing.method: standing for standing in standings}
    compared = [Comparison(world, source, by_score) for (world, source), by_score in grouped.items()]
    return sorted(compared, key=lambda comparison: (-max(comparison.steps), comparison.world, comparison.source))


def in_words(value: Interval) -> str:
    """`0.31 [0.28, 0.35]`; without an interval, the value alone."""
    if value.low is None or value.high is None:
        return f"{value.value:.2f}"
    return f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]"


def boards(
    tables: Mapping[str, pl.DataFrame], scores: Sequence[str] | None = None, world: str | None = None
) -> list[Board]:
    """A board for each score. `tables` are tables of results by the name of their folder; `world` is the only world.

    Without `scores`, the boards are of those `SCORES` that were measured. Diverged models are left out. A world that
    is in several folders has the methods of each.
    """
    by_source = {source: as_runs(table) for source, table in tables.items() if not table.is_empty()}
    worlds = list(dict.fromkeys(label for runs in by_source.values() for label in runs.unique("world")))
    if world is not None and world not in worlds:
        raise RequestError(f"no results of {world!r}: {choices(world, worlds)}")
    measured = sorted({number.metric for runs in by_source.values() for number in runs.numbers.values()})
    if scores is None:
        scores = [score for score in SCORES if score in measured]
    if not scores:
        others = f"--score takes any of these: {listed(measured)}" if measured else "they hold no scores"
        raise RequestError(f"no results have {' or '.join(SCORES)}: {others}")
    if missing := [score for score in scores if score not in measured]:
        raise RequestError(f"no results have the score {missing[0]!r}: {choices(missing[0], measured)}")
    return [_board(score, by_source, [world] if world is not None else worlds) for score in scores]


def _board(score: str, by_source: Mapping[str, Runs], worlds: Sequence[str]) -> Board:
    standings, better = [], "higher"
    for label in worlds:
        for source, runs in by_source.items():
            if names := runs.numbers_of([score]):
                better = runs.numbers[names[0]].better
                standings += _of_world(source, runs, names[0], label)
    return Board(score, better, tuple(standings))


def _of_world(source: str, runs: Runs, name: str, world: str) -> list[Standing]:
    """The methods of a folder in a world, the best first."""
    sign = runs.numbers[name].sign or 1
    standings = []
    for (label, method), group in runs.grouped_by("world", "method"):
        column = group.number_columns([name])[:, 0]
        scored = ~np.ma.getmaskarray(column)
        if label == world and scored.any():
            standings.append(_standing(source, world, method, group.where(scored), name, sign))
    return sorted(standings, key=lambda standing: -sign * float(standing.mean.value))


def _standing(source: str, world: str, method: str, runs: Runs, name: str, sign: int) -> Standing:
    values = np.asarray(runs.number_columns([name])[:, 0].data, float)
    settings = runs.run_column("setting")
    counts = settings_then_seeds(settings)
    by_setting = {setting: values[settings == setting].tolist() for setting in dict.fromkeys(settings.tolist())}
    low, high = runs.bounds(name)
    best_setting = max(by_setting, key=lambda setting: sign * float(np.mean(by_setting[setting])))
    return Standing(
        source,
        world,
        method,
        tuple(sorted(set(runs.run_column("steps").tolist()))),
        len(values),
        len(by_setting),
        interval(np.ma.array(values.mean()), np.ma.array(counts @ values / counts.sum(axis=1))),
        best_setting,
        _within(mean_interval(by_setting[best_setting]), low, high),
    )


def _within(estimate: Interval, low: float, high: float) -> Interval:
    """The estimate with an interval that ends where the score's range ends."""
    if estimate.low is None or estimate.high is None:
        return estimate
    return estimate._replace(low=max(low, estimate.low), high=min(high, estimate.high))
