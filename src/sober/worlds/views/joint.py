"""joint: draws some factors of a grid from a table of joint probabilities; the others stay uniform and independent."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sober.errors import RequestError, brief, listed
from sober.types import append_view
from sober.worlds.views.base import View, axis_of, column_of
from sober.worlds.views.distributions import JOINTS, joint
from sober.worlds.world import Grid, World

SAMPLE = 100_000  # pictures that represent a world whose pictures are not equally likely


class Joint(View):
    """A grid that draws some factors from a table of joint probabilities; the others are uniform and independent."""

    def __init__(
        self, base: World, factors: Sequence[str], table: Float[np.ndarray, "..."], text: str | None = None
    ) -> None:
        for name in factors:
            column_of(base, name)  # refuses an unknown factor
        if not isinstance(base, Grid) or len(set(factors)) < len(factors):
            raise RequestError(f"{base.spec}: only different factors of a full grid can be sampled by a table")
        columns = tuple(axis_of(base, name) for name in factors)
        table = np.asarray(table, np.float64)
        self.sizes = tuple(axis.size for axis in base.axes)  # of the whole grid: hidden factors are drawn too
        sizes = tuple(self.sizes[column] for column in columns)
        if table.shape != sizes or not (np.isfinite(table).all() and (table >= 0).all() and table.sum() > 0):
            shape = " x ".join(map(str, sizes))
            raise RequestError(f"a table over {listed(factors)} holds {shape} numbers from 0, got shape {table.shape}")
        self.columns, self.table = columns, table / table.sum()
        digest = hashlib.sha256(np.round(self.table, 9).astype("<f8").tobytes()).hexdigest()[:16]
        self.label_text = f"joint {' '.join(factors)} {digest}"  # identifies the table, since its file may change
        super().__init__(base, text or self.label_text)
        self.uniform = False
        self.flags = tuple(sorted({*base.flags, *([] if self._independent() else ["dependent_factors"])}))

    @staticmethod
    def read(base: World, text: str) -> Joint:
        """`FACTOR FACTOR D`, or a table's file in place of the letter."""
        words = text.split()
        if len(words) < 3:
            raise RequestError(f"joint takes two factors and {listed(JOINTS)} or a table's file, got {text!r}")
        *names, table = words
        if table in JOINTS:
            rows, columns = (base.factors[column_of(base, name)].size for name in names)
            return Joint(base, names, joint(table, rows, columns), f"joint {text}")
        return Joint(
            base, names, _read_table(Path(table)), f"joint {' '.join(names)} {Path(table).expanduser().resolve()}"
        )

    @property
    def label(self) -> str:
        return append_view(self.base.label, self.label_text)

    def index(self, key: Key[Array, ""], n: int) -> Int[Array, " n"]:
        cell_key, others_key = jax.random.split(key)
        cumulative = jnp.asarray(np.cumsum(self.table.ravel()), jnp.float32)
        cell = jnp.searchsorted(cumulative, jax.random.uniform(cell_key, (n,)), side="right")
        drawn = jnp.unravel_index(jnp.minimum(cell, self.table.size - 1), self.table.shape)
        sizes = self.sizes
        others = jax.random.randint(others_key, (n, len(sizes)), 0, jnp.array(sizes))
        classes = [others[:, column] for column in range(len(sizes))]
        for column, value in zip(self.columns, drawn, strict=True):
            classes[column] = value
        return functools.reduce(
            lambda index, axis: index * sizes[axis] + classes[axis], range(len(sizes)), jnp.int32(0)
        )

    def everything(self) -> Int[np.ndarray, " N"]:
        """A fixed sample: scores describe the world as it is sampled, not the grid."""
        return np.asarray(self.index(jax.random.key(2), SAMPLE))

    def _independent(self) -> bool:
        margins = [self.table.sum(tuple(set(range(self.table.ndim)) - {axis})) for axis in range(self.table.ndim)]
        return np.allclose(functools.reduce(np.multiply.outer, margins), self.table, rtol=1e-6, atol=1e-12)


def _read_table(path: Path) -> Float[np.ndarray, "rows columns"]:
    """The numbers of a CSV file whose rows have equal lengths."""
    try:
        lines = [line for line in path.expanduser().read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        if not lines:
            raise ValueError("it is empty")
        return np.loadtxt(lines, delimiter=",", comments=None, quotechar='"', ndmin=2)
    except (OSError, ValueError) as error:
        raise RequestError(f"{path} is not a table of numbers ({brief(error)}), nor {listed(JOINTS)}") from error
