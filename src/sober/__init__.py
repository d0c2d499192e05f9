"""Sober: train families of representation models at once, and say which to trust."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what the names below are; a person who runs Sober imports each when it is first used
    from sober import criteria, methods, metrics, nets, worlds
    from sober.criteria.udr import udr_of_arrays as udr
    from sober.errors import RequestError
    from sober.metrics import Scores, score
    from sober.models.encode import encode
    from sober.models.family import Family, grid
    from sober.models.model import Model, load
    from sober.training.train import train
    from sober.types import Adam, Codes, Factor, Run, Score
    from sober.workflows import Product, Scale, Study
    from sober.workflows.fit import Fit, fit
    from sober.workflows.tune import tune
    from sober.worlds import World, world

# Each public name, and where it lives. Importing Sober imports none of these, so it takes no time and needs no JAX.
_HOME = {
    "Adam": "sober.types",
    "Codes": "sober.types",
    "Factor": "sober.types",
    "Family": "sober.models.family",
    "Fit": "sober.workflows.fit",
    "Model": "sober.models.model",
    "Product": "sober.workflows.study",
    "RequestError": "sober.errors",
    "Run": "sober.types",
    "Scale": "sober.workflows.study",
    "Score": "sober.types",
    "Scores": "sober.metrics",
    "Study": "sober.workflows.study",
    "World": "sober.worlds",
    "encode": "sober.models.encode",
    "fit": "sober.workflows.fit",
    "grid": "sober.models.family",
    "load": "sober.models.model",
    "score": "sober.metrics",
    "train": "sober.training.train",
    "tune": "sober.workflows.tune",
    "udr": "sober.criteria.udr",
    "world": "sober.worlds",
}
_RENAMED = {"udr": "udr_of_arrays"}  # public names that another name has at home
_ROOMS = ("criteria", "methods", "metrics", "nets", "worlds")

__all__ = [
    "Adam",
    "Codes",
    "Factor",
    "Family",
    "Fit",
    "Model",
    "Product",
    "RequestError",
    "Run",
    "Scale",
    "Score",
    "Scores",
    "Study",
    "World",
    "criteria",
    "encode",
    "fit",
    "grid",
    "load",
    "methods",
    "metrics",
    "nets",
    "score",
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
