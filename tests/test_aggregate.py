"""Rules that make one number of a matrix, on matrices whose answer is known."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse.csgraph import connected_components

from sober.metrics.common.aggregation import (
    completeness_columns,
    disentanglement_rows,
    gap,
    independent_groups,
    merge_thresholds,
    merges,
    modularity_rows,
)

matrices = st.tuples(st.integers(1, 5), st.integers(1, 4)).flatmap(
    lambda shape: arrays(float, shape, elements=st.sampled_from([0.0, 0.0, 0.1, 0.2, 0.35, 0.5, 0.8, 1.0]))
)


def monomial(d: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """One entry in each column, at most one in each row."""
    out = np.zeros((d, k))
    out[rng.permutation(d)[:k], np.arange(k)] = rng.uniform(0.1, 2, k)
    return out


def test_a_monomial_matrix_is_perfect() -> None:
    matrix = monomial(6, 4, np.random.default_rng(0))
    used = matrix.sum(axis=1) > 0
    np.testing.assert_allclose(disentanglement_rows(matrix)[used], 1)
    np.testing.assert_allclose(completeness_columns(matrix), 1)
    np.testing.assert_allclose(modularity_rows(matrix)[used], 1)
    np.testing.assert_allclose(gap(matrix), matrix.max(axis=0))
    assert not merges(matrix)
    curve = independent_groups(matrix)
    np.testing.assert_array_equal(curve.factors, [4, 3, 2, 1])
    np.testing.assert_array_equal(curve.groups, [4, 3, 2, 1])


def test_equal_entries_are_the_worst() -> None:
    matrix = np.full((4, 3), 0.7)
    np.testing.assert_allclose(disentanglement_rows(matrix), 0, atol=1e-12)
    np.testing.assert_allclose(completeness_columns(matrix), 0, atol=1e-12)
    np.testing.assert_allclose(modularity_rows(matrix), 0, atol=1e-12)
    np.testing.assert_allclose(gap(matrix), 0)
    curve = independent_groups(matrix)
    assert curve.factors.tolist() == [3]
    assert curve.groups.tolist() == [1]


def test_two_factors_in_one_latent_by_hand() -> None:
    share = np.array([[0.75, 0.25], [0.0, 0.5]])
    entropy = -(0.75 * np.log2(0.75) + 0.25 * np.log2(0.25))
    np.testing.assert_allclose(disentanglement_rows(share), [1 - entropy, 1])
    np.testing.assert_allclose(modularity_rows(share), [1 - (0.25 / 0.75) ** 2, 1])
    np.testing.assert_allclose(gap(share), [0.75, 0.25])
    np.testing.assert_allclose(merge_thresholds(share), [[0.75, 0.25], [0.25, 0.5]])


def test_a_lone_latent_has_no_rival() -> None:
    np.testing.assert_allclose(gap(np.array([[0.3, 0.6]])), [0.3, 0.6])


def test_nothing_gives_nothing() -> None:
    matrix = np.zeros((3, 2))
    assert not disentanglement_rows(matrix).any()
    assert not completeness_columns(matrix).any()
    assert not modularity_rows(matrix).any()
    assert not len(independent_groups(matrix).thresholds)
    assert not merge_thresholds(matrix).any()


def by_hand(matrix: np.ndarray, threshold: float) -> tuple[int, np.ndarray, np.ndarray]:
    """Groups with more than one node, factors that have an edge, and the component of each factor."""
    d, k = matrix.shape
    graph = np.zeros((d + k, d + k))
    graph[:d, d:] = matrix >= threshold
    _, component = connected_components(graph, directed=False)
    groups = int((np.bincount(component) > 1).sum())
    return groups, (matrix >= threshold).any(axis=0), component[d:]


@given(matrices)
def test_groups_and_merges_agree_with_the_graph_itself(matrix: np.ndarray) -> None:
    curve = independent_groups(matrix)
    levels = merge_thresholds(matrix)
    for at, threshold in enumerate(curve.thresholds):
        groups, joined, component = by_hand(matrix, threshold)
        assert curve.groups[at] == groups
        assert curve.factors[at] == joined.sum()
        together = (component[:, None] == component[None, :]) & joined[:, None]
        np.testing.assert_array_equal(levels >= threshold, together)


@given(matrices)
def test_rules_stay_between_nought_and_one(matrix: np.ndarray) -> None:
    for rule in (disentanglement_rows, completeness_columns, modularity_rows):
        assert ((rule(matrix) > -1e-12) & (rule(matrix) < 1 + 1e-12)).all()
    assert (gap(matrix) >= 0).all()
