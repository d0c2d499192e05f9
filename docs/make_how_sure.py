"""Simulates how often intervals of Sober hold the truth, and how often its p-values call noise real.

    python docs/make_how_sure.py                    all simulations, and the page: a quarter of an hour on one core
    python docs/make_how_sure.py correlations       only these, and the page
    python docs/make_how_sure.py --page             only the page, from the numbers in docs/how_sure.json

Each simulation knows the truth, draws data many times, and asks Sober each time. All draws have fixed seeds. The
numbers go to docs/how_sure.json; numbers of simulations that are not made again stay there.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy
import threadpoolctl
from jaxtyping import Float

from sober.agreement.planted import planted, planted_model
from sober.criteria import CRITERIA, Evidence
from sober.criteria.ranking import ranking
from sober.criteria.udr import informative_latents, udr
from sober.metrics import as_codes, score
from sober.metrics.common.dependence import dependence
from sober.metrics.common.intervals import half_width
from sober.metrics.scoring.chance import Chance, shuffled_factors
from sober.metrics.scoring.comparison import compared
from sober.models.grid import grid
from sober.models.model import Model
from sober.requests.agree import agree
from sober.results.stats import (
    Interval,
    beats_random,
    interval,
    median_intervals,
    rank_correlations,
    resampled,
    settings_then_seeds,
    tournament,
    variance_explained,
)
from sober.results.tables.estimates import mean_within
from sober.types import Codes, Run
from sober.worlds import world

FOLDER = Path(__file__).parent
PAGE, NUMBERS = FOLDER / "how_sure.md", FOLDER / "how_sure.json"
RESAMPLES = 300
MATTERS = 0.025  # a smaller difference from the promise does not matter
Kind = Literal["interval", "p", "certainty"]
VERDICTS: Mapping[Kind, tuple[str, str]] = {  # if the share is above the promise, and below it
    "interval": ("too wide", "**too narrow**"),
    "p": ("**too often**", "more seldom"),
    "certainty": ("too modest", "**too sure**"),
}


class Finding(NamedTuple):
    """How often an interval held the truth, p was small though there was nothing, or a certain choice was right."""

    kind: Kind
    where: str  # the command or table in which a person meets it
    case: str
    promised: float  # the share of draws
    times: int
    draws: int
    width: float | None = None  # mean width, by the width of an interval with a known variance

    @property
    def share(self) -> float:
        return self.times / self.draws

    @property
    def error(self) -> float:
        """Half of the 95% interval of the share (Agresti & Coull 1998)."""
        draws, times = self.draws + 4, self.times + 2
        return 1.96 * math.sqrt(times / draws * (1 - times / draws) / draws)

    @property
    def verdict(self) -> str:
        """Whether the promise is kept, as far as these draws can tell."""
        above = float(scipy.stats.binom.sf(self.times - 1, self.draws, self.promised))
        below = float(scipy.stats.binom.cdf(self.times, self.draws, self.promised))
        if min(above, below) > 0.025 or abs(self.share - self.promised) < MATTERS:
            return "as promised"
        return VERDICTS[self.kind][0 if above < below else 1]


def holds(estimate: Interval, truth: float) -> bool:
    return estimate.low is not None and bool(estimate.low <= truth <= estimate.high)


# Intervals of scores.


def repeats() -> Iterator[Finding]:
    """Groups of seeds of one score, against the mean over all seeds."""
    codes, factors = mixed(300, np.random.default_rng(0))
    prepared, name = as_codes(codes, factors), "sap"
    values = np.array([score(prepared, metrics=name, seed=seed)[name] for seed in range(1500)])
    for count in (3, 5, 20):
        groups = values[: len(values) // count * count].reshape(-1, count)
        errors = groups.std(axis=1, ddof=1) / math.sqrt(count)
        halves = np.array([half_width(error, count) for error in errors])
        times = int(np.sum(np.abs(groups.mean(axis=1) - values.mean()) <= halves))
        yield Finding("interval", "`repeats=` of `sober.score`", f"`{name}`, {count} repeats", 0.95, times, len(groups))


def next_shuffles() -> Iterator[Finding]:
    """Whether `low` and `high` of `chance` hold one further shuffle."""
    within_interval = dict.fromkeys(((name, count) for name in ("mig", "modularity") for count in (20, 39)), 0)
    draws = 200
    for draw in range(draws):
        rng = np.random.default_rng([draw, 1])
        codes = as_codes(rng.normal(size=(200, 3)), rng.integers(0, [3, 4], (200, 2)))
        scores = [score(shuffled, metrics=["mig", "modularity"]) for shuffled in shuffled_factors(codes, 40, draw)]
        for name, count in within_interval:
            values = np.array([shuffled[name] for shuffled in scores])
            chance = Chance.of(0.0, values[:count], "higher", (0.0, 1.0))
            within_interval[name, count] += chance.low <= values[-1] <= chance.high
    for (name, count), times in within_interval.items():
        yield Finding("interval", "`low`, `high` of `chance=`", f"`{name}`, {count} shuffles", 0.95, times, draws)


# Intervals of tables.


def means() -> Iterator[Finding]:
    """Means over seeds of scores between 0 and 1."""
    rng = np.random.default_rng(0)
    for a, b, case in ((4, 4, "scores around 0.5"), (8, 1, "scores near 1")):
        for seeds in (3, 5):
            rows = rng.beta(a, b, (2000, seeds))
            times = sum(holds(mean_within(row.tolist(), (0.0, 1.0)), a / (a + b)) for row in rows)
            yield Finding("interval", "means over seeds", f"{case}, {seeds} seeds", 0.95, times, len(rows))


def medians() -> Iterator[Finding]:
    """Medians over seeds, as in the leaderboard."""
    rng = np.random.default_rng(0)
    for seeds in (5, 10, 50):
        rows = rng.normal(size=(2000, seeds))
        intervals = median_intervals(rows, resamples=RESAMPLES)
        times = int(np.sum((intervals.low <= 0) & (intervals.high >= 0)))
        yield Finding("interval", "medians over seeds (`leaderboard`)", f"{seeds} seeds", 0.95, times, len(rows))


def two_scores(
    settings: int, seeds: int, rng: np.random.Generator
) -> tuple[np.ndarray, Callable[[], tuple[np.ndarray, np.ndarray]]]:
    """The settings of runs, and a function that trains them: two scores that correlate by 0.5, alike within settings.

    Settings explain 60% of the variance of both scores.
    """
    labels, covariance = np.repeat(np.arange(settings), seeds), [[1, 0.5], [0.5, 1]]
    means = rng.multivariate_normal([0, 0], covariance, settings).T

    def train() -> tuple[np.ndarray, np.ndarray]:
        noise = rng.multivariate_normal([0, 0], covariance, len(labels)).T
        x, y = 0.6**0.5 * means[:, labels] + 0.4**0.5 * noise
        return x[:, None], y[:, None]

    return labels, train


SPEARMAN = 6 / math.pi * math.asin(0.5 / 2)  # of two normal numbers with Pearson's correlation 0.5


def correlations() -> Iterator[Finding]:
    """Rank correlations over runs: settings are drawn again, and then seeds."""
    where = "rank correlations over runs (`metric_agreement`, …)"
    for settings, seeds in ((6, 10), (12, 5), (36, 5)):
        others, same, draws = 0, 0, 150
        for draw in range(draws):
            rng = np.random.default_rng([draw, settings])
            labels, train = two_scores(settings, seeds, rng)
            x, y = train()
            counts = settings_then_seeds(labels, resamples=RESAMPLES, seed=draw)
            estimate = interval(rank_correlations(x, y)[0, 0], rank_correlations(x, y, counts=counts)[:, 0, 0])
            others += holds(estimate, SPEARMAN)
            same += holds(estimate, float(np.mean([rank_correlations(*train())[0, 0] for _ in range(40)])))
        case = f"{settings} settings, {seeds} seeds each"
        yield Finding("interval", where, f"{case}: other settings, other seeds", 0.95, others, draws)
        yield Finding("interval", where, f"{case}: the same settings, other seeds", 0.95, same, draws)


def between_worlds() -> Iterator[Finding]:
    """Rank correlations over settings, as between worlds: settings are drawn again."""
    for settings in (6, 12, 36):
        times, draws = 0, 300
        for draw in range(draws):
            _, train = two_scores(settings, 1, np.random.default_rng([draw, settings]))
            x, y = train()
            counts = resampled(settings, resamples=RESAMPLES, seed=draw)
            estimate = interval(rank_correlations(x, y)[0, 0], rank_correlations(x, y, counts=counts)[:, 0, 0])
            times += holds(estimate, SPEARMAN)
        where = "rank correlations over settings (`worlds_agreement`)"
        yield Finding("interval", where, f"{settings} settings", 0.95, times, draws)


def strengths() -> Iterator[Finding]:
    """Correlations over six strengths: between two means over seeds, and between a score and the strength itself."""
    draws, count, seeds = 200, 6, 10
    labels, truth = np.repeat(np.arange(count), seeds), np.linspace(0, 1, count)
    bent = np.array([0.0, 0.5, 0.3, 0.6, 1.0, 0.8])  # the true means of the second score

    def train(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return truth[labels] + 0.5 * rng.normal(size=len(labels)), bent[labels] + 0.5 * rng.normal(size=len(labels))

    def of_means(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.corrcoef(*(values.reshape(count, seeds).mean(axis=1) for values in (x, y)))[0, 1])

    rng = np.random.default_rng(0)
    trend_truth = np.mean([rank_correlations(labels[:, None], train(rng)[1][:, None])[0, 0] for _ in range(2000)])
    means_truth, means_held, trends_held = float(np.corrcoef(truth, bent)[0, 1]), 0, 0
    for draw in range(draws):
        x, y = train(np.random.default_rng([draw, 6]))
        within = resampled(len(labels), within=labels, resamples=RESAMPLES, seed=draw)
        drawn = [of_means(np.repeat(x, times), np.repeat(y, times)) for times in within]
        means_held += holds(interval(np.ma.array(of_means(x, y)), np.ma.array(drawn), centred=True), means_truth)
        counts = resampled(len(labels), resamples=RESAMPLES, seed=draw)
        trends = rank_correlations(labels[:, None], y[:, None], counts=counts)[:, 0, 0]
        trends_held += holds(interval(rank_correlations(labels[:, None], y[:, None])[0, 0], trends), trend_truth)
    case = f"{count} strengths, {seeds} seeds each"
    yield Finding("interval", "correlation of means (`means_correlation`)", case, 0.95, means_held, draws)
    yield Finding("interval", "correlation with the strength (`strength_trends`)", case, 0.95, trends_held, draws)


def variance() -> Iterator[Finding]:
    """The share of variance that a method explains: runs are drawn again."""
    draws, groups = 200, 6
    means = np.linspace(-1, 1, groups) * math.sqrt(0.4 / np.var(np.linspace(-1, 1, groups)))
    for seeds in (5, 50):
        labels = np.repeat(np.arange(groups), seeds)
        rng = np.random.default_rng(seeds)
        values = means[labels] + 0.6**0.5 * rng.normal(size=(draws, len(labels)))
        shares = [variance_explained(row, labels) for row in values]
        within_interval = {
            "the true share, 40%": 0.4,
            f"the mean share at this number of seeds, {np.mean(shares):.0%}": np.mean(shares),
        }
        times = dict.fromkeys(within_interval, 0)
        for draw, (row, share) in enumerate(zip(values, shares, strict=True)):
            counts = resampled(len(labels), resamples=RESAMPLES, seed=draw)
            estimate = interval(share, variance_explained(row, labels, counts=counts), centred=True)
            for truth, number in within_interval.items():
                times[truth] += holds(estimate, number)
        where = "share of variance explained (`objective_variance`)"
        for truth, count in times.items():
            yield Finding("interval", where, f"{groups} methods, {seeds} seeds each: {truth}", 0.95, count, draws)


def transfers() -> Iterator[Finding]:
    """How often a chosen setting is at least as good as a random one: seeds are drawn again."""
    rng = np.random.default_rng(0)
    effects = rng.normal(size=(2, 2, 12, 1))

    def scores(seeds: int) -> np.ma.MaskedArray:
        return np.ma.array(effects + rng.normal(size=(2, 2, 12, seeds)))

    truth = float(beats_random(tournament(scores(1500)))[0, 0])
    for seeds in (5, 10, 50):
        times, draws = 0, 200
        for draw in range(draws):
            played = tournament(scores(seeds))
            counts = resampled(seeds, resamples=RESAMPLES, seed=draw)
            times += holds(interval(beats_random(played)[0, 0], beats_random(played, counts=counts)[:, 0, 0]), truth)
        yield Finding(
            "interval", "transfer of a choice (`transfer`)", f"12 settings, {seeds} seeds", 0.95, times, draws
        )


# Criteria and rankings.


def criteria() -> Iterator[Finding]:
    """UDR of six models, against UDR from many more pictures and partners; and how often the first place is right."""
    criterion, families, pictures = CRITERIA["udr"], 40, 400
    settings = {"similarity": "spearman"}
    runs = grid(world("blocks"), "beta_vae", {"beta": [1.0]}, seeds=range(6), steps=1)
    rng = np.random.default_rng(0)
    partners = [blended(rng) for _ in range(30)]
    within_interval, right, stated = 0, 0, 0.0
    for family in range(families):
        models = [blended(rng) for _ in runs]
        codes = learned(models, pictures, rng)
        evidence = Evidence(world("blocks"), tuple(runs), tuple(codes), None, _no_model)
        judgement = criterion(evidence, settings, seed=family)
        low, high = np.quantile(judgement.replicates, (0.05, 0.95), axis=0)
        everyone = learned([*models, *partners], 3_000, rng)
        others = [[*range(6, 36)]] * 6 + [[0]] * 30
        truth = udr(everyone, partners=others, similarity="spearman").scores[:6]
        within_interval += int(np.sum((low <= truth) & (truth <= high)))
        informative = [int(informative_latents(one).sum()) for one in codes]
        ranked = ranking(runs, informative, {"udr": (criterion, judgement)}, words=str, seed=family)
        stated += ranked.best.first
        right += ranked.best.run == runs[int(np.argmax(truth))]
    case = "six models, 400 pictures: other pictures and partners"
    yield Finding("interval", "UDR of a model (`sober select`)", case, 0.9, within_interval, 6 * families)
    case = f"six models: the first one is the best; the ranking says {stated / families:.0%}"
    yield Finding("certainty", "certainty of a ranking (`sober select`)", case, stated / families, right, families)


def _no_model(run: Run) -> Model:
    raise LookupError(f"{run} was never trained: UDR looks at codes only")


def blended(rng: np.random.Generator) -> Float[np.ndarray, "4 4"]:
    """A model of four latents: one of four factors each, blended with the others by some amount."""
    angle = rng.uniform(0, 0.8)
    turned = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    return (1 - angle) * np.eye(4)[rng.permutation(4)] + angle * turned


def learned(models: Sequence[np.ndarray], pictures: int, rng: np.random.Generator) -> list[Codes]:
    """What models see in the same pictures."""
    factors = rng.uniform(-1.7, 1.7, (pictures, 4))
    noisy = [factors @ model + 0.3 * rng.normal(size=(pictures, 4)) for model in models]
    return [Codes(mean, np.full(mean.shape, -4.0), np.zeros((pictures, 0)), ()) for mean in noisy]


# Comparisons.

COMPARED = ("mig", "modularity", "explicitness", "sap", "irs", "gaussian_total_correlation", "mcc", "r2", "mig_sup")
COMPARE = "`sober.compare`, before adjusting"


def mixed(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Five latents that each know something about several of three factors."""
    factors = rng.integers(0, [3, 4, 5], (rows, 3))
    return factors @ (np.eye(3, 5) + 0.2) + 0.7 * rng.normal(size=(rows, 5)), factors


def pair(case: str, rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """Two codes of the same 600 rows."""
    factors = rng.integers(0, [3, 4, 5], (600, 3))
    mixing = np.eye(3, 5) + 0.2
    vague = [factors @ mixing + 0.7 * rng.normal(size=(600, 5)) for _ in range(2)]
    codes_of_factors = [factors + 0.3 * rng.normal(size=factors.shape) for _ in range(2)]
    return {
        "mixed codes": vague,
        "good codes": codes_of_factors,
        "good against mixed codes": [codes_of_factors[0], vague[0]],
    }[case], factors


def comparisons() -> Iterator[Finding]:
    """Pairs of codes of 600 rows, against the mean difference over all pairs."""
    draws = 120
    for case in ("mixed codes", "good codes", "good against mixed codes"):
        outcomes = []
        for draw in range(draws):
            codes, factors = pair(case, np.random.default_rng([draw, 7]))
            named = {name: as_codes(array, factors) for name, array in zip("ab", codes, strict=True)}
            outcomes.append(compared(named, COMPARED, seed=draw))
        alike = case != "good against mixed codes"
        for place, difference in enumerate(outcomes[0].differences):
            of_score = [outcome.differences[place] for outcome in outcomes]
            values = np.array([one.value for one in of_score])
            truth = 0.0 if alike else values.mean()
            times = sum(one.low <= truth <= one.high for one in of_score)
            needed = 2 * 1.96 * math.sqrt(np.mean((values - truth) ** 2))
            width = float(np.mean([one.high - one.low for one in of_score]) / needed) if needed > 0 else None
            yield Finding("interval", COMPARE, f"`{difference.score}`, {case}", 0.95, times, draws, width)
        if alike:
            times = sum(bool(outcome.real()) for outcome in outcomes)
            yield Finding(
                "p",
                "`sober.compare`, any real difference",
                f"{len(outcomes[0].differences)} scores, {case}",
                0.05,
                times,
                draws,
            )


# False alarms.


def weightless(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, None]:
    return rng.normal(size=(rows, 4)), rng.integers(0, [5, 4, 3], (rows, 3)), None


def balancing(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    factors = np.stack([rng.choice(5, rows, p=[0.8, *[0.05] * 4]), *rng.integers(0, [[4], [3]], (2, rows))], axis=1)
    return rng.normal(size=(rows, 4)), factors, 1 / np.bincount(factors[:, 0])[factors[:, 0]]


def of_codes(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    codes, factors, _ = weightless(rows, rng)
    return codes, factors, np.exp(codes[:, 0] + codes[:, 1])


def of_both(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    codes, factors, weights = balancing(rows, rng)
    return codes, factors, weights * np.exp(codes[:, 0] + codes[:, 1])


WEIGHTED: Mapping[str, tuple[Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray | None]], Sequence[str]]] = {
    "no weights": (weightless, ("mig", "modularity", "sap", "irs")),
    "weights that balance a factor": (balancing, ("mig", "modularity", "mig_sup", "dcimig")),
    "weights that depend on codes": (of_codes, ("mig", "modularity", "mig_sup", "dcimig")),
    "weights that depend on factors and codes": (of_both, ("mig", "modularity", "mig_sup", "dcimig")),
}


def shuffles() -> Iterator[Finding]:
    """`chance=19` for codes that know nothing."""
    draws = 200
    for case, (drawn, metrics) in WEIGHTED.items():
        times = dict.fromkeys(metrics, 0)
        for draw in range(draws):
            codes, factors, weights = drawn(300, np.random.default_rng([draw, 2]))
            chances = score(codes, factors, weights=weights, metrics=metrics, chance=19, seed=draw).chance
            for name in metrics:
                times[name] += chances[name].p <= 0.05
        for name, alarms in times.items():
            yield Finding("p", "p of `chance=`", f"`{name}`, {case}", 0.05, alarms, draws)


def groups() -> Iterator[Finding]:
    """`chance=19` for codes and factors that are alike within groups, and know nothing of each other."""
    times, draws, metrics = {"mig": 0, "modularity": 0}, 200, ("mig", "modularity")
    for draw in range(draws):
        rng = np.random.default_rng([draw, 3])
        label = np.repeat(np.arange(60), 5)
        codes = rng.normal(size=(60, 4))[label] + 0.3 * rng.normal(size=(300, 4))
        factors = rng.integers(0, [3, 4], (60, 2))[label]
        for name, chance in score(codes, factors, groups=label, metrics=metrics, chance=19, seed=draw).chance.items():
            times[name] += chance.p <= 0.05
    for name, alarms in times.items():
        yield Finding("p", "p of `chance=`", f"`{name}`, 60 groups of 5 rows", 0.05, alarms, draws)


def dependent_factors() -> Iterator[Finding]:
    """The flag `dependent_factors` for independent factors."""
    draws = 400
    for values, rows in ((4, 300), (20, 300)):
        times = 0
        for draw in range(draws):
            rng = np.random.default_rng([draw, 4])
            codes = as_codes(rng.normal(size=(rows, 1)), rng.integers(0, values, (rows, 5)))
            result = dependence(codes)
            times += result is not None and result.real
        case = f"5 independent factors of {values} values, {rows} rows"
        yield Finding("p", "the flag `dependent_factors`", case, 0.001, times, draws)


def recurring() -> Iterator[Finding]:
    """`sober.agree` for models that have nothing in common, and for models of one space along axes of their own."""
    cases = {
        "4 models of 6 latents of noise": np.zeros(6),
        "4 rotations of 6 equal sources": np.ones(6),
        "4 rotations of 6 sources of very different size": np.array([3, 2, 1, 1, 0.5, 0.3]),
    }
    for place, (case, sizes) in enumerate(cases.items()):
        small, latents = 0, 0
        for draw in range(60):
            rng = np.random.default_rng([draw, 5, place] if place else [draw, 5])
            codes = {f"seed {seed}": rotated(sizes, rng, draw) for seed in range(4)}
            table = agree(codes, seed=draw).table()
            small += int((table["p"] <= 0.05).sum())
            latents += len(table)
        yield Finding("p", "p of `sober.agree`", f"{case}: each latent", 0.05, small, latents)
    yield from false_discoveries()


def rotated(sizes: np.ndarray, rng: np.random.Generator, draw: int) -> np.ndarray:
    """300 codes of sources of these sizes, along random axes; noise if all sizes are 0."""
    if not sizes.any():
        return rng.normal(size=(300, len(sizes)))
    sources = np.random.default_rng([draw, 6]).normal(size=(300, len(sizes))) * sizes
    return np.asarray(sources @ np.linalg.qr(rng.normal(size=(len(sizes), len(sizes))))[0])


def false_discoveries() -> Iterator[Finding]:
    """How often `sober.agree` says that something recurs where nothing does, and how much of what it says is false."""
    where, draws = "latents that `sober.agree` says recur", 200
    cases: dict[str, Callable[[np.random.Generator], tuple[Any, Any]]] = {
        "4 models of 6 latents of noise": lambda rng: (list(rng.normal(size=(4, 500, 6))), None),
        "4 random axes of one space of 8 dimensions": _rotations,
        "4 models of 64 features that fire at random": _firing,
        "4 random dictionaries of 128 features in 32 dimensions": lambda rng: (
            None,
            list(rng.normal(size=(4, 128, 32))),
        ),
        "the same, all leaning one way": lambda rng: (
            None,
            list(rng.normal(size=(4, 128, 32)) + 3 * rng.normal(size=32)),
        ),
    }
    for number, (case, models) in enumerate(cases.items()):
        times = 0
        for draw in range(draws):
            codes, dictionaries = models(np.random.default_rng([draw, number, 6]))
            times += bool(agree(codes, dictionaries, draws=1_000, seed=draw).table()["recurs"].any())
        yield Finding("p", where, f"{case}: any latent", 0.05, times, draws)
    false, total = 0, 0
    for draw in range(draws):
        truth = planted(48, 32, 600, seed=draw)
        learned = [planted_model(truth, learned=0.6, junk=24, seed=100 * draw + model) for model in range(4)]
        recurs = agree([model.codes for model in learned], draws=1_000, seed=draw).table()["recurs"].to_numpy()
        features = np.concatenate([model.truth for model in learned])
        shared = (features >= 0) & (np.bincount(features[features >= 0], minlength=48)[features] > 1)
        false, total = false + int((recurs & ~shared).sum()), total + int(recurs.sum())
    yield Finding("p", where, "4 models of 29 known features and 24 of their own: the false ones", 0.05, false, total)


def _rotations(rng: np.random.Generator) -> tuple[Any, Any]:
    sources = rng.normal(size=(500, 8))
    return [sources @ np.linalg.qr(rng.normal(size=(8, 8)))[0] for _ in range(4)], None


def _firing(rng: np.random.Generator) -> tuple[Any, Any]:
    return [(rng.random((1_000, 64)) < 0.03) * rng.gamma(2, 0.5, (1_000, 64)) for _ in range(4)], None


SIMULATIONS: Mapping[str, Callable[[], Iterable[Finding]]] = {
    simulation.__name__: simulation
    for simulation in (
        repeats, next_shuffles, means, medians, correlations, between_worlds, strengths, variance, transfers, criteria,
        comparisons, shuffles, groups, dependent_factors, recurring,
    )
}  # fmt: skip


# The page.


def read() -> dict[str, list[Finding]]:
    """The numbers of all simulations that were made."""
    if not NUMBERS.exists():
        return {}
    findings_by_section = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return {name: [Finding(**finding) for finding in findings] for name, findings in findings_by_section.items()}


def write(findings_by_section: Mapping[str, Sequence[Finding]]) -> None:
    """Writes the numbers, in the order of the simulations."""
    plain = {
        name: [finding._replace(times=int(finding.times))._asdict() for finding in findings_by_section[name]]
        for name in SIMULATIONS
        if name in findings_by_section
    }
    NUMBERS.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("simulations", nargs="*", metavar="SIMULATION", help=", ".join(SIMULATIONS))
    parser.add_argument("--page", action="store_true", help="only the page, from the numbers that there are")
    arguments = parser.parse_args()
    if unknown := set(arguments.simulations) - set(SIMULATIONS):
        parser.error(f"there is no simulation {', '.join(sorted(unknown))}: choose among {', '.join(SIMULATIONS)}")
    for name in [] if arguments.page else arguments.simulations or SIMULATIONS:
        with threadpoolctl.threadpool_limits(1):
            findings = list(SIMULATIONS[name]())
        write(read() | {name: findings})
        for finding in findings:
            print(
                f"{finding.where}, {finding.case}: {finding.share:.1%} ± {finding.error:.1%}, {finding.verdict}",
                flush=True,
            )
    if missing := SIMULATIONS.keys() - read().keys():
        parser.exit(message=f"the page needs {', '.join(sorted(missing))}, too\n")
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")


HEAD = """# How sure is Sober?

Sober says how sure it is of a number in two ways. An *interval* promises to hold the truth in 95% of cases, or in 90%.
A *p-value* of at most 0.05 promises that noise gives it in at most 5% of cases. This page has both promises tested by
simulation: the truth is known, data are drawn many times, and Sober is asked each time. `python docs/make_how_sure.py`
makes the numbers and the page.

The share is known to the number after ±; more draws would make it smaller. *As promised* means that the draws cannot
tell the share from the promise, or that both differ by less than 2.5 points.

"""
INTERVALS = """## Intervals

| interval | in | promised | held | draws | it is |
|---|---|---:|---:|---:|---|
"""
AFTER_INTERVALS = """
What to make of it:

- **Few seeds near the end of a range.** If scores crowd near 1, the interval of their mean misses it more often than
  promised: the rare bad seed is not among the few. Train ten seeds or more, or read the medians.
- **Correlations over runs** say what *other settings with other seeds* would give. For the question what other seeds of
  the same settings would give, they are wider than needed. With few settings they are wide: 0.7 from end to end for six
  settings of ten seeds.
- **Share of variance.** With few seeds the share itself is too high, by chance alone, and so is its interval. The
  column `adjusted` of the table has the share without this excess.
- **Correlations of means over strengths**, **transfer** of a choice from five seeds, **medians** of about ten seeds,
  and **UDR** of a family of six have intervals that are somewhat too narrow.
- No interval allows for another world, another net or another choice of pictures to train on.

"""
COMPARISONS = """## Comparing representations

How often the 95% intervals of [`sober.compare`](compare.md) hold the true difference, for two codes of 600 rows, and
how wide they are. An interval with a known variance would have a width of 1.00, but nobody knows the variance;
Student's t for ten splits alone makes it 1.14. There are {draws} draws of each case: a share of 95% is known to
± {error:.0%}.

"""
AFTER_COMPARISONS = """
Intervals of scores near the end of their range are too wide, as `modularity` of good codes: its variance falls faster
than the number of rows rises. Quarters of the rows tell Sober how fast, and make this interval half as wide as halves
alone would. A score that is far from its ends, with little behind it, varies as much with half of the rows as with all
of them, and its interval is too narrow: `modularity` of mixed codes. Quarters do not show this. `irs` depends on the
most extreme rows; Sober widens its interval for that reason.

"""
ALARMS = """## False alarms

How often noise is called real. "Promised" is the most that may happen.

| p-value | in | promised | happened | draws | it happens |
|---|---|---:|---:|---:|---|
"""
AFTER_ALARMS = """
[Chance](metrics/chance.md) shuffles weighted rows in two ways and takes the larger p. This is right for weights that
depend on the factors only, or on the codes only. For weights that depend on both, neither way is exact. In this
simulation the larger p stays on the safe side.

`sober.agree` draws random mixtures of a model's latents, each latent scaled to the same variance. If all models hold
the same sources along random axes, and a few sources have most of the variance, the models' latents are somewhat more
alike than such mixtures. Then look at how alike partners are, too, and not at p alone. Mixtures of latents that keep
their own sizes would be right there: p ≤ 0.05 in 5.0% of 960 latents, where equal sizes give 10.7%. But where four
models agree on axes of such sizes, they would find 83% of the latents and miss the largest one, because most mixtures
are much like it. Equal sizes find all of them.
"""


def page() -> str:
    """The whole page."""
    findings = [finding for section in read().values() for finding in section]
    compared_scores = [finding for finding in findings if finding.where == COMPARE]
    intervals = [finding for finding in findings if finding.kind != "p" and finding.where != COMPARE]
    alarms = [finding for finding in findings if finding.kind == "p"]
    first = compared_scores[0]
    usual = 1.96 * math.sqrt(first.promised * (1 - first.promised) / first.draws)
    return "".join(
        (
            HEAD,
            INTERVALS,
            *map(_row, intervals),
            AFTER_INTERVALS,
            COMPARISONS.format(draws=first.draws, error=usual),
            *_compared(compared_scores),
            AFTER_COMPARISONS,
            ALARMS,
            *map(_row, alarms),
            AFTER_ALARMS,
        )
    )


def _row(finding: Finding) -> str:
    promised = f"{finding.promised:.1%}".replace(".0%", "%")
    cells = finding.where, finding.case, promised, _share(finding), f"{finding.draws:,}", finding.verdict
    return f"| {' | '.join(cells)} |\n"


def _share(finding: Finding) -> str:
    return f"{finding.share:.1%} ± {100 * finding.error:.1f}"


def _compared(findings: Sequence[Finding]) -> Iterator[str]:
    """A row for each score, and two columns for each case."""
    cases = list(dict.fromkeys(finding.case.split(", ", 1)[1] for finding in findings))
    cells = {tuple(finding.case.split(", ", 1)): finding for finding in findings}
    yield f"| score | {' | '.join(f'{case}: held | width' for case in cases)} |\n"
    yield "|---|" + "---:|---:|" * len(cases) + "\n"
    for score_name in dict.fromkeys(finding.case.split(", ", 1)[0] for finding in findings):
        of_score = [cells[score_name, case] for case in cases]
        texts = [f"{_bold_if_narrow(finding)} | {_width(finding)}" for finding in of_score]
        yield f"| {score_name} | {' | '.join(texts)} |\n"


def _bold_if_narrow(finding: Finding) -> str:
    text = f"{finding.share:.0%}"
    return f"**{text}**" if "narrow" in finding.verdict else text


def _width(finding: Finding) -> str:
    return "–" if finding.width is None else f"{finding.width:.2f}"


if __name__ == "__main__":
    main()
