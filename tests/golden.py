"""The shared test data's representations and the numbers an independent implementation gives for them."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scripts import load_script
from sober.metrics import as_codes
from sober.types import Codes


class Golden:
    """Codes over a grid, rows in the documented order, and the independent scores and matrices."""

    def __init__(self, shared: Path) -> None:
        self.folder = shared / "golden"
        self.scores: dict[str, Any] = json.loads((self.folder / "scores.json").read_text())["results"]
        self.modern: dict[str, Any] = json.loads((self.folder / "modern.json").read_text())
        self.matrices = dict(np.load(self.folder / "matrices.npz"))
        self.formulas = load_script(self.folder / "representations.py")
        self.table = functools.lru_cache(4)(self._table)
        self._context = functools.cache(self.formulas._Ctx)
        self._drawn = functools.cache(self._draw)

    def representations(self) -> list[tuple[str, str]]:
        return [(grid, name) for grid in self.scores for name in self.scores[grid]]

    def whole(self, grid: str, name: str) -> Codes:
        """Every row of a grid."""
        return self._codes(grid, self.table(grid, name), self._context(grid).f)

    def codes(self, grid: str, name: str, rows: np.ndarray) -> Codes:
        """Some rows of a grid: every formula is one of its own row, so the others need not be known."""
        return self._codes(grid, self._table(grid, name, rows), self._context(grid).f[rows])

    def parts(self, grid: str, name: str, seed: int, *sizes: int) -> list[Codes]:
        """Samples drawn one after the other from one random state, as the independent implementation drew them."""
        return [self.codes(grid, name, rows) for rows in self._drawn(grid, seed, sizes)]

    def _draw(self, grid: str, seed: int, sizes: tuple[int, ...]) -> list[np.ndarray]:
        state = np.random.RandomState(seed)
        return [self.formulas.sample_indices(grid, seed, size, 16, state)[0] for size in sizes]

    def _table(self, grid: str, name: str, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """What the formulas' own `table` gives, of some rows or all."""
        context = copy.copy(self._context(grid))
        context.idx, context.s, context.f = context.idx[rows], context.s[rows], context.f[rows]
        return self.formulas.REPRESENTATIONS[name](context).astype(np.float32).astype(np.float64)

    def _codes(self, grid: str, table: np.ndarray, factors: np.ndarray) -> Codes:
        return as_codes(table, factors, names=self.formulas.GRIDS[grid][2])

    def first(self, grid: str, name: str, rows: int, start: int = 0) -> Codes:
        """So many rows of the order in which the numbers of newer metrics were measured."""
        return self.codes(grid, name, self._drawn(grid, 0, (20_000,))[0][start : start + rows])

    def newer(self, metric: str) -> Iterator[tuple[str, str, Any]]:
        """What an entry of the newer metrics says of each representation that it was run on without an error."""
        for grid, names in self.modern["results"].items():
            for name, entries in names.items():
                if metric in entries and not (isinstance(entries[metric], dict) and "error" in entries[metric]):
                    yield grid, name, entries[metric]

    def score(self, grid: str, name: str, metric: str, key: str, seed: int = 0) -> float:
        return self.scores[grid][name][metric][str(seed)]["scores"][key]

    def spread(self, grid: str, name: str, metric: str, key: str) -> float:
        """The standard deviation over the seeds there are; a single seed has none."""
        seeds = [entry["scores"][key] for entry in self.scores[grid][name][metric].values() if "scores" in entry]
        return float(np.std(seeds, ddof=1)) if len(seeds) > 1 else 0.0

    def has(self, grid: str, name: str, metric: str, seed: int = 0) -> bool:
        return "scores" in self.scores[grid][name].get(metric, {}).get(str(seed), {})
