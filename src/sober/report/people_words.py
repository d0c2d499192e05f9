"""Names for people in the place of identifiers. Reports show these names; tables and files keep the identifiers."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sober.metrics.registry import METRICS
from sober.results import ResultTable, Runs
from sober.results.runs import Number, score_words
from sober.results.table_rows import run_from_row
from sober.setting_words import all_settings, in_words, method_title, setting_title, words_for_people
from sober.settings_text import text_of
from sober.types import Run, Setting, WorldSpec

if TYPE_CHECKING:
    import polars as pl

NUMBERS = ("metric", "criterion", "score", "task", "other")  # columns of tables that hold names of numbers
# Terms of β-TCVAE's loss. Minibatch-weighted sampling shifts each by up to D·log N, for D latents and N pictures, also
# in a batch of all pictures: they are terms of the loss, not what their names say about the codes.
SHIFTED_TERMS = ("mutual_information", "total_correlation", "dimension_wise_kl")
FOLDERS = ("folder", "file", "path", "archive")  # options of a world of pictures that say where these are


class PeopleWords(NamedTuple):
    """The names for people of what results are about, by their names in tables."""

    numbers: Mapping[str, str]
    settings: Mapping[str, str]
    methods: Mapping[str, str]  # and of sweeps that differ from the main one of their method in another setting
    worlds: Mapping[str, str]
    models: Mapping[str, str]  # the setting of each run, by the run's identity

    @staticmethod
    def of(runs: Runs, frame: pl.DataFrame, worlds: Mapping[str, str] | None = None) -> PeopleWords:
        """The names for runs from the rows of a table. `worlds` says how each world is opened, by its label."""
        settings = _setting_names(runs, frame)
        labels = runs.unique("world")
        spoken = {label: world_words(label, (worlds or {}).get(label, label)) for label in labels}
        return PeopleWords(
            _distinct({name: number_words(number, runs.numbers.values()) for name, number in runs.numbers.items()}),
            settings,
            _distinct({name: method_title(name) for name in runs.unique("method")} | _sweep_names(runs, frame)),
            _distinct(spoken),
            {run: settings[setting] for run, setting in runs.run_frame.select("run", "setting").iter_rows()},
        )

    def in_runs(self, runs: Runs) -> Runs:
        """The same runs and numbers under their names for people."""
        names_by_column = dict.fromkeys(("method", "sweep"), self.methods)
        names_by_column |= {"world": self.worlds, "setting": self.settings}
        run_frame = _renamed(runs.run_frame, names_by_column)
        shared = {
            self.methods.get(method, method): tuple(_assignment_words(method, text) for text in texts)
            for method, texts in runs.shared.items()
        }
        by_world = {
            (self.worlds.get(world, world), self.methods.get(method, method)): tuple(
                _assignment_words(method, text) for text in texts
            )
            for (world, method), texts in runs.by_world.items()
        }
        numbers = {self.numbers[name]: number for name, number in runs.numbers.items()}
        draws = None if runs.draws is None else _renamed(runs.draws, {"name": self.numbers})
        return dataclasses.replace(
            runs, run_frame=run_frame, numbers=numbers, shared=shared, by_world=by_world, draws=draws
        )

    def in_table(self, result: ResultTable) -> ResultTable:
        """The same table with names for people in its rows."""
        of_worlds = "metric" in result.frame.columns and result.table.name == "worlds_agreement"
        names = dict.fromkeys(NUMBERS, self.numbers)
        names |= {"other": self.worlds} if of_worlds else {}
        names |= {"world": self.worlds, "method": self.methods, "setting": self.settings, "matrix": _matrix_titles()}
        return result._replace(frame=_renamed(result.frame, names))


def number_words(number: Number, others: Iterable[Number]) -> str:
    """The name for people of a number, with the preset and the settings that tell it from others of its metric."""
    if number.kind == "training":
        return f"{term_words(number.metric.removeprefix('train_'))} in training"
    told_apart = _told_apart(number, [other for other in others if other.metric == number.metric])
    words = score_words(number.metric)
    return f"{words} ({told_apart})" if told_apart else words


def _told_apart(number: Number, variants: Sequence[Number]) -> str:
    """The preset and settings in which a number differs from others of its metric: `among = methods, …`.

    A number among the settings, such as the most partners, is left out if the other settings tell all apart.
    """
    words = [number.preset] if len({other.preset for other in variants}) > 1 else []
    settings = [json.loads(other.settings) for other in variants if other.preset == number.preset]
    names = sorted({name for values in settings for name in values})
    names = [name for name in names if len({str(values.get(name)) for values in settings}) > 1]
    for name in list(names):
        others = [other for other in names if other != name]
        different = {tuple(str(values.get(other)) for other in others) for values in settings}
        if len(different) == len(settings) and all(isinstance(values.get(name, 0.0), float) for values in settings):
            names = others
    chosen = json.loads(number.settings)
    return ", ".join(
        [*words, *(f"{name.replace('_', ' ')} = {text_of(chosen[name])}" for name in names if name in chosen)]
    )


def term_words(term: str) -> str:
    """The name for people of a term that training logs."""
    words = term.replace("_", " ")
    return f"{words} term of the loss" if term in SHIFTED_TERMS else words


def world_words(label: str, opened_by: str) -> str:
    """The name for people of a world: of pictures, the name of their folder or file."""
    spec = WorldSpec.parse(opened_by)
    place = next((spec.options[option] for option in FOLDERS if spec.options.get(option)), "")
    if not place:
        return label if opened_by == label else opened_by
    return " | ".join([Path(place).name or place, *spec.views])


def _setting_names(runs: Runs, frame: pl.DataFrame) -> dict[str, str]:
    """The words for people of each setting. Two settings with the same words keep their own names beside them."""
    rows = frame.unique("run", maintain_order=True).iter_rows(named=True)
    runs_by_identity = {row["run"]: run_from_row(row) for row in rows}
    words = words_for_people(list(runs_by_identity.values()))
    pairs = runs.run_frame.select("setting", "run").unique("setting", maintain_order=True).iter_rows()
    return _distinct({setting: words(runs_by_identity[run]) for setting, run in pairs})


def _sweep_names(runs: Runs, frame: pl.DataFrame) -> dict[str, str]:
    """The words for people of sweeps beside the main one of their method: `β-TCVAE, α = 0`.

    They name the settings in which none of its runs is like a run of the main sweep.
    """
    by_identity = {row["run"]: run_from_row(row) for row in frame.unique("run").iter_rows(named=True)}
    sweeps: dict[tuple[str, str], list[Run]] = {}
    for run, method, sweep in runs.run_frame.select("run", "method", "sweep").iter_rows():
        sweeps.setdefault((method, sweep), []).append(by_identity[run])
    return {
        sweep: in_words(method, _differing(sweeps[method, sweep], sweeps.get((method, method), [])))
        for method, sweep in sweeps
        if sweep != method
    }


def _differing(runs: Sequence[Run], main: Sequence[Run]) -> dict[str, Setting]:
    """The settings of these runs whose values no run of the main sweep has."""
    settings, main_settings = ([all_settings(run) for run in group] for group in (runs, main))
    return {
        name: value
        for name, value in settings[0].items()
        if not {str(other.get(name)) for other in settings} & {str(other.get(name)) for other in main_settings}
    }


def _distinct(names: Mapping[str, str]) -> dict[str, str]:
    """Names for people, by names in tables. Where two would be equal, the name in tables stands behind each."""
    counts = collections.Counter(names.values())
    return {name: words if counts[words] == 1 else f"{words} ({name})" for name, words in names.items()}


def _renamed(frame: pl.DataFrame, names_by_column: Mapping[str, Mapping[str, str]]) -> pl.DataFrame:
    """A frame with other words in some of its columns. Words without another name stay."""
    import polars as pl  # noqa: PLC0415

    columns = [
        pl.col(column).replace(list(names), list(names.values()))
        for column, names in names_by_column.items()
        if column in frame.columns and frame.schema[column] == pl.String and names
    ]
    return frame.with_columns(columns)


def _assignment_words(method: str, assignment: str) -> str:
    """`lambda_od=4` as `λ = 4`."""
    name, _, text = assignment.partition("=")
    value = f"{int(text):,}" if text.isdigit() else text
    return f"{setting_title(method, name)} = {value}"


def _matrix_titles() -> dict[str, str]:
    return {name: metric.matrix for name, metric in METRICS.items() if metric.matrix}
