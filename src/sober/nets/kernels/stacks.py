"""Runs of 4 x 4, stride-2 (transposed) convolutions with their ReLUs, made of kernels, and one backward pass for each.

A layer's backward pass returns a gradient that the ReLU before it has already masked, which is right only inside of a
run, so that the run is the unit. First derivatives are kernels (`_pull`), the gradient of pictures only where somebody
asks for it. Higher ones are those of the plain layers' gradients: right, and slow. `vmap` gives the model axis; the
number of models chooses the launch settings (`launch.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero, custom_vjp_primal_tree_values
from jaxtyping import Array, Float

from sober.nets.kernels.plain import plain
from sober.nets.kernels.plan import Layers, Plan

Kept = tuple[Float[Array, "tiles flat"], ...]  # the input, then what each ReLU makes
Gradients = tuple[tuple[Array, Array], ...]


def down(x: Float[Array, "B H W C"], layers: Layers, *, interpret: bool = False) -> Float[Array, "B h w c"]:
    """Convolutions of pictures, a ReLU after each. Weights and biases are those of `layers.Conv`."""
    return _run(Plan.of("down", x, layers, interpret), x, tuple(map(tuple, layers)))[0]


def up(x: Float[Array, "B h w c"], layers: Layers, *, interpret: bool = False) -> Float[Array, "B H W C"]:
    """Transposed convolutions to logits of pictures, a ReLU before each. Weights and biases are those of
    `layers.Deconv`."""
    return _run(Plan.of("up", x, layers, interpret), x, tuple(map(tuple, layers)))[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _run(plan: Plan, x: Array, layers: Layers) -> tuple[Array, Kept]:
    """The result, and what the backward pass needs. Nobody else reads that: no gradient ever comes back through it."""
    from sober.nets.kernels import passes  # noqa: PLC0415 — Pallas, only where a kernel is asked for

    h, w = plan.picture[:2]
    if plan.kind == "down":
        start = plan.tiled(x)
        made = over_models(functools.partial(passes.down, plan))(start, layers)
        return plan.untiled(made[-1], h >> len(layers), w >> len(layers)), (start, *made)
    start = plan.tiled(jnp.maximum(x, 0))
    *made, logits = over_models(functools.partial(passes.up, plan))(start, layers)
    return plan.untiled(logits, h, w), (start, *made)


class _Saved(eqx.Module):
    x: Array
    layers: Layers
    kept: Kept
    wanted: bool = eqx.field(static=True)  # whether somebody asks for the gradient of x


def _run_forward(plan: Plan, x: Any, layers: Any) -> tuple[tuple[Array, Kept], _Saved]:
    wanted, x, layers = x.perturbed, x.value, custom_vjp_primal_tree_values(layers)
    y, kept = _run(plan, x, layers)
    return (y, kept), _Saved(x, layers, kept, wanted)


def _run_backward(plan: Plan, saved: _Saved, cotangents: tuple[Any, Any]) -> tuple[Array | None, Gradients | None]:
    slope, _ = cotangents
    if isinstance(slope, SymbolicZero):
        return None, None
    return _pull(plan, saved.wanted, saved.x, saved.layers, saved.kept, slope)


_run.defvjp(_run_forward, _run_backward, symbolic_zeros=True)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _pull(plan: Plan, wanted: bool, x: Array, layers: Layers, kept: Kept, slope: Array) -> Any:
    """The gradients of x (None where it is not wanted) and of all weights and biases."""
    from sober.nets.kernels import passes  # noqa: PLC0415 — Pallas, only where a kernel is asked for

    tiles = functools.partial({"down": passes.down_back, "up": passes.up_back}[plan.kind], plan, wanted)
    back, gradients = over_models(tiles)(layers, kept, plan.tiled(slope))
    gradients = jax.tree.map(lambda g, leaf: g.sum(0).astype(leaf.dtype), gradients, layers)
    return None if back is None else plan.untiled(back, *x.shape[1:3]), gradients


def _pull_forward(plan: Plan, wanted: bool, x: Array, layers: Layers, kept: Kept, slope: Array) -> Any:
    return _pull(plan, wanted, x, layers, kept, slope), (x, layers, slope)


def _pull_backward(plan: Plan, wanted: bool, saved: Any, cotangents: Any) -> tuple[Array, Layers, None, Array]:
    """That of the plain layers' gradients: functions of x, weights and slope alone, so nothing is left for `kept`."""

    def pull(x: Array, layers: Layers, slope: Array) -> Any:
        back, gradients = jax.vjp(functools.partial(plain, plan.kind), x, layers)[1](slope)
        return back if wanted else None, gradients

    x, layers, slope = jax.vjp(pull, *saved)[1](cotangents)
    return x, layers, None, slope


_pull.defvjp(_pull_forward, _pull_backward)


def over_models(f: Callable[..., Any], models: int = 1) -> Callable[..., Any]:
    """f(models, *arguments) of one model, which is told how many there are: the product of the sizes of all `vmap`s."""
    call = custom_vmap(functools.partial(f, models))

    @call.def_vmap
    def rule(size: int, batched: Sequence[Any], *arguments: Any) -> tuple[Any, Any]:
        axes = jax.tree.map(lambda has: 0 if has else None, tuple(batched))

        def mapped(models: int, *arguments: Any) -> Any:
            return jax.vmap(functools.partial(f, models), in_axes=axes)(*arguments)

        out = over_models(mapped, models * size)(*arguments)
        return out, jax.tree.map(lambda _: True, out)

    return call
