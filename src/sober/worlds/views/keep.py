"""keep: the smaller grid in which only some factors vary and the others stay at a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int, Key

from sober.errors import RequestError, listed
from sober.types import Factor
from sober.worlds.views.base import View, column_of
from sober.worlds.world import Grid, World


class Keep(Grid):
    """The grid of the factors `names`; the others stay at the class that `at` has for them, by default the first."""

    def __init__(self, base: World, names: Sequence[str], at: Mapping[str, int]) -> None:
        if not isinstance(base, Grid) or not names:
            raise RequestError(f"{base.spec}: keep needs the names of factors, of a full grid")
        self.columns = [column_of(base, name) for name in names]
        classes = np.zeros(len(base.factors), np.int32)
        for name, value in at.items():
            classes[column_of(base, name)] = value
        self.base, self.text = base, " ".join(["keep", *names, *(f"{name}={value}" for name, value in at.items())])
        self.name, self.summary, self.reference = base.name, base.summary, base.reference
        self.factors: tuple[Factor, ...] = tuple(base.factors[column] for column in self.columns)
        self.image_shape, self.stochastic, self.resident = base.image_shape, base.stochastic, base.resident
        self.origin, self.flags = base.origin, base.flags
        rows = np.tile(classes, (self.size, 1))
        rows[:, self.columns] = self.classes(np.arange(self.size))
        self.view = View(base, self.text, base.index_of(rows))

    @staticmethod
    def read(base: World, text: str) -> Keep:
        """`FACTOR … FACTOR=CLASS …`"""
        words = text.split()
        fixed = dict(word.split("=", 1) for word in words if "=" in word)
        at = {name: _class(base.factors[column_of(base, name)], value) for name, value in fixed.items()}
        return Keep(base, [word for word in words if "=" not in word], at)

    @property
    def label(self) -> str:
        return self.view.label

    @property
    def spec(self) -> str:
        return self.view.spec

    def absent(self) -> str | None:
        return self.view.absent()

    def make_data(self) -> Any:
        return self.view.make_data()

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W C"]:
        return self.view.pixels(data, index, key)

    def gather(self, index: Int[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
        return self.view.gather(index)


def _class(factor: Factor, text: str) -> int:
    """A class by its number or by its name."""
    if text in map(str, factor.values) and factor.kind == "categorical":
        return [str(value) for value in factor.values].index(text)
    if not text.isdigit() or int(text) >= factor.size:
        known = f" or one of {listed(map(str, factor.values))}" if factor.kind == "categorical" else ""
        raise RequestError(f"factor {factor.name} has classes 0 to {factor.size - 1}{known}, got {text!r}")
    return int(text)
