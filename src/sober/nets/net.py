"""A net: a list of layers. What it computes, and what leaves JAX of it, are both read off that list.

A layer is a value with `__call__(x)` and `describe(build, name, x)`. Those that look at the whole batch in training, as
batch norm does, are `Watching`: their pass over a batch also returns what they saw, and `having_seen` takes it in. A
net is a layer too, so nets can be parts of others.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
from jax.tree_util import DictKey
from jaxtyping import Array, Float

from sober.nets.graph import Affine, Build, Layer
from sober.nets.stretches import PLAIN, Kernels, Stretch, parts

Self = TypeVar("Self")
Seen = Any  # what watching layers saw of a batch: a tree with an entry for each part; None for a part that saw nothing


@runtime_checkable
class Watching(Protocol):
    """A layer that goes by the batch in training, and by what it has seen of batches afterwards."""

    def on_batch(self, x: Float[Array, "b *p c"]) -> tuple[Float[Array, "b *p c"], Seen]: ...

    def having_seen(self: Self, seen: Seen) -> Self: ...


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False)
class Net:
    """Layers, one after another. Arrays go by the layer's name in a model's file; layers without any need none."""

    names: tuple[str, ...]
    layers: tuple[Any, ...]

    def __call__(self, x: Float[Array, "b *p c"], kernels: Kernels = PLAIN) -> Float[Array, "b *q d"]:
        for part in parts(self.layers, kernels):
            x = part(x)
        return x

    def on_batch(self, x: Float[Array, "b *p c"], kernels: Kernels = PLAIN) -> tuple[Float[Array, "b *q d"], Seen]:
        """What it computes in training, and what its layers saw of the batch."""
        seen: list[Seen] = []
        for part in parts(self.layers, kernels):
            x, by_part = part.on_batch(x) if isinstance(part, Watching) else (part(x), None)
            seen += [None] * part.layers if isinstance(part, Stretch) else [by_part]
        return x, tuple(seen)

    def having_seen(self, seen: Seen) -> Net:
        """The net whose layers have taken in what they saw."""
        pairs = zip(self.layers, seen, strict=True)
        return Net(self.names, tuple(layer if saw is None else layer.having_seen(saw) for layer, saw in pairs))

    def layer(self, name: str) -> Any:
        return self.layers[self.names.index(name)]

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        for own, layer in zip(self.names, self.layers, strict=True):
            x = build.part(joined(name, own), x, layer)
        return x

    def all_but_last(self) -> tuple[Net, Affine]:
        """The layers before the last one, and the last one as it stands."""
        return Net(self.names[:-1], self.layers[:-1]), self.layers[-1].affine()

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], Any]:
        return [(DictKey(name), layer) for name, layer in zip(self.names, self.layers, strict=True)], self.names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], layers: Any) -> Net:
        return cls(names, tuple(layers))


def net(*parts: Any) -> Net:
    """A net of layers; one that has arrays comes with its name, as in `net(("hidden", Linear(key, 10, 256)), RELU)`."""
    pairs = [part if isinstance(part, tuple) else ("", part) for part in parts]
    return Net(tuple(name for name, _ in pairs), tuple(layer for _, layer in pairs))


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False)
class Residual:
    """main(x) + around(x)."""

    main: Net
    around: Net

    def __call__(self, x: Float[Array, "b *p c"]) -> Float[Array, "b *q d"]:
        return self.main(x) + self.around(x)

    def on_batch(self, x: Float[Array, "b *p c"]) -> tuple[Float[Array, "b *q d"], Seen]:
        (y, by_main), (x, by_around) = self.main.on_batch(x), self.around.on_batch(x)
        return y + x, (by_main, by_around)

    def having_seen(self, seen: Seen) -> Residual:
        return Residual(self.main.having_seen(seen[0]), self.around.having_seen(seen[1]))

    def describe(self, build: Build, name: str, x: Layer) -> Layer:
        return build.add("add", self.main.describe(build, name, x), self.around.describe(build, name, x))

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], None]:
        return [(DictKey(""), self.main), (DictKey(""), self.around)], None

    @classmethod
    def tree_unflatten(cls, _: None, nets: Any) -> Residual:
        return cls(*nets)


def joined(*names: str) -> str:
    """The name of a part inside another; what has no name of its own goes by that of the other."""
    return ".".join(filter(None, names))
