"""A score as a row of the table: the columns, their types, checks of their values, and the key of a row."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from sober.errors import RequestError, brief, listed
from sober.types import Better, Run, Score, ScoreKind, Setting

# The type of each column, by the name that Polars gives it. Columns of hyperparameters stand between the two groups.
RUN_COLUMNS = {
    **dict.fromkeys(("run", "world", "method", "nets"), "String"),
    **dict.fromkeys(("latents", "steps", "batch"), "Int64"),
    **dict.fromkeys(("learning_rate", "b1", "b2", "eps", "clip"), "Float64"),
    **{"precision": "String", "seed": "Int64", "setting": "String"},
}
TRAINING_COLUMNS = tuple(name for name in RUN_COLUMNS if name not in ("run", "world", "method", "seed", "setting"))
SCORE_COLUMNS = {
    **dict.fromkeys(("kind", "metric", "preset", "settings", "better"), "String"),
    "supervised": "Boolean",
    **dict.fromkeys(("matrix", "rule", "samples_of"), "String"),
    **dict.fromkeys(("pictures", "draw", "repeats", "models"), "Int64"),
    **dict.fromkeys(("value", "low", "high"), "Float64"),
    **{"flags": "List(String)", "seconds": "Float64", "device": "String", "versions": "String", "scale": "String"},
}
HYPER: dict[type, str] = {bool: "Boolean", str: "String", float: "Float64"}
KEY = ("run", "metric", "preset", "settings", "pictures", "draw", "repeats")  # unique in the table
ORDER = ("world", "method", "setting", "seed", *KEY)

Key = tuple[Any, ...]  # the values of KEY
Row = dict[str, Any]


def key_of(score: Score) -> Key:
    """The values of the columns KEY, which no two scores in a table share."""
    return (score.run, score.metric, score.preset, settings_text(score.settings), score.pictures, score.draw,
            score.repeats)  # fmt: skip


def settings_text(settings: Mapping[str, Setting]) -> str:
    """Settings as a JSON object. Equal settings give equal text: 20 and 20.0 are the same."""
    same = {name: value if isinstance(value, str | bool) else float(value) for name, value in settings.items()}
    return json.dumps(same, sort_keys=True, allow_nan=False)


def run_row(identity: str, runs: Mapping[str, Run], in_words: Callable[[Run], str]) -> Row:
    """A run as a row; `in_words` gives its setting."""
    run = runs.get(identity)
    if run is None or run.identity != identity:
        raise RequestError(f"there are scores of run {identity}, but that run is not among those given")
    return {"run": identity, "setting": in_words(run), **run.flat(), **{f"hyper_{k}": v for k, v in run.hyper.items()}}


def run_from_row(row: Mapping[str, Any]) -> Run:
    """The run in a row of the table."""
    hyper = {name.removeprefix("hyper_"): v for name, v in row.items() if name.startswith("hyper_") and v is not None}
    adam = {name: row.get(name) for name in ("learning_rate", "b1", "b2", "eps", "clip")}
    fields = {name: row[name] for name in ("world", "method", "nets", "latents", "steps", "batch", "precision", "seed")}
    return Run.of({**fields, "hyper": hyper, "optimiser": adam})


def score_row(score: Score, common: Mapping[str, str], versions: Mapping[str, str]) -> Row:
    """A score as a row, checked. A number that is not finite is null and flagged."""
    try:
        bounds = (
            dict(zip(("low", "high"), map(float, score.interval), strict=True)) if score.interval is not None else {}
        )
        numbers = {"value": float(score.value), **bounds}
        finite = {name: number + 0.0 for name, number in numbers.items() if math.isfinite(number)}
        lost = len(finite) < len(numbers)
        texts = ("run", "metric", "kind", "preset", "better", "matrix", "rule", "samples_of")
        counts = ("pictures", "draw", "repeats", "models")
        row = {
            **common,
            **finite,
            **{name: getattr(score, name) for name in (*texts, *counts)},
            "supervised": bool(score.supervised),
            "settings": settings_text(score.settings),
            "flags": sorted({*score.flags, *(["not_finite"] if lost and "not_measured" not in score.flags else [])}),
            "seconds": float(score.seconds),
            "versions": json.dumps({**versions, **score.versions}, sort_keys=True),
        }
        _check(score, row, texts=(*texts, *common), counts=counts)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{score.metric!r} of run {score.run} cannot be stored: {brief(error)}") from error
    return row


def _check(score: Score, row: Row, *, texts: Iterable[str], counts: Iterable[str]) -> None:
    """Raises an error if a value has the wrong type or makes no sense."""
    if odd := [name for name in texts if not isinstance(row[name], str)]:
        raise TypeError(f"{listed(odd)} must be text")
    if odd := [name for name in counts if not isinstance(row[name], int) or row[name] < 0]:
        raise TypeError(f"{listed(odd)} must be a whole number from 0")
    if large := [name for name in counts if row[name] >= 2**63]:
        raise ValueError(f"{listed(large)} is too large")
    if empty := [name for name in ("run", "metric", "preset") if not row[name]]:
        raise ValueError(f"no {listed(empty)} is given")
    for name, allowed in (("kind", ScoreKind), ("better", Better)):
        if row[name] not in get_args(allowed):
            raise ValueError(f"{name} {row[name]!r} is not one of {listed(get_args(allowed))}")
    if isinstance(score.flags, str) or any(flag.split() != [flag] for flag in score.flags):
        raise ValueError(f"flags {score.flags!r} are not words")
    if not 0 <= row["seconds"] < math.inf:
        raise ValueError(f"seconds {row['seconds']} is not a time")
    if "low" in row and "high" in row and row["low"] > row["high"]:
        raise ValueError(f"interval {score.interval} ends before it begins")


def hyper_types(run_rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The types of the hyperparameters' columns in rows of runs."""
    types: dict[str, str] = {}
    for row in run_rows:
        types = joined(types, {name: _type(value) for name, value in row.items() if name.startswith("hyper_")})
    return types


def _type(value: Setting) -> str:
    return next(name for kind, name in HYPER.items() if isinstance(value, kind))


def joined(hyper: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """The columns of both, each with its type; an error if a column has two types."""
    for name in hyper.keys() & more.keys():
        if hyper[name] != more[name]:
            raise RequestError(
                f"column {name} is {hyper[name]} in the store and {more[name]} in these scores: "
                "give the hyperparameter one type, or use another store"
            )
    return {**hyper, **more}


def columns(hyper: Mapping[str, str]) -> dict[str, str]:
    """Every column with its type, in the table's order."""
    return {**RUN_COLUMNS, **dict(sorted(hyper.items())), **SCORE_COLUMNS}
