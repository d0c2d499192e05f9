"""Codes that come in batches, as from a data loader: collected with `update`, measured with `compute`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sober.errors import RequestError, listed
from sober.metrics.arrays import Kinds, as_array, as_columns
from sober.metrics.score import Chosen, Scores, resolved, score

Batch = dict[str, np.ndarray]  # arguments of `score` that have a row per picture, and the three below
PRIORITY, PART, PLACE = "_priority", "_part", "_place"


class Collector:
    """Collects batches of codes and factors, from any framework and device, and scores them all together.

    `metrics` and further `settings` are those of `sober.score`. With `rows`, no more than twice so many rows are held,
    and a uniform sample of so many is scored: each row draws a number from `seed`, and those with the lowest stay. So
    the sample depends on the seed and the order of the rows, not on how they were cut into batches. Of several
    processes each has its own `part`, 0, 1, 2, …, so that their numbers differ; `merge_state` brings them together.

    >>> collector = sober.Collector(["mig", "dci"], rows=10_000)
    >>> for pictures, labels in loader:
    ...     collector.update(encoder(pictures), labels)
    >>> collector.compute()["mig"]
    """

    def __init__(
        self,
        metrics: str | Chosen | None = None,
        *,
        rows: int | None = None,
        seed: int = 0,
        part: int = 0,
        names: Sequence[str] | None = None,
        kinds: Kinds = None,
        **settings: Any,
    ) -> None:
        if rows is not None and rows < 1:
            raise RequestError(f"rows must be at least 1, got {rows}: leave it out to keep every row")
        if part < 0:
            raise RequestError(f"part must be 0 or more, got {part}: the number of this process among several")
        for _ in resolved(metrics, True):  # a wrong name is refused before anything is collected
            pass
        if unknown := settings.keys() - inspect.signature(score).parameters.keys():
            raise RequestError(f"a collector has no setting {listed(unknown)}: those of sober.score are all it takes")
        self.metrics, self.rows, self.seed, self.part = metrics, rows, seed, part
        self.settings = settings
        self._described = names, kinds
        self.reset()

    def reset(self) -> None:
        """Forgets all that was collected, as for the next epoch."""
        self.seen = 0  # rows, kept or not
        self.names, self.kinds = self._described
        self._parts = {self.part}
        self._random = np.random.default_rng([self.seed, self.part])
        self._batches: list[Batch] = []
        self._highest = np.inf  # priority of a row that can still be among the lowest

    def __len__(self) -> int:
        """How many rows would be scored."""
        held = self._held()
        return held if self.rows is None else min(held, self.rows)

    def update(
        self, codes: Any, factors: Any = None, *, logvar: Any = None, groups: Any = None, weights: Any = None
    ) -> None:
        """Adds a batch: codes (n, D), factors (n, K), and what else `sober.score` takes of each row."""
        columns = as_columns(factors, *self._described)
        given = {"codes": codes, "factors": columns.array, "logvar": logvar, "groups": groups, "weights": weights}
        batch = {name: _rows_of(name, value) for name, value in given.items() if value is not None}
        count = len(batch["codes"])
        self._check(batch, count, columns.names)
        if not count:
            return
        self.names, self.kinds = columns.names, columns.kinds
        batch[PART], batch[PLACE] = np.full(count, self.part), np.arange(self.seen, self.seen + count)
        self.seen += count
        self._add(batch | {PRIORITY: self._random.random(count)} if self.rows is not None else batch)

    def merge_state(self, *others: Collector) -> None:
        """Adds what other collectors have, such as those of other processes; they stay as they are."""
        for other in others:
            if (other.rows, other.seed) != (self.rows, self.seed):
                raise RequestError("collectors that are merged must have the same rows and the same seed")
            if self.rows is not None and self._parts & other._parts:
                raise RequestError(
                    f"two collectors are part {listed(self._parts & other._parts)}: give each process its own, as in "
                    "Collector(rows=…, part=rank), so that their samples are independent"
                )
            for batch in other._batches:
                self._check(batch, len(batch["codes"]), other.names)
            if not self._batches:
                self.names, self.kinds = other.names, other.kinds
            self._parts |= other._parts
            self.seen += other.seen
            for batch in other._batches:
                self._add(batch)

    def compute(self) -> Scores:
        """The scores of all that was collected, or of the sample of it, as `sober.score` gives them."""
        if not self._batches:
            raise RequestError("nothing was collected: call update(codes, factors) first")
        collected = self._lowest(_joined(self._batches))
        order = np.lexsort((*([collected[PLACE]] if self.rows is not None else []), collected[PART]))
        arguments: dict[str, Any] = {
            name: array[order] for name, array in collected.items() if name not in (PRIORITY, PART, PLACE)
        }
        if "factors" in arguments:
            arguments |= {"names": self.names, "kinds": self.kinds}
        return score(**arguments, metrics=self.metrics, seed=self.seed, **self.settings)

    def _held(self) -> int:
        return sum(len(batch["codes"]) for batch in self._batches)

    def _check(self, batch: Batch, count: int, names: Sequence[str] | None) -> None:
        for name, array in batch.items():
            if array.ndim < 1 or len(array) != count:
                raise RequestError(f"codes has {count:,} rows and {name} has shape {array.shape}: they must agree")
        if self._batches and (earlier := _shapes(self._batches[0])) != (now := _shapes(batch)):
            raise RequestError(f"this batch has {_said(now)}, earlier ones {_said(earlier)}: they must agree")
        if self._batches and names != self.names:
            raise RequestError(f"this batch has factors {listed(names or ())}, earlier ones {listed(self.names or ())}")

    def _add(self, batch: Batch) -> None:
        """Keeps a batch, or of a sample what can be part of it; now and then only what is."""
        if self.rows is None:
            self._batches.append(batch)
            return
        hopeful = batch[PRIORITY] <= self._highest
        if hopeful.any():
            self._batches.append({name: array[hopeful] for name, array in batch.items()})
        if self._held() > 2 * self.rows:
            self._batches = [self._lowest(_joined(self._batches))]
            self._highest = self._batches[0][PRIORITY].max()

    def _lowest(self, batch: Batch) -> Batch:
        if self.rows is None or len(batch["codes"]) <= self.rows:
            return batch
        kept = np.argpartition(batch[PRIORITY], self.rows - 1)[: self.rows]
        return {name: array[kept] for name, array in batch.items()}


def _rows_of(name: str, value: Any) -> np.ndarray:
    """A copy, because loops reuse their memory."""
    array = as_array(name, value)
    if not isinstance(array, np.ndarray):
        raise RequestError(f"{name} is a {type(array).__name__}: a collector takes dense arrays")
    return array.copy()


def _shapes(batch: Batch) -> Mapping[str, tuple[int, ...]]:
    return {name: array.shape[1:] for name, array in batch.items() if name not in (PRIORITY, PART, PLACE)}


def _said(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} (n{''.join(f', {size}' for size in shape)})" for name, shape in shapes.items())


def _joined(batches: Sequence[Batch]) -> Batch:
    def join(arrays: list[np.ndarray]) -> np.ndarray:
        masked = any(isinstance(array, np.ma.MaskedArray) for array in arrays)
        return np.ma.concatenate(arrays) if masked else np.concatenate(arrays)

    return {name: join([batch[name] for batch in batches]) for name in batches[0]}
