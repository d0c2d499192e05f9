"""How many latents? Recurrence against the size of a model, among models of one size.

    recurring = live · max(0, (R − C) / (1 − C))

R is the share of a size's live latents that recur in at least half of the models of that size, and C is the recurrence
of chance features, so that latents count as recurring beyond chance. The gain of a size is how many more latents recur
than at the size below, over the number of latents that were added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sober.agreement.analysis import Analysis
from sober.agreement.recurrence import MOST_OFTEN

if TYPE_CHECKING:
    import polars as pl

PAYS = 0.5  # the gain at which more latents than not recur


def sizes(analysis: Analysis) -> pl.DataFrame:
    """One row for each size with at least two models: how many latents recur among them, and the gain."""
    import polars as pl  # noqa: PLC0415 -- takes long to import

    widths = np.diff(analysis.partners.start)
    alike = np.abs(analysis.matches.similarity) >= analysis.least
    rows: list[dict[str, float | int | bool | None]] = []
    for size in np.unique(widths):
        models = np.flatnonzero(widths == size)
        if len(models) < 2:
            continue
        inside = np.isin(analysis.partners.model, models)
        share = alike[np.ix_(inside, models)].sum(axis=1) / (len(models) - 1)
        alive = analysis.alive[inside]
        live = float(alive.sum() / len(models))
        rate = float((share[alive] >= MOST_OFTEN).mean()) if live else 0.0
        chance = float(analysis.recurrence.chance[inside][alive].mean()) if live else 0.0
        recurring = live * max(0.0, (rate - chance) / max(1 - chance, 1e-9))
        before = rows[-1] if rows else {"latents": 0, "recurring": 0.0}
        gain = (recurring - before["recurring"]) / (size - before["latents"])  # type: ignore[operator]
        rows.append(
            {
                "latents": int(size),
                "models": len(models),
                "live": live,
                "recurring": recurring,
                "recurrence": float(share[alive].mean()) if live else 0.0,
                "chance": chance,
                "gain": gain,
                "pays": gain >= PAYS,
            }
        )
    schema = {
        "latents": pl.Int64, "models": pl.Int64, "live": pl.Float64, "recurring": pl.Float64,
        "recurrence": pl.Float64, "chance": pl.Float64, "gain": pl.Float64, "pays": pl.Boolean,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema)


def largest_that_pays(table: pl.DataFrame) -> int | None:
    """The last size before the first that does not pay; None if the smallest does not."""
    size = None
    for row in table.iter_rows(named=True):
        if not row["pays"]:
            break
        size = row["latents"]
    return size
