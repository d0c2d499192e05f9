"""The curve of losses of models of growing capacity, and its area."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def curve_explicitness(
    capacity: Float[np.ndarray, " C"],
    loss: Float[np.ndarray, " C"],
    base: float = 1.0,
    ends: tuple[float, float] | None = None,
) -> float:
    """How early a loss reaches its smallest value as capacity grows (Eastwood et al. 2023).

    E = 1 - 2 A / ((c_max - c_min) · base), where A is the area (trapezoids) between the running minimum of the loss and
    its smallest value, and `base` is the loss of knowing nothing. Give c_min and c_max as `ends` if several curves
    share them: a curve that ends earlier continues flat up to c_max. A flat curve has E = 1, however large its loss. A
    curve that falls late can have E below 0.
    """
    capacity, loss = np.asarray(capacity, float), np.minimum.accumulate(np.asarray(loss, float))
    low, high = (capacity.min(), capacity.max()) if ends is None else ends
    if capacity[-1] < high:
        capacity, loss = np.append(capacity, high), np.append(loss, loss[-1])
    largest = (high - low) * base
    return 1.0 - 2.0 * float(np.trapezoid(loss - loss.min(), capacity)) / largest if largest > 0 else 1.0
