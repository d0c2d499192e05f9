"""Names for latents: the factors that each represents, or what it does to pictures if the factors are not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from sober.metrics.registry import METRICS
from sober.results.latent_effects import effect_words

LITTLE = 0.05  # times the matrix's largest number: a latent needs more than this to represent any factor
QUIET = 0.1  # nats: a latent that carries less represents hardly anything, however well its means fit a factor
ALSO = 0.5  # times a latent's largest number: a factor needs at least this to be in the latent's name
NAMES = 3  # factors in a latent's name, at most


def row_names(arrays: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> list[str]:
    """What to call each latent beside its pictures: its words, or its number if the world has no factors."""
    names = latent_words(arrays, description)
    if description["factors"] and metric_with_matrix(arrays):
        return [name or "hardly anything" for name in names]
    return [name or f"latent {latent}" for latent, name in enumerate(names)]


def latent_words(arrays: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> list[str]:
    """For each latent the factors that it represents, or what it does to pictures; empty where that cannot be told."""
    if names := factors_of_latents(arrays, description):
        return [name.replace("_", " ") for name in names]
    if not {"traversals", "reconstructions"} <= set(arrays):
        return [""] * len(arrays["kl"])
    return [words if nats >= QUIET else "" for words, nats in zip(effect_words(arrays), arrays["kl"], strict=True)]


def factors_of_latents(arrays: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> list[str]:
    """The factors that each latent represents, as text; an empty list if the world has no factors."""
    factors = [factor["name"] for factor in description["factors"]]
    if not factors or not (measured := metric_with_matrix(arrays)):
        return []
    matrix = np.where(arrays["kl"][:, None] < QUIET, 0.0, arrays[f"{measured}.matrix"])  # (D, K)
    return [_factor_names(row, factors, LITTLE * matrix.max()) for row in matrix]


def metric_with_matrix(arrays: Mapping[str, np.ndarray]) -> str:
    """The first metric whose matrix of latents and factors is there; empty if none is."""
    return next((name for name, metric in METRICS.items() if metric.matrix and f"{name}.matrix" in arrays), "")


def _factor_names(importance: Float[np.ndarray, " K"], factors: list[str], least: float) -> str:
    if importance.max() <= least:
        return ""
    order = np.argsort(-importance, kind="stable")
    represented = [k for k in order if importance[k] >= ALSO * importance.max()]
    return " + ".join(factors[k] for k in represented[:NAMES]) + (" + …" if len(represented) > NAMES else "")
