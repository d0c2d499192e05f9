"""Scores of parts of the pictures that models encoded, on disk: they show whether scores repeat themselves.

repeats.parquet   a row for each model, score, number of pictures and part (0 or 1); the two parts share no picture
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sober.errors import RequestError
from sober.files import is_there
from sober.files.tables import read_table
from sober.results.table_files import put

if TYPE_CHECKING:
    import polars as pl

REPEATS = "repeats.parquet"  # in a folder of results; tools/score_parts.py makes it
KEY = ("run", "metric", "pictures", "part")


def load_repeats(folder: Path) -> pl.DataFrame:
    """The rows of a folder; no rows if parts of its pictures were never scored."""
    import polars as pl  # noqa: PLC0415

    types = {"run": pl.String, "metric": pl.String, "pictures": pl.Int64, "part": pl.Int64, "value": pl.Float64}
    path = folder / REPEATS
    if not is_there(path):
        return pl.DataFrame(schema=types)
    frame = read_table(path).frame
    if dict(frame.schema) != types:
        raise RequestError(f"{path} holds no scores of parts of pictures: move it elsewhere")
    return frame


def save_repeats(folder: Path, rows: pl.DataFrame) -> None:
    """Replaces the rows of a folder."""
    content = io.BytesIO()
    rows.sort(KEY).write_parquet(content)
    put(folder / REPEATS, content.getvalue())


def joined_repeats(folders: Sequence[Path]) -> pl.DataFrame | None:
    """The rows of all folders, each once; None if no folder has any. Refuses two values for one score."""
    if not (with_repeats := [folder for folder in folders if is_there(folder / REPEATS)]):
        return None  # also where there is no Polars
    import polars as pl  # noqa: PLC0415

    rows = pl.concat([load_repeats(folder) for folder in with_repeats]).unique().sort(KEY)
    if not (twice := rows.filter(rows.select(KEY).is_duplicated())).is_empty():
        first, second = twice.head(2).iter_rows(named=True)
        raise RequestError(
            f"{first['metric']} of run {first['run']} from {first['pictures']:,} pictures is {first['value']} in one "
            f"{REPEATS} and {second['value']} in another: one of them is wrong, so nothing was merged"
        )
    return rows
