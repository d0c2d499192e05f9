"""What training itself measures: reconstruction error, KL and their sum, the negative evidence lower bound, in nats.

Also the squared error per pixel: Estermann & Wattenhofer (2023) measure reconstruction by it. Every new criterion is
compared with these. They measure how much a model keeps of a picture, not how its latents hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from sober.contracts import Cost, ProgressCallback
from sober.criteria.criterion import Criterion, Evidence, Judgement, Once, halves
from sober.shared import Shared
from sober.types import Setting

if TYPE_CHECKING:  # needs JAX
    from sober.criteria.reconstruction_errors import ReconstructionErrors

ROUNDS = 50  # draws of half of the pictures, for the replicates: a mean is cheap
DECODING = 30  # cost of decoding 10,000 pictures, in steps of a β-VAE: 23 with nets `conv`, 37 with `small`
LARGEST_LOGVAR = 230.0  # e^230 is 10^100


def reconstruction_errors(
    evidence: Evidence, seed: int, progress: ProgressCallback, shared: Shared
) -> Float[np.ndarray, "M N"]:
    """-log p(x|z) of each picture under each model, with one sample z of its code."""
    return _errors(evidence, seed, progress, shared).nats.astype(np.float64)


def squared_errors(
    evidence: Evidence, seed: int, progress: ProgressCallback, shared: Shared
) -> Float[np.ndarray, "M N"]:
    """(x - x̂)² of each picture under each model, mean over pixels and channels, for the same sample."""
    return _errors(evidence, seed, progress, shared).squared.astype(np.float64)


def _errors(evidence: Evidence, seed: int, progress: ProgressCallback, shared: Shared) -> ReconstructionErrors:
    """Both kinds of errors, from one decoding."""
    from sober.criteria import reconstruction_errors as decoding  # noqa: PLC0415 -- needs JAX

    return shared(Once, decoding.reconstruction_errors, evidence, seed)(progress)


def divergences(evidence: Evidence) -> Float[np.ndarray, "M N"]:
    """KL(q(z|x) ‖ N(0, 1)) of each picture under each model, summed over latents; ∞ for codes without a spread."""

    def divergence(model: int) -> Float[np.ndarray, " N"]:
        mean, logvar = (array.astype(np.float64) for array in evidence.posterior(model))
        return 0.5 * (mean**2 + np.exp(np.minimum(logvar, LARGEST_LOGVAR)) - 1 - logvar).sum(axis=1)

    return np.stack([divergence(model) for model in range(len(evidence.runs))])


def judge_reconstruction(evidence: Evidence, *, seed: int, progress: ProgressCallback, shared: Shared) -> Judgement:
    return _means(evidence, reconstruction_errors(evidence, seed, progress, shared), seed)


def judge_squared_error(evidence: Evidence, *, seed: int, progress: ProgressCallback, shared: Shared) -> Judgement:
    return _means(evidence, squared_errors(evidence, seed, progress, shared), seed)


def judge_kl(evidence: Evidence, *, seed: int, progress: ProgressCallback, shared: Shared) -> Judgement:
    return _means(evidence, divergences(evidence), seed)


def judge_elbo(evidence: Evidence, *, seed: int, progress: ProgressCallback, shared: Shared) -> Judgement:
    return _means(evidence, reconstruction_errors(evidence, seed, progress, shared) + divergences(evidence), seed)


def _means(evidence: Evidence, errors: Float[np.ndarray, "M N"], seed: int) -> Judgement:
    """Means over the pictures; each replicate draws half of the pictures."""
    replicates = np.stack([errors[:, rows].mean(axis=1) for rows in halves(errors.shape[1], seed, ROUNDS)])
    flags = tuple(codes.flags + ("means_only",) * (codes.logvar is None) for codes in evidence.codes)
    return Judgement(errors.mean(axis=1), replicates, flags)


def _cost(settings: Mapping[str, Setting], models: int) -> Cost:
    return Cost(steps=DECODING)


_REFERENCE = "Kingma & Welling (2014) Auto-Encoding Variational Bayes"

reconstruction = Criterion(
    name="reconstruction",
    title="reconstruction loss",
    decodes=True,
    summary="how much of a picture is lost, in nats",
    sees="It sees how well a model reconstructs pictures.",
    blind="It cannot see whether latents are disentangled, and prefers models without regularisation.",
    reference=_REFERENCE,
    judge=judge_reconstruction,
    better="lower",
    cost=_cost,
)

squared_error = Criterion(
    name="squared_error",
    title="squared error",
    decodes=True,
    summary="how much of a picture is lost, as the mean squared error per pixel",
    sees="It sees how far reconstructed pixels are from the originals, whatever the likelihood used in training.",
    blind="It cannot see whether latents are disentangled, and hardly notices small objects in a picture.",
    reference="Estermann & Wattenhofer (2023) DAVA: Disentangling Adversarial Variational Autoencoder",
    judge=judge_squared_error,
    better="lower",
    low=0.0,
    cost=_cost,
)

kl = Criterion(
    name="kl",
    title="KL",
    summary="how much information codes carry about a picture, in nats",
    sees="It sees how few nats a model needs to encode a picture.",
    blind="It cannot see what the nats encode, and prefers models whose codes carry nothing.",
    reference=_REFERENCE,
    judge=judge_kl,
    better="lower",
    low=0.0,
)

elbo = Criterion(
    name="elbo",
    title="negative ELBO",
    decodes=True,
    summary="the negative evidence lower bound: reconstruction + KL, in nats",
    sees="It sees how well a model explains the pictures.",
    blind="It cannot see the latents: rotating them does not change it, and it prefers the weakest penalty.",
    reference=_REFERENCE,
    judge=judge_elbo,
    better="lower",
    cost=_cost,
)
