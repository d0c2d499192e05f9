"""The numbers that decide claims of A Sober Look, each with its interval: functions of the runs of sets of models."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float
from numpy.ma import MaskedArray

from sober.results.claims.claim import in_words
from sober.results.claims.correlations import RESAMPLES, Controlled, controlled, draws_of
from sober.results.repeat_files import load_repeats
from sober.results.runs import Runs, joined
from sober.results.stats import (
    Interval,
    beats_random,
    interval,
    quartiles,
    rank_correlations,
    resampled,
    settings_then_seeds,
    tournament,
    variance_explained,
)
from sober.results.tables.strengths import strength_trends
from sober.results.tables.table import SEVEN_SCORES, common_settings

MATRICES = ("mi", "gbt", "svm")
COMPACTNESS = ("mig", "sap", "dci_completeness")  # rules that look at a factor's latents
RULES = (*COMPACTNESS, "dci_disentanglement", "modularity")
BY_PENALTY = ("beta_vae", "beta_tcvae", "factor_vae", "dip_vae_ii")  # AnnealedVAE's strength is a capacity
LABEL_FREE = ("reconstruction", "KL", "ELBO", "sampled TC")
LEARNED = "downstream_boosted_5000"
EFFICIENCIES = ("downstream_boosted_efficiency_5000", "downstream_logistic_efficiency_5000")
Sets = Mapping[str, Runs]


def trained(runs: Runs) -> str:
    """On what: worlds, models and steps."""
    parts = []
    for (world,), runs_of_world in runs.grouped_by("world"):
        steps = " or ".join(f"{steps:,}" for steps in runs_of_world.unique("steps"))
        parts.append(f"{world}: {len(runs_of_world.run_frame)} models × {steps} steps")
    return "; ".join(parts)


def estimate(values: MaskedArray | float, draws: MaskedArray, *, centred: bool = False) -> Interval:
    return interval(np.ma.asarray(values), np.ma.asarray(draws), centred=centred)


def trends(runs: Runs, number: str) -> dict[tuple[str, str, str], Interval]:
    """Rank correlation with the strength by world, method and number, for means and for samples."""
    rows = strength_trends(runs, resamples=RESAMPLES).iter_rows(named=True)
    names = (number, f"{number}_sampled")
    return {
        (row["world"], row["method"], row["metric"]): Interval(row["value"], row["low"], row["high"])
        for row in rows
        if row["metric"] in names
    }


def share_higher(runs: Runs, number: str) -> Interval:
    """The share of runs in which the number of the means is higher than that of the samples, by Wilson's interval."""
    means, samples = runs.not_diverged().number_columns([number, f"{number}_sampled"]).T
    higher = int(np.sum(means > samples))
    ends = scipy.stats.binomtest(higher, len(means)).proportion_ci(method="wilson")
    return Interval(higher / len(means), float(ends.low), float(ends.high))


class Shares(NamedTuple):
    """Shares of a score's variance: explained by the method, added by the strength, and left to the seed."""

    method: Interval
    strength: Interval
    seed: Interval

    def __repr__(self) -> str:
        return "Shares of method, strength and seed: " + ", ".join(in_words(share) for share in self)


def variance_shares(runs: Runs) -> dict[str, Shares]:
    """By score. Intervals are moved so that their middle is the value, because repeated rows bias R²."""
    counts, shares = resampled(len(runs.run_frame), resamples=RESAMPLES, seed=0), {}
    for name in SEVEN_SCORES:
        values = runs.number_columns([name])[:, 0].data
        explained = {}
        for by in ("method", "setting"):
            groups = runs.run_column(by)
            explained[by] = variance_explained(values, groups), variance_explained(values, groups, counts=counts)
        (method, methods), (setting, settings) = explained["method"], explained["setting"]
        pairs = ((method, methods), (setting - method, settings - methods), (1 - setting, 1 - settings))
        shares[name] = Shares(*(estimate(*pair, centred=True) for pair in pairs))
    return shares


def label_free(runs: Runs) -> MaskedArray:
    """Reconstruction, KL, ELBO and sampled total correlation of each run: lower is better for all four.

    Where the decoders were not kept, the last steps of training logged the reconstruction.
    """
    reconstruction = "reconstruction" if "reconstruction" in runs.names else "train_reconstruction"
    first, kl, tc = runs.number_columns([reconstruction, "kl", "total_correlation"]).T
    return np.ma.stack([first, kl, first + kl, tc], axis=1)


def label_free_correlations(sets: Sets) -> dict[str, Controlled]:
    """By world: rank correlations of the four label-free numbers with the seven scores."""
    correlations = {}
    for runs in (sets["A"], sets["B"]):
        for (world,), runs_of_world in runs.grouped_by("world"):
            scores = runs_of_world.number_columns(SEVEN_SCORES)
            correlations[world] = controlled(runs_of_world, label_free(runs_of_world), scores)
    return correlations


def score_agreement(runs: Runs) -> tuple[MaskedArray, MaskedArray]:
    """Rank correlations of the seven scores with each other, and their draws."""
    columns = runs.number_columns(SEVEN_SCORES)
    return rank_correlations(columns), rank_correlations(columns, counts=draws_of(runs))


def unified_correlations(runs: Runs) -> tuple[list[str], MaskedArray, MaskedArray]:
    """Names of the unified scores, their rank correlations with each other, and draws of these."""
    names = [f"{matrix}/{rule}" for matrix, rule in itertools.product(MATRICES, RULES)]
    columns = runs.number_columns(names)
    return names, rank_correlations(columns), rank_correlations(columns, counts=draws_of(runs))


class Luck(NamedTuple):
    """The probability that a run of the worst setting beats one of the best, by method and score."""

    methods: tuple[str, ...]
    values: np.ndarray  # (methods, scores)

    def __repr__(self) -> str:
        return f"Luck({len(self.methods)} methods × {self.values.shape[1]} scores)"


def luck(runs: Runs) -> Luck:
    """The best setting has the highest median, the worst the lowest."""
    values, methods = [], []
    for (method,), runs_of_method in runs.grouped_by("method"):
        settings = [group.number_columns(SEVEN_SCORES).data for _, group in runs_of_method.grouped_by("setting")]
        medians = np.array([np.median(setting, axis=0) for setting in settings])
        pairs = [
            (settings[int(medians[:, k].argmin())][:, k], settings[int(medians[:, k].argmax())][:, k])
            for k in range(len(SEVEN_SCORES))
        ]
        values.append([np.mean(worst[:, None] > best) for worst, best in pairs])
        methods.append(method)
    return Luck(tuple(methods), np.array(values))


LUCKY = 0.1  # a cell counts if its probability is above this


def share_of_cells(runs: Runs) -> Interval:
    """The share of methods and scores with a probability above 0.1, after taking off the bias of choosing."""
    return corrected_share(cells_of(runs), resamples=RESAMPLES)


def cells_of(runs: Runs) -> list[Float[np.ndarray, "K S"]]:
    """By method and score: a row for each of K settings, with the score of each of its S seeds."""
    cells = []
    for _, runs_of_method in runs.grouped_by("method"):
        settings = [group.number_columns(SEVEN_SCORES).data for _, group in runs_of_method.grouped_by("setting")]
        seeds = min(map(len, settings))
        cells += [np.array([setting[:seeds, k] for setting in settings]) for k in range(len(SEVEN_SCORES))]
    return cells


def corrected_share(cells: Sequence[Float[np.ndarray, "_ _"]], *, resamples: int) -> Interval:
    """The share of cells with a probability above 0.1, after taking off the bias of choosing.

    The same few runs choose two settings and then meet, which lowers the probability. So each score of each setting is
    taken for a normal distribution, where the true probability is known. Runs drawn from it say how far below the truth
    the counted share comes.
    """
    rng, counted, biases = np.random.default_rng(0), 0.0, np.zeros(resamples)
    for scores in cells:
        means, deviations = normal_settings(scores)
        drawn = rng.normal(means[:, None], deviations[:, None], (resamples, *scores.shape))
        counted += float(wins_of_worst(scores[None])[0] > LUCKY)
        biases += (wins_of_worst(drawn) > LUCKY) - float(chance_of_worst(means, deviations) > LUCKY)
    draws = (counted - biases) / len(cells)
    return Interval(float(draws.mean()), *(float(end) for end in np.percentile(draws, [2.5, 97.5])))


def normal_settings(scores: Float[np.ndarray, "K S"]) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Means and deviations of K settings from S runs each, without the spread that few runs add to means.

    A deviation is halfway between that of the setting and that of all.
    """
    means, variances = scores.mean(axis=1), scores.var(axis=1, ddof=1)
    spread = means.var(ddof=1)
    shrinkage = np.sqrt(max(spread - variances.mean() / scores.shape[1], 0.0) / spread) if spread else 1.0
    return means.mean() + shrinkage * (means - means.mean()), np.sqrt((variances + variances.mean()) / 2)


def chance_of_worst(means: Float[np.ndarray, " K"], deviations: Float[np.ndarray, " K"]) -> float:
    """The probability that a run of the setting with the lowest mean beats one of the setting with the highest."""
    worst, best = int(means.argmin()), int(means.argmax())
    spread = float(np.hypot(deviations[worst], deviations[best]))
    return float(scipy.stats.norm.cdf((means[worst] - means[best]) / spread)) if spread else 0.0


def wins_of_worst(scores: Float[np.ndarray, "R K S"]) -> Float[np.ndarray, " R"]:
    """How often runs of the setting with the lowest median beat runs of the one with the highest, by draw."""
    medians, draw = np.median(scores, axis=-1), np.arange(len(scores))
    worst, best = scores[draw, medians.argmin(axis=1)], scores[draw, medians.argmax(axis=1)]
    return np.mean(worst[:, :, None] > best[:, None], axis=(1, 2))


def luck_of_new_seeds(runs: Runs) -> Float[np.ndarray, "methods scores"]:
    """The same probability if two seeds meet, and the other seeds choose the settings."""
    cells = []
    for _, runs_of_method in runs.grouped_by("method"):
        scores = runs_of_method.grid(SEVEN_SCORES, runs_of_method.unique("setting"))[0]  # (K, S, R)
        wins: list[MaskedArray] = []
        for first, second in itertools.permutations(range(scores.shape[-1]), 2):
            others = [seed for seed in range(scores.shape[-1]) if seed not in (first, second)]
            medians = np.ma.median(scores[..., others], axis=-1)  # (K, S)
            k = np.arange(len(scores))
            worst, best = scores[k, medians.argmin(axis=1), first], scores[k, medians.argmax(axis=1), second]
            wins.append(np.ma.array(worst > best, dtype=float))
        cells.append(np.ma.mean(np.ma.stack(wins), axis=0))
    return np.ma.stack(cells).filled(np.nan)


def repeats(runs: Runs) -> dict[int, tuple[MaskedArray, MaskedArray]]:
    """By number of pictures: each score's rank correlation with itself on other pictures, and its draws.

    Both columns have a row for each model that was measured on parts of its pictures.
    """
    assert runs.folder is not None, "these runs come from no folder"
    data = load_repeats(runs.folder)
    setting_of = dict(zip(runs.run_column("run"), runs.run_column("setting"), strict=True))
    settings = [setting_of[run] for run in sorted(data["run"].unique())]
    counts = settings_then_seeds(settings, resamples=RESAMPLES, seed=0)
    correlations = {}
    for pictures in sorted(data["pictures"].unique()):
        x, y = (
            data.filter(pictures=pictures, part=half)
            .pivot(on="metric", index="run", values="value")
            .sort("run")
            .select(SEVEN_SCORES)
            .to_numpy()
            for half in (0, 1)
        )
        values, draws = rank_correlations(x, y), rank_correlations(x, y, counts=counts)
        correlations[pictures] = values.diagonal(), np.ma.masked_array(np.ma.diagonal(draws, axis1=1, axis2=2))
    return correlations


def repeated_runs(runs: Runs) -> list[str]:
    """The identities of the models that were measured on parts of their pictures."""
    assert runs.folder is not None, "these runs come from no folder"
    return load_repeats(runs.folder)["run"].unique().to_list()


def with_tasks(runs: Runs) -> Runs:
    """The runs that were tried downstream."""
    sound = runs.not_diverged()
    return sound.where(~np.ma.getmaskarray(sound.number_columns([LEARNED])[:, 0]))


def task_correlations(runs: Runs) -> Controlled:
    """Rank correlations of the seven scores with accuracies and efficiencies downstream, with controls."""
    runs = with_tasks(runs)
    tasks = (LEARNED, *EFFICIENCIES)
    return controlled(runs, runs.number_columns(SEVEN_SCORES), runs.number_columns(tasks))


def three_worlds(sets: Sets) -> Runs:
    return joined([sets["A"], sets["B"]]).not_diverged()


class Transfer(NamedTuple):
    """How often a chosen setting does as well as a random one: by same or other score, same or other world."""

    probability: Interval  # (2, 2)
    chance: np.ndarray  # (2, 2)
    gap: Interval  # same/same less both other
    beyond_chance: Interval  # both other, less chance

    def __repr__(self) -> str:
        return f"Transfer(gap {in_words(self.gap)}, beyond chance {in_words(self.beyond_chance)})"


def transfer_of_settings(runs: Runs) -> Transfer:
    grid = runs.grid(SEVEN_SCORES, common_settings(runs))
    played, blind = tournament(grid), tournament(grid, blind=True)
    counts = resampled(grid.shape[-1], resamples=RESAMPLES, seed=0)
    values, draws = beats_random(played), beats_random(played, counts=counts)
    chance, chances = beats_random(blind), beats_random(blind, counts=counts)
    return Transfer(
        interval(values, draws),
        chance.data,
        estimate(values[0, 0] - values[1, 1], draws[:, 0, 0] - draws[:, 1, 1]),
        estimate(values[1, 1] - chance[1, 1], draws[:, 1, 1] - chances[:, 1, 1]),
    )


class WorldPair(NamedTuple):
    """A score's agreement over settings between dSprites and its two variants."""

    colour: Interval
    noise: Interval
    difference: Interval

    def __repr__(self) -> str:
        return f"WorldPair(colour {in_words(self.colour)}, noise {in_words(self.noise)})"


def agreement_of_worlds(runs: Runs) -> dict[str, WorldPair]:
    """By score: rank correlations over the medians of settings, as in the table `worlds_agreement`."""
    settings = runs.unique("setting")
    grid = runs.grid(SEVEN_SCORES, settings)
    medians = quartiles(grid.reshape(-1, grid.shape[-1]))[1].reshape(grid.shape[:-1])  # (W, K, S)
    counts = resampled(len(settings), resamples=RESAMPLES, seed=0)
    pairs = {}
    for k, name in enumerate(SEVEN_SCORES):
        by_world = medians[:, k].T  # (S, W)
        values = rank_correlations(by_world[:, :1], by_world[:, 1:])[0]
        draws = rank_correlations(by_world[:, :1], by_world[:, 1:], counts=counts)[:, 0]
        estimates = (
            (values[0], draws[:, 0]),
            (values[1], draws[:, 1]),
            (values[0] - values[1], draws[:, 0] - draws[:, 1]),
        )
        pairs[name] = WorldPair(*(estimate(*pair) for pair in estimates))
    return pairs


def luck_of_any_two(runs: Runs) -> float:
    """The mean probability that a run of the setting with the lower median beats one of the other, over all pairs."""
    chances = []
    for _, runs_of_method in runs.grouped_by("method"):
        settings = [group.number_columns(SEVEN_SCORES).data for _, group in runs_of_method.grouped_by("setting")]
        for first, second in itertools.combinations(settings, 2):
            for k in range(len(SEVEN_SCORES)):
                low, high = sorted((first[:, k], second[:, k]), key=np.median)
                chances.append(np.mean(low[:, None] > high))
    return float(np.mean(chances))
