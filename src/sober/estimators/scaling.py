"""Numbers brought to a scale at which arithmetic is safe."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

LARGEST_LOGIT = 50  # powers of two: a classifier's penalty on the weight of such a column is nothing
LARGEST, SMALLEST = 1e50, 1e-50  # between them, fourth powers fit into a float64
LARGEST_FLOAT32_EXPONENT = 120  # of two; a float32 holds a little more
NEGLIGIBLE = 1e-100  # a spread that is this share of the numbers is none: the squares of quotients would not fit


def columns_in_range(array: np.ndarray, smallest: float = SMALLEST) -> np.ndarray:
    """The array with columns beyond `LARGEST`, or all within `smallest`, scaled by powers of two.

    The same array if there are none.
    """
    largest = np.abs(array).max(axis=0).astype(np.float64)
    far = (largest > LARGEST) | ((largest < smallest) & (largest > 0))
    if not np.any(far):
        return array
    to = np.where(largest > LARGEST, np.frexp(LARGEST)[1] - 1, 0)
    return np.ldexp(array, np.where(far, to - np.frexp(largest)[1], 0))


def shifts(x: Float[np.ndarray, "N D"]) -> Int[np.ndarray, " D"]:
    """By how many powers of two to multiply each column, so that no number exceeds `LARGEST_LOGIT`: mostly 0."""
    return np.minimum(0, LARGEST_LOGIT - np.frexp(np.abs(x).max(axis=0))[1])


def in_range(x: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """x as float64, scaled by a power of two if squares and differences would otherwise over- or underflow."""
    x = np.asarray(x, np.float64)
    _, exponent = np.frexp(np.max(np.abs(x), initial=0.0))
    return x if -300 < exponent < 300 else np.ldexp(x, -int(exponent))


def standardised(
    x: Float[np.ndarray, "N n"],
    *others: Float[np.ndarray, "M n"],
    weights: Float[np.ndarray, " N"] | None = None,
) -> list[Float[np.ndarray, "_ n"]]:
    """Columns of x with mean 0 and variance 1, and the others shifted and scaled alike; 0 where x does not vary.

    `weights` weight the rows of x.
    """
    out = [np.zeros(table.shape) for table in (x, *others)]
    lengths = np.cumsum([len(table) for table in (x, *others)])[:-1]
    for j in np.flatnonzero(np.ptp(x, axis=0) > 0):
        column = in_range(np.concatenate([table[:, j] for table in (x, *others)], dtype=np.float64))
        pieces = np.split(column, lengths)
        centre, spread = _mean_and_deviation(pieces[0], weights)
        if spread > NEGLIGIBLE * np.abs(column).max():
            for scaled, piece in zip(out, pieces, strict=True):
                scaled[:, j] = (piece - centre) / spread
    return out


def _mean_and_deviation(
    column: Float[np.ndarray, " N"], weights: Float[np.ndarray, " N"] | None
) -> tuple[float, float]:
    """The mean and the standard deviation."""
    if weights is None:
        return column.mean(), column.std()
    centre = float(np.average(column, weights=weights))
    return centre, float(np.sqrt(np.average((column - centre) ** 2, weights=weights)))


def as_float32(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """x as float32; columns that are too large for it, or too small, are scaled by a power of two."""
    exponent = np.frexp(np.abs(x).max(axis=0))[1]
    shift = np.where(np.abs(exponent) > LARGEST_FLOAT32_EXPONENT, -exponent, 0)
    return np.asarray(np.ldexp(x, shift) if shift.any() else x, np.float32)


def in_float32(x: Float[np.ndarray, "N D"], other: Float[np.ndarray, "M D"]) -> list[Float[np.ndarray, "_ D"]]:
    """Both tables; columns that are too large for a float32 are divided by a power of two."""
    exponent = np.frexp(np.maximum(np.abs(x).max(axis=0), np.abs(other).max(axis=0, initial=0.0)))[1]
    far = exponent > LARGEST_FLOAT32_EXPONENT
    return [np.ldexp(table, -np.where(far, exponent, 0)) for table in (x, other)] if far.any() else [x, other]
