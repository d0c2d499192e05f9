"""Results as one row for each run. Every table of the papers is a function of these.

The leaderboard and the captions count the runs that diverged. Nothing else uses them.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.ma import MaskedArray

from sober.criteria.registry import CRITERIA
from sober.errors import RequestError, counted, listed
from sober.metrics import METRICS, Meaning
from sober.results.judgement_files import PairScores
from sober.results.short_settings import ShortSettings, short_settings
from sober.results.table_rows import RUN_COLUMNS, SCORE_COLUMNS, TRAINING_COLUMNS
from sober.settings_text import assignments
from sober.short_text import as_call, as_facts
from sober.tasks import TASKS
from sober.types import Better, ScoreKind

if TYPE_CHECKING:
    import polars as pl

UNBOUNDED = (-math.inf, math.inf)
LAST = 10**6  # the place of a number that is in no registry
USUAL_PRESET = "study"  # if a metric was measured with several presets
PUBLISHED = {
    "hyper_reading": "as_published",
    "hyper_variant": "reference",
}  # settings that follow the DAVA paper's code
VARIANT = ("metric", "preset", "settings")  # columns that together name one number about runs


class Number(NamedTuple):
    """One of the numbers about runs: the columns that are the same in all its rows."""

    metric: str
    preset: str
    settings: str
    kind: ScoreKind
    better: Better
    supervised: bool
    matrix: str
    rule: str
    samples_of: str

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def sign(self) -> int:
        """1 if higher is better, -1 if lower is better, else 0."""
        return {"higher": 1, "lower": -1}.get(self.better, 0)


@dataclasses.dataclass(frozen=True, eq=False)
class Runs:
    """Results with a row for each of N runs and a column for each of K numbers. Missing numbers are masked."""

    run_frame: pl.DataFrame  # run, world, method, setting, strength, sweep, reading, seed, steps, diverged
    numbers: Mapping[str, Number]  # the K columns, by the names that tables print
    values: Float[MaskedArray, "N K"]
    flagged: Bool[np.ndarray, "N K"]
    scales: tuple[str, ...]
    shared: Mapping[str, tuple[str, ...]]  # settings that all runs of a method have, by method; under "", all runs
    # By world and method, the options of training that go with the world; names of settings leave them out.
    by_world: Mapping[tuple[str, str], tuple[str, ...]] = dataclasses.field(default_factory=dict)
    pairs: tuple[PairScores, ...] = ()  # of UDR
    draws: pl.DataFrame | None = None  # run, name, pictures, draw, value: every draw of pictures for a metric
    folder: Path | None = None  # the folder of the results, for the files beside the table

    def __repr__(self) -> str:
        facts = {
            "worlds": ", ".join(self.unique("world")),
            "methods": ", ".join(self.unique("method")),
            "numbers": ", ".join(self.names),
        }
        return as_facts(f"{counted(len(self.run_frame), 'run')}, each with {counted(len(self.names), 'number')}", facts)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.numbers)

    def run_column(self, name: str) -> np.ndarray:
        """A column of `run_frame`."""
        return self.run_frame[name].to_numpy()

    def unique(self, name: str) -> list[Any]:
        """The different values in a column of `run_frame`, in its order."""
        return self.run_frame[name].unique(maintain_order=True).to_list()

    def bounds(self, name: str) -> tuple[float, float]:
        """The lowest and the highest value that a number can have; infinite if no registry says."""
        name = self.numbers[name].metric if name in self.numbers else name
        measure = score_meanings().get(name) or CRITERIA.get(name)
        return (measure.low, measure.high) if measure is not None else UNBOUNDED

    def number_columns(self, names: Sequence[str]) -> Float[MaskedArray, "N _"]:
        return self.values[:, [self.names.index(name) for name in names]]

    def oriented(self, name: str) -> Float[MaskedArray, " N"]:
        """A number of each run, with its sign turned if lower is better, so that higher is always better."""
        return self.numbers[name].sign * self.number_columns([name])[:, 0]

    # Kinds of numbers.

    def metrics(self) -> list[str]:
        """Supervised scores, without the unified ones."""
        return [
            name
            for name, number in self.numbers.items()
            if number.kind != "task" and number.supervised and not number.matrix
        ]

    def tasks(self) -> list[str]:
        """Numbers from tasks."""
        return [name for name, number in self.numbers.items() if number.kind == "task"]

    def criteria(self) -> list[str]:
        """Numbers that need no labels."""
        return [
            name
            for name, number in self.numbers.items()
            if number.kind != "task" and not number.supervised and not number.matrix
        ]

    def main_numbers(self) -> list[str]:
        """The numbers from metrics, from tasks, and without labels; no unified scores."""
        return [*self.metrics(), *self.tasks(), *self.criteria()]

    def unified(self) -> list[str]:
        """Unified scores, and the metrics whose rules they use."""
        rules = {number.rule for number in self.numbers.values() if number.matrix}
        return [name for name, number in self.numbers.items() if number.matrix or number.metric in rules]

    def sample_twins(self) -> dict[str, str]:
        """By number about means, the same number about samples. Numbers about means alone are left out."""
        twins = {(number.samples_of, number.preset): name for name, number in self.numbers.items() if number.samples_of}
        keys = {name: (number.metric, number.preset) for name, number in self.numbers.items()}
        return {name: twins[key] for name, key in keys.items() if key in twins}

    def ordered(self, names: Iterable[str]) -> list[str]:
        """Numbers in the order of `reading_order`: headlines, metrics and tasks, criteria."""
        place = {name: place for place, name in reversed(list(enumerate(reading_order())))}
        metric = {name: number.metric for name, number in self.numbers.items()}
        return sorted(names, key=lambda name: (place.get(metric.get(name) or name, LAST), name))

    def headline(self) -> str:
        """The leading number: from a metric if possible, and one with a better direction if possible."""
        names = [*self.ordered(self.metrics()), *self.ordered(self.criteria()), *self.ordered(self.names)]
        return next((name for name in names if self.numbers[name].sign), names[0])

    def headline_metric(self) -> str | None:
        """The leading supervised score; None if no metric has a better direction."""
        return next((name for name in self.ordered(self.metrics()) if self.numbers[name].sign), None)

    def headline_criteria(self) -> list[str]:
        """The criteria whose records say `headline`; if there are none, the first criterion."""
        names = [name for name in self.ordered(self.criteria()) if self.numbers[name].kind == "criterion"]
        criteria = {name: CRITERIA.get(self.numbers[name].metric) for name in names}
        leading = [name for name, criterion in criteria.items() if criterion is not None and criterion.headline]
        return leading or names[:1]

    def headline_tasks(self) -> list[str]:
        """The numbers from tasks whose meanings say `headline`; if there are none, all numbers from tasks."""
        names, meaning_of = self.ordered(self.tasks()), score_meanings()
        meanings = {name: meaning_of.get(self.numbers[name].metric) for name in names}
        return [name for name, meaning in meanings.items() if meaning is not None and meaning.headline] or names

    def summary_numbers(self) -> list[str]:
        """The numbers for a small table: the leading criteria, then the first four metrics."""
        metrics = [name for name in self.ordered(self.metrics()) if self.numbers[name].sign]
        return [*self.headline_criteria(), *metrics[:4]]

    def numbers_of(self, metrics: Sequence[str]) -> list[str]:
        """One number for each of these metrics that was measured: preferably with the preset of studies."""
        chosen: dict[str, str] = {}
        for name, number in self.numbers.items():
            if number.metric in metrics and (number.metric not in chosen or number.preset == USUAL_PRESET):
                chosen[number.metric] = name
        return [chosen[metric] for metric in metrics if metric in chosen]

    def where(self, rows: Bool[np.ndarray, " N"]) -> Runs:
        """The runs in these rows."""
        run_frame = self.run_frame.filter(rows)
        return dataclasses.replace(self, run_frame=run_frame, values=self.values[rows], flagged=self.flagged[rows])

    def not_diverged(self) -> Runs:
        """The runs that did not diverge."""
        return self.where(~self.run_column("diverged"))

    def grouped_by(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Runs]]:
        """Groups of runs with equal values in these columns of `run_frame`, without the runs that diverged."""
        sound = self.not_diverged()
        keys = list(sound.run_frame.select(names).iter_rows())
        for key in dict.fromkeys(keys):
            yield key, sound.where(np.array([key_of_run == key for key_of_run in keys]))

    def grid(self, names: Sequence[str], settings: Sequence[str]) -> Float[MaskedArray, "W K S R"]:
        """Numbers by world, name, setting and seed."""
        sound = self.not_diverged()
        sound = sound.where(np.isin(sound.run_column("setting"), settings))
        axes = [self.unique("world"), list(settings), sorted(set(sound.run_column("seed")))]
        w, s, r = (
            np.array([place[value] for value in sound.run_frame[name]], int)
            for name, place in zip(("world", "setting", "seed"), map(places, axes), strict=True)
        )
        grid = np.ma.masked_all((len(axes[0]), len(axes[1]), len(axes[2]), len(names)))
        grid[w, s, r] = sound.number_columns(names)
        return grid.transpose(0, 3, 1, 2)


def as_runs(data: pl.DataFrame | Runs, pairs: Sequence[PairScores] = (), folder: Path | None = None) -> Runs:
    """Results as one row for each run, in the order of worlds, methods, strengths and seeds."""
    if isinstance(data, Runs):
        return data
    import polars as pl  # noqa: PLC0415

    present = (*data.columns, "clip")  # tables of earlier versions have no column `clip`
    lacking = [name for name in (*RUN_COLUMNS, *SCORE_COLUMNS) if name not in present]
    if lacking or data.is_empty():
        raise RequestError(
            f"the results have no {'column ' + listed(lacking) if lacking else 'rows'}: nothing to tabulate"
        )
    names, numbers = _named(data)
    data = data.join(names, on=VARIANT, how="left", maintain_order="left")
    draws = data.filter(kind="metric").select("run", "name", "pictures", "draw", "value")
    data = preferred(data)
    data = data.with_columns(finite=pl.col("value").is_finite().fill_null(True))
    short, settings = _short(data)
    run_frame = _run_frame(data.join(short, on="run", how="left", maintain_order="left"))
    rows = run_frame.select("run").with_row_index("row")
    columns = pl.DataFrame({"name": list(numbers)}).with_row_index("column")
    located = data.select("run", "name").join(rows, on="run", how="left", maintain_order="left")
    located = located.join(columns, on="name", how="left", maintain_order="left")
    cells = located["row"].to_numpy(), located["column"].to_numpy()
    values = np.full((len(run_frame), len(numbers)), np.nan)
    values[cells] = data["value"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    flagged = np.zeros(values.shape, bool)
    flagged[cells] = (data["flags"].list.len() > 0).to_numpy()
    return Runs(
        run_frame=run_frame,
        numbers=numbers,
        values=np.ma.masked_invalid(values),
        flagged=flagged,
        scales=tuple(data["scale"].fill_null("").unique().sort()),
        shared=settings.shared,
        by_world=settings.by_world,
        pairs=tuple(pairs),
        draws=draws,
        folder=folder,
    )


def joined(folders: Sequence[Runs]) -> Runs:
    """The runs of several folders, with the numbers that all of them have.

    Settings are named as in each folder, so two runs may have one setting and differ in what all runs of a folder
    share, such as their steps.
    """
    import polars as pl  # noqa: PLC0415

    names = [name for name in folders[0].names if all(name in runs.names for runs in folders)]
    places_of = [[runs.names.index(name) for name in names] for runs in folders]
    return Runs(
        run_frame=pl.concat([runs.run_frame for runs in folders]),
        numbers={name: folders[0].numbers[name] for name in names},
        values=np.ma.concatenate([runs.values[:, columns] for runs, columns in zip(folders, places_of, strict=True)]),
        flagged=np.concatenate([runs.flagged[:, columns] for runs, columns in zip(folders, places_of, strict=True)]),
        scales=tuple(sorted({scale for runs in folders for scale in runs.scales})),
        shared={},
    )


def _named(data: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Number]]:
    """A name for each number: its metric, and in brackets the preset and settings in which numbers of it differ."""
    fields = [field for field in Number._fields if field not in VARIANT]
    rows = data.group_by(VARIANT).agg(*map(_first_value, fields)).sort(VARIANT)
    variants = [Number(**row) for row in rows.iter_rows(named=True)]
    names = [_name(number, [other for other in variants if other.metric == number.metric]) for number in variants]
    numbers = dict(sorted(zip(names, variants, strict=True)))
    return rows.select(VARIANT).with_columns(name=_series(names)), numbers


def _name(number: Number, variants: Sequence[Number]) -> str:
    if len(variants) == 1:
        return number.metric
    preset = number.preset if len({other.preset for other in variants}) > 1 else ""
    alike = [other for other in variants if other.preset == number.preset]
    settings = json.loads(number.settings)
    others = [json.loads(other.settings) for other in alike]
    differing = {name: value for name, value in settings.items() if any(o.get(name) != value for o in others)}
    told_apart = " ".join(filter(None, (preset, assignments(differing))))
    return f"{number.metric} [{told_apart}]" if told_apart else number.metric


def preferred(data: pl.DataFrame) -> pl.DataFrame:
    """One row for each run and number: the row with the most pictures, then draws, then models, then the first draw."""
    order = ["pictures", "repeats", "models", "draw"]
    ranked = data.sort(order, descending=[True, True, True, False], maintain_order=True)
    return ranked.unique(["run", *VARIANT], keep="first", maintain_order=True)


def _short(data: pl.DataFrame) -> tuple[pl.DataFrame, ShortSettings]:
    """The short name of each run's setting, and the settings that names leave out."""
    import polars as pl  # noqa: PLC0415

    rows = data.unique("run", maintain_order=True).select("run", "setting", "world").rows()
    settings = short_settings({run: label for run, label, _ in rows}, {run: world for run, _, world in rows})
    return pl.DataFrame({"run": list(settings.names), "short": list(settings.names.values())}), settings


def _first_value(name: str) -> pl.Expr:
    import polars as pl  # noqa: PLC0415

    return pl.col(name).first()


def _series(values: Sequence[str]) -> pl.Series:
    import polars as pl  # noqa: PLC0415

    return pl.Series(values, dtype=pl.String)


def _run_frame(data: pl.DataFrame) -> pl.DataFrame:
    """One row for each run. A run diverged if one of its rows has that flag or a number that is not finite."""
    import polars as pl  # noqa: PLC0415

    flagged = pl.col("flags").list.contains("diverged")
    runs = data.group_by("run").agg(
        pl.col("world", "method", "seed", *TRAINING_COLUMNS, "^hyper_.*$").first(),
        pl.col("short").first().alias("setting"),
        (flagged | ~pl.col("finite")).any().alias("diverged"),
    )
    runs = runs.join(_sweeps(runs), on="run", how="left", maintain_order="left")
    runs = runs.with_columns(reading=_reading(runs))
    runs = runs.sort("world", "method", "strength", "setting", "seed", "run")
    twice = runs.filter(pl.struct("world", "setting", "seed").is_duplicated())
    if len(twice):
        first, second = twice["run"][:2]
        raise RequestError(
            f"runs {first} and {second} have the same world, setting and seed: their settings must differ"
        )
    return runs.select("run", "world", "method", "setting", "strength", "sweep", "reading", "seed", "steps", "diverged")


def _reading(runs: pl.DataFrame) -> pl.Expr:
    """`as_published` for runs that follow the DAVA paper's public code and not its text; null for all others."""
    import polars as pl  # noqa: PLC0415

    settings = [pl.col(name) == value for name, value in PUBLISHED.items() if name in runs.columns]
    return pl.when(pl.any_horizontal(pl.lit(False), *settings)).then(pl.lit("as_published"))


def _sweeps(runs: pl.DataFrame) -> pl.DataFrame:
    """The strength and the sweep of each run, in the order of `runs`.

    The strength is the hyperparameter that takes the most values among runs of one method and world that share all
    other settings; null if several take as many, or none takes two. Runs of such a group are a sweep. The longest sweep
    of a method in a world has the method's name; the names of others add the settings in which they differ from it.
    """
    import polars as pl  # noqa: PLC0415

    hyper = [name for name in runs.columns if name.startswith("hyper_")]
    varied = [name for name in (*hyper, *TRAINING_COLUMNS) if runs[name].n_unique() > 1]
    numbers = [name for name in varied if name in hyper and runs[name].dtype.is_numeric()]
    parts = [_sweeps_of_method(runs_of_method, numbers, varied) for _, runs_of_method in runs.group_by("method")]
    return runs.select("run").join(pl.concat(parts), on="run", how="left", maintain_order="left")


def _sweeps_of_method(runs: pl.DataFrame, numbers: Sequence[str], varied: Sequence[str]) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415

    most = {name: _most_values(runs, name, varied) for name in numbers}
    longest = max(most.values(), default=1)
    swept = [name for name in numbers if most[name] == longest > 1]
    if len(swept) != 1:
        return runs.select("run", pl.lit(None, pl.Float64).alias("strength"), pl.col("method").alias("sweep"))
    strength, others = swept[0], [name for name in varied if name != swept[0]]
    values = pl.col(strength).n_unique().alias("values")
    sweeps = runs.group_by("world", *others).agg(values, pl.len(), pl.col("run").min().alias("first"))
    sweeps = sweeps.sort("values", "len", "first", descending=[True, True, False])
    main = {sweep["world"]: sweep for sweep in reversed(sweeps.rows(named=True))}
    names = [_sweep_name(runs["method"][0], sweep, main[sweep["world"]], others) for sweep in sweeps.rows(named=True)]
    named = sweeps.select("world", *others).with_columns(sweep=_series(names))
    runs = runs.join(named, on=["world", *others], how="left", nulls_equal=True)
    return runs.select("run", pl.col(strength).cast(pl.Float64).alias("strength"), "sweep")


def _most_values(runs: pl.DataFrame, name: str, varied: Sequence[str]) -> int:
    """The most values that a hyperparameter takes among runs of one world that share all other settings."""
    others = [other for other in varied if other != name]
    return int(runs.group_by("world", *others).n_unique()[name].max())  # type: ignore[arg-type]


def _sweep_name(method: str, sweep: Mapping[str, Any], main: Mapping[str, Any], others: Sequence[str]) -> str:
    differing = {name.removeprefix("hyper_"): sweep[name] for name in others if sweep[name] != main[name]}
    set_values = {name: value for name, value in differing.items() if value is not None}
    return f"{method} {assignments(set_values)}" if set_values else method


def places(values: Iterable[Any]) -> dict[Any, int]:
    """The place of each value."""
    return {value: place for place, value in enumerate(values)}


def score_meanings() -> dict[str, Meaning]:
    """The meaning of every score of every metric and task, by the score's name."""
    of_metrics, of_tasks = ([measure.scores for measure in registry.values()] for registry in (METRICS, TASKS))
    return {name: meaning for scores in (*of_metrics, *of_tasks) for name, meaning in scores.items()}


def score_words(name: str) -> str:
    """The name for people of a score of a metric or task, or of a criterion; its own name if it has no other."""
    described = score_meanings().get(name) or CRITERIA.get(name)
    return (described.title if described is not None else "") or name


def reading_order() -> list[str]:
    """The names of all numbers: headlines first, then metrics, tasks and criteria. Headlines come twice."""
    meanings = score_meanings()
    return [*(name for name, meaning in meanings.items() if meaning.headline), *meanings, *CRITERIA]
