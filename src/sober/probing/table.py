"""Probed layers as data frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sober.probing.differences import Difference
from sober.probing.layer import Layer

if TYPE_CHECKING:
    import polars as pl

COLUMNS = {
    **dict.fromkeys(("world", "encoder", "layer", "pooling"), "String"),
    **{"place": "Int64", "width": "Int64", "reference": "Boolean", "factor": "String", "number": "String"},
    **dict.fromkeys(("value", "low", "high", "chance", "chance_high"), "Float64"),
    **{"labels": "Int64", "unit": "String", "rows": "Int64", "run": "String"},
}


def table(layers: Sequence[Layer]) -> pl.DataFrame:
    """One row for each layer, factor and number; a number that was not estimated is null."""
    import polars as pl  # noqa: PLC0415 -- takes long to import

    rows = [
        {
            "world": layer.world,
            "encoder": layer.encoder,
            "layer": layer.name,
            "pooling": layer.pooling,
            "place": layer.place,
            "width": layer.width,
            "reference": layer.reference,
            "factor": number.factor,
            "number": number.name,
            **{name: _finite(getattr(number, name)) for name in ("value", "low", "high", "chance", "chance_high")},
            "labels": number.labels,
            "unit": number.unit,
            "rows": layer.rows,
            "run": layer.run,
        }
        for layer in layers
        for number in layer.numbers
    ]
    return pl.DataFrame(rows, schema={name: getattr(pl, kind) for name, kind in COLUMNS.items()})


def difference_table(rows: Sequence[Difference]) -> pl.DataFrame:
    """One row for each difference; the mean over factors has an empty factor."""
    import polars as pl  # noqa: PLC0415

    numbers = {"value", "other_value", "difference", "low", "high"}
    schema = {name: pl.Float64 if name in numbers else pl.String for name in Difference._fields}
    return pl.DataFrame([row._asdict() for row in rows], schema=schema)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
