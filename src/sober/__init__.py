"""Sober: train families of representation models at once, and say which to trust."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what the names below are; a person who runs Sober imports each when it is first used
    from sober import criteria, methods, metrics, nets, worlds
    from sober.criteria.udr import udr_of_arrays as udr
    from sober.errors import RequestError
    from sober.metrics import Collector, Scores, score, scorer
    from sober.metrics.comparison import Comparison
    from sober.models.family import Family
    from sober.models.grid import grid
    from sober.models.model import Model, load
    from sober.types import Adam, Codes, Factor, Run, Score, Training
    from sober.workflows.compare import compare
    from sober.workflows.fit import Fit, fit
    from sober.workflows.opened import Results
    from sober.workflows.opened import encode_results as encode
    from sober.workflows.opened import open_results as open
    from sober.workflows.opened import shipped_results as results
    from sober.workflows.study import Product, Scale, Study
    from sober.workflows.train import train
    from sober.workflows.tune import tune
    from sober.worlds import World, world

# Each public name, and where it lives. Importing Sober imports none of these, so it takes no time and needs no JAX.
_HOME = {
    "Adam": "sober.types",
    "Codes": "sober.types",
    "Collector": "sober.metrics",
    "Comparison": "sober.metrics.comparison",
    "Factor": "sober.types",
    "Family": "sober.models.family",
    "Fit": "sober.workflows.fit",
    "Model": "sober.models.model",
    "Product": "sober.workflows.study",
    "RequestError": "sober.errors",
    "Results": "sober.workflows.opened",
    "Run": "sober.types",
    "Scale": "sober.workflows.study",
    "Score": "sober.types",
    "Scores": "sober.metrics",
    "Study": "sober.workflows.study",
    "Training": "sober.types",
    "World": "sober.worlds",
    "compare": "sober.workflows.compare",
    "encode": "sober.workflows.opened",
    "fit": "sober.workflows.fit",
    "grid": "sober.models.grid",
    "load": "sober.models.model",
    "open": "sober.workflows.opened",
    "score": "sober.metrics",
    "scorer": "sober.metrics",
    "task": "sober.tasks",
    "train": "sober.workflows.train",
    "tune": "sober.workflows.tune",
    "udr": "sober.criteria.udr",
    "world": "sober.worlds",
}
_RENAMED = {
    "encode": "encode_results",
    "open": "open_results",
    "task": "perform",
    "udr": "udr_of_arrays",
}  # public names that another name has at home
_ROOMS = ("criteria", "methods", "metrics", "nets", "results", "tasks", "worlds")  # results can be called, too

__all__ = [
    "Adam",
    "Codes",
    "Collector",
    "Comparison",
    "Factor",
    "Family",
    "Fit",
    "Model",
    "Product",
    "RequestError",
    "Results",
    "Run",
    "Scale",
    "Score",
    "Scores",
    "Study",
    "Training",
    "World",
    "compare",
    "criteria",
    "encode",
    "fit",
    "grid",
    "load",
    "methods",
    "metrics",
    "nets",
    "open",
    "results",
    "score",
    "scorer",
    "task",
    "tasks",
    "train",
    "tune",
    "udr",
    "world",
    "worlds",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _ROOMS:
        return importlib.import_module(f"sober.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'sober' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), _RENAMED.get(name, name))
    globals()[name] = value  # from now on an attribute like any other
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version("sober")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0+unknown"
