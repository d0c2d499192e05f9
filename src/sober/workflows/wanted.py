"""What results are wanted, most wanted first: a list of studies, each shrunk or moved to other worlds, as a TOML file.

The list that comes with Sober is results/wanted.toml. All that it says of settings is taken from the studies.
"""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sober.errors import RequestError, UnknownError, brief, listed
from sober.results.request import PICTURES, Cohort, Measure, Request
from sober.results.shipped import home
from sober.training.cohort import signature
from sober.types import Asked, Run, Setting
from sober.workflows.plan import Plan, plan
from sober.workflows.study import Product, Scale, Study, find_study

Group = tuple[Run, ...]  # runs that differ in the seed alone, and are trained and judged together
SHRUNK = {field.name for field in dataclasses.fields(Scale)} - {"worlds"}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One thing that is wanted: part of a study, in a folder of results."""

    name: str
    what: str
    study: Study  # as it is to be run
    extra: tuple[str, ...]  # metrics beside the study's own
    together: int  # seeds in a group
    models: bool = False  # whether the models that are shown are kept

    @functools.cached_property
    def plan(self) -> Plan:
        return plan(self.study)

    @functools.cached_property
    def groups(self) -> tuple[Group, ...]:
        """Its runs, world by world and method by method, the first seeds of all settings before the next seeds."""
        blocks: dict[Any, dict[str, list[Run]]] = {}
        for run in self.plan.runs.values():
            place = (run.world, signature(run), run.seed // self.together)
            blocks.setdefault(place, {}).setdefault(run.seedless, []).append(run)
        return tuple(tuple(runs) for block in blocks.values() for runs in block.values())

    @property
    def measures(self) -> tuple[Measure, Measure]:
        """What is measured: what the study asks for; and then every metric that is wanted, as the Sober Look has it."""
        own = dataclasses.replace(self.study.measure, among="cohort", show=False, keep_codes=True)
        pictures = PICTURES if own.pictures is None else own.pictures
        return own, dataclasses.replace(
            own, metrics=self.extra, preset="study", criteria=(), tasks=(), pictures=pictures
        )

    def request(self, cohorts: Sequence[Cohort], command: str = "") -> Request:
        """For some of its runs."""
        labels = {cohort.world for cohort in cohorts}
        worlds = {label: spec for label, spec in self.plan.request.worlds.items() if label in labels}
        return dataclasses.replace(
            self.plan.request,
            worlds=worlds,
            cohorts=tuple(cohorts),
            measure=self.measures[0],
            command=command,
            title=self.what,  # not the study's: it is a part of it, or a shorter one
            missing={},
        )


def read_wanted(path: Path | None = None) -> tuple[Entry, ...]:
    """The entries of a list, of that which comes with Sober without a path."""
    path = path or home() / "wanted.toml"
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
        common = {"precision": plain["precision"], "together": plain["together"], "metrics": tuple(plain["metrics"])}
        entries = tuple(_entry(each, plain.get("criteria", {}), **common) for each in plain["entry"])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise RequestError(f"{path} is no list of wanted results ({type(error).__name__}: {brief(error)})") from error
    return entries


def named(entries: Sequence[Entry], name: str) -> tuple[Entry, ...]:
    """The entries of that name."""
    chosen = tuple(entry for entry in entries if entry.name == name)
    if not chosen:
        raise UnknownError(f"nothing named {name!r} is wanted: the list has {listed({each.name for each in entries})}")
    return chosen


def find_entry(entries: Sequence[Entry], name: str, identities: Sequence[str]) -> Entry:
    """The first entry of that name that has all these runs; of several, later ones may have more."""
    chosen = named(entries, name)
    for entry in chosen:
        if set(identities) <= entry.plan.runs.keys():
            return entry
    unknown = sorted(set(identities) - chosen[-1].plan.runs.keys())
    raise RequestError(f"run {unknown[0]} is none of those that the list has under {name}: is it of another version?")


def _entry(
    plain: Mapping[str, Any],
    criteria: Mapping[str, Mapping[str, Setting]],
    *,
    precision: str,
    together: int,
    metrics: tuple[str, ...],
) -> Entry:
    known = {"name", "what", "study", "products", "worlds", "methods", "models", "precision", "criteria", "tasks"}
    known |= SHRUNK
    if unknown := plain.keys() - known:
        raise RequestError(f"{plain.get('name')} has no setting {listed(unknown)}: choose from {listed(known)}")
    study, _ = find_study(plain["study"])
    chosen = plain.get("products") or range(1, len(study.products) + 1)
    methods = {name for place in chosen for name in study.products[place - 1].methods}
    if unknown := set(plain.get("methods", ())) - methods:
        raise RequestError(f"{study.name} has no method {listed(unknown)}: choose from {listed(methods)}")
    products = [_product(study.products[place - 1], plain, plain.get("precision", precision)) for place in chosen]
    asked = [
        Asked(name, {**settings, **criteria.get(name, {})})
        for name, settings in study.asked
        if name in plain.get("criteria", (name,))
    ]
    shrunk = Scale(**{name: plain[name] for name in SHRUNK & plain.keys()})
    tasks = plain.get("tasks", study.tasks)
    study = dataclasses.replace(study, products=products, criteria=asked, tasks=tasks, scales={"": shrunk})
    return Entry(plain["name"], plain["what"], study.scaled(""), metrics, together, bool(plain.get("models", False)))


def _product(product: Product, plain: Mapping[str, Any], precision: str) -> Product:
    """One of a study's products on the worlds, and with the methods, that are wanted."""
    chosen = plain.get("methods", product.methods)
    own = chosen if isinstance(chosen, Mapping) else {}  # values of an entry's own
    methods = {name: own.get(name, sweep) for name, sweep in product.methods.items() if name in chosen}
    training = product.training.but(precision=precision)
    return dataclasses.replace(product, worlds=plain.get("worlds", product.worlds), methods=methods, training=training)
