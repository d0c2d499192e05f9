"""keep: a smaller grid in which some factors vary and the others are fixed at a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int, Key

from sober.errors import RequestError, listed
from sober.types import Factor
from sober.worlds.views.base import View, axis_of, column_of
from sober.worlds.world import Grid, World


class Keep(Grid):
    """The grid of the factors `names`; the others are fixed at their class in `fixed`, by default the first.

    Without `names`, all factors vary except the fixed ones. Hidden factors still vary unless they are fixed.
    """

    def __init__(self, base: World, names: Sequence[str], fixed: Mapping[str, int]) -> None:
        if not isinstance(base, Grid) or not (names or fixed):
            raise RequestError(f"{base.spec}: keep needs the names of factors, of a full grid")
        if twice := set(names) & fixed.keys():
            raise RequestError(f"{base.spec}: keep either lets {listed(sorted(twice))} vary or fixes it, not both")
        self.base, self.text = base, " ".join(["keep", *names, *(f"{name}={value}" for name, value in fixed.items())])
        self.name, self.summary, self.reference = base.name, base.summary, base.reference
        varying = names or [factor.name for factor in base.factors if factor.name not in fixed]
        self.factors: tuple[Factor, ...] = tuple(base.factors[column_of(base, name)] for name in varying)
        if not self.factors:
            raise RequestError(f"{base.spec}: keep fixes every factor, and no factor is left: leave one out")
        self.varying_hidden = tuple(axis for axis in base.hidden if axis.name not in fixed)
        self.image_shape, self.stochastic, self.origin = base.image_shape, base.stochastic, base.origin
        self.flags, self.regions, self.question_values = base.flags, base.regions, base.question_values
        self.drawn_once = base.drawn_once
        rows = np.zeros((self.size, len(base.axes)), np.int32)
        for name, value in fixed.items():
            rows[:, _fixable(base, name)] = value
        rows[:, [base.axes.index(axis) for axis in self.axes]] = self.classes(np.arange(self.size))
        self.view = View(base, self.text, base.index_of(rows))

    @staticmethod
    def read(base: World, text: str) -> Keep:
        """`FACTOR … FACTOR=CLASS …`"""
        words = text.split()
        fixed = dict(word.split("=", 1) for word in words if "=" in word)
        if not isinstance(base, Grid):
            return Keep(base, words, {})
        classes = {name: _class(base.axes[_fixable(base, name)], value) for name, value in fixed.items()}
        return Keep(base, [word for word in words if "=" not in word], classes)

    @property
    def axes(self) -> tuple[Factor, ...]:
        return (*self.varying_hidden, *self.factors)

    @property
    def resident(self) -> bool:  # type: ignore[override]
        return self.view.resident

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


def _fixable(base: Grid, name: str) -> int:
    """The axis of this name: a factor, or a hidden one, which can be fixed too."""
    hidden = [axis.name for axis in base.hidden]
    return base.axes.index(base.hidden[hidden.index(name)]) if name in hidden else axis_of(base, name)


def _class(factor: Factor, text: str) -> int:
    """A class by its number or by its name."""
    if text in map(str, factor.values) and factor.kind == "categorical":
        return [str(value) for value in factor.values].index(text)
    if not text.isdigit() or int(text) >= factor.size:
        has_names = factor.values and factor.kind == "categorical"
        names = f" or one of {listed(map(str, factor.values))}" if has_names else ""
        raise RequestError(f"factor {factor.name} has classes 0 to {factor.size - 1}{names}, got {text!r}")
    return int(text)
