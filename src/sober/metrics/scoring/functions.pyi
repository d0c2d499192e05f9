"""Metrics as plain functions, for type checkers: made of the registry by `python docs/make_functions.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sober.metrics.scoring.score import Scores

def beta_vae(
    codes: Any,
    factors: Any,
    *,
    train: int = 10000,
    test: int = 5000,
    batch: int = 64,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Can a linear classifier tell which factor was held fixed?"""

def factor_vae(
    codes: Any,
    factors: Any,
    *,
    train: int = 10000,
    test: int = 5000,
    batch: int = 64,
    samples: int = 10000,
    threshold: float = 0.05,
    prune: str = "variance",
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does the latent that varies least tell which factor was held fixed?"""

def mig(
    codes: Any,
    factors: Any,
    *,
    logvar: Any = None,
    samples: int = 10000,
    bins: int = 20,
    latents: str = "means",
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Is each factor held by one latent alone?"""

def modularity(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    bins: int = 20,
    active: bool = False,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does each latent know about one factor only?"""

def explicitness(
    codes: Any,
    factors: Any,
    *,
    train: int = 10000,
    test: int = 5000,
    classifier: str = "one_vs_rest",
    rescaled: bool = False,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Can a linear classifier read each factor from the whole code?"""

def dci(
    codes: Any,
    factors: Any,
    *,
    train: int = 10000,
    test: int = 5000,
    trees: str = "boosted",
    weighted: bool = True,
    screen: int = 64,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does each latent serve one factor, does each factor need only one latent, and is each factor predictable?"""

def dci_lasso(
    codes: Any,
    factors: Any,
    *,
    train: int = 142927,
    validation: int = 17854,
    test: int = 17854,
    strength: float = 0.0,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """DCI by lassos: does each latent serve one factor, and does each factor need only one latent?"""

def dci_forest(
    codes: Any,
    factors: Any,
    *,
    train: int = 142927,
    validation: int = 17854,
    test: int = 17854,
    trees: int = 10,
    screen: int = 64,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """DCI by random forests: does each latent serve one factor, and does each factor need only one latent?"""

def sap(
    codes: Any,
    factors: Any,
    *,
    train: int = 10000,
    test: int = 5000,
    strength: float = 0.01,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does one latent predict each factor far better than the second best latent?"""

def irs(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    quantile: float = 0.99,
    factor_bins: int = 0,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does each latent stay put while all factors but one change?"""

def gaussian_total_correlation(
    codes: Any,
    *,
    logvar: Any = None,
    samples: int = 10000,
    preset: str = "study",
    seed: int = 0,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Are latents independent of each other? (judged by their covariances)"""

def aggregate_total_correlation(
    codes: Any,
    *,
    logvar: Any = None,
    points: int = 1000,
    preset: str = "study",
    seed: int = 0,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Are latents independent of each other, over all pictures?"""

def wasserstein_correlation(
    codes: Any,
    *,
    logvar: Any = None,
    samples: int = 10000,
    preset: str = "study",
    seed: int = 0,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """How far are latents from being independent, in their own units?"""

def mutual_information(
    codes: Any,
    *,
    logvar: Any = None,
    samples: int = 10000,
    bins: int = 20,
    preset: str = "study",
    seed: int = 0,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """How much information do latents share with each other?"""

def active_latents(
    codes: Any,
    *,
    logvar: Any = None,
    samples: int = 10000,
    threshold: float = 0.01,
    preset: str = "study",
    seed: int = 0,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """How many latents carry information about the pictures?"""

def infomec(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    neighbours: int = 10,
    prune: str = "tripod",
    latents: str = "continuous",
    held_out: str = "none",
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does each latent know one factor, and is each factor in one latent and linear to read?"""

def mcc(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    held_out: str = "drawn",
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does each factor correlate perfectly with a latent of its own?"""

def r2(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    held_out: str = "drawn",
    model: str = "linear",
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """How much of the factors' variance does a simple model of the code explain?"""

def dci_es(
    codes: Any,
    factors: Any,
    *,
    train: int = 2000,
    test: int = 1000,
    trees: int = 100,
    deepest: int = 32,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """How simple can a model that predicts the factors be, and how many latents does it use?"""

def jemmig(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    bins: int = 20,
    ratio_only: bool = False,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Is each factor in one latent that holds nothing else?"""

def dcimig(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    bins: int = 20,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does each factor have a latent that knows this factor better than any other?"""

def mig_sup(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    bins: int = 20,
    over: str = "factor",
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does each latent know only one factor?"""

def rmig(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    bins: int = 20,
    over: str = "factor",
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """How much more does the best latent know about a factor than the second best?"""

def z_max_variance(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    train: int = 800,
    test: int = 800,
    batch: int = 200,
    threshold: float = 0.05,
    factor_bins: int = 3,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does the latent that varies most tell which factor varies?"""

def omes(
    codes: Any,
    factors: Any,
    *,
    alpha: float = 0.5,
    pooling: str = "max",
    threshold: float = 0.05,
    pairs: int = 100000,
    draws: int = 5,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does each factor move only one latent, and does no other factor move that latent?"""

def edi(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    bins: int = 30,
    neighbours: int = 3,
    estimator: str = "bins",
    whole: str = "sum",
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does each latent know one factor much better than the others?"""

def med(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    bins: int = 20,
    top: int = 1,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """DCI by mutual information: does each latent serve one factor, and does each factor need only one latent?"""

def tad(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    threshold: float = 0.75,
    overlap: float = 0.2,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does exactly one latent detect each binary attribute?"""

def best_latent(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    held_out: str = "drawn",
    by: str = "f1",
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """How well does the best single latent detect each value of a factor?"""

def minimality_sufficiency(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    noise: float = 0.1,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does each latent hold nothing but one factor, and does one latent hold all of each factor?"""

def mi(
    codes: Any,
    factors: Any,
    *,
    samples: int = 10000,
    bins: int = 20,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Mutual information of latents and factors, made into scores by five rules"""

def gbt(
    codes: Any,
    factors: Any,
    *,
    train: int = 10000,
    test: int = 5000,
    trees: str = "boosted",
    screen: int = 64,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Importance of latents in boosted trees, made into scores by five rules"""

def svm(
    codes: Any,
    factors: Any,
    *,
    train: int = 10000,
    test: int = 5000,
    strength: float = 0.01,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """How well one latent alone predicts a factor, made into scores by five rules"""
