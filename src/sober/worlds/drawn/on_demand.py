"""Views that NumPy draws when a compiled program asks for them, where a table of all views would be too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8


def drawn_on_demand(
    draw: Callable[..., UInt8[np.ndarray, "n H W"]], side: int, *arguments: Any
) -> UInt8[Array, "... H W"]:
    """`draw` of arrays (n,) with a row per view, called from inside a compiled program."""

    def draw_views(*batches: Any) -> UInt8[np.ndarray, "... H W"]:
        rows = [np.asarray(batch).reshape(-1) for batch in batches]
        return draw(*rows).reshape(*batches[0].shape, side, side)

    result = jax.ShapeDtypeStruct((*jnp.shape(arguments[0]), side, side), jnp.uint8)
    return jax.pure_callback(draw_views, result, *arguments, vmap_method="broadcast_all")
