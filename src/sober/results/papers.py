"""The papers' tables, from the results of any study: one row for each comparison, with an interval."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.ma import MaskedArray

from sober.errors import RequestError, counted, listed
from sober.results.runs import Runs, as_runs, places
from sober.results.stats import (
    Interval,
    Unified,
    adjusted_share,
    beats_random,
    interval,
    median_intervals,
    paired,
    probability_best,
    quartiles,
    rank_correlations,
    resampled,
    tournament,
    unified_pairs,
    variance_explained,
)
from sober.results.stats import udr_by_partners as by_partners

if TYPE_CHECKING:
    import polars as pl

RESAMPLES = 500
PARTNERS = (5, 10, 15, 20, 25, 30, 35, 40, 45)  # as in Duan et al., Table 1
DRAWS = 100  # of partners
ESTIMATE = {"value": float, "low": float, "high": float}


def metric_agreement(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Rank correlation of each two supervised metrics over the runs of a world."""
    runs = as_runs(data)
    pairs = list(itertools.combinations(runs.metrics(), 2))
    return _correlations(runs, ("metric", "other"), pairs, resamples, seed)


def criteria_against_metrics(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Rank correlation of each number that needs no labels with each supervised metric, over the runs of a world."""
    runs = as_runs(data)
    pairs = list(itertools.product(runs.criteria(), runs.metrics()))
    return _correlations(runs, ("criterion", "metric"), pairs, resamples, seed)


def unified_agreement(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Rank correlation of scores that share the matrix, or the rule, over the runs of a world."""
    runs = as_runs(data)
    pairs = unified_pairs(_unified(runs))
    return _correlations(runs, ("score", "other", "shared"), pairs, resamples, seed)


def _unified(runs: Runs) -> list[Unified]:
    known = ((name, runs.numbers[name]) for name in runs.unified())
    return [Unified(name, number.matrix, number.rule or number.metric) for name, number in known]


def _correlations(
    runs: Runs, labels: Sequence[str], pairs: Sequence[tuple[str, ...]], resamples: int, seed: int
) -> pl.DataFrame:
    """Rank correlations of pairs of columns, world by world. Runs are drawn again."""
    left, right = (list(dict.fromkeys(pair[side] for pair in pairs)) for side in (0, 1))
    at = tuple(np.array([[left.index(pair[0]), right.index(pair[1])] for pair in pairs], int).reshape(-1, 2).T)
    rows = []
    for (world,), part in runs.by("world"):
        n, found = _ranked(part.columns(left), part.columns(right), resamples, seed)
        for pair, common, *estimate in zip(pairs, n[at], *(each[at].tolist() for each in found), strict=True):
            rows.append((world, *pair, int(common), *estimate))
    return _frame({"world": str, **dict.fromkeys(labels, str), "n": int, **ESTIMATE}, rows)


def _ranked(x: MaskedArray, y: MaskedArray, resamples: int, seed: int) -> tuple[np.ndarray, Interval]:
    """Rank correlations of columns with intervals, and how many rows each is of."""
    counts = resampled(len(x), resamples=resamples, seed=seed)
    present = [(~np.ma.getmaskarray(each)).astype(int) for each in (x, y)]
    found = interval(rank_correlations(x, y), rank_correlations(x, y, counts=counts))
    return present[0].T @ present[1], found


def worlds_agreement(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Rank correlation of a metric in one world with the same metric in another, over the medians of settings."""
    runs = as_runs(data).sound()
    names, worlds = runs.metrics(), runs.different("world")
    grid = runs.grid(names, runs.different("setting"))
    medians = quartiles(grid.reshape(-1, grid.shape[-1]))[1].reshape(grid.shape[:-1])  # (W, K, S)
    rows = []
    for at, name in enumerate(names):
        n, found = _ranked(medians[:, at].T, medians[:, at].T, resamples, seed)
        for a, b in itertools.combinations(range(len(worlds)), 2):
            rows.append((name, worlds[a], worlds[b], int(n[a, b]), *(each[a, b].tolist() for each in found)))
    return _frame({"metric": str, "world": str, "other": str, "n": int, **ESTIMATE}, rows)


def objective_variance(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Share of a metric's variance explained by the method, and by the setting: method with its hyperparameters."""
    runs = as_runs(data)
    rows = []
    for (world,), part in runs.by("world"):
        counts = resampled(len(part.about), resamples=resamples, seed=seed)
        for name, by in itertools.product(runs.metrics(), ("method", "setting")):
            column = part.columns([name])[:, 0]
            here = ~np.ma.getmaskarray(column)
            if here.any():
                estimate = _explained(column.compressed(), part.labels(by)[here], counts[:, here])
                rows.append((world, name, by, *estimate))
    return _frame(
        {"world": str, "metric": str, "by": str, "groups": int, "n": int, **ESTIMATE, "adjusted": float}, rows
    )


def _explained(values: np.ndarray, groups: np.ndarray, counts: np.ndarray) -> tuple[Any, ...]:
    """Groups, rows, the share with its interval, and the share without what chance gives."""
    share, number = variance_explained(values, groups), len(set(groups))
    draws = variance_explained(values, groups, counts=counts)
    estimate = [None if each is None else min(max(each, 0.0), 1.0) for each in interval(share, draws, centred=True)]
    return number, len(values), *estimate, adjusted_share(share, len(values), number)


def transfer(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """How often the best setting of one seed does as well as one drawn at random, where metric or world changes."""
    runs = as_runs(data).sound()
    names = [name for name in runs.metrics() if runs.numbers[name].sign]
    signs = np.array([float(runs.numbers[name].sign) for name in names])
    grid = runs.grid(names, _common_settings(runs)) * signs[:, None, None]
    played, blind = tournament(grid), tournament(grid, blind=True)
    counts = resampled(grid.shape[-1], resamples=resamples, seed=seed)
    found = interval(beats_random(played), beats_random(played, counts=counts))
    numbers = [*found, beats_random(blind)]
    kinds = ("same", "different")
    rows = [
        (kinds[metric], kinds[world], *(each[metric, world].tolist() for each in numbers))
        for metric, world in itertools.product((0, 1), repeat=2)
    ]
    return _frame({"metric": str, "world": str, **ESTIMATE, "chance": float}, rows)


def _common_settings(runs: Runs) -> list[str]:
    """Settings that every world has runs of."""
    about = runs.about
    sets = [set(about.filter(about["world"] == world)["setting"]) for world in runs.different("world")]
    return [setting for setting in runs.different("setting") if all(setting in each for each in sets)]


def means_against_samples(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """A number of the means less the same of the samples, run by run: medians by setting.

    `higher` is the share of runs in which the means have more of it.
    """
    runs = as_runs(data)
    twin_of, rows = runs.sampled(), []
    names, twins = list(twin_of), list(twin_of.values())
    for (world, method, setting, strength), part in runs.by("world", "method", "setting", "strength"):
        means, samples = part.columns(names), part.columns(twins)
        found = median_intervals((means - samples).T, resamples=resamples, seed=seed)
        for at, name in enumerate(names):
            both = ~(np.ma.getmaskarray(means) | np.ma.getmaskarray(samples))[:, at]
            if both.any():
                pair = paired(means.data[both, at], samples.data[both, at])
                estimate = (each[at].tolist() for each in found)
                rows.append(
                    (world, method, setting, strength, name, pair.n, pair.first, pair.second, pair.higher, *estimate)
                )
    labels = {"world": str, "method": str, "setting": str, "strength": float, "metric": str}
    return _frame({**labels, "n": int, "means": float, "samples": float, "higher": float, **ESTIMATE}, rows)


def strength_trends(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Rank correlation of each number with the strength of regularisation, over the runs of a method in a world."""
    runs = as_runs(data)
    names, rows = [*runs.metrics(), *runs.criteria()], []
    runs = runs.where(runs.about["strength"].is_not_null().to_numpy())
    for (world, method), part in runs.by("world", "method"):
        n, found = _ranked(np.ma.array(part.labels("strength")[:, None]), part.columns(names), resamples, seed)
        for name, common, *estimate in zip(names, n[0], *(each[0].tolist() for each in found), strict=True):
            rows.append((world, method, name, int(common), *estimate))
    return _frame({"world": str, "method": str, "metric": str, "n": int, **ESTIMATE}, rows)


def udr_by_partners(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Duan et al., Table 1: rank correlation of UDR with each metric when models have so many partners.

    `value` is the mean over draws of partners, and the interval holds 95% of the draws.
    """
    runs, rows = as_runs(data).sound(), []
    for pairs in runs.pairs:
        at = places(runs.labels("run").tolist())
        known = [model for model, run in enumerate(pairs.runs) if run in at]
        new = places(known)
        inside = [(new[int(i)], int(j), float(score)) for i, j, score in pairs.scores if int(i) in new]
        fewest = int(np.bincount([i for i, _, _ in inside]).min())
        numbers = [*(p for p in PARTNERS if p < fewest), fewest]
        for name in runs.metrics():
            column = runs.columns([name])[[at[pairs.runs[model]] for model in known], 0]
            if np.ma.is_masked(column) or np.ptp(column) == 0:
                continue
            for found in by_partners(inside, np.asarray(column), numbers, draws=min(resamples, DRAWS), seed=seed):
                ends = (found.mean - 1.96 * found.std, found.mean + 1.96 * found.std)
                rows.append((pairs.world, name, found.partners, len(known), found.mean, *ends))
    return _frame({"world": str, "metric": str, "partners": int, "n": int, **ESTIMATE}, rows)


def leaderboard(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Each setting in each world: median and quartiles of each number over seeds, the best setting first.

    `best` is the probability that its run is the best when one run of each setting is drawn.
    """
    runs = as_runs(data)
    names, worlds, settings = [*runs.metrics(), *runs.criteria()], runs.different("world"), runs.different("setting")
    grid = runs.grid(names, settings)
    flat = grid.reshape(-1, grid.shape[-1])
    medians = median_intervals(flat, resamples=resamples, seed=seed)
    quarters = quartiles(flat)
    numbers = [each.reshape(grid.shape[:-1]).tolist() for each in (quarters[0], *medians, quarters[2])]
    n = np.ma.count(grid, axis=-1)
    tally = _tally(runs, names)
    rows = []
    for (w, world), (k, name) in itertools.product(enumerate(worlds), enumerate(names)):
        better = runs.numbers[name].better
        best, part = _chances(grid[w, k], better), []
        for s, setting in enumerate(settings):
            if (world, setting) in tally:
                flags, lost = tally[world, setting]
                of_runs = (int(n[w, k, s]), flags[k], lost)
                part.append((world, name, setting, *of_runs, *(each[w][k][s] for each in numbers), best[s]))
        sign = 1 if better == "lower" else -1
        rows += sorted(part, key=lambda row: (row[7] is None, sign * (row[7] or 0.0)))  # by the median
    labels = {"world": str, "metric": str, "setting": str, "n": int, "flagged": int, "diverged": int}
    return _frame({**labels, "lower": float, **ESTIMATE, "upper": float, "best": float}, rows)


def _tally(runs: Runs, names: Sequence[str]) -> dict[tuple[str, str], tuple[list[int], int]]:
    """For each world and setting that has runs: how many sound ones are flagged in each column, how many diverged."""
    diverged = runs.labels("diverged")
    flagged = runs.flagged[:, [runs.names.index(name) for name in names]] & ~diverged[:, None]
    keys = list(runs.about.select("world", "setting").iter_rows())
    place = places(dict.fromkeys(keys))
    at = np.array([place[key] for key in keys])
    flags, lost = np.zeros((len(place), len(names)), int), np.bincount(at, weights=diverged)
    np.add.at(flags, at, flagged)
    return {key: (flags[row].tolist(), int(lost[row])) for key, row in place.items()}


def _chances(scores: Float[MaskedArray, "S R"], better: Literal["higher", "lower", "neither"]) -> list[float | None]:
    """The probability of each setting to be best; None for those without runs, or where nothing is better."""
    here = np.flatnonzero(np.ma.count(scores, axis=1) > 0)
    found: list[float | None] = [None] * len(scores)
    if better != "neither" and len(here):
        sign = -1.0 if better == "lower" else 1.0
        for s, chance in zip(here, probability_best([sign * scores[s].compressed() for s in here]), strict=True):
            found[s] = float(chance)
    return found


def _frame(schema: Mapping[str, type], rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415

    return pl.DataFrame(rows, schema=dict(schema), orient="row")


# The registry.


class Need(NamedTuple):
    """What a table cannot be made without."""

    what: str
    met: Callable[[Runs], bool]


WORLDS = Need("at least two worlds", lambda runs: len(runs.different("world")) > 1)
SETTINGS = Need("at least two settings that all worlds share", lambda runs: len(_common_settings(runs)) > 1)
SEEDS = Need("at least two seeds", lambda runs: len(runs.different("seed")) > 1)
METHODS = Need("at least two methods", lambda runs: len(runs.different("method")) > 1)
ONE_METRIC = Need("a supervised metric", lambda runs: bool(runs.metrics()))
TWO_METRICS = Need("at least two supervised metrics", lambda runs: len(runs.metrics()) > 1)
CRITERIA = Need("a number that needs no labels, such as udr or elbo", lambda runs: bool(runs.criteria()))
UNIFIED = Need(
    "at least two unified scores, such as mi/mig and gbt/mig", lambda runs: bool(unified_pairs(_unified(runs)))
)
SAMPLES = Need(
    "a number of means and of samples, such as gaussian_total_correlation_sampled", lambda runs: bool(runs.sampled())
)
PAIRS = Need("the pair scores that a study keeps of udr", lambda runs: bool(runs.pairs))
STRENGTH = Need(
    "a method with one hyperparameter that varies", lambda runs: bool(runs.about["strength"].is_not_null().any())
)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table by name: what it says, whose it is, how to make it, what must be there, and what is drawn again."""

    name: str
    title: str
    paper: str
    function: Callable[..., pl.DataFrame]
    needs: tuple[Need, ...]
    drawn: str = "runs"

    def lacking(self, runs: Runs) -> str | None:
        """Why it cannot be made of these runs, or None."""
        if len(sound := runs.sound().about) < 2:
            return f"needs at least two runs that did not diverge: there {'is 1' if len(sound) else 'are none'}"
        unmet = [need.what for need in self.needs if not need.met(runs.sound())]
        return f"needs {' and '.join(unmet)}" if unmet else None

    def caption(self, runs: Runs, resamples: int = RESAMPLES) -> str:
        """What a reader must know to read it alone."""
        lost = int(runs.labels("diverged").sum())
        left_out = f"{lost:,} diverged and {'is' if lost == 1 else 'are'} left out" if lost else "none diverged"
        scale = " | ".join(each or "full study" for each in runs.scales)
        return (
            f"{self.title} ({self.paper}). {counted(len(runs.about), 'run')}, {left_out}. Scale: {scale}. "
            f"Intervals: 95%, {self.drawn} drawn again {resamples:,} times."
        )


SOBER_LOOK = "Locatello et al. 2020"
TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "metric_agreement",
            "Rank correlation between metrics",
            f"{SOBER_LOOK}, Figure 13",
            metric_agreement,
            (TWO_METRICS,),
        ),
        Table(
            "criteria_against_metrics",
            "Rank correlation of what needs no labels with metrics",
            f"{SOBER_LOOK}, Figure 8; Duan et al. 2020",
            criteria_against_metrics,
            (ONE_METRIC, CRITERIA),
        ),
        Table(
            "worlds_agreement",
            "Rank correlation of a metric between worlds, over settings",
            f"{SOBER_LOOK}, Figure 9",
            worlds_agreement,
            (WORLDS, ONE_METRIC),
            drawn="settings",
        ),
        Table(
            "objective_variance",
            "Share of the variance explained by the method, and by the setting",
            f"{SOBER_LOOK}, Table 5",
            objective_variance,
            (METHODS, SEEDS, ONE_METRIC),
        ),
        Table(
            "transfer",
            "Probability that a chosen setting does as well as one drawn at random, on another seed",
            f"{SOBER_LOOK}, Table 1",
            transfer,
            (WORLDS, SETTINGS, SEEDS, TWO_METRICS),
            drawn="seeds",
        ),
        Table(
            "means_against_samples",
            "Means less samples, medians by setting",
            f"{SOBER_LOOK}, Figures 2 to 4",
            means_against_samples,
            (SAMPLES,),
        ),
        Table(
            "strength_trends",
            "Rank correlation with the strength of regularisation",
            f"{SOBER_LOOK}, Figures 2, 3 and 7",
            strength_trends,
            (STRENGTH,),
        ),
        Table(
            "unified_agreement",
            "Rank correlation of scores that share a matrix or a rule",
            f"{SOBER_LOOK}, Figures 16 and 20",
            unified_agreement,
            (UNIFIED,),
        ),
        Table(
            "udr_by_partners",
            "Rank correlation of UDR with metrics, by the number of partners",
            "Duan et al. 2020, Table 1",
            udr_by_partners,
            (PAIRS, ONE_METRIC),
            drawn="partners",
        ),
        Table("leaderboard", "Settings, the best first", f"{SOBER_LOOK}, Figures 5 to 7", leaderboard, ()),
    )
}


class Made(NamedTuple):
    """A table that was made."""

    table: Table
    frame: pl.DataFrame
    caption: str


def make(
    data: pl.DataFrame | Runs, names: Iterable[str] | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[list[Made], dict[str, str]]:
    """Every table that the results allow, or those asked for; and for the others why not."""
    runs = as_runs(data)
    unknown = set(names or ()) - set(TABLES)
    if unknown:
        raise RequestError(f"there is no table {listed(unknown)}: choose from {listed(TABLES)}")
    tables = list(TABLES.values()) if names is None else [TABLES[name] for name in names]
    lacking = {table.name: why for table in tables if (why := table.lacking(runs))}
    made = [
        Made(table, table.function(runs, resamples=resamples, seed=seed), table.caption(runs, resamples))
        for table in tables
        if table.name not in lacking
    ]
    return made, lacking
