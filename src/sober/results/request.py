"""What was asked of a folder: the runs, in cohorts that train together, and what to measure of their models."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from sober.criteria.criterion import PICTURES as JUDGED_BY
from sober.results.settings import flat
from sober.training.cohort import signature
from sober.types import Asked, Run
from sober.words import text_of

FORMAT = 2
LOOK = 20  # steps: models that took fewer show that a study runs, and nothing else
PICTURES = 20_000  # that models are scored by: metrics draw 10,000 to learn from and 5,000 to be tested on

Maker = Literal["train", "fit", "tune", "study"]


@dataclasses.dataclass(frozen=True)
class Measure:
    """What to measure of trained models: by metrics, which look at factors, by criteria, which do not, and in use."""

    metrics: tuple[str, ...] | None = ()  # metrics or single scores; None is the whole battery
    preset: str = "study"
    criteria: tuple[Asked, ...] = ()
    among: Literal["world", "setting", "cohort"] = "world"  # whose models criteria compare with each other
    pictures: int | None = PICTURES  # that metrics look at; None is every picture there is
    judged_by: int = JUDGED_BY  # pictures that criteria look at
    seed: int = 0  # of all that is drawn
    repeats: int = 1  # how often metrics draw their rows
    show: bool = False  # whether to keep what a report shows of chosen models
    keep_codes: bool = True
    tasks: tuple[Asked, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it. Tasks came later than folders that do without: those stay as they are."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "tasks"}
        tasks = {"tasks": [asked.plain() for asked in self.tasks]} if self.tasks else {}
        return {**fields, "criteria": [asked.plain() for asked in self.criteria], **tasks}

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Measure:
        metrics = plain["metrics"]
        return Measure(
            **{
                **plain,
                "metrics": None if metrics is None else tuple(metrics),
                "criteria": Asked.all(plain["criteria"]),
                "tasks": Asked.all(plain.get("tasks", ())),
            }
        )


class Cohort(NamedTuple):
    """Runs of one world that train in one compiled program: a piece of work."""

    name: str
    world: str  # the label, as the runs have it
    runs: tuple[Run, ...]

    @staticmethod
    def of(runs: Sequence[Run]) -> Cohort:
        """A cohort of these runs, named by them."""
        names = ",".join(run.identity for run in runs)
        return Cohort(hashlib.sha256(names.encode()).hexdigest()[:12], runs[0].world, tuple(runs))


def cohorts_of(runs: Iterable[Run], together: int | None = None) -> list[Cohort]:
    """Runs that share a world and a program, seed by seed, at most so many in one: more seeds leave the first alone."""
    alike: dict[Any, list[Run]] = {}
    for run in runs:
        alike.setdefault((run.world, signature(run)), []).append(run)
    cohorts = []
    for group in alike.values():
        in_order = sorted(group, key=lambda run: run.seed) if together else group
        size = together or len(group)
        cohorts += [Cohort.of(in_order[start : start + size]) for start in range(0, len(group), size)]
    return cohorts


@dataclasses.dataclass(frozen=True)
class Request:
    """Everything that determines what a folder of results will hold."""

    maker: Maker
    asked: Mapping[str, Any]  # plain values that must be the same for the same request
    worlds: Mapping[str, str]  # how to open each world, by its label
    cohorts: tuple[Cohort, ...] = ()
    measure: Measure = Measure()
    name: str = ""
    title: str = ""
    paper: str = ""
    scale: str = ""  # what was shrunk, in words
    command: str = ""
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)  # worlds that are not here, and why

    @functools.cached_property
    def runs(self) -> dict[str, Run]:
        """By identity."""
        return {run.identity: run for cohort in self.cohorts for run in cohort.runs}

    def by_world(self) -> dict[str, tuple[Run, ...]]:
        """The runs on each world, by its label."""
        found: dict[str, list[Run]] = {}
        for cohort in self.cohorts:
            found.setdefault(cohort.world, []).extend(cohort.runs)
        return {label: tuple(runs) for label, runs in found.items()}

    def grown(self, now: Request, finished: Container[str]) -> Request:
        """What is asked now, beside runs that are finished; those asked for before are in the cohorts that they had."""
        kept, known = [], set()
        for cohort in self.cohorts:
            runs = [run for run in cohort.runs if run.identity in now.runs or run.identity in finished]
            known |= {run.identity for run in runs}
            kept += [Cohort.of(runs)] if runs else []
        new = [[run for run in cohort.runs if run.identity not in known] for cohort in now.cohorts]
        cohorts = (*kept, *(Cohort.of(runs) for runs in new if runs))
        return dataclasses.replace(now, cohorts=cohorts, worlds={**self.worlds, **now.worlds})

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            "format": FORMAT,
            **fields,
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
        names = {field.name for field in dataclasses.fields(Request)} - {"cohorts", "measure"}
        return Request(
            **{name: plain[name] for name in names},
            measure=Measure.of(plain["measure"]),
            cohorts=tuple(Cohort.of([runs[identity] for identity in cohort]) for cohort in plain["cohorts"]),
        )


def asked_of(runs: Sequence[Run]) -> dict[str, Any]:
    """Runs as what a person would have asked for: for each field the values that it takes."""
    values: dict[str, list[Any]] = {}
    for run in runs:
        for name, value in {**flat(run), **run.hyper}.items():
            if value not in values.setdefault(name, []):
                values[name].append(value)
    return values


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What two requests differ in, in words: `steps 20, not 30`; empty where they are the same."""
    names = [name for name in dict.fromkeys((*before, *now)) if before.get(name) != now.get(name)]
    return "; ".join(f"{name} {_said(before.get(name))}, not {_said(now.get(name))}" for name in names)


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{name} {_said(inner)}" for name, inner in value.items()) + ")"
    if isinstance(value, list | tuple):
        return ",".join(map(text_of, value)) or "none"
    return "none" if value is None else text_of(value)
