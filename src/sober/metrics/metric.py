"""What a metric is: a function of Codes that returns named numbers, and how to read those numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from sober.contracts import SEEDS, configured, counting, without_later
from sober.errors import NotMeasuredError, counted
from sober.estimators.wide.wide_tables import in_memory
from sober.metrics.common.flags import FLAGS
from sober.metrics.common.metric_rows import complete, varying
from sober.shared import Shared
from sober.short_text import as_call
from sober.types import Codes, Setting

Odd = Literal["holes", "groups", "weights", "units", "sparse"]  # what codes may have besides plain numbers and labels

REASONS: dict[Odd, str] = {
    "groups": "it would put rows of one group on both sides of a split",
    "weights": "it has no form in which rows have weights",
    "units": "it looks at single numbers, and each unit holds several",
    "sparse": "it needs all codes at once, and they are sparse or too large: pass fewer latents, or fewer rows",
}
FEWEST = 100  # rows with every factor known that a metric needs, if it cannot take missing labels


class Measured(NamedTuple):
    """The result of a metric or a task: its scores, flags to read before trusting them, and the arrays behind them.

    `errors` has standard errors of the scores that are means over random draws. `corrected` has the scores that change
    by more than `MOVED` when the effect of the number of latents and rows is taken out; they get the flag
    `moved_by_size`.
    """

    values: dict[str, float]
    flags: tuple[str, ...] = ()
    parts: Mapping[str, np.ndarray] = {}
    errors: Mapping[str, float] = {}
    corrected: Mapping[str, float] = {}

    def __repr__(self) -> str:
        return as_call(self)


MOVED = 0.05  # a score that the number of latents and rows moves by more than this is flagged


def moved(measured: Measured, corrected: Mapping[str, float]) -> Measured:
    """Adds the corrected scores that are far from the scores themselves, and a flag if there are any."""
    far = {name: value for name, value in corrected.items() if abs(value - measured.values[name]) > MOVED}
    return measured._replace(flags=(*measured.flags, "moved_by_size"), corrected=far) if far else measured


Change = Literal[
    "permuted latents", "flipped signs", "permuted rows", "relabelled factors", "rescaled latents", "dead latent"
]


# Changes that make perfect codes imperfect: every latent duplicated, latents of noise added, two factors merged into
# one latent, one factor split over two latents.
Alteration = Literal["duplicated latents", "noise latents", "merged factors", "split factors"]


class Traits(NamedTuple):
    """Properties of a score, which `tests/test_every_metric.py` checks. The defaults are the strictest."""

    perfect: float | None = 1e-6  # how close perfect codes come to the best score; None if no codes reach it
    ideal: Literal["factor", "value"] = "factor"  # what a latent of perfect codes holds: a factor or one value
    # The score of codes unrelated to the factors, from the factors' numbers of values; None if it can be anything.
    noise: Callable[[Sequence[int]], float] | None = lambda sizes: 0.0
    noise_within: float = 0.06  # how close such codes come to it in 2,000 rows
    changed_by: tuple[Change | Alteration, ...] = ()  # changes of codes and factors that may change the score
    lowered_by: tuple[Alteration, ...] = ()  # changes that lower the score of perfect codes
    raised_by: tuple[Alteration, ...] = ()  # changes that raise it

    def __repr__(self) -> str:
        return as_call(self)


class Meaning(NamedTuple):
    """How to read one score: from `low` to `high`, and which end is the good one."""

    summary: str
    low: float = 0.0
    high: float = 1.0
    better: Literal["higher", "lower", "neither"] = "higher"
    matrix: str = ""  # of a unified score: the metric that estimates its matrix
    rule: str = ""  # of a unified score: the score whose rule turns the matrix into a number
    samples_of: str = ""  # of a score of sampled codes: the same score of their means
    same_as: str = ""  # the score that this one equals by definition, if settings agree; tables show the number once
    title: str = ""  # its name for people; the score's own name if empty
    headline: bool = False  # whether tables with room for one number show this score
    without_factors: float | None = None  # its value if no factor varies; None for its worst value
    traits: Traits = Traits()

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def best(self) -> float:
        return self.low if self.better == "lower" else self.high

    @property
    def worst(self) -> float:
        return self.high if self.better == "lower" else self.low

    def __str__(self) -> str:
        if math.isinf(self.low):
            ends = f"up to {self.high:g}"
        else:
            ends = f"{self.low:g} to {self.high:g}" if math.isfinite(self.high) else f"{self.low:g} and up"
        return ends if self.better == "neither" else f"{ends}, {self.better} is better"


@dataclasses.dataclass(frozen=True, eq=False)
class Metric:
    """A metric: its name, scores, settings and paper, and the function `measure(codes, shared, seed=0, **settings)`.

    `shared` computes once what several metrics of a call need: `shared(sample, codes, 10_000, seed)` gives all of them
    the same rows.
    """

    name: str
    summary: str
    reference: str
    scores: Mapping[str, Meaning]
    measure: Callable[..., Measured]
    settings: Mapping[str, Setting]  # with the values of the preset `study`
    presets: Mapping[str, Mapping[str, Setting]] = dataclasses.field(default_factory=dict)  # what other presets change
    # Settings that were added after scores were saved: rows leave them out at their defaults, which `measure` has too.
    later: frozenset[str] = frozenset()
    quick: Mapping[str, Setting] = dataclasses.field(default_factory=dict)  # changes that make it fast, for tests
    short: str = ""  # the summary in at most 43 characters, for a list on one screen
    group: str = ""  # a name that asks for several metrics at once
    matrix: str = ""  # what the part `matrix` (D, K) holds, for the title of its picture; empty if there is none
    # Other parts (D, K) that a report draws if the folder has them, each with what it holds.
    drawn: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Processor time for 20,000 rows of 10 latents and 5 factors (benchmarks/metrics.py); a guess if not given.
    seconds: float = 1.0
    reuses: str = ""  # a metric whose fits it takes over, so that it costs nearly nothing where both are measured
    version: int = 1  # counts changes of how it computes that change its scores; rows say it from 2 on
    sampled: bool = True  # whether it draws rows, so that the seed changes its scores
    exact: bool = False  # whether the seed changes nothing when all rows are used
    extremes: bool = False  # whether the most extreme rows decide it, so that more rows hardly make it vary less
    supervised: bool = True  # whether it needs factors
    logvar: bool = False  # whether it uses log-variances under some settings
    default: bool = True  # whether `score` runs it when no metrics are named
    # The kinds of input that it can handle. A metric that does not take holes gets only the rows in which every factor
    # is known. For any other kind that it does not take, it is left out, and `Scores.left_out` says why.
    takes: frozenset[Odd] = frozenset()

    def __repr__(self) -> str:
        return as_call(self)

    def configured(self, preset: str = "study", changes: Mapping[str, Setting] = {}) -> dict[str, Setting]:
        """Every setting under a preset, with changes. A metric without that preset uses `study`."""
        settings = configured(self.name, self.settings, changes, self.presets, preset)
        return without_later(settings, self.settings, self.later)

    def __call__(
        self,
        codes: Codes,
        changes: Mapping[str, Setting] | None = None,
        *,
        preset: str = "study",
        seed: int = 0,
        shared: Shared | None = None,
    ) -> Measured:
        """Measures codes. Every score is a finite number; what could not be measured is flagged.

        Metrics of the same codes pass the same `shared`, so that what several need is computed once. Raises
        `NotMeasuredError` if the metric cannot be computed for codes of this kind.
        """
        settings = self.configured(preset, changes or {})
        shared = Shared() if shared is None else shared
        flags = set(codes.flags)
        if self.supervised:
            varied = shared(varying, codes)
            flags |= {"constant_factor"} if len(varied.about) < len(codes.about) else set()
            if not varied.about:
                return Measured(self._without_factors(), tuple(sorted({*flags, "no_factor"})))
            codes = varied
        codes = self._fitting(codes, shared)
        measured = self.measure(codes, shared, seed=seed % SEEDS, **counting(settings, self.settings))
        self._check(measured)
        return measured._replace(flags=tuple(sorted(flags | set(measured.flags))))

    def _fitting(self, codes: Codes, shared: Shared) -> Codes:
        """The codes in a form that this metric can handle."""
        if "sparse" not in self.takes and not isinstance(codes.mean, np.ndarray):
            codes = shared(dense_if_small, codes)
        for odd in sorted(oddities(codes) - self.takes - {"holes"}):
            raise NotMeasuredError(REASONS[odd])
        if codes.known is None or "holes" in self.takes:
            return codes
        if not self.supervised:
            return dataclasses.replace(codes, known=None)
        labelled, total = shared(complete, codes), codes.mean.shape[0]
        if labelled.mean.shape[0] < min(FEWEST, total / 2) or len(shared(varying, labelled).about) < len(
            labelled.about
        ):
            raise NotMeasuredError(
                "it needs rows in which every factor is known, and "
                f"{counted(labelled.mean.shape[0], 'row')} of {total:,} are too few"
            )
        return labelled

    def _without_factors(self) -> dict[str, float]:
        return {
            name: meaning.worst if meaning.without_factors is None else meaning.without_factors
            for name, meaning in self.scores.items()
        }

    def _check(self, measured: Measured) -> None:
        for name, value in measured.values.items():
            if not math.isfinite(value):
                raise ArithmeticError(f"{name} came out as {value}, which is a fault in Sober: please report it")
        unknown = set(measured.flags) - set(FLAGS)
        if unknown:
            raise KeyError(f"{self.name} used flags that are not in FLAGS: {sorted(unknown)}")


def oddities(codes: Codes) -> frozenset[Odd]:
    """What these codes have besides plain numbers and labels."""
    present: dict[Odd, bool] = {
        "holes": codes.known is not None,
        "groups": codes.groups is not None,
        "weights": codes.weights is not None,
        "units": codes.unit > 1,
        "sparse": not isinstance(codes.mean, np.ndarray),
    }
    return frozenset(odd for odd, is_present in present.items() if is_present)


def dense_if_small(codes: Codes) -> Codes:
    """Sparse codes as a dense array, if that fits into memory."""
    return dataclasses.replace(codes, mean=in_memory(codes.mean))
