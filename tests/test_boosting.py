"""Boosted trees: those of scikit-learn, whatever the scale, the order of features or the number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from sober.errors import RequestError
from sober.estimators import ranks, trees
from sober.estimators.boosting import boosted
from sober.estimators.compiled import compiled

SKLEARN = {"i": GradientBoostingClassifier, "f": GradientBoostingRegressor}


def made(rows: int, values: int | None, classes: int | None, *, seed: int = 0, features: int = 4):
    """Features with so many distinct values (None: all), and a noisy target that the first two say most about."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)) if values is None else rng.integers(0, values, (rows, features)) / values
    signal = x[:, 0] + np.sin(3 * x[:, 1]) + 0.3 * x[:, 2] * x[:, -1] + 0.3 * rng.normal(size=rows)
    return x, signal if classes is None else np.searchsorted(
        np.quantile(signal, np.arange(1, classes) / classes), signal
    )


@pytest.mark.parametrize("classes", [2, 5, None])
def test_the_trees_are_those_of_scikit_learn(classes):
    x, y = made(2000, 6, classes)
    (ours,) = boosted(x[:1500], [y[:1500]], x[1500:])
    theirs = SKLEARN[y.dtype.kind](random_state=0).fit(x[:1500], y[:1500])
    np.testing.assert_allclose(ours.importances, theirs.feature_importances_, atol=1e-9)
    for rows, predicted in ((x[:1500], ours.train), (x[1500:], ours.test)):
        np.testing.assert_allclose(predicted, theirs.predict(rows), atol=1e-9)


@pytest.mark.parametrize("classes", [2, 4, None])
def test_values_that_are_all_different_are_cut_as_finely_as_by_scikit_learn(classes):
    x, y = made(1000, None, classes)
    (ours,) = boosted(x[:700], [y[:700]], x[700:])
    theirs = SKLEARN[y.dtype.kind](random_state=0).fit(x[:700], y[:700])
    np.testing.assert_allclose(ours.importances, theirs.feature_importances_, atol=0.005)
    if classes is None:  # which of two equal splits is taken changes nothing for the training rows
        np.testing.assert_allclose(ours.train, theirs.predict(x[:700]), atol=1e-9)
        assert np.corrcoef(ours.test, theirs.predict(x[700:]))[0, 1] > 0.999
    else:
        np.testing.assert_array_equal(ours.train, theirs.predict(x[:700]))
        assert abs(np.mean(ours.test == y[700:]) - np.mean(theirs.predict(x[700:]) == y[700:])) < 0.01


def test_bins_only_say_where_to_look(monkeypatch):
    x, y = made(700, None, None)
    (fine,) = boosted(x, [y], x)
    monkeypatch.setattr(ranks, "BINS", 7)
    (rough,) = boosted(x, [y], x)
    np.testing.assert_allclose(rough.train, fine.train, atol=1e-9)
    np.testing.assert_allclose(rough.importances, fine.importances, atol=0.005)


@pytest.mark.parametrize(("stages", "depth", "rate"), [(1, 1, 1.0), (7, 2, 0.5), (3, 5, 0.1)])
def test_settings_mean_what_they_mean_to_scikit_learn(stages, depth, rate):
    x, y = made(400, 30, None)
    (ours,) = boosted(x, [y], x, stages=stages, depth=depth, rate=rate)
    theirs = GradientBoostingRegressor(n_estimators=stages, max_depth=depth, learning_rate=rate).fit(x, y)
    np.testing.assert_allclose(ours.train, theirs.predict(x), atol=1e-9)


def test_the_scale_of_a_feature_changes_nothing():
    x, y = made(600, 20, 4)
    scale = np.array([1e-12, 1e12, 1e-3, 7.0])
    for one, other in zip(boosted(x, [y], x)[0], boosted(x * scale, [y], x * scale)[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_mirrored_feature_splits_the_same_rows():
    x, y = made(600, None, None)
    (one,), (other,) = boosted(x, [y], x), boosted(x * [-1, 1, -1, 1], [y], x * [-1, 1, -1, 1])
    np.testing.assert_allclose(one.train, other.train, atol=1e-9)
    np.testing.assert_allclose(one.importances, other.importances, atol=0.01)


def test_copies_share_the_importance():
    x, y = made(800, 10, 6)
    copies = np.repeat(x[:, :2], 4, axis=1)
    alone, shared = boosted(x[:, :2], [y], x[:, :2])[0], boosted(copies, [y], copies)[0]
    np.testing.assert_array_equal(alone.train, shared.train)
    parts = shared.importances.reshape(2, 4)
    np.testing.assert_allclose(parts.sum(axis=1), alone.importances, atol=1e-9)
    assert np.all(np.abs(parts / parts.sum(axis=1, keepdims=True) - 0.25) < 0.12)


def test_only_the_seed_breaks_ties():
    x, y = made(500, None, 3, features=3)
    x = np.concatenate([x, x], axis=1)
    first, again, other = (boosted(x, [y], x, seed=seed)[0].importances for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_targets_do_not_depend_on_each_other_or_on_threads():
    x, y = made(500, None, 5)
    targets = [y, x[:, 0] + x[:, 1], y % 2, np.digitize(x[:, 3], [-1, 0, 1])]
    together = boosted(x, targets, x[:50], threads=1)
    for found in (boosted(x, targets, x[:50], threads=3), [boosted(x, [y], x[:50])[0] for y in targets]):
        for one, other in zip(together, found, strict=True):
            for mine, yours in zip(one, other, strict=True):
                np.testing.assert_array_equal(mine, yours)


def test_importance_goes_where_the_target_is():
    x, _ = made(600, None, None, features=6)
    for result, f in zip(boosted(x, [np.digitize(x[:, f], [-1, 0, 1]) for f in range(6)], x), range(6), strict=True):
        assert result.importances[f] > 0.999
        assert np.mean(result.train == np.digitize(x[:, f], [-1, 0, 1])) == 1


def test_labels_may_be_any_numbers_and_some_may_be_missing():
    x, y = made(300, None, 3)
    labels = np.array([-7, 4, 100])
    (named,), (plain,) = boosted(x, [labels[y]], x[:40]), boosted(x, [y], x[:40])
    np.testing.assert_array_equal(named.test, labels[plain.test])
    np.testing.assert_array_equal(named.importances, plain.importances)


@pytest.mark.parametrize("target", [np.full(20, 3), np.full(20, 0.1), np.arange(20), np.arange(20) % 2])
@pytest.mark.parametrize("kind", ["constant", "one"])
def test_nothing_to_learn_is_learned(target, kind):
    x = np.full((20, 3), 0.37) if kind == "constant" else np.arange(20.0)[:, None]
    (result,) = boosted(x, [target], x)
    if kind == "constant" or len(np.unique(target)) == 1:
        assert not result.importances.any()
        assert len(np.unique(result.test)) == 1
        assert result.test[0] in target or np.isclose(result.test[0], target.mean())
    else:
        assert result.importances == [1.0]


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("features", [1, 40])
def test_few_rows_are_enough(rows, features):
    x = np.random.default_rng(0).normal(size=(rows, features))
    for target in (np.arange(rows), np.arange(rows) * 1.5):
        (result,) = boosted(x, [target], np.zeros((0, features)))
        assert result.test.shape == (0,)
        np.testing.assert_allclose(result.train, target, atol=1e-3)
        assert np.isclose(result.importances.sum(), rows > 1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_precision_will_do(dtype):
    x, y = made(300, 16, 3)  # sixteenths are exact in all of them
    for one, other in zip(boosted(x, [y], x)[0], boosted(x.astype(dtype), [y], x.astype(dtype))[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_requests_that_cannot_be_met_say_so():
    x, y = made(20, None, 2)
    with pytest.raises(RequestError, match="finite"):
        boosted(np.where(x > 1, np.nan, x), [y], x)
    for target in (y[:-1], np.where(y == 1, np.inf, y)):
        with pytest.raises(RequestError, match="finite value of each target"):
            boosted(x, [target], x)
    with pytest.raises(RequestError, match="depth"):
        boosted(x, [y], x, depth=8)
    with pytest.raises(RequestError, match="same latents"):
        boosted(x, [y], x[:, :2])


def test_the_exponential_is_exact_to_rounding():
    x = -np.concatenate([np.linspace(0, 40, 2000), np.geomspace(1e-300, 690, 2000), [1e4, np.inf]])
    out, power = x.copy(), np.zeros(len(x))
    trees._exp(out, power, power.view(np.int64))
    np.testing.assert_allclose(out[:-2], np.exp(x[:-2]), rtol=1e-15)
    assert np.all(out[-2:] < 1e-300)


def test_without_a_folder_to_keep_it_code_is_compiled_each_time(monkeypatch):
    import numba  # noqa: PLC0415

    asked = []

    def njit(function, *, cache=False, **_):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return function

    monkeypatch.setattr(numba, "njit", njit)
    monkeypatch.setattr("numba.extending.overload", lambda *_, **__: lambda function: function)
    for function in (trees._grow_trees, trees._add_forest):
        assert compiled.__wrapped__(function, trees._exp) is function
    assert asked == [True, False, True, False]
