"""Scores parts of the pictures that models encoded, to see whether scores repeat themselves on other pictures.

    python tools/score_parts.py FOLDER --pictures 100 --pictures 5000

Each number of pictures is taken twice, from the first rows of the codes and from the rows behind them, so the two parts
share no picture. The scores go into FOLDER/repeats.parquet: run, metric, pictures, part (0 or 1), value. Models of low
seeds come first. A stopped command goes on when it is run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

import sober  # noqa: E402
from sober.errors import RequestError  # noqa: E402
from sober.metrics import score  # noqa: E402
from sober.results.folder import Folder  # noqa: E402
from sober.results.repeat_files import REPEATS, load_repeats, save_repeats  # noqa: E402
from sober.results.tables.table import SEVEN_SCORES  # noqa: E402
from sober.types import Codes, Run  # noqa: E402

TOGETHER = 5  # models between two writes


def score_parts(folder: Path, sizes: list[int]) -> Path:
    """Adds rows for the models that have none yet."""
    results, rows = sober.open(folder), load_repeats(folder)
    encoded = Folder.open(folder).request.measure.pictures
    missing = [run for run in sorted(results.runs, key=lambda run: run.seed) if run.identity not in set(rows["run"])]
    for first in range(0, len(missing), TOGETHER):
        runs = missing[first : first + TOGETHER]
        new = [row for run in runs for row in scores_of(run, results.codes(run, pictures=encoded), sizes)]
        rows = pl.concat([rows, pl.DataFrame(new, schema=rows.schema, orient="row")])
        save_repeats(folder, rows)
        print(f"{rows['run'].n_unique()} of {len(results.runs)} models", flush=True)
    return folder / REPEATS


def scores_of(run: Run, codes: Codes, sizes: list[int]) -> Iterator[tuple[str, str, int, int, float]]:
    """The seven scores of the Sober Look for both parts of each size."""
    names, kinds = [factor.name for factor in codes.about], [factor.kind for factor in codes.about]
    for size in sizes:
        if 2 * size > len(codes.mean):
            sys.exit(f"two parts of {size} pictures need {2 * size}, and {len(codes.mean)} are encoded")
        for half in (0, 1):
            rows = slice(half * size, (half + 1) * size)
            values = score(codes.mean[rows], codes.factors[rows], metrics=SEVEN_SCORES, names=names, kinds=kinds)
            yield from ((run.identity, name, size, half, values[name]) for name in SEVEN_SCORES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of results that has codes")
    parser.add_argument("--pictures", type=int, action="append", help="in each part; may be repeated")
    arguments = parser.parse_args()
    try:
        print(score_parts(arguments.folder, arguments.pictures or [100, 5_000]))
    except RequestError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
