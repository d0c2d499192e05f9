"""`sober score` of several files: their codes compared. Needs no JAX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from sober.cli.console import console
from sober.errors import RequestError, counted
from sober.metrics.comparison import Comparison, Difference
from sober.workflows.compare import compare

ABOUT_ROWS = ("factors", "groups", "weights")  # what all files must have in common, each as the first has it
ABOUT_FACTORS = ("names", "kinds")


def compare_files(
    files: Mapping[Path, Mapping[str, np.ndarray]],
    metrics: Sequence[str] | None,
    *,
    preset: str,
    seed: int,
    halves: int,
    out: Path | None,
) -> Comparison:
    """The codes in several files, by the name of the file."""
    (first, one), *others = files.items()
    for path, arrays in others:
        for what in (*ABOUT_ROWS, *ABOUT_FACTORS):
            if not _same(one.get(what), arrays.get(what)):
                raise RequestError(f"{path} has other {what} than {first}: compare codes of the same rows and factors")
    names = names_of(list(files))
    about: dict[str, Any] = {what: one[what].astype(str).tolist() for what in ABOUT_FACTORS if what in one}
    about |= {what: one[what] for what in ABOUT_ROWS if what in one}
    return compare(
        {names[path]: arrays["codes"] for path, arrays in files.items()},
        logvar={names[path]: arrays["logvar"] for path, arrays in files.items() if "logvar" in arrays},
        metrics=None if metrics is None else list(metrics),
        preset=preset,
        seed=seed,
        halves=halves,
        out=out,
        **about,
    )


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    numbers = one.dtype.kind == "f" and other.dtype.kind == "f"
    return np.array_equal(one, other, equal_nan=numbers)


def names_of(paths: Sequence[Path]) -> dict[Path, str]:
    """Files by what they are called, without folder and ending where that tells them apart."""
    times = Counter(path.stem for path in paths)
    return {path: path.stem if times[path.stem] == 1 else str(path) for path in paths}


def plain_comparison(found: Comparison) -> dict[str, Any]:
    """A comparison as JSON can hold it."""
    return {
        "scores": {name: dict(scores) for name, scores in found.scores.items()},
        "errors": {name: dict(errors) for name, errors in found.errors.items()},
        "differences": [difference._asdict() for difference in found.differences],
        "rows": found.rows,
        "groups": found.groups,
        "halves": found.halves,
        "level": found.level,
    }


def print_comparison(found: Comparison) -> None:
    """One table of scores; then, for each pair, the differences that are real."""
    console.print(scores_table(found))
    for difference in found.real():
        console.print(_line(difference), soft_wrap=True)
    console.print(
        f"[dim]{len(found.real())} of {counted(len(found.differences), 'difference')} real after adjusting for their "
        f"number; {found.level:.0%} intervals from {found.halves} halves of the {_units(found)}[/]",
        soft_wrap=True,
    )


def _units(found: Comparison) -> str:
    return f"{found.rows:,} rows" if found.groups is None else f"{found.groups:,} groups"


def _line(difference: Difference) -> str:
    better = f", {escape(difference.better)} is better" if difference.better else ""
    return (
        f"[bold]{difference.score}[/]  {escape(difference.second)} less {escape(difference.first)}: "
        f"{difference.value:+.4f} ({difference.low:+.4f} to {difference.high:+.4f}){better}"
    )


def scores_table(found: Comparison) -> Table:
    """A row for each score, a column for each of the codes."""
    table = Table(box=None, header_style="dim")
    table.add_column("score", no_wrap=True, style="bold")
    for name in found.names:
        table.add_column(escape(name), justify="right", overflow="fold")
    for score in found.measured:
        table.add_row(score, *(_value(found, name, score) for name in found.names))
    return table


def _value(found: Comparison, name: str, score: str) -> str:
    if score not in found.scores[name]:
        return "–"
    error = found.errors[name].get(score)
    return f"{found.scores[name][score]:.4f}" + ("" if error is None else f" [dim]± {error:.4f}[/]")
