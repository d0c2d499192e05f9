"""What results are wanted, most wanted first: the list results/wanted.toml, and what each entry comes to.

An entry names a study, and which of its worlds, methods, steps and seeds are wanted. The rest is as the study has it.
"""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sober.errors import RequestError, brief, listed
from sober.requests.study.plan import Plan, plan
from sober.requests.study.study import Product, Scale, Study, find_study
from sober.results.folder import Folder
from sober.results.shipped import home, shipped
from sober.types import NamedSettings, Setting

SHRUNK = {field.name for field in dataclasses.fields(Scale)} - {"worlds"}
OWN = {"name", "what", "study", "products", "worlds", "methods", "models", "precision", "criteria", "tasks"}


@dataclasses.dataclass(frozen=True)
class Entry:
    """Part of a study, wanted in one folder of results."""

    name: str
    what: str
    study: Study  # as it is to be run
    metrics: tuple[str, ...]  # beside the study's own
    together: int  # seeds of a setting that are trained, and judged against each other, together
    models: bool = False  # whether the models that the documentation shows are kept

    @functools.cached_property
    def plan(self) -> Plan:
        return plan(self.study)

    def done(self) -> set[str]:
        """The identities of its runs that are in the results that come with Sober."""
        folders = [path for name, path in shipped().items() if name == self.name]
        return {run for path in folders for run in Folder.open(path).request.runs if run in self.plan.runs}

    def gpu_hours_left(self) -> float:
        """About how long a GPU trains the models that are not done: an order of magnitude."""
        share_left = 1 - len(self.done()) / len(self.plan.runs)
        return share_left * self.plan.training_seconds("gpu") / 3600


def read_wanted(path: Path | None = None) -> tuple[Entry, ...]:
    """The entries of a list; without a path, of the list that comes with Sober."""
    path = path or home() / "wanted.toml"
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
        common = {"precision": plain["precision"], "together": plain["together"], "metrics": tuple(plain["metrics"])}
        return tuple(_entry(entry, plain.get("criteria", {}), **common) for entry in plain["entry"])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise RequestError(f"{path} is no list of wanted results ({type(error).__name__}: {brief(error)})") from error


def _entry(
    plain: Mapping[str, Any],
    criteria: Mapping[str, Mapping[str, Setting]],
    *,
    precision: str,
    together: int,
    metrics: tuple[str, ...],
) -> Entry:
    if unknown := plain.keys() - OWN - SHRUNK:
        names = listed(OWN | SHRUNK)
        raise RequestError(f"{plain.get('name')} has no setting {listed(unknown)}: choose from {names}")
    study, _ = find_study(plain["study"])
    chosen = plain.get("products") or range(1, len(study.products) + 1)
    methods = {name for place in chosen for name in study.products[place - 1].methods}
    if unknown := set(plain.get("methods", ())) - methods:
        raise RequestError(f"{study.name} has no method {listed(unknown)}: choose from {listed(methods)}")
    products = [_product(study.products[place - 1], plain, plain.get("precision", precision)) for place in chosen]
    criteria_of_entry = [
        NamedSettings(name, {**criteria.get(name, {}), **settings})
        for name, settings in study.asked
        if name in plain.get("criteria", (name,))
    ]
    shrunk = Scale(**{name: plain[name] for name in SHRUNK & plain.keys()})
    tasks = plain.get("tasks", study.tasks)
    study = dataclasses.replace(study, products=products, criteria=criteria_of_entry, tasks=tasks, scales={"": shrunk})
    return Entry(plain["name"], plain["what"], study.scaled(""), metrics, together, bool(plain.get("models", False)))


def _product(product: Product, plain: Mapping[str, Any], precision: str) -> Product:
    """One of a study's products, on the wanted worlds and with the wanted methods."""
    chosen = plain.get("methods", product.methods)
    sweeps = chosen if isinstance(chosen, Mapping) else {}  # values of an entry's own
    methods = {name: sweeps.get(name, sweep) for name, sweep in product.methods.items() if name in chosen}
    training = product.training.but(precision=precision)
    return dataclasses.replace(product, worlds=plain.get("worlds", product.worlds), methods=methods, training=training)
