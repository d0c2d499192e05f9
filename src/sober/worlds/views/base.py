"""The base class of views: some pictures of another world, in an order of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from sober.errors import RequestError, choices
from sober.types import Factor, append_view
from sober.worlds.world import Grid, Labels, World


class View(World):
    """Some pictures of another world, in an order of their own: `indices` holds their indices there, None for all."""

    def __init__(self, base: World, text: str, indices: Int[np.ndarray, " n"] | None = None) -> None:
        self.base, self.text = base, text
        self.name, self.summary, self.reference = base.name, base.summary, base.reference
        self.factors, self.image_shape = base.factors, base.image_shape
        self.stochastic, self.origin, self.flags, self.regions = base.stochastic, base.origin, base.flags, base.regions
        self.uniform, self.question_values = base.uniform, base.question_values
        self.drawn_once = base.drawn_once
        if indices is not None and not base.uniform:
            raise RequestError(
                f"{self.spec}: the pictures of {base.spec} are not equally likely: choose some, then joint"
            )
        self.indices = None if indices is None else np.asarray(indices, np.int32)
        self.size = base.size if indices is None else len(indices)
        if not self.size:
            raise RequestError(f"{self.spec}: no picture is left")

    @property
    def resident(self) -> bool:  # type: ignore[override]
        return self.base.resident  # not set in __init__: the answer may need files, and a plan has none

    @property
    def label(self) -> str:
        return append_view(self.base.label, self.text)

    @property
    def spec(self) -> str:
        return append_view(self.base.spec, self.text)

    def absent(self) -> str | None:
        return self.base.absent()

    def make_data(self) -> Any:
        return None if self.indices is None else self.indices, self.base.data

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        indices, base_data = data
        return self.base.pixels(base_data, index if indices is None else indices[index], key)

    def gather(self, index: Int[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
        if self.resident:
            return self.data, index
        base_data, places = self.base.gather(self._base_index(index))
        return (None, base_data), places

    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        return self.base.labels(self._base_index(self.checked(index)))

    @property
    def axes(self) -> tuple[Factor, ...]:
        return self.base.axes

    def axis_values(self, index: Int[np.ndarray, " N"]) -> Labels | None:
        return self.base.axis_values(self._base_index(self.checked(index)))

    def pictures_of(self, values: Labels) -> UInt8[np.ndarray, "N H W C"]:
        return self.base.pictures_of(values)

    def vary(self, index: int, factor: int, count: int) -> UInt8[np.ndarray, "n H W C"] | None:
        return self.base.vary(int(self._base_index(np.array([index]))[0]), factor, count)

    def _base_index(self, index: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        return index if self.indices is None else self.indices[index]


def axis_of(base: Grid, name: str) -> int:
    """The axis of a grid that is the factor of this name."""
    return base.axes.index(base.factors[column_of(base, name)])


def column_of(base: World, name: str) -> int:
    """The position of the factor of this name among a world's factors."""
    names = [factor.name for factor in base.factors]
    if name not in names:
        raise RequestError(f"{base.spec} has no factor {name!r}: {choices(name, names)}")
    return names.index(name)
