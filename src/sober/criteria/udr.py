"""Unsupervised disentanglement ranking (Duan et al. 2020): do models that differ in their seed find the same latents?

    UDR_ij = 1 / (d_i + d_j) · ( Σ_b r_b² / Σ_a R(a, b)  +  Σ_a r_a² / Σ_b R(a, b) )

R(a, b) is the similarity of latent a of model i and latent b of its partner j: the weight of b in a lasso that predicts
a from all latents of j, or their rank correlation, both without the sign. r is the largest entry of a row or column.
Sums go over the d informative latents of each model. A model's score is the median over its partners.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from sober.contracts import Cost, ProgressCallback, whole_number
from sober.criteria.criterion import (
    FEWEST_PICTURES,
    HALVES,
    REPLICATES,
    UNJUDGED,
    Criterion,
    Evidence,
    Judgement,
    all_finite,
    halves,
    seen_by,
)
from sober.errors import RequestError, listed, shown
from sober.estimators.lasso import ModelColumns, blocks, regressions
from sober.estimators.scaling import columns_in_range
from sober.renamed import renamed
from sober.shared import Shared
from sober.types import Codes, Run, Setting

Similarity = Literal["lasso", "spearman"]
Preset = Literal["paper", "reference"]

ROWS: Mapping[str, int] = {"lasso": 10_000, "spearman": 1_000}  # as in the paper, section "UDR implementation details"
INFORMATIVE = 0.01  # nats of KL, eq. 3; without log-variances, the variance of the mean (Burda et al. 2016)
PAIR = 1e-4  # seconds for one ordered pair: docs/criteria/udr.md
SHAPE = "codes must be (M, N, D), or a list of (N, D), one array for each model"
REFERENCE_STRENGTH = 0.1  # of the lasso in the public implementation
REFERENCE_SLACK = 1e-4  # the tolerance of scikit-learn, which stops at 0 if 0 is nearly the solution


class Pair(NamedTuple):
    """How well the latents of a model line up with those of a partner."""

    model: int
    partner: int
    score: float


@dataclasses.dataclass(frozen=True, eq=False)
class UDR:
    """A score for each of M models, in [0, 1], higher is better; and what it was made of."""

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

    `informative` says which latents of each model take part; by default, their KL decides. `seed` chooses the rows if
    there are more than needed, and deals them to folds. The preset `reference` follows disentanglement_lib: a lasso of
    strength 0.1, equal weights for the mean over rows and the mean over columns of R, and 0 where a constant latent
    leaves R undefined.
    """
    for name, value, choices in (("similarity", similarity, Similarity), ("preset", preset, Preset)):
        if not isinstance(value, str) or value not in get_args(choices):
            raise RequestError(f"udr: {name} must be one of {listed(get_args(choices))}, not {shown(value)}")
    order = drawn_rows(codes, ROWS[similarity], seed)
    partners = all_to_all(len(codes)) if partners is None else _checked_partners(partners, len(codes))
    informative = tuple(map(informative_latents, codes) if informative is None else informative)
    width = np.array([used.sum() for used in informative])
    pairs = np.array([(model, other) for model, others in enumerate(partners) for other in others])
    alive = np.flatnonzero((width[pairs] > 0).all(axis=1))  # pairs in which both models have informative latents
    latents = [
        model.mean if used.all() else model.mean[:, used] for model, used in zip(codes, informative, strict=True)
    ]
    scores = np.zeros(len(pairs))
    similarities = np.zeros((0, 0, 0))
    if len(alive):
        compare = functools.partial(_similarities, order=order, similarity=similarity, preset=preset)
        similarities = np.abs(_by_component(compare, latents, pairs[alive]))
        # Weights of a lasso on latents that go together may exceed 1.
        scores[alive] = np.minimum(_REDUCE[preset](similarities, *width[pairs[alive]].T), 1.0)
    scored_pairs = tuple(map(Pair, *pairs.T.tolist(), scores.tolist()))
    ends = np.cumsum([len(others) for others in partners])[:-1]
    return UDR(
        np.array([np.median(model_scores) for model_scores in np.split(scores, ends)]),
        tuple(model_flags(model, used) for model, used in zip(codes, informative, strict=True)),
        scored_pairs,
        informative,
        _over_all_latents(similarities, pairs[alive], informative) if keep_similarity else {},
    )


@renamed(groups="settings")
def udr_of_arrays(
    codes: Sequence[Float[np.ndarray, "N _"]],
    kl: Sequence[Float[np.ndarray, " _"]] | None = None,
    *,
    similarity: Similarity = "lasso",
    settings: Sequence[object] | None = None,
    partners: int | None = None,
    seed: int = 0,
) -> Float[np.ndarray, " M"]:
    """Unsupervised disentanglement ranking of M models from arrays: a score for each in [0, 1], higher is better.

    `codes` holds the mean codes of the same N pictures under each model, (M, N, D) or a list of (N, D). `kl` holds the
    KL of each latent, in nats; without it, latents of variance above 0.01 count as informative. `settings` names the
    setting of each model: only models that share a setting are compared. `partners` is the most models that each is
    compared with.

    >>> sober.udr(codes, kl, settings=["beta=1", "beta=1", "beta=4", "beta=4"])
    """
    seed = whole_number("seed", seed)
    partners = None if partners is None else whole_number("partners", partners, least=1)
    means = _checked_codes(codes)
    informative = None if kl is None else _checked_kl(kl, means)
    settings = None if settings is None else _checked_settings(settings, len(means))
    shared = [0] * len(means) if settings is None else settings
    partner_lists = _draw_partners(shared, partners, seed) if len(means) > 1 else None
    if alone := [model for model, others in enumerate(partner_lists or []) if not others]:
        raise RequestError(f"model {alone[0]} is the only one of its setting: give at least two models of each")
    unlabelled = [Codes(mean, None, np.zeros((len(mean), 0)), ()) for mean in means]
    return udr(unlabelled, partners=partner_lists, similarity=similarity, informative=informative, seed=seed).scores


def _checked_codes(codes: Any) -> list[Float[np.ndarray, "N _"]]:
    """The codes of each model as an array of real numbers. Numbers beyond 1e50 are scaled, which changes no score."""
    from sober.metrics.common.arrays import as_array, check_real, unmasked  # noqa: PLC0415 -- with it comes every metric

    if not isinstance(codes, Iterable) or isinstance(codes, str | Mapping):
        raise RequestError(f"{SHAPE}, not {shown(codes)}")
    means = []
    for number, model_codes in enumerate(_dense(codes)):
        name = f"codes of model {number}"
        mean = _dense(unmasked(name, as_array(name, model_codes)))
        check_real(name, mean)
        if mean.ndim != 2 or not mean.shape[1]:
            raise RequestError(f"{SHAPE}: {name} have shape {mean.shape}")
        if mean.dtype != np.float32:
            with np.errstate(over="ignore"):  # infinities are refused later
                mean = mean.astype(np.float64)
        means.append(columns_in_range(mean, smallest=0.0) if mean.size and np.isfinite(mean).all() else mean)
    return means


def _dense(array: Any) -> Any:
    """A sparse array as a dense one; anything else as it is."""
    return array.toarray() if scipy.sparse.issparse(array) else array


def _checked_kl(kl: Any, means: Sequence[Float[np.ndarray, "N _"]]) -> list[Bool[np.ndarray, " D"]]:
    """Which latents of each model are informative, by their KL."""
    from sober.metrics.common.arrays import as_array, check_real, unmasked  # noqa: PLC0415 -- with it comes every metric

    kl = _dense(kl)
    nats = [_dense(unmasked("kl", as_array("kl", of_model))) for of_model in kl] if isinstance(kl, Iterable) else []
    if [of_model.shape for of_model in nats] != [(mean.shape[1],) for mean in means]:
        raise RequestError("kl must hold a number for each latent of each model")
    for number, of_model in enumerate(nats):
        check_real("kl", of_model)
        if np.isnan(of_model).any():
            latent = int(np.flatnonzero(np.isnan(of_model))[0])
            raise RequestError(f"kl of latent {latent} of model {number} is not a number: leave this model out")
    return [of_model > INFORMATIVE for of_model in nats]


def _checked_settings(settings: Any, models: int) -> list[object]:
    """The setting of each model, as something that can be compared. A row of a frame is a setting."""
    if not isinstance(settings, Iterable) or scipy.sparse.issparse(settings):
        raise RequestError(f"settings must name the setting of each of {models} models, not {shown(settings)}")
    if hasattr(settings, "columns"):
        settings = settings.rows() if hasattr(settings, "rows") else np.asarray(settings, object)
    named = [np.asarray(setting, object).tolist() if hasattr(setting, "__array__") else setting for setting in settings]
    if len(named) != models:
        raise RequestError(f"settings must name the setting of each of {models} models, got {len(named)}")
    return named


def _is_same(setting: object, other: object) -> bool:
    """Whether two settings are equal. Values that cannot say so, such as missing ones of pandas, are not."""
    try:
        return bool(setting == other)
    except (TypeError, ValueError):
        return False


def pair_score(
    similarity: Float[np.ndarray, "*P A B"], a: Int[np.ndarray, "*P"], b: Int[np.ndarray, "*P"]
) -> np.ndarray:
    """Eq. 2 for matrices R. Only the first `a` rows and `b` columns count; all other entries are 0."""
    rows, columns = _strengths(similarity)
    return (rows.sum(axis=-1) + columns.sum(axis=-1)) / (a + b)


def separate_means(
    similarity: Float[np.ndarray, "*P A B"], a: Int[np.ndarray, "*P"], b: Int[np.ndarray, "*P"]
) -> np.ndarray:
    """As `pair_score`, with equal weights for the mean over rows and the mean over columns."""
    rows, columns = _strengths(similarity)
    return (rows.sum(axis=-1) / a + columns.sum(axis=-1) / b) / 2


_REDUCE = {"paper": pair_score, "reference": separate_means}


def _strengths(similarity: Float[np.ndarray, "*P A B"]) -> tuple[np.ndarray, np.ndarray]:
    """The largest entry of each row, and of each column, times its share of the sum; 0 where that is undefined."""
    with np.errstate(invalid="ignore"):
        return (
            np.nan_to_num(similarity.max(axis=-1) ** 2 / similarity.sum(axis=-1)),
            np.nan_to_num(similarity.max(axis=-2) ** 2 / similarity.sum(axis=-2)),
        )


def _by_component(
    compare: Callable[..., Float[np.ndarray, "P W W"]],
    latents: Sequence[Float[np.ndarray, "N _"]],
    pairs: Int[np.ndarray, "P 2"],
) -> Float[np.ndarray, "P W W"]:
    """`compare(latents, pairs)`, called for each connected set of models on its own, which needs less memory."""
    graph = scipy.sparse.coo_matrix((np.ones(len(pairs)), pairs.T), shape=(len(latents), len(latents)))
    _, component = scipy.sparse.csgraph.connected_components(graph, directed=False)
    widest = max(latents[m].shape[1] for m in np.unique(pairs))
    similarities = np.zeros((len(pairs), widest, widest))
    order = np.argsort(component[pairs[:, 0]], kind="stable")
    for indices in np.split(order, np.flatnonzero(np.diff(component[pairs[order, 0]])) + 1):
        members = np.unique(pairs[indices])
        local_pairs = np.searchsorted(members, pairs[indices])
        matrices = compare([latents[m] for m in members], local_pairs)
        similarities[indices, : matrices.shape[1], : matrices.shape[2]] = matrices
    return similarities


def _similarities(
    latents: Sequence[Float[np.ndarray, "N _"]],
    pairs: Int[np.ndarray, "P 2"],
    *,
    order: Int[np.ndarray, " n"],
    similarity: Similarity,
    preset: Preset,
) -> Float[np.ndarray, "P W W"]:
    """R of each pair, signed, in the first rows and columns. Undefined entries are NaN, in `reference` only."""
    if similarity == "lasso" and preset == "paper":
        return regressions(ModelColumns.of(latents, order=order, scaled=True), pairs)[0]
    if similarity == "lasso":
        columns = ModelColumns.of(latents, folds=1, order=order, scaled=True)
        return regressions(columns, pairs, fixed=REFERENCE_STRENGTH, slack=REFERENCE_SLACK)[0]
    latents = [mean[order] for mean in latents]
    ranks = ModelColumns.of([scipy.stats.rankdata(mean, axis=0) for mean in latents], folds=1, scaled=True)
    similarities = np.zeros((len(pairs), *2 * [np.diff(ranks.span).max()]))
    for left, right, indices in blocks(ranks.span, pairs):
        correlations = ranks.products(left, right)[0] / len(order)
        for pair in indices:
            i, j = pairs[pair]
            transposed = i not in left
            starts = [ranks.span[side[0]] for side in ((right, left) if transposed else (left, right))]
            block = tuple(
                slice(ranks.span[m] - start, ranks.span[m + 1] - start) for m, start in zip((i, j), starts, strict=True)
            )
            matrix = (correlations.T if transposed else correlations)[block]
            if preset == "reference":
                constant = [np.ptp(latents[m], axis=0) == 0 for m in (i, j)]
                matrix = np.where(np.logical_or.outer(*constant), np.nan, matrix)
            similarities[pair, : matrix.shape[0], : matrix.shape[1]] = matrix
    return similarities


def _over_all_latents(
    similarities: Float[np.ndarray, "P W W"],
    pairs: Int[np.ndarray, "P 2"],
    informative: Sequence[Bool[np.ndarray, " D"]],
) -> dict[tuple[int, int], np.ndarray]:
    """R over all latents of both models, by pair; 0 for latents that did not take part."""
    matrices = {}
    for (i, j), similarity in zip(pairs, similarities, strict=True):
        rows, columns = informative[i], informative[j]
        matrix = np.zeros((len(rows), len(columns)))
        matrix[np.ix_(rows, columns)] = similarity[: rows.sum(), : columns.sum()]
        matrices[int(i), int(j)] = matrix
    return matrices


# Shared by the criteria that compare models.


def drawn_rows(codes: Sequence[Codes], rows: int, seed: int) -> Int[np.ndarray, " n"]:
    """Up to `rows` rows in random order, the same for all models."""
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
    if count < FEWEST_PICTURES:
        raise RequestError(
            f"models are compared on the pictures they encode: give at least {FEWEST_PICTURES}, got {count}"
        )
    return np.random.default_rng(seed).permutation(count)[:rows]


def informative_latents(codes: Codes) -> Bool[np.ndarray, " D"]:
    """Latents of mean KL from the prior above 0.01 nats (eq. 3); without log-variances, of variance above 0.01."""
    if codes.logvar is None:
        return np.asarray(codes.mean, np.float64).var(axis=0) > INFORMATIVE
    logvar = codes.logvar if codes.logvar.max(initial=0) <= 80 else np.minimum(codes.logvar, 80)  # e^80 fits float32
    with np.errstate(over="ignore"):  # an infinite KL is informative
        divergence = codes.mean**2 + np.exp(logvar) - logvar  # 2 KL + 1
    return np.ones(len(logvar)) @ divergence / len(logvar) - 1 > 2 * INFORMATIVE


def model_flags(codes: Codes, informative: Bool[np.ndarray, " D"]) -> tuple[str, ...]:
    """Flags that a reader of the model's score must know."""
    collapsed = () if informative.any() else ("collapsed",)
    means_only = ("means_only",) if codes.logvar is None else ()
    return tuple(sorted({*codes.flags, *collapsed, *means_only}))


# Which models are compared.


def all_to_all(models: int, partners: int | None = None, seed: int = 0) -> list[list[int]]:
    """For each model, `partners` others at random, or all others (the paper's A2A)."""
    return _draw_partners([0] * models, partners, seed)


def same_methods(runs: Sequence[Run], partners: int | None = None, seed: int = 0) -> list[list[int]]:
    """For each run, others of its method at random, whatever their strength (the paper's A2A, within a model class)."""
    why = "no other run of its method to compare it with: train more seeds or strengths"
    return _refuse_if_none(runs, _draw_partners([run.method for run in runs], partners, seed), why)


def same_settings(runs: Sequence[Run], partners: int | None = None, seed: int = 0) -> list[list[int]]:
    """For each run, `partners` others at random that differ from it only in the seed, or all of these."""
    why = "no partner with its settings and another seed: train more seeds"
    return _refuse_if_none(runs, _draw_partners([run.seedless for run in runs], partners, seed), why)


def _refuse_if_none(runs: Sequence[Run], partners: list[list[int]], why: str) -> list[list[int]]:
    """Refuses runs if none has a partner. Single runs may lack one: their partners may have diverged."""
    if not any(partners):
        raise RequestError(f"run {runs[0].identity} has {why}")
    return partners


def _draw_partners(settings: Sequence[object], partners: int | None, seed: int) -> list[list[int]]:
    """For each model, `partners` others with its setting at random, or all of these.

    Many models of one setting are first dealt into parts, and each model's partners come from its own part. All
    partners stay equally likely, and models that share their partners take less work to compare.
    """
    if partners is not None and partners < 1:
        raise RequestError(f"a model needs at least one partner, got partners={partners}")
    rng = np.random.default_rng(seed)
    partner_lists: list[list[int]] = [[] for _ in settings]
    pools: list[tuple[object, list[int]]] = []  # a list, not a dict: a setting may be anything that can be compared
    for model, setting in enumerate(settings):
        pool = next((members for name, members in pools if _is_same(name, setting)), None)
        if pool is None:
            pools.append((setting, [model]))
        else:
            pool.append(model)
    for _, members in pools:
        parts = 1 if partners is None else max(1, len(members) // (partners + 1))
        for members_of_part in np.array_split(rng.permutation(members) if parts > 1 else members, parts):
            for model in members_of_part.tolist():
                others = members_of_part[members_of_part != model]
                if partners is not None and len(others) > partners:
                    others = rng.permutation(others)[:partners]
                partner_lists[model] = sorted(others.tolist())
    return partner_lists


def _checked_partners(partners: Sequence[Sequence[int]], models: int) -> Sequence[Sequence[int]]:
    if len(partners) != models:
        raise RequestError(f"partners must be a list for each of {models} models, got {len(partners)} lists")
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
    progress: ProgressCallback,
    shared: Shared,
    similarity: Similarity,
    among: str,
    partners: float,
    preset: Preset = "paper",
) -> Judgement:
    """Each replicate draws half of the pictures, and partners with replacement. Models without one are flagged."""
    compare = functools.partial(udr, similarity=similarity, preset=preset, seed=seed)
    partner_lists = _choose_partners(evidence.runs, among, int(partners), seed)
    paired = [model for model, others in enumerate(partner_lists) if others]
    if len(paired) == len(partner_lists):
        return _judge_paired(evidence, partner_lists, seed, progress, compare)
    new_index = {model: index for index, model in enumerate(paired)}
    partners_of_paired = [[new_index[other] for other in partner_lists[model]] for model in paired]
    paired_evidence = evidence.only(evidence.runs[model] for model in paired)
    judgement = _judge_paired(paired_evidence, partners_of_paired, seed, progress, compare)
    scores, replicates = np.zeros(len(partner_lists)), np.zeros((len(judgement.replicates), len(partner_lists)))
    scores[paired], replicates[:, paired] = judgement.scores, judgement.replicates
    flags: list[tuple[str, ...]] = [(UNJUDGED,)] * len(partner_lists)
    for index, model in enumerate(paired):
        flags[model] = judgement.flags[index]
    pairs = judgement.parts["pairs"].copy()  # model, partner, score
    pairs[:, :2] = np.array(paired)[pairs[:, :2].astype(int)]
    return Judgement(scores, replicates, tuple(flags), {"pairs": pairs})


def _judge_paired(
    evidence: Evidence, partners: list[list[int]], seed: int, progress: ProgressCallback, compare: Callable[..., UDR]
) -> Judgement:
    """Judges models that all have partners."""
    rounds = halves(len(evidence.codes[0].mean), seed)
    progress(0, 1 + len(rounds))
    result = compare(evidence.codes, partners=partners)
    rng = np.random.default_rng([seed, 2])
    replicates = []
    for done, rows in enumerate(rounds, start=1):
        progress(done, 1 + len(rounds))
        codes_of_round = [seen_by(codes, rows) for codes in evidence.codes]
        replicate = compare(codes_of_round, partners=partners)
        replicates += [redrawn(replicate, rng) for _ in range(REPLICATES // len(rounds))]
    return Judgement(result.scores, np.array(replicates), result.flags, {"pairs": np.array(result.pairs)})


def redrawn(result: UDR, rng: np.random.Generator) -> Float[np.ndarray, " M"]:
    """Scores with partners drawn again, with replacement, from those of each model."""
    by_model: dict[int, list[float]] = {}
    for pair in result.pairs:
        by_model.setdefault(pair.model, []).append(pair.score)
    return np.array([np.median(rng.choice(by_model[m], len(by_model[m]))) for m in range(len(result.scores))])


def _choose_partners(runs: Sequence[Run], among: str, partners: int, seed: int) -> list[list[int]]:
    if among not in AMONG:
        raise RequestError(f"udr: among must be one of {listed(AMONG)}, not {among!r}")
    if among == "all":
        return all_to_all(len(runs), partners, seed)
    if among == "methods":
        return same_methods(runs, partners, seed)
    return same_settings(runs, partners, seed)


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    pairs = models * min(float(settings["partners"]), models - 1)
    return Cost(seconds=PAIR * pairs * (1 + HALVES / 2))  # all pictures once, then half of them for each round


criterion = Criterion(
    name="udr",
    title="UDR",
    summary="do models that differ in their seed find the same latents?",
    sees="It sees whether other models found the same latents, up to order, sign and scale.",
    blind="It cannot see whether what they agree on is right, and it prefers models with few informative latents.",
    reference="Duan et al. (2020) Unsupervised Model Selection for Variational Disentangled Representation Learning",
    judge=judge,
    low=0.0,
    high=1.0,
    settings={"similarity": "lasso", "among": "all", "partners": 50, "preset": "paper"},
    later=frozenset({"preset"}),
    compares=True,
    headline=True,
    cost=cost,
)
