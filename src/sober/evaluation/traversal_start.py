"""Where traversals start: the code of a picture in which the effect of each latent is easy to see.

The picture nearest the middle of the codes often hides the effect: floor, wall and object all have the middle hue. So
does a picture far from the middle: a shape in a corner cannot move further.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

CANDIDATES = 64  # codes that are drawn; the half nearer to the middle is tried

Codes = Float[np.ndarray, "N D"]


def start_of(decode: Callable[[Codes], np.ndarray], mean: Codes) -> Float[np.ndarray, " D"]:
    """The code whose picture has the most contrast, among codes near the middle. Contrast is the variance of pixels."""
    drawn = mean[np.random.default_rng(0).permutation(len(mean))[:CANDIDATES]]
    near = drawn[np.argsort(np.sum(drawn**2, axis=1), kind="stable")][: -(-len(drawn) // 2)]
    pictures = np.asarray(decode(near))  # (n, H, W, C)
    return near[np.argmax(pictures.var(axis=(1, 2)).sum(axis=1))]
