"""Results as one row for each run, which every table is a function of.

Runs that diverged are counted in the leaderboard and the captions, and take part in nothing else.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.ma import MaskedArray

from sober.criteria.registry import CRITERIA
from sober.errors import RequestError, listed
from sober.metrics import METRICS, Meaning
from sober.results.judged import Pairs
from sober.results.rows import OF_RUN, OF_SCORE, run_of
from sober.results.settings import short_settings
from sober.tasks import TASKS
from sober.types import Better, ScoreKind
from sober.words import assignments

if TYPE_CHECKING:
    import polars as pl

LAST = 10**6  # the place of what no registry knows
USUAL_PRESET = "study"  # of metrics, where there are several
VARIANT = ("metric", "preset", "settings")  # what tells one number about runs from another


class Number(NamedTuple):
    """What is known of one of the numbers about runs, as its rows say."""

    metric: str
    preset: str
    settings: str
    kind: ScoreKind
    better: Better
    supervised: bool
    matrix: str
    rule: str
    samples_of: str

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is, 0 where neither."""
        return {"higher": 1, "lower": -1}.get(self.better, 0)


@dataclasses.dataclass(frozen=True, eq=False)
class Runs:
    """Results with a row for each of N runs and a column for each of K numbers, masked where there is none."""

    about: pl.DataFrame  # run, world, method, setting, strength, seed, steps, diverged
    numbers: Mapping[str, Number]  # the K columns, by the names that people read
    values: Float[MaskedArray, "N K"]
    flagged: Bool[np.ndarray, "N K"]
    scales: tuple[str, ...]
    shared: Mapping[str, Mapping[str, Any]]  # values that all settings have, under "", or all of a method
    pairs: tuple[Pairs, ...] = ()  # of UDR, by world
    draws: pl.DataFrame | None = None  # run, name, pictures, draw, value: metrics on other draws of pictures, too
    folder: Path | None = None  # whose results these are, for what it keeps beside the table

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.numbers)

    def labels(self, name: str) -> np.ndarray:
        """A column of `about`."""
        return self.about[name].to_numpy()

    def different(self, name: str) -> list[Any]:
        """The values of a column of `about`, in its order."""
        return self.about[name].unique(maintain_order=True).to_list()

    def columns(self, names: Sequence[str]) -> Float[MaskedArray, "N _"]:
        return self.values[:, [self.names.index(name) for name in names]]

    def turned(self, name: str) -> Float[MaskedArray, " N"]:
        """A column turned so that more is better."""
        return self.numbers[name].sign * self.columns([name])[:, 0]

    # What the numbers are.

    def metrics(self) -> list[str]:
        """Supervised scores, each whole: no unified ones."""
        return [
            name
            for name, number in self.numbers.items()
            if number.kind != "task" and number.supervised and not number.matrix
        ]

    def tasks(self) -> list[str]:
        """What codes were good for."""
        return [name for name, number in self.numbers.items() if number.kind == "task"]

    def criteria(self) -> list[str]:
        """All that needs no labels."""
        return [
            name
            for name, number in self.numbers.items()
            if number.kind != "task" and not number.supervised and not number.matrix
        ]

    def whole(self) -> list[str]:
        """All numbers that stand for themselves: of metrics, tasks, and what needs no labels."""
        return [*self.metrics(), *self.tasks(), *self.criteria()]

    def unified(self) -> list[str]:
        """Unified scores, and the metrics whose rules they are made of."""
        rules = {number.rule for number in self.numbers.values() if number.matrix}
        return [name for name, number in self.numbers.items() if number.matrix or number.metric in rules]

    def sampled(self) -> dict[str, str]:
        """Numbers about means that have a twin about samples, and the twin of each."""
        twins = {(number.samples_of, number.preset): name for name, number in self.numbers.items() if number.samples_of}
        keys = {name: (number.metric, number.preset) for name, number in self.numbers.items()}
        return {name: twins[key] for name, key in keys.items() if key in twins}

    def ordered(self, names: Iterable[str]) -> list[str]:
        """Numbers in the order in which a reader looks for them: speakers for others, metrics, criteria."""
        place = {name: at for at, name in reversed(list(enumerate(reading_order())))}
        metric = {name: number.metric for name, number in self.numbers.items()}
        return sorted(names, key=lambda name: (place.get(metric.get(name) or name, LAST), name))

    def leading(self) -> str:
        """The number that speaks for the others: a metric where there is one, and one that has a good end."""
        names = [*self.ordered(self.metrics()), *self.ordered(self.criteria()), *self.ordered(self.names)]
        return next((name for name in names if self.numbers[name].sign), names[0])

    def leading_metric(self) -> str | None:
        """The supervised score that speaks for the others."""
        return next((name for name in self.ordered(self.metrics()) if self.numbers[name].sign), None)

    def leading_criteria(self) -> list[str]:
        """The criteria that may speak for the others; one of the others where there are none of those."""
        names = [name for name in self.ordered(self.criteria()) if self.numbers[name].kind == "criterion"]
        known = {name: CRITERIA.get(self.numbers[name].metric) for name in names}
        leading = [name for name, criterion in known.items() if criterion is not None and criterion.headline]
        return leading or names[:1]

    def leading_tasks(self) -> list[str]:
        """The numbers of tasks that speak for the others; all where none does."""
        names, about = self.ordered(self.tasks()), meanings()
        known = {name: about.get(self.numbers[name].metric) for name in names}
        return [name for name, meaning in known.items() if meaning is not None and meaning.headline] or names

    def headlines(self) -> list[str]:
        """The few numbers that a small table has room for: criteria first, then metrics."""
        metrics = [name for name in self.ordered(self.metrics()) if self.numbers[name].sign]
        return [*self.leading_criteria(), *metrics[:4]]

    def of_metrics(self, metrics: Sequence[str]) -> list[str]:
        """The numbers of these metrics that are there, one of each: of several that under the study's preset."""
        chosen: dict[str, str] = {}
        for name, number in self.numbers.items():
            if number.metric in metrics and (number.metric not in chosen or number.preset == USUAL_PRESET):
                chosen[number.metric] = name
        return [chosen[metric] for metric in metrics if metric in chosen]

    def where(self, rows: Bool[np.ndarray, " N"]) -> Runs:
        """Some of the runs."""
        about = self.about.filter(rows)
        return dataclasses.replace(self, about=about, values=self.values[rows], flagged=self.flagged[rows])

    def sound(self) -> Runs:
        """Without those that diverged."""
        return self.where(~self.labels("diverged"))

    def by(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Runs]]:
        """The sound runs that share these columns of `about`."""
        sound = self.sound()
        keys = list(sound.about.select(names).iter_rows())
        for key in dict.fromkeys(keys):
            yield key, sound.where(np.array([each == key for each in keys]))

    def grid(self, names: Sequence[str], settings: Sequence[str]) -> Float[MaskedArray, "W K S R"]:
        """Numbers by world, name, setting and seed."""
        sound = self.sound()
        sound = sound.where(np.isin(sound.labels("setting"), settings))
        axes = [self.different("world"), list(settings), sorted(set(sound.labels("seed")))]
        w, s, r = (
            np.array([place[each] for each in sound.about[name]], int)
            for name, place in zip(("world", "setting", "seed"), map(places, axes), strict=True)
        )
        found = np.ma.masked_all((len(axes[0]), len(axes[1]), len(axes[2]), len(names)))
        found[w, s, r] = sound.columns(names)
        return found.transpose(0, 3, 1, 2)


def as_runs(data: pl.DataFrame | Runs, pairs: Sequence[Pairs] = (), folder: Path | None = None) -> Runs:
    """Results as one row for each run, in the order of worlds, methods, strengths and seeds."""
    if isinstance(data, Runs):
        return data
    import polars as pl  # noqa: PLC0415

    lacking = [name for name in (*OF_RUN, *OF_SCORE) if name not in (*data.columns, "clip")]  # which older ones lack
    if lacking or data.is_empty():
        raise RequestError(
            f"the results have no {'column ' + listed(lacking) if lacking else 'rows'}: nothing to tabulate"
        )
    names, numbers = _named(data)
    data = data.join(names, on=VARIANT, how="left", maintain_order="left")
    draws = data.filter(kind="metric").select("run", "name", "pictures", "draw", "value")
    data = preferred(data)
    data = data.with_columns(finite=pl.col("value").is_finite().fill_null(True))
    short, shared = _short(data)
    about = _about(data.join(short, on="run", how="left", maintain_order="left"))
    places = [
        data.select("run").join(about.select("run").with_row_index("at"), on="run", how="left", maintain_order="left"),
        data.select("name").join(
            pl.DataFrame({"name": list(numbers)}).with_row_index("at"), on="name", how="left", maintain_order="left"
        ),
    ]
    at = tuple(each["at"].to_numpy() for each in places)
    values = np.full((len(about), len(numbers)), np.nan)
    values[at] = data["value"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    flagged = np.zeros(values.shape, bool)
    flagged[at] = (data["flags"].list.len() > 0).to_numpy()
    return Runs(
        about=about,
        numbers=numbers,
        values=np.ma.masked_invalid(values),
        flagged=flagged,
        scales=tuple(data["scale"].fill_null("").unique().sort()),
        shared=shared,
        pairs=tuple(pairs),
        draws=draws,
        folder=folder,
    )


def _named(data: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Number]]:
    """A name for each number in the results: the metric, and in brackets what tells it from others of that metric."""
    fields = [field for field in Number._fields if field not in VARIANT]
    rows = data.group_by(VARIANT).agg(*(data_first(field) for field in fields)).sort(VARIANT)
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
    """One row for each run and number: of several that of most pictures, most draws, most models, the first seed."""
    order = ["pictures", "repeats", "models", "draw"]
    ranked = data.sort(order, descending=[True, True, True, False], maintain_order=True)
    return ranked.unique(["run", *VARIANT], keep="first", maintain_order=True)


def _short(data: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Mapping[str, Any]]]:
    """The setting of each run in as few words as tell it from the others, and what all share."""
    import polars as pl  # noqa: PLC0415

    rows = data.unique("run", maintain_order=True).iter_rows(named=True)
    names, shared = short_settings({row["run"]: run_of(row) for row in rows})
    return pl.DataFrame({"run": list(names), "short": list(names.values())}), shared


def data_first(name: str) -> pl.Expr:
    import polars as pl  # noqa: PLC0415

    return pl.col(name).first()


def _series(values: Sequence[str]) -> pl.Series:
    import polars as pl  # noqa: PLC0415

    return pl.Series(values, dtype=pl.String)


def _about(data: pl.DataFrame) -> pl.DataFrame:
    """One row for each run. A run diverged if one of its rows says so, or holds a number that is not finite."""
    import polars as pl  # noqa: PLC0415

    said = pl.col("flags").list.contains("diverged")
    about = data.group_by("run").agg(
        pl.col("world", "method", "seed", "steps", "^hyper_.*$").first(),
        pl.col("short").first().alias("setting"),
        (said | ~pl.col("finite")).any().alias("diverged"),
    )
    about = about.with_columns(strength=_strength(about)).sort("world", "method", "strength", "setting", "seed", "run")
    twice = about.filter(pl.struct("world", "setting", "seed").is_duplicated())
    if len(twice):
        first, second = twice["run"][:2]
        raise RequestError(
            f"runs {first} and {second} have the same world, setting and seed: their settings must differ"
        )
    return about.select("run", "world", "method", "setting", "strength", "seed", "steps", "diverged")


def _strength(about: pl.DataFrame) -> pl.Expr:
    """The one number among a method's hyperparameters that takes several values; null where it is not one."""
    import polars as pl  # noqa: PLC0415

    numbers = [name for name, kind in about.schema.items() if name.startswith("hyper_") and kind.is_numeric()]
    strength = pl.lit(None, pl.Float64)
    for (method,), part in about.group_by("method"):
        varied = [name for name in numbers if part[name].n_unique() > 1]
        if len(varied) == 1:
            strength = pl.when(pl.col("method") == method).then(pl.col(varied[0])).otherwise(strength)
    return strength


def places(values: Iterable[Any]) -> dict[Any, int]:
    return {value: at for at, value in enumerate(values)}


def meanings() -> dict[str, Meaning]:
    """What every score of every metric and task means, by its name."""
    of_metrics, of_tasks = ([measure.scores for measure in known.values()] for known in (METRICS, TASKS))
    return {name: meaning for scores in (*of_metrics, *of_tasks) for name, meaning in scores.items()}


def reading_order() -> list[str]:
    """The names of all numbers, those first that speak for the others."""
    known = meanings()
    return [*(name for name, meaning in known.items() if meaning.headline), *known, *CRITERIA]
