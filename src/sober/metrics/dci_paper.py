"""DCI as its paper has it (Eastwood & Williams 2018): lassos and random forests, each under names of its own.

The scores are those of `dci`: disentanglement weighted by importance, completeness and errors plain means over factors.
Rows are split as in the paper, 142,927 to learn from, 17,854 to choose the lasso's strength or the trees' depth by, and
17,854 to test on; fewer are shared out in these proportions.

A forest's importances are counted twice. The paper says that they are the share of splits at which a latent is cut
(`…_splits_…`); the usual ones, which its public code reads off scikit-learn, are shares of the decrease of squared
error.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from sober.estimators.predictors import Fitted
from sober.estimators.regressors import Chosen, Parts, choose_forest, choose_lasso, fitted_by
from sober.metrics.dci import Fit, flags_of, rows_of, scores_of, tested
from sober.metrics.metric import Alteration, Meaning, Measured, Metric, Traits
from sober.metrics.rows import by_factor, split_in_three
from sober.shared import Shared
from sober.types import Codes, Setting

TRAIN, VALIDATION, TEST = 142_927, 17_854, 17_854  # pictures of the paper's, outside its gap
REFERENCE = "Eastwood & Williams (2018) A Framework for the Quantitative Evaluation of Disentangled Representations"


def measure_lasso(codes: Codes, shared: Shared, *, seed: int, train: int, validation: int, test: int) -> Measured:
    return _measured(codes, shared, (train, validation, test), seed, choose_lasso, ("dci_lasso",))


def measure_forest(
    codes: Codes, shared: Shared, *, seed: int, train: int, validation: int, test: int, trees: int
) -> Measured:
    choose = functools.partial(choose_forest, trees=int(trees), seed=seed)
    return _measured(codes, shared, (train, validation, test), seed, choose, ("dci_forest", "dci_forest_splits"))


def _measured(
    codes: Codes,
    shared: Shared,
    sizes: tuple[int, int, int],
    seed: int,
    choose: Callable[[Parts], Chosen],
    names: tuple[str, ...],
) -> Measured:
    """The scores of each way to count importances; the first also has those of the predictions."""

    def of_rows(part: Codes) -> tuple[np.ndarray, np.ndarray, Fit]:
        learn, valid, check = shared(split_in_three, part, *sizes, seed)
        models = fitted_by(choose, rows_of(learn), rows_of(valid), check.mean)
        fit = tested(Fitted(models.importances[0], models.predicted), learn, check)
        return models.importances, models.options, fit

    importances, options, fit = by_factor(codes, shared, of_rows)
    values = {f"{names[0]}_informativeness": fit.right.mean(), f"{names[0]}_nrmse": fit.nrmse.mean()}
    parts = {"informativeness_per_factor": fit.right, "nrmse_per_factor": fit.nrmse, "chosen": options}
    for name, matrix in zip(names, importances, strict=True):
        means, of_matrix = scores_of(matrix, weighted=False)
        values |= {f"{name}_{score}": value for score, value in means.items()}
        suffix = name.removeprefix(names[0])
        for part, array in of_matrix.items():
            what, per, variable = part.partition("_per_")
            parts[f"{what}{suffix}{per}{variable}"] = array
    return Measured({name: float(value) for name, value in values.items()}, flags_of(fit), parts)


MIXED: tuple[Alteration, ...] = ("merged factors",)  # trees can take it apart, a lasso cannot


def _shares(name: str, how: str) -> dict[str, Meaning]:
    # Lassos and shallow trees rely on few latents where there is nothing to know, by chance: noise can get anything.
    return {
        f"{name}_disentanglement": Meaning(
            f"1 - entropy over factors of each latent's importance, weighted; {how}",
            traits=Traits(perfect=0.02, noise=None, lowered_by=("merged factors",)),
        ),
        f"{name}_completeness": Meaning(
            f"1 - entropy over latents of each factor's importance; {how}",
            # In units of log D. A lasso may give one of two equal latents everything, or half to each.
            traits=Traits(
                perfect=0.02,
                noise=None,
                changed_by=("dead latent", "duplicated latents"),
                lowered_by=("split factors",),
            ),
        ),
    }


def _predictions(name: str, how: str) -> dict[str, Meaning]:
    return {
        f"{name}_informativeness": Meaning(
            f"accuracy with which factors are predicted from the whole code; {how}",
            traits=Traits(
                perfect=0.02, noise=lambda sizes: float(np.mean([1 / size for size in sizes])), changed_by=MIXED
            ),
        ),
        f"{name}_nrmse": Meaning(
            f"root mean square error of that, over that of the mean; {how}",
            0,
            math.inf,
            "lower",
            without_factors=1.0,
            traits=Traits(perfect=0.05, noise=lambda sizes: 1.0, noise_within=0.1, changed_by=MIXED),
        ),
    }


_SETTINGS: dict[str, Setting] = {"train": TRAIN, "validation": VALIDATION, "test": TEST}

dci_lasso = Metric(
    name="dci_lasso",
    summary="does each latent serve one factor, each factor need one latent, and do latents tell it all, linearly?",
    reference=REFERENCE,
    scores={**_shares("dci_lasso", "lasso"), **_predictions("dci_lasso", "lasso")},
    measure=measure_lasso,
    settings=_SETTINGS,
    group="dci_paper",
    seconds=3.0,
    default=False,
    takes=frozenset({"holes", "groups"}),
)

dci_forest = Metric(
    name="dci_forest",
    summary="does each latent serve one factor, each factor need one latent, and do latents tell it all, to trees?",
    reference=REFERENCE,
    scores={
        **_shares("dci_forest", "random forest"),
        **_predictions("dci_forest", "random forest"),
        **_shares("dci_forest_splits", "random forest, importance as the share of splits"),
    },
    measure=measure_forest,
    settings={**_SETTINGS, "trees": 10},
    quick={"trees": 2},
    group="dci_paper",
    seconds=20.0,
    default=False,
    takes=frozenset({"holes", "groups"}),
)
