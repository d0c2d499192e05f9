"""How much of each factor can be read from features: linearly, by a nonlinear readout, and from a few units.

    linear readout      ridge regression of the factor's points
    nonlinear readout   the same with random Fourier features of a Gaussian kernel beside the features
    best unit           linear, from the unit that goes best with the factor; and from the best eight

A factor of categories counts by accuracy. A number or an angle counts by R² of its points, so 0 is guessing the mean.
Every number has what shuffled factors give in its place, and an interval over draws of test rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from sober.defaults import PROBED_LABELS
from sober.estimators.predictors import points
from sober.estimators.scaling import standardised
from sober.metrics.common.intervals import next_draw
from sober.probing.readout import Readout, Scaling, fit
from sober.short_text import as_call
from sober.types import Factor

LABELS = PROBED_LABELS
TEST_SHARE = 0.25
SHUFFLES = 5
FOURIER = 512  # random features of the nonlinear readout
UNITS = {"best unit": 1, "best eight units": 8}


class Number(NamedTuple):
    """One number about one factor, or about the whole layer if `factor` is empty."""

    factor: str
    name: str
    value: float
    low: float = math.nan
    high: float = math.nan
    chance: float = math.nan
    chance_high: float = math.nan  # a further shuffle stays below this in 97.5% of cases
    labels: int = 0  # rows that were learned from
    unit: str = ""  # accuracy, R²; or empty

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def share(self) -> float:
        """The number from 0, which is chance, to 1."""
        if self.unit == "accuracy" and math.isfinite(self.chance) and self.chance < 1:
            return max(0.0, (self.value - self.chance) / (1 - self.chance))
        return self.value


class Knowledge(NamedTuple):
    """Every number about the factors, and the guesses of the linear readout with the most labels for the test rows."""

    numbers: tuple[Number, ...]
    test: Int[np.ndarray, " T"]  # the test rows
    guesses: Float[np.ndarray, "T m"]  # the points of all factors side by side
    learn: Int[np.ndarray, " n"]  # the rows that this readout learned from
    readout: Readout


class Rows(NamedTuple):
    """Features of rows, with the factors behind them."""

    features: Float[np.ndarray, "N D"]
    factors: Num[np.ndarray, "N K"]
    about: tuple[Factor, ...]

    def at(self, index: Int[np.ndarray, " n"]) -> Rows:
        return Rows(self.features[index], self.factors[index], self.about)


def standardised_factors(factors: Num[np.ndarray, "N K"], all_factors: Sequence[Factor]) -> Num[np.ndarray, "N K"]:
    """Factors whose continuous columns have mean 0 and variance 1: their R² is the same, and any numbers fit."""
    continuous = [k for k, factor in enumerate(all_factors) if factor.kind == "continuous"]
    if not continuous:
        return factors
    out = np.array(factors, float)
    out[:, continuous] = standardised(out[:, continuous])[0]
    return out


def split(rows: int, seed: int) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " t"]]:
    """Rows to learn from, in random order, and rows to test on."""
    order = np.random.default_rng([seed, 36]).permutation(rows)
    test = max(1, round(TEST_SHARE * rows))
    return order[test:], order[:test]


def block(points_of_all: Float[np.ndarray, "T m"], k: int, all_factors: Sequence[Factor]) -> Float[np.ndarray, "T m"]:
    """The columns of factor k among the points of all factors."""
    widths = [points(factor, np.zeros(1)).shape[1] for factor in all_factors]
    start = sum(widths[:k])
    return points_of_all[:, start : start + widths[k]]


def knowledge(rows: Rows, *, seed: int = 0, labels: Sequence[int] = LABELS) -> Knowledge:
    """Every number of every factor, for each number of labels."""
    learn, test = split(len(rows.features), seed)
    sizes = [size for size in labels if size < len(learn)] + [len(learn)] * (max(labels) >= len(learn))
    linear = [_readouts("linear readout", rows.at(learn[:size]), rows.at(test), seed) for size in sizes]
    expanded = expand(rows, learn, seed)
    nonlinear = [_readouts("nonlinear readout", expanded.at(learn[:size]), expanded.at(test), seed) for size in sizes]
    from_few_units = tuple(_from_few_units(rows.at(learn), rows.at(test)))
    numbers = [number for readouts in (*linear, *nonlinear) for number in readouts.numbers]
    last = linear[-1]
    return Knowledge((*numbers, *from_few_units), test, last.guesses, learn[: sizes[-1]], last.readout)


def expand(rows: Rows, learn: Int[np.ndarray, " n"], seed: int) -> Rows:
    """Adds random Fourier features: cosines of projections of scaled features, at the scale of the median distance."""
    rng = np.random.default_rng([seed, 37])
    scaling = Scaling.of(rows.features[learn])
    scaled = scaling(rows.features)
    pairs = rng.choice(learn, (2, 500))
    distances = np.linalg.norm(scaled[pairs[0]] - scaled[pairs[1]], axis=1)
    scale = float(np.median(distances)) or 1.0
    projections = rng.standard_normal((scaled.shape[1], FOURIER)).astype(np.float32) / scale
    phases = rng.uniform(0, 2 * np.pi, FOURIER).astype(np.float32)
    return rows._replace(features=np.concatenate([scaled, np.cos(scaled @ projections + phases)], axis=1))


class _Readouts(NamedTuple):
    numbers: list[Number]
    guesses: Float[np.ndarray, "T m"]
    readout: Readout


def _readouts(name: str, learn: Rows, test: Rows, seed: int) -> _Readouts:
    """Each factor's number, with the same after shuffling the factors of the rows to learn from."""
    rng = np.random.default_rng([seed, 38, len(learn.features)])
    orders = [np.arange(len(learn.features)), *(rng.permutation(len(learn.features)) for _ in range(SHUFFLES))]
    targets = [points(factor, column) for factor, column in zip(learn.about, learn.factors.T, strict=True)]
    # Shuffled factors are further targets of the same regression.
    readout = fit(learn.features, [target[order] for order in orders for target in targets])
    guesses = within(
        np.concatenate([target[order] for order in orders for target in targets], axis=1),
        readout.predict(test.features),
    )
    blocks = np.split(guesses, np.cumsum([t.shape[1] for _ in orders for t in targets])[:-1], axis=1)
    numbers = []
    for k, factor in enumerate(learn.about):
        truth, mean = points(factor, test.factors[:, k]), targets[k].mean(axis=0)
        value, error = scored(factor, blocks[k], truth, mean)
        shuffled = np.array(
            [unbounded(factor, blocks[k + s * len(targets)], truth, mean)[0] for s in range(1, len(orders))]
        )
        numbers.append(_number(factor, name, value, error, shuffled, len(learn.features)))
    return _Readouts(numbers, np.concatenate(blocks[: len(targets)], axis=1), readout)


def _from_few_units(learn: Rows, test: Rows) -> Iterator[Number]:
    """Linear readouts from the units whose correlation with a factor's points is the largest."""
    scaling = Scaling.of(learn.features)
    scaled = scaling(learn.features)
    for k, factor in enumerate(learn.about):
        target = points(factor, learn.factors[:, k])
        centred = target - target.mean(axis=0)
        correlation = np.square(scaled.T @ centred).sum(axis=1) / max(float(np.square(centred).sum()), 1e-30)
        best_first = np.argsort(-correlation, kind="stable")
        for name, count in UNITS.items():
            if count >= scaled.shape[1]:
                continue
            chosen = best_first[:count]
            guess = within(target, fit(learn.features[:, chosen], [target]).predict(test.features[:, chosen]))
            value, error = scored(factor, guess, points(factor, test.factors[:, k]), target.mean(axis=0))
            number = _number(factor, name, value, error, np.zeros(0), len(learn.features))
            yield number._replace(chance=_most_frequent(factor, target, test.factors[:, k]))


def within(targets: Float[np.ndarray, "n m"], guesses: Float[np.ndarray, "T m"]) -> Float[np.ndarray, "T m"]:
    """Guesses within the range of the targets: a unit that is nearly constant may be far out in a test row."""
    return np.clip(guesses, targets.min(axis=0), targets.max(axis=0))


def _most_frequent(factor: Factor, target: Float[np.ndarray, "n m"], column: Num[np.ndarray, " T"]) -> float:
    """The accuracy of always guessing the most frequent class; NaN for numbers and angles, whose R² is 0 by chance."""
    if factor.kind != "categorical":
        return math.nan
    return float(np.mean(column == target.sum(axis=0).argmax()))


def scored(
    factor: Factor, guess: Float[np.ndarray, "n m"], truth: Float[np.ndarray, "n m"], mean: Float[np.ndarray, " m"]
) -> tuple[float, float]:
    """The accuracy or R² of guessed points, and its standard error over draws of test rows; R² is at least 0.

    `mean` is the best guess without features: the mean of the rows to learn from.
    """
    value, error = unbounded(factor, guess, truth, mean)
    return max(value, 0.0), error


def unbounded(
    factor: Factor, guess: Float[np.ndarray, "n m"], truth: Float[np.ndarray, "n m"], mean: Float[np.ndarray, " m"]
) -> tuple[float, float]:
    """The same with R² below 0 for guesses that are worse than the mean."""
    count = len(truth)
    if factor.kind == "categorical":
        share = float(outcomes(factor, guess, truth, mean).mean())
        return share, math.sqrt(max(share * (1 - share), 0.25 / count) / count)
    squares = np.sum((guess - truth) ** 2, axis=1)
    spread = np.sum((truth - mean) ** 2, axis=1)
    total = float(spread.mean())
    if total == 0:
        return 0.0, 0.0
    r2 = 1 - float(squares.mean()) / total
    return r2, float(np.std(squares - (1 - r2) * spread)) / (total * math.sqrt(count))


def outcomes(
    factor: Factor, guess: Float[np.ndarray, "n m"], truth: Float[np.ndarray, "n m"], mean: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " n"]:
    """What each row adds to the accuracy or to R²: their mean over rows is the number."""
    if factor.kind == "categorical":
        return np.asarray(guess.argmax(axis=1) == truth.argmax(axis=1), float)
    spread = np.sum((truth - mean) ** 2, axis=1)
    total = float(spread.mean())
    return (spread - np.sum((guess - truth) ** 2, axis=1)) / total if total > 0 else np.zeros(len(truth))


def chance_of(shuffled: Float[np.ndarray, " S"]) -> tuple[float, float]:
    """The mean after shuffles, and what a further shuffle stays below in 97.5% of cases.

    R² of shuffles counts as it is: if those below 0 were 0, nearly any R² would be above chance.
    """
    return max(0.0, float(shuffled.mean())), max(0.0, next_draw(shuffled, -math.inf, 1)[1])


def _number(
    factor: Factor, name: str, value: float, error: float, shuffled: Float[np.ndarray, " S"], labels: int
) -> Number:
    chance, chance_high = chance_of(shuffled) if len(shuffled) else (math.nan, math.nan)
    low, high = max(0.0, value - 1.96 * error), min(1.0, value + 1.96 * error)
    unit = "accuracy" if factor.kind == "categorical" else "R²"
    return Number(factor.name, name, value, low, high, chance, chance_high, labels, unit)
