"""The request that a folder answers: the runs, in cohorts that train together, and what to measure about the models."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Container, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from sober.defaults import JUDGED_BY
from sober.settings_text import text_of
from sober.short_text import as_call
from sober.types import NamedSettings, Run

FORMAT = 2
FEWEST_STEPS = 20  # with fewer training steps, a study only shows that it runs
PICTURES = 20_000  # encoded for the metrics, which draw 10,000 rows to learn from and 5,000 to test on

Maker = Literal["train", "fit", "tune", "study", "probe"]


@dataclasses.dataclass(frozen=True)
class Measure:
    """What to measure about trained models: metrics use factors, criteria do without, tasks use the codes."""

    metrics: tuple[str, ...] | None = ()  # metrics or single scores; None is the whole battery
    preset: str = "study"
    criteria: tuple[NamedSettings, ...] = ()
    among: Literal["world", "setting", "cohort"] = "world"  # criteria compare the models that share this
    pictures: int | None = PICTURES  # encoded for the metrics; None is every picture of the world
    judged_by: int = JUDGED_BY  # pictures encoded for the criteria
    seed: int = 0  # of every random draw
    repeats: int = 1  # how often metrics draw their rows
    show: bool = False  # whether to save showcases of chosen models for the report
    keep_codes: bool = True
    tasks: tuple[NamedSettings, ...] = ()

    def __repr__(self) -> str:
        return as_call(self)

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it. Without tasks there is no key `tasks`, as in folders from before there were tasks."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "tasks"}
        tasks = {"tasks": [task.plain() for task in self.tasks]} if self.tasks else {}
        return {**fields, "criteria": [criterion.plain() for criterion in self.criteria], **tasks}

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Measure:
        metrics = plain["metrics"]
        return Measure(
            **{
                **plain,
                "metrics": None if metrics is None else tuple(metrics),
                "criteria": NamedSettings.parse_all(plain["criteria"]),
                "tasks": NamedSettings.parse_all(plain.get("tasks", ())),
            }
        )


class Cohort(NamedTuple):
    """Runs of one world that train in one compiled program: a piece of work."""

    name: str
    world: str  # the world's label in the runs
    runs: tuple[Run, ...]

    def __repr__(self) -> str:
        return as_call(self)

    @staticmethod
    def of(runs: Sequence[Run]) -> Cohort:
        """A cohort of these runs. Its name is a hash of their identities."""
        names = ",".join(run.identity for run in runs)
        return Cohort(hashlib.sha256(names.encode()).hexdigest()[:12], runs[0].world, tuple(runs))


class Pace(NamedTuple):
    """How fast a machine is, as it was measured when a fit was planned."""

    before: float  # seconds before training
    per_step: float  # seconds of the whole fit for each step of all methods that were kept, with judging and drawing

    def __repr__(self) -> str:
        return as_call(self)

    def minutes(self, steps: float) -> float:
        """How long a fit with this many steps takes."""
        return (self.before + steps * self.per_step) / 60


@dataclasses.dataclass(frozen=True)
class Request:
    """Everything that determines what a folder of results will hold."""

    maker: Maker
    asked: Mapping[str, Any]  # plain values; two requests with equal ones are the same request
    worlds: Mapping[str, str]  # how to open each world, by its label
    cohorts: tuple[Cohort, ...] = ()
    measure: Measure = Measure()
    name: str = ""
    title: str = ""
    paper: str = ""
    scale: str = ""  # what was shrunk, in words
    command: str = ""
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)  # by unavailable world, the reason
    notes: tuple[str, ...] = ()  # what was decided for the person who asked, in sentences
    pace: Pace | None = None  # if the time decided the number of steps

    def __repr__(self) -> str:
        return as_call(self)

    @functools.cached_property
    def runs(self) -> dict[str, Run]:
        """The runs of all cohorts, by identity."""
        return {run.identity: run for cohort in self.cohorts for run in cohort.runs}

    def by_world(self) -> dict[str, tuple[Run, ...]]:
        """The runs on each world, by its label."""
        runs_by_world: dict[str, list[Run]] = {}
        for cohort in self.cohorts:
            runs_by_world.setdefault(cohort.world, []).extend(cohort.runs)
        return {label: tuple(runs) for label, runs in runs_by_world.items()}

    def grown(self, request: Request, finished: Container[str]) -> Request:
        """The new request, with this request's finished runs. Runs of this request stay in their cohorts."""
        old_cohorts, old_runs = [], set()
        for cohort in self.cohorts:
            runs = [run for run in cohort.runs if run.identity in request.runs or run.identity in finished]
            old_runs |= {run.identity for run in runs}
            old_cohorts += [Cohort.of(runs)] if runs else []
        new_runs = [[run for run in cohort.runs if run.identity not in old_runs] for cohort in request.cohorts]
        cohorts = (*old_cohorts, *(Cohort.of(runs) for runs in new_runs if runs))
        return dataclasses.replace(request, cohorts=cohorts, worlds={**self.worlds, **request.worlds})

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it. Without notes there is no key `notes`, and so for `pace`, as in older folders."""
        names = [field.name for field in dataclasses.fields(self) if field.name not in ("notes", "pace")]
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in names},
            **({"notes": list(self.notes)} if self.notes else {}),
            **({"pace": self.pace._asdict()} if self.pace else {}),
            "measure": self.measure.plain(),
            "cohorts": [[run.identity for run in cohort.runs] for cohort in self.cohorts],
            "runs": [run.canonical() for run in self.runs.values()],
        }

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Request:
        """The request whose `plain()` this is."""
        if plain["maker"] not in get_args(Maker):
            raise ValueError(f"unknown maker {plain['maker']!r}")
        runs = {run.identity: run for run in map(Run.of, plain["runs"])}
        names = {field.name for field in dataclasses.fields(Request)} - {"cohorts", "measure", "notes", "pace"}
        return Request(
            **{name: plain[name] for name in names},
            measure=Measure.of(plain["measure"]),
            notes=tuple(plain.get("notes", ())),
            pace=Pace(*(float(plain["pace"][name]) for name in Pace._fields)) if "pace" in plain else None,
            cohorts=tuple(Cohort.of([runs[identity] for identity in cohort]) for cohort in plain["cohorts"]),
        )


def asked_of(runs: Sequence[Run]) -> dict[str, Any]:
    """The `asked` of a request for these runs: by field, its values in the runs."""
    values: dict[str, list[Any]] = {}
    for run in runs:
        for name, value in {**run.flat(), **run.hyper}.items():
            if value not in values.setdefault(name, []):
                values[name].append(value)
    return values


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """How the `asked` of two requests differ, in words: `steps 20, not 30`; empty if they are equal."""
    names = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    return "; ".join(f"{name} {_in_words(before.get(name))}, not {_in_words(after.get(name))}" for name in names)


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{name} {_in_words(inner)}" for name, inner in value.items()) + ")"
    if isinstance(value, list | tuple):
        return ",".join(map(text_of, value)) or "none"
    return "none" if value is None else text_of(value)
