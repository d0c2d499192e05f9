"""DCI as its paper has it: scikit-learn's lassos and forests on the same rows, options chosen on rows of their own."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Lasso

from sober.errors import RequestError
from sober.estimators.forests import SortedColumns, grown
from sober.estimators.predictors import DEPTHS, STRENGTHS
from sober.estimators.regressors import SplitRows, choose_forest, choose_lasso
from sober.evaluation.score_rows import metric_rows
from sober.metrics import METRICS, score
from sober.metrics.common.metric_rows import split_in_three
from sober.metrics.dci_paper import TEST, TRAIN, VALIDATION
from sober.results.request import Measure
from sober.types import Codes, Factor, Run


def rows(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Five columns, and a target that two of them make, in a curve and with noise."""
    x = rng.normal(size=(count, 5))
    return x, (np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + 0.3 * rng.normal(size=count))[:, None]


@pytest.fixture(scope="module")
def parts() -> SplitRows:
    rng = np.random.default_rng(0)
    (x, y), (x_valid, y_valid), (x_test, _) = rows(2_000, rng), rows(500, rng), rows(300, rng)
    return SplitRows(x, x_valid, x_test, y, y_valid)


def test_a_forest_has_the_depth_with_the_least_validation_error(parts: SplitRows) -> None:
    forest = grown(SortedColumns.of(parts.x), parts.y, trees=10, depth=DEPTHS[-1], seed=3)
    errors = {depth: np.mean((forest.predict(parts.x_valid, depth) - parts.y_valid) ** 2) for depth in DEPTHS}
    chosen = choose_forest(parts, trees=10, seed=3)
    depth = int(chosen.option)
    assert errors[depth] == min(errors.values())
    assert (chosen.predicted == forest.predict(parts.x_test, depth)).all()
    assert (chosen.importances[0] == forest.importances(by_splits=False, depth=depth)).all()
    counts = [np.bincount(tree.feature[(tree.left >= 0) & (tree.depth < depth)], minlength=5) for tree in forest.trees]
    np.testing.assert_allclose(chosen.importances[1], np.mean([c / c.sum() for c in counts], axis=0), atol=1e-12)


def test_a_forest_is_as_good_as_that_of_scikit_learn(parts: SplitRows) -> None:
    theirs = {
        depth: RandomForestRegressor(10, max_depth=depth, random_state=3).fit(parts.x, parts.y[:, 0])
        for depth in DEPTHS
    }
    errors = [np.mean((model.predict(parts.x_valid) - parts.y_valid[:, 0]) ** 2) for model in theirs.values()]
    forest = grown(SortedColumns.of(parts.x), parts.y, trees=10, depth=DEPTHS[-1], seed=3)
    ours = [np.mean((guess - parts.y_valid) ** 2) for guess in forest.predict_at(parts.x_valid, DEPTHS)]
    np.testing.assert_allclose(ours, errors, rtol=0.2)
    chosen = choose_forest(parts, trees=10, seed=3)
    model = theirs[int(chosen.option)]
    np.testing.assert_allclose(chosen.importances[0], model.feature_importances_, atol=0.02)


def test_a_lasso_is_that_of_scikit_learn_at_the_strength_with_the_least_validation_error() -> None:
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(160, 8)), rng.normal(size=(160, 1))
    y = 0.5 * x[:, :1] - 0.3 * x[:, 1:2] + noise  # so noisy that some penalty helps
    parts = SplitRows(x[:60], x[60:110], x[110:], y[:60], y[60:110])
    fitted = {a: Lasso(alpha=a, max_iter=10**5, tol=1e-10).fit(parts.x, parts.y[:, 0]) for a in STRENGTHS}
    chosen = choose_lasso(parts)
    weights = {a: model.coef_ for a, model in fitted.items()}
    np.testing.assert_allclose(chosen.importances[0], np.abs(weights[chosen.option]), atol=1e-6)
    predicted = parts.x_valid @ np.stack(list(weights.values())).T  # (V, S)
    errors = np.mean((predicted - parts.y_valid) ** 2, axis=0)
    assert STRENGTHS[0] < chosen.option < STRENGTHS[-1]
    assert chosen.option == STRENGTHS[int(errors.argmin())]


@pytest.mark.parametrize("wide", [False, True])
def test_the_preset_authors_has_the_fixed_lasso_of_the_public_code(wide: bool) -> None:
    rng = np.random.default_rng(2)
    factors = rng.uniform(size=(400, 2))
    codes = factors @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(400, 4))
    codes = np.hstack([codes, rng.normal(size=(400, 520))]) if wide else codes
    metric, data = METRICS["dci_lasso"], Codes(codes, None, factors, (Factor("a", 0, "continuous"),) * 2)
    fixed = metric(data, preset="authors")
    learn, _, _ = split_in_three(data, TRAIN, VALIDATION, TEST, 0)
    x, y = ((array - array.mean(axis=0)) / array.std(axis=0) for array in (learn.mean, learn.factors))
    weights = Lasso(alpha=0.02, max_iter=10**5, tol=1e-10).fit(x, y).coef_
    np.testing.assert_allclose(fixed.parts["importance"], np.abs(weights).T, atol=2e-4 if wide else 1e-6)
    assert fixed.parts["chosen"].tolist() == [0.02, 0.02]
    assert metric(data, {"strength": 0.02}).values == fixed.values
    assert set(metric(data).parts["chosen"].tolist()) <= {*STRENGTHS}


def test_rows_that_were_saved_before_strength_was_a_setting_keep_their_key() -> None:
    metric = METRICS["dci_lasso"]
    assert set(metric.configured()) == {"train", "validation", "test"}
    assert metric.configured("authors")["strength"] == 0.02
    with pytest.raises(RequestError, match="strength of a lasso must be above 0"):
        score(np.eye(40, 3), np.eye(40, 2), metrics={"dci_lasso": {"strength": -1.0}})


def test_rows_are_split_as_in_the_paper() -> None:
    """178,635 pictures are what the paper has outside its gap; `teapots | without gap` has 179,477."""
    codes = Codes(np.arange(179_477.0)[:, None], None, np.zeros((179_477, 1)), (Factor("a", 1),))
    parts = split_in_three(codes, TRAIN, VALIDATION, TEST, 0)
    assert [len(part.mean) for part in parts] == [142_927, 17_854, 17_854]
    seen = np.concatenate([part.mean[:, 0] for part in parts])
    assert len(np.unique(seen)) == len(seen)
    few = split_in_three(Codes(codes.mean[:1000], None, codes.factors[:1000], codes.about), TRAIN, VALIDATION, TEST, 0)
    assert [len(part.mean) for part in few] == [800, 100, 100]


def test_both_stand_side_by_side_and_a_straight_code_is_perfect_for_both() -> None:
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(3_000, 3))
    codes = np.concatenate([factors[:, [2, 0, 1]] * [1, -2, 3], rng.normal(size=(3_000, 2))], axis=1)
    scores = score(codes, factors, metrics="dci_paper", kinds="continuous")
    for how in ("dci_lasso", "dci_forest"):
        assert scores[f"{how}_disentanglement"] > 0.97
        assert scores[f"{how}_completeness"] > 0.97
        assert scores[f"{how}_informativeness"] > 0.97
        assert scores[f"{how}_nrmse"] < 0.12
    # Deep trees also cut where there is only noise left, and every cut counts as much as the first.
    assert scores["dci_forest_splits_disentanglement"] < scores["dci_forest_disentanglement"]
    assert set(scores) == {*METRICS["dci_lasso"].scores, *METRICS["dci_forest"].scores}


def test_a_curve_is_told_by_trees_and_not_by_lines() -> None:
    factors = np.random.default_rng(0).uniform(-1, 1, (3_000, 2))
    codes = np.column_stack([np.abs(factors[:, 0]), np.sign(factors[:, 0]), factors[:, 1]])
    scores = score(codes, factors, metrics="dci_paper", kinds="continuous")
    assert scores["dci_forest_nrmse"] < 0.1
    assert scores["dci_lasso_nrmse"] > 0.2


def test_the_lasso_of_a_turned_code_has_the_importances_of_its_angle() -> None:
    """Independent factors z of variance 1 and codes c = Qz: the weights of z on c are Q itself, so R = |Q| exactly."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(20_000, 2))
    z = np.linalg.qr(z - z.mean(axis=0))[0] * np.sqrt(len(z))  # exactly uncorrelated
    angle = 0.4
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    codes = Codes(z @ turn.T, None, z, (Factor("a", 0, "continuous"), Factor("b", 0, "continuous")))
    matrix = METRICS["dci_lasso"](codes).parts["importance"]
    np.testing.assert_allclose(matrix, np.abs(turn), atol=0.02)


def test_settings_choose_the_split_and_the_number_of_trees() -> None:
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(400, 2))
    ask = functools.partial(score, factors @ rng.normal(size=(2, 3)), factors, kinds="continuous")
    first = ask(metrics={"dci_forest": {"train": 200, "validation": 100, "test": 100}})
    second = ask(metrics={"dci_forest": {"train": 200, "validation": 100, "test": 100, "trees": 3}})
    assert first["dci_forest_nrmse"] < second["dci_forest_nrmse"]
    assert first.settings["dci_forest"]["trees"] == 10


def test_rows_of_results_say_that_forests_are_of_version_2() -> None:
    factors = np.random.default_rng(0).integers(0, 3, (150, 2))
    scores = score(factors + 0.1, factors, metrics={"dci_forest": {"trees": 2}, "mig": {}})
    rows = metric_rows(Run("blocks", "beta_vae", {"beta": 4}), scores, Measure(metrics=("dci_forest", "mig")), 150)
    assert {row.metric: dict(row.versions) for row in rows if row.metric in ("mig", "dci_forest_nrmse")} == {
        "mig": {},
        "dci_forest_nrmse": {"dci_forest": "2"},
    }
