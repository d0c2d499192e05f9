"""Downstream prediction (Locatello et al. 2020, 4.2.8, section 7): each factor from codes, with few rows and many.

    accuracy(n)             share of test rows predicted right after learning from n rows, mean over factors
    statistical efficiency  accuracy(100) / accuracy(10,000)

Where only 10,000 rows are known, `largest=5000` learns from 5,000 of them and tests on the others; its numbers are
named so.

by cross-validated logistic regression and by boosted trees. Continuous factors have R² in place of accuracy, by ridge
regression and by boosted regression trees; an R² below 0, which always guessing the mean would beat, counts as 0.

The study draws all rows with replacement. Here no row comes twice, so no test row is learned from. Each training set
contains the smaller ones, so that only their size changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from sober.contracts import Cost, ProgressCallback
from sober.estimators.boosting import boosted
from sober.estimators.folds import stratified
from sober.estimators.logistic import cross_validated, strengths_between
from sober.estimators.ridge import ridge
from sober.estimators.sklearn_warnings import not_converged_is_fine
from sober.metrics.common.metric_rows import shuffled, take
from sober.metrics.metric import Meaning, Measured
from sober.parallel import map_in_order, one_thread
from sober.shared import Shared
from sober.tasks.task import Subjects, Task, enough_rows
from sober.types import Codes, Setting

if TYPE_CHECKING:  # it needs JAX
    from sober.worlds import World

SIZES = (10, 100, 1_000, 10_000)  # rows to learn from
FEW, MANY = 100, 10_000  # rows whose accuracies the efficiency compares
HALF = 5_000  # rows that take the place of MANY if `largest` lies between
LEAST = SIZES[0] + SIZES[0] // 2  # rows: the smallest training set, and a third of all for testing
SECONDS = 5.0  # per model with all sizes, on two cores: 10 latents; factors of 3, 6, 40, 32 and 32 values


class Experiment(NamedTuple):
    """The rows to learn from and to test on, and the settings of the predictors."""

    learn: tuple[Codes, ...]  # each set contains the one before
    test: Codes
    seed: int
    folds: int
    strengths: int
    stages: int
    solver: str
    trees: str

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(rows.mean) for rows in self.learn)


class Predictions(NamedTuple):
    """One predictor's guesses of each factor of the test rows, after learning from one set of rows."""

    guesses: list[Num[np.ndarray, " n"]]
    strengths: Float[np.ndarray, " K"]  # of regularisation, as chosen; empty if nothing is chosen
    converged: bool = True  # whether every regression reached its optimum


def perform(
    subjects: Subjects,
    *,
    seed: int,
    progress: ProgressCallback,
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
        learn, test_rows = training_sets(codes, int(test), int(largest), seed)
        experiment = Experiment(learn, test_rows, seed, int(folds), int(strengths), int(stages), solver, trees)
        complete = len(test_rows.mean) == test and experiment.sizes == _sizes_up_to(largest)
        outcomes.append(measured(codes, experiment, complete=complete))
    progress(len(subjects.codes), len(subjects.codes))
    return outcomes


def training_sets(codes: Codes, test: int, largest: int, seed: int) -> tuple[tuple[Codes, ...], Codes]:
    """Sets of rows to learn from, each inside the next, and separate rows to test on.

    If there are too few rows for the largest set and all test rows, a third is tested, and sets that do not fit into
    the rest are left out.
    """
    enough_rows("downstream", codes, LEAST)
    rows = len(codes.mean)
    test_count = min(test, max(rows // 3, rows - _sizes_up_to(largest)[-1]))
    order = shuffled(rows, seed)
    sets = [take(codes, order[:size]) for size in _sizes_up_to(largest) if size <= rows - test_count]
    return tuple(sets), take(codes, order[rows - test_count :])


def _sizes_up_to(largest: float) -> tuple[int, ...]:
    sizes = tuple(size for size in SIZES if size <= largest)
    return (*sizes, HALF) if HALF <= largest < MANY else sizes


def measured(codes: Codes, experiment: Experiment, *, complete: bool) -> Measured:
    """All scores of one model. `complete` says whether there were enough rows for every size."""
    values: dict[str, float] = {}
    errors: dict[str, float] = {}
    parts: dict[str, np.ndarray] = {"majority_per_factor": majority(experiment.learn[-1], experiment.test)}
    flags = _flags(codes, experiment) + ["short_of_rows"] * (not complete)
    for name, predictions_by_size in (("logistic", by_logistic(experiment)), ("boosted", by_trees(experiment))):
        means = {}  # by size: each test row's score, mean over factors, (n,)
        for size, predictions in zip(experiment.sizes, predictions_by_size, strict=True):
            rows = row_scores(predictions.guesses, experiment.test)  # (n, K)
            per_factor = rows.mean(axis=0)
            negative = per_factor < 0
            flags += ["worse_than_mean"] * bool(negative.any()) + ["not_converged"] * (not predictions.converged)
            means[size] = np.where(negative, 0.0, rows).mean(axis=1)
            values[f"downstream_{name}_{size}"], errors[f"downstream_{name}_{size}"] = _mean(means[size])
            parts[f"{name}_{size}_per_factor"] = per_factor
            if len(predictions.strengths):
                parts[f"{name}_strength_{size}_per_factor"] = predictions.strengths
        parts[f"downstream_{name}_curve"] = np.array([[*means], [rows.mean() for rows in means.values()]])  # (2, T)
        for many, efficiency in _efficiencies(name).items():
            if FEW in means and many in means:
                if means[many].mean() > 0:
                    values[efficiency], errors[efficiency] = _ratio(means[FEW], means[many])
                else:
                    flags.append("nothing_learned")
    return Measured(values, tuple(sorted(set(flags))), parts, errors)


def _efficiencies(name: str) -> dict[int, str]:
    """The names of a predictor's efficiency, by the rows of the larger training set."""
    return {MANY: f"downstream_{name}_efficiency", HALF: f"downstream_{name}_efficiency_{HALF}"}


def _flags(codes: Codes, experiment: Experiment) -> list[str]:
    """Flags about the rows, the factors and the latents."""
    discrete = [k for k, factor in enumerate(codes.about) if factor.kind != "continuous"]
    subsets = experiment.learn[-1].factors, experiment.test.factors
    rare = any(
        len(np.unique(subset[:, k])) < len(np.unique(codes.factors[:, k])) for k in discrete for subset in subsets
    )
    single = any(not np.ptp(rows.factors, axis=0).all() for rows in experiment.learn)
    dead = np.ptp(codes.mean, axis=0) == 0
    flags = ["rare_class"] * rare + ["one_class"] * single
    flags += ["regressed_factor"] * (len(discrete) < len(codes.about))
    return flags + ["dead_latent"] * bool(dead.any()) + ["collapsed"] * bool(dead.all())


def majority(learn: Codes, test: Codes) -> Float[np.ndarray, " K"]:
    """The accuracy of guessing each factor's most frequent value. For a continuous factor 0, the R² of the mean."""
    out = np.zeros(len(learn.about))
    for k, factor in enumerate(learn.about):
        if factor.kind != "continuous":
            frequent = np.bincount(learn.factors[:, k].astype(np.int64)).argmax()
            out[k] = np.mean(test.factors[:, k] == frequent)
    return out


def row_scores(guesses: Sequence[Num[np.ndarray, " n"]], test: Codes) -> Float[np.ndarray, "n K"]:
    """Each test row's contribution to each factor's score: the mean of a column is the accuracy, or R².

    A row counts 1 if it is predicted right, else 0. R² is a ratio: a row contributes to it, to first order, its
    squared error and its squared distance from the mean, so that the standard error is right for a ratio.
    """
    out = np.zeros((len(test.mean), len(guesses)))
    for k, (guess, factor) in enumerate(zip(guesses, test.about, strict=True)):
        truth = test.factors[:, k]
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


def by_logistic(experiment: Experiment) -> list[Predictions]:
    """Logistic regression of each factor, or ridge regression, cross-validated on each set of rows."""
    factors = range(len(experiment.test.about))
    # Slow jobs first, so that none starts late while the other cores are idle.
    slowest_first = sorted(factors, key=lambda k: -_values(experiment.test, k))
    jobs = [(rows, k) for rows in reversed(experiment.learn) for k in slowest_first]
    with one_thread():
        answers = list(map_in_order(lambda job: _linear(*job, experiment), jobs, ahead=len(jobs)))
    by_job = {(len(rows.mean), k): answer for (rows, k), answer in zip(jobs, answers, strict=True)}
    return [
        Predictions(
            [by_job[size, k].guesses for k in factors],
            np.array([by_job[size, k].strength for k in factors]),
            all(by_job[size, k].converged for k in factors),
        )
        for size in experiment.sizes
    ]


def _values(codes: Codes, k: int) -> int:
    """How many values a factor has; 1 if it is continuous."""
    return len(np.unique(codes.factors[:, k])) if codes.about[k].kind != "continuous" else 1


class _Guesses(NamedTuple):
    """A linear model's guesses of one factor of the test rows, and the chosen strength of its regularisation."""

    guesses: Num[np.ndarray, " n"]
    strength: float
    converged: bool = True


def _linear(learn: Codes, k: int, experiment: Experiment) -> _Guesses:
    """Learns one factor from some rows, and guesses it for the test rows."""
    target = _target(learn, k)
    if not np.ptp(target):
        strength = float(strengths_between(experiment.strengths)[0])
        return _Guesses(np.full(len(experiment.test.mean), target[0]), strength)
    options: dict[str, Any] = {"strengths": experiment.strengths, "folds": experiment.folds}
    if target.dtype.kind == "f":
        regression = ridge(learn.mean, target, **options)
        return _Guesses(regression.predict(experiment.test.mean), regression.strength)
    if experiment.solver == "sklearn":
        return _Guesses(*_sklearn_linear(learn, target, experiment))
    fit = cross_validated(learn.mean, target, **options)
    return _Guesses(fit.model.predict(experiment.test.mean), fit.strength, fit.converged)


def _target(codes: Codes, k: int) -> Num[np.ndarray, " N"]:
    """The values of a continuous factor, the classes of any other."""
    return codes.factors[:, k].astype(np.float64 if codes.about[k].kind == "continuous" else np.int64)


def _sklearn_linear(learn: Codes, target: Int[np.ndarray, " N"], experiment: Experiment) -> tuple[np.ndarray, float]:
    """scikit-learn's own solver, which stops after 100 iterations even if it has not converged."""
    from sklearn.linear_model import LogisticRegressionCV  # noqa: PLC0415

    fold = stratified(target, experiment.folds)
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(experiment.folds)]
    with not_converged_is_fine():
        model = LogisticRegressionCV(Cs=experiment.strengths, cv=splits, scoring="accuracy").fit(learn.mean, target)
    return model.predict(experiment.test.mean), float(np.ravel(model.C_)[0])


def by_trees(experiment: Experiment) -> list[Predictions]:
    """Boosted trees for each factor, on each set of rows."""
    fit = _sklearn_trees if experiment.trees == "sklearn" else _boosted_trees
    predictions = []
    for learn in experiment.learn:
        targets = [_target(learn, k) for k in range(len(learn.about))]
        guesses: list[Num[np.ndarray, " n"]] = [np.full(len(experiment.test.mean), target[0]) for target in targets]
        varied = [k for k, target in enumerate(targets) if np.ptp(target)]
        for k, guess in zip(varied, fit(learn, [targets[k] for k in varied], experiment), strict=True):
            guesses[k] = guess
        predictions.append(Predictions(guesses, np.zeros(0)))
    return predictions


def _boosted_trees(learn: Codes, targets: Sequence[Num[np.ndarray, " N"]], experiment: Experiment) -> list[np.ndarray]:
    fits = boosted(learn.mean, targets, experiment.test.mean, seed=experiment.seed, stages=experiment.stages)
    return [fit.test for fit in fits]


def _sklearn_trees(learn: Codes, targets: Sequence[Num[np.ndarray, " N"]], experiment: Experiment) -> list[np.ndarray]:
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor  # noqa: PLC0415

    guesses = []
    for target in targets:
        kind = GradientBoostingRegressor if target.dtype.kind == "f" else GradientBoostingClassifier
        model = kind(n_estimators=experiment.stages, random_state=experiment.seed % 2**32)
        guesses.append(model.fit(learn.mean, target).predict(experiment.test.mean))
    return guesses


def refuses(settings: Mapping[str, Setting], world: World | None) -> str:
    for name, choices in (("solver", ("optimum", "sklearn")), ("trees", ("boosted", "sklearn"))):
        if settings[name] not in choices:
            return f"{name} must be {choices[0]} or {choices[1]}, not {settings[name]!r}"
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
    names = {"logistic": ("logistic regression", "linear "), "boosted": ("boosted trees", "")}
    scores = {
        f"downstream_{name}_{size}": Meaning(
            f"accuracy of {predictor} after learning from {size:,} rows, mean over factors",
            title=f"{kind}accuracy from {size:,} labels",
            headline=(name, size) == ("boosted", MANY),
        )
        for name, (predictor, kind) in names.items()
        for size in (*SIZES, HALF)
    }
    return scores | {
        efficiency: Meaning(
            f"accuracy of {predictor} from {FEW} rows, divided by that from {many:,}",
            high=math.inf,
            title=f"{kind}label efficiency" + f" (to {many:,})" * (many != MANY),
            headline=many == MANY,
        )
        for name, (predictor, kind) in names.items()
        for many, efficiency in _efficiencies(name).items()
    }


downstream = Task(
    name="downstream",
    summary="how well do predictors learn the factors from codes, with few rows and with many?",
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
