"""The placement of models on the devices of a machine: an equal number on each; devices exchange nothing.

M models on n devices are ceil(M / n) on each, so every device runs the program of that many models on a machine with
one device. If the last device would have fewer, copies of the last model fill it up; `fetched` drops them. With one
device nothing here changes anything.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from sober.device import local_devices

MODELS: Any = PartitionSpec("models")  # an array with one entry per model along its first axis
SHARED: Any = PartitionSpec()  # an array that all models read: each device has all of it
DEVICE_SETS = 8  # meshes that are kept in memory


class ModelPlacement:
    """Places a number of models: the fewest possible on each device, on as few devices as that takes.

    `MODELS`, `SHARED`, or a tree of these that is a prefix of a tree of arrays, says where the arrays go.
    """

    def __init__(self, models: int) -> None:
        devices = local_devices()
        self.models = models
        self.models_per_device = -(-models // len(devices))  # copies included
        self.devices = devices[: -(-models // self.models_per_device)]
        self._replicated: tuple[Any, Any] = None, None  # data, and its copies on all devices

    def place(self, tree: Any, where: Any = MODELS) -> Any:
        """The arrays on the devices; arrays of models are padded with copies of the last model."""
        if len(self.devices) == 1:
            return jax.device_put(tree)
        specs = jax.tree.broadcast(where, tree)
        padded = jax.tree.map(lambda spec, leaf: self._padded(leaf) if spec == MODELS else leaf, specs, tree)
        return jax.device_put(padded, jax.tree.map(lambda spec: NamedSharding(_mesh(self.devices), spec), specs))

    def replicated(self, data: Any) -> Any:
        """Data on one device, copied to all devices. The copies of the last data asked for are kept."""
        if len(self.devices) == 1:
            return data
        last, copies = self._replicated
        if last is None or not _same_arrays(last, data):
            copies = self.place(data, SHARED)
            self._replicated = data, copies
        return copies

    def fetched(self, tree: Any, where: Any = MODELS) -> Any:
        """The arrays on the host, without the copies of the last model."""
        specs = jax.tree.broadcast(where, tree)
        arrays = jax.device_get(tree)
        return jax.tree.map(lambda spec, leaf: leaf[: self.models] if spec == MODELS else leaf, specs, arrays)

    def _padded(self, leaf: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        copies = self.models_per_device * len(self.devices) - self.models
        return np.concatenate([leaf, np.repeat(leaf[-1:], copies, axis=0)]) if copies else leaf


def on_each_device(f: Callable[..., Any], takes: tuple[Any, ...], gives: Any = MODELS) -> Callable[..., Any]:
    """`f`, to be compiled so that each device computes its own models. With one device it is `f` itself.

    `takes` says where the arguments are, `gives` where the results go. Arguments come from `ModelPlacement.place`.
    """

    @functools.wraps(f)
    def on_devices(*arguments: Any) -> Any:
        specs = jax.tree.leaves(jax.tree.broadcast(takes, arguments))
        models = next(len(leaf) for spec, leaf in zip(specs, jax.tree.leaves(arguments), strict=True) if spec == MODELS)
        devices = ModelPlacement(models).devices
        if len(devices) == 1:
            return f(*arguments)
        # Unchecked: a custom kernel cannot say which of its results are the same on all devices.
        sharded = jax.shard_map(f, mesh=_mesh(devices), in_specs=takes, out_specs=gives, check_vma=False)
        return sharded(*arguments)

    return on_devices


def _same_arrays(first: Any, second: Any) -> bool:
    leaves, others = jax.tree.leaves(first), jax.tree.leaves(second)
    return len(leaves) == len(others) and all(a is b for a, b in zip(leaves, others, strict=True))


@functools.lru_cache(maxsize=DEVICE_SETS)
def _mesh(devices: tuple[Any, ...]) -> Mesh:
    return Mesh(np.array(devices), ("models",), axis_types=(AxisType.Auto,))
