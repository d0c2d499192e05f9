"""What layers do for a compiler's sake: fences, and the two ways in which the same copy or sum can be written.

A GPU's compiler fuses pads, slices and concatenations with what is around them. A CPU's compiler asks of every single
number where it comes from and whether it is padding, unless the copy stands by itself. So some operations have a form
for each, with the same results. `FORMS` lists them; `benchmarks/forms.py` measures each against the other form, in
turns within one run, and docs/speed.md has what it said.
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


def by_itself(f: Callable[[Array], Array], x: Array) -> Array:
    """f(x), which a CPU writes as it stands, fused with nothing before or after."""
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

    stacked = by_itself(lambda x: jnp.stack([rows(x, 0), rows(x, 1)], axis=3), x)
    return stacked.reshape(b, h // 2 + 1, w // 2 + 1, 4 * c)


# Spread: each block (b, h + 1, w + 1, 4c) receives the four pixels of (b, h, w, c) that touch it.
def spread_sliced(x: Array) -> Array:
    b, h, w, c = x.shape
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    copies = jnp.stack([x[:, 1:, 1:], x[:, 1:, :-1], x[:, :-1, 1:], x[:, :-1, :-1]], axis=3)
    return copies.reshape(b, h + 1, w + 1, 4 * c)


def spread_stacked(x: Array) -> Array:
    b, h, w, c = x.shape

    def four(x: Array) -> Array:
        """The pixels at the four corners, stacked two by two, which is faster than four at once."""
        rows = [[jnp.pad(x, ((0, 0), (i, 1 - i), (j, 1 - j), (0, 0))) for j in (0, 1)] for i in (0, 1)]
        return jnp.stack([jnp.stack(row, axis=3) for row in rows], axis=3)

    return by_itself(four, x).reshape(b, h + 1, w + 1, 4 * c)


# Sums of columns in float32. A CPU's reductions over rows are several times slower than a product with ones.
def sums_reduced(rows: Float[Array, "n o"]) -> Float[Array, " o"]:
    return jnp.sum(rows.astype(wide(rows)), axis=0)


def sums_multiplied(rows: Float[Array, "n o"]) -> Float[Array, " o"]:
    precision = None if rows.dtype == jnp.bfloat16 else jax.lax.Precision.HIGHEST
    return jnp.dot(jnp.ones(len(rows), rows.dtype), rows, precision=precision, preferred_element_type=wide(rows))


def wide(x: Array) -> jnp.dtype:
    """The type in which sums over a batch are taken."""
    return jnp.promote_types(x.dtype, jnp.float32)


# Activations, which a CPU computes once and not in each of the loops that read them.
def as_it_comes(x: Array) -> Array:
    return x


def written_out(x: Array) -> Array:
    return by_itself(as_it_comes, x)


class Form(NamedTuple):
    """The same operation written for a CPU and for a GPU."""

    cpu: Callable[[Array], Array]
    gpu: Callable[[Array], Array]

    def __call__(self, x: Array) -> Array:
        return (self.cpu if on_cpu() else self.gpu)(x)


FORMS: dict[str, Form] = {
    "blocks": Form(blocks_stacked, blocks_padded),
    "spread": Form(spread_stacked, spread_sliced),
    "sums": Form(sums_multiplied, sums_reduced),
    "written": Form(written_out, as_it_comes),
}
