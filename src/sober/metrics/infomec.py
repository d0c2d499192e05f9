"""InfoMEC (Hsu et al. 2023): does each latent know one factor, and is each factor in one latent and linear to read?

    NMI[j, k] = I(z_j; v_k) / H(v_k), by nearest neighbours within classes (Ross 2014)
    InfoM     = mean over active latents of (max_k NMI / sum_k NMI - 1/K) / (1 - 1/K)
    InfoC     = mean over factors of (max_j NMI / sum_j NMI - 1/A) / (1 - 1/A), over the A active latents
    InfoE     = mean over factors of 1 - CE(v_k | z) / log n_k

CE is the log-loss of an unpenalised multinomial logistic regression on all standardised latents, with balanced
classes; log n_k is the loss of a constant prediction. It is fitted and measured on the same rows, as
published, or measured on a held-out half (`held_out`).

The authors' two repositories define active latents differently. `tripod`, the default: latents whose interquartile
range is more than a tenth of the largest. `lq`: latents whose range is more than a twentieth of the largest.

More than 512 latents are measured differently in three ways. Ties between equal values are averaged over all orders,
without noise. If the two quartiles of every latent are equal, which is common for sparse latents, `lq` decides which
are active. Explicitness comes from penalised regressions, on a held-out half. The flags or the metric's page say so.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.discrete import classes, entropy, information
from sober.estimators.neighbours import class_information, jittered
from sober.estimators.scaling import in_range, standardised
from sober.estimators.sklearn_warnings import not_converged_is_fine
from sober.estimators.wide.tied_neighbours import tied_class_information
from sober.estimators.wide.wide_tables import WIDE, Table, by_column, is_sparse, is_wide, spread, stretches, taken
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.metric_rows import TRAIN, by_factor, halves, sample
from sober.metrics.explicitness import read_out
from sober.metrics.metric import Change, Meaning, Measured, Metric, Traits
from sober.parallel import one_thread
from sober.shared import Shared
from sober.types import Codes

SHUFFLES = 19  # a factor counts as unknown if one of them is as good: one in twenty by chance
DOUBTFUL = 4.0  # nats times √rows: ten latents of noise rarely have more information about a factor
STEPS = 100  # optimiser steps: separable classes have no optimum, so the published scores depend on this number


def measure(
    codes: Codes,
    shared: Shared,
    *,
    seed: int,
    samples: int,
    neighbours: int,
    prune: str,
    latents: str,
    held_out: str,
) -> Measured:
    if latents not in ("continuous", "discrete"):
        raise RequestError(f"infomec: latents must be 'continuous' or 'discrete', not {latents!r}")
    classed = shared(discretised, codes)
    drawn = shared(sample, classed, samples, seed)
    discrete = latents == "discrete"
    if is_wide(codes.mean) and held_out == "none":
        held_out = "drawn"  # wide codes explain any training row
    explicit, rare = by_factor(
        classed, shared, lambda subset: explained_entropy(*shared(halves, subset, samples, held_out, seed), discrete)
    )
    neighbours = 0 if discrete else int(neighbours)
    nmi = by_factor(
        classed,
        shared,
        lambda subset: shared(normalised_information, shared(sample, subset, samples, seed), neighbours, seed),
    )
    wide = is_wide(drawn.mean)
    if wide and discrete:
        raise NotMeasuredError(f"more than {WIDE} latents cannot be discrete: pass latents='continuous'")
    active = wide_active(drawn.mean, prune) if wide else active_latents(np.asarray(drawn.mean, float), prune, discrete)
    ranged = wide and prune == "tripod" and not active.any()
    if ranged:  # both quartiles of sparse latents are 0
        active = wide_active(drawn.mean, "lq")
    modular, compact = concentration(nmi[active]), concentration(nmi[active].T)
    flags = ["binned_factor"] * has_continuous(codes) + ["rare_class"] * rare
    flags += ["chosen_penalty"] * wide + ["sparse_latents"] * bool(ranged and active.any())
    flags += ["one_factor"] * (nmi.shape[1] == 1) + ["one_latent"] * bool(active.sum() == 1)
    if not active.any():
        values = dict.fromkeys(("infom", "infoe", "infoc"), 0.0)
        return Measured(values, ("collapsed", *flags), {"nmi": nmi, "active": active})
    is_known = by_factor(
        classed,
        shared,
        lambda subset: known_factors(shared(sample, subset, samples, seed), shared, active, neighbours, seed),
    )
    flags += ["unknown_factor"] * (not is_known.all()) + ["idle_latent"] * (not nmi[active].any(axis=1).all())
    values = {"infom": modular.mean(), "infoe": max(0.0, explicit.mean()), "infoc": compact.mean()}
    parts = {
        "nmi": nmi,
        "active": active,
        "infom_per_latent": modular,
        "infoe_per_factor": explicit,
        "infoc_per_factor": compact,
    }
    return Measured({name: float(value) for name, value in values.items()}, tuple(flags), parts)


def normalised_information(codes: Codes, neighbours: int, seed: int) -> Float[np.ndarray, "D K"]:
    """I(z_j; v_k) / H(v_k), by nearest neighbours; with 0 neighbours by counts, for latents with few values."""
    if is_wide(codes.mean):
        matrix = tied_class_information(codes.mean, codes.factors, neighbours)
    elif neighbours:
        matrix = class_information(jittered(codes.mean, np.random.default_rng([seed, 4])), codes.factors, neighbours)
    else:
        matrix = information(np.stack([classes(column) for column in codes.mean.T], axis=1), codes.factors)
    uncertainty = entropy(codes.factors)
    return np.divide(matrix, uncertainty, out=np.zeros_like(matrix), where=uncertainty > 0)


def known_factors(
    codes: Codes, shared: Shared, active: Bool[np.ndarray, " D"], neighbours: int, seed: int
) -> Bool[np.ndarray, " K"]:
    """Whether some active latent knows more about each factor than any latent does of `SHUFFLES` shuffles of its rows.

    Information far above chance needs no shuffles. Wide codes are not shuffled, because that would take long.
    """
    best = shared(normalised_information, codes, neighbours, seed)[active].max(axis=0)
    is_known = best > 0
    if is_wide(codes.mean):
        return is_known
    doubtful = is_known & (best * entropy(codes.factors) < DOUBTFUL / math.sqrt(len(codes.mean)))
    active_codes = dataclasses.replace(codes, mean=codes.mean[:, active], logvar=None)
    for k in np.flatnonzero(doubtful if neighbours else is_known):
        rng = np.random.default_rng([seed, int(k), 5])
        shuffles = np.stack([rng.permutation(codes.factors[:, k]) for _ in range(SHUFFLES)], axis=1)
        shuffled = dataclasses.replace(active_codes, factors=shuffles, about=(codes.about[k],) * SHUFFLES, known=None)
        is_known[k] = best[k] > normalised_information(shuffled, neighbours, seed).max()
    return is_known


def active_latents(mean: Float[np.ndarray, "N D"], prune: str, discrete: bool) -> Bool[np.ndarray, " D"]:
    """The active latents, by the rule of one of the repositories: `tripod` or `lq`."""
    if prune not in ("tripod", "lq"):
        raise RequestError(f"infomec: prune must be 'tripod' or 'lq', not {prune!r}")
    mean = in_range(mean)
    if prune == "lq":
        spread = np.ptp(mean, axis=0)
        return spread > (0.0 if discrete else spread.max() / 20)
    low, high = np.quantile(mean, [0.25, 0.75], axis=0)
    spread = high - low
    return spread > (0.1 if discrete else spread.max() / 10)


def wide_active(mean: Table, prune: str) -> Bool[np.ndarray, " D"]:
    """The active latents of wide codes, read some columns at a time."""
    if prune not in ("tripod", "lq"):
        raise RequestError(f"infomec: prune must be 'tripod' or 'lq', not {prune!r}")
    if prune == "lq":
        ranges = spread(mean)
        return ranges > ranges.max() / 20
    table, quarter = by_column(mean), mean.shape[0] / 4 - 1
    dense_enough = np.diff(table.indptr) > quarter if is_sparse(table) else np.full(mean.shape[1], True)
    between, candidates = np.zeros(mean.shape[1]), np.flatnonzero(dense_enough)  # both quartiles of the others are 0
    for stretch in stretches(mean):
        chosen = candidates[(candidates >= stretch.start) & (candidates < stretch.stop)]
        low, high = np.quantile(np.asarray(taken(table, chosen), float), [0.25, 0.75], axis=0)
        between[chosen] = high - low
    return between > between.max() / 10


def concentration(rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " n"]:
    """How much of each row's sum is in its largest entry: 1 for all of it, 0 for equal shares or a sum of 0."""
    n, m = rows.shape
    if not n or not m:
        return np.zeros(n)
    total = rows.sum(axis=1)
    if m == 1:
        return (total > 0).astype(float)
    share = np.divide(rows.max(axis=1), total, out=np.full(n, 1 / m), where=total > 0)
    return (share - 1 / m) / (1 - 1 / m)


def explained_entropy(learn: Codes, check: Codes, discrete: bool) -> tuple[Float[np.ndarray, " K"], bool]:
    """1 - CE(v_k | z) / log n_k of each factor; and whether training or test rows lack some class."""
    if is_wide(learn.mean):
        return wide_explained_entropy(learn, check)
    x, x_test = _one_hot(learn.mean, check.mean) if discrete else standardised(learn.mean, check.mean)
    out, rare = np.zeros(len(learn.about)), False
    for k in range(len(learn.about)):
        truth, answer = learn.factors[:, k], check.factors[:, k]
        in_training = np.isin(answer, truth)
        rare |= set(np.unique(truth)) != set(np.unique(answer))
        if len(np.unique(truth)) > 1 and in_training.any():
            loss = log_loss(x, truth, x_test[in_training], answer[in_training])
            out[k] = 1.0 - loss / np.log(len(np.unique(truth)))
    return out, bool(rare)


def wide_explained_entropy(learn: Codes, check: Codes) -> tuple[Float[np.ndarray, " K"], bool]:
    """`explained_entropy` of wide codes, by penalised regressions of each value against the rest.

    The probabilities of a factor's values are divided by the values' frequencies, to balance classes, and normalised.
    """
    out, rare = np.zeros(len(learn.about)), False
    for k, logits in enumerate(read_out(learn, check)):
        answer = check.factors[:, k]
        share = np.bincount(learn.factors[:, k], minlength=len(logits)) / len(learn.factors)
        in_training, present = share[answer] > 0, np.flatnonzero(share)
        rare |= set(present) != set(np.unique(answer))
        if len(present) > 1 and in_training.any():
            log_odds = -np.logaddexp(0, -logits[present]) - np.log(share[present])[:, None]
            log_chance = log_odds - np.logaddexp.reduce(log_odds, axis=0)
            right = log_chance[np.searchsorted(present, answer[in_training]), np.flatnonzero(in_training)]
            out[k] = 1.0 + right.mean() / np.log(len(present))
    return out, bool(rare)


def _one_hot(learn: np.ndarray, check: np.ndarray) -> list[Float[np.ndarray, "_ V"]]:
    """Each value of each latent as a column of its own."""
    from sklearn.preprocessing import OneHotEncoder  # noqa: PLC0415

    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(learn)
    return [encoder.transform(rows) for rows in (learn, check)]


def log_loss(
    x: Float[np.ndarray, "N V"],
    y: Int[np.ndarray, " N"],
    x_test: Float[np.ndarray, "n V"],
    y_test: Int[np.ndarray, " n"],
) -> float:
    """The test loss of an unpenalised, class-balanced multinomial logistic regression, by scikit-learn as published."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    with not_converged_is_fine(), one_thread():
        model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=STEPS).fit(x, y)
    scores = model.decision_function(x_test)
    if scores.ndim == 1:  # two classes have one score
        scores = np.stack([np.zeros_like(scores), scores], axis=1)
    log_probability = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    return -float(np.mean(log_probability[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)]))


SMALL: tuple[Change, ...] = ("rescaled latents",)  # latents with a much smaller range than others do not take part

infomec = Metric(
    name="infomec",
    summary="does each latent know one factor, and is each factor in one latent and linear to read?",
    short="modularity, compactness and explicitness",
    reference="Hsu et al. (2023) Disentanglement via Latent Quantization",
    scores={
        "infom": Meaning(
            "share of a latent's information about factors that is about its main factor",
            # Equal codes are put in random order, and for noise the information left by chance has a largest entry too.
            title="InfoM",
            traits=Traits(perfect=0.05, noise=None, changed_by=SMALL, lowered_by=("noise latents", "merged factors")),
        ),
        "infoe": Meaning(
            "share of the factors' entropy that a linear classifier explains",
            title="InfoE",
            traits=Traits(ideal="value", perfect=1e-3, lowered_by=("merged factors",)),
        ),
        "infoc": Meaning(
            "share of the latents' information about a factor that its best latent has",
            title="InfoC",
            traits=Traits(
                perfect=0.05, noise=None, changed_by=SMALL, lowered_by=("duplicated latents", "split factors")
            ),
        ),
    },
    measure=measure,
    settings={
        "samples": TRAIN,
        "neighbours": 10,
        "prune": "tripod",
        "latents": "continuous",
        "held_out": "none",
    },
    presets={"tripod": {"prune": "tripod"}, "lq": {"prune": "lq"}, "held_out": {"held_out": "drawn"}},
    quick={"samples": 300},
    seconds=0.6,
    default=False,
    takes=frozenset({"holes", "groups", "sparse"}),
)
