"""Downstream prediction (Locatello et al. 2020, 4.2.8, section 7): each factor from the codes, of few rows and many.

    accuracy(n)             mean over factors of the share of test rows that are predicted right, learned from n rows
    statistical efficiency  accuracy(100) / accuracy(10,000)

by cross-validated logistic regression and by boosted trees. A continuous factor has R² in place of accuracy, of ridge
regression and of boosted regression trees; where that is below 0, which the mean of the factor would have, it counts 0.

The study draws all rows with replacement. Here no row comes twice: what is tested is never what was learned. The
training sets lie in each other, so that what changes from one to the next is their size alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from sober.criteria.criterion import Cost, Progress
from sober.estimators.boosting import boosted
from sober.estimators.folds import stratified
from sober.estimators.linear import one_thread
from sober.estimators.logistic import cross_validated, strengths_between
from sober.estimators.quiet import not_converged_is_fine
from sober.estimators.ridge import ridge
from sober.machine import in_order
from sober.metrics.metric import Meaning, Measured
from sober.metrics.rows import shuffled, take
from sober.shared import Shared
from sober.tasks.task import Subjects, Task, enough_rows
from sober.types import Codes, Setting

if TYPE_CHECKING:  # it needs JAX
    from sober.worlds import World

SIZES = (10, 100, 1_000, 10_000)  # rows to learn from
FEW, MANY = 100, 10_000  # whose accuracies efficiency compares
LEAST = SIZES[0] + SIZES[0] // 2  # rows with which a third can be tested and the least learned from
SECONDS = 5.0  # for a model with all sizes, on two cores: 10 latents; factors of 3, 6, 40, 32 and 32 values


class Plan(NamedTuple):
    """The rows that are learned from and tested, and how."""

    learn: tuple[Codes, ...]  # one lies in the next
    check: Codes
    seed: int
    folds: int
    strengths: int
    stages: int
    solver: str
    trees: str

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(rows.mean) for rows in self.learn)


class Predicted(NamedTuple):
    """What one predictor, having learned from one set of rows, says of each factor of the test rows."""

    guesses: list[Num[np.ndarray, " n"]]
    strengths: Float[np.ndarray, " K"]  # that were chosen; none where nothing is chosen


def perform(
    subjects: Subjects,
    *,
    seed: int,
    progress: Progress,
    shared: Shared,
    test: int,
    largest: int,
    folds: int,
    strengths: int,
    stages: int,
    solver: str,
    trees: str,
) -> list[Measured]:
    outcomes = []
    for done, codes in enumerate(subjects.codes):
        progress(done, len(subjects.codes))
        learn, check = training_sets(codes, int(test), int(largest), seed)
        plan = Plan(learn, check, seed, int(folds), int(strengths), int(stages), solver, trees)
        outcomes.append(measured(codes, plan, complete=len(check.mean) == test and plan.sizes == _wanted(largest)))
    progress(len(subjects.codes), len(subjects.codes))
    return outcomes


def training_sets(codes: Codes, test: int, largest: int, seed: int) -> tuple[tuple[Codes, ...], Codes]:
    """Rows to learn from, each set in the next, and rows to test, in none of them.

    Where there are too few for the largest set and for all test rows, a third is tested, and sets that no longer fit
    are left out.
    """
    enough_rows("downstream", codes, LEAST)
    rows = len(codes.mean)
    tested = min(test, max(rows // 3, rows - _wanted(largest)[-1]))
    order = shuffled(rows, seed)
    sets = [take(codes, order[:size]) for size in _wanted(largest) if size <= rows - tested]
    return tuple(sets), take(codes, order[rows - tested :])


def _wanted(largest: float) -> tuple[int, ...]:
    return tuple(size for size in SIZES if size <= largest)


def measured(codes: Codes, plan: Plan, *, complete: bool) -> Measured:
    values: dict[str, float] = {}
    errors: dict[str, float] = {}
    parts: dict[str, np.ndarray] = {"majority_per_factor": majority(plan.learn[-1], plan.check)}
    flags = _flags(codes, plan) + ["short_of_rows"] * (not complete)
    for name, predicted in (("logistic", by_logistic(plan)), ("boosted", by_trees(plan))):
        means = {}  # by size: what each test row says of the score, (n,)
        for size, of_size in zip(plan.sizes, predicted, strict=True):
            rows = row_scores(of_size.guesses, plan.check)  # (n, K)
            per_factor = rows.mean(axis=0)
            bad = per_factor < 0
            flags += ["worse_than_mean"] * bool(bad.any())
            means[size] = np.where(bad, 0.0, rows).mean(axis=1)
            values[f"downstream_{name}_{size}"], errors[f"downstream_{name}_{size}"] = _mean(means[size])
            parts[f"{name}_{size}_per_factor"] = per_factor
            if len(of_size.strengths):
                parts[f"{name}_strength_{size}_per_factor"] = of_size.strengths
        parts[f"downstream_{name}_curve"] = np.array([[*means], [rows.mean() for rows in means.values()]])  # (2, T)
        if FEW in means and MANY in means:
            if means[MANY].mean() > 0:
                efficiency = f"downstream_{name}_efficiency"
                values[efficiency], errors[efficiency] = _ratio(means[FEW], means[MANY])
            else:
                flags.append("nothing_learned")
    return Measured(values, tuple(sorted(set(flags))), parts, errors)


def _flags(codes: Codes, plan: Plan) -> list[str]:
    """What is to be known of the rows and of the factors."""
    discrete = [k for k, factor in enumerate(codes.about) if factor.kind != "continuous"]
    most, check = plan.learn[-1].factors, plan.check.factors
    seen = [[np.unique(part[:, k]) for part in (codes.factors, most, check)] for k in discrete]
    rare = any(len(part) < len(everything) for everything, *parts in seen for part in parts)
    single = any(not np.ptp(rows.factors, axis=0).all() for rows in plan.learn)
    dead = np.ptp(codes.mean, axis=0) == 0
    flags = ["rare_class"] * rare + ["one_class"] * single
    flags += ["regressed_factor"] * (len(discrete) < len(codes.about))
    return flags + ["dead_latent"] * bool(dead.any()) + ["collapsed"] * bool(dead.all())


def majority(learn: Codes, check: Codes) -> Float[np.ndarray, " K"]:
    """The accuracy of guessing each factor's most frequent value; R² of guessing the mean, 0, of a continuous one."""
    out = np.zeros(len(learn.about))
    for k, factor in enumerate(learn.about):
        if factor.kind != "continuous":
            frequent = np.bincount(learn.factors[:, k].astype(np.int64)).argmax()
            out[k] = np.mean(check.factors[:, k] == frequent)
    return out


def row_scores(guesses: Sequence[Num[np.ndarray, " n"]], check: Codes) -> Float[np.ndarray, "n K"]:
    """What each test row says of each factor's score: its column's mean is the accuracy, or R².

    A row that is predicted right says 1, else 0. R² is a ratio: what a row says of it is linear in its squared error
    and in its square about the mean, which gives the standard error of a ratio.
    """
    out = np.zeros((len(check.mean), len(guesses)))
    for k, (guess, factor) in enumerate(zip(guesses, check.about, strict=True)):
        truth = check.factors[:, k]
        if factor.kind != "continuous":
            out[:, k] = guess == truth
        elif (spread := np.mean(square := (truth - truth.mean()) ** 2)) > 0:
            error = (guess - truth) ** 2
            out[:, k] = 1 - error / spread + error.mean() * (square - spread) / spread**2
    return out


def _mean(rows: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """A mean and its standard error."""
    return float(rows.mean()), float(rows.std(ddof=1) / math.sqrt(len(rows))) if len(rows) > 1 else 0.0


def _ratio(few: Float[np.ndarray, " n"], many: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """The ratio of two means over the same rows, and its standard error to first order."""
    ratio = float(few.mean() / many.mean())
    return ratio, _mean((few - ratio * many) / many.mean())[1]


def by_logistic(plan: Plan) -> list[Predicted]:
    """Cross-validated logistic regression of each factor, or ridge regression, on each set of rows."""
    factors = range(len(plan.check.about))
    # The longest first, so that what is begun last does not keep the others waiting.
    jobs = [(rows, k) for rows in reversed(plan.learn) for k in sorted(factors, key=lambda k: -_values(plan.check, k))]
    with one_thread():
        done = list(in_order(lambda job: _linear(*job, plan), jobs, ahead=len(jobs)))
    found = {(len(rows.mean), k): answer for (rows, k), answer in zip(jobs, done, strict=True)}
    return [
        Predicted([found[size, k][0] for k in factors], np.array([found[size, k][1] for k in factors]))
        for size in plan.sizes
    ]


def _values(codes: Codes, k: int) -> int:
    return len(np.unique(codes.factors[:, k])) if codes.about[k].kind != "continuous" else 1


def _linear(learn: Codes, k: int, plan: Plan) -> tuple[Num[np.ndarray, " n"], float]:
    """What a linear model of one factor says of the test rows, and its strength."""
    target = _target(learn, k)
    if not np.ptp(target):
        return np.full(len(plan.check.mean), target[0]), float(strengths_between(plan.strengths)[0])
    options: dict[str, Any] = {"strengths": plan.strengths, "folds": plan.folds}
    if target.dtype.kind == "f":
        line = ridge(learn.mean, target, **options)
        return line.predict(plan.check.mean), line.strength
    if plan.solver == "sklearn":
        return _sklearn_linear(learn, target, plan)
    chosen = cross_validated(learn.mean, target, **options)
    return chosen.model.predict(plan.check.mean), chosen.strength


def _target(codes: Codes, k: int) -> Num[np.ndarray, " N"]:
    """Numbers of a continuous factor, classes of any other."""
    return codes.factors[:, k].astype(np.float64 if codes.about[k].kind == "continuous" else np.int64)


def _sklearn_linear(learn: Codes, target: Int[np.ndarray, " N"], plan: Plan) -> tuple[np.ndarray, float]:
    """scikit-learn's own, which ends after 100 iterations, wherever it is then."""
    from sklearn.linear_model import LogisticRegressionCV  # noqa: PLC0415

    fold = stratified(target, plan.folds)
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(plan.folds)]
    with not_converged_is_fine():
        model = LogisticRegressionCV(Cs=plan.strengths, cv=splits, scoring="accuracy").fit(learn.mean, target)
    return model.predict(plan.check.mean), float(np.ravel(model.C_)[0])


def by_trees(plan: Plan) -> list[Predicted]:
    """Boosted trees for each factor, on each set of rows."""
    fit = _sklearn_trees if plan.trees == "sklearn" else _boosted_trees
    out = []
    for learn in plan.learn:
        targets = [_target(learn, k) for k in range(len(learn.about))]
        guesses: list[Num[np.ndarray, " n"]] = [np.full(len(plan.check.mean), target[0]) for target in targets]
        varied = [k for k, target in enumerate(targets) if np.ptp(target)]
        for k, guess in zip(varied, fit(learn, [targets[k] for k in varied], plan), strict=True):
            guesses[k] = guess
        out.append(Predicted(guesses, np.zeros(0)))
    return out


def _boosted_trees(learn: Codes, targets: Sequence[Num[np.ndarray, " N"]], plan: Plan) -> list[np.ndarray]:
    found = boosted(learn.mean, targets, plan.check.mean, seed=plan.seed, stages=plan.stages)
    return [one.test for one in found]


def _sklearn_trees(learn: Codes, targets: Sequence[Num[np.ndarray, " N"]], plan: Plan) -> list[np.ndarray]:
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor  # noqa: PLC0415

    out = []
    for target in targets:
        kind = GradientBoostingRegressor if target.dtype.kind == "f" else GradientBoostingClassifier
        model = kind(n_estimators=plan.stages, random_state=plan.seed % 2**32)
        out.append(model.fit(learn.mean, target).predict(plan.check.mean))
    return out


def refuses(settings: Mapping[str, Setting], world: World | None) -> str:
    for name, words in (("solver", ("optimum", "sklearn")), ("trees", ("boosted", "sklearn"))):
        if settings[name] not in words:
            return f"{name} must be {words[0]} or {words[1]}, not {settings[name]!r}"
    ranges = {"test": (5, math.inf), "largest": (SIZES[0], math.inf), "folds": (2, SIZES[0])}
    ranges |= {"strengths": (1, math.inf), "stages": (1, math.inf)}
    for name, (low, high) in ranges.items():
        value = float(settings[name])
        if not low <= value <= high or value != int(value):
            ends = f"from {low} to {high}" if math.isfinite(high) else f"from {low} on"
            return f"{name} must be a whole number {ends}, not {value:g}"
    return ""


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    return Cost(seconds=SECONDS * models * min(1.0, 0.2 + 0.8 * float(settings["largest"]) / MANY))


def _meanings() -> dict[str, Meaning]:
    names = {"logistic": "logistic regression", "boosted": "boosted trees"}
    scores = {
        f"downstream_{name}_{size}": Meaning(
            f"accuracy of {words} that learned from {size:,} rows, mean over factors",
            headline=(name, size) == ("boosted", MANY),
        )
        for name, words in names.items()
        for size in SIZES
    }
    return scores | {
        f"downstream_{name}_efficiency": Meaning(
            f"accuracy of {words} from {FEW} rows over that from {MANY:,}", high=math.inf, headline=True
        )
        for name, words in names.items()
    }


downstream = Task(
    name="downstream",
    summary="how well are the factors predicted from the codes, from few rows and from many?",
    reference="Locatello et al. (2020) A Sober Look at the Unsupervised Learning of Disentangled Representations and "
    "their Evaluation",
    scores=_meanings(),
    perform=perform,
    settings={
        "test": 5_000,
        "largest": 10_000,
        "folds": 5,
        "strengths": 10,
        "stages": 100,
        "solver": "optimum",
        "trees": "boosted",
    },
    presets={"sklearn": {"solver": "sklearn", "trees": "sklearn"}},
    quick={"test": 200, "largest": 100, "folds": 2, "strengths": 3, "stages": 10},
    together=1,
    refuses=refuses,
    cost=cost,
)
