"""What a metric is: a function of Codes that returns named numbers, and all that a reader needs to know about them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, ParamSpec, TypeVar

import numpy as np

from sober.errors import RequestError, listed
from sober.types import Codes, Setting

# Nothing is silent: what happened when the input was not what the formula has in mind, and what was done about it.
FLAGS: dict[str, str] = {
    "binned_factor": "a continuous factor was cut into bins of equal width, for want of rows that share a value",
    "collapsed": "no latent carries anything: all are constant, or vary less than the metric's threshold",
    "constant_factor": "a factor has the same value in every row; it was left out",
    "dependent_factors": "the factors were sampled dependently: a perfect model's latents are dependent too",
    "diverged": "the model's training had stopped: its numbers were no longer finite",
    "few_rows": "fewer rows share a factor's value than the metric draws; some were drawn more than once",
    "held_out": "some combinations of factors were left out of the pictures that were encoded",
    "missing_labels": "rows in which the value of a factor is not known were left out",
    "no_factor": "there is no factor that varies, so there is nothing to find: the score is its worst value",
    "means_only": "no log-variances were given, so latents were taken at their means, cut into bins",
    "not_finite": "some codes were not finite",
    "one_factor": "with a single factor that varies the question has only one answer",
    "one_latent": "with a single latent there is nothing to compare it with",
    "rare_class": "some value of a factor is missing from the training rows or from the test rows",
    "rescaled": "codes beyond 1e50 were divided by a power of two",
    "singular": "some latents are constant (left out) or functions of others (eigenvalues kept above 1e-12)",
    "singletons": "some rows share their factor's value with no other row, and were compared with themselves",
}


class Measured(NamedTuple):
    """What a metric found: its scores, what to know before trusting them, and the arrays they were made of."""

    values: dict[str, float]
    flags: tuple[str, ...] = ()
    parts: Mapping[str, np.ndarray] = {}


class Meaning(NamedTuple):
    """How to read one score: from `low` to `high`, and which end is the good one."""

    summary: str
    low: float = 0.0
    high: float = 1.0
    better: Literal["higher", "lower", "neither"] = "higher"

    @property
    def best(self) -> float:
        return self.low if self.better == "lower" else self.high

    @property
    def worst(self) -> float:
        return self.high if self.better == "lower" else self.low

    def __str__(self) -> str:
        ends = f"{self.low:g} to {self.high:g}" if math.isfinite(self.high) else f"{self.low:g} and up"
        return ends if self.better == "neither" else f"{ends}, {self.better} is better"


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric by name: `measure(codes, seed=0, **settings)`, its scores, its settings under each preset, its paper."""

    name: str
    summary: str
    reference: str
    scores: Mapping[str, Meaning]
    measure: Callable[..., Measured]
    settings: Mapping[str, Setting]  # of the preset `study`, which every metric has
    presets: Mapping[str, Mapping[str, Setting]] = dataclasses.field(default_factory=dict)  # what others change
    sampled: bool = True  # whether rows are drawn, so that another seed gives another number
    supervised: bool = True  # whether it needs factors
    default: bool = True  # whether it is in the battery that `score` runs when not told which

    def configured(self, preset: str = "study", changes: Mapping[str, Setting] = {}) -> dict[str, Setting]:
        """Every setting under a preset, with changes. A metric that has no preset of that name stays with `study`."""
        for name in changes:
            if name not in self.settings:
                raise RequestError(f"{self.name} has no setting {name!r}: it has {listed(self.settings) or 'none'}")
        return {**self.settings, **self.presets.get(preset, {}), **changes}

    def __call__(
        self, codes: Codes, changes: Mapping[str, Setting] | None = None, *, preset: str = "study", seed: int = 0
    ) -> Measured:
        """Measures codes. A finite number for every score, always: what could not be measured is flagged."""
        settings = self.configured(preset, changes or {})
        flags = set(codes.flags)
        if self.supervised:
            varied = varying(codes)
            flags |= {"constant_factor"} if len(varied.about) < len(codes.about) else set()
            if not varied.about:
                worst = {name: meaning.worst for name, meaning in self.scores.items()}
                return Measured(worst, tuple(sorted({*flags, "no_factor"})))
            codes = varied
        found = self.measure(codes, seed=seed, **settings)
        for name, value in found.values.items():
            if not math.isfinite(value):
                raise ArithmeticError(f"{name} came out as {value}, which is a fault in Sober: please report it")
        unknown = set(found.flags) - set(FLAGS)
        if unknown:
            raise KeyError(f"{self.name} used flags that are not in FLAGS: {sorted(unknown)}")
        return found._replace(flags=tuple(sorted(flags | set(found.flags))))


P = ParamSpec("P")
R = TypeVar("R")


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """Computes function(codes, ...) once for each Codes and settings, for as long as the Codes live.

    Metrics stay plain functions of codes, and those that look at the same sample or matrix share it.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def remembering(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()  # so that a default and the same value said aloud are one request
        codes, *rest = bound.arguments.values()
        results = vars(codes).setdefault("_remembered", {})  # beside the fields of the frozen Codes, and goes with it
        request = (function, *rest)
        if request not in results:
            results[request] = function(*args, **kwargs)
        return results[request]

    return remembering


@remembered
def varying(codes: Codes) -> Codes:
    """Codes with those factors that have more than one value among its rows."""
    keep = [k for k in range(len(codes.about)) if len(codes.mean) and np.ptp(codes.factors[:, k]) > 0]
    if len(keep) == len(codes.about):
        return codes
    return dataclasses.replace(codes, factors=codes.factors[:, keep], about=tuple(codes.about[k] for k in keep))
