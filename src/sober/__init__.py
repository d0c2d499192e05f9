"""Sober: train families of representation models at once, and say which to trust."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from sober import methods, metrics, nets, selection, study, worlds
from sober.encode import encode
from sober.errors import RequestError
from sober.family import Family, grid
from sober.fit import Fit, fit
from sober.metrics import Scores, score
from sober.model import Model, load
from sober.selection.udr import udr_of_arrays as udr
from sober.study import Study
from sober.train import train
from sober.tune import tune
from sober.types import Adam, Codes, Factor, Run, Score
from sober.worlds import World, world

try:
    __version__ = version("sober")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"

__all__ = [
    "Adam",
    "Codes",
    "Factor",
    "Family",
    "Fit",
    "Model",
    "RequestError",
    "Run",
    "Score",
    "Scores",
    "Study",
    "World",
    "encode",
    "fit",
    "grid",
    "load",
    "methods",
    "metrics",
    "nets",
    "score",
    "selection",
    "study",
    "train",
    "tune",
    "udr",
    "world",
    "worlds",
]
