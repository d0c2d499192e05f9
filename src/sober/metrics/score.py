"""Every metric at once, on plain arrays."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import threadpoolctl

from sober.errors import NotMeasuredError, RequestError, UnknownError, listed
from sober.machine import in_order
from sober.metrics.chance import Chance, shuffled_factors
from sober.metrics.dependence import Dependence, dependence
from sober.metrics.inputs import as_codes
from sober.metrics.metric import Measured, Metric, varying
from sober.metrics.registry import METRICS, metric_groups
from sober.shared import Shared
from sober.types import Codes, Setting

Chosen = Sequence[str] | Mapping[str, Mapping[str, Setting]]

ALL = "all"  # what asks for every metric that the codes allow, also those outside the default battery


class Scores(dict[str, float]):
    """Numbers by score name; beside them what to know about each.

    `flags` says, by score, what was not as the formula has in mind (see `sober.metrics.FLAGS`); `errors` the standard
    error of each score, where draws were repeated or the metric knows its own; `parts` the matrices and per-factor
    values, `settings` what was asked for and `seconds` what it took, by metric. `factors` names the columns of the
    parts: the factors that vary; `known` says how many rows know each. `left_out` has the metrics that were not
    computed, each with the reason. `chance` says what each score is when the rows of the factors are shuffled,
    `dependence` how much the factors have to do with each other, and `corrected` has scores without what the mere
    number of latents and rows adds to them, where that is much.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flags: dict[str, tuple[str, ...]] = {}
        self.errors: dict[str, float] = {}
        self.parts: dict[str, Mapping[str, np.ndarray]] = {}
        self.settings: dict[str, Mapping[str, Setting]] = {}
        self.seconds: dict[str, float] = {}
        self.factors: tuple[str, ...] = ()
        self.known: dict[str, int] = {}
        self.left_out: dict[str, str] = {}
        self.chance: dict[str, Chance] = {}
        self.dependence: Dependence | None = None
        self.corrected: dict[str, float] = {}


def score(
    codes: Any,
    factors: Any = None,
    *,
    logvar: Any = None,
    metrics: str | Chosen | None = None,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Scores of a representation: a dictionary from score names to numbers, with more in its attributes.

    `codes` is (N, D), `factors` (N, K): the whole grid or any labelled sample, from any framework. `logvar` (N, D) are
    the encoder's log-variances, where it has them. `metrics` names metrics, groups of them, single scores or `all`
    (None is the default battery); as a mapping it also changes their settings: `{"mig": {"bins": 50}}`. `preset` is
    `study` (Locatello et al. 2020), `paper` (each metric's own) or another that a metric has. `names` and `kinds`
    describe the factors: `ordinal`, `cyclic`, `categorical` or `continuous`. With `repeats` the draws are repeated with
    as many seeds; scores are then means, and `.errors` has their standard errors. Without factors, only what needs no
    labels is measured.

    A label that is NaN, None or masked is not known: each factor is measured on the rows that know it. `groups` (N,)
    says which rows belong together: those of one group never stand on both sides of a split. `weights` (N,) say how
    much each row counts. What a metric cannot work with leaves it out, and `.left_out` says why. With `chance` the rows
    of the factors are shuffled so many times, and `.chance` says what each score is then.

    >>> sober.score(codes, factors)["mig"]
    """
    prepared = as_codes(codes, factors, logvar=logvar, names=names, kinds=kinds, groups=groups, weights=weights)
    _check_preset(preset)
    if repeats < 1:
        raise RequestError(f"repeats must be at least 1, got {repeats}")
    if chance < 0:
        raise RequestError(f"chance must be a number of shuffles, 0 for none, got {chance}")
    out = Scores()
    shared = Shared()
    varied = shared(varying, prepared)
    out.factors = tuple(factor.name for factor in varied.about)
    out.known = known_rows(varied)
    out.dependence = dependence(varied, seed)
    if out.dependence and out.dependence.real:
        flags = tuple(sorted({*prepared.flags, "dependent_factors"}))
        prepared = dataclasses.replace(prepared, flags=flags)
    for metric, wanted, changes in resolved(metrics, bool(prepared.about)):
        started = time.perf_counter()
        settings = metric.configured(preset, changes)
        seeds = range(seed, seed + (repeats if metric.sampled else 1))
        try:
            found = [metric(prepared, settings, seed=each, shared=shared) for each in seeds]
        except NotMeasuredError as reason:
            out.left_out[metric.name] = str(reason)
            continue
        out.settings[metric.name], out.parts[metric.name] = settings, found[0].parts
        out.seconds[metric.name] = time.perf_counter() - started
        for name in metric.scores:
            if name in found[0].values and (wanted is None or name in wanted):
                _add(out, name, [each.values[name] for each in found], found, repeats)
    if chance:
        add_chance(out, prepared, chance, seed)
    return out


def known_rows(codes: Codes) -> dict[str, int]:
    """How many rows know each factor."""
    counts = np.full(len(codes.about), len(codes.factors)) if codes.known is None else codes.known.sum(axis=0)
    return {factor.name: int(count) for factor, count in zip(codes.about, counts, strict=True)}


def score_many(models: Iterable[Codes], *, workers: int | None = None, **settings: Any) -> Iterator[Scores]:
    """`score` of one model's codes after another, in order, several at a time: one for each core unless told otherwise.

    No more models are taken from `models` than are being worked on, so they may come from disk one by one. `settings`
    are those of `score`.
    """
    # Each worker does its own linear algebra alone: workers that wait for each other's cores are slower than one.
    with threadpoolctl.threadpool_limits(1):
        yield from in_order(functools.partial(score, **settings), models, workers)


def _add(out: Scores, name: str, values: list[float], found: list[Measured], repeats: int) -> None:
    out[name] = float(np.mean(values))
    flags = {flag for each in found for flag in each.flags}
    if any(each.corrected for each in found) and not any(name in each.corrected for each in found):
        flags -= {"moved_by_size"}  # it is other scores of the metric that moved
    out.flags[name] = tuple(sorted(flags))
    if repeats > 1:
        out.errors[name] = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
    if any(name in each.corrected for each in found):
        out.corrected[name] = float(np.mean([each.corrected.get(name, each.values[name]) for each in found]))
    if repeats == 1 and name in found[0].errors:
        out.errors[name] = found[0].errors[name]


def add_chance(out: Scores, codes: Codes, shuffles: int, seed: int) -> None:
    """What each score that looks at factors is when their rows are shuffled."""
    asked = [METRICS[name] for name in out.settings if METRICS[name].supervised]
    if not asked:
        return

    def measured(one: Codes) -> dict[str, float]:
        shared, values = Shared(), dict[str, float]()
        for metric in asked:
            with contextlib.suppress(NotMeasuredError):  # holes may fall so that a factor is left with one group
                values |= metric(one, out.settings[metric.name], seed=seed, shared=shared).values
        return values

    with threadpoolctl.threadpool_limits(1):  # as in `score_many`
        found = list(in_order(measured, shuffled_factors(codes, shuffles, seed)))
    values = {name: [one[name] for one in found if name in one] for name in out}
    for metric in asked:
        for name in [name for name in metric.scores if values.get(name)]:
            by_chance = Chance.of(out[name], np.array(values[name]), metric.scores[name].better)
            out.chance[name] = by_chance
            if not by_chance.beaten:
                out.flags[name] = tuple(sorted({*out.flags[name], "not_above_chance"}))


def _check_preset(preset: str) -> None:
    known = sorted({"study"}.union(*(metric.presets for metric in METRICS.values())))
    if preset not in known:
        raise UnknownError(f"there is no preset {preset!r}: choose one of {listed(known)}")


def resolved(
    metrics: str | Chosen | None, labelled: bool
) -> Iterator[tuple[Metric, set[str] | None, Mapping[str, Setting]]]:
    """Metrics in the registry's order, each with the scores wanted of it (None is all) and changes of its settings."""
    if metrics is None:
        for metric in METRICS.values():
            if metric.default and (labelled or not metric.supervised):
                yield metric, None, {}
        return
    wanted: dict[str, set[str] | None] = {}
    changes: dict[str, Mapping[str, Setting]] = {}
    for name in [metrics] if isinstance(metrics, str) else metrics:
        for metric, scores in _named(name, labelled):
            earlier = wanted.get(metric.name, set())
            wanted[metric.name] = None if scores is None or earlier is None else earlier | scores
            if isinstance(metrics, Mapping):
                changes[metric.name] = {**changes.get(metric.name, {}), **metrics[name]}
    for name, metric in METRICS.items():
        if name in wanted:
            if metric.supervised and not labelled:
                raise RequestError(f"{name} needs factors: pass them as the second argument")
            yield metric, wanted[name], changes.get(name, {})


def _named(name: str, labelled: bool) -> list[tuple[Metric, set[str] | None]]:
    """The metrics that a name asks for, each with its scores (None is all): all, a group, a metric, or a score."""
    if name == ALL:
        return [(metric, None) for metric in METRICS.values() if labelled or not metric.supervised]
    if name in (groups := metric_groups()):
        return [(metric, None) for metric in groups[name]]
    if name in METRICS:
        return [(METRICS[name], None)]
    for metric in METRICS.values():
        if name in metric.scores:
            return [(metric, {name})]
    known = {ALL, *groups, *METRICS, *(score for metric in METRICS.values() for score in metric.scores)}
    raise UnknownError(f"there is no metric or score {name!r}: there are {listed(known)}")
