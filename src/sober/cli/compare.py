"""`sober score` with several files compares their codes. Needs no JAX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sober.cli.console import console
from sober.cli.printed import Column, FittedTable
from sober.errors import RequestError, counted
from sober.short_text import encodable
from sober.types import Codes

if TYPE_CHECKING:
    import numpy as np

    from sober.metrics.scoring.comparison import Comparison, Difference


def compare_files(
    files: Mapping[Path, Codes],
    metrics: Sequence[str] | None,
    *,
    preset: str,
    seed: int,
    halves: int,
    out: Path | None,
) -> Comparison:
    """Compares the codes of several files. Each file's codes get the file's name."""
    from sober.requests.compare import compare

    (first_path, first), *others = files.items()
    for path, codes in others:
        if difference := _first_difference(first, codes):
            raise RequestError(
                f"{path} has other {difference} than {first_path}: compare codes of the same rows and factors"
            )
    names = names_of(list(files))
    return compare(
        {names[path]: codes for path, codes in files.items()},
        metrics=None if metrics is None else list(metrics),
        preset=preset,
        seed=seed,
        halves=halves,
        out=out,
    )


def _first_difference(first: Codes, other: Codes) -> str:
    """In what two codes differ that are not of the same rows and factors; empty if they are."""
    if first.mean.shape[0] != other.mean.shape[0]:
        return "rows"
    if len(first.about) == len(other.about):
        for name in ("name", "kind"):
            if [getattr(factor, name) for factor in first.about] != [getattr(factor, name) for factor in other.about]:
                return f"{name}s"
    if first.about != other.about:
        return "factors"
    arrays = ("factors", "known", "groups", "weights")
    return next((name for name in arrays if not _same(getattr(first, name), getattr(other, name))), "")


def _same(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    import numpy as np

    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)


def names_of(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for each file: without folder and ending if that is unique, else the whole path."""
    times = Counter(path.stem for path in paths)
    return {path: encodable(path.stem if times[path.stem] == 1 else path) for path in paths}


def plain_comparison(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON can hold it."""
    return {
        "scores": {name: dict(scores) for name, scores in comparison.scores.items()},
        "errors": {name: dict(errors) for name, errors in comparison.errors.items()},
        "differences": [difference._asdict() for difference in comparison.differences],
        "rows": comparison.rows,
        "groups": comparison.groups,
        "halves": comparison.halves,
        "level": comparison.level,
    }


def print_comparison(comparison: Comparison) -> None:
    """Prints a table of scores, and then each real difference of two codes."""
    console.print(scores_table(comparison))
    if comparison.real():
        console.print("", differences_table(comparison.real()))
    console.print(
        f"{len(comparison.real())} of {counted(len(comparison.differences), 'difference')} are real after "
        f"adjusting for their number; {comparison.level:.0%} intervals from {comparison.halves} halves of the "
        f"{_units(comparison)}",
        style="dim",
    )


def _units(comparison: Comparison) -> str:
    return f"{comparison.rows:,} rows" if comparison.groups is None else f"{comparison.groups:,} groups"


def differences_table(differences: Sequence[Difference]) -> FittedTable:
    """The real differences: the second codes less the first, with the interval, and which of both is better."""
    columns = [
        Column("real difference", style="bold"),
        Column("of"),
        Column("value", "right"),
        Column("interval", "right"),
        Column("better", wraps=True),
    ]
    rows = [
        [
            difference.score,
            f"{difference.second} less {difference.first}",
            f"{difference.value:+.4f}",
            f"{difference.low:+.4f} to {difference.high:+.4f}",
            difference.better or "",
        ]
        for difference in differences
    ]
    return FittedTable(columns, rows)


def scores_table(comparison: Comparison) -> FittedTable:
    """A row for each score, a column for each of the codes."""
    columns = [Column("score", style="bold"), *(Column(name, "right") for name in comparison.names)]
    rows = [[score, *(_value(comparison, name, score) for name in comparison.names)] for score in comparison.measured]
    return FittedTable(columns, rows)


def _value(comparison: Comparison, name: str, score: str) -> str:
    if score not in comparison.scores[name]:
        return "–"
    error = comparison.errors[name].get(score)
    return f"{comparison.scores[name][score]:.4f}" + ("" if error is None else f" ± {error:.4f}")
