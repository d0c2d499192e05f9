"""`score`: every metric at once, on plain arrays."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sober.contracts import MOST_REPEATS, whole_number
from sober.errors import NotMeasuredError, RequestError, counted, shown, unknown
from sober.metrics.common.dependence import Dependence, dependence
from sober.metrics.common.inputs import as_codes
from sober.metrics.common.metric_rows import varying
from sober.metrics.metric import Measured, Metric
from sober.metrics.registry import LISTED, METRICS, distinct_scores, metric_groups, score_order
from sober.metrics.scoring.chance import Chance, shuffled_factors, weight_places
from sober.parallel import map_in_order, one_thread
from sober.shared import Shared
from sober.short_text import as_call, as_table
from sober.types import Codes, Setting

Chosen = Sequence[str] | Mapping[str, Mapping[str, Setting]]

ALL = "all"  # the name that selects every metric, also those outside the default battery


class Scores(dict[str, float]):
    """Numbers by score name, with more about each in attributes.

    By score: `flags` says what the formula did not expect of the input (see `sober.metrics.FLAGS`), `errors` has
    standard errors, if draws were repeated or the metric knows its own, and `chance` has the score of shuffled rows.
    `corrected` has the scores that change much when the effect of the number of latents and rows is taken out.

    By metric: `parts` has matrices and per-factor values, `settings` all settings, `seconds` the time taken, and
    `left_out` the reason why a metric was not computed.

    `factors` names the factors that vary, which are the columns of the parts; `known` counts the rows in which each is
    known; `dependence` says how much factors depend on each other.

    Printed, `mig` and DCI come first, and a score that equals another one by definition is left out.
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

    def rows(self) -> list[ScoreRow]:
        """The scores in the order of tables. A score that equals another one by definition has no row of its own."""
        return [self._row(name, (name, *copies)) for name, copies in distinct_scores(self).items()]

    def _row(self, name: str, names: Sequence[str]) -> ScoreRow:
        flags = {flag for same_name in names for flag in self.flags.get(same_name, ())}
        corrected = next((self.corrected[same_name] for same_name in names if same_name in self.corrected), None)
        error, chance = self.errors.get(name), self.chance.get(name)
        return ScoreRow(name, self[name], corrected, error, chance, tuple(sorted(flags)))

    def __repr__(self) -> str:
        rows = self.rows()
        left_out = f", {counted(len(self.left_out), 'metric')} left out" if self.left_out else ""
        return as_table(f"{counted(len(rows), 'score')}{left_out}", [_cells(row) for row in rows])


class ScoreRow(NamedTuple):
    """One score as a row of a table."""

    name: str
    value: float
    corrected: float | None
    error: float | None
    chance: Chance | None
    flags: tuple[str, ...]

    def __repr__(self) -> str:
        return as_call(self)


def _cells(row: ScoreRow) -> dict[str, str]:
    """A row as text. A table leaves out columns in which every row is empty."""
    meaning = score_order().get(row.name)
    return {
        "score": row.name,
        "value": f"{row.value:.3f}",
        "corrected": "" if row.corrected is None else f"{row.corrected:.3f}",
        "error": "" if row.error is None else f"{row.error:.3f}",
        "chance": "" if row.chance is None else f"{row.chance.mean:.3f}",
        "p": "" if row.chance is None else row.chance.p_text,
        "flags": " ".join(row.flags),
        "better": "" if meaning is None or meaning.better == "neither" else meaning.better,
    }


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
    """Scores a representation: a dictionary from score names to numbers, with more in its attributes.

    `codes` is (N, D), `factors` (N, K): the whole grid or any labelled sample, from any framework. `logvar` (N, D) has
    the encoder's log-variances, if there are any. `metrics` names metrics, groups of metrics, single scores or `all`
    (None is the default battery); as a mapping it also changes their settings: `{"mig": {"bins": 50}}`. `preset` is
    `study` (Locatello et al. 2020), `paper` (each metric's own) or another preset of a metric. `names` and `kinds`
    describe the factors; a kind is `ordinal`, `cyclic`, `categorical` or `continuous`. With `repeats` the draws are
    repeated with as many seeds; scores are then means, and `.errors` has their standard errors. Without factors, only
    metrics that need no labels are computed.

    A label that is NaN, None or masked is not known; each factor is measured on the rows in which it is known.
    `groups` (N,) says which rows belong together: a split never separates the rows of a group. `weights` (N,) say how
    much each row counts. Metrics that cannot handle such input are left out, and `.left_out` says why. With `chance`
    the rows of the factors are shuffled that many times, and `.chance` says what each score is then; with `weights`
    twice as many times.

    >>> sober.score(codes, factors)["mig"]
    """
    prepared = as_codes(codes, factors, logvar=logvar, names=names, kinds=kinds, groups=groups, weights=weights)
    _check_preset(preset)
    seed, repeats = whole_number("seed", seed), whole_number("repeats", repeats, least=1, most=MOST_REPEATS)
    chance = whole_number("chance, the number of shuffles,", chance, most=MOST_REPEATS)
    scores = Scores()
    shared = Shared()
    varied = shared(varying, prepared)
    scores.factors = tuple(factor.name for factor in varied.about)
    scores.known = known_rows(varied)
    scores.dependence = dependence(varied, seed)
    if scores.dependence and scores.dependence.real:
        flags = tuple(sorted({*prepared.flags, "dependent_factors"}))
        prepared = dataclasses.replace(prepared, flags=flags)
    for metric, chosen_scores, changes in resolved(metrics, bool(prepared.about)):
        started = time.perf_counter()
        settings = metric.configured(preset, changes)
        seeds = range(seed, seed + (repeats if metric.sampled else 1))
        try:
            outcomes = [metric(prepared, settings, seed=draw_seed, shared=shared) for draw_seed in seeds]
        except NotMeasuredError as reason:
            scores.left_out[metric.name] = str(reason)
            continue
        scores.settings[metric.name], scores.parts[metric.name] = settings, outcomes[0].parts
        scores.seconds[metric.name] = time.perf_counter() - started
        for name in metric.scores:
            if name in outcomes[0].values and (chosen_scores is None or name in chosen_scores):
                _add(scores, name, [outcome.values[name] for outcome in outcomes], outcomes, repeats)
    if chance:
        add_chance(scores, prepared, chance, seed)
    return scores


def known_rows(codes: Codes) -> dict[str, int]:
    """In how many rows each factor is known."""
    counts = np.full(len(codes.about), len(codes.factors)) if codes.known is None else codes.known.sum(axis=0)
    return {factor.name: int(count) for factor, count in zip(codes.about, counts, strict=True)}


def score_many(models: Iterable[Codes], *, workers: int | None = None, **settings: Any) -> Iterator[Scores]:
    """Scores the codes of many models, in order, several at a time: by default as many as there are cores.

    Models are taken from `models` only when a worker is free, so they may come from disk one by one. `settings` are
    passed on to `score`.
    """
    # Each worker uses one thread for linear algebra: workers that compete for cores are slower than one worker.
    with one_thread():
        yield from map_in_order(functools.partial(score, **settings), models, workers)


def _add(scores: Scores, name: str, values: list[float], outcomes: list[Measured], repeats: int) -> None:
    scores[name] = float(np.mean(values))
    flags = {flag for outcome in outcomes for flag in outcome.flags}
    if any(outcome.corrected for outcome in outcomes) and not any(name in outcome.corrected for outcome in outcomes):
        flags -= {"moved_by_size"}  # other scores of the metric moved, not this one
    scores.flags[name] = tuple(sorted(flags))
    if repeats > 1:
        scores.errors[name] = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
    if any(name in outcome.corrected for outcome in outcomes):
        scores.corrected[name] = float(
            np.mean([outcome.corrected.get(name, outcome.values[name]) for outcome in outcomes])
        )
    if repeats == 1 and name in outcomes[0].errors:
        scores.errors[name] = outcomes[0].errors[name]


def add_chance(scores: Scores, codes: Codes, shuffles: int, seed: int) -> None:
    """Adds what each supervised score is when the rows of the factors are shuffled.

    Weighted rows are shuffled in both ways, and the larger p counts.
    """
    measured_metrics = [METRICS[name] for name in scores.settings if METRICS[name].supervised]
    if not measured_metrics:
        return

    def measured(shuffled: Codes) -> dict[str, float]:
        shared, values = Shared(), dict[str, float]()
        for metric in measured_metrics:
            with contextlib.suppress(NotMeasuredError):  # shuffled labels may leave a factor known in one group only
                values |= metric(shuffled, scores.settings[metric.name], seed=seed, shared=shared).values
        return values

    ways = weight_places(codes)
    shuffled_codes = (way for move in ways for way in shuffled_factors(codes, shuffles, seed, weights_move=move))
    with one_thread():  # as in `score_many`
        draws = list(map_in_order(measured, shuffled_codes))
    for metric in measured_metrics:
        for name, meaning in metric.scores.items():
            by_way = [_values(draws[way * shuffles : (way + 1) * shuffles], name) for way in range(len(ways))]
            if name not in scores or not all(map(len, by_way)):
                continue
            bounds = meaning.low, meaning.high
            chances = [Chance.of(scores[name], values, meaning.better, bounds) for values in by_way]
            by_chance = max(chances, key=lambda chance: chance.p)
            scores.chance[name] = by_chance
            if not by_chance.beaten:
                scores.flags[name] = tuple(sorted({*scores.flags[name], "not_above_chance"}))


def _values(draws: Sequence[Mapping[str, float]], name: str) -> Float[np.ndarray, " S"]:
    """A score in all draws that have it."""
    return np.array([values[name] for values in draws if name in values])


def _check_preset(preset: str) -> None:
    presets = {"study"}.union(*(metric.presets for metric in METRICS.values()))
    if not isinstance(preset, str) or preset not in presets:
        raise unknown("preset", sorted(presets), preset)


def resolved(
    metrics: str | Chosen | None, labelled: bool
) -> Iterator[tuple[Metric, set[str] | None, Mapping[str, Setting]]]:
    """The selected metrics in the registry's order, each with its selected scores (None for all) and changes."""
    if metrics is None:
        for metric in METRICS.values():
            if metric.default and (labelled or not metric.supervised):
                yield metric, None, {}
        return
    chosen_scores: dict[str, set[str] | None] = {}
    changes: dict[str, Mapping[str, Setting]] = {}
    for name in _names(metrics):
        for metric, named_scores in _named(name, labelled):
            earlier = chosen_scores.get(metric.name, set())
            chosen_scores[metric.name] = None if named_scores is None or earlier is None else earlier | named_scores
            if isinstance(metrics, Mapping):
                changes[metric.name] = {**changes.get(metric.name, {}), **_changes(name, metrics[name])}
    for name, metric in METRICS.items():
        if name in chosen_scores:
            if metric.supervised and not labelled:
                raise RequestError(
                    f"{name} needs factors: pass them as the second argument, in a shell as --factors FILE"
                )
            yield metric, chosen_scores[name], changes.get(name, {})


def _names(metrics: str | Chosen) -> list[str]:
    """The names that a user selected. Refuses what is no name."""
    if isinstance(metrics, str):
        return [metrics]
    names = list(metrics) if isinstance(metrics, Iterable) else [metrics]
    if not all(isinstance(name, str) for name in names):
        raise RequestError(f"metrics must be a name, or names in a list, such as ['mig', 'dci'], not {shown(metrics)}")
    return names


def _changes(name: str, settings: Any) -> Mapping[str, Setting]:
    if not isinstance(settings, Mapping):
        raise RequestError(f"metrics: the settings of {name} must be a mapping, such as {{}}, not {shown(settings)}")
    return settings


def _named(name: str, labelled: bool) -> list[tuple[Metric, set[str] | None]]:
    """The metrics that a name selects, each with its scores (None for all): `all`, a group, a metric, or a score."""
    if name == ALL:
        return [(metric, None) for metric in METRICS.values() if labelled or not metric.supervised]
    if name in (groups := metric_groups()):
        return [(metric, None) for metric in groups[name]]
    if name in METRICS:
        return [(METRICS[name], None)]
    for metric in METRICS.values():
        if name in metric.scores:
            return [(metric, {name})]
    scores = [score for metric in METRICS.values() for score in metric.scores]
    raise unknown("metric or score", {ALL: None, **groups, **METRICS, **dict.fromkeys(scores)}, name, LISTED)
