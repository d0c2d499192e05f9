"""hide: makes factors a nuisance. They vary as before, but are not among the labels.

Chen et al. (2018) treat the shapes of dSprites and the identities of 3D Faces this way: no score sees them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Int, Key, UInt8

from sober.errors import RequestError
from sober.types import Factor
from sober.worlds.views.base import View, column_of
from sober.worlds.world import Grid, Labels, World


class Hide(View):
    """The same pictures, drawn as before, without the labels of some factors."""

    def __init__(self, base: World, names: Sequence[str]) -> None:
        hidden = {column_of(base, name) for name in names}
        if not hidden or len(hidden) == len(base.factors):
            raise RequestError(f"{base.spec}: hide needs the names of some factors, and not of all")
        super().__init__(base, f"hide {' '.join(names)}")
        self.columns = [column for column in range(len(base.factors)) if column not in hidden]
        self.factors = tuple(base.factors[column] for column in self.columns)

    @staticmethod
    def read(base: World, text: str) -> Hide:
        """`FACTOR …`"""
        return (HideInGrid if isinstance(base, Grid) else Hide)(base, text.split())

    def index(self, key: Key[Array, ""], n: int) -> Int[Array, " n"]:
        return self.base.index(key, n)

    def everything(self) -> Int[np.ndarray, " N"]:
        return self.base.everything()

    def labels(self, index: Int[np.ndarray, " N"]) -> Labels:
        return self.base.labels(self.checked(index))[:, self.columns]

    def vary(self, index: int, factor: int, count: int) -> UInt8[np.ndarray, "n H W C"] | None:
        return self.base.vary(index, self.columns[factor], count)


class HideInGrid(Hide, Grid):  # type: ignore[misc]
    """A hidden view of a grid is a grid too, so views of grids may follow."""

    @property
    def axes(self) -> tuple[Factor, ...]:
        assert isinstance(self.base, Grid)
        return self.base.axes
