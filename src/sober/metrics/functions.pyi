"""Metrics as plain functions, for type checkers: made of the registry by `python docs/make_functions.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sober.metrics.score import Scores

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
    """Does the latent that varies least name the factor that was held fixed?"""

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
    """Does each latent serve one factor, each factor need one latent, and do latents tell it all?"""

def dci_lasso(
    codes: Any,
    factors: Any,
    *,
    train: int = 142927,
    validation: int = 17854,
    test: int = 17854,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
    repeats: int = 1,
    chance: int = 0,
) -> Scores:
    """Does each latent serve one factor, each factor need one latent, and do latents tell it all, linearly?"""

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
    """Does each latent serve one factor, each factor need one latent, and do latents tell it all, to trees?"""

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
    """Does one latent predict each factor far better than the next one?"""

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
    """Does a latent stay where it is while all but one factor change?"""

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
    """Are latents independent of each other? (as far as covariances tell)"""

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
    """How far are latents from independent ones, in their own units?"""

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
    """Do latents know about each other?"""

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
    """How many latents say anything about the pictures?"""

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
    """Does each latent know one factor, is each factor in one latent, and can it be read linearly?"""

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
    """Is each factor, up to scale and sign, one latent of its own?"""

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
    """How simple a probe reads the factors from the code, and how many latents does it need?"""

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
    """Is each factor in one latent, and nothing else in it?"""

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
    """Does each factor have a latent that knows it, and no other factor as well?"""

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
    """Does each latent know one factor alone?"""

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
    """How far is the latent that knows most of a factor ahead of the next?"""

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
    """Does the latent that varies most name the factor that varies?"""

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
    """Does a change of one factor move one latent alone, and is that latent moved by no other?"""

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
    """Does each latent serve one factor, and each factor need one latent, by mutual information?"""

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
    """Is each binary attribute told by one latent, and by that one alone?"""

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
    """How well is each value of a factor told by the best single latent?"""

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
    """Does each latent hold one factor and nothing else, and one latent all of each, however factors depend?"""

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
    """Mutual information, under each rule"""

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
    """Tree importance, under each rule"""

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
    """Predictability, under each rule"""
