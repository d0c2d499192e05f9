"""Requirements of kernels on a run of layers and on the machine: the first unmet one in a sentence, or None."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from sober.errors import brief
from sober.nets.kernels.layout import Kind, power_of_two

CAPABILITY = "9.0"  # of a Hopper GPU
WIDTHS = (16, 32, 64)
CHANNELS = (1, 2, 3, 4)


def unmet_requirement(kind: Kind, shape: tuple[int, int, int], channels: Sequence[int], dtype: Any) -> str | None:
    """The first requirement that a run of layers between pictures of this shape and grids does not meet.

    `channels` are counts, grid by grid in the order of the layers: after each layer of `down`, before each of `up`.
    """
    h, w, c = shape
    beside = channels[0 if kind == "down" else -1]  # the grid that the layer at the pictures joins to them
    if jnp.dtype(dtype) != jnp.bfloat16:
        return f"kernels compute in bfloat16, not in {jnp.dtype(dtype).name}"
    if len(channels) < 2:
        return "kernels are for runs of two layers or more"
    least = 2 ** len(channels)
    if any(side != power_of_two(side) or side < least for side in (h, w)):
        return f"kernels need picture sides that are powers of two and {least} at least, not {h} x {w}"
    if any(width not in WIDTHS for width in channels):
        return f"kernels are for grids of 16, 32 or 64 channels, not of {', '.join(map(str, channels))}"
    if c not in CHANNELS or 4 * c >= beside:
        return f"kernels do not join pictures of {c} channels to a grid of {beside}"
    return None


def unmet_here() -> str | None:
    """The first requirement that the device or the JAX of this machine does not meet."""
    if jax.default_backend() != "gpu":
        return f"kernels are for a GPU, and JAX computes on the {jax.default_backend()} here"
    capability = str(getattr(jax.local_devices()[0], "compute_capability", "unknown"))
    if capability != CAPABILITY:
        return f"kernels were made for GPUs of compute capability {CAPABILITY}; that of this one is {capability}"
    try:
        importlib.import_module("sober.nets.kernels.passes")
    except (ImportError, AttributeError) as error:
        return f"this version of JAX lacks what kernels are written with ({brief(error)})"
    return None
