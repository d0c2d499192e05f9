"""A network of the same shape with random weights: the entries of each weight array in random order."""

from __future__ import annotations

import zlib

import numpy as np


def shuffled(array: np.ndarray, name: str, seed: int) -> np.ndarray:
    """An array with its entries in random order, which its name and the seed determine.

    Arrays with fewer than two axes stay: biases, scales of norms, statistics of batches.
    """
    if array.ndim < 2:
        return array
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return rng.permutation(array.reshape(-1)).reshape(array.shape)
