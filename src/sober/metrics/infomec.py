"""InfoMEC (Hsu et al. 2023): modularity, explicitness and compactness from information, over the latents in use.

    NMI[j, k] = I(z_j; v_k) / H(v_k), by nearest neighbours within classes (Ross 2014)
    InfoM     = mean over active latents of (max_k NMI / sum_k NMI - 1/K) / (1 - 1/K)
    InfoC     = mean over factors of (max_j NMI / sum_j NMI - 1/A) / (1 - 1/A), over the A active latents
    InfoE     = mean over factors of 1 - CE(v_k | z) / log n_k

CE is the log-loss of an unpenalised multinomial logistic regression, classes weighted by their frequency, on all
standardised latents; log n_k is that of one which knows nothing. It is fitted and measured on the same rows, as
published, or measured on a half that was held out (`held_out`).

Which latents are active, the authors' two repositories say differently. `tripod`, the default: those whose
interquartile range is more than a tenth of the largest. `lq`: those whose range is more than a twentieth of the
largest.

Of more than 512 latents: equal values are dealt with by the mean over all orders, without noise; where the quartiles of
all latents agree, as those of sparse ones do, `lq` says which are active; and explicitness is that of penalised
regressions, on a half that was held out. All three are flagged or said on the page.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.errors import RequestError
from sober.estimators.columns import WIDE, Table, by_column, is_sparse, is_wide, spread, stretches, taken
from sober.estimators.discrete import classes, entropy, information
from sober.estimators.neighbours import class_information, jittered
from sober.estimators.quiet import not_converged_is_fine
from sober.estimators.scaling import in_range, standardised
from sober.estimators.tied_neighbours import tied_class_information
from sober.metrics.discrete import discretised, has_continuous
from sober.metrics.explicitness import read_out
from sober.metrics.metric import Change, Meaning, Measured, Metric, NotMeasuredError, Traits
from sober.metrics.rows import TRAIN, by_factor, halves, sample
from sober.shared import Shared
from sober.types import Codes

STEPS = 100  # of the optimiser: separable classes have no optimum, and are published as they are after so many


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
    fresh = "drawn" if is_wide(codes.mean) and held_out == "none" else held_out  # so many latents explain any row seen
    explicit, rare = by_factor(
        classed, shared, lambda part: explained_entropy(*shared(halves, part, samples, fresh, seed), discrete)
    )
    nmi = by_factor(
        classed,
        shared,
        lambda part: shared(
            normalised_information, shared(sample, part, samples, seed), 0 if discrete else int(neighbours), seed
        ),
    )
    wide = is_wide(drawn.mean)
    if wide and discrete:
        raise NotMeasuredError(f"of more than {WIDE} latents there is no form for discrete ones: latents='continuous'")
    active = wide_active(drawn.mean, prune) if wide else active_latents(np.asarray(drawn.mean, float), prune, discrete)
    ranged = wide and prune == "tripod" and not active.any()
    if ranged:  # sparse latents are 0 at both quartiles
        active = wide_active(drawn.mean, "lq")
    modular, compact = concentration(nmi[active]), concentration(nmi[active].T)
    flags = ["binned_factor"] * has_continuous(codes) + ["rare_class"] * rare
    flags += ["chosen_penalty"] * wide + ["sparse_latents"] * bool(ranged and active.any())
    flags += ["one_factor"] * (nmi.shape[1] == 1) + ["one_latent"] * bool(active.sum() == 1)
    if not active.any():
        values = dict.fromkeys(("infom", "infoe", "infoc"), 0.0)
        return Measured(values, ("collapsed", *flags), {"nmi": nmi, "active": active})
    known = nmi[active].sum(axis=0) > 0
    flags += ["unknown_factor"] * (not known.all()) + ["idle_latent"] * (not nmi[active].any(axis=1).all())
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
    """I(z_j; v_k) / H(v_k), by nearest neighbours; with none of them by counts, for latents of few values."""
    if is_wide(codes.mean):
        matrix = tied_class_information(codes.mean, codes.factors, neighbours)
    elif neighbours:
        matrix = class_information(jittered(codes.mean, np.random.default_rng([seed, 4])), codes.factors, neighbours)
    else:
        matrix = information(np.stack([classes(column) for column in codes.mean.T], axis=1), codes.factors)
    whole = entropy(codes.factors)
    return np.divide(matrix, whole, out=np.zeros_like(matrix), where=whole > 0)


def active_latents(mean: Float[np.ndarray, "N D"], prune: str, discrete: bool) -> Bool[np.ndarray, " D"]:
    """Latents that are in use, by the rule of either repository: `tripod` or `lq`."""
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
    """The same of wide codes, which are not all looked at at once."""
    if prune not in ("tripod", "lq"):
        raise RequestError(f"infomec: prune must be 'tripod' or 'lq', not {prune!r}")
    if prune == "lq":
        reach = spread(mean)
        return reach > reach.max() / 20
    table, quarter = by_column(mean), mean.shape[0] / 4 - 1
    looked = np.diff(table.indptr) > quarter if is_sparse(table) else np.full(mean.shape[1], True)
    between, candidates = np.zeros(mean.shape[1]), np.flatnonzero(looked)  # the others are 0 at both quartiles
    for which in stretches(mean):
        some = candidates[(candidates >= which.start) & (candidates < which.stop)]
        low, high = np.quantile(np.asarray(taken(table, some), float), [0.25, 0.75], axis=0)
        between[some] = high - low
    return between > between.max() / 10


def concentration(rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " n"]:
    """How much of each row's sum is in its largest entry: 1 for all of it, 0 for equal shares, and 0 for no sum."""
    n, m = rows.shape
    if not n or not m:
        return np.zeros(n)
    total = rows.sum(axis=1)
    if m == 1:
        return (total > 0).astype(float)
    share = np.divide(rows.max(axis=1), total, out=np.full(n, 1 / m), where=total > 0)
    return (share - 1 / m) / (1 - 1 / m)


def explained_entropy(learn: Codes, check: Codes, discrete: bool) -> tuple[Float[np.ndarray, " K"], bool]:
    """1 - CE(v_k | z) / log n_k of each factor; and whether some class is in one part of the rows only."""
    if is_wide(learn.mean):
        return wide_explained_entropy(learn, check)
    x, x_test = _one_hot(learn.mean, check.mean) if discrete else standardised(learn.mean, check.mean)
    out, rare = np.zeros(len(learn.about)), False
    for k in range(len(learn.about)):
        truth, answer = learn.factors[:, k], check.factors[:, k]
        known = np.isin(answer, truth)
        rare |= set(np.unique(truth)) != set(np.unique(answer))
        if len(np.unique(truth)) > 1 and known.any():
            out[k] = 1.0 - log_loss(x, truth, x_test[known], answer[known]) / np.log(len(np.unique(truth)))
    return out, bool(rare)


def wide_explained_entropy(learn: Codes, check: Codes) -> tuple[Float[np.ndarray, " K"], bool]:
    """The same of wide codes, by penalised regressions of each value against the rest.

    Their probabilities are made to add up to 1, and divided by how frequent each value is, as balanced classes are.
    """
    out, rare = np.zeros(len(learn.about)), False
    for k, logits in enumerate(read_out(learn, check)):
        answer = check.factors[:, k]
        share = np.bincount(learn.factors[:, k], minlength=len(logits)) / len(learn.factors)
        known, there = share[answer] > 0, np.flatnonzero(share)
        rare |= set(there) != set(np.unique(answer))
        if len(there) > 1 and known.any():
            log_odds = -np.logaddexp(0, -logits[there]) - np.log(share[there])[:, None]
            log_chance = log_odds - np.logaddexp.reduce(log_odds, axis=0)
            right = log_chance[np.searchsorted(there, answer[known]), np.flatnonzero(known)]
            out[k] = 1.0 + right.mean() / np.log(len(there))
    return out, bool(rare)


def _one_hot(learn: np.ndarray, check: np.ndarray) -> list[Float[np.ndarray, "_ V"]]:
    """Every value of every latent as a column of its own."""
    from sklearn.preprocessing import OneHotEncoder  # noqa: PLC0415

    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(learn)
    return [encoder.transform(part) for part in (learn, check)]


def log_loss(
    x: Float[np.ndarray, "N V"],
    y: Int[np.ndarray, " N"],
    x_test: Float[np.ndarray, "n V"],
    y_test: Int[np.ndarray, " n"],
) -> float:
    """Of an unpenalised, class-balanced multinomial logistic regression, on test rows; scikit-learn's, as published."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    with not_converged_is_fine():
        model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=STEPS).fit(x, y)
    scores = model.decision_function(x_test)
    if scores.ndim == 1:  # of two classes there is one score
        scores = np.stack([np.zeros_like(scores), scores], axis=1)
    log_probability = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    return -float(np.mean(log_probability[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)]))


SMALL: tuple[Change, ...] = ("rescaled latents",)  # latents that vary little beside the others take no part

infomec = Metric(
    name="infomec",
    summary="does each latent know one factor, is each factor in one latent, and can it be read linearly?",
    reference="Hsu et al. (2023) Disentanglement via Latent Quantization",
    scores={
        "infom": Meaning(
            "what latents know of their main factor, as a share of all they know",
            # Equal codes are put in random order, and what chance leaves has a largest entry too.
            traits=Traits(perfect=0.05, noise=None, changed_by=SMALL, lowered_by=("noise latents", "merged factors")),
        ),
        "infoe": Meaning(
            "share of the factors' entropy that a linear classifier explains",
            traits=Traits(ideal="value", perfect=1e-3, lowered_by=("merged factors",)),
        ),
        "infoc": Meaning(
            "what the best latent knows of a factor, as a share of what all know",
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
    seconds=5.0,
    default=False,
    takes=frozenset({"holes", "groups", "sparse"}),
)
