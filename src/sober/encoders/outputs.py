"""The outputs of networks of any library: as numbers, with channels last, one row of features for each picture."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from sober.encoders.encoder import Output, Pooling
from sober.errors import RequestError

WIDEST = 2_048  # features of patches side by side; more are projected
ENTRIES = 4  # the projection adds each feature to this many of its own


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of PyTorch, which need not be installed."""
    return hasattr(value, "detach") and hasattr(value, "numpy")


def channels_last(maps: Any) -> Any:
    """Maps (n, D, H, W) of PyTorch as (n, H, W, D). If only the last two axes differ, channels are last already."""
    if maps.ndim != 4 or (maps.shape[1] == maps.shape[2] != maps.shape[3]):
        return maps
    return maps.permute(0, 2, 3, 1) if is_tensor(maps) else maps.transpose(0, 2, 3, 1)


def first_array(result: Any) -> Any:
    """The array of a layer that gives several things: the first of a tuple, or the hidden state of a named output.

    The items of a list are rows.
    """
    if (hidden := getattr(result, "last_hidden_state", None)) is not None:
        return hidden
    if isinstance(result, Mapping) and result:
        return first_array(next(result[name] for name in ("last_hidden_state", *result) if name in result))
    if isinstance(result, tuple) and result:
        return first_array(result[0])
    return result


def as_numbers(value: Any) -> Any:
    """An array in float32, of the library that it is of; what is no array becomes one of NumPy."""
    if is_tensor(value):
        return value.detach().float()
    if isinstance(value, str | bytes):
        raise RequestError("a text holds no features: give numbers")
    if isinstance(value, Sequence):
        value = np.stack([as_numpy(row) for row in value]) if value else np.zeros(0)
    if not (hasattr(value, "astype") and hasattr(value, "ndim")):
        value = np.asarray(value)
    if value.dtype.kind in "OSUcMm":
        raise RequestError(f"an array of {value.dtype} holds no features: give numbers")
    with np.errstate(over="ignore"):  # numbers that are too large become infinite, and are refused as such
        return value.astype(np.float32)


def as_numpy(value: Any) -> Float[np.ndarray, "..."]:
    """An array of any library in float32, in NumPy."""
    numbers = as_numbers(value)
    return numbers.cpu().numpy() if is_tensor(numbers) else np.asarray(numbers)


def pooled(output: Output, pooling: Pooling, first_patch: int = 0) -> Float[np.ndarray, "n D"]:
    """One row for each picture.

    mean      the mean over patch tokens, or over the positions of maps
    class     the first token, if it is no patch
    patches   all patch tokens or positions side by side; more than 2,048 features are projected to 2,048
    """
    numbers = as_numbers(output)
    if numbers.ndim == 1:
        return as_numpy(numbers)[:, None]
    if numbers.ndim == 2:
        return as_numpy(numbers)
    if numbers.ndim not in (3, 4):
        raise RequestError(
            f"a layer gave shape {tuple(numbers.shape)}: give features (n, D), tokens (n, T, D) or maps (n, H, W, D)"
        )
    if pooling == "class":
        if numbers.ndim == 4 or not first_patch:
            raise RequestError("the layer has no known class token: choose pooling mean or patches")
        return as_numpy(numbers[:, 0])
    tokens = numbers.reshape(numbers.shape[0], -1, numbers.shape[-1])
    if numbers.ndim == 3 and tokens.shape[1] > first_patch:
        tokens = tokens[:, first_patch:]
    if pooling == "mean":
        return as_numpy(tokens.mean(axis=1))
    return projected(as_numpy(tokens.reshape(tokens.shape[0], -1)))


def projected(features: Float[np.ndarray, "n W"]) -> Float[np.ndarray, "n D"]:
    """At most 2,048 features: wider ones by a random projection, which keeps distances up to a few percent."""
    width = features.shape[1]
    return features if width <= WIDEST else (projection(width) @ features.T).T


@functools.lru_cache(maxsize=16)
def projection(width: int) -> Any:
    """A random sparse matrix (2,048, width) with four entries of ±1/2 in each column: the same for each width.

    Columns have length 1, so inner products keep their expectation (Kane & Nelson 2014). A dense matrix for 200 tokens
    of 768 numbers would take 1.2 GB.
    """
    import scipy.sparse  # noqa: PLC0415 -- takes long to import

    rng = np.random.default_rng([width, 36])
    rows = rng.integers(0, WIDEST, width * ENTRIES)
    signs = rng.choice(np.array([-1, 1], np.float32), width * ENTRIES) / np.sqrt(np.float32(ENTRIES))
    return scipy.sparse.csr_array((signs, (rows, np.repeat(np.arange(width), ENTRIES))), (WIDEST, width))
