"""Vector units: codes (N, units, dims). What metrics say of a unit does not depend on how its numbers are turned."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from sober.estimators.neighbours import class_information
from sober.estimators.vectors import unit_svm_accuracy, vector_information
from sober.metrics import METRICS, Scores, as_codes, score

UNITS, DIMS = 3, 2
TAKEN = {name: metric.quick for name, metric in METRICS.items() if "units" in metric.takes}
# Trees and lassos look at numbers one by one, and a penalty is the same for each of them after they are standardised.
BY_NUMBER = {"dci", "dci_lasso", "dci_forest", "dci_es", "gbt", "explicitness"}


def unit_codes(rows: int = 360, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two factors, each on a circle in a unit of its own; the third unit is noise."""
    rng = np.random.default_rng(seed)
    factors = rng.integers(0, 3, (rows, 2))
    codes = 0.3 * rng.normal(size=(rows, UNITS, DIMS))
    angle = 2 * np.pi * factors / 3
    codes[:, :2] += np.stack([np.cos(angle), np.sin(angle)], axis=2)
    return codes, factors


def turned(codes: np.ndarray, seed: int = 1) -> np.ndarray:
    """Each unit rotated by itself."""
    rotations = scipy.stats.ortho_group(DIMS, seed=seed).rvs(UNITS)
    return np.einsum("nud,ude->nue", codes, rotations)


def assert_close(one: Scores, other: Scores, within: float) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert one[name] == pytest.approx(other[name], abs=within), name


def test_units_are_read_as_such_and_the_rest_says_why_not() -> None:
    codes, factors = unit_codes()
    prepared = as_codes(codes, factors)
    assert prepared.unit == DIMS
    assert prepared.mean.shape == (len(codes), UNITS * DIMS)
    found = score(codes, factors, metrics={name: metric.quick for name, metric in METRICS.items()})
    assert set(found.left_out) == set(METRICS) - set(TAKEN)
    assert all(reason for reason in found.left_out.values())
    matrices = [("mig", "mutual_information"), ("sap", "predictability"), ("dci", "importance"), ("irs", "robustness")]
    for metric, part in matrices:
        assert found.parts[metric][part].shape == (UNITS, 2), metric


def test_units_of_one_number_give_the_old_numbers() -> None:
    codes, factors = unit_codes()
    flat = codes.reshape(len(codes), -1)
    assert score(flat[:, :, None], factors, metrics=TAKEN) == score(flat, factors, metrics=TAKEN)


def test_a_rotation_inside_units_changes_nothing() -> None:
    codes, factors = unit_codes()
    asked = {name: quick for name, quick in TAKEN.items() if name not in BY_NUMBER}
    assert_close(score(turned(codes), factors, metrics=asked), score(codes, factors, metrics=asked), 1e-6)


def test_another_order_of_units_changes_nothing() -> None:
    codes, factors = unit_codes()
    by_chance = {"dci", "gbt", "dci_forest", "dci_es"}  # of columns that split equally well, trees take one at random
    asked = {name: quick for name, quick in TAKEN.items() if name not in by_chance}
    assert_close(score(codes[:, [2, 0, 1]], factors, metrics=asked), score(codes, factors, metrics=asked), 1e-6)


def test_units_that_hold_a_factor_each_are_disentangled() -> None:
    """No single number tells three values on a circle; the units do."""
    codes, factors = unit_codes(rows=900)
    asked = ["mig", "modularity", "dci", "sap", "factor_vae", "r2"]
    units = score(codes, factors, kinds="cyclic", metrics=asked)
    flat = score(codes.reshape(len(codes), -1), factors, kinds="cyclic", metrics=asked)
    assert units["mig"] > 0.9 > flat["mig"]
    assert units["dci_completeness"] > 0.85 > flat["dci_completeness"]
    assert units["sap"] > 0.55 > flat["sap"]
    assert units["factor_vae"] == 1
    assert units["r2_permuted"] > 0.8 > flat["r2_permuted"]


def test_information_of_vectors_is_right_where_it_is_known() -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 4, 2_000)
    centre = 0.7 * rng.normal(size=(4, 6))
    x = centre[label] + rng.normal(size=(2_000, 6))
    far = -0.5 * ((x[:, None] - centre) ** 2).sum(axis=2)
    truth = np.log(4) + np.mean(far[np.arange(2_000), label] - np.logaddexp.reduce(far, axis=1))
    assert vector_information(x, 6, label[:, None])[0, 0] == pytest.approx(truth, abs=0.06)
    apart = vector_information(1e3 * np.eye(4)[label], 4, label[:, None])[0, 0]
    assert apart == pytest.approx(np.log(4), abs=0.01)
    assert vector_information(rng.normal(size=(2_000, 6)), 6, label[:, None])[0, 0] < 0.03
    assert vector_information(rng.integers(0, 2, (2_000, 6)), 6, label[:, None])[0, 0] < 0.03  # equal vectors


def test_vectors_of_one_number_have_the_information_of_numbers() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = np.stack([x[:, 0] > 0, rng.integers(0, 3, 300)], axis=1).astype(int)
    np.testing.assert_allclose(vector_information(x, 1, y), class_information(x, y, 10), atol=1e-10)


def test_machines_of_units_see_all_their_numbers() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_000, 4))
    y = (x[:, [0]] + x[:, [1]] > 0).astype(int)
    found = unit_svm_accuracy(x[:600], y[:600], x[600:], y[600:], 2)
    assert found[0, 0] > 0.95
    assert found[1, 0] < 0.6


def test_the_covariance_within_units_is_not_between_them() -> None:
    rng = np.random.default_rng(0)
    own = rng.normal(size=(4_000, 2, 1))
    inside = np.concatenate([own, own + rng.normal(size=own.shape)], axis=2)
    asked = ["gaussian_total_correlation", "wasserstein_correlation"]
    found = score(inside, metrics=asked)
    assert found["gaussian_total_correlation"] < 0.01
    assert found["wasserstein_correlation_norm"] < 0.01
    between = score(np.concatenate([own, own[:, ::-1] + own], axis=2), metrics=asked)
    assert between["gaussian_total_correlation"] > 0.2
    assert between["wasserstein_correlation_norm"] > 0.05
