"""zero_shot: do codes tell the factors of combinations that were never seen? (Eastwood & Williams 2018, appendix B.2)

Lassos, random forests and ridges learn to predict each factor from codes of pictures outside a region of factor
combinations. They are tested on other pictures outside it, and on pictures inside it:

    inside_k, outside_k = √(mean of |guess - truth|²) / unit of factor k       on test rows
    ratio_k = inside_k / outside_k                                             1: as good as if it had been seen
    inside, outside = means over factors;  ratio = inside / outside

The unit is that of `dci`: the error of always guessing the training rows' mean, on test rows outside. Being the same
inside, it leaves the ratio one of errors, and it is there also for a factor that has one value inside. With
`unit="own"` the errors inside are in units of the factor's standard deviation there, as in the paper's Table 5.

Where the models were trained without the region, they have never seen it either, which is the paper's case: then the
pictures inside come from the world as it was before the region was left out.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from sober.conditions import check_condition, true_of
from sober.criteria.criterion import Cost, Progress
from sober.errors import RequestError, counted
from sober.estimators.predictors import Rows, points
from sober.estimators.regressors import Chosen, Parts, choose_forest, choose_lasso, choose_ridge, fitted_by
from sober.metrics.dci_paper import REFERENCE, TEST, TRAIN, VALIDATION
from sober.metrics.metric import Meaning, Measured, varying
from sober.metrics.rows import sample, split_in_three, take
from sober.shared import Shared
from sober.tasks.task import Subjects, Task
from sober.types import Codes, Factor, Setting

if TYPE_CHECKING:  # these need JAX
    from sober.worlds import World
    from sober.worlds.views import Without

INSIDE = 21_238  # pictures in the paper's gap
LEAST_OUTSIDE, LEAST_INSIDE = 30, 10  # rows with which anything can be said
FEW = 100  # rows to test on, below which an error is hardly known
EXACT = 1e-6  # errors below are as good as none: their ratio would be one of rounding
SECONDS = 7.0  # of a model on two cores, for 20,000 rows of 10 latents and 5 factors

REGRESSORS: dict[str, Callable[[int, int], Callable[[Parts], Chosen]]] = {  # by the number of trees and the seed
    "lasso": lambda trees, seed: choose_lasso,
    "forest": lambda trees, seed: functools.partial(choose_forest, trees=trees, seed=seed),
    "ridge": lambda trees, seed: choose_ridge,
}


class Sides(NamedTuple):
    """Rows to learn from, to choose by and to test on, all outside the region; and rows inside."""

    learn: Codes
    valid: Codes
    outside: Codes
    inside: Codes


class Errors(NamedTuple):
    """Squared errors of test rows, in squared units of each factor."""

    inside: Float[np.ndarray, "n K"]
    outside: Float[np.ndarray, "n K"]


def perform(
    subjects: Subjects,
    *,
    seed: int,
    progress: Progress,
    shared: Shared,
    region: str,
    unit: str,
    train: float,
    validation: float,
    test: float,
    inside: float,
    trees: float,
) -> list[Measured]:
    sizes, results = (int(train), int(validation), int(test)), []
    for done, (far, near) in enumerate(parted(subjects, region, sum(sizes), int(inside), seed), 1):
        sides = Sides(*split_in_three(far, *sizes, seed), _finite(near, far))
        results.append(_tried(sides, unit, int(trees), seed))
        progress(done, len(subjects.codes))
    return results


def parted(subjects: Subjects, region: str, most: int, inside: int, seed: int) -> list[tuple[Codes, Codes]]:
    """The rows of each model outside and inside a region, those inside at most `inside`.

    What the models' world has left out is encoded: as large a share of `inside` pictures as there are of `most` rows.
    """
    first = subjects.codes[0]
    if (gap := _gap(subjects.world, region)) is not None:
        share = min(1.0, len(first.mean) / most)
        chosen = np.random.default_rng([seed, 4]).permutation(gap.size)[: max(LEAST_INSIDE, math.ceil(inside * share))]
        _check_rows(region, len(first.mean), len(chosen))
        near = [_with_factors(codes, first) for codes in subjects.encode(np.sort(chosen), gap)]
        return list(zip(subjects.codes, near, strict=True))
    true = true_of(region, first.about, first.factors, _regions(subjects.world))
    _check_rows(region, int((~true).sum()), int(true.sum()))
    far, near_rows = np.flatnonzero(~true), np.flatnonzero(true)
    return [(take(codes, far), sample(take(codes, near_rows), inside, seed)) for codes in subjects.codes]


def _check_rows(region: str, outside: int, inside: int) -> None:
    if not outside or not inside:
        which = "every row" if inside else "no row"
        raise RequestError(f"zero_shot: {region!r} is true of {which}: it must leave out some and keep the others")
    if outside < LEAST_OUTSIDE or inside < LEAST_INSIDE:
        raise RequestError(
            f"zero_shot needs {LEAST_OUTSIDE} rows outside the region {region!r} and {LEAST_INSIDE} inside, and there "
            f"are {counted(outside, 'row')} outside and {inside:,} inside: encode more, or choose another region"
        )


def _with_factors(codes: Codes, like: Codes) -> Codes:
    """Codes with the factors of others, in their order, and with rows for which all of them are known."""
    names = [factor.name for factor in codes.about]
    columns = codes.factors[:, [names.index(factor.name) for factor in like.about]]
    known = np.flatnonzero(np.isfinite(columns).all(axis=1))
    return take(dataclasses.replace(codes, factors=columns, about=like.about), known)


def _finite(codes: Codes, others: Codes) -> Codes:
    """Codes in which what is no number is the mean of others, from which nothing can be told."""
    if "not_finite" not in codes.flags:
        return codes
    return dataclasses.replace(codes, mean=np.where(np.isfinite(codes.mean), codes.mean, others.mean.mean(axis=0)))


def _tried(sides: Sides, unit: str, trees: int, seed: int) -> Measured:
    """All regressors on the rows of one model."""
    sides, flags = _learnable(sides)
    units, of_units = _units(sides, unit)
    flags |= of_units | _flags(sides)
    values: dict[str, float] = {}
    parts: dict[str, np.ndarray] = {}
    uncertain: dict[str, float] = {}
    for name, regressor in REGRESSORS.items():
        errors = _errors(sides, regressor(trees, seed), units)
        both = [np.sqrt(squares.mean(axis=0)) for squares in errors]  # (K,) inside, (K,) outside
        means, unsure = [float(side.mean()) for side in both], [standard_error(squares) for squares in errors]
        for side, mean, error, by_factor in zip(Errors._fields, means, unsure, both, strict=True):
            values[f"zero_shot_{name}_{side}"], uncertain[f"zero_shot_{name}_{side}"] = mean, error
            parts[f"{name}_{side}_per_factor"] = by_factor
        ratio = _ratio(*means)
        values[f"zero_shot_{name}_ratio"], parts[f"{name}_ratio_per_factor"] = float(ratio), _ratio(*both)
        relative = math.hypot(*(error / max(mean, EXACT) for mean, error in zip(means, unsure, strict=True)))
        uncertain[f"zero_shot_{name}_ratio"] = float(ratio) * relative
    return Measured(values, tuple(sorted(flags)), parts, uncertain)


def _learnable(sides: Sides) -> tuple[Sides, set[str]]:
    """Without the factors that have one value in the rows to learn from."""
    about = varying(sides.learn).about
    if not about:
        raise RequestError("zero_shot: outside the region no factor has two values: choose a smaller region")
    if len(about) == len(sides.learn.about):
        return sides, set()
    kept = [sides.learn.about.index(factor) for factor in about]
    return Sides(*(dataclasses.replace(codes, factors=codes.factors[:, kept], about=about) for codes in sides)), {
        "constant_outside"
    }


def _flags(sides: Sides) -> set[str]:
    few = min(len(sides.inside.mean), len(sides.outside.mean)) < FEW
    unseen = any(
        factor.kind != "continuous" and set(sides.inside.factors[:, k]) - set(sides.learn.factors[:, k])
        for k, factor in enumerate(sides.learn.about)
    )
    idle = not np.ptp(sides.learn.mean, axis=0).any()
    named = {
        "few_tested": few,
        "unseen_value": unseen,
        "collapsed": idle,
        "one_factor": len(sides.learn.about) == 1,
        "not_finite": "not_finite" in sides.inside.flags,
    }
    return {name for name, true in named.items() if true}


def _units(sides: Sides, unit: str) -> tuple[Float[np.ndarray, "2 K"], set[str]]:
    """The square of what errors of each factor are measured in, inside and outside."""
    squares, flags = np.empty((2, len(sides.learn.about))), set()
    for k, factor in enumerate(sides.learn.about):
        learn, outside, inside = (
            points(factor, codes.factors[:, k]) for codes in (sides.learn, sides.outside, sides.inside)
        )
        spread = _mean_square(outside - learn.mean(axis=0)) or _mean_square(learn - learn.mean(axis=0))
        own = _mean_square(inside - inside.mean(axis=0))
        flags |= {"constant_inside"} if unit == "own" and own == 0 else set()
        squares[:, k] = (own or spread) if unit == "own" else spread, spread
    return squares, flags


def _mean_square(distances: Float[np.ndarray, "n m"]) -> float:
    return float(np.mean(np.sum(distances**2, axis=1)))


def _errors(sides: Sides, choose: Callable[[Parts], Chosen], units: Float[np.ndarray, "2 K"]) -> Errors:
    """Of a regressor of each factor."""
    learn, valid = (Rows(codes.mean, codes.factors, codes.about) for codes in (sides.learn, sides.valid))
    tests = sides.inside, sides.outside
    fitted = fitted_by(choose, learn, valid, np.concatenate([codes.mean for codes in tests]))
    starts = 0, len(sides.inside.mean)
    squares = [np.empty(codes.factors.shape) for codes in tests]
    for k, factor in enumerate(learn.about):
        for side, (codes, start) in enumerate(zip(tests, starts, strict=True)):
            guess = fitted.predicted[k][start : start + len(codes.mean)]
            distance = np.sum((guess - points(factor, codes.factors[:, k])) ** 2, axis=1)
            squares[side][:, k] = distance / units[side, k]
    return Errors(*squares)


def standard_error(squares: Float[np.ndarray, "n K"]) -> float:
    """Of the mean over factors of root mean squares, for the draw of test rows: to first order in their means."""
    roots = np.sqrt(squares.mean(axis=0))
    slopes = np.divide(0.5, roots, out=np.zeros_like(roots), where=roots > 0)
    return float(np.std((squares * slopes).mean(axis=1)) / math.sqrt(len(squares)))


def _ratio(inside: float | np.ndarray, outside: float | np.ndarray) -> np.ndarray:
    return np.maximum(inside, EXACT) / np.maximum(outside, EXACT)


def _regions(world: World | None) -> Mapping[str, str]:
    return {} if world is None else world.regions


def _left_out(world: World | None) -> dict[str, tuple[Without, list[str]]]:
    """The regions that views beneath a world leave out, each with its view and the texts of those that follow it."""
    if world is None:
        return {}
    from sober.worlds.views import View, Without  # noqa: PLC0415 -- needs JAX

    found: dict[str, tuple[Without, list[str]]] = {}
    after: list[str] = []
    while isinstance(world, View):
        if isinstance(world, Without):
            condition = world.condition.strip()
            found[world.regions.get(condition, condition)] = world, after[::-1]
        after.append(world.text)
        world = world.base
    return found


def _gap(world: World | None, region: str) -> World | None:
    """The pictures of a region that a world has left out, seen through the same views; None where it has not."""
    left_out = _left_out(world)
    if region not in left_out:
        return None
    from sober.worlds.views import view  # noqa: PLC0415 -- needs JAX

    without, after = left_out[region]
    if without.size == without.base.size:
        raise RequestError(f"zero_shot: {without.spec} leaves out no picture: choose another region")
    inside: World = without.held_out
    return functools.reduce(view, after, inside)


def complete(settings: Mapping[str, Setting], world: World | None) -> Mapping[str, Setting]:
    """With the condition that a region's name stands for; without one, that which the world leaves out."""
    if settings["unit"] not in ("outside", "own"):
        raise RequestError(f"zero_shot: unit must be 'outside' or 'own', not {settings['unit']!r}")
    region, left_out = str(settings["region"]).strip(), _left_out(world)
    if not region and len(left_out) == 1:
        region = next(iter(left_out))
    return {**settings, "region": _regions(world).get(region, region)}


def refuses(settings: Mapping[str, Setting], world: World | None) -> str:
    region, left_out = str(settings["region"]), list(_left_out(world))
    try:
        if region and world is not None and region not in left_out:
            check_condition(region, world.factors, world.regions)
        return "" if region else _no_region(world, left_out)
    except RequestError as error:
        return str(error)


def _no_region(world: World | None, left_out: Sequence[str]) -> str:
    """What to do where it is not known which combinations are held out."""
    if world is None:
        return "say which combinations of factors to hold out, as in region='factor_0 > 3'"
    if not world.factors:
        return f"{world.spec} has no factors to predict"
    if left_out:
        return f"{world.spec} leaves out several regions: say which, as in region={left_out[0]!r}"
    return (
        f"{world.spec} leaves no combinations of factors out: train on a view such as "
        f"'{world.spec} | without {_example(world.factors[0])}', or say with region what only regressors do not see"
    )


def _example(factor: Factor) -> str:
    """A condition on a factor that is true of some pictures."""
    middle = factor.values[factor.size // 2] if factor.values else factor.size // 2
    return f'{factor.name} == "{middle}"' if isinstance(middle, str) else f"{factor.name} > {middle:.3g}"


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    rows = min(1.0, float(settings["train"]) / 16_000)
    return Cost(seconds=models * SECONDS * rows * (0.1 + 0.9 * float(settings["trees"]) / 10))


def _scores() -> dict[str, Meaning]:
    how = {"lasso": "lasso", "forest": "random forest", "ridge": "ridge"}
    scores = {}
    for name, words in how.items():
        for side in Errors._fields:
            scores[f"zero_shot_{name}_{side}"] = Meaning(
                f"error in predicting factors {side} the region, over that of guessing the mean; {words}",
                0,
                math.inf,
                "lower",
                headline=(name, side) == ("forest", "inside"),
            )
        scores[f"zero_shot_{name}_ratio"] = Meaning(
            f"error inside the region, over that outside; {words}", 0, math.inf, "lower"
        )
    return scores


zero_shot = Task(
    name="zero_shot",
    summary="do codes tell the factors of combinations that were never seen?",
    reference=REFERENCE,
    scores=_scores(),
    perform=perform,
    settings={
        "region": "",
        "unit": "outside",
        "train": TRAIN,
        "validation": VALIDATION,
        "test": TEST,
        "inside": INSIDE,
        "trees": 10,
    },
    presets={"paper": {"unit": "own"}},
    quick={"region": "block_1 > 0.6 and block_2 > 0.6", "trees": 2, "train": 800, "validation": 100, "test": 100},
    complete=complete,
    refuses=refuses,
    cost=cost,
)
