"""OMES (Dapueto et al. 2024): does each factor move only one latent, and does no other factor move that latent?

    e[j, k] = 1 - |correlation of z_j with itself over pairs of rows that differ only in factor k|
    o[j, k] = 1 - mean over factors i of |1[i = k] - e[j, i]|    no overlap: latent j moves with factor k, and no other
    m[j, k] = 1 - mean over latents i of |1[i = j] - e[i, k]|    one encoding: factor k moves latent j, and no other
    OMES    = mean over factors of α · max_j o[j, k] e[j, k] + (1 - α) · max_j m[j, k] e[j, k]

α is a half; `pooling="mean"` takes the mean over latents weighted by e instead of the largest. Latents with a standard
deviation below 0.05 do not take part. Pairs are drawn as published: rows that agree in all factors but k are paired at
random, as many times as there are such rows. The score is the mean over several draws, and the part `interval` its
confidence interval.

Partners never share their value, so on a complete grid a perfect latent has e = 1 - 1/(n_k - 1): perfect codes do not
reach 1, and a factor with two values has 0.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError
from sober.estimators.scaling import in_range
from sober.metrics.common.factor_classes import discretised, has_continuous
from sober.metrics.common.intervals import half_width
from sober.metrics.common.interventions import agreeing_but
from sober.metrics.common.metric_rows import Groups
from sober.metrics.common.shapes import at_most
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.shared import Shared
from sober.types import Codes

WIDEST = 1_024  # latents
FEW = 100  # with fewer pairs, a correlation is too uncertain


def measure(
    codes: Codes,
    shared: Shared,
    *,
    seed: int,
    alpha: float,
    pooling: str,
    threshold: float,
    pairs: int,
    draws: int,
) -> Measured:
    at_most(codes, WIDEST, "every pair of rows is compared in every latent")
    if not 0 <= alpha <= 1:
        raise RequestError(f"omes: alpha must be between 0 and 1, not {alpha}")
    if pooling not in ("max", "mean"):
        raise RequestError(f"omes: pooling must be 'max' or 'mean', not {pooling!r}")
    if draws < 1 or pairs < 2:
        raise RequestError(f"omes: needs at least one draw of two pairs, not {draws} of {pairs}")
    classed = shared(discretised, codes)
    mean = np.asarray(classed.mean, float)
    active = mean.std(axis=0, ddof=min(1, len(mean) - 1)) >= threshold
    groups = shared(apart_in_one, classed)
    flags = ["binned_factor"] * has_continuous(codes) + ["one_factor"] * (len(codes.about) == 1)
    flags += ["two_values"] * any(factor.size == 2 for factor in classed.about)
    counts = [int(np.sum(group.size * (group.size // 2))) for group in groups]
    flags += ["no_pairs"] * (min(counts) == 0) + ["few_pairs"] * (0 < min(counts) < FEW)
    if not active.any():
        empty = np.zeros((0, len(codes.about)))
        return Measured({"omes": 0.0}, ("collapsed", *flags), {"encoding": empty, "active": active})
    rng = np.random.default_rng([seed, 7])
    encodings = [encoding(mean[:, active], groups, int(pairs), rng) for _ in range(int(draws))]
    scores = np.array([pooled(matrix, alpha, pooling) for matrix in encodings])  # (draws, K)
    value, spread = float(scores.mean()), 0.0
    if draws > 1:
        spread = half_width(float(scores.mean(axis=1).std(ddof=1)) / math.sqrt(draws), int(draws))
    parts = {
        "encoding": np.mean(encodings, axis=0),
        "active": active,
        "omes_per_factor": scores.mean(axis=0),
        "interval": np.array([value - spread, value + spread]),
    }
    return Measured({"omes": value}, tuple(flags), parts)


def apart_in_one(codes: Codes) -> tuple[Groups, ...]:
    """For each factor, groups of rows that agree in all others, one row for each value. Factors must be classes."""
    out = []
    for k in range(len(codes.about)):
        label = agreeing_but(codes, k)
        cell = label * (int(codes.factors[:, k].max(initial=0)) + 1) + codes.factors[:, k]
        first = np.unique(cell, return_index=True)[1]
        group = Groups.of(label[first])
        out.append(group._replace(order=first[group.order]))
    return tuple(out)


def encoding(
    mean: Float[np.ndarray, "N D"], groups: tuple[Groups, ...], pairs: int, rng: np.random.Generator
) -> Float[np.ndarray, "D K"]:
    """1 - |correlation over pairs| of each latent, for pairs that differ only in each factor; 0 without such pairs."""
    out = np.zeros((mean.shape[1], len(groups)))
    for k, group in enumerate(groups):
        first, second = draw_partners(group, pairs, rng)
        if len(first):
            out[:, k] = 1.0 - np.abs(pair_correlation(mean[first], mean[second]))
    return out


def draw_partners(
    group: Groups, pairs: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " P"], Int[np.ndarray, " P"]]:
    """Pairs from each group in random order, as many times as the group has rows; at most about `pairs` pairs."""
    paired = group.size > 1
    total = int(np.sum(group.size[paired] * (group.size[paired] // 2)))
    first, second = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for size in np.unique(group.size[paired]):
        same_size = np.flatnonzero(group.size == size)
        repeated = np.repeat(same_size, size)
        if total > pairs:
            count = max(1, round(len(repeated) * pairs / total))
            repeated = rng.choice(repeated, count, replace=False)
        rows = group.order[group.start[repeated][:, None] + np.arange(size)]
        rows = rng.permuted(rows, axis=1)[:, : 2 * (size // 2)]
        first.append(rows[:, ::2].ravel())
        second.append(rows[:, 1::2].ravel())
    return np.concatenate(first), np.concatenate(second)


def pair_correlation(x: Float[np.ndarray, "P D"], y: Float[np.ndarray, "P D"]) -> Float[np.ndarray, " D"]:
    """The correlation of each column of x with the same column of y; 1 if one of them does not vary."""
    x, y = (in_range(array) for array in (x, y))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    scale = np.sqrt(np.sum(x**2, axis=0) * np.sum(y**2, axis=0))
    covariance = np.sum(x * y, axis=0)
    return np.clip(np.divide(covariance, scale, out=np.ones_like(scale), where=scale > 0), -1.0, 1.0)


def pooled(matrix: Float[np.ndarray, "D K"], alpha: float, pooling: str) -> Float[np.ndarray, " K"]:
    """The score of each factor, from how much each factor moves each latent."""
    others = matrix.sum(axis=1, keepdims=True) - matrix
    overlap = 1.0 - (1.0 - matrix + others) / matrix.shape[1]
    others = matrix.sum(axis=0, keepdims=True) - matrix
    multiple = 1.0 - (1.0 - matrix + others) / len(matrix)
    products = [product * matrix for product in (overlap, multiple)]
    if pooling == "max":
        overlap_score, multiple_score = (product.max(axis=0) for product in products)
    else:
        total = matrix.sum(axis=0)
        weight = np.divide(matrix, total, out=np.zeros_like(matrix), where=total > 0)
        overlap_score, multiple_score = (np.sum(product * weight, axis=0) for product in products)
    return alpha * overlap_score + (1 - alpha) * multiple_score


omes = Metric(
    name="omes",
    summary="does each factor move only one latent, and does no other factor move that latent?",
    short="does each factor move one latent, alone?",
    reference="Dapueto et al. (2024) Transferring Disentangled Representations: Bridging the Gap between Synthetic and "
    "Real Images",
    scores={
        "omes": Meaning(
            "how far each factor moves a latent of its own, over pairs of rows that differ only in this factor",
            title="OMES",
            traits=Traits(
                perfect=None,  # partners never share a value, which correlates them
                noise=None,  # a latent that always moves looks moved by every factor
                changed_by=("rescaled latents",),  # small latents do not take part
                lowered_by=("merged factors",),
            ),
        )
    },
    measure=measure,
    settings={"alpha": 0.5, "pooling": "max", "threshold": 0.05, "pairs": 100_000, "draws": 5},
    quick={"draws": 2},
    seconds=0.05,
    default=False,
    takes=frozenset({"groups"}),  # pairs are compared, and nothing is held out
)
