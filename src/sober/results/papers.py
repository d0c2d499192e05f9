"""The papers' tables, from the results of any study: one row for each comparison, with an interval."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.ma import MaskedArray

from sober.errors import RequestError, counted, listed
from sober.results.estimates import ESTIMATE, RESAMPLES, correlated, frame, ranked
from sober.results.means import LEAST, best_and_mean_strength, label_free, means_by_setting, means_correlation
from sober.results.measured import BY_FACTOR, BY_LATENT, CURVE, MERGE, has_parts, merge_thresholds, scores_by_variable
from sober.results.runs import Runs, as_runs, places
from sober.results.single import best_by_criterion, disputed
from sober.results.stability import measured_twice, stability
from sober.results.stats import (
    Unified,
    adjusted_share,
    beats_random,
    interval,
    median_intervals,
    paired,
    probability_best,
    quartiles,
    resampled,
    tournament,
    unified_pairs,
    variance_explained,
)
from sober.results.tasks import LEAST as LEAST_RUNS
from sober.results.tasks import scores_against_tasks, scores_against_tasks_within_methods, task_curves, tasks_by_group
from sober.results.within import criteria_averages, criteria_within_methods, judging, scored, udr_by_partners

if TYPE_CHECKING:
    import polars as pl


def metric_agreement(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Rank correlation of each two supervised metrics over the runs of a world."""
    runs = as_runs(data)
    pairs = list(itertools.combinations(runs.metrics(), 2))
    return _correlations(runs, ("metric", "other"), pairs, resamples, seed)


def criteria_against_metrics(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Rank correlation of each number that needs no labels with each supervised metric, over the runs of a world."""
    runs = as_runs(data)
    numbers = ("criterion", runs.criteria()), ("metric", runs.metrics())
    return correlated(runs, ("world",), *numbers, resamples, seed)


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
        n, found = ranked(part.columns(left), part.columns(right), resamples, seed)
        for pair, common, *estimate in zip(pairs, n[at], *(each[at].tolist() for each in found), strict=True):
            rows.append((world, *pair, int(common), *estimate))
    return frame({"world": str, **dict.fromkeys(labels, str), "n": int, **ESTIMATE}, rows)


def worlds_agreement(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Rank correlation of a metric in one world with the same metric in another, over the medians of settings."""
    runs = as_runs(data).sound()
    names, worlds = runs.metrics(), runs.different("world")
    grid = runs.grid(names, runs.different("setting"))
    medians = quartiles(grid.reshape(-1, grid.shape[-1]))[1].reshape(grid.shape[:-1])  # (W, K, S)
    rows = []
    for at, name in enumerate(names):
        n, found = ranked(medians[:, at].T, medians[:, at].T, resamples, seed)
        for a, b in itertools.combinations(range(len(worlds)), 2):
            rows.append((name, worlds[a], worlds[b], int(n[a, b]), *(each[a, b].tolist() for each in found)))
    return frame({"metric": str, "world": str, "other": str, "n": int, **ESTIMATE}, rows)


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
    return frame({"world": str, "metric": str, "by": str, "groups": int, "n": int, **ESTIMATE, "adjusted": float}, rows)


def _explained(values: np.ndarray, groups: np.ndarray, counts: np.ndarray) -> tuple[Any, ...]:
    """Groups, rows, the share with its interval, and the share without what chance gives."""
    share, number = variance_explained(values, groups), len(set(groups))
    draws = variance_explained(values, groups, counts=counts)
    estimate = [None if each is None else min(max(each, 0.0), 1.0) for each in interval(share, draws, centred=True)]
    return number, len(values), *estimate, adjusted_share(share, len(values), number)


def variance_averages(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Locatello et al., section 5.3: the shares of `objective_variance`, mean over worlds and the paper's scores."""
    runs, rows = as_runs(data), []
    names = scored(runs, variance_averages.__name__)
    for by in ("method", "setting"):
        values, draws = [], []
        for _, part in runs.by("world"):
            counts = resampled(len(part.about), resamples=resamples, seed=seed)
            groups = part.labels(by)
            for column in part.columns(names).T:
                here = ~np.ma.getmaskarray(column)
                share = variance_explained(column.compressed(), groups[here]) if here.any() else None
                if share is not None:
                    values.append(share)
                    draws.append(variance_explained(column.compressed(), groups[here], counts=counts[:, here]))
        if values:
            mean = interval(np.mean(values), np.ma.mean(np.ma.stack(draws), axis=0), centred=True)
            rows.append((by, len(values), *mean))
    return frame({"by": str, "n": int, **ESTIMATE}, rows)


def transfer(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """How often the best setting of one seed does as well as one drawn at random, where metric or world changes.

    Over the paper's seven scores, as far as they are there; where fewer than two are, over all metrics.
    """
    runs = as_runs(data).sound()
    names = scored(runs, transfer.__name__)
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
    return frame({"metric": str, "world": str, **ESTIMATE, "chance": float}, rows)


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
    return frame({**labels, "n": int, "means": float, "samples": float, "higher": float, **ESTIMATE}, rows)


def strength_trends(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Rank correlation of each number with the strength of regularisation, over the runs of a method in a world."""
    runs = as_runs(data)
    names, rows = runs.whole(), []
    runs = runs.where(runs.about["strength"].is_not_null().to_numpy())
    for (world, method), part in runs.by("world", "method"):
        n, found = ranked(np.ma.array(part.labels("strength")[:, None]), part.columns(names), resamples, seed)
        for name, common, *estimate in zip(names, n[0], *(each[0].tolist() for each in found), strict=True):
            rows.append((world, method, name, int(common), *estimate))
    return frame({"world": str, "method": str, "metric": str, "n": int, **ESTIMATE}, rows)


def leaderboard(data: pl.DataFrame | Runs, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Each setting in each world: median and quartiles of each number over seeds, the best setting first.

    `best` is the probability that its run is the best when one run of each setting is drawn.
    """
    runs = as_runs(data)
    names = runs.whole()
    worlds, settings = runs.different("world"), runs.different("setting")
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
    return frame({**labels, "lower": float, **ESTIMATE, "upper": float, "best": float}, rows)


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
JUDGED = Need("a criterion, such as udr or pipe", lambda runs: bool(judging(runs)))
LABEL_FREE = Need("a criterion, or a number without labels that has a good end", lambda runs: bool(label_free(runs)))
TWICE = Need("metrics of two draws of as many pictures (sober score DIR --sample 10000 --seed 1)", measured_twice)
PARTS = Need(
    "what metrics found by latent and by factor, in the folder's matrices/",
    lambda runs: has_parts(runs, BY_LATENT, BY_FACTOR),
)
MATRICES = Need("matrices of the unified scores, in the folder's matrices/", lambda runs: has_parts(runs, MERGE))
A_TASK = Need("a task (sober score DIR --tasks, sober tasks lists them)", lambda runs: bool(runs.tasks()))
ENOUGH = Need(f"at least {LEAST_RUNS} runs", lambda runs: len(runs.about) >= LEAST_RUNS)
CURVES = Need("curves of a task, in the folder's matrices/", lambda runs: has_parts(runs, CURVE))
STRENGTH = Need(
    "a method with one hyperparameter that varies", lambda runs: bool(runs.about["strength"].is_not_null().any())
)


STRENGTHS = Need("a method with at least three strengths", lambda runs: _strengths(runs) >= LEAST)


def _strengths(runs: Runs) -> int:
    """The most strengths that a method has."""
    return max((len(set(part.labels("strength"))) for _, part in runs.by("method") if _swept(part)), default=0)


def _swept(part: Runs) -> bool:
    return bool(part.about["strength"].is_not_null().all())


@dataclasses.dataclass(frozen=True)
class Table:
    """A table by name: what it says, whose it is, how to make it, what must be there, and what is drawn again."""

    name: str
    title: str
    paper: str
    function: Callable[..., pl.DataFrame]
    needs: tuple[Need, ...]
    drawn: str = "runs"  # again, for the intervals; without it they are of Student's t over the runs

    def lacking(self, runs: Runs) -> str | None:
        """Why it cannot be made of these runs, or None."""
        if len(sound := runs.sound().about) < 2:
            return f"needs at least two runs that did not diverge: there {'is 1' if len(sound) else 'are none'}"
        unmet = [need.what for need in self.needs if not need.met(runs.sound())]
        return f"needs {' and '.join(unmet)}" if unmet else None

    def caption(self, runs: Runs, resamples: int = RESAMPLES) -> str:
        """What a reader must know to read it alone."""
        return f"{self.title} ({self.paper}). {held(runs)} {self._intervals(resamples)}"

    def _intervals(self, resamples: int) -> str:
        if not self.drawn:
            return "Intervals, where there are any: 95%, Student's t over runs."
        return f"Intervals: 95%, {self.drawn} drawn again {resamples:,} times."


def held(runs: Runs) -> str:
    """How many runs there are, how many diverged, and at what scale."""
    lost = int(runs.labels("diverged").sum())
    left_out = f"{lost:,} diverged and {'is' if lost == 1 else 'are'} left out" if lost else "none diverged"
    scale = " | ".join(each or "full study" for each in runs.scales)
    return f"{counted(len(runs.about), 'run')}, {left_out}. Scale: {scale}."


SOBER_LOOK = "Locatello et al. 2020"
UDR = "Duan et al. 2020"
DAVA = "Estermann & Wattenhofer 2023"
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
            "variance_averages",
            "Share of the variance explained by the method, and by the setting, mean over worlds and metrics",
            f"{SOBER_LOOK}, section 5.3",
            variance_averages,
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
            f"{UDR}, Table 1 and Figure 9",
            udr_by_partners,
            (PAIRS, ONE_METRIC),
            drawn="partners",
        ),
        Table(
            "criteria_within_methods",
            "Rank correlation of criteria with metrics, over the runs of one method in one world",
            f"{UDR}, Figure 7",
            criteria_within_methods,
            (JUDGED, ONE_METRIC),
        ),
        Table(
            "criteria_averages",
            "Criteria against metrics within methods: mean over methods, worlds and metrics",
            f"{UDR}, Table 6",
            criteria_averages,
            (JUDGED, ONE_METRIC),
        ),
        Table(
            "best_by_criterion",
            "The run of each method that a criterion puts first",
            f"{UDR}, Figure 4",
            best_by_criterion,
            (JUDGED,),
            drawn="",
        ),
        Table(
            "means_by_setting",
            "Means over the seeds of each setting",
            "Chen et al. 2018, Figure 2; Eastwood & Williams 2018, Table 1",
            means_by_setting,
            (),
            drawn="",
        ),
        Table(
            "best_and_mean_strength",
            "Each method at its best strength, at a middling one, and over all",
            f"{DAVA}, Tables 1 to 3 and 9 to 16",
            best_and_mean_strength,
            (ONE_METRIC, SEEDS),
            drawn="",
        ),
        Table(
            "means_correlation",
            "Pearson's correlation over strengths, of the means of criteria and metrics",
            "Chen et al. 2018, Figure 4",
            means_correlation,
            (LABEL_FREE, ONE_METRIC, STRENGTHS),
            drawn="runs of each setting",
        ),
        Table(
            "disputed",
            "Runs that one metric ranks high and another low",
            "Chen et al. 2018, Figures S12 to S14",
            disputed,
            (TWO_METRICS,),
            drawn="",
        ),
        Table(
            "stability",
            "Rank correlation of metrics with themselves, on other pictures",
            f"{SOBER_LOOK}, Figures 21 and 22",
            stability,
            (ONE_METRIC, TWICE),
        ),
        Table(
            "merge_thresholds",
            "Thresholds at which two factors merge, mean over models",
            f"{SOBER_LOOK}, Figures 34 and 35",
            merge_thresholds,
            (MATRICES,),
            drawn="",
        ),
        Table(
            "scores_by_variable",
            "Scores by latent and by factor",
            "Eastwood & Williams 2018, Tables 3 and 4",
            scores_by_variable,
            (PARTS,),
            drawn="",
        ),
        Table(
            "scores_against_tasks",
            "Rank correlation of scores with what codes are good for",
            f"{SOBER_LOOK}, Figures 23 and 28",
            scores_against_tasks,
            (A_TASK,),
        ),
        Table(
            "scores_against_tasks_within_methods",
            "Rank correlation of scores with what codes are good for, over the runs of one method",
            f"{DAVA}, Figure 4",
            scores_against_tasks_within_methods,
            (A_TASK,),
        ),
        Table(
            "tasks_by_group",
            "What tasks give in three groups of runs, with a rising metric",
            f"{SOBER_LOOK}, Figures 26 and 27",
            tasks_by_group,
            (A_TASK, ONE_METRIC, ENOUGH),
            drawn="",
        ),
        Table(
            "task_curves",
            "How tasks go as they get more to learn from",
            f"{SOBER_LOOK}, section 7",
            task_curves,
            (A_TASK, CURVES),
            drawn="",
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
