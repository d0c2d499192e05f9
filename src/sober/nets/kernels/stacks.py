"""Runs of 4 x 4, stride-2 (transposed) convolutions with their ReLUs, computed by kernels forward and back.

A layer's backward pass returns a gradient that is already masked by the ReLU before it. That is right only inside a
run, so the whole run has one backward pass. First derivatives are computed by kernels (`_pull`); the gradient of the
pictures only if it is needed. Higher derivatives come from the plain layers' gradients: right, and slow. `vmap`
gives the model axis; the number of models chooses the launch settings (`launch.py`).
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

from sober.nets.kernels.layout import KernelLayout, Layers
from sober.nets.kernels.plain import plain

Activations = tuple[Float[Array, "tiles flat"], ...]  # the input, then the output of each ReLU
Gradients = tuple[tuple[Array, Array], ...]


def down(x: Float[Array, "B H W C"], layers: Layers, *, interpret: bool = False) -> Float[Array, "B h w c"]:
    """Convolutions of pictures, a ReLU after each. Weights and biases lie as in `layers.Conv`."""
    return _run(KernelLayout.of("down", x, layers, interpret), x, tuple(map(tuple, layers)))[0]


def up(x: Float[Array, "B h w c"], layers: Layers, *, interpret: bool = False) -> Float[Array, "B H W C"]:
    """Transposed convolutions to logits of pictures, a ReLU before each. Weights and biases lie as in
    `layers.Deconv`."""
    return _run(KernelLayout.of("up", x, layers, interpret), x, tuple(map(tuple, layers)))[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _run(layout: KernelLayout, x: Array, layers: Layers) -> tuple[Array, Activations]:
    """The result, and the arrays for the backward pass. Nothing else reads these, so they get no gradient."""
    from sober.nets.kernels import passes  # noqa: PLC0415 — Pallas, only where a kernel is asked for

    h, w = layout.picture[:2]
    if layout.kind == "down":
        start = layout.tiled(x)
        outputs = over_models(functools.partial(passes.down, layout))(start, layers)
        return layout.untiled(outputs[-1], h >> len(layers), w >> len(layers)), (start, *outputs)
    start = layout.tiled(jnp.maximum(x, 0))
    *outputs, logits = over_models(functools.partial(passes.up, layout))(start, layers)
    return layout.untiled(logits, h, w), (start, *outputs)


class _Saved(eqx.Module):
    x: Array
    layers: Layers
    activations: Activations
    wanted: bool = eqx.field(static=True)  # whether the gradient of x is needed


def _run_forward(layout: KernelLayout, x: Any, layers: Any) -> tuple[tuple[Array, Activations], _Saved]:
    wanted, x, layers = x.perturbed, x.value, custom_vjp_primal_tree_values(layers)
    y, activations = _run(layout, x, layers)
    return (y, activations), _Saved(x, layers, activations, wanted)


def _run_backward(
    layout: KernelLayout, saved: _Saved, cotangents: tuple[Any, Any]
) -> tuple[Array | None, Gradients | None]:
    slope, _ = cotangents
    if isinstance(slope, SymbolicZero):
        return None, None
    return _pull(layout, saved.wanted, saved.x, saved.layers, saved.activations, slope)


_run.defvjp(_run_forward, _run_backward, symbolic_zeros=True)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _pull(layout: KernelLayout, wanted: bool, x: Array, layers: Layers, activations: Activations, slope: Array) -> Any:
    """The gradients of x (None if not wanted) and of all weights and biases."""
    from sober.nets.kernels import passes  # noqa: PLC0415 — Pallas, only where a kernel is asked for

    tiles = functools.partial({"down": passes.down_back, "up": passes.up_back}[layout.kind], layout, wanted)
    back, gradients = over_models(tiles)(layers, activations, layout.tiled(slope))
    gradients = jax.tree.map(lambda g, leaf: g.sum(0).astype(leaf.dtype), gradients, layers)
    return None if back is None else layout.untiled(back, *x.shape[1:3]), gradients


def _pull_forward(
    layout: KernelLayout, wanted: bool, x: Array, layers: Layers, activations: Activations, slope: Array
) -> Any:
    return _pull(layout, wanted, x, layers, activations, slope), (x, layers, slope)


def _pull_backward(
    layout: KernelLayout, wanted: bool, saved: Any, cotangents: Any
) -> tuple[Array, Layers, None, Array]:
    """The derivative of the plain layers' gradients: these depend on x, weights and slope, not on `activations`."""

    def pull(x: Array, layers: Layers, slope: Array) -> Any:
        back, gradients = jax.vjp(functools.partial(plain, layout.kind), x, layers)[1](slope)
        return back if wanted else None, gradients

    x, layers, slope = jax.vjp(pull, *saved)[1](cotangents)
    return x, layers, None, slope


_pull.defvjp(_pull_forward, _pull_backward)


def over_models(f: Callable[..., Any], models: int = 1) -> Callable[..., Any]:
    """f(models, *arguments) for one model, where `models` is the product of the sizes of all `vmap`s around it."""
    call = custom_vmap(functools.partial(f, models))

    @call.def_vmap
    def rule(size: int, batched: Sequence[Any], *arguments: Any) -> tuple[Any, Any]:
        axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, tuple(batched))

        def mapped(models: int, *arguments: Any) -> Any:
            return jax.vmap(functools.partial(f, models), in_axes=axes)(*arguments)

        out = over_models(mapped, models * size)(*arguments)
        return out, jax.tree.map(lambda _: True, out)

    return call
