"""Partners by lasso, as UDR has them: the weight of a latent in a lasso that predicts another from all of its model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.agreement.chance import Finder
from sober.agreement.columns import Columns
from sober.agreement.partners import Partners, empty
from sober.criteria.udr import ROWS, udr
from sober.errors import RequestError
from sober.estimators.lasso import ModelColumns, regressions
from sober.types import Codes

WIDEST = 256  # latents of a model beyond which lassos take too long
DRAWS = 512  # features of each kind of chance, over all models
AT_ONCE = 32  # chance features that are predicted together
ROWS_OF_LASSOS = ROWS["lasso"]


def search(
    codes: Sequence[Float[np.ndarray, "N _"]], alive: Sequence[Bool[np.ndarray, " _"]], seed: int, most: int
) -> tuple[Partners, Float[np.ndarray, " M"]]:
    """The best partners of all latents, and each model's UDR among all others."""
    if (widest := max(len(live) for live in alive)) > WIDEST:
        raise RequestError(f"lassos take too long for {widest:,} latents: choose pearson or spearman")
    unlabelled = [Codes(mean, None, np.zeros((len(mean), 0)), ()) for mean in codes]
    result = udr(unlabelled, informative=alive, seed=seed, keep_similarity=True)
    widths = [len(live) for live in alive]
    partners = empty(np.repeat(np.arange(len(widths)), widths), np.cumsum([0, *widths]), most)
    for (first, second), weights in result.similarity.items():
        rows = slice(partners.start[first], partners.start[first + 1])
        best = np.argsort(-weights, axis=1, kind="stable")[:, :most]
        strength = np.take_along_axis(weights, best, axis=1)
        partners.place[rows, second, : best.shape[1]] = np.where(strength > 0, best, -1)
        partners.similarity[rows, second, : best.shape[1]] = strength
        partners.total[rows, second] = weights.sum(axis=1)
    return partners, result.scores


def finder(codes: Sequence[Float[np.ndarray, "N _"]], order: Int[np.ndarray, " n"]) -> Finder:
    """Predicts chance features from the latents of each model; rows are in the order that lays out the folds."""

    def find(parts: tuple[Columns, ...], model: int) -> Float[np.ndarray, "C M"]:
        drawn_features = parts[0].dense(np.arange(parts[0].shape[1]))[order]
        best = np.zeros((drawn_features.shape[1], len(codes)))
        for other, latents in enumerate(codes):
            if other == model:
                continue
            for start in range(0, drawn_features.shape[1], AT_ONCE):
                targets = drawn_features[:, start : start + AT_ONCE]
                columns = ModelColumns.of([targets, latents[order]], scaled=True)
                weights = regressions(columns, np.array([[0, 1]]))[0][0]
                best[start : start + AT_ONCE, other] = np.abs(weights[: targets.shape[1], : latents.shape[1]]).max(
                    axis=1
                )
        return best

    return find
