"""Where traversals start."""

from __future__ import annotations

import numpy as np
import pytest

from sober.evaluation.traversal_start import CANDIDATES, start_of


def decode(codes: np.ndarray) -> np.ndarray:
    """Two halves of a picture, each as bright as a latent says."""
    pictures = np.zeros((len(codes), 4, 4, 1))
    pictures[:, :2] += codes[:, 0, None, None, None]
    pictures[:, 2:] += codes[:, 1, None, None, None]
    return pictures


def test_it_is_a_code_with_contrast_that_is_not_far_out() -> None:
    mean = np.random.default_rng(1).normal(size=(2_000, 3))
    start = start_of(decode, mean)
    assert (mean == start).all(axis=1).any()
    middle = mean[np.argmin(np.sum(mean**2, axis=1))]
    assert abs(start[0] - start[1]) > 1 > abs(middle[0] - middle[1])
    assert np.sum(start**2) < np.quantile(np.sum(mean**2, axis=1), 0.7)


@pytest.mark.parametrize("rows", [1, 2, 3, CANDIDATES + 1])
def test_few_codes_and_equal_ones_do(rows: int) -> None:
    assert start_of(decode, np.full((rows, 2), 0.5)).tolist() == [0.5, 0.5]
