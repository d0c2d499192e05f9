"""Unsupervised disentanglement ranking (Duan et al. 2020): do models that differ in their seed find the same latents?

    UDR_ij = 1 / (d_i + d_j) · ( Σ_b r_b² / Σ_a R(a, b)  +  Σ_a r_a² / Σ_b R(a, b) )

R(a, b) is how similar latent a of model i is to latent b of its partner j: the weight of b in a lasso that predicts a
from all latents of j, or their rank correlation, without the sign. r is the largest of a row or of a column. Sums go
over the d latents of each model that are informative. A model's score is the median over its partners.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from sober.criteria.criterion import (
    HALVES,
    REPLICATES,
    UNJUDGED,
    Cost,
    Criterion,
    Evidence,
    Judgement,
    Progress,
    all_finite,
    halves,
    seen_by,
)
from sober.errors import RequestError, listed
from sober.estimators.lasso import Columns, blocks, regressions
from sober.shared import Shared
from sober.types import Codes, Run, Setting

Similarity = Literal["lasso", "spearman"]
Preset = Literal["paper", "reference"]

ROWS: Mapping[str, int] = {"lasso": 10_000, "spearman": 1_000}  # as in the paper, section "UDR implementation details"
INFORMATIVE = 0.01  # nats of KL, eq. 3; where there is only a mean, its variance (Burda et al. 2016)
PAIR = 1e-4  # seconds for one ordered pair: docs/criteria/udr.md
REFERENCE_STRENGTH = 0.1  # of the lasso in the public implementation
REFERENCE_SLACK = 1e-4  # the tolerance of scikit-learn, by which it does not begin where 0 is nearly the solution


class Pair(NamedTuple):
    """How well the latents of a model line up with those of a partner."""

    model: int
    partner: int
    score: float


@dataclasses.dataclass(frozen=True, eq=False)
class UDR:
    """A score for each of M models, and what it was made of. Higher is better, in [0, 1]."""

    scores: Float[np.ndarray, " M"]
    flags: tuple[tuple[str, ...], ...]  # of each model
    pairs: tuple[Pair, ...]
    informative: tuple[Bool[np.ndarray, " D"], ...]  # which latents of each model took part
    similarity: Mapping[tuple[int, int], Float[np.ndarray, "D_i D_j"]]  # R by (model, partner), if asked for


def udr(
    codes: Sequence[Codes],
    *,
    partners: Sequence[Sequence[int]] | None = None,
    similarity: Similarity = "lasso",
    preset: Preset = "paper",
    informative: Sequence[Bool[np.ndarray, " D"]] | None = None,
    seed: int = 0,
    keep_similarity: bool = False,
) -> UDR:
    """Scores models by their codes of the same pictures, each against its `partners`, or against all others.

    `informative` says which latents of each model take part, where that is known better. `seed` says which rows are
    looked at where there are more than needed, and deals them to folds. The preset
    `reference` follows disentanglement_lib: a lasso of strength 0.1, the mean over rows and the mean over columns of R
    counted alike, and 0 for what a constant latent leaves undefined.
    """
    for name, value, known in (("similarity", similarity, Similarity), ("preset", preset, Preset)):
        if value not in get_args(known):
            raise RequestError(f"udr: {name} must be one of {listed(get_args(known))}, not {value!r}")
    order = drawn_rows(codes, ROWS[similarity], seed)
    partners = all_to_all(len(codes)) if partners is None else _checked_partners(partners, len(codes))
    informative = tuple(map(informative_latents, codes) if informative is None else informative)
    width = np.array([used.sum() for used in informative])
    pairs = np.array([(model, other) for model, others in enumerate(partners) for other in others])
    alive = np.flatnonzero((width[pairs] > 0).all(axis=1))
    latents = [
        model.mean if used.all() else model.mean[:, used] for model, used in zip(codes, informative, strict=True)
    ]
    scores = np.zeros(len(pairs))
    similarities = np.zeros((0, 0, 0))
    if len(alive):
        compare = functools.partial(_similarities, order=order, similarity=similarity, preset=preset)
        similarities = np.abs(_by_part(compare, latents, pairs[alive]))
        scores[alive] = _REDUCE[preset](similarities, *width[pairs[alive]].T)
    listed_pairs = tuple(map(Pair, *pairs.T.tolist(), scores.tolist()))
    ends = np.cumsum([len(others) for others in partners])[:-1]
    return UDR(
        np.array([np.median(part) for part in np.split(scores, ends)]),
        tuple(model_flags(model, used) for model, used in zip(codes, informative, strict=True)),
        listed_pairs,
        informative,
        _whole(similarities, pairs[alive], informative) if keep_similarity else {},
    )


def udr_of_arrays(
    codes: Sequence[Float[np.ndarray, "N _"]],
    kl: Sequence[Float[np.ndarray, " _"]] | None = None,
    *,
    similarity: Similarity = "lasso",
    groups: Sequence[object] | None = None,
    partners: int | None = None,
    seed: int = 0,
) -> Float[np.ndarray, " M"]:
    """Unsupervised disentanglement ranking of M models from arrays: a score for each in [0, 1], higher is better.

    `codes` holds the mean codes of the same N pictures under each model, (M, N, D) or a list of (N, D). `kl` says what
    each latent carries, in nats; without it latents of variance above 0.01 count as informative. `groups` names the
    setting of each model, and only models of one setting are compared; `partners` is how many each has, at most.

    >>> sober.udr(codes, kl, groups=settings)
    """
    means = [np.asarray(mean) for mean in codes]
    if any(mean.ndim != 2 for mean in means):
        raise RequestError("codes must be (M, N, D), or a list of (N, D): one array for each model")
    if kl is not None and [len(nats) for nats in kl] != [mean.shape[1] for mean in means]:
        raise RequestError("kl must hold a number for each latent of each model")
    if groups is not None and len(groups) != len(means):
        raise RequestError(f"groups must name the setting of each of {len(means)} models, got {len(groups)}")
    drawn = _drawn([0] * len(means) if groups is None else groups, partners, seed) if len(means) > 1 else None
    if lonely := [model for model, others in enumerate(drawn or []) if not others]:
        raise RequestError(f"model {lonely[0]} has no other in its group: give each group two models or more")
    known = [Codes(mean, None, np.zeros((len(mean), 0)), ()) for mean in means]
    used = None if kl is None else [np.asarray(nats) > INFORMATIVE for nats in kl]
    return udr(known, partners=drawn, similarity=similarity, informative=used, seed=seed).scores


def pair_score(
    similarity: Float[np.ndarray, "*P A B"], a: Int[np.ndarray, "*P"], b: Int[np.ndarray, "*P"]
) -> np.ndarray:
    """Eq. 2 for matrices R of which `a` rows and `b` columns are in use, the rest being 0."""
    rows, columns = _strengths(similarity)
    return (rows.sum(axis=-1) + columns.sum(axis=-1)) / (a + b)


def separate_means(
    similarity: Float[np.ndarray, "*P A B"], a: Int[np.ndarray, "*P"], b: Int[np.ndarray, "*P"]
) -> np.ndarray:
    """As `pair_score`, but rows count as much as columns, however many there are of each."""
    rows, columns = _strengths(similarity)
    return (rows.sum(axis=-1) / a + columns.sum(axis=-1) / b) / 2


_REDUCE = {"paper": pair_score, "reference": separate_means}


def _strengths(similarity: Float[np.ndarray, "*P A B"]) -> tuple[np.ndarray, np.ndarray]:
    """The largest of each row, and of each column, times its share in it; 0 where there is nothing, or no number."""
    with np.errstate(invalid="ignore"):
        return (
            np.nan_to_num(similarity.max(axis=-1) ** 2 / similarity.sum(axis=-1)),
            np.nan_to_num(similarity.max(axis=-2) ** 2 / similarity.sum(axis=-2)),
        )


def _by_part(
    compare: Callable[..., Float[np.ndarray, "P W W"]],
    latents: Sequence[Float[np.ndarray, "N _"]],
    pairs: Int[np.ndarray, "P 2"],
) -> Float[np.ndarray, "P W W"]:
    """What `compare(latents, pairs)` gives, of models that are not compared with each other one after the other."""
    graph = scipy.sparse.coo_matrix((np.ones(len(pairs)), pairs.T), shape=(len(latents), len(latents)))
    _, part = scipy.sparse.csgraph.connected_components(graph, directed=False)
    widest = max(latents[m].shape[1] for m in np.unique(pairs))
    similarities = np.zeros((len(pairs), widest, widest))
    by_part = np.argsort(part[pairs[:, 0]], kind="stable")
    for which in np.split(by_part, np.flatnonzero(np.diff(part[pairs[by_part, 0]])) + 1):
        members = np.unique(pairs[which])
        local = np.searchsorted(members, pairs[which])
        inside = compare([latents[m] for m in members], local)
        similarities[which, : inside.shape[1], : inside.shape[2]] = inside
    return similarities


def _similarities(
    latents: Sequence[Float[np.ndarray, "N _"]],
    pairs: Int[np.ndarray, "P 2"],
    *,
    order: Int[np.ndarray, " n"],
    similarity: Similarity,
    preset: Preset,
) -> Float[np.ndarray, "P W W"]:
    """R of each pair with its sign, in the first rows and columns; undefined numbers are NaN in the reference alone."""
    if similarity == "lasso" and preset == "paper":
        return regressions(Columns.of(latents, order=order, scaled=True), pairs)[0]
    if similarity == "lasso":
        columns = Columns.of(latents, folds=1, order=order, scaled=True)
        return regressions(columns, pairs, fixed=REFERENCE_STRENGTH, slack=REFERENCE_SLACK)[0]
    latents = [mean[order] for mean in latents]
    ranks = Columns.of([scipy.stats.rankdata(mean, axis=0) for mean in latents], folds=1, scaled=True)
    similarities = np.zeros((len(pairs), *2 * [np.diff(ranks.span).max()]))
    for left, right, which in blocks(ranks.span, pairs):
        correlations = ranks.products(left, right)[0] / len(order)
        for pair in which:
            i, j = pairs[pair]
            turned = i not in left
            start = [ranks.span[side[0]] for side in ((right, left) if turned else (left, right))]
            rows, columns_ = (
                slice(ranks.span[m] - s, ranks.span[m + 1] - s) for m, s in zip((i, j), start, strict=True)
            )
            matrix = (correlations.T if turned else correlations)[rows, columns_]
            if preset == "reference":
                constant = [np.ptp(latents[m], axis=0) == 0 for m in (i, j)]
                matrix = np.where(np.logical_or.outer(*constant), np.nan, matrix)
            similarities[pair, : matrix.shape[0], : matrix.shape[1]] = matrix
    return similarities


def _whole(
    similarities: Float[np.ndarray, "P W W"],
    pairs: Int[np.ndarray, "P 2"],
    informative: Sequence[Bool[np.ndarray, " D"]],
) -> dict[tuple[int, int], np.ndarray]:
    """Matrices over all latents of both models, 0 for those that did not take part."""
    whole = {}
    for (i, j), part in zip(pairs, similarities, strict=True):
        rows, columns = informative[i], informative[j]
        matrix = np.zeros((len(rows), len(columns)))
        matrix[np.ix_(rows, columns)] = part[: rows.sum(), : columns.sum()]
        whole[int(i), int(j)] = matrix
    return whole


# What criteria that compare models share.


def drawn_rows(codes: Sequence[Codes], rows: int, seed: int) -> Int[np.ndarray, " n"]:
    """Rows to look at, the same in all models, in random order; all of them where there are no more."""
    if len(codes) < 2:
        raise RequestError(f"models are compared with each other: give the codes of at least two, got {len(codes)}")
    count = len(codes[0].mean)
    for number, model in enumerate(codes):
        if len(model.mean) != count:
            raise RequestError(
                f"model {number} has codes of {len(model.mean)} pictures and model 0 of {count}: "
                "encode the same pictures"
            )
        for name, array in (("mean", model.mean), ("logvar", model.logvar)):
            if array is not None and not all_finite(array):
                column = int(np.flatnonzero(~np.isfinite(array).all(axis=0))[0])
                raise RequestError(f"model {number}: {name} of latent {column} is not finite: leave this model out")
    if count < 10:
        raise RequestError(f"models are compared on the pictures they encode: give at least 10, got {count}")
    return np.random.default_rng(seed).permutation(count)[:rows]


def informative_latents(codes: Codes) -> Bool[np.ndarray, " D"]:
    """Latents of mean KL from the prior above 0.01 nats (eq. 3); without log-variances, of variance above 0.01."""
    if codes.logvar is None:
        return np.asarray(codes.mean, np.float64).var(axis=0) > INFORMATIVE
    logvar = codes.logvar if codes.logvar.max(initial=0) <= 80 else np.minimum(codes.logvar, 80)  # e^80 fits float32
    with np.errstate(over="ignore"):  # what is infinite is informative
        divergence = codes.mean**2 + np.exp(logvar) - logvar  # twice, and more by 1
    return np.ones(len(logvar)) @ divergence / len(logvar) - 1 > 2 * INFORMATIVE


def model_flags(codes: Codes, informative: Bool[np.ndarray, " D"]) -> tuple[str, ...]:
    """What to know before trusting the score of a model."""
    collapsed = () if informative.any() else ("collapsed",)
    means_only = ("means_only",) if codes.logvar is None else ()
    return tuple(sorted({*codes.flags, *collapsed, *means_only}))


# Who is compared with whom.


def all_to_all(models: int, partners: int | None = None, seed: int = 0) -> list[list[int]]:
    """For each of so many models, others at random (the paper's A2A): so many partners, or all."""
    return _drawn([0] * models, partners, seed)


def same_methods(runs: Sequence[Run], partners: int | None = None, seed: int = 0) -> list[list[int]]:
    """For each run, others of its method at random, whatever their strength (the paper's A2A, within a model class)."""
    why = "no other run of its method to compare it with: train more seeds or strengths"
    return _with_partners(runs, _drawn([run.method for run in runs], partners, seed), why)


def same_settings(runs: Sequence[Run], partners: int | None = None, seed: int = 0) -> list[list[int]]:
    """For each run, others at random that differ from it in nothing but the seed: so many partners, or all."""
    why = "no partner with its settings and another seed: train more seeds"
    return _with_partners(runs, _drawn([run.seedless for run in runs], partners, seed), why)


def _with_partners(runs: Sequence[Run], drawn: list[list[int]], why: str) -> list[list[int]]:
    """The partners that were drawn. If no run has any, all are refused; some may have lost theirs, which diverged."""
    if not any(drawn):
        raise RequestError(f"run {runs[0].identity} has {why}")
    return drawn


def _drawn(groups: Sequence[object], partners: int | None, seed: int) -> list[list[int]]:
    """For each model, so many others of its group at random, or all.

    A large group is first dealt into parts, and partners come from one's own part. Any partners are as likely as any
    others, and models that have theirs in common are compared with less work.
    """
    if partners is not None and partners < 1:
        raise RequestError(f"a model needs at least one partner, got partners={partners}")
    rng = np.random.default_rng(seed)
    drawn: list[list[int]] = [[] for _ in groups]
    pools: list[tuple[object, list[int]]] = []  # not by hash: a group may be named by anything that can be compared
    for model, group in enumerate(groups):
        pool = next((members for name, members in pools if name == group), None)
        if pool is None:
            pools.append((group, [model]))
        else:
            pool.append(model)
    for _, members in pools:
        parts = 1 if partners is None else max(1, len(members) // (partners + 1))
        for part in np.array_split(rng.permutation(members) if parts > 1 else members, parts):
            for model in part.tolist():
                others = part[part != model]
                few = others if partners is None or len(others) <= partners else rng.permutation(others)[:partners]
                drawn[model] = sorted(few.tolist())
    return drawn


def _checked_partners(partners: Sequence[Sequence[int]], models: int) -> Sequence[Sequence[int]]:
    if len(partners) != models:
        raise RequestError(f"partners must list those of each of {models} models, got {len(partners)} lists")
    for model, others in enumerate(partners):
        if not len(others) or model in others or not set(others) <= set(range(models)):
            raise RequestError(f"partners of model {model} must be other models from 0 to {models - 1}: got {others}")
    return partners


# As a criterion.

AMONG = ("settings", "methods", "all")


def judge(
    evidence: Evidence,
    *,
    seed: int,
    progress: Progress,
    shared: Shared,
    similarity: Similarity,
    among: str,
    partners: float,
) -> Judgement:
    """With partners and half of the pictures drawn anew for the replicates. A model without a partner is flagged."""
    drawn = _partners(evidence.runs, among, int(partners), seed)
    paired = [model for model, others in enumerate(drawn) if others]
    if len(paired) == len(drawn):
        return _judged(evidence, drawn, seed, progress, similarity)
    place = {model: number for number, model in enumerate(paired)}
    who = [[place[other] for other in drawn[model]] for model in paired]
    found = _judged(evidence.only(evidence.runs[model] for model in paired), who, seed, progress, similarity)
    scores, replicates = np.zeros(len(drawn)), np.zeros((len(found.replicates), len(drawn)))
    scores[paired], replicates[:, paired] = found.scores, found.replicates
    flags: list[tuple[str, ...]] = [(UNJUDGED,)] * len(drawn)
    for model, said in zip(paired, found.flags, strict=True):
        flags[model] = said
    pairs = found.parts["pairs"].copy()  # model, partner, score
    pairs[:, :2] = np.array(paired)[pairs[:, :2].astype(int)]
    return Judgement(scores, replicates, tuple(flags), {"pairs": pairs})


def _judged(
    evidence: Evidence, who: list[list[int]], seed: int, progress: Progress, similarity: Similarity
) -> Judgement:
    """All models, each with its partners."""
    rounds = halves(len(evidence.codes[0].mean), seed)
    progress(0, 1 + len(rounds))
    result = udr(evidence.codes, partners=who, similarity=similarity, seed=seed)
    rng = np.random.default_rng([seed, 2])
    replicates = []
    for done, rows in enumerate(rounds, start=1):
        progress(done, 1 + len(rounds))
        again = udr([seen_by(codes, rows) for codes in evidence.codes], partners=who, similarity=similarity, seed=seed)
        replicates += [redrawn(again, rng) for _ in range(REPLICATES // len(rounds))]
    return Judgement(result.scores, np.array(replicates), result.flags, {"pairs": np.array(result.pairs)})


def redrawn(result: UDR, rng: np.random.Generator) -> Float[np.ndarray, " M"]:
    """The scores, had other partners been drawn from those there are."""
    by_model: dict[int, list[float]] = {}
    for pair in result.pairs:
        by_model.setdefault(pair.model, []).append(pair.score)
    return np.array([np.median(rng.choice(by_model[m], len(by_model[m]))) for m in range(len(result.scores))])


def _partners(runs: Sequence[Run], among: str, partners: int, seed: int) -> list[list[int]]:
    if among not in AMONG:
        raise RequestError(f"udr: among must be one of {listed(AMONG)}, not {among!r}")
    if among == "all":
        return all_to_all(len(runs), partners, seed)
    if among == "methods":
        return same_methods(runs, partners, seed)
    return same_settings(runs, partners, seed)


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    pairs = models * min(float(settings["partners"]), models - 1)
    return Cost(seconds=PAIR * pairs * (1 + HALVES / 2))  # all pictures once, and then half of them so often


criterion = Criterion(
    name="udr",
    summary="do models that differ in their seed find the same latents?",
    sees="It sees whether other models found the same latents, up to order, sign and scale.",
    blind="It cannot see whether what they agree on is right, and it prefers models with few informative latents.",
    reference="Duan et al. (2020) Unsupervised Model Selection for Variational Disentangled Representation Learning",
    judge=judge,
    settings={"similarity": "lasso", "among": "all", "partners": 50},
    compares=True,
    headline=True,
    cost=cost,
)
