"""Several codes of the same rows, compared: how far apart are their scores, and could that be chance?

Every score is a function of rows that could have been others. How much it varies with them is seen on random halves of
the rows, the same halves for all codes. For a mean over n rows, the variance over halves, drawn without replacement,

    Var(score of n / 2 of n rows) = (1 - 1/2) σ² / (n / 2) = σ² / n

is just that of the score of all n rows (McCarthy 1969; the delete-d jackknife of Shao & Wu 1989 with d = n / 2). Unlike
the bootstrap it never has a row twice, which would stand on both sides of a split, or be its own neighbour. A
difference of two codes is then real where it is large beside how much the difference varies over halves:

    difference ± t · s        s the standard deviation over H halves, t of Student's distribution with H - 1 degrees
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
import threadpoolctl
from jaxtyping import Float, Int

from sober.errors import RequestError, counted
from sober.machine import in_order
from sober.metrics.registry import home_of
from sober.metrics.rows import take
from sober.metrics.score import Chosen, Scores, score
from sober.types import Codes, Setting

if TYPE_CHECKING:
    import polars as pl

ROWS = 10_000  # from which halves are drawn at most: what the study's metrics draw
HALVES = 20
LEAST = 8  # rows, or groups of rows, that can be halved with any sense

Job = tuple[Codes, Int[np.ndarray, " n"] | None, int]  # codes, which of their rows, and a seed


class Difference(NamedTuple):
    """A score of the second codes less that of the first, and where it would fall if other rows had been drawn."""

    score: str
    first: str
    second: str
    value: float
    low: float
    high: float
    p: float  # how often chance alone makes it as large, by Student's t
    adjusted: float  # the same among so many comparisons (Holm 1979)
    real: bool  # whether that is less than 1 - level
    better: str  # whose score is the better one, where the difference is real and one end is good


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison:
    """Scores of several codes of the same rows, and the difference of each two of them in each score."""

    scores: Mapping[str, Scores]  # by the name of the codes: what `sober.score` gives of all rows
    errors: Mapping[str, Mapping[str, float]]  # standard errors of these, over halves
    differences: tuple[Difference, ...]
    rows: int
    groups: int | None  # where halves are of groups of rows: how many there are
    halves: int
    level: float

    @property
    def names(self) -> tuple[str, ...]:
        """Of the codes."""
        return tuple(self.scores)

    @property
    def measured(self) -> tuple[str, ...]:
        """Scores that any of the codes has, in order."""
        return tuple(dict.fromkeys(name for scores in self.scores.values() for name in scores))

    def real(self) -> tuple[Difference, ...]:
        """Differences that chance does not explain."""
        return tuple(each for each in self.differences if each.real)

    def table(self) -> pl.DataFrame:
        """A row for each of the codes, a column for each score; None where it has none."""
        import polars as pl  # noqa: PLC0415

        columns = {score: [each.get(score) for each in self.scores.values()] for score in self.measured}
        return pl.DataFrame({"codes": list(self.names), **columns})

    def __repr__(self) -> str:
        return (
            f"Comparison of {', '.join(map(repr, self.names))}: {counted(len(self.measured), 'score')} of "
            f"{self.rows:,} rows, {len(self.real())} of {counted(len(self.differences), 'difference')} real"
        )


def compared(
    codes: Mapping[str, Codes],
    metrics: str | Chosen | None = None,
    *,
    preset: str = "study",
    seed: int = 0,
    halves: int = HALVES,
    level: float = 0.95,
) -> Comparison:
    """Codes of the same rows with the same factors: their scores, and how they differ."""
    if halves < 2:
        raise RequestError(f"halves must be at least 2, got {halves}")
    if not 0 < level < 1:
        raise RequestError(f"level is the share of intervals that hold the truth, between 0 and 1, not {level}")
    one = _check(codes)
    measure = functools.partial(_score, metrics=metrics, preset=preset)
    parts = list(_halves(one, halves, seed))
    jobs: list[Job] = [(codes[name], None, seed) for name in codes]
    jobs += [(codes[name], part, seed + 1 + at) for at, part in enumerate(parts) for name in codes]
    with threadpoolctl.threadpool_limits(1):  # as in `score_many`
        found = list(in_order(measure, jobs))
    whole = dict(zip(codes, found, strict=False))
    varied = {name: found[len(codes) + at :: len(codes)] for at, name in enumerate(codes)}
    differences = _differences(whole, varied, one.mean.shape[0], level)
    if not differences:
        reasons = [f"{metric} {reason}" for scores in whole.values() for metric, reason in scores.left_out.items()]
        raise RequestError(f"no score can be compared: {next(iter(reasons), 'no two codes have one in common')}")
    errors = {
        name: {key: _error(np.array(draws), key, whole[name], one.mean.shape[0]) for key, draws in _draws(varied[name])}
        for name in codes
    }
    groups = None if one.groups is None else int(one.groups.max()) + 1
    return Comparison(whole, errors, differences, one.mean.shape[0], groups, halves, level)


def _check(codes: Mapping[str, Codes]) -> Codes:
    """Refuses codes of different rows; returns one of them, whose rows and factors are those of all."""
    if len(codes) < 2:
        raise RequestError(f"there is nothing to compare in {counted(len(codes), 'set')} of codes: give two or more")
    (first, one), *others = codes.items()
    for name, other in others:
        rows, here = one.mean.shape[0], other.mean.shape[0]
        if here != rows:
            raise RequestError(
                f"{name!r} has {here:,} rows with labels and {first!r} {rows:,}: compare codes of the "
                "same rows, in the same order"
            )
        if [each.name for each in other.about] != [each.name for each in one.about] or other.about != one.about:
            raise RequestError(f"{name!r} has other factors than {first!r}: compare codes of the same factors")
        for what in ("factors", "known", "groups", "weights"):
            if not _same(getattr(one, what), getattr(other, what)):
                raise RequestError(f"{name!r} has other {what} than {first!r}: compare codes of the same rows")
    units = one.mean.shape[0] if one.groups is None else int(one.groups.max()) + 1
    if units < LEAST:
        noun = "row" if one.groups is None else "group"
        raise RequestError(f"{counted(units, noun)} cannot be halved with any sense: it takes {LEAST} or more")
    return one


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _halves(codes: Codes, halves: int, seed: int) -> Iterator[Int[np.ndarray, " n"]]:
    """Rows of random halves, of the groups where there are some; of a sample where there are more than `ROWS`."""
    unit = np.arange(codes.mean.shape[0]) if codes.groups is None else codes.groups
    order = np.random.default_rng([seed, 0]).permutation(int(unit.max()) + 1)
    size = np.bincount(unit)[order]
    sampled = order[: max(LEAST, int(np.searchsorted(np.cumsum(size), ROWS, side="right")))]
    for half in range(halves):
        drawn = np.random.default_rng([seed, 1 + half]).permutation(sampled)[: len(sampled) // 2]
        member = np.zeros(len(order), bool)
        member[drawn] = True
        yield np.flatnonzero(member[unit])


def _score(job: Job, *, metrics: str | Chosen | None, preset: str) -> Scores:
    """Scores of all rows, or of some; arrays behind them are not kept, as there are many."""
    codes, rows, seed = job
    found = score(codes if rows is None else take(codes, rows), metrics=metrics, preset=preset, seed=seed)
    if rows is not None:
        found.parts.clear()
    return found


def _draws(varied: Sequence[Scores]) -> Iterator[tuple[str, list[float]]]:
    """Each score that all halves have, with its values."""
    for name in varied[0]:
        if all(name in each for each in varied):
            yield name, [each[name] for each in varied]


def _differences(
    whole: Mapping[str, Scores], varied: Mapping[str, Sequence[Scores]], rows: int, level: float
) -> tuple[Difference, ...]:
    draws = {name: dict(_draws(some)) for name, some in varied.items()}
    found: list[Difference] = []
    for first, second in itertools.combinations(whole, 2):
        for name in whole[first]:
            if name not in whole[second] or name not in draws[first] or name not in draws[second]:
                continue
            apart = np.array(draws[second][name]) - np.array(draws[first][name])
            value = whole[second][name] - whole[first][name]
            error = _error(apart, name, whole[first], rows)
            reach = float(scipy.special.stdtrit(len(apart) - 1, (1 + level) / 2)) * error
            p = _chance(value, error, len(apart) - 1)
            found.append(Difference(name, first, second, value, value - reach, value + reach, p, p, False, ""))
    adjusted = holm([each.p for each in found])
    return tuple(_judged(each, share, level) for each, share in zip(found, adjusted, strict=True))


def _judged(difference: Difference, adjusted: float, level: float) -> Difference:
    real = adjusted < 1 - level
    meaning = home_of(difference.score).scores[difference.score]
    rises = (difference.value > 0) == (meaning.better == "higher")
    better = (difference.second if rises else difference.first) if real and meaning.better != "neither" else ""
    return difference._replace(adjusted=adjusted, real=real, better=better)


def _error(draws: Float[np.ndarray, " H"], name: str, scores: Scores, rows: int) -> float:
    """The standard error that values on halves give."""
    return float(np.std(draws, ddof=1) * math.sqrt(_widened(scores.settings[home_of(name).name], rows)))


def _widened(settings: Mapping[str, Setting], rows: int) -> float:
    """How much larger the variance of a score is than its variance over halves, where a metric draws rows itself.

    It sees m of n rows, and of a half b. Over halves its variance is σ² (1 - b/n) / b, of all rows σ² / m. Where halves
    are of a sample of more rows, it is taken to be no smaller than that of the sample's score.
    """
    parts = [settings.get(name) for name in (["samples"] if "samples" in settings else ["train", "validation", "test"])]
    asked = sum(int(part) for part in parts if isinstance(part, int | float)) or rows
    n = min(rows, ROWS)
    b, m = min(max(n // 2, 1), asked), min(rows, asked)
    return max(1.0, b / (m * (1 - b / n)))


def _chance(value: float, error: float, degrees: int) -> float:
    """The probability of so large a difference, either way, where there is none."""
    if error == 0:
        return float(value == 0)
    return 2 * float(scipy.special.stdtr(degrees, -abs(value) / error))


def holm(p: Sequence[float]) -> list[float]:
    """Probabilities adjusted for how many there are (Holm 1979): the k-th smallest of n times n - k + 1, in order."""
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(np.array(p, float)[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(raised, 1.0)
    return adjusted.tolist()
