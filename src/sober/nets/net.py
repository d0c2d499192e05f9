"""A net: a list of layers, which gives both its computation and its description outside JAX.

A layer is a value with `__call__(x)` and `describe(build, name, x)`. A layer that uses statistics of the batch in
training, as batch norm does, is `Watching`: its pass over a batch also returns these statistics, and `after_batch`
takes them in. A net is a layer too, so a net can be part of another.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
from jax.tree_util import DictKey
from jaxtyping import Array, Float

from sober.errors import counted
from sober.nets.graph import Affine, Build, Layer
from sober.nets.kernel_runs import PLAIN, KernelKinds, KernelRun, split_runs
from sober.short_text import as_table

Self = TypeVar("Self")
BatchStatistics = (
    Any  # statistics of a batch: a tree with an entry per layer, which is None if the layer is not `Watching`
)


@runtime_checkable
class Watching(Protocol):
    """A layer that uses statistics of the batch in training, and running statistics afterwards."""

    def on_batch(self, x: Float[Array, "b *p c"]) -> tuple[Float[Array, "b *p c"], BatchStatistics]: ...

    def after_batch(self: Self, statistics: BatchStatistics) -> Self: ...


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False)
class Net:
    """Layers, one after another. In a model's file, arrays go by their layer's name; other layers need no name."""

    names: tuple[str, ...]
    layers: tuple[Any, ...]

    def __repr__(self) -> str:
        sizes = [sum(leaf.size for leaf in jax.tree.leaves(layer) if hasattr(leaf, "size")) for layer in self.layers]
        rows = [
            {"layer": type(layer).__name__, "name": name, "numbers": size}
            for layer, name, size in zip(self.layers, self.names, sizes, strict=True)
        ]
        return as_table(f"Net of {counted(len(self.layers), 'layer')} and {counted(sum(sizes), 'number')}", rows)

    def __call__(self, x: Float[Array, "b *p c"], kernels: KernelKinds = PLAIN) -> Float[Array, "b *q d"]:
        for layer in split_runs(self.layers, kernels):
            x = layer(x)
        return x

    def on_batch(
        self, x: Float[Array, "b *p c"], kernels: KernelKinds = PLAIN
    ) -> tuple[Float[Array, "b *q d"], BatchStatistics]:
        """The output in training, and the statistics of the batch."""
        net_statistics: list[BatchStatistics] = []
        for layer in split_runs(self.layers, kernels):
            x, statistics = layer.on_batch(x) if isinstance(layer, Watching) else (layer(x), None)
            net_statistics += [None] * layer.layers if isinstance(layer, KernelRun) else [statistics]
        return x, tuple(net_statistics)

    def after_batch(self, statistics: BatchStatistics) -> Net:
        """The net with running statistics moved towards the statistics of a batch."""
        pairs = zip(self.layers, statistics, strict=True)
        return Net(
            self.names,
            tuple(
                layer if layer_statistics is None else layer.after_batch(layer_statistics)
                for layer, layer_statistics in pairs
            ),
        )

    def layer(self, name: str) -> Any:
        return self.layers[self.names.index(name)]

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        for layer_name, layer in zip(self.names, self.layers, strict=True):
            x = build.part(joined(name, layer_name), x, layer)
        return x

    def all_but_last(self) -> tuple[Net, Affine]:
        """The layers before the last one, and the weights of the last one."""
        return Net(self.names[:-1], self.layers[:-1]), self.layers[-1].affine()

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], Any]:
        return [(DictKey(name), layer) for name, layer in zip(self.names, self.layers, strict=True)], self.names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], layers: Any) -> Net:
        return cls(names, tuple(layers))


def net(*parts: Any) -> Net:
    """A net of layers. A layer with arrays comes with its name, as in `net(("hidden", Linear(key, 10, 256)), RELU)`."""
    pairs = [layer if isinstance(layer, tuple) else ("", layer) for layer in parts]
    return Net(tuple(name for name, _ in pairs), tuple(layer for _, layer in pairs))


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False)
class Residual:
    """main(x) + around(x)."""

    main: Net
    around: Net

    def __call__(self, x: Float[Array, "b *p c"]) -> Float[Array, "b *q d"]:
        return self.main(x) + self.around(x)

    def on_batch(self, x: Float[Array, "b *p c"]) -> tuple[Float[Array, "b *q d"], BatchStatistics]:
        (y, by_main), (x, by_around) = self.main.on_batch(x), self.around.on_batch(x)
        return y + x, (by_main, by_around)

    def after_batch(self, statistics: BatchStatistics) -> Residual:
        return Residual(self.main.after_batch(statistics[0]), self.around.after_batch(statistics[1]))

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        return build.add("add", self.main.describe(build, name, x), self.around.describe(build, name, x))

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], None]:
        return [(DictKey(""), self.main), (DictKey(""), self.around)], None

    @classmethod
    def tree_unflatten(cls, _: None, nets: Any) -> Residual:
        return cls(*nets)


def joined(*names: str) -> str:
    """The name of a layer inside a net: their names joined by a dot, without empty ones."""
    return ".".join(filter(None, names))
