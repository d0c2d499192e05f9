"""Joint distributions of two factors: A, B, C and D of Chen et al. (2018), section 6.2.1.

The paper trains on two factors sampled four ways: A uniform and independent, B independent with non-uniform marginals,
C uncorrelated but dependent, D correlated and dependent; every combination can occur, and the most likely is 4 times
as likely as the least likely (figure 5). It shows the four as pictures and gives no formula. Here B, C and D each
differ from A in one property:

    B  marginals: both rise in a straight line to twice their first value, so the last corner has 4 times the first
    C  dependence: extreme values go together, and so do middle ones, so the distance of one factor from its middle
       predicts that of the other; both marginals stay uniform, and the correlation is 0
    D  correlation: low values go together, and so do high ones; both marginals stay uniform

C and D are as dependent as a ratio of 4 allows: about 0.19 nats, the same for both if the sizes are divisible by four.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sober.errors import RequestError, unknown

JOINTS = ("A", "B", "C", "D")
RATIO = 4.0  # the most likely combination against the least likely


def joint(name: str, rows: int, columns: int) -> Float[np.ndarray, "rows columns"]:
    """The probability of every combination of two factors with `rows` and `columns` values: `A`, `B`, `C` or `D`."""
    if name not in JOINTS:
        raise unknown("joint distribution", JOINTS, name)
    if min(rows, columns) < 3:
        raise RequestError(f"a joint distribution needs two factors of 3 values or more, got {rows} and {columns}")
    weight = np.ones((rows, columns))
    if name == "B":
        weight = np.outer(np.linspace(1, RATIO**0.5, rows), np.linspace(1, RATIO**0.5, columns))
    elif name in "CD":
        contrast = _extreme if name == "C" else _high
        product = np.outer(contrast(rows), contrast(columns))
        # Each contrast sums to 0, so the product, and anything linear in it, leaves the marginals uniform.
        weight = 1 + (RATIO - 1) * (product - product.min()) / np.ptp(product)
    return weight / weight.sum()


def _high(size: int) -> Float[np.ndarray, " size"]:
    """1 in the upper half, -1 in the lower half, 0 in the very middle."""
    return np.sign(np.arange(size) - (size - 1) / 2)


def _extreme(size: int) -> Float[np.ndarray, " size"]:
    """High in the outer half, low in the inner half; 0 on average."""
    outer = np.sign(np.abs(np.linspace(-1, 1, size)) - 0.5)
    return outer - outer.mean()
