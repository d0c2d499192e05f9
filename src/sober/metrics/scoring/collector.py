"""Collects codes that come in batches, as from a data loader: `update` adds a batch, `compute` scores them all."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sober.contracts import whole_number
from sober.errors import RequestError, listed
from sober.metrics.common.arrays import Kinds, as_array, as_columns
from sober.metrics.scoring.score import Chosen, Scores, resolved, score
from sober.short_text import as_facts

Batch = dict[str, np.ndarray]  # arguments of `score` with a row per picture, and the three columns named below
PRIORITY, PART, PLACE = "_priority", "_part", "_place"


class Collector:
    """Collects batches of codes and factors, from any framework and device, and scores them all together.

    `metrics` and `settings` are passed on to `sober.score`. With `rows`, a uniform sample of that many rows is scored,
    and at most twice as many are held: each row draws a random number, and the rows with the lowest numbers stay. So
    the sample depends on the seed and the order of the rows, not on the batches. If several processes collect, each
    has its own `part`, 0, 1, 2, …, so that they draw different numbers; `merge_state` joins them.

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
        rows = None if rows is None else whole_number("rows, the size of the sample,", rows, least=1)
        seed, part = whole_number("seed", seed), whole_number("part, the number of this process,", part)
        for _ in resolved(metrics, True):  # refuses a wrong name before anything is collected
            pass
        if unknown := settings.keys() - inspect.signature(score).parameters.keys():
            raise RequestError(f"a collector has no setting {listed(unknown)}: it takes the settings of sober.score")
        self.metrics, self.rows, self.seed, self.part = metrics, rows, seed, part
        self.settings = settings
        self._described = names, kinds
        self.reset()

    def __repr__(self) -> str:
        facts = {
            "rows": f"{len(self):,} to score, of {self.seen:,} seen",
            "metrics": ", ".join(self.metrics or ()) if not isinstance(self.metrics, str) else self.metrics,
            **self.settings,
        }
        return as_facts("Collector", facts)

    def reset(self) -> None:
        """Forgets everything that was collected, for example for the next epoch."""
        self.seen = 0  # the number of rows passed to `update`, also rows that were dropped
        self.names, self.kinds = self._described
        self._parts = {self.part}
        self._random = np.random.default_rng([self.seed, self.part])
        self._batches: list[Batch] = []
        self._highest = np.inf  # rows with a higher priority cannot be in the sample

    def __len__(self) -> int:
        """How many rows would be scored."""
        rows_held = self._rows_held()
        return rows_held if self.rows is None else min(rows_held, self.rows)

    def update(
        self, codes: Any, factors: Any = None, *, logvar: Any = None, groups: Any = None, weights: Any = None
    ) -> None:
        """Adds a batch: codes (n, D), factors (n, K), and other arguments of `sober.score` that have n rows."""
        columns = as_columns(factors, *self._described)
        arguments = {"codes": codes, "factors": columns.array, "logvar": logvar, "groups": groups, "weights": weights}
        batch = {name: _rows_of(name, value) for name, value in arguments.items() if value is not None}
        count = len(batch["codes"])
        self._check(batch, count, columns.names)
        if not count:
            return
        self.names, self.kinds = columns.names, columns.kinds
        batch[PART], batch[PLACE] = np.full(count, self.part), np.arange(self.seen, self.seen + count)
        self.seen += count
        self._add(batch | {PRIORITY: self._random.random(count)} if self.rows is not None else batch)

    def merge_state(self, *others: Collector) -> None:
        """Adds the rows of other collectors, such as those of other processes, which do not change."""
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
        """Scores everything that was collected, or the sample of it, as `sober.score` does."""
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

    def _rows_held(self) -> int:
        return sum(len(batch["codes"]) for batch in self._batches)

    def _check(self, batch: Batch, count: int, names: Sequence[str] | None) -> None:
        for name, array in batch.items():
            if array.ndim < 1 or len(array) != count:
                raise RequestError(f"codes has {count:,} rows and {name} has shape {array.shape}: they must agree")
        if self._batches and (earlier := _shapes(self._batches[0])) != (shapes := _shapes(batch)):
            raise RequestError(
                f"this batch has {_shapes_text(shapes)}, earlier ones {_shapes_text(earlier)}: they must agree"
            )
        if self._batches and names != self.names:
            raise RequestError(f"this batch has factors {listed(names or ())}, earlier ones {listed(self.names or ())}")

    def _add(self, batch: Batch) -> None:
        """Holds a batch, or its rows that may be in the sample. Above twice the sample, drops rows that cannot be."""
        if self.rows is None:
            self._batches.append(batch)
            return
        may_stay = batch[PRIORITY] <= self._highest
        if may_stay.any():
            self._batches.append({name: array[may_stay] for name, array in batch.items()})
        if self._rows_held() > 2 * self.rows:
            self._batches = [self._lowest(_joined(self._batches))]
            self._highest = self._batches[0][PRIORITY].max()

    def _lowest(self, batch: Batch) -> Batch:
        if self.rows is None or len(batch["codes"]) <= self.rows:
            return batch
        lowest = np.argpartition(batch[PRIORITY], self.rows - 1)[: self.rows]
        return {name: array[lowest] for name, array in batch.items()}


def _rows_of(name: str, value: Any) -> np.ndarray:
    """A copy of an array, because loops reuse their memory."""
    array = as_array(name, value)
    if not isinstance(array, np.ndarray):
        raise RequestError(f"{name} is a {type(array).__name__}: a collector takes dense arrays")
    return array.copy()


def _shapes(batch: Batch) -> Mapping[str, tuple[int, ...]]:
    return {name: array.shape[1:] for name, array in batch.items() if name not in (PRIORITY, PART, PLACE)}


def _shapes_text(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} (n{''.join(f', {size}' for size in shape)})" for name, shape in shapes.items())


def _joined(batches: Sequence[Batch]) -> Batch:
    def join(arrays: list[np.ndarray]) -> np.ndarray:
        masked = any(isinstance(array, np.ma.MaskedArray) for array in arrays)
        return np.ma.concatenate(arrays) if masked else np.concatenate(arrays)

    return {name: join([batch[name] for batch in batches]) for name in batches[0]}
