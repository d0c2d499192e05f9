"""Joint distributions: what Chen et al. (2018) say of A, B, C and D holds for tables of any size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import rel_entr

from sober.errors import RequestError
from sober.worlds.views.distributions import JOINTS, joint

every_joint = pytest.mark.parametrize("name", JOINTS)
every_size = pytest.mark.parametrize(("rows", "columns"), [(3, 3), (4, 7), (21, 11), (32, 32), (5, 64)])


def information(table: np.ndarray) -> float:
    """Mutual information in nats."""
    return float(rel_entr(table, np.outer(table.sum(axis=1), table.sum(axis=0))).sum())


def correlation(table: np.ndarray) -> float:
    x, y = np.arange(len(table))[:, None], np.arange(table.shape[1])
    mean = (table * x).sum(), (table * y).sum()
    covariance = (table * (x - mean[0]) * (y - mean[1])).sum()
    return float(covariance / np.sqrt((table * (x - mean[0]) ** 2).sum() * (table * (y - mean[1]) ** 2).sum()))


@every_joint
@every_size
def test_every_combination_can_occur_and_together_they_are_certain(name: str, rows: int, columns: int) -> None:
    table = joint(name, rows, columns)
    assert table.shape == (rows, columns)
    assert table.min() > 0
    assert table.sum() == pytest.approx(1)


@every_size
def test_the_likeliest_combination_is_four_times_as_likely_as_the_least(rows: int, columns: int) -> None:
    ratios = {name: joint(name, rows, columns).max() / joint(name, rows, columns).min() for name in JOINTS}
    assert ratios == pytest.approx({"A": 1, "B": 4, "C": 4, "D": 4})


@every_size
def test_only_b_has_marginals_that_are_not_uniform(rows: int, columns: int) -> None:
    for name in "ACD":
        np.testing.assert_allclose(joint(name, rows, columns).sum(axis=1), 1 / rows)
        np.testing.assert_allclose(joint(name, rows, columns).sum(axis=0), 1 / columns)
    assert (np.diff(joint("B", rows, columns).sum(axis=1)) > 0).all()
    assert (np.diff(joint("B", rows, columns).sum(axis=0)) > 0).all()


@every_size
def test_a_and_b_are_independent_and_c_and_d_are_not(rows: int, columns: int) -> None:
    shared = {name: information(joint(name, rows, columns)) for name in JOINTS}
    assert shared["A"] == pytest.approx(0, abs=1e-12)
    assert shared["B"] == pytest.approx(0, abs=1e-12)
    assert shared["C"] > 0.04
    assert shared["D"] > 0.04


@every_size
def test_only_d_is_correlated(rows: int, columns: int) -> None:
    found = {name: correlation(joint(name, rows, columns)) for name in JOINTS}
    assert [found[name] for name in "ABC"] == pytest.approx([0, 0, 0], abs=1e-12)
    assert found["D"] > 0.3


def test_c_and_d_are_equally_dependent_where_sizes_divide_by_four() -> None:
    likely = 4 / 5  # on one side of the likelier half
    expected = np.log(2) + likely * np.log(likely) + (1 - likely) * np.log(1 - likely)
    assert information(joint("C", 32, 16)) == pytest.approx(expected)
    assert information(joint("D", 32, 16)) == pytest.approx(expected)


def test_other_names_and_tables_too_small_are_refused() -> None:
    with pytest.raises(RequestError, match="unknown joint distribution 'E': choose one of A, B, C, D"):
        joint("E", 4, 4)
    with pytest.raises(RequestError, match="unknown joint distribution 'CD'"):
        joint("CD", 4, 4)
    with pytest.raises(RequestError, match="3 values or more, got 2 and 4"):
        joint("A", 2, 4)
