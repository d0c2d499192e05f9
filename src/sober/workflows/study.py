"""A study: products of worlds, methods with sweeps and seeds, and what is measured. One short Python file each.

A file defines `study = Study(...)`. It may add its own methods, metrics, worlds or criteria to the registries first:
the file is run by every process that works on the study, so nothing in Sober need change.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import types as python_types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sober.criteria import find_criterion
from sober.errors import RequestError, brief, listed
from sober.methods import find_method
from sober.models.family import grid
from sober.types import Adam, Precision, Run, Setting
from sober.worlds import WORLDS, World, world

Sweep = Mapping[str, Setting | Sequence[Setting]] | str  # values, or the name of a published sweep
ADAM = Adam()
PICTURES = 20_000  # that models are scored by: metrics draw 10,000 to learn from and 5,000 to be tested on


@dataclasses.dataclass(frozen=True)
class Product:
    """Every method at every value of its sweep, with every seed, on every world. Defaults: the Sober Look study."""

    worlds: Sequence[str]
    methods: Mapping[str, Sweep]
    seeds: int = 50
    steps: int = 300_000
    nets: str | None = None
    latents: int = 10
    batch: int = 64
    optimiser: Adam = ADAM
    precision: Precision | None = None

    def runs(self, spec: str, opened: Any) -> list[Run]:
        """The runs on one of its worlds."""
        return [
            run
            for method, sweep in self.methods.items()
            for run in grid(
                opened, method, sweep, seeds=self.seeds, nets=self.nets, latents=self.latents,
                optimiser=self.optimiser, steps=self.steps, batch=self.batch, precision=self.precision,
            )
        ]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Scale:
    """How a study is shrunk. What is None stays."""

    seeds: int | None = None
    steps: int | None = None  # of models, and at most so many of a criterion that trains
    worlds: Sequence[str] | None = None
    strengths: int | None = None  # of each sweep, spread over its values
    learning_rate: float | None = None  # fewer steps may be larger ones
    pictures: int | None = None


@dataclasses.dataclass(frozen=True)
class Study:
    """What to train, what to measure, and whose study it is."""

    name: str
    title: str
    paper: str
    products: Sequence[Product]
    metrics: Sequence[str] | None = None  # all by default
    preset: str = "study"
    criteria: Mapping[str, Mapping[str, Setting]] = dataclasses.field(default_factory=dict)  # with their settings
    pictures: int = PICTURES
    scales: Mapping[str, Scale] = dataclasses.field(default_factory=dict)
    keep_codes: bool = False
    scale: str = ""  # what was shrunk, in words

    def __post_init__(self) -> None:
        for criterion, settings in self.criteria.items():
            if unknown := settings.keys() - find_criterion(criterion).settings.keys():
                raise RequestError(f"study {self.name}: {criterion} has no setting {listed(unknown)}")

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
            criteria={name: _shrunk_criterion(name, changes, to, words) for name, changes in self.criteria.items()},
            pictures=to.pictures or self.pictures,
            scale=", ".join(dict.fromkeys(words)),
        )

    def worlds(self) -> list[str]:
        return list(dict.fromkeys(spec for product in self.products for spec in product.worlds))


def _shrunk(product: Product, to: Scale, words: list[str]) -> Product:
    changes: dict[str, Any] = {}
    for name in ("seeds", "steps"):
        before, after = getattr(product, name), getattr(to, name)
        if after is not None and after < before:
            changes[name] = after
            words.append(f"{name} {before:,} → {after:,}")
    if to.learning_rate is not None and to.learning_rate != product.optimiser.learning_rate:
        changes["optimiser"] = dataclasses.replace(product.optimiser, learning_rate=to.learning_rate)
        words.append(f"learning rate {product.optimiser.learning_rate:g} → {to.learning_rate:g}")
    if to.worlds is not None:
        changes["worlds"] = [spec for spec in product.worlds if spec in to.worlds]
    shorter = changes.get("steps", product.steps) / product.steps
    changes["methods"] = {
        method: _shrunk_sweep(method, sweep, to.strengths, shorter, words) for method, sweep in product.methods.items()
    }
    return dataclasses.replace(product, **changes)


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


def _shrunk_criterion(name: str, changes: Mapping[str, Setting], to: Scale, words: list[str]) -> Mapping[str, Setting]:
    """A criterion that trains, as PIPE does, takes no more steps than the models that it judges."""
    before = {**find_criterion(name).settings, **changes}.get("steps")
    if to.steps is None or not isinstance(before, int) or before <= to.steps:
        return changes
    words.append(f"{name} steps {before:,} → {to.steps:,}")
    return {**changes, "steps": to.steps}


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


class Absent:
    """Stands in a plan for a world whose files are not here: of a name, and pictures of a shape."""

    def __init__(self, spec: str, why: str) -> None:
        self.label, self.why = spec, why
        self.image_shape = WORLDS[_base(spec)].image_shape


@functools.lru_cache(maxsize=64)
def planned_world(spec: str, fetch: bool = False) -> World | Absent:
    """The world, or what is known of it where its files are missing; with `fetch` they are downloaded."""
    if _base(spec) not in WORLDS:
        raise RequestError(f"unknown world {_base(spec)!r}: choose one of {listed(WORLDS)}")
    try:
        absent = world(_opening(spec)).absent()
        if absent is None or fetch:
            opened = world(spec)
            _ = opened.label
            return opened
    except RequestError as error:
        absent = brief(error)
    return Absent(spec, absent)


def _opening(spec: str) -> str:
    """A spec without its views, which may need the files."""
    return spec.split(" | ", maxsplit=1)[0].strip()


def _base(spec: str) -> str:
    return _opening(spec).partition(":")[0]


def shipped() -> dict[str, Path]:
    """The studies that come with Sober, by name."""
    beside = Path(__file__).resolve().parents[1] / "studies"  # in a wheel
    folder = beside if beside.is_dir() else Path(__file__).resolve().parents[3] / "studies"
    return {path.stem: path for path in sorted(folder.glob("*.py"))}


def find_study(name: str | Path) -> tuple[Study, str]:
    """The study of that name, or in that Python file, and its source."""
    path = Path(name) if str(name).endswith(".py") else shipped().get(str(name))
    if path is None:
        raise RequestError(f"unknown study {str(name)!r}: choose from {listed(shipped())}, or give a Python file")
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


def hours(seconds: float) -> str:
    """A span of time as a person says it."""
    if not math.isfinite(seconds):
        return "unknown"
    for unit, length in (("days", 172_800.0), ("hours", 5_400.0), ("minutes", 90.0)):
        if seconds >= length:
            return f"{seconds / {'days': 86_400, 'hours': 3_600, 'minutes': 60}[unit]:.1f} {unit}"
    return f"{seconds:.0f} seconds"
