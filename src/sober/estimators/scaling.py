"""Numbers brought to a scale at which arithmetic is safe."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def in_range(x: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """x as float64, times a power of two where it is so large or small that squares and differences would not fit."""
    x = np.asarray(x, np.float64)
    _, exponent = np.frexp(np.max(np.abs(x), initial=0.0))
    return x if -300 < exponent < 300 else np.ldexp(x, -int(exponent))


def standardised(
    x: Float[np.ndarray, "N n"],
    *others: Float[np.ndarray, "M n"],
    weights: Float[np.ndarray, " N"] | None = None,
) -> list[Float[np.ndarray, "_ n"]]:
    """Columns of x with mean 0 and variance 1, and those of others by the same rule; 0 where x does not vary.

    `weights` say how much each row of x counts in these.
    """
    out = [np.zeros(each.shape) for each in (x, *others)]
    lengths = np.cumsum([len(each) for each in (x, *others)])[:-1]
    for j in np.flatnonzero(np.ptp(x, axis=0) > 0):
        column = in_range(np.concatenate([each[:, j] for each in (x, *others)], dtype=np.float64))
        parts = np.split(column, lengths)
        centre, spread = _moments(parts[0], weights)
        if spread > 0:
            for to, part in zip(out, parts, strict=True):
                to[:, j] = (part - centre) / spread
    return out


def _moments(column: Float[np.ndarray, " N"], weights: Float[np.ndarray, " N"] | None) -> tuple[float, float]:
    """The mean and the standard deviation."""
    if weights is None:
        return column.mean(), column.std()
    centre = float(np.average(column, weights=weights))
    return centre, float(np.sqrt(np.average((column - centre) ** 2, weights=weights)))


def in_float32(x: Float[np.ndarray, "N D"], other: Float[np.ndarray, "M D"]) -> list[Float[np.ndarray, "_ D"]]:
    """Both as they are, but for columns too large for a float32, which are divided by a power of two."""
    exponent = np.frexp(np.maximum(np.abs(x).max(axis=0), np.abs(other).max(axis=0, initial=0.0)))[1]
    if not (exponent > 120).any():
        return [x, other]
    return [np.ldexp(part, -np.where(exponent > 120, exponent, 0)) for part in (x, other)]
