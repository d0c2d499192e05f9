"""ModelCentrality (Lin et al. 2020): which model do the others agree with most?

    A_ij   FactorVAE score (Kim & Mnih 2018) of model i with the latents of model j in place of factors
    B_ij   (A_ij + A_ji) / 2
    score  mean of B_ij over the other models j: the best is the medoid of the models

To hold a latent of j fixed, the paper generates pictures with j's decoder. Here all models have encoded the same
pictures. Sorted by that latent, they are cut into batches of 100, in which it hardly varies; each is used once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.contracts import Cost, ProgressCallback
from sober.criteria.criterion import HALVES, REPLICATES, Criterion, Evidence, Judgement, halves, seen_by
from sober.criteria.udr import drawn_rows, informative_latents, model_flags
from sober.errors import RequestError
from sober.estimators.compiled import compiled
from sober.shared import Shared
from sober.types import Codes, Setting

ROWS = 10_000  # pictures: 100 votes for each latent, where the paper has 1,000 votes for 10 latents together
PAIR = 2.4e-3  # seconds for one ordered pair of models with 10 latents each
BATCH = 100  # pictures in a vote, as in the paper's code


@dataclasses.dataclass(frozen=True, eq=False)
class Centrality:
    """A score for each of M models, in [0, 1], higher is better; and the matrix that it averages."""

    scores: Float[np.ndarray, " M"]
    flags: tuple[tuple[str, ...], ...]  # of each model
    agreement: Float[np.ndarray, "M M"]  # A: row i, with the latents of column j as factors; 1 on the diagonal
    informative: tuple[Bool[np.ndarray, " D"], ...]  # which latents of each model took part


def model_centrality(codes: Sequence[Codes], *, batch: int = BATCH, seed: int = 0) -> Centrality:
    """Scores models by their codes of the same pictures. `seed` chooses the pictures if there are more than needed.

    Uninformative latents take no part. A model without informative latents scores 0 and is flagged `collapsed`.
    """
    order = drawn_rows(codes, ROWS, seed)
    if not 2 <= batch <= len(order) // 2:
        raise RequestError(
            f"model_centrality: batch must be from 2 to half of the {len(order)} pictures, and is {batch}"
        )
    informative = tuple(map(informative_latents, codes))
    latents = [_scaled(model.mean[:, used][order]) for model, used in zip(codes, informative, strict=True)]
    agreement = np.eye(len(codes))
    alive = [m for m, used in enumerate(informative) if used.any()]
    if alive:
        values = np.concatenate([latents[m] for m in alive], axis=1)
        starts = np.cumsum([0, *(latents[m].shape[1] for m in alive)])
        for truth in alive:
            votes = _votes(values, starts, latents[truth], batch)  # (K, V, models)
            for place, model in enumerate(alive):
                if model != truth:
                    agreement[model, truth] = majority(votes[:, :, place])
    symmetric = (agreement + agreement.T) / 2
    scores = (symmetric.sum(axis=1) - 1) / (len(codes) - 1)
    flags = tuple(model_flags(model, used) for model, used in zip(codes, informative, strict=True))
    return Centrality(scores, flags, agreement, informative)


def majority(votes: Int[np.ndarray, "K V"]) -> float:
    """The accuracy of predicting the factor from the vote, by the factor that each latent was most often chosen for.

    `votes` holds the latent that varied least in each of V batches for each of K factors.
    """
    counts = np.zeros((votes.max() + 1, len(votes)), int)
    np.add.at(counts, (votes, np.arange(len(votes))[:, None]), 1)
    return float(counts.max(axis=1).sum() / votes.size)


def _votes(
    values: Float[np.ndarray, "N C"], starts: Int[np.ndarray, " M+1"], truth: Float[np.ndarray, "N K"], batch: int
) -> Int[np.ndarray, "K V M"]:
    """Each model's latent that varies least, for each latent taken as a factor and each batch of rows along it."""
    count = len(values) // batch
    votes = np.empty((truth.shape[1], count, len(starts) - 1), np.int64)
    for k, column in enumerate(truth.T):
        order = np.argsort(column, kind="stable")
        ends = np.arange(count + 1) * len(values) // count  # batches differ by one row at most
        variances = compiled(_variances)(values, order, ends)  # (V, C)
        for model in range(len(starts) - 1):
            votes[k, :, model] = variances[:, starts[model] : starts[model + 1]].argmin(axis=1)
    return votes


def _scaled(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """Columns with mean 0 and variance 1. A constant column gets the largest variance, so that it is never chosen."""
    x = np.asarray(x, np.float64)
    x = x / np.maximum(np.abs(x).max(axis=0), np.finfo(float).tiny)
    x = x - x.mean(axis=0)
    spread = x.std(axis=0)
    x = x / np.where(spread > 0, spread, 1.0)
    x[:, spread == 0] = np.resize([1e3, -1e3], (len(x), 1))
    return x


def _variances(values: np.ndarray, order: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The variance of each column within each batch of rows, in a given order."""
    C = values.shape[1]
    out = np.empty((len(ends) - 1, C))
    first, total, square = np.empty(C), np.empty(C), np.empty(C)
    for batch in range(len(ends) - 1):
        size = ends[batch + 1] - ends[batch]
        total[:] = 0
        square[:] = 0
        for c in range(C):
            first[c] = values[order[ends[batch]], c]  # differences from it are exactly 0 in a constant column
        for row in order[ends[batch] : ends[batch + 1]]:
            for c in range(C):
                value = values[row, c] - first[c]
                total[c] += value
                square[c] += value * value
        for c in range(C):
            out[batch, c] = (square[c] - total[c] * total[c] / size) / (size - 1)
    return out


def judge(evidence: Evidence, *, seed: int, progress: ProgressCallback, shared: Shared, batch: float) -> Judgement:
    """Each replicate draws half of the pictures, and the other models with replacement."""
    pictures = len(evidence.codes[0].mean)
    rounds = halves(pictures, seed)
    progress(0, 1 + len(rounds))
    size = min(int(batch), len(rounds[0]) // 2)
    centrality = model_centrality(evidence.codes, batch=size, seed=seed)
    rng = np.random.default_rng([seed, 2])
    replicates = []
    for done, rows in enumerate(rounds, start=1):
        progress(done, 1 + len(rounds))
        replicate = model_centrality([seen_by(codes, rows) for codes in evidence.codes], batch=size, seed=seed)
        replicates += [redrawn(replicate, rng) for _ in range(REPLICATES // len(rounds))]
    return Judgement(centrality.scores, np.array(replicates), centrality.flags)


def redrawn(centrality: Centrality, rng: np.random.Generator) -> Float[np.ndarray, " M"]:
    """Scores with other models drawn: each is compared with as many of the others, drawn with replacement."""
    models = len(centrality.scores)
    others = rng.integers(0, models - 1, (models, models - 1))
    others += others >= np.arange(models)[:, None]  # never the model itself
    symmetric = (centrality.agreement + centrality.agreement.T) / 2
    return np.take_along_axis(symmetric, others, axis=1).mean(axis=1)


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    pairs = models * (models - 1)
    return Cost(seconds=PAIR * pairs * (1 + HALVES / 2))  # all pictures once, then half of them for each round


criterion = Criterion(
    name="model_centrality",
    title="model centrality",
    summary="which model do the others agree with most?",
    sees="It sees which model's latents match the latents of the other models one to one.",
    blind="It cannot see whether the majority is right: the most typical model wins, good or bad.",
    reference="Lin et al. (2020) InfoGAN-CR and ModelCentrality",
    judge=judge,
    low=0.0,
    high=1.0,
    settings={"batch": BATCH},
    compares=True,
    cost=cost,
)
