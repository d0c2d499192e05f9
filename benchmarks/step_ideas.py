"""Ideas that would make a step faster, to be measured before any of them is built.

Each is a context in which a family's program is traced. Results have other bits than those of the shipped program, and
the optimiser's memory has another shape.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import optax

from sober.training import cohort


@contextlib.contextmanager
def one_sum() -> Iterator[None]:
    """The norm of a gradient as one sum over all its numbers, where the shipped one has a sum for each array."""

    def norm(tree: Any) -> jax.Array:
        return jnp.linalg.norm(jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)]))

    with mock.patch.object(optax.tree, "norm", norm):
        yield


@contextlib.contextmanager
def no_norm() -> Iterator[None]:
    """No norm of the gradient: how much there is to win by a faster one. It is only logged."""
    with mock.patch.object(optax.tree, "norm", return_value=jnp.zeros(())):
        yield


@contextlib.contextmanager
def flat_adam() -> Iterator[None]:
    """One Adam over all parameters in a row."""
    optimiser = cohort.optimiser
    with mock.patch.object(cohort, "optimiser", lambda **options: optax.flatten(optimiser(**options))):
        yield


@contextlib.contextmanager
def flat_adam_and_one_sum() -> Iterator[None]:
    with one_sum(), flat_adam():
        yield


IDEAS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "as shipped": contextlib.nullcontext,
    "the norm in one sum": one_sum,
    "no norm": no_norm,
    "one Adam over all parameters": flat_adam,
    "one Adam, the norm in one sum": flat_adam_and_one_sum,
}
