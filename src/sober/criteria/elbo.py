"""What training itself knows: reconstruction error, KL and their sum, the negative evidence lower bound, in nats.

Beside them the squared error of a pixel, as Estermann & Wattenhofer (2023) state reconstruction. These are the criteria
that every new one is measured against. They hold on to what a model keeps of a picture, not to how.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from sober.criteria.criterion import Cost, Criterion, Evidence, Judgement, Once, Progress, halves
from sober.shared import Shared
from sober.types import Setting

if TYPE_CHECKING:  # needs JAX
    from sober.criteria.decoding import Errors

ROUNDS = 50  # in which half of the pictures are drawn anew: a mean is quick to take
DECODING = 30  # steps of a β-VAE that decoding 10,000 pictures takes: 23 with nets `conv`, 37 with `small`
LARGEST = 230.0  # of a log-variance: e^230 is 10^100


def reconstruction_errors(
    evidence: Evidence, seed: int, progress: Progress, shared: Shared
) -> Float[np.ndarray, "M N"]:
    """-log p(x|z) of each picture under each model, with one sample z of its code."""
    return _errors(evidence, seed, progress, shared).nats.astype(np.float64)


def squared_errors(evidence: Evidence, seed: int, progress: Progress, shared: Shared) -> Float[np.ndarray, "M N"]:
    """(x - x̂)² of each picture under each model, mean over pixels and channels, for the same sample."""
    return _errors(evidence, seed, progress, shared).squared.astype(np.float64)


def _errors(evidence: Evidence, seed: int, progress: Progress, shared: Shared) -> Errors:
    """Both kinds of errors: they are one decoding."""
    from sober.criteria import decoding  # noqa: PLC0415 -- needs JAX

    return shared(Once, decoding.reconstruction_errors, evidence, seed)(progress)


def divergences(evidence: Evidence) -> Float[np.ndarray, "M N"]:
    """KL(q(z|x) ‖ N(0, 1)) of each picture under each model, summed over latents; ∞ for codes without a spread."""

    def divergence(model: int) -> Float[np.ndarray, " N"]:
        mean, logvar = (part.astype(np.float64) for part in evidence.posterior(model))
        return 0.5 * (mean**2 + np.exp(np.minimum(logvar, LARGEST)) - 1 - logvar).sum(axis=1)

    return np.stack([divergence(model) for model in range(len(evidence.runs))])


def judge_reconstruction(evidence: Evidence, *, seed: int, progress: Progress, shared: Shared) -> Judgement:
    return _means(evidence, reconstruction_errors(evidence, seed, progress, shared), seed)


def judge_squared_error(evidence: Evidence, *, seed: int, progress: Progress, shared: Shared) -> Judgement:
    return _means(evidence, squared_errors(evidence, seed, progress, shared), seed)


def judge_kl(evidence: Evidence, *, seed: int, progress: Progress, shared: Shared) -> Judgement:
    return _means(evidence, divergences(evidence), seed)


def judge_elbo(evidence: Evidence, *, seed: int, progress: Progress, shared: Shared) -> Judgement:
    return _means(evidence, reconstruction_errors(evidence, seed, progress, shared) + divergences(evidence), seed)


def _means(evidence: Evidence, errors: Float[np.ndarray, "M N"], seed: int) -> Judgement:
    """Means over the pictures; with half of them drawn anew for the replicates."""
    replicates = np.stack([errors[:, rows].mean(axis=1) for rows in halves(errors.shape[1], seed, ROUNDS)])
    flags = tuple(codes.flags + ("means_only",) * (codes.logvar is None) for codes in evidence.codes)
    return Judgement(errors.mean(axis=1), replicates, flags)


def _cost(settings: Mapping[str, Setting], models: int) -> Cost:
    return Cost(steps=DECODING)


_REFERENCE = "Kingma & Welling (2014) Auto-Encoding Variational Bayes"

reconstruction = Criterion(
    name="reconstruction",
    summary="how much of a picture is lost, in nats",
    sees="It sees how much of a picture a model gives back.",
    blind="It cannot see whether latents are disentangled, and prefers models without regularisation.",
    reference=_REFERENCE,
    judge=judge_reconstruction,
    better="lower",
    cost=_cost,
)

squared_error = Criterion(
    name="squared_error",
    summary="how much of a picture is lost, as the mean squared error of a pixel",
    sees="It sees how far pixels are from what they were, whatever likelihood a model was trained with.",
    blind="It cannot see whether latents are disentangled, and hardly notices what is small in a picture.",
    reference="Estermann & Wattenhofer (2023) DAVA: Disentangling Adversarial Variational Autoencoder",
    judge=judge_squared_error,
    better="lower",
    cost=_cost,
)

kl = Criterion(
    name="kl",
    summary="how much the codes say of a picture, in nats",
    sees="It sees how few nats a model spends on a picture.",
    blind="It cannot see what they are spent on, and prefers models that have given up.",
    reference=_REFERENCE,
    judge=judge_kl,
    better="lower",
)

elbo = Criterion(
    name="elbo",
    summary="the evidence lower bound, with its sign turned: reconstruction + KL, in nats",
    sees="It sees how well a model explains the pictures.",
    blind="It cannot see the latents: turning them all at once leaves it as it is, and it prefers the weakest penalty.",
    reference=_REFERENCE,
    judge=judge_elbo,
    better="lower",
    cost=_cost,
)
