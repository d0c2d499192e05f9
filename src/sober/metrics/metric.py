"""What a metric is: a function of Codes that returns named numbers, and all that a reader needs to know about them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from sober.errors import NotMeasuredError, RequestError, counted, listed
from sober.estimators.columns import in_memory
from sober.metrics.rows import take
from sober.shared import Shared
from sober.types import Codes, Setting

# Nothing is silent: what happened when the input was not what the formula has in mind, and what was done about it.
FLAGS: dict[str, str] = {
    "binned_factor": "a continuous factor was cut into bins of equal width, for want of rows that share a value",
    "chosen_penalty": "of so many latents a penalty was chosen on rows of its own, in place of that of the formula",
    "collapsed": "no latent carries anything: all are constant, or vary less than the metric's threshold",
    "constant_inside": "a factor has one value inside the region: its error there is in units of its spread outside",
    "constant_outside": "a factor has one value outside the region, so nothing can be learned of it; it was left out",
    "constant_factor": "a factor has the same value in every row; it was left out",
    "dead_latent": "some latents are constant: they know nothing, and count as that",
    "dependent_factors": "the factors were sampled dependently: a perfect model's latents are dependent too",
    "diverged": "the model's training had stopped: its numbers were no longer finite",
    "few_groups": "there are fewer than ten groups: which of them were held out decides much of the score",
    "few_latents": "there are fewer latents than factors: a factor left without one counts 0",
    "few_pairs": "fewer than 100 pairs of rows differ in some factor alone: its number is hardly known",
    "few_pictures": "there are no more pictures than features: the distance depends on how many there are",
    "few_rows": "fewer rows share a factor's value than the metric draws; some were drawn more than once",
    "few_tested": "fewer than 100 rows were tested on, inside or outside the region: the error is hardly known",
    "held_out": "some combinations of factors were left out of the pictures that were encoded",
    "missing_labels": "some labels are not known: factors were measured on the rows that know them",
    "moved_by_size": "so many latents, or so few rows, that chance alone moves the score: `corrected` has it without",
    "no_factor": "no factor varies, so there is nothing to find: the score is its worst value (1 for an nrmse)",
    "idle_latent": "a latent that takes part knows nothing of any factor; it counts 0",
    "means_only": "no log-variances were given, so latents were taken at their means: in bins, or as if Gaussian",
    "not_above_chance": "codes that have nothing to do with the factors score as well in one shuffle of twenty or more",
    "not_finite": "some codes were not finite",
    "not_measured": "the metric cannot be computed for these codes: `sober.score` of them says why in `left_out`",
    "nothing_learned": "from the most rows no factor is predicted better than by its mean: there is no efficiency",
    "no_pairs": "for some factor no two rows agree in all the others: it counts 0, or the whole score does",
    "one_class": "a factor has one value in all rows of a training set: that value is predicted",
    "one_factor": "with a single factor that varies the question has only one answer",
    "one_latent": "with a single latent there is nothing to compare it with",
    "own_features": "features are those of a function, not of a network's file: no distance of the literature compares",
    "rare_class": "some value of a factor is missing from the training rows or from the test rows",
    "regressed_factor": "a continuous factor is regressed on: in means over factors its R² stands beside accuracies",
    "rescaled": "codes beyond 1e50 were divided by a power of two",
    "screened": "each model saw only the latents that know most of its factor; the others count as of no importance",
    "short_of_rows": "too few rows for the largest training sets, which are left out, or for the whole test set",
    "singular": "some latents are constant (left out) or functions of others (eigenvalues kept above 1e-12)",
    "singletons": "some rows share their factor's value with no other row, and were compared with themselves",
    "sparse_latents": "no latent has quartiles that differ, so those in use were told by their range",
    "split_factor": "a factor with more than two values was taken as one attribute for each of them",
    "unseen_value": "some value of a factor is found inside the region alone: not only its combinations are new",
    "two_values": "a factor with two values cannot score above 0, whatever the codes",
    "unknown_factor": "no latent that takes part knows anything of some factor; it counts 0",
    "unordered_factor": "a factor whose values have no order, or go round, was taken in the order of its labels",
    "worse_than_mean": "a continuous factor is predicted worse than by its mean: its R² is below 0, and counts 0",
}


Odd = Literal["holes", "groups", "weights", "units", "sparse"]  # what codes can have beside plain numbers and labels

REASONS: dict[Odd, str] = {
    "groups": "it would put rows of one group on both sides of a split",
    "weights": "it has no form in which rows have weights",
    "units": "it looks at single numbers, and each unit holds several",
    "sparse": "it needs all codes at once, and they are sparse or too large: pass fewer latents, or fewer rows",
}
FEWEST = 100  # rows in which every factor is known, for a metric that needs them all at once


class Measured(NamedTuple):
    """What a metric found: its scores, what to know before trusting them, and the arrays they were made of.

    `errors` are standard errors of those scores that are means over something drawn. `corrected` are scores without
    what the mere number of latents and rows adds to them, where that is much; they are then flagged `moved_by_size`.
    """

    values: dict[str, float]
    flags: tuple[str, ...] = ()
    parts: Mapping[str, np.ndarray] = {}
    errors: Mapping[str, float] = {}
    corrected: Mapping[str, float] = {}


MOVED = 0.05  # how far the mere number of latents and rows may move a score before it is flagged


def moved(found: Measured, corrected: Mapping[str, float]) -> Measured:
    """The same, with those corrected scores that are far from the scores themselves, and a flag where there are any."""
    far = {name: value for name, value in corrected.items() if abs(value - found.values[name]) > MOVED}
    return found._replace(flags=(*found.flags, "moved_by_size"), corrected=far) if far else found


Change = Literal[
    "permuted latents", "flipped signs", "permuted rows", "relabelled factors", "rescaled latents", "dead latent"
]


# What else can be done to perfect codes: each latent given twice, latents of noise added, two factors put into one
# latent, a factor put into two.
Alteration = Literal["duplicated latents", "noise latents", "merged factors", "split factors"]


class Traits(NamedTuple):
    """What is known of a score, and `tests/test_every_metric.py` checks. The defaults are the strictest."""

    perfect: float | None = 1e-6  # how near to its best perfect codes come; None where no code reaches the best
    ideal: Literal["factor", "value"] = "factor"  # what a latent of perfect codes holds: a factor, or one value of it
    # What codes that know nothing get, from the number of values of each factor; None where that can be anything.
    noise: Callable[[Sequence[int]], float] | None = lambda sizes: 0.0
    noise_within: float = 0.06  # how near to that they come, in 2,000 rows
    changed_by: tuple[Change | Alteration, ...] = ()  # changes of codes and factors that it may notice
    lowered_by: tuple[Alteration, ...] = ()  # those that make it fall, where codes were perfect
    raised_by: tuple[Alteration, ...] = ()  # and those that make it rise


class Meaning(NamedTuple):
    """How to read one score: from `low` to `high`, and which end is the good one."""

    summary: str
    low: float = 0.0
    high: float = 1.0
    better: Literal["higher", "lower", "neither"] = "higher"
    matrix: str = ""  # of a unified score: the metric whose matrix it is made of ...
    rule: str = ""  # ... and the score whose rule makes a number of it
    samples_of: str = ""  # of a score of samples: the same score of means
    headline: bool = False  # whether it speaks for the others where one number must
    without_factors: float | None = None  # what it is where no factor varies, if not its worst
    traits: Traits = Traits()

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
    """A metric by name: `measure(codes, shared, seed=0, **settings)`, its scores, settings under each preset, paper.

    `shared` is what metrics of one call compute once: `shared(sample, codes, 10_000, seed)` gives each the same rows.
    """

    name: str
    summary: str
    reference: str
    scores: Mapping[str, Meaning]
    measure: Callable[..., Measured]
    settings: Mapping[str, Setting]  # of the preset `study`, which every metric has
    presets: Mapping[str, Mapping[str, Setting]] = dataclasses.field(default_factory=dict)  # what others change
    quick: Mapping[str, Setting] = dataclasses.field(default_factory=dict)  # changes that make it fast, for tests
    group: str = ""  # a name that asks for several metrics at once
    matrix: str = ""  # what the part `matrix` (D, K) holds, where it has one to draw
    seconds: float = 1.0  # of one call on two cores, for 20,000 rows of 10 latents and 5 factors; a guess if not given
    sampled: bool = True  # whether rows are drawn, so that another seed gives another number
    exact: bool = False  # whether the seed has no say where there are no more rows than it draws
    supervised: bool = True  # whether it needs factors
    logvar: bool = False  # whether it looks at log-variances, under some of its settings
    default: bool = True  # whether it is in the battery that `score` runs when not told which
    # What it can work with. One that does not take holes sees the rows in which every factor is known; of codes with
    # anything else that it does not take it is left out, and `Scores.left_out` says why.
    takes: frozenset[Odd] = frozenset()

    def configured(self, preset: str = "study", changes: Mapping[str, Setting] = {}) -> dict[str, Setting]:
        """Every setting under a preset, with changes. A metric that has no preset of that name stays with `study`."""
        for name in changes:
            if name not in self.settings:
                raise RequestError(f"{self.name} has no setting {name!r}: it has {listed(self.settings) or 'none'}")
        return {**self.settings, **self.presets.get(preset, {}), **changes}

    def __call__(
        self,
        codes: Codes,
        changes: Mapping[str, Setting] | None = None,
        *,
        preset: str = "study",
        seed: int = 0,
        shared: Shared | None = None,
    ) -> Measured:
        """Measures codes. A finite number for every score, always: what could not be measured is flagged.

        `shared` is that of the other metrics of these codes, so that what several need is computed once. Raises
        `NotMeasuredError` where the metric cannot be computed for codes of this kind.
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
        found = self.measure(codes, shared, seed=seed, **settings)
        self._check(found)
        return found._replace(flags=tuple(sorted(flags | set(found.flags))))

    def _fitting(self, codes: Codes, shared: Shared) -> Codes:
        """The codes as this metric can take them."""
        if "sparse" not in self.takes and not isinstance(codes.mean, np.ndarray):
            codes = shared(dense_if_small, codes)
        for odd in sorted(oddities(codes) - self.takes - {"holes"}):
            raise NotMeasuredError(REASONS[odd])
        if codes.known is None or "holes" in self.takes:
            return codes
        if not self.supervised:
            return dataclasses.replace(codes, known=None)
        whole, total = shared(complete, codes), codes.mean.shape[0]
        if whole.mean.shape[0] < min(FEWEST, total / 2) or len(shared(varying, whole).about) < len(whole.about):
            raise NotMeasuredError(
                "it needs rows in which every factor is known, and "
                f"{counted(whole.mean.shape[0], 'row')} of {total:,} are too few"
            )
        return whole

    def _without_factors(self) -> dict[str, float]:
        return {
            name: about.worst if about.without_factors is None else about.without_factors
            for name, about in self.scores.items()
        }

    def _check(self, found: Measured) -> None:
        for name, value in found.values.items():
            if not math.isfinite(value):
                raise ArithmeticError(f"{name} came out as {value}, which is a fault in Sober: please report it")
        unknown = set(found.flags) - set(FLAGS)
        if unknown:
            raise KeyError(f"{self.name} used flags that are not in FLAGS: {sorted(unknown)}")


def oddities(codes: Codes) -> frozenset[Odd]:
    """What these codes have beside plain numbers and labels."""
    there: dict[Odd, bool] = {
        "holes": codes.known is not None,
        "groups": codes.groups is not None,
        "weights": codes.weights is not None,
        "units": codes.unit > 1,
        "sparse": not isinstance(codes.mean, np.ndarray),
    }
    return frozenset(odd for odd, is_there in there.items() if is_there)


def dense_if_small(codes: Codes) -> Codes:
    """Sparse codes as one array, where that is small enough for every metric to have it."""
    return dataclasses.replace(codes, mean=in_memory(codes.mean))


def varying(codes: Codes) -> Codes:
    """Codes with those factors that have more than one value among the rows that know them."""
    keep = [k for k in range(len(codes.about)) if _varies(codes, k)]
    return codes if len(keep) == len(codes.about) else with_factors(codes, keep)


def _varies(codes: Codes, k: int) -> bool:
    column = codes.factors[:, k] if codes.known is None else codes.factors[codes.known[:, k], k]
    return bool(len(column) and np.ptp(column) > 0)


def with_factors(codes: Codes, factors: Sequence[int]) -> Codes:
    """Codes with some of the factors, and the same rows."""
    known = None if codes.known is None else codes.known[:, factors]
    about = tuple(codes.about[k] for k in factors)
    return dataclasses.replace(codes, factors=codes.factors[:, factors], about=about, known=known)


def complete(codes: Codes) -> Codes:
    """The rows in which every factor is known."""
    if codes.known is None:
        return codes
    return dataclasses.replace(take(codes, np.flatnonzero(codes.known.all(axis=1))), known=None)
