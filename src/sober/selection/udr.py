"""Unsupervised disentanglement ranking (Duan et al. 2020): do models that differ in their seed find the same latents?

    UDR_ij = 1 / (d_i + d_j) · ( Σ_b r_b² / Σ_a R(a, b)  +  Σ_a r_a² / Σ_b R(a, b) )

R(a, b) is how similar latent a of model i is to latent b of its partner j: the weight of b in a lasso that predicts a
from all latents of j, or their rank correlation, without the sign. r is the largest of a row or of a column. Sums go
over the d latents of each model that are informative. A model's score is the median over its partners.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import scipy.stats
from jaxtyping import Bool, Float, Int

from sober.encode import Progress
from sober.errors import RequestError, listed
from sober.selection.criterion import REPLICATES, Criterion, Evidence, Judgement, halves, seen_by
from sober.selection.lasso import Columns, blocks, regressions
from sober.types import Codes, Run

Similarity = Literal["lasso", "spearman"]
Preset = Literal["paper", "reference"]

ROWS: Mapping[str, int] = {"lasso": 10_000, "spearman": 1_000}  # as in the paper, section "UDR implementation details"
INFORMATIVE = 0.01  # nats of KL, eq. 3; where there is only a mean, its variance (Burda et al. 2016)
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
    drawn = drawn_rows(codes, ROWS[similarity], seed)
    partners = all_to_all(len(codes)) if partners is None else _checked_partners(partners, len(codes))
    informative = tuple(map(informative_latents, drawn) if informative is None else informative)
    width = np.array([used.sum() for used in informative])
    pairs = np.array([(model, other) for model, others in enumerate(partners) for other in others])
    alive = np.flatnonzero((width[pairs] > 0).all(axis=1))
    latents = [each.mean.T[used].T for each, used in zip(drawn, informative, strict=True)]
    scores = np.zeros(len(pairs))
    found = np.zeros((0, 0, 0))
    if len(alive):
        found = np.abs(_similarities(latents, pairs[alive], similarity, preset))
        scores[alive] = _REDUCE[preset](found, *width[pairs[alive]].T)
    listed_pairs = tuple(Pair(int(i), int(j), float(score)) for (i, j), score in zip(pairs, scores, strict=True))
    ends = np.cumsum([len(others) for others in partners])[:-1]
    return UDR(
        np.array([np.median(part) for part in np.split(scores, ends)]),
        tuple(model_flags(each, used) for each, used in zip(codes, informative, strict=True)),
        listed_pairs,
        informative,
        _whole(found, pairs[alive], informative) if keep_similarity else {},
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
    means = [np.asarray(each) for each in codes]
    if any(each.ndim != 2 for each in means):
        raise RequestError("codes must be (M, N, D), or a list of (N, D): one array for each model")
    if kl is not None and [len(each) for each in kl] != [each.shape[1] for each in means]:
        raise RequestError("kl must hold a number for each latent of each model")
    if groups is not None and len(groups) != len(means):
        raise RequestError(f"groups must name the setting of each of {len(means)} models, got {len(groups)}")
    alike = [[m for m in range(len(means)) if m != at and (groups is None or groups[m] == groups[at])]
             for at in range(len(means))]  # fmt: skip
    if lonely := [at for at, others in enumerate(alike) if not others and len(means) > 1]:
        raise RequestError(f"model {lonely[0]} has no other in its group: give each group two models or more")
    known = [Codes(each, None, np.zeros((len(each), 0)), ()) for each in means]
    used = None if kl is None else [np.asarray(each) > INFORMATIVE for each in kl]
    drawn = _drawn(alike, partners, seed) if len(means) > 1 else None
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


def _similarities(
    latents: Sequence[Float[np.ndarray, "N _"]], pairs: Int[np.ndarray, "P 2"], similarity: Similarity, preset: Preset
) -> Float[np.ndarray, "P W W"]:
    """R of each pair with its sign, in the first rows and columns; undefined numbers are NaN in the reference alone."""
    if similarity == "lasso" and preset == "paper":
        return regressions(Columns.of([_standardised(each) for each in latents]), pairs)[0]
    if similarity == "lasso":
        columns = Columns.of([_standardised(each) for each in latents], folds=1)
        return regressions(columns, pairs, fixed=REFERENCE_STRENGTH, slack=REFERENCE_SLACK)[0]
    ranks = Columns.of([_standardised(scipy.stats.rankdata(each, axis=0)) for each in latents], folds=1)
    found = np.zeros((len(pairs), *2 * [np.diff(ranks.span).max()]))
    for left, right, which in blocks(ranks.span, pairs):
        moments = ranks.between(left, right).covariance[0]
        for at in which:
            i, j = pairs[at]
            turned = i not in left
            start = [ranks.span[side[0]] for side in ((right, left) if turned else (left, right))]
            rows, columns_ = (
                slice(ranks.span[m] - s, ranks.span[m + 1] - s) for m, s in zip((i, j), start, strict=True)
            )
            seen = (moments.T if turned else moments)[rows, columns_]
            if preset == "reference":
                constant = [np.ptp(latents[m], axis=0) == 0 for m in (i, j)]
                seen = np.where(np.logical_or.outer(*constant), np.nan, seen)
            found[at, : seen.shape[0], : seen.shape[1]] = seen
    return found


def _standardised(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """Mean 0 and variance 1, or 0 where nothing varies. Column by column in memory, as all that follows reads it."""
    x = np.array(x, np.float64, order="F")
    low, high = x.min(axis=0), x.max(axis=0)
    largest = np.maximum(high, -low)
    if ((largest > 1e100) | ((largest > 0) & (largest < 1e-100))).any():
        x /= np.where(largest > 0, largest, 1.0)  # so that squares of the largest numbers fit
    x -= x.mean(axis=0)
    x[:, low == high] = 0.0
    spread = np.sqrt(np.einsum("nd,nd->d", x, x) / len(x))
    x /= np.where(spread > 0, spread, 1.0)
    return x


def _whole(
    found: Float[np.ndarray, "P W W"], pairs: Int[np.ndarray, "P 2"], informative: Sequence[Bool[np.ndarray, " D"]]
) -> dict[tuple[int, int], np.ndarray]:
    """Matrices over all latents of both models, 0 for those that did not take part."""
    whole = {}
    for (i, j), part in zip(pairs, found, strict=True):
        rows, columns = informative[i], informative[j]
        matrix = np.zeros((len(rows), len(columns)))
        matrix[np.ix_(rows, columns)] = part[: rows.sum(), : columns.sum()]
        whole[int(i), int(j)] = matrix
    return whole


# What criteria that compare models share.


def drawn_rows(codes: Sequence[Codes], rows: int, seed: int) -> list[Codes]:
    """The same rows of all models, in random order; all of them where there are no more. Factors are left behind."""
    if len(codes) < 2:
        raise RequestError(f"models are compared with each other: give the codes of at least two, got {len(codes)}")
    count = len(codes[0].mean)
    for at, each in enumerate(codes):
        if len(each.mean) != count:
            raise RequestError(
                f"model {at} has codes of {len(each.mean)} pictures and model 0 of {count}: encode the same pictures"
            )
        for name, array in (("mean", each.mean), ("logvar", each.logvar)):
            # A sum is quick to take, and is finite where all numbers are, unless they are huge.
            if array is not None and not np.isfinite(array.sum(dtype=np.float64)) and not np.isfinite(array).all():
                column = int(np.flatnonzero(~np.isfinite(array).all(axis=0))[0])
                raise RequestError(f"model {at}: {name} of latent {column} is not finite: leave this model out")
    if count < 10:
        raise RequestError(f"models are compared on the pictures they encode: give at least 10, got {count}")
    order = np.random.default_rng(seed).permutation(count)[:rows]
    none = np.zeros((len(order), 0), int)
    return [
        Codes(
            each.mean.take(order, axis=0),
            None if each.logvar is None else each.logvar.take(order, axis=0),
            none,
            (),
            each.flags,
        )
        for each in codes
    ]


def informative_latents(codes: Codes) -> Bool[np.ndarray, " D"]:
    """Latents of mean KL from the prior above 0.01 nats (eq. 3); without log-variances, of variance above 0.01."""
    if codes.logvar is None:
        return np.asarray(codes.mean, np.float64).var(axis=0) > INFORMATIVE
    mean, logvar = codes.mean, np.minimum(codes.logvar, 80)  # e^80 fits float32
    square = np.einsum("nd,nd->d", mean, mean, dtype=np.float64) / len(mean)
    variance, entropy = (each.mean(axis=0, dtype=np.float64) for each in (np.exp(logvar), logvar))
    return (square + variance - 1 - entropy) / 2 > INFORMATIVE


def model_flags(codes: Codes, informative: Bool[np.ndarray, " D"]) -> tuple[str, ...]:
    """What to know before trusting the score of a model."""
    found = {"collapsed"} if not informative.any() else set()
    return tuple(sorted({*codes.flags, *found, *(["means_only"] if codes.logvar is None else [])}))


# Who is compared with whom.


def all_to_all(models: int, partners: int | None = None, seed: int = 0) -> list[list[int]]:
    """For each of so many models, others at random (the paper's A2A): so many partners, or all."""
    return _drawn([[m for m in range(models) if m != model] for model in range(models)], partners, seed)


def same_settings(runs: Sequence[Run], partners: int | None = None, seed: int = 0) -> list[list[int]]:
    """For each run, others at random that differ from it in nothing but the seed: so many partners, or all."""
    settings = [dataclasses.replace(run, seed=0).identity for run in runs]
    alike = [[m for m, other in enumerate(settings) if other == own and m != at] for at, own in enumerate(settings)]
    for run, others in zip(runs, alike, strict=True):
        if not others:
            raise RequestError(
                f"run {run.identity} has no partner with its settings and another seed: train more seeds"
            )
    return _drawn(alike, partners, seed)


def _drawn(candidates: Sequence[Sequence[int]], partners: int | None, seed: int) -> list[list[int]]:
    if partners is not None and partners < 1:
        raise RequestError(f"a model needs at least one partner, got partners={partners}")
    rng = np.random.default_rng(seed)
    return [
        list(others)
        if partners is None or len(others) <= partners
        else sorted(rng.permutation(others)[:partners].tolist())
        for others in candidates
    ]


def _checked_partners(partners: Sequence[Sequence[int]], models: int) -> Sequence[Sequence[int]]:
    if len(partners) != models:
        raise RequestError(f"partners must list those of each of {models} models, got {len(partners)} lists")
    for model, others in enumerate(partners):
        if not len(others) or model in others or not set(others) <= set(range(models)):
            raise RequestError(f"partners of model {model} must be other models from 0 to {models - 1}: got {others}")
    return partners


# As a criterion.

AMONG = ("settings", "all")


def _judge(
    evidence: Evidence, *, seed: int, progress: Progress, similarity: Similarity, among: str, partners: float
) -> Judgement:
    """With partners and half of the pictures drawn anew for the replicates."""
    who = _partners(evidence.runs, among, int(partners), seed)
    rounds = halves(len(evidence.codes[0].mean), seed)
    progress(0, 1 + len(rounds))
    found = udr(evidence.codes, partners=who, similarity=similarity, seed=seed)
    rng = np.random.default_rng([seed, 2])
    replicates = []
    for done, rows in enumerate(rounds, start=1):
        progress(done, 1 + len(rounds))
        again = udr([seen_by(codes, rows) for codes in evidence.codes], partners=who, similarity=similarity, seed=seed)
        replicates += [redrawn(again, rng) for _ in range(REPLICATES // len(rounds))]
    return Judgement(found.scores, np.array(replicates), found.flags, {"pairs": np.array(found.pairs)})


def redrawn(found: UDR, rng: np.random.Generator) -> Float[np.ndarray, " M"]:
    """The scores, had other partners been drawn from those there are."""
    by_model: dict[int, list[float]] = {}
    for pair in found.pairs:
        by_model.setdefault(pair.model, []).append(pair.score)
    return np.array([np.median(rng.choice(by_model[m], len(by_model[m]))) for m in range(len(found.scores))])


def _partners(runs: Sequence[Run], among: str, partners: int, seed: int) -> list[list[int]]:
    if among not in AMONG:
        raise RequestError(f"udr: among must be one of {listed(AMONG)}, not {among!r}")
    if among == "all":
        return all_to_all(len(runs), partners, seed)
    return same_settings(runs, partners, seed)


criterion = Criterion(
    name="udr",
    summary="do models that differ in their seed find the same latents?",
    sees="It sees whether other models found the same latents, up to order, sign and scale.",
    blind="It cannot see whether what they agree on is right, and it prefers models with few informative latents.",
    reference="Duan et al. (2020) Unsupervised Model Selection for Variational Disentangled Representation Learning",
    judge=_judge,
    settings={"similarity": "lasso", "among": "all", "partners": 50},
    compares=True,
)
