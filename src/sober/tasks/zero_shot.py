"""zero_shot: can factors be predicted for combinations that were never seen? (Eastwood & Williams 2018, appendix B.2)

Lassos, random forests and ridges learn to predict each factor from codes of pictures outside a region of factor
combinations. They are tested on other pictures outside it, and on pictures inside it:

    inside_k, outside_k = √(mean of |guess - truth|²) / unit of factor k       on test rows
    ratio_k = inside_k / outside_k                                             1: unseen combinations are no harder
    inside, outside = means over factors;  ratio = inside / outside

As in `dci`, the unit is the error of always guessing the training rows' mean, on test rows outside. Errors inside have
the same unit, so the ratio is one of errors, and a factor may be constant inside. With `unit="own"`, errors inside are
in units of the factor's standard deviation there, as in the paper's Table 5.

In the paper, the models were trained without the region, so they have never seen it either. For such models the
pictures inside come from the world before the region was left out.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from sober.conditions import check_condition, condition_mask
from sober.contracts import Cost, ProgressCallback
from sober.errors import RequestError, counted
from sober.estimators.predictors import Rows, points
from sober.estimators.regressors import (
    Chosen,
    SplitRows,
    choose_forest,
    choose_lasso,
    choose_ridge,
    fitted_by,
    lasso_strengths,
)
from sober.estimators.scaling import NEGLIGIBLE
from sober.metrics.common.metric_rows import sample, split_in_three, take, varying
from sober.metrics.dci_paper import AUTHORS_STRENGTH, REFERENCE, TEST, TRAIN, VALIDATION
from sober.metrics.metric import Meaning, Measured
from sober.shared import Shared
from sober.tasks.task import Subjects, Task
from sober.types import Codes, Factor, Setting

if TYPE_CHECKING:  # these need JAX
    from sober.worlds import World
    from sober.worlds.views import Without

INSIDE = 21_238  # pictures in the paper's gap
LEAST_OUTSIDE, LEAST_INSIDE = 30, 10  # rows that the task needs
FEW = 100  # test rows: with fewer, errors are uncertain
EXACT = 1e-6  # smaller errors count as this much: their ratio would be noise of rounding
SECONDS = 7.0  # per model on two cores, for 20,000 rows of 10 latents and 5 factors


class Fixed(NamedTuple):
    """Settings of the regressors that validation rows do not choose."""

    trees: int
    strength: float  # of the lasso; 0 if validation rows choose it
    seed: int


REGRESSORS: dict[str, Callable[[Fixed], Callable[[SplitRows], Chosen]]] = {
    "lasso": lambda fixed: functools.partial(choose_lasso, strengths=lasso_strengths(fixed.strength)),
    "forest": lambda fixed: functools.partial(choose_forest, trees=fixed.trees, seed=fixed.seed),
    "ridge": lambda fixed: choose_ridge,
}


class Sides(NamedTuple):
    """Rows outside the region, to learn from, to validate and to test on; and rows inside, to test on."""

    learn: Codes
    valid: Codes
    outside: Codes
    inside: Codes


class RegionErrors(NamedTuple):
    """Squared errors of test rows inside and outside the region, in squared units of each factor."""

    inside: Float[np.ndarray, "n K"]
    outside: Float[np.ndarray, "n K"]


def perform(
    subjects: Subjects,
    *,
    seed: int,
    progress: ProgressCallback,
    shared: Shared,
    region: str,
    unit: str,
    train: float,
    validation: float,
    test: float,
    inside: float,
    trees: float,
    strength: float = 0.0,
) -> list[Measured]:
    sizes, results = (int(train), int(validation), int(test)), []
    fixed = Fixed(int(trees), strength, seed)
    rows_by_model = split_at_region(subjects, region, sum(sizes), int(inside), seed)
    for done, (rows_outside, rows_inside) in enumerate(rows_by_model, 1):
        sides = Sides(*split_in_three(rows_outside, *sizes, seed), _finite(rows_inside, rows_outside))
        results.append(_measured(sides, unit, fixed))
        progress(done, len(subjects.codes))
    return results


def split_at_region(subjects: Subjects, region: str, outside: int, inside: int, seed: int) -> list[tuple[Codes, Codes]]:
    """The rows of each model outside a region, and at most `inside` rows inside it.

    If the world leaves the region out, its pictures are encoded: as large a share of `inside` as there are rows for
    `outside`.
    """
    first = subjects.codes[0]
    if (gap := _gap(subjects.world, region)) is not None:
        share = min(1.0, len(first.mean) / outside)
        gap_index = np.random.default_rng([seed, 4]).permutation(gap.size)[
            : max(LEAST_INSIDE, math.ceil(inside * share))
        ]
        _check_rows(region, len(first.mean), len(gap_index))
        codes_inside = [_with_factors(codes, first) for codes in subjects.encode(np.sort(gap_index), gap)]
        return list(zip(subjects.codes, codes_inside, strict=True))
    in_region = condition_mask(region, first.about, first.factors, _regions(subjects.world))
    _check_rows(region, int((~in_region).sum()), int(in_region.sum()))
    rows_outside, rows_inside = np.flatnonzero(~in_region), np.flatnonzero(in_region)
    return [(take(codes, rows_outside), sample(take(codes, rows_inside), inside, seed)) for codes in subjects.codes]


def _check_rows(region: str, outside: int, inside: int) -> None:
    if not outside or not inside:
        rows = "every row" if inside else "no row"
        raise RequestError(f"zero_shot: {region!r} is true of {rows}: choose a region with rows inside and outside")
    if outside < LEAST_OUTSIDE or inside < LEAST_INSIDE:
        raise RequestError(
            f"zero_shot needs {LEAST_OUTSIDE} rows outside the region {region!r} and {LEAST_INSIDE} inside, and there "
            f"are {counted(outside, 'row')} outside and {inside:,} inside: encode more, or choose another region"
        )


def _with_factors(codes: Codes, reference: Codes) -> Codes:
    """Codes with the factors of `reference`, in their order, and only the rows that have a label for each of these."""
    names = [factor.name for factor in codes.about]
    columns = codes.factors[:, [names.index(factor.name) for factor in reference.about]]
    complete_rows = np.flatnonzero(np.isfinite(columns).all(axis=1))
    return take(dataclasses.replace(codes, factors=columns, about=reference.about), complete_rows)


def _finite(codes: Codes, reference: Codes) -> Codes:
    """Codes with every entry that is not finite replaced by the mean of `reference`, which carries no information."""
    if "not_finite" not in codes.flags:
        return codes
    return dataclasses.replace(codes, mean=np.where(np.isfinite(codes.mean), codes.mean, reference.mean.mean(axis=0)))


def _measured(sides: Sides, unit: str, fixed: Fixed) -> Measured:
    """The scores of all regressors on the rows of one model."""
    sides, flags = _learnable(sides)
    units, unit_flags = _units(sides, unit)
    flags |= unit_flags | _flags(sides)
    values: dict[str, float] = {}
    parts: dict[str, np.ndarray] = {}
    standard_errors: dict[str, float] = {}
    for name, regressor in REGRESSORS.items():
        errors = _errors(sides, regressor(fixed), units)
        roots = [np.sqrt(squares.mean(axis=0)) for squares in errors]  # (K,) inside, (K,) outside
        means, mean_errors = [float(root.mean()) for root in roots], [standard_error(squares) for squares in errors]
        for side, mean, error, root in zip(RegionErrors._fields, means, mean_errors, roots, strict=True):
            values[f"zero_shot_{name}_{side}"], standard_errors[f"zero_shot_{name}_{side}"] = mean, error
            parts[f"{name}_{side}_per_factor"] = root
        ratio = _ratio(*means)
        values[f"zero_shot_{name}_ratio"], parts[f"{name}_ratio_per_factor"] = float(ratio), _ratio(*roots)
        relative = math.hypot(*(error / max(mean, EXACT) for mean, error in zip(means, mean_errors, strict=True)))
        standard_errors[f"zero_shot_{name}_ratio"] = float(ratio) * relative
    return Measured(values, tuple(sorted(flags)), parts, standard_errors)


def _learnable(sides: Sides) -> tuple[Sides, set[str]]:
    """Leaves out the factors that are constant in the rows to learn from, or vary negligibly beside other rows."""
    factors = tuple(factor for factor in varying(sides.learn).about if _varies(sides, factor))
    if not factors:
        raise RequestError("zero_shot: outside the region no factor has two values: choose a smaller region")
    if len(factors) == len(sides.learn.about):
        return sides, set()
    varying_columns = [sides.learn.about.index(factor) for factor in factors]
    return Sides(
        *(dataclasses.replace(codes, factors=codes.factors[:, varying_columns], about=factors) for codes in sides)
    ), {"constant_outside"}


def _varies(sides: Sides, factor: Factor) -> bool:
    """Whether errors of a factor can be divided by how much it varies in the rows to learn from."""
    k = sides.learn.about.index(factor)
    learn = points(factor, sides.learn.factors[:, k])
    largest = max(float(np.abs(codes.factors[:, k]).max()) for codes in sides)
    return math.sqrt(_mean_square(learn - learn.mean(axis=0))) > NEGLIGIBLE * largest


def _flags(sides: Sides) -> set[str]:
    few = min(len(sides.inside.mean), len(sides.outside.mean)) < FEW
    unseen = any(
        factor.kind != "continuous" and set(sides.inside.factors[:, k]) - set(sides.learn.factors[:, k])
        for k, factor in enumerate(sides.learn.about)
    )
    collapsed = not np.ptp(sides.learn.mean, axis=0).any()
    flags = {
        "few_tested": few,
        "unseen_value": unseen,
        "collapsed": collapsed,
        "one_factor": len(sides.learn.about) == 1,
        "not_finite": "not_finite" in sides.inside.flags,
    }
    return {flag for flag, holds in flags.items() if holds}


def _units(sides: Sides, unit: str) -> tuple[Float[np.ndarray, "2 K"], set[str]]:
    """The squared unit of each factor's errors, inside and outside."""
    squares, flags = np.empty((2, len(sides.learn.about))), set()
    for k, factor in enumerate(sides.learn.about):
        learn, outside, inside = (
            points(factor, codes.factors[:, k]) for codes in (sides.learn, sides.outside, sides.inside)
        )
        spread = _mean_square(outside - learn.mean(axis=0)) or _mean_square(learn - learn.mean(axis=0))
        own_spread = _mean_square(inside - inside.mean(axis=0))
        flags |= {"constant_inside"} if unit == "own" and own_spread == 0 else set()
        squares[:, k] = (own_spread or spread) if unit == "own" else spread, spread
    return squares, flags


def _mean_square(distances: Float[np.ndarray, "n m"]) -> float:
    return float(np.mean(np.sum(distances**2, axis=1)))


def _errors(sides: Sides, choose: Callable[[SplitRows], Chosen], units: Float[np.ndarray, "2 K"]) -> RegionErrors:
    """The errors of one kind of regressor for each factor."""
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
    return RegionErrors(*squares)


def standard_error(squares: Float[np.ndarray, "n K"]) -> float:
    """The standard error of the mean over factors of root mean squares, over draws of test rows, to first order."""
    roots = np.sqrt(squares.mean(axis=0))
    slopes = np.divide(0.5, roots, out=np.zeros_like(roots), where=roots > 0)
    return float(np.std((squares * slopes).mean(axis=1)) / math.sqrt(len(squares)))


def _ratio(inside: float | np.ndarray, outside: float | np.ndarray) -> np.ndarray:
    return np.maximum(inside, EXACT) / np.maximum(outside, EXACT)


def _regions(world: World | None) -> Mapping[str, str]:
    return {} if world is None else world.regions


def _left_out(world: World | None) -> dict[str, tuple[Without, list[str]]]:
    """The regions that the views of a world leave out, each with its view and the texts of the views after it."""
    if world is None:
        return {}
    from sober.worlds.views import View, Without  # noqa: PLC0415 -- needs JAX

    regions: dict[str, tuple[Without, list[str]]] = {}
    later_views: list[str] = []
    while isinstance(world, View):
        if isinstance(world, Without):
            condition = world.condition.strip()
            regions[world.regions.get(condition, condition)] = world, later_views[::-1]
        later_views.append(world.text)
        world = world.base
    return regions


def _gap(world: World | None, region: str) -> World | None:
    """The pictures of a region that a world leaves out, through the same views; None if it does not leave it out."""
    left_out = _left_out(world)
    if region not in left_out:
        return None
    from sober.worlds.views import view  # noqa: PLC0415 -- needs JAX

    without, later_views = left_out[region]
    if without.size == without.base.size:
        raise RequestError(f"zero_shot: {without.spec} leaves out no picture: choose another region")
    inside: World = without.held_out
    return functools.reduce(view, later_views, inside)


def complete(settings: Mapping[str, Setting], world: World | None) -> Mapping[str, Setting]:
    """Replaces a region's name by its condition; without a region, takes the only one left out by the world."""
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
    """What to do if no region is given."""
    if world is None:
        return "say which combinations of factors to hold out, as in region='factor_0 > 3'"
    if not world.factors:
        return f"{world.spec} has no factors to predict"
    if left_out:
        return f"{world.spec} leaves out several regions: say which, as in region={left_out[0]!r}"
    return (
        f"{world.spec} leaves no combinations of factors out: train on a view such as "
        f"'{world.spec} | without {_example(world.factors[0])}', or give a region, which only the regressors do not see"
    )


def _example(factor: Factor) -> str:
    """A condition on a factor that holds for some pictures."""
    middle = factor.values[factor.size // 2] if factor.values else factor.size // 2
    return f'{factor.name} == "{middle}"' if isinstance(middle, str) else f"{factor.name} > {middle:.3g}"


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    rows = min(1.0, float(settings["train"]) / 16_000)
    return Cost(seconds=models * SECONDS * rows * (0.1 + 0.9 * float(settings["trees"]) / 10))


def _scores() -> dict[str, Meaning]:
    regressors = {"lasso": "lasso", "forest": "random forest", "ridge": "ridge"}
    scores = {}
    for name, regressor in regressors.items():
        for side in RegionErrors._fields:
            scores[f"zero_shot_{name}_{side}"] = Meaning(
                f"error in predicting factors {side} the region, divided by that of guessing the mean; {regressor}",
                0,
                math.inf,
                "lower",
                title=f"error {side} the region ({regressor})",
                headline=(name, side) == ("forest", "inside"),
            )
        scores[f"zero_shot_{name}_ratio"] = Meaning(
            f"error inside the region, divided by the error outside; {regressor}",
            0,
            math.inf,
            "lower",
            title=f"error inside / outside the region ({regressor})",
        )
    return scores


zero_shot = Task(
    name="zero_shot",
    summary="can factors be predicted from codes for combinations that were never seen?",
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
        "strength": 0.0,
    },
    presets={"paper": {"unit": "own"}, "authors": {"unit": "own", "strength": AUTHORS_STRENGTH}},
    later=frozenset({"strength"}),
    version=2,  # forests of our own; scikit-learn's before
    quick={"region": "block_1 > 0.6 and block_2 > 0.6", "trees": 2, "train": 800, "validation": 100, "test": 100},
    complete=complete,
    refuses=refuses,
    cost=cost,
)
