"""Models spread over the devices of a machine: some on each, which exchange nothing.

M models on n devices are ceil(M / n) on each, so a device runs the program that so few models would have on a machine
with one device. Where the last device would have fewer, it has copies of the last model, which nobody gets to see. With
one device everything here does nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from sober.device import local_devices

MODELS: Any = PartitionSpec("models")  # an array with one entry for each model along its first axis
SHARED: Any = PartitionSpec()  # an array that all models read, whole on each device


class Spread:
    """So many models, over as few of the devices as have them all with the fewest on each.

    Where a tree of arrays goes is said by `MODELS`, by `SHARED`, or by a tree of these that begins like it.
    """

    def __init__(self, models: int) -> None:
        devices = local_devices()
        self.models = models
        self.each = -(-models // len(devices))  # on a device, copies included
        self.devices = devices[: -(-models // self.each)]
        self._copied: tuple[Any, Any] = None, None

    def place(self, tree: Any, where: Any = MODELS) -> Any:
        """The arrays on the devices, those of models with copies of the last one at the end."""
        if len(self.devices) == 1:
            return jax.device_put(tree)
        specs = jax.tree.broadcast(where, tree)
        whole = jax.tree.map(lambda spec, leaf: self._filled_up(leaf) if spec == MODELS else leaf, specs, tree)
        return jax.device_put(whole, jax.tree.map(lambda spec: NamedSharding(_mesh(self.devices), spec), specs))

    def copied(self, data: Any) -> Any:
        """Data that is on a device, on all of them: copied once, however often the same is asked for."""
        if len(self.devices) == 1:
            return data
        known, copies = self._copied
        if known is None or not _same_arrays(known, data):
            copies = self.place(data, SHARED)
            self._copied = data, copies
        return copies

    def trimmed(self, tree: Any, where: Any = MODELS) -> Any:
        """The arrays on the host, of the real models alone."""
        specs = jax.tree.broadcast(where, tree)
        whole = jax.device_get(tree)
        return jax.tree.map(lambda spec, leaf: leaf[: self.models] if spec == MODELS else leaf, specs, whole)

    def _filled_up(self, leaf: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        copies = self.each * len(self.devices) - self.models
        return np.concatenate([leaf, np.repeat(leaf[-1:], copies, axis=0)]) if copies else leaf


def mapped(f: Callable[..., Any], takes: tuple[Any, ...], gives: Any = MODELS) -> Callable[..., Any]:
    """`f`, to be compiled, of which each device computes its own models' part: `takes` says what its arguments are.

    Called with what `Spread.place` has placed. With one device it is `f` itself.
    """

    @functools.wraps(f)
    def on_devices(*arguments: Any) -> Any:
        specs = jax.tree.leaves(jax.tree.broadcast(takes, arguments))
        models = next(len(leaf) for spec, leaf in zip(specs, jax.tree.leaves(arguments), strict=True) if spec == MODELS)
        devices = Spread(models).devices
        if len(devices) == 1:
            return f(*arguments)
        # Unchecked: a kernel of one's own cannot say what of its results is the same on all devices.
        parts = jax.shard_map(f, mesh=_mesh(devices), in_specs=takes, out_specs=gives, check_vma=False)
        return parts(*arguments)

    return on_devices


def _same_arrays(one: Any, other: Any) -> bool:
    ours, theirs = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs, strict=True))


@functools.cache
def _mesh(devices: tuple[Any, ...]) -> Mesh:
    return Mesh(np.array(devices), ("models",), axis_types=(AxisType.Auto,))
