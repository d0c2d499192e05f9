"""Where traversals start: the code of a picture in which one sees what latents do.

The picture nearest the middle of the codes often hides it: there, floor, wall and object all have the middle hue. One
far from the middle does too: a shape in the corner has nowhere to go.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

CANDIDATES = 64  # codes that are drawn; the half of them that is nearer to the middle is tried
SPAN = 2.0  # standard deviations of the prior either way: how far a latent is moved

Codes = Float[np.ndarray, "N D"]


def start_of(decode: Callable[[Codes], np.ndarray], mean: Codes) -> Float[np.ndarray, " D"]:
    """Of codes not far from the middle the one whose picture has the most contrast: the variance of its pixels."""
    drawn = mean[np.random.default_rng(0).permutation(len(mean))[:CANDIDATES]]
    near = drawn[np.argsort(np.sum(drawn**2, axis=1), kind="stable")][: -(-len(drawn) // 2)]
    pictures = np.asarray(decode(near))  # (n, H, W, C)
    return near[np.argmax(pictures.var(axis=(1, 2)).sum(axis=1))]
