"""The shared test data's representations and the numbers an independent implementation gives for them."""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sober.metrics import as_codes
from sober.types import Codes


class Golden:
    """Codes over a grid, rows in the documented order, and the independent scores and matrices."""

    def __init__(self, shared: Path) -> None:
        self.folder = shared / "golden"
        self.scores: dict[str, Any] = json.loads((self.folder / "scores.json").read_text())["results"]
        self.matrices = dict(np.load(self.folder / "matrices.npz"))
        specification = importlib.util.spec_from_file_location("representations", self.folder / "representations.py")
        assert specification is not None
        assert specification.loader is not None
        self.formulas: ModuleType = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(self.formulas)
        self.table = functools.lru_cache(4)(self.formulas.table)

    def representations(self) -> list[tuple[str, str]]:
        return [(grid, name) for grid in self.scores for name in self.scores[grid]]

    def whole(self, grid: str, name: str) -> Codes:
        """Every row of a grid."""
        return self.codes(grid, name, np.arange(self.formulas.grid_size(grid)))

    def codes(self, grid: str, name: str, rows: np.ndarray) -> Codes:
        factors = self.formulas.latent_factors(grid)[rows]
        return as_codes(self.table(grid, name)[rows], factors, names=self.formulas.GRIDS[grid][2])

    def parts(self, grid: str, name: str, seed: int, *sizes: int) -> list[Codes]:
        """Samples drawn one after the other from one random state, as the independent implementation drew them."""
        state = np.random.RandomState(seed)
        return [self.codes(grid, name, self.formulas.sample_indices(grid, seed, size, 16, state)[0]) for size in sizes]

    def score(self, grid: str, name: str, metric: str, key: str, seed: int = 0) -> float:
        return self.scores[grid][name][metric][str(seed)]["scores"][key]

    def spread(self, grid: str, name: str, metric: str, key: str) -> float:
        """The standard deviation over the seeds there are; a single seed has none."""
        seeds = [entry["scores"][key] for entry in self.scores[grid][name][metric].values() if "scores" in entry]
        return float(np.std(seeds, ddof=1)) if len(seeds) > 1 else 0.0

    def has(self, grid: str, name: str, metric: str, seed: int = 0) -> bool:
        return "scores" in self.scores[grid][name].get(metric, {}).get(str(seed), {})
