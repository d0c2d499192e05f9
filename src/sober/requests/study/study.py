"""A study: which worlds, methods, sweeps and seeds to train, and what to measure. Each study is a short Python file.

The file defines `study = Study(...)`. Before that it may add its own methods, metrics, worlds or criteria to the
registries: every process that works on the study runs the file, so Sober itself need not change.
"""

from __future__ import annotations

import dataclasses
import sys
import types as python_types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sober.criteria import Criterion, find_criterion
from sober.defaults import JUDGED_BY
from sober.errors import MissingError, RequestError, brief, choices, unknown
from sober.methods import find_method
from sober.models.grid import PictureSource, Sweep, grid
from sober.results.request import FEWEST_STEPS, PICTURES, Measure
from sober.short_text import as_call
from sober.tasks import Task, find_task
from sober.types import NamedSettings, Run, Setting, Training, WorldSpec
from sober.worlds import World, check_views, world

TRAINING = Training()


@dataclasses.dataclass(frozen=True)
class Product:
    """Every method at every value of its sweep, with every seed, on every world. Defaults: the Sober Look study."""

    worlds: Sequence[str]
    methods: Mapping[str, Sweep]
    seeds: int = 50
    training: Training = TRAINING

    def __repr__(self) -> str:
        return as_call(self)

    def runs(self, world: PictureSource) -> list[Run]:
        """The runs on one of its worlds."""
        return [
            run
            for method, sweep in self.methods.items()
            for run in grid(world, method, sweep, seeds=self.seeds, training=self.training)
        ]


@dataclasses.dataclass(frozen=True)
class Scale:
    """A smaller version of a study. A field that is None leaves the study's value as it is."""

    seeds: int | None = None
    steps: int | None = None  # of models; also the most steps of a criterion or a task that trains
    batch: int | None = None
    steps_of: Mapping[str, int] = dataclasses.field(default_factory=dict)  # by method, where it is not `steps`
    nets: str | None = None  # for products whose methods work with any nets
    worlds: Sequence[str] | None = None
    stand_ins: Mapping[str, str] = dataclasses.field(default_factory=dict)  # by world, the world that takes its place
    strengths: int | None = None  # values of each sweep, taken evenly from all of its values
    learning_rate: float | None = None  # shorter training may need a higher one
    pictures: int | None = None  # for metrics; also the most pictures for criteria

    def __repr__(self) -> str:
        return as_call(self)


@dataclasses.dataclass(frozen=True)
class Study:
    """What to train, what to measure, and the paper that the study is from."""

    name: str
    title: str
    paper: str
    products: Sequence[Product]
    metrics: Sequence[str] | None = None  # None is the default battery
    preset: str = "study"
    criteria: Mapping[str, Mapping[str, Setting]] | Sequence[str | tuple[str, Mapping[str, Setting]]] = ()
    tasks: Mapping[str, Mapping[str, Setting]] | Sequence[str | tuple[str, Mapping[str, Setting]]] = ()
    pictures: int | None = PICTURES  # how many metrics and tasks use; None is all pictures of the world
    judged_by: int = JUDGED_BY  # how many pictures criteria use
    scales: Mapping[str, Scale] = dataclasses.field(default_factory=dict)
    keep_codes: bool = False
    scale: str = ""  # what a scale has changed, in words
    items_of: str = ""  # the study whose paper's tables and figures it makes, too; itself if empty

    def __post_init__(self) -> None:
        for name, settings in self.asked:
            find_criterion(name).configured(settings)
        for name, settings in self.asked_tasks:
            find_task(name).configured(self.preset, settings)

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def asked(self) -> tuple[NamedSettings, ...]:
        """Its criteria, each with its settings. A criterion may occur several times, with different settings."""
        return NamedSettings.parse_all(self.criteria)

    @property
    def asked_tasks(self) -> tuple[NamedSettings, ...]:
        """Its tasks, each with its settings."""
        return NamedSettings.parse_all(self.tasks)

    @property
    def measure(self) -> Measure:
        """How its models are measured."""
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
        """The study at the scale of that name. Without a name, the study as it is."""
        if name is None:
            return self
        if name not in self.scales:
            raise RequestError(f"study {self.name} has no scale {name!r}: {choices(name, self.scales)}")
        scale = self.scales[name]
        changes: list[str] = []
        products = [_scaled_product(product, scale, changes) for product in self.products]
        if scale.worlds is not None:
            before = {spec for product in self.products for spec in product.worlds}
            after = {spec for product in products for spec in product.worlds}
            changes.append(f"worlds {len(before)} → {len(after)}")
        return dataclasses.replace(
            self,
            products=[product for product in products if product.worlds],
            criteria=[
                _with_fewer_steps(criterion, find_criterion(criterion.name), scale, changes) for criterion in self.asked
            ],
            tasks=[_scaled_task(task, scale, changes) for task in self.asked_tasks],
            pictures=scale.pictures or self.pictures,
            judged_by=min(self.judged_by, scale.pictures or self.judged_by),
            scale=", ".join(dict.fromkeys(changes)),
        )

    def worlds(self) -> list[str]:
        """The specs of its worlds, each once."""
        return list(dict.fromkeys(spec for product in self.products for spec in product.worlds))


def _scaled_product(product: Product, scale: Scale, changes: list[str]) -> Product:
    """A product at a scale. Adds to `changes` what the scale has changed, in words."""
    training, seeds = product.training, product.seeds
    if scale.seeds is not None and scale.seeds < seeds:
        changes.append(f"seeds {seeds:,} → {scale.seeds:,}")
        seeds = scale.seeds
    steps = max((scale.steps_of[name] for name in product.methods if name in scale.steps_of), default=scale.steps)
    if steps is not None and steps < training.steps:
        changes.append(f"steps {training.steps:,} → {steps:,}")
        training = training.but(steps=steps)
    if scale.batch is not None and scale.batch < training.batch:
        changes.append(f"batch {training.batch:,} → {scale.batch:,}")
        training = training.but(batch=scale.batch)
    if scale.nets not in (None, training.nets) and all(find_method(name).nets is None for name in product.methods):
        changes.append(f"nets {training.nets or 'by size'} → {scale.nets}")
        training = training.but(nets=scale.nets)
    rate = training.optimiser.learning_rate
    if scale.learning_rate is not None and scale.learning_rate != rate:
        changes.append(f"learning rate {rate:g} → {scale.learning_rate:g}")
        training = training.but(learning_rate=scale.learning_rate)
    steps_ratio = training.steps / product.training.steps
    specs = [scale.stand_ins.get(spec, spec) for spec in product.worlds]
    changes += [
        f"{WorldSpec.parse(stand_in).name} in place of {WorldSpec.parse(spec).name}"
        for spec, stand_in in scale.stand_ins.items()
        if stand_in in specs
    ]
    return Product(
        specs if scale.worlds is None else [spec for spec in specs if spec in scale.worlds],
        {m: _scaled_sweep(m, sweep, scale.strengths, steps_ratio, changes) for m, sweep in product.methods.items()},
        seeds,
        training,
    )


def _scaled_sweep(
    method_name: str, sweep: Sweep, strengths: int | None, steps_ratio: float, changes: list[str]
) -> Sweep:
    """Fewer values of a sweep. Hyperparameters that depend on the number of steps change in proportion to it."""
    method = find_method(method_name)
    values: dict[str, list[Any]] = {
        name: list(axis) if isinstance(axis, list | tuple) else [axis]
        for name, axis in (method.sweep(sweep) if isinstance(sweep, str) else sweep).items()
    }
    for name, axis in values.items():
        if strengths is not None and len(axis) > strengths:
            places = [round(k * (len(axis) - 1) / max(strengths - 1, 1)) for k in range(strengths)]
            changes.append(f"strengths {len(axis)} → {strengths}")
            values[name] = [axis[place] for place in places]
    for hyper in method.hyper:
        if hyper.with_steps and steps_ratio != 1:
            unscaled = values.get(hyper.name, [hyper.default])
            scaled = (_two_digits(float(value) * steps_ratio**hyper.with_steps) for value in unscaled)
            values[hyper.name] = [min(max(value, hyper.low), hyper.high) for value in scaled]
            changes.append(f"{hyper.name} in proportion")
    return values


def _with_fewer_steps(
    named: NamedSettings, measure: Criterion | Task, scale: Scale, changes: list[str]
) -> NamedSettings:
    """Limits the steps of a criterion or a task that trains, such as PIPE, to the steps of the models it measures."""
    if not measure.steps or scale.steps is None:
        return named
    before = {**measure.settings, **named.settings}[measure.steps]
    assert isinstance(before, int | float)
    if before <= scale.steps:
        return named
    changes.append(f"{named.name} steps {before:,} → {scale.steps:,}")
    return named._replace(settings={**named.settings, measure.steps: scale.steps})


def _scaled_task(named: NamedSettings, scale: Scale, changes: list[str]) -> NamedSettings:
    """A task at a scale. A scale with very few steps only tests whether the study runs, so it takes the quick settings.

    It takes only quick settings that are numbers: they say how much a task does.
    """
    task = find_task(named.name)
    if scale.steps is None or scale.steps >= FEWEST_STEPS:
        return _with_fewer_steps(named, task, scale, changes)
    changes.append(f"{named.name} as quick as it can be")
    quick = {name: value for name, value in task.quick.items() if not isinstance(value, str)}
    return named._replace(settings={**named.settings, **quick})


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


class Absent(NamedTuple):
    """Stands in a plan for a world whose files are missing."""

    label: str
    image_shape: tuple[int, int, int]
    size: int  # number of pictures, without the world's views
    why: str  # which files are missing


def planned_world(spec: str, fetch: bool = False) -> World | Absent:
    """The world of a spec, or an `Absent` if its files are missing. With `fetch`, missing files are downloaded.

    Every other mistake in a spec or its views raises an error, also while files are missing.
    """
    check_views(spec)
    base = world(WorldSpec.parse(spec).base)  # views may need the files
    why_absent = base.absent()
    if why_absent is None or fetch:
        try:
            opened = world(spec)
            _ = opened.label  # raises if files are missing
            return opened
        except MissingError as error:
            why_absent = brief(error)
    return Absent(spec, base.image_shape, base.size, why_absent)


def shipped() -> dict[str, Path]:
    """The files of the studies that come with Sober, by name."""
    beside = Path(__file__).resolve().parents[2] / "studies"  # in a wheel
    folder = beside if beside.is_dir() else Path(__file__).resolve().parents[4] / "studies"
    return {path.stem: path for path in sorted(folder.glob("*.py"))}


def find_study(name: str | Path) -> tuple[Study, str]:
    """The study of that name or in that Python file, and the file's source."""
    path = Path(name) if str(name).endswith(".py") else shipped().get(str(name))
    if path is None:
        raise unknown("study", shipped(), name, "`sober study list` lists all studies")
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({brief(error)})") from error
    return study_of(source, str(path)), source


def study_of(source: str, path: str) -> Study:
    """The study that a file's source defines. This runs the file as code."""
    module = python_types.ModuleType(f"sober_study_{abs(hash(path)):x}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses in the file look for it there
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except RequestError:
        raise
    except Exception as error:
        raise RequestError(f"{path} fails: {type(error).__name__}: {brief(error)}") from error
    study = getattr(module, "study", None)
    if not isinstance(study, Study):
        raise RequestError(f"{path} defines no study: it must say study = Study(...)")
    return study
