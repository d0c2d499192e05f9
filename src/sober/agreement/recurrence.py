"""How often a component recurs, how sure that is, and whether chance would give as much.

A latent recurs in another model if its partner there is at least `least` alike: a correlation of √½ is half of the
variance. Its recurrence is the share of the other models in which it recurs, with the interval of Clopper and Pearson
(1934). Its p is the share of chance features whose partners are as alike on average; the largest p of all kinds of
chance counts. Benjamini and Hochberg (1995) then control the share of false discoveries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from sober.agreement.chance import STRATUM, Chance, Kind
from sober.agreement.options import LEAST, LEVEL

MOST_OFTEN = 0.5  # a component is listed as recurring if it recurs in at least this share of the other models


class Recurrence(NamedTuple):
    """For each of F features: in how many other models it recurs, and what chance gives."""

    share: Float[np.ndarray, " F"]
    low: Float[np.ndarray, " F"]
    high: Float[np.ndarray, " F"]
    similarity: Float[np.ndarray, " F"]  # the mean strength of its partners in the other models
    chance: Float[np.ndarray, " F"]  # the mean share of chance features of the strictest kind
    chance_similarity: Float[np.ndarray, " F"]  # what 95% of these do not reach on average
    p: Float[np.ndarray, " F"]
    q: Float[np.ndarray, " F"]  # p adjusted for the number of features
    recurs: Bool[np.ndarray, " F"]
    p_by_kind: Mapping[Kind, Float[np.ndarray, " F"]]

    def __repr__(self) -> str:
        return f"Recurrence({int(self.recurs.sum()):,} of {len(self.share):,} features recur)"


def recurrence(
    best: Float[np.ndarray, "F M"],
    model: Int[np.ndarray, " F"],
    alive: Bool[np.ndarray, " F"],
    effective: Float[np.ndarray, " F"],
    chances: Sequence[Chance],
    *,
    least: float = LEAST,
    level: float = LEVEL,
) -> Recurrence:
    """`best` holds the strength of each feature's partner in each model; its own model does not count."""
    others = best.shape[1] - 1
    count = np.where(alive, (best >= least).sum(axis=1), 0)
    similarity = np.where(alive, best.sum(axis=1) / others, 0.0)
    low, high = interval(count, others, level)
    p = np.full(len(best), -1.0)
    by_kind: dict[Kind, np.ndarray] = {}
    chance_share, chance_similarity = np.zeros(len(best)), np.zeros(len(best))
    strictest = np.full(len(best), -1.0)
    for kind in chances:
        p_kind, bound, share = np.full(len(best), -1.0), np.full(len(best), -1.0), np.zeros(len(best))
        p_kind[alive], bound[alive], share[alive] = _against(
            kind, similarity[alive], model[alive], effective[alive], least
        )
        by_kind[kind.kind] = p_kind
        p = np.maximum(p, p_kind)
        stricter = alive & (bound > strictest)
        chance_share[stricter], chance_similarity[stricter] = share[stricter], bound[stricter]
        strictest[stricter] = bound[stricter]
    p[~alive | (p < 0)] = 1.0
    q = np.ones(len(best))
    q[alive] = benjamini_hochberg(p[alive])
    recurs = alive & (q <= level) & (count >= MOST_OFTEN * others)
    share = count / others
    return Recurrence(share, low, high, similarity, chance_share, chance_similarity, p, q, recurs, by_kind)


def _against(
    chance: Chance,
    similarity: Float[np.ndarray, " F"],
    model: Int[np.ndarray, " F"],
    effective: Float[np.ndarray, " F"],
    least: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p, the similarity that 95% of chance features do not reach, and their recurrence, for each feature; -1 if none.

    Features of one model that fire about as often form a stratum. Similarities are measured in standard deviations of
    chance from the mean of chance in their stratum, and all strata share these numbers, so that small p can be told.
    """
    score, drawn_scores = np.full(len(similarity), np.nan), []
    bound, share = np.full(len(similarity), -1.0), np.zeros(len(similarity))
    for number in np.unique(model):
        members = np.flatnonzero(model == number)
        features = np.flatnonzero(chance.model == (-1 if chance.kind == "untrained" else number))
        if not len(features):  # of a single latent, no rotation can be made
            continue
        best = np.delete(chance.best[features], number, axis=1)  # in the same models as the model's own features
        drawn, drawn_share = best.mean(axis=1), (best >= least).mean(axis=1)
        edges = _edges(chance.effective[features])
        of_member, of_feature = np.digitize(effective[members], edges), np.digitize(chance.effective[features], edges)
        for stratum in range(len(edges) + 1):
            inside, drawn_inside = members[of_member == stratum], drawn[of_feature == stratum]
            centre, spread = drawn_inside.mean(), max(drawn_inside.std(), 1e-9)
            score[inside] = (similarity[inside] - centre) / spread
            drawn_scores.append((drawn_inside - centre) / spread)
            bound[inside] = np.quantile(drawn_inside, 0.95)
            share[inside] = drawn_share[of_feature == stratum].mean()
    drawn_score = np.sort(np.concatenate(drawn_scores)) if drawn_scores else np.zeros(0)
    as_high = len(drawn_score) - np.searchsorted(drawn_score, score - 1e-9)
    p = (1 + as_high) / (1 + len(drawn_score))
    return np.where(np.isnan(score), -1.0, p), bound, share


def _edges(effective: Float[np.ndarray, " C"]) -> np.ndarray:
    """Bounds of strata of at least `STRATUM` chance features; none where it is not known how often they fire."""
    if np.isnan(effective).any():
        return np.zeros(0)
    values, counts = np.unique(effective, return_counts=True)
    edges, before, total = [], 0, 0
    for value, count in zip(values, counts, strict=True):
        if total - before >= STRATUM and len(effective) - total >= STRATUM:
            edges.append(value)
            before = total
        total += count
    return np.array(edges)


def interval(count: Int[np.ndarray, " F"], trials: int, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """The exact interval of a share: of models that could have been trained, how many would show the component."""
    count = np.asarray(count, float)
    low = np.where(count > 0, scipy.special.betaincinv(np.maximum(count, 1), trials - count + 1, level / 2), 0.0)
    high = np.where(
        count < trials, scipy.special.betaincinv(count + 1, np.maximum(trials - count, 1), 1 - level / 2), 1.0
    )
    return low, high


def benjamini_hochberg(p: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The smallest level at which each is a discovery: the k-th smallest of n times n / k, never falling."""
    if not len(p):
        return np.zeros(0)
    order = np.argsort(p, kind="stable")
    raised = p[order] * len(p) / np.arange(1, len(p) + 1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1)
    return adjusted
