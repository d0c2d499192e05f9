"""A study: products of worlds, methods with sweeps and seeds, and what is measured. One short Python file each.

A file defines `study = Study(...)`. It may add its own methods, metrics, worlds or criteria to the registries first:
the file is run by every process that works on the study, so nothing in Sober need change.
"""

from __future__ import annotations

import dataclasses
import sys
import types as python_types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sober.criteria import Criterion, find_criterion
from sober.errors import MissingError, RequestError, UnknownError, brief, listed
from sober.methods import find_method
from sober.models.grid import Pictured, Sweep, grid
from sober.results.request import JUDGED_BY, LOOK, PICTURES, Measure
from sober.tasks import Task, find_task
from sober.types import Asked, Run, Setting, Training
from sober.worlds import World, check_views, world

TRAINING = Training()


@dataclasses.dataclass(frozen=True)
class Product:
    """Every method at every value of its sweep, with every seed, on every world. Defaults: the Sober Look study."""

    worlds: Sequence[str]
    methods: Mapping[str, Sweep]
    seeds: int = 50
    training: Training = TRAINING

    def runs(self, world: Pictured) -> list[Run]:
        """The runs on one of its worlds."""
        return [
            run
            for method, sweep in self.methods.items()
            for run in grid(world, method, sweep, seeds=self.seeds, training=self.training)
        ]


@dataclasses.dataclass(frozen=True)
class Scale:
    """How a study is shrunk. What is None stays."""

    seeds: int | None = None
    steps: int | None = None  # of models, and at most so many of a criterion or a task that trains
    batch: int | None = None
    nets: str | None = None  # of methods that work with any
    worlds: Sequence[str] | None = None
    strengths: int | None = None  # of each sweep, spread over its values
    learning_rate: float | None = None  # fewer steps may be larger ones
    pictures: int | None = None  # for metrics, and at most so many for criteria


@dataclasses.dataclass(frozen=True)
class Study:
    """What to train, what to measure, and whose study it is."""

    name: str
    title: str
    paper: str
    products: Sequence[Product]
    metrics: Sequence[str] | None = None  # the default battery unless told
    preset: str = "study"
    criteria: Mapping[str, Mapping[str, Setting]] | Sequence[str | tuple[str, Mapping[str, Setting]]] = ()
    tasks: Mapping[str, Mapping[str, Setting]] | Sequence[str | tuple[str, Mapping[str, Setting]]] = ()
    pictures: int | None = PICTURES  # that metrics and tasks look at; None is every picture there is
    judged_by: int = JUDGED_BY  # pictures that criteria look at
    scales: Mapping[str, Scale] = dataclasses.field(default_factory=dict)
    keep_codes: bool = False
    scale: str = ""  # what was shrunk, in words

    def __post_init__(self) -> None:
        for name, settings in self.asked:
            find_criterion(name).configured(settings)
        for name, settings in self.asked_tasks:
            find_task(name).configured(self.preset, settings)

    @property
    def asked(self) -> tuple[Asked, ...]:
        """Its criteria, each with its settings; the same may come several times with others."""
        return Asked.all(self.criteria)

    @property
    def asked_tasks(self) -> tuple[Asked, ...]:
        """Its tasks, each with its settings."""
        return Asked.all(self.tasks)

    @property
    def measure(self) -> Measure:
        """What is measured of its models."""
        metrics = None if self.metrics is None else tuple(self.metrics)
        return Measure(
            metrics,
            self.preset,
            self.asked,
            pictures=self.pictures,
            judged_by=self.judged_by,
            show=True,
            keep_codes=self.keep_codes,
            tasks=self.asked_tasks,
        )

    def scaled(self, name: str | None) -> Study:
        """The study at one of its scales; itself without a name."""
        if name is None:
            return self
        if name not in self.scales:
            has = f"choose from {listed(self.scales)}" if self.scales else "it has none"
            raise RequestError(f"study {self.name} has no scale {name!r}: {has}")
        to = self.scales[name]
        words: list[str] = []
        products = [_shrunk(product, to, words) for product in self.products]
        if to.worlds is not None:
            before = {spec for product in self.products for spec in product.worlds}
            after = {spec for product in products for spec in product.worlds}
            words.append(f"worlds {len(before)} → {len(after)}")
        return dataclasses.replace(
            self,
            products=[product for product in products if product.worlds],
            criteria=[_shorter(asked, find_criterion(asked.name), to, words) for asked in self.asked],
            tasks=[_lighter(asked, to, words) for asked in self.asked_tasks],
            pictures=to.pictures or self.pictures,
            judged_by=min(self.judged_by, to.pictures or self.judged_by),
            scale=", ".join(dict.fromkeys(words)),
        )

    def worlds(self) -> list[str]:
        return list(dict.fromkeys(spec for product in self.products for spec in product.worlds))


def _shrunk(product: Product, to: Scale, words: list[str]) -> Product:
    training, seeds = product.training, product.seeds
    if to.seeds is not None and to.seeds < seeds:
        words.append(f"seeds {seeds:,} → {to.seeds:,}")
        seeds = to.seeds
    if to.steps is not None and to.steps < training.steps:
        words.append(f"steps {training.steps:,} → {to.steps:,}")
        training = training.but(steps=to.steps)
    if to.batch is not None and to.batch < training.batch:
        words.append(f"batch {training.batch:,} → {to.batch:,}")
        training = training.but(batch=to.batch)
    if to.nets not in (None, training.nets) and all(find_method(name).nets is None for name in product.methods):
        words.append(f"nets {training.nets or 'by size'} → {to.nets}")
        training = training.but(nets=to.nets)
    rate = training.optimiser.learning_rate
    if to.learning_rate is not None and to.learning_rate != rate:
        words.append(f"learning rate {rate:g} → {to.learning_rate:g}")
        training = training.but(learning_rate=to.learning_rate)
    shorter = training.steps / product.training.steps
    return Product(
        product.worlds if to.worlds is None else [spec for spec in product.worlds if spec in to.worlds],
        {m: _shrunk_sweep(m, sweep, to.strengths, shorter, words) for m, sweep in product.methods.items()},
        seeds,
        training,
    )


def _shrunk_sweep(method: str, sweep: Sweep, strengths: int | None, shorter: float, words: list[str]) -> Sweep:
    """Fewer values of a sweep; and what is counted in steps, or a step, keeps its part in a shorter training."""
    of = find_method(method)
    values: dict[str, list[Any]] = {
        name: list(each) if isinstance(each, list | tuple) else [each]
        for name, each in (of.sweep(sweep) if isinstance(sweep, str) else sweep).items()
    }
    for name, each in values.items():
        if strengths is not None and len(each) > strengths:
            places = [round(k * (len(each) - 1) / max(strengths - 1, 1)) for k in range(strengths)]
            words.append(f"strengths {len(each)} → {strengths}")
            values[name] = [each[place] for place in places]
    for hyper in of.hyper:
        if hyper.with_steps and shorter != 1:
            now = values.get(hyper.name, [hyper.default])
            moved = (_two_digits(float(value) * shorter**hyper.with_steps) for value in now)
            values[hyper.name] = [min(max(value, hyper.low), hyper.high) for value in moved]
            words.append(f"{hyper.name} in proportion")
    return values


def _shorter(asked: Asked, measure: Criterion | Task, to: Scale, words: list[str]) -> Asked:
    """A criterion or a task that trains, as PIPE does, takes no more steps than the models that it is about."""
    if not measure.steps or to.steps is None:
        return asked
    before = {**measure.settings, **asked.settings}[measure.steps]
    assert isinstance(before, int | float)
    if before <= to.steps:
        return asked
    words.append(f"{asked.name} steps {before:,} → {to.steps:,}")
    return asked._replace(settings={**asked.settings, measure.steps: to.steps})


def _lighter(asked: Asked, to: Scale, words: list[str]) -> Asked:
    """A task of a scale that only looks whether a study runs is as quick as it can be: numbers say how much it does."""
    task = find_task(asked.name)
    if to.steps is None or to.steps >= LOOK:
        return _shorter(asked, task, to, words)
    words.append(f"{asked.name} as quick as it can be")
    quick = {name: value for name, value in task.quick.items() if not isinstance(value, str)}
    return asked._replace(settings={**asked.settings, **quick})


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


class Absent(NamedTuple):
    """Stands in a plan for a world whose files are not here: of a name, and pictures of a shape."""

    label: str
    image_shape: tuple[int, int, int]
    size: int  # in pictures, without its views
    why: str


def planned_world(spec: str, fetch: bool = False) -> World | Absent:
    """The world, or what is known of it where its files are missing; with `fetch` they are downloaded.

    Anything else that is wrong with a spec, or with its views, is an error, whether files are there or not.
    """
    check_views(spec)
    base = spec.split(" | ", maxsplit=1)[0].strip()  # without its views, which may need the files
    opened = world(base)
    absent = opened.absent()
    if absent is None or fetch:
        try:
            whole = world(spec)
            _ = whole.label
            return whole
        except MissingError as error:
            absent = brief(error)
    return Absent(spec, opened.image_shape, opened.size, absent)


def shipped() -> dict[str, Path]:
    """The studies that come with Sober, by name."""
    beside = Path(__file__).resolve().parents[1] / "studies"  # in a wheel
    folder = beside if beside.is_dir() else Path(__file__).resolve().parents[3] / "studies"
    return {path.stem: path for path in sorted(folder.glob("*.py"))}


def find_study(name: str | Path) -> tuple[Study, str]:
    """The study of that name, or in that Python file, and its source."""
    path = Path(name) if str(name).endswith(".py") else shipped().get(str(name))
    if path is None:
        raise UnknownError(f"unknown study {str(name)!r}: choose from {listed(shipped())}, or give a Python file")
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({brief(error)})") from error
    return study_of(source, str(path)), source


def study_of(source: str, path: str) -> Study:
    """The study that a file's source defines. Whoever runs a study runs its file: it is code."""
    module = python_types.ModuleType(f"sober_study_{abs(hash(path)):x}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses defined in the file look their module up
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except RequestError:
        raise
    except Exception as error:
        raise RequestError(f"{path} fails: {type(error).__name__}: {brief(error)}") from error
    found = getattr(module, "study", None)
    if not isinstance(found, Study):
        raise RequestError(f"{path} defines no study: it must say study = Study(...)")
    return found
