"""ModelCentrality (Lin et al. 2020): which model do the others agree with most?

    A_ij   FactorVAE score (Kim & Mnih 2018) of model i where the latents of model j take the place of factors
    B_ij   (A_ij + A_ji) / 2
    score  mean of B_ij over the other models j: the best is the medoid of the models

To hold a latent of j fixed, the paper generates pictures with j's decoder. Here all models have encoded the same
pictures, and those next to each other in the order of that latent are taken: stretches of 100, each used once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.criteria.criterion import (
    HALVES,
    REPLICATES,
    Cost,
    Criterion,
    Evidence,
    Judgement,
    Progress,
    halves,
    seen_by,
)
from sober.criteria.udr import drawn_rows, informative_latents, model_flags
from sober.errors import RequestError
from sober.shared import Shared
from sober.types import Codes, Setting

ROWS = 10_000  # from which come 100 votes for each latent; the paper has 1,000 votes in all for 10 latents
PAIR = 2.4e-3  # seconds for one ordered pair of models with 10 latents each
BATCH = 100  # pictures in a vote, as in the paper's code


@dataclasses.dataclass(frozen=True, eq=False)
class Centrality:
    """A score for each of M models, and the matrix it is a mean of. Higher is better, in [0, 1]."""

    scores: Float[np.ndarray, " M"]
    flags: tuple[tuple[str, ...], ...]  # of each model
    agreement: Float[np.ndarray, "M M"]  # A: row i with column j for the truth; 1 on the diagonal
    informative: tuple[Bool[np.ndarray, " D"], ...]  # which latents of each model took part


def model_centrality(codes: Sequence[Codes], *, batch: int = BATCH, seed: int = 0) -> Centrality:
    """Scores models by their codes of the same pictures; `seed` says which, where there are more than needed.

    Uninformative latents neither vote nor are voted for. A model with no other scores 0 and is flagged `collapsed`.
    """
    order = drawn_rows(codes, ROWS, seed)
    if not 2 <= batch <= len(order) // 2:
        raise RequestError(
            f"model_centrality: a batch of {batch} pictures is not from 2 to half of the {len(order)} there are"
        )
    informative = tuple(map(informative_latents, codes))
    latents = [_scaled(model.mean[:, used][order]) for model, used in zip(codes, informative, strict=True)]
    agreement = np.eye(len(codes))
    others = [m for m, used in enumerate(informative) if used.any()]
    if others:
        values = np.concatenate([latents[m] for m in others], axis=1)
        starts = np.cumsum([0, *(latents[m].shape[1] for m in others)])
        for truth in others:
            chosen = _votes(values, starts, latents[truth], batch)  # (K, V, models)
            for place, model in enumerate(others):
                if model != truth:
                    agreement[model, truth] = majority(chosen[:, :, place])
    symmetric = (agreement + agreement.T) / 2
    scores = (symmetric.sum(axis=1) - 1) / (len(codes) - 1)
    flags = tuple(model_flags(model, used) for model, used in zip(codes, informative, strict=True))
    return Centrality(scores, flags, agreement, informative)


def majority(chosen: Int[np.ndarray, "K V"]) -> float:
    """The share of votes named rightly, if each latent stands for the factor it was most often chosen for.

    `chosen` is the latent that varied least in each of V votes for each of K factors.
    """
    table = np.zeros((chosen.max() + 1, len(chosen)), int)
    np.add.at(table, (chosen, np.arange(len(chosen))[:, None]), 1)
    return float(table.max(axis=1).sum() / chosen.size)


def _votes(
    values: Float[np.ndarray, "N C"], starts: Int[np.ndarray, " M+1"], truth: Float[np.ndarray, "N K"], batch: int
) -> Int[np.ndarray, "K V M"]:
    """For each latent taken as a factor and each stretch of rows along it, each model's latent that varies least."""
    count = len(values) // batch
    chosen = np.empty((truth.shape[1], count, len(starts) - 1), np.int64)
    for k, column in enumerate(truth.T):
        order = np.argsort(column, kind="stable")
        ends = np.arange(count + 1) * len(values) // count  # stretches that differ by one row at most
        spread = _compiled()(values, order, ends)  # (V, C)
        for model in range(len(starts) - 1):
            chosen[k, :, model] = spread[:, starts[model] : starts[model + 1]].argmin(axis=1)
    return chosen


def _scaled(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """Columns with mean 0 and variance 1. One that does not vary is as wide as it could be, so that it never votes."""
    x = np.asarray(x, np.float64)
    x = x / np.maximum(np.abs(x).max(axis=0), np.finfo(float).tiny)
    x = x - x.mean(axis=0)
    spread = x.std(axis=0)
    x = x / np.where(spread > 0, spread, 1.0)
    x[:, spread == 0] = np.resize([1e3, -1e3], (len(x), 1))
    return x


@functools.cache
def _compiled() -> Callable[..., Any]:
    """`_spreads` as machine code, kept on disk where there is a place for it."""
    import numba  # noqa: PLC0415 -- half a second that only those pay who come here

    compile_ = functools.partial(numba.njit, nogil=True, error_model="numpy")
    try:
        return compile_(_spreads, cache=True)
    except RuntimeError:  # no folder that can be written to
        return compile_(_spreads)


def _spreads(values: np.ndarray, order: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The variance of each column within each stretch of rows in a given order."""
    C = values.shape[1]
    out = np.empty((len(ends) - 1, C))
    first, total, square = np.empty(C), np.empty(C), np.empty(C)
    for part in range(len(ends) - 1):
        size = ends[part + 1] - ends[part]
        total[:] = 0
        square[:] = 0
        for c in range(C):
            first[c] = values[order[ends[part]], c]  # differences from it are exact where nothing varies
        for row in order[ends[part] : ends[part + 1]]:
            for c in range(C):
                value = values[row, c] - first[c]
                total[c] += value
                square[c] += value * value
        for c in range(C):
            out[part, c] = (square[c] - total[c] * total[c] / size) / (size - 1)
    return out


def judge(evidence: Evidence, *, seed: int, progress: Progress, shared: Shared, batch: float) -> Judgement:
    """With the other models and half of the pictures drawn anew for the replicates."""
    pictures = len(evidence.codes[0].mean)
    rounds = halves(pictures, seed)
    progress(0, 1 + len(rounds))
    size = min(int(batch), len(rounds[0]) // 2)
    centrality = model_centrality(evidence.codes, batch=size, seed=seed)
    rng = np.random.default_rng([seed, 2])
    replicates = []
    for done, rows in enumerate(rounds, start=1):
        progress(done, 1 + len(rounds))
        again = model_centrality([seen_by(codes, rows) for codes in evidence.codes], batch=size, seed=seed)
        replicates += [redrawn(again, rng) for _ in range(REPLICATES // len(rounds))]
    return Judgement(centrality.scores, np.array(replicates), centrality.flags)


def redrawn(centrality: Centrality, rng: np.random.Generator) -> Float[np.ndarray, " M"]:
    """The scores, had other models been trained: each is judged by as many of the others, drawn with replacement."""
    models = len(centrality.scores)
    others = rng.integers(0, models - 1, (models, models - 1))
    others += others >= np.arange(models)[:, None]  # never oneself
    symmetric = (centrality.agreement + centrality.agreement.T) / 2
    return np.take_along_axis(symmetric, others, axis=1).mean(axis=1)


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    pairs = models * (models - 1)
    return Cost(seconds=PAIR * pairs * (1 + HALVES / 2))  # all pictures once, and then half of them so often


criterion = Criterion(
    name="model_centrality",
    summary="which model do the others agree with most?",
    sees="It sees which model has latents that the others' latents can stand for, as a factor stands for one.",
    blind="It cannot see whether the crowd is right: the most usual model wins, good or bad.",
    reference="Lin et al. (2020) InfoGAN-CR and ModelCentrality",
    judge=judge,
    settings={"batch": BATCH},
    compares=True,
    cost=cost,
)
