"""What every view is: some pictures of another world, in an order of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from sober.errors import RequestError, listed
from sober.worlds.world import Grid, Labels, World


class View(World):
    """Some pictures of another world, in an order of their own: `which` holds their indices there; None is all."""

    def __init__(self, base: World, text: str, which: Int[np.ndarray, " n"] | None = None) -> None:
        self.base, self.text = base, text
        self.name, self.summary, self.reference = base.name, base.summary, base.reference
        self.factors, self.image_shape = base.factors, base.image_shape
        self.stochastic, self.origin, self.flags, self.regions = base.stochastic, base.origin, base.flags, base.regions
        self.uniform, self.question_values = base.uniform, base.question_values
        if which is not None and not base.uniform:
            raise RequestError(
                f"{self.spec}: the pictures of {base.spec} are not equally likely: choose some, then joint"
            )
        self.which = None if which is None else np.asarray(which, np.int32)
        self.size = base.size if which is None else len(which)
        if not self.size:
            raise RequestError(f"{self.spec}: no picture is left")

    @property
    def resident(self) -> bool:  # type: ignore[override]
        return self.base.resident  # asked for late: the answer may need the files, which a plan goes without

    @property
    def label(self) -> str:
        return f"{self.base.label} | {self.text}"

    @property
    def spec(self) -> str:
        return f"{self.base.spec} | {self.text}"

    def absent(self) -> str | None:
        return self.base.absent()

    def make_data(self) -> Any:
        return None if self.which is None else self.which, self.base.data

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        which, of_base = data
        return self.base.pixels(of_base, index if which is None else which[index], key)

    def gather(self, index: Int[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
        if self.resident:
            return self.data, index
        of_base, places = self.base.gather(self._there(index))
        return (None, of_base), places

    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        return self.base.labels(self._there(self.checked(index)))

    def vary(self, index: int, factor: int, count: int) -> UInt8[np.ndarray, "n H W C"] | None:
        return self.base.vary(int(self._there(np.array([index]))[0]), factor, count)

    def _there(self, index: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        return index if self.which is None else self.which[index]


def axis_of(base: Grid, name: str) -> int:
    """Which of the axes of a grid the factor of this name is."""
    return base.axes.index(base.factors[column_of(base, name)])


def column_of(base: World, name: str) -> int:
    """Which of a world's factors has this name."""
    names = [factor.name for factor in base.factors]
    if name not in names:
        raise RequestError(f"{base.spec} has no factor {name!r}: choose from {listed(names)}")
    return names.index(name)
