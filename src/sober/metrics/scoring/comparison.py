"""Compares several codes of the same rows: how far apart are their scores, and could that be chance?

A score depends on which rows were drawn. How much it varies with them is estimated on random halves of the rows, the
same halves for all codes. Halves come in pairs that share no row, so the two are independent samples of n / 2 rows.
This holds for every score, also if it learns, takes quantiles or splits the rows itself. Twice as many rows halve the
variance:

    Var(score of n rows) = Var(score of n / 2 rows) / 2 = E (score of one half - score of the other)² / 4

The variance of a score that the most extreme rows decide (`Metric.extremes`) hardly falls with more rows. It counts as
the variance of a half.

The variance of a score near an end of its range may fall much faster. There, halves are halved again, and quarters tell
how fast it falls:

    V(n) = V(n / 2) / 2 · min(1, 4 V(n / 2) / V(n / 4))        V(n) the variance of the score of n rows

The 4 is 2 for scores whose variance falls as usual, times 2 for caution: a ratio of variances over few halves is rough.

Unlike the bootstrap, halves never contain a row twice, which could be on both sides of a split or be its own neighbour.
A difference of two codes is real if it is large compared with how much it varies over halves:

    difference ± t · s        s² the mean of (…)² / 4 over P pairs, t of Student's distribution with P degrees
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int

from sober.defaults import COMPARED_HALVES
from sober.errors import RequestError, counted
from sober.metrics.common.metric_rows import take
from sober.metrics.registry import distinct_scores, home_of
from sober.metrics.scoring.score import Chosen, Scores, score
from sober.parallel import map_in_order, one_thread
from sober.short_text import as_call, as_table
from sober.types import Codes, Setting

if TYPE_CHECKING:
    import polars as pl

ROWS = 10_000  # halves are drawn from at most this many rows: as many as the study's metrics draw
LEAST = 8  # rows, or groups of rows, needed to draw halves
NEAR = 0.01  # share of the range of a score, from its ends, within which quarters tell how fast its variance falls
CAUTION = 2.0  # how many times faster than usual the variance falls before it counts

Job = tuple[Codes, Int[np.ndarray, " n"] | None, int]  # codes, rows of them (None for all), and a seed


class Difference(NamedTuple):
    """A score of the second codes less that of the first, with its confidence interval."""

    score: str
    first: str
    second: str
    value: float
    low: float
    high: float
    p: float  # the probability that chance alone makes it as large, by Student's t
    adjusted: float  # p adjusted for the number of comparisons (Holm 1979)
    real: bool  # whether the adjusted p is less than 1 - level
    better: str  # the codes with the better score; empty if the difference is not real or neither end is better

    def __repr__(self) -> str:
        return as_call(self)


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison:
    """Scores of several codes of the same rows, and the difference of every two codes in every score.

    A score that equals another one by definition is among the `scores`, and it is not compared a second time.
    """

    scores: Mapping[str, Scores]  # scores of all rows, by the name of the codes
    errors: Mapping[str, Mapping[str, float]]  # standard errors of the scores, from halves
    differences: tuple[Difference, ...]
    rows: int
    groups: int | None  # the number of groups, if halves are drawn from groups of rows
    halves: int  # an even number: two of each pair
    level: float

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the codes."""
        return tuple(self.scores)

    @property
    def measured(self) -> tuple[str, ...]:
        """Scores that any of the codes has, in the order of tables, without copies of other scores."""
        return tuple(self.copies)

    @property
    def copies(self) -> dict[str, tuple[str, ...]]:
        """The scores that are measured, each with the scores that equal it by definition."""
        return distinct_scores(*self.scores.values())

    def real(self) -> tuple[Difference, ...]:
        """Differences that chance does not explain."""
        return tuple(difference for difference in self.differences if difference.real)

    def table(self) -> pl.DataFrame:
        """A row for each of the codes and a column for each score, also for copies; None where a score is missing."""
        import polars as pl  # noqa: PLC0415

        names = dict.fromkeys(name for scores in self.scores.values() for name in scores)
        columns = {name: [scores.get(name) for scores in self.scores.values()] for name in names}
        return pl.DataFrame({"codes": list(self.names), **columns})

    def __repr__(self) -> str:
        heading = (
            f"Comparison of {', '.join(map(repr, self.names))}: {counted(len(self.measured), 'score')} of "
            f"{self.rows:,} rows, {len(self.real())} of {counted(len(self.differences), 'difference')} real"
        )
        real = {difference.score for difference in self.real()}
        rows = [
            {"score": name, "differs": "yes" if name in real else "", **self._values(name)} for name in self.measured
        ]
        return as_table(heading, rows)

    def _values(self, score: str) -> dict[str, str]:
        """The score of each of the codes."""
        return {name: f"{scores[score]:.3f}" for name, scores in self.scores.items() if score in scores}


def compared(
    codes: Mapping[str, Codes],
    metrics: str | Chosen | None = None,
    *,
    preset: str = "study",
    seed: int = 0,
    halves: int = COMPARED_HALVES,
    level: float = 0.95,
) -> Comparison:
    """Scores codes of the same rows and factors, and compares every two of them."""
    if halves < 2:
        raise RequestError(f"halves must be at least 2, got {halves}")
    if not 0 < level < 1:
        raise RequestError(f"level is the share of intervals that hold the truth, between 0 and 1, not {level}")
    first_codes = _check(codes)
    measure = functools.partial(_score, metrics=metrics, preset=preset)
    row_halves = [rows for pair in _pairs(first_codes, -(-halves // 2), seed) for rows in pair]
    jobs: list[Job] = [(codes[name], None, seed) for name in codes]
    jobs += [(codes[name], rows, seed + 1 + index) for index, rows in enumerate(row_halves) for name in codes]
    with one_thread():  # as in `score_many`
        outcomes = list(map_in_order(measure, jobs))
    full_scores = dict(zip(codes, outcomes, strict=False))  # scores of all rows
    over_halves = {name: outcomes[len(codes) + index :: len(codes)] for index, name in enumerate(codes)}
    over_quarters = _over_quarters(codes, full_scores, row_halves, seed)
    draws = {name: dict(_draws(scores)) for name, scores in over_halves.items()}
    quarter_draws = {name: dict(_draws(scores)) for name, scores in over_quarters.items()}
    differences = _differences(full_scores, draws, quarter_draws, first_codes.mean.shape[0], level)
    if not differences:
        left_out = [item for scores in full_scores.values() for item in scores.left_out.items()]
        reasons = [f"{metric} {reason}" for metric, reason in left_out]
        raise RequestError(f"no score can be compared: {next(iter(reasons), 'no two codes have one in common')}")
    errors = {
        name: {
            score_name: _error(
                np.array(of_halves),
                np.array(quarter_draws.get(name, {}).get(score_name, [])),
                score_name,
                full_scores[name],
                first_codes.mean.shape[0],
            )
            for score_name, of_halves in draws[name].items()
        }
        for name in codes
    }
    groups = None if first_codes.groups is None else int(first_codes.groups.max()) + 1
    return Comparison(full_scores, errors, differences, first_codes.mean.shape[0], groups, len(row_halves), level)


def _check(codes: Mapping[str, Codes]) -> Codes:
    """Refuses codes of different rows or factors. Returns the first codes, whose rows and factors all share."""
    if len(codes) < 2:
        raise RequestError(f"there is nothing to compare in {counted(len(codes), 'set')} of codes: give two or more")
    (first, first_codes), *other_items = codes.items()
    for name, other_codes in other_items:
        rows, other_rows = first_codes.mean.shape[0], other_codes.mean.shape[0]
        if other_rows != rows:
            raise RequestError(
                f"{name!r} has {other_rows:,} rows with labels and {first!r} {rows:,}: compare codes of the "
                "same rows, in the same order"
            )
        if [factor.name for factor in other_codes.about] != [
            factor.name for factor in first_codes.about
        ] or other_codes.about != first_codes.about:
            raise RequestError(f"{name!r} has other factors than {first!r}: compare codes of the same factors")
        for attribute in ("factors", "known", "groups", "weights"):
            if not _same(getattr(first_codes, attribute), getattr(other_codes, attribute)):
                raise RequestError(f"{name!r} has other {attribute} than {first!r}: compare codes of the same rows")
    halved_units = first_codes.mean.shape[0] if first_codes.groups is None else int(first_codes.groups.max()) + 1
    if halved_units < LEAST:
        noun = "row" if first_codes.groups is None else "group"
        raise RequestError(f"{counted(halved_units, noun)} cannot be halved with any sense: it takes {LEAST} or more")
    return first_codes


def _same(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)


def _pairs(codes: Codes, pairs: int, seed: int) -> Iterator[tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]]:
    """Splits all rows, or all groups, into random halves. If there are more than `ROWS` rows, splits a sample."""
    unit = np.arange(codes.mean.shape[0]) if codes.groups is None else codes.groups
    order = np.random.default_rng([seed, 0]).permutation(int(unit.max()) + 1)
    size = np.bincount(unit)[order]
    sampled = order[: max(LEAST, int(np.searchsorted(np.cumsum(size), ROWS, side="right")))]
    for pair in range(pairs):
        shuffled = np.random.default_rng([seed, 1 + pair]).permutation(sampled)
        side = np.zeros(len(order), np.int8)  # 0 for what is not in the sample
        side[shuffled[: len(sampled) // 2]], side[shuffled[len(sampled) // 2 :]] = 1, 2
        yield np.flatnonzero(side[unit] == 1), np.flatnonzero(side[unit] == 2)


def _over_quarters(
    codes: Mapping[str, Codes],
    full_scores: Mapping[str, Scores],
    row_halves: Sequence[Int[np.ndarray, " n"]],
    seed: int,
) -> dict[str, list[dict[str, float]]]:
    """By the name of codes: the scores near an end of their range, for two quarters of the rows of each half."""
    first_codes = next(iter(codes.values()))
    quarters = [
        rows for number, half in enumerate(row_halves) for rows in _halved(first_codes, half, [seed, 0, number])
    ]
    unit = first_codes.groups
    if min(len(rows if unit is None else np.unique(unit[rows])) for rows in quarters) < LEAST:
        return {}
    by_name = {}
    for name, scores in full_scores.items():
        near = {score_name for score_name, value in scores.items() if _is_near_an_end(score_name, value)}
        homes = {home_of(score_name).name for score_name in near}
        if not homes:
            continue
        measure = functools.partial(
            _score, metrics={metric: scores.settings[metric] for metric in sorted(homes)}, preset="study"
        )
        jobs: list[Job] = [(codes[name], rows, seed + 1 + index) for index, rows in enumerate(quarters)]
        with one_thread():
            outcomes = list(map_in_order(measure, jobs))
        by_name[name] = [{key: one[key] for key in near if key in one} for one in outcomes]
    return by_name


def _is_near_an_end(score_name: str, value: float) -> bool:
    """Whether a score is within a hundredth of its range from one of its ends. Scores of extremes never are."""
    metric = home_of(score_name)
    meaning = metric.scores[score_name]
    reach = NEAR * (meaning.high - meaning.low)
    return not metric.extremes and math.isfinite(reach) and not meaning.low + reach <= value <= meaning.high - reach


def _halved(
    codes: Codes, rows: Int[np.ndarray, " n"], seed: Sequence[int]
) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """Splits some rows at random into two halves; rows of one group are in one half."""
    unit = rows if codes.groups is None else codes.groups[rows]
    shuffled = np.random.default_rng(seed).permutation(np.unique(unit))
    is_first = np.isin(unit, shuffled[: len(shuffled) // 2])
    return rows[is_first], rows[~is_first]


def _score(job: Job, *, metrics: str | Chosen | None, preset: str) -> Scores:
    """Scores all rows, or some; scores of some rows do not keep their arrays, which take memory."""
    codes, rows, seed = job
    scores = score(codes if rows is None else take(codes, rows), metrics=metrics, preset=preset, seed=seed)
    if rows is not None:
        scores.parts.clear()
    return scores


def _draws(over_halves: Sequence[Mapping[str, float]]) -> Iterator[tuple[str, list[float]]]:
    """Each score that all halves have, with its values over halves."""
    for name in over_halves[0]:
        if all(name in scores for scores in over_halves):
            yield name, [scores[name] for scores in over_halves]


def _differences(
    full_scores: Mapping[str, Scores],
    draws: Mapping[str, Mapping[str, list[float]]],
    quarter_draws: Mapping[str, Mapping[str, list[float]]],
    rows: int,
    level: float,
) -> tuple[Difference, ...]:
    differences: list[Difference] = []
    measured = distinct_scores(*full_scores.values())
    for first, second in itertools.combinations(full_scores, 2):
        for name in measured:
            if any(name not in full_scores[codes] or name not in draws[codes] for codes in (first, second)):
                continue
            draws_apart = np.array(draws[second][name]) - np.array(draws[first][name])
            quarters = [quarter_draws.get(codes, {}).get(name, []) for codes in (first, second)]
            quarters_apart = np.subtract(quarters[1], quarters[0]) if all(quarters) else np.zeros(0)
            value = full_scores[second][name] - full_scores[first][name]
            error = _error(draws_apart, quarters_apart, name, full_scores[first], rows)
            margin = float(scipy.special.stdtrit(len(draws_apart) // 2, (1 + level) / 2)) * error
            p = _chance(value, error, len(draws_apart) // 2)
            differences.append(Difference(name, first, second, value, value - margin, value + margin, p, p, False, ""))
    adjusted = holm([difference.p for difference in differences])
    return tuple(_decided(difference, share, level) for difference, share in zip(differences, adjusted, strict=True))


def _decided(difference: Difference, adjusted: float, level: float) -> Difference:
    real = adjusted < 1 - level
    meaning = home_of(difference.score).scores[difference.score]
    rises = (difference.value > 0) == (meaning.better == "higher")
    better = (difference.second if rises else difference.first) if real and meaning.better != "neither" else ""
    return difference._replace(adjusted=adjusted, real=real, better=better)


def _error(
    of_halves: Float[np.ndarray, " H"], of_quarters: Float[np.ndarray, " 2H"], name: str, scores: Scores, rows: int
) -> float:
    """The standard error of a score, from its values on pairs of halves; and of quarters, if there are any."""
    variance = _variance(of_halves)
    metric = home_of(name)
    ratio = 1.0 if metric.extremes else _variance_ratio(scores.settings[metric.name], rows)
    if len(of_quarters) and (of_quarter := _variance(of_quarters)) > 0:
        usual = _variance_ratio(scores.settings[metric.name], min(rows, ROWS) // 2)
        ratio *= min(1.0, CAUTION * variance / (of_quarter * usual))
    return math.sqrt(variance * ratio)


def _variance(draws: Float[np.ndarray, " H"]) -> float:
    """The variance of a score, from its values on pairs of samples that share no row."""
    return float(np.mean((draws[::2] - draws[1::2]) ** 2)) / 2


def _variance_ratio(settings: Mapping[str, Setting], rows: int) -> float:
    """The ratio of a score's variance to its variance on a half: the rows used of a half, by those used of all rows.

    A metric may draw fewer rows than there are.
    """
    sizes = [settings.get(name) for name in (["samples"] if "samples" in settings else ["train", "validation", "test"])]
    drawn = sum(int(size) for size in sizes if isinstance(size, int | float)) or rows
    return min(max(min(rows, ROWS) // 2, 1), drawn) / min(rows, drawn)


def _chance(value: float, error: float, degrees: int) -> float:
    """The probability of a difference this large, in either direction, if there is none."""
    if error == 0:
        return float(value == 0)
    return 2 * float(scipy.special.stdtr(degrees, -abs(value) / error))


def holm(p: Sequence[float]) -> list[float]:
    """Probabilities adjusted for their number (Holm 1979): the k-th smallest of n times n - k + 1, never falling."""
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(np.array(p, float)[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(raised, 1.0)
    return adjusted.tolist()
