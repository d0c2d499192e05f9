"""Operations of layers in two variants with the same results: one for a CPU's compiler, one for a GPU's.

A GPU's compiler fuses pads, slices and concatenations with the operations around them. A CPU's compiler then computes
for every single number where it comes from and whether it is padding, unless the copy is kept unfused. `VARIANTS` lists
the operations. `benchmarks/cpu_gpu_variants.py` measures both variants of each, in turns within one run; docs/speed.md
has the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sober.device import fenced


def on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def unfused(f: Callable[[Array], Array], x: Array) -> Array:
    """f(x), which a CPU's compiler fuses with nothing before or after."""
    return fenced(f, lambda x: -jax.lax.optimization_barrier(f(-x)), x)


# Blocks: (b, 2h, 2w, c), padded by one, as 2 x 2 blocks (b, h + 1, w + 1, 4c).
def blocks_padded(x: Array) -> Array:
    b, h, w, c = x.shape
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    x = x.reshape(b * (h // 2 + 1), 2, w // 2 + 1, 2 * c).transpose(0, 2, 1, 3)
    return x.reshape(b, h // 2 + 1, w // 2 + 1, 4 * c)


def blocks_stacked(x: Array) -> Array:
    b, h, w, c = x.shape

    def rows(x: Array, lower: int) -> Array:
        """The upper or the lower rows of all blocks, cut into pairs of pixels."""
        lone = x.reshape(b, h // 2, 2, w, c)[:, :, 1 - lower]
        padded = jnp.pad(lone, ((0, 0), (1 - lower, lower), (1, 1), (0, 0)))
        return padded.reshape(b, h // 2 + 1, w // 2 + 1, 2 * c)

    stacked = unfused(lambda x: jnp.stack([rows(x, 0), rows(x, 1)], axis=3), x)
    return stacked.reshape(b, h // 2 + 1, w // 2 + 1, 4 * c)


# Spread: each block (b, h + 1, w + 1, 4c) receives the four pixels of (b, h, w, c) that touch it.
def spread_sliced(x: Array) -> Array:
    b, h, w, c = x.shape
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    copies = jnp.stack([x[:, 1:, 1:], x[:, 1:, :-1], x[:, :-1, 1:], x[:, :-1, :-1]], axis=3)
    return copies.reshape(b, h + 1, w + 1, 4 * c)


def spread_stacked(x: Array) -> Array:
    b, h, w, c = x.shape

    def corner_copies(x: Array) -> Array:
        """The pixels at the four corners, stacked two by two, which is faster than four at once."""
        rows = [[jnp.pad(x, ((0, 0), (i, 1 - i), (j, 1 - j), (0, 0))) for j in (0, 1)] for i in (0, 1)]
        return jnp.stack([jnp.stack(row, axis=3) for row in rows], axis=3)

    return unfused(corner_copies, x).reshape(b, h + 1, w + 1, 4 * c)


# Sums of columns in float32. On a CPU a reduction over rows is several times slower than a product with ones.
def sums_reduced(rows: Float[Array, "n o"]) -> Float[Array, " o"]:
    return jnp.sum(rows.astype(sum_type(rows)), axis=0)


def sums_multiplied(rows: Float[Array, "n o"]) -> Float[Array, " o"]:
    precision = None if rows.dtype == jnp.bfloat16 else jax.lax.Precision.HIGHEST
    return jnp.dot(jnp.ones(len(rows), rows.dtype), rows, precision=precision, preferred_element_type=sum_type(rows))


def sum_type(x: Array) -> jnp.dtype:
    """The type in which sums over a batch are taken."""
    return jnp.promote_types(x.dtype, jnp.float32)


# Activations. Unfused, a CPU computes them once, and not in each of the loops that read them.
def unchanged(x: Array) -> Array:
    return x


def materialised(x: Array) -> Array:
    return unfused(unchanged, x)


class Variant(NamedTuple):
    """One operation, in a variant for a CPU and one for a GPU."""

    cpu: Callable[[Array], Array]
    gpu: Callable[[Array], Array]

    def __call__(self, x: Array) -> Array:
        return (self.cpu if on_cpu() else self.gpu)(x)


VARIANTS: dict[str, Variant] = {
    "blocks": Variant(blocks_stacked, blocks_padded),
    "spread": Variant(spread_stacked, spread_sliced),
    "sums": Variant(sums_multiplied, sums_reduced),
    "written": Variant(materialised, unchanged),
}
