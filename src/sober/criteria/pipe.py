"""PIPE (Estermann & Wattenhofer 2023): whether pictures of freely mixed codes look like reconstructions.

A model's latents can be mixed freely if it makes no difference whether codes come from a picture or each latent is
drawn by itself. A discriminator is trained to tell the two apart, x̂ = Dec(z) with z ~ q(z|x) from x̃ = Dec(z̃) with
z̃ uniform over the range that each latent has. With its accuracy on pictures that it has not seen,

    PIPE = 2 · (1 - accuracy)        1 where it is clueless, 0 where it is always right
    PIPE_rec = PIPE - α · rec        rec: reconstruction error, from 0 for the family's best to 1 for its worst;
                                     the paper (B.3) says "normalised per data set", and shows α = 0.5 and 1

A decoder that ignores its codes scores 1, which is why the reconstruction stands beside the score.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Float

from sober.criteria.criterion import REPLICATES, Cost, Criterion, Evidence, Judgement, Once, Progress
from sober.errors import RequestError, listed
from sober.shared import Shared
from sober.types import Setting

if TYPE_CHECKING:  # these need JAX
    from sober.criteria.mixing import Mixing
    from sober.models.model import Model
    from sober.worlds import World

RecError = Literal["nats", "squared"]

HELD_OUT = 10_240  # pictures of each kind that accuracy is measured on
IGNORES = 0.01  # of the pictures' variance: a decoder whose pictures vary less hardly looks at its codes
STEP = 1.5  # what a step of a discriminator takes, in steps of a β-VAE


@dataclasses.dataclass(frozen=True, eq=False)
class Pipe:
    """What PIPE says of each model, in the order they were given."""

    scores: Float[np.ndarray, " M"]
    accuracy: Float[np.ndarray, " M"]  # of the discriminator, on pictures it has not seen
    reconstruction: Float[np.ndarray, " M"]  # nats a picture
    squared_error: Float[np.ndarray, " M"]  # of a pixel: the paper's reconstruction error
    flags: tuple[tuple[str, ...], ...]

    def with_reconstruction(self, alpha: float = 1.0, error: RecError = "nats") -> Float[np.ndarray, " M"]:
        """PIPE_rec: less for models that reconstruct worse than the best of the family."""
        if error not in get_args(RecError):
            raise RequestError(f"pipe_rec: error must be one of {listed(get_args(RecError))}, not {error!r}")
        lost = self.reconstruction if error == "nats" else self.squared_error
        low, high = np.min(lost), np.max(lost)
        return self.scores - alpha * (lost - low) / (high - low if high > low else 1)


def pipe(
    models: Sequence[Model],
    world: World,
    *,
    mixing: Mixing = "uniform",
    steps: int = 10_000,
    rate: float = 1e-4,
    seed: int = 0,
    progress: Progress | None = None,
) -> Pipe:
    """PIPE of models trained on a world, all discriminators trained side by side."""
    from sober.criteria.discriminators import trained_and_examined  # noqa: PLC0415 -- needs JAX

    if not models:
        raise RequestError("PIPE needs at least one model")
    if mixing not in ("uniform", "permuted"):
        raise RequestError(f"codes are mixed 'uniform' or 'permuted', not {mixing!r}")
    examined = trained_and_examined(
        models,
        world,
        mixing=mixing,
        steps=steps,
        rate=rate,
        held_out=HELD_OUT,
        seed=seed,
        progress=progress or (lambda done, total: None),
    )
    flags = tuple(
        ("diverged",) * (model.diverged is not None) + ("ignores_codes",) * bool(share < IGNORES)
        for model, share in zip(models, examined.variance, strict=True)
    )
    scores = np.clip(2 * (1 - examined.accuracy), 0, 1)
    return Pipe(scores, examined.accuracy, examined.reconstruction, examined.squared_error, flags)


def judge(
    evidence: Evidence,
    *,
    seed: int,
    progress: Progress,
    shared: Shared,
    mixing: Mixing,
    steps: float,
    rate: float,
    alpha: float,
    error: RecError,
) -> Judgement:
    """With the pictures that the discriminator was tested on drawn anew for the replicates."""
    found = shared(Once, _pipe_of_evidence, evidence, mixing, int(steps), rate, seed)(progress)
    rng = np.random.default_rng([seed, 2])
    right = rng.binomial(2 * HELD_OUT, found.accuracy, (REPLICATES, len(found.scores))) / (2 * HELD_OUT)
    scores = found.with_reconstruction(alpha, error)
    again = np.clip(2 * (1 - right), 0, 1) - found.scores + scores  # what reconstruction takes off is nearly certain
    return Judgement(scores, again, found.flags)


def _pipe_of_evidence(
    evidence: Evidence, mixing: Mixing, steps: int, rate: float, seed: int, progress: Progress
) -> Pipe:
    """What PIPE and PIPE_rec share: they are one training."""
    return pipe(evidence.models, evidence.world, mixing=mixing, steps=steps, rate=rate, seed=seed, progress=progress)


def suited(steps: int) -> dict[str, Setting]:
    """For people in a hurry: codes are permuted, and discriminators train an eighth as long as models, faster where
    that is short."""
    shorter = min(10_000, max(200, steps // 8))
    rate = 1e-3 if shorter < 2_000 else 5e-4 if shorter < 5_000 else 1e-4
    return {"mixing": "permuted", "steps": shorter, "rate": rate}


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    return Cost(steps=STEP * float(settings["steps"]))


_SETTINGS: dict[str, Setting] = {"mixing": "uniform", "steps": 10_000, "rate": 1e-4}
_REFERENCE = "Estermann & Wattenhofer (2023) DAVA: Disentangling Adversarial Variational Autoencoder"

criterion = Criterion(
    name="pipe",
    headline=True,
    summary="do pictures of freely mixed codes look like reconstructions?",
    sees="It sees whether latents can be set one by one and still make pictures like those of the world.",
    blind="It cannot see what a model has lost: one with few latents, or a decoder that ignores them, mixes well.",
    reference=_REFERENCE,
    judge=functools.partial(judge, alpha=0.0, error="nats"),
    settings=_SETTINGS,
    steps="steps",
    suited=suited,
    cost=cost,
)

with_reconstruction = Criterion(
    name="pipe_rec",
    summary="PIPE, less for models that reconstruct worse than the best of the family",
    sees="It sees whether latents can be set one by one, and how well pictures are given back.",
    blind="It cannot see an entanglement that keeps pictures plausible; how the two are weighed is a rule of thumb.",
    reference=_REFERENCE,
    judge=judge,
    settings={**_SETTINGS, "alpha": 1.0, "error": "nats"},
    relative=True,
    steps="steps",
    suited=suited,
    cost=cost,
)
