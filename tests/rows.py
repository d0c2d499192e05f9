"""Handmade results: a few columns by hand, and the rest as the registries and the defaults of a run have them."""

from __future__ import annotations

from typing import Any

import polars as pl

from sober.criteria import CRITERIA
from sober.methods.settings import setting
from sober.metrics import METRICS
from sober.results.table_files import schema
from sober.results.table_rows import RUN_COLUMNS, SCORE_COLUMNS, run_from_row
from sober.types import Run, Score

DEFAULTS = {**Run("", "", {}).flat(), "setting": "", "preset": "study", "settings": "{}", "device": "", "scale": ""}


def meaning(name: str) -> dict[str, Any]:
    """What a row says of its number beside its value: from the registry that knows it, else the defaults of a score."""
    if name in CRITERIA:
        return {"kind": "criterion", "better": CRITERIA[name].better}
    if name.startswith("train_"):
        return {"kind": "training", "better": "neither"}
    for metric in METRICS.values():
        if name in metric.scores:
            known = metric.scores[name]
            structure = {field: getattr(known, field) for field in ("better", "matrix", "rule", "samples_of")}
            return {"kind": "metric", "supervised": metric.supervised, **structure}
    return {}


def score(run: Run, name: str, value: float, **others: Any) -> Score:
    """A score of a run, with what its registry knows of it."""
    return Score(run.identity, name, value, **{"preset": "study", **meaning(name), **others})


def complete(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame that names runs, metrics and values, with every other column of the table that it lacks."""
    wanted = {**RUN_COLUMNS, **SCORE_COLUMNS}
    said = [Score("", name, 0.0, **meaning(name)) for name in frame["metric"].unique()]
    known = ("metric", "kind", "better", "supervised", "matrix", "rule", "samples_of")
    numbers = pl.DataFrame([{field: getattr(each, field) for field in known} for each in said])
    numbers = numbers.drop(set(frame.columns) - {"metric"}, strict=False)
    frame = frame.join(numbers, on="metric", how="left", maintain_order="left")
    usual = {**vars(Score("", "", 0.0)), "low": None, "high": None, "versions": "{}", "flags": [], **DEFAULTS}
    lacking = {name: kind for name, kind in schema(wanted).items() if name not in frame.columns}
    whole = frame.with_columns(pl.lit(usual[name], kind).alias(name) for name, kind in lacking.items())
    if "setting" not in lacking:
        return whole
    in_words = [setting(run_from_row(row)) for row in whole.iter_rows(named=True)]
    return whole.with_columns(setting=pl.Series(in_words, dtype=pl.String))
