"""DCI as in its paper (Eastwood & Williams 2018): lassos and random forests, each with scores of its own.

The scores mean the same as in `dci`. Disentanglement is weighted by importance; completeness and errors are plain means
over factors.
Rows are split as in the paper: 142,927 training rows, 17,854 validation rows that choose the lasso's strength or the
trees' depth, and 17,854 test rows; fewer rows are split in these proportions.

The public code of the paper does not choose the lasso's strength: it is 0.02 for every model and factor (`authors`).

A forest's importances are counted in two ways. The paper defines them as the share of splits that cut a latent
(`…_splits_…`); its public code takes the usual ones from scikit-learn, shares of the decrease of squared error.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from sober.estimators.predictors import STRENGTHS, Fitted, Rows, points
from sober.estimators.regressors import (
    Chosen,
    SplitRows,
    Validated,
    choose_forest,
    choose_lasso,
    fitted_by,
    lasso_strengths,
)
from sober.estimators.wide.wide_lasso import wide_lasso
from sober.estimators.wide.wide_tables import Standardised, by_column, is_wide, taken
from sober.metrics.common.metric_rows import by_factor, split_in_three
from sober.metrics.common.shapes import unit_sums
from sober.metrics.dci import (
    SCREEN,
    FactorModels,
    flags_of,
    kept_latents,
    most_knowing,
    rows_of,
    scores_of,
    tested,
)
from sober.metrics.metric import Alteration, Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes, Setting

AUTHORS_STRENGTH = 0.02  # of every lasso in the paper's public code
TRAIN, VALIDATION, TEST = 142_927, 17_854, 17_854  # pictures in the paper, outside its gap
REFERENCE = "Eastwood & Williams (2018) A Framework for the Quantitative Evaluation of Disentangled Representations"


def measure_lasso(
    codes: Codes, shared: Shared, *, seed: int, train: int, validation: int, test: int, strength: float = 0.0
) -> Measured:
    strengths = lasso_strengths(strength)
    choose = functools.partial(choose_lasso, strengths=strengths)
    wide = is_wide(codes.mean)
    fit = functools.partial(wide_lassos, strengths=strengths) if wide else functools.partial(_fitted, choose=choose)
    return _measured(codes, shared, (train, validation, test), seed, fit, ("dci_lasso",))


def measure_forest(
    codes: Codes, shared: Shared, *, seed: int, train: int, validation: int, test: int, trees: int, screen: int
) -> Measured:
    choose = functools.partial(choose_forest, trees=int(trees), seed=seed)
    fit = functools.partial(screened_forests if is_wide(codes.mean) else _fitted, choose=choose)
    if is_wide(codes.mean):
        fit = functools.partial(fit, screen=int(screen))
    measured = _measured(codes, shared, (train, validation, test), seed, fit, ("dci_forest", "dci_forest_splits"))
    flags = (*measured.flags, *["screened"] * is_wide(codes.mean))
    return measured._replace(flags=flags, parts={**measured.parts, **kept_latents(codes, screen)})


def _fitted(learn: Codes, valid: Codes, check: Codes, choose: Callable[[SplitRows], Chosen]) -> Validated:
    return fitted_by(choose, rows_of(learn), rows_of(valid), check.mean)


def screened_forests(
    learn: Codes, valid: Codes, check: Codes, choose: Callable[[SplitRows], Chosen], screen: int
) -> Validated:
    """Forests of wide codes. Each sees only the latents that know most about its factor."""
    latents = most_knowing(learn, screen)
    tables = [by_column(rows.mean) for rows in (learn, valid, check)]
    importances, predicted, options = [], [], []
    for k in range(len(learn.about)):
        x, x_valid, x_test = (taken(table, latents[:, k]) for table in tables)
        fit, choice = (Rows(table, rows.factors[:, [k]], rows.about[k : k + 1], rows.groups)
                       for table, rows in ((x, learn), (x_valid, valid)))  # fmt: skip
        model = fitted_by(choose, fit, choice, x_test)
        importance = np.zeros((len(model.importances), learn.mean.shape[1]))
        importance[:, latents[:, k]] = model.importances[:, :, 0]
        importances.append(importance)
        predicted.append(model.predicted[0])
        options.append(model.options[0])
    return Validated(np.stack(importances, axis=2), predicted, np.array(options))


def wide_lassos(learn: Codes, valid: Codes, check: Codes, strengths: Sequence[float] = STRENGTHS) -> Validated:
    """Lassos of wide codes, on all latents. Strengths are tried from the strongest until they stop helping."""
    x = Standardised(learn.mean)
    x_valid, x_test = (Standardised(rows.mean, x.by) for rows in (valid, check))
    targets, of_valid, centres, scales = [], [], [], []
    for k, factor in enumerate(learn.about):
        target = points(factor, learn.factors[:, k])
        centres.append(target.mean(axis=0))
        scales.append(float(np.sqrt(np.mean((target - centres[k]) ** 2))) or 1.0)
        targets.append((target - centres[k]) / scales[k])
        of_valid.append((points(factor, valid.factors[:, k]) - centres[k]) / scales[k])
    models = wide_lasso(x, targets, x_valid, of_valid, strengths)
    predicted = [x_test.times(model.coefficients).T * scale + centre
                 for model, scale, centre in zip(models, scales, centres, strict=True)]  # fmt: skip
    importances = np.stack([np.abs(model.coefficients).sum(axis=0) for model in models], axis=1)
    return Validated(importances[None], predicted, np.array([model.strength[0] for model in models]))


def _measured(
    codes: Codes,
    shared: Shared,
    sizes: tuple[int, int, int],
    seed: int,
    fit: Callable[[Codes, Codes, Codes], Validated],
    names: tuple[str, ...],
) -> Measured:
    """Scores for each way to count importances, under its name. The first name also has scores of predictions."""

    def of_rows(subset: Codes) -> tuple[np.ndarray, np.ndarray, FactorModels]:
        learn, valid, check = shared(split_in_three, subset, *sizes, seed)
        models = fit(learn, valid, check)
        importances = unit_sums(models.importances.transpose(0, 2, 1), learn.unit).transpose(0, 2, 1)
        return importances, models.options, tested(Fitted(importances[0], models.predicted), learn, check)

    importances, options, result = by_factor(codes, shared, of_rows)
    values = {f"{names[0]}_informativeness": result.right.mean(), f"{names[0]}_nrmse": result.nrmse.mean()}
    parts = {"informativeness_per_factor": result.right, "nrmse_per_factor": result.nrmse, "chosen": options}
    for name, matrix in zip(names, importances, strict=True):
        means, matrix_parts = scores_of(matrix, weighted=False)
        values |= {f"{name}_{score}": value for score, value in means.items()}
        suffix = name.removeprefix(names[0])
        for key, array in matrix_parts.items():
            quantity, per, variable = key.partition("_per_")
            parts[f"{quantity}{suffix}{per}{variable}"] = array
    return Measured({name: float(value) for name, value in values.items()}, flags_of(result), parts)


MIXED: tuple[Alteration, ...] = ("merged factors",)  # trees can take merged factors apart, a lasso cannot


def _shares(name: str, model: str, by: str) -> dict[str, Meaning]:
    # On noise, lassos and shallow trees rely on a few latents by chance: the score can be anything.
    return {
        f"{name}_disentanglement": Meaning(
            f"how far each latent serves one factor only: 1 - entropy of its importances, weighted; {model}",
            title=f"DCI disentanglement by {by}",
            traits=Traits(perfect=0.02, noise=None, lowered_by=("merged factors",)),
        ),
        f"{name}_completeness": Meaning(
            f"how far each factor needs one latent only: 1 - entropy of its importances; {model}",
            title=f"DCI completeness by {by}",
            # Entropy is in units of log D. A lasso may give one of two equal latents everything, or half to each.
            traits=Traits(
                perfect=0.02,
                noise=None,
                changed_by=("dead latent", "duplicated latents"),
                lowered_by=("split factors",),
            ),
        ),
    }


def _predictions(name: str, model: str, by: str) -> dict[str, Meaning]:
    return {
        f"{name}_informativeness": Meaning(
            f"accuracy of predicting each factor from the whole code; {model}",
            title=f"DCI informativeness by {by}",
            traits=Traits(
                perfect=0.02, noise=lambda sizes: float(np.mean([1 / size for size in sizes])), changed_by=MIXED
            ),
        ),
        f"{name}_nrmse": Meaning(
            f"root mean square error of these predictions, divided by the error of predicting the mean; {model}",
            0,
            math.inf,
            "lower",
            title=f"DCI prediction error by {by}",
            without_factors=1.0,
            traits=Traits(perfect=0.05, noise=lambda sizes: 1.0, noise_within=0.1, changed_by=MIXED),
        ),
    }


_SETTINGS: dict[str, Setting] = {"train": TRAIN, "validation": VALIDATION, "test": TEST}

dci_lasso = Metric(
    name="dci_lasso",
    summary="DCI by lassos: does each latent serve one factor, and does each factor need only one latent?",
    short="DCI by lassos, as in its paper",
    reference=REFERENCE,
    scores={**_shares("dci_lasso", "lasso", "lassos"), **_predictions("dci_lasso", "lasso", "lassos")},
    measure=measure_lasso,
    settings={**_SETTINGS, "strength": 0.0},
    presets={"authors": {"strength": AUTHORS_STRENGTH}},
    later=frozenset({"strength"}),
    drawn={"importance": "importance in lassos"},
    group="dci_paper",
    seconds=0.7,
    default=False,
    takes=frozenset({"holes", "groups", "units", "sparse"}),
)

dci_forest = Metric(
    name="dci_forest",
    summary="DCI by random forests: does each latent serve one factor, and does each factor need only one latent?",
    short="DCI by random forests, as in its paper",
    reference=REFERENCE,
    scores={
        **_shares("dci_forest", "random forest", "forests"),
        **_predictions("dci_forest", "random forest", "forests"),
        **_shares("dci_forest_splits", "random forest, importance as the share of splits", "splits of forests"),
    },
    measure=measure_forest,
    settings={**_SETTINGS, "trees": 10, "screen": SCREEN},
    version=2,  # forests of our own; scikit-learn's before
    quick={"trees": 2},
    drawn={"importance": "importance in random forests", "importance_splits": "share of splits in random forests"},
    group="dci_paper",
    seconds=0.7,
    default=False,
    takes=frozenset({"holes", "groups", "units", "sparse"}),
)
