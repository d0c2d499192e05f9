"""PIPE (Estermann & Wattenhofer 2023): whether pictures of freely mixed codes look like reconstructions.

A model's latents can be mixed freely if codes of pictures and codes drawn latent by latent decode alike. A
discriminator is trained to tell x̂ = Dec(z), z ~ q(z|x), from x̃ = Dec(z̃), z̃ uniform over the range of each latent.
With its accuracy on pictures that it was not trained on,

    PIPE = 2 · (1 - accuracy)        1 if it guesses, 0 if it is always right
    PIPE_rec = PIPE - α · rec        rec: reconstruction error, 0 for the best of the family and 1 for the worst;
                                     the paper (B.3) says "normalised per data set", and shows α = 0.5 and 1

A decoder that ignores its codes scores 1, so the reconstruction error is reported beside the score.

The preset `reference`, and the criterion `pipe_reference`, are the authors' code: 45,000 fixed pictures, batches of 32,
1,570 steps, a net with batch norm and a layer of 512, codes without noise, and the range of means. Its discriminator
learns less, so its scores are higher: levels of the two do not compare.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Float

from sober.contracts import Cost, ProgressCallback
from sober.criteria.criterion import REPLICATES, Criterion, Evidence, Judgement, Once
from sober.errors import RequestError, listed
from sober.shared import Shared
from sober.types import Setting

if TYPE_CHECKING:  # these need JAX
    from sober.criteria.mixed_codes import Mixing
    from sober.models.model import Model
    from sober.worlds import World

RecError = Literal["nats", "squared"]
Preset = Literal["paper", "reference"]

HELD_OUT = 10_240  # pictures of each kind to measure the accuracy on
STEPS: Mapping[Preset, int] = {"paper": 10_000, "reference": 1_570}
REFERENCE_PICTURES = 50_000  # of each kind in the authors' code: half for the test, most of the others for training
IGNORES = 0.01  # share of the pictures' variance below which a decoder counts as ignoring its codes
FEWEST_FIXED = 128  # pictures of each kind for `pipe_reference`, two batches
STEP = 1.5  # cost of a discriminator's step, in steps of a β-VAE


@dataclasses.dataclass(frozen=True, eq=False)
class Pipe:
    """PIPE and its parts for each model, in the order of the models."""

    scores: Float[np.ndarray, " M"]
    accuracy: Float[np.ndarray, " M"]  # of the discriminator, on held-out pictures
    reconstruction: Float[np.ndarray, " M"]  # nats per picture
    squared_error: Float[np.ndarray, " M"]  # per pixel: the paper's reconstruction error
    flags: tuple[tuple[str, ...], ...]

    def with_reconstruction(self, alpha: float = 1.0, error: RecError = "nats") -> Float[np.ndarray, " M"]:
        """PIPE_rec: lower for models that reconstruct worse than the best of the family."""
        if error not in get_args(RecError):
            raise RequestError(f"pipe_rec: error must be one of {listed(get_args(RecError))}, not {error!r}")
        errors = self.reconstruction if error == "nats" else self.squared_error
        low, high = np.min(errors), np.max(errors)
        return self.scores - alpha * (errors - low) / (high - low if high > low else 1)


def pipe(
    models: Sequence[Model],
    world: World,
    *,
    mixing: Mixing = "uniform",
    steps: int | None = None,
    rate: float = 1e-4,
    preset: Preset = "paper",
    pictures: int = REFERENCE_PICTURES,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Pipe:
    """PIPE of models trained on a world. All discriminators are trained side by side.

    The preset `reference` follows the authors' code; `pictures` is how many it takes of each kind. `steps` are 10,000,
    or 1,570 for `reference`.
    """
    from sober.criteria.discriminators import train_and_test  # noqa: PLC0415 -- needs JAX
    from sober.criteria.reference_discriminators import train_and_test_reference  # noqa: PLC0415 -- needs JAX

    if preset not in get_args(Preset):
        raise RequestError(f"pipe: preset must be one of {listed(get_args(Preset))}, not {preset!r}")
    if not models:
        raise RequestError("PIPE needs at least one model")
    if mixing not in ("uniform", "permuted"):
        raise RequestError(f"codes are mixed 'uniform' or 'permuted', not {mixing!r}")
    train_them = (
        functools.partial(train_and_test_reference, pictures=pictures)
        if preset == "reference"
        else functools.partial(train_and_test, held_out=HELD_OUT)
    )
    tested = train_them(
        models,
        world,
        mixing=mixing,
        steps=STEPS[preset] if steps is None else steps,
        rate=rate,
        seed=seed,
        progress=progress or (lambda done, total: None),
    )
    flags = tuple(
        ("diverged",) * (model.diverged is not None) + ("ignores_codes",) * bool(share < IGNORES)
        for model, share in zip(models, tested.variance, strict=True)
    )
    scores = np.clip(2 * (1 - tested.accuracy), 0, 1)
    return Pipe(scores, tested.accuracy, tested.reconstruction, tested.squared_error, flags)


def judge(
    evidence: Evidence,
    *,
    seed: int,
    progress: ProgressCallback,
    shared: Shared,
    mixing: Mixing,
    steps: float,
    rate: float,
    alpha: float,
    error: RecError,
) -> Judgement:
    """Replicates redraw the pictures on which the discriminator was tested."""
    result = shared(Once, _pipe_of_evidence, evidence, mixing, int(steps), rate, seed)(progress)
    rng = np.random.default_rng([seed, 2])
    right = rng.binomial(2 * HELD_OUT, result.accuracy, (REPLICATES, len(result.scores))) / (2 * HELD_OUT)
    scores = result.with_reconstruction(alpha, error)
    # The reconstruction error hardly varies from draw to draw, so all replicates have the same one.
    replicates = np.clip(2 * (1 - right), 0, 1) - result.scores + scores
    return Judgement(scores, replicates, result.flags)


def judge_reference(
    evidence: Evidence,
    *,
    seed: int,
    progress: ProgressCallback,
    shared: Shared,
    mixing: Mixing,
    steps: float,
    rate: float,
    pictures: float,
) -> Judgement:
    """Replicates redraw the pictures on which the discriminator was tested: as many in all as it takes of each kind."""
    if pictures < FEWEST_FIXED:
        raise RequestError(f"pipe_reference: pictures must be at least {FEWEST_FIXED}, got {pictures:g}")
    result = pipe(
        evidence.models,
        evidence.world,
        mixing=mixing,
        steps=int(steps),
        rate=rate,
        preset="reference",
        pictures=int(pictures),
        seed=seed,
        progress=progress,
    )
    rng = np.random.default_rng([seed, 2])
    right = rng.binomial(int(pictures), result.accuracy, (REPLICATES, len(result.scores))) / int(pictures)
    return Judgement(result.scores, np.clip(2 * (1 - right), 0, 1), result.flags)


def _pipe_of_evidence(
    evidence: Evidence, mixing: Mixing, steps: int, rate: float, seed: int, progress: ProgressCallback
) -> Pipe:
    """The one training that PIPE and PIPE_rec share."""
    return pipe(evidence.models, evidence.world, mixing=mixing, steps=steps, rate=rate, seed=seed, progress=progress)


def suited(steps: int) -> dict[str, Setting]:
    """Quicker settings: permuted codes, and an eighth of the models' steps, with a higher rate for short training."""
    eighth = min(10_000, max(200, steps // 8))
    rate = 1e-3 if eighth < 2_000 else 5e-4 if eighth < 5_000 else 1e-4
    return {"mixing": "permuted", "steps": eighth, "rate": rate}


def suited_reference(steps: int) -> dict[str, Setting]:
    """An eighth of the models' steps, and no more than the authors' code has."""
    return {"steps": min(STEPS["reference"], max(200, steps // 8))}


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    return Cost(steps=STEP * float(settings["steps"]))


_SETTINGS: dict[str, Setting] = {"mixing": "uniform", "steps": 10_000, "rate": 1e-4}
_REFERENCE = "Estermann & Wattenhofer (2023) DAVA: Disentangling Adversarial Variational Autoencoder"

criterion = Criterion(
    name="pipe",
    title="PIPE",
    decodes=True,
    headline=True,
    summary="do pictures of freely mixed codes look like reconstructions?",
    sees="It sees whether latents can be set one by one and still decode to pictures like those of the world.",
    blind="It cannot see what a model has lost: one with few latents, or a decoder that ignores them, mixes well.",
    reference=_REFERENCE,
    judge=functools.partial(judge, alpha=0.0, error="nats"),
    low=0.0,
    high=1.0,
    settings=_SETTINGS,
    steps="steps",
    suited=suited,
    cost=cost,
)

reference = Criterion(
    name="pipe_reference",
    title="PIPE of the authors' code",
    decodes=True,
    summary="PIPE with the discriminator of the authors' code, whose levels stand beside the paper's",
    sees="It sees whether latents can be set one by one and still decode to pictures like those of the world.",
    blind="It cannot see what a discriminator does not learn in 1,570 steps, so it scores higher than `pipe`.",
    reference=_REFERENCE,
    judge=judge_reference,
    low=0.0,
    high=1.0,
    settings={"mixing": "uniform", "steps": STEPS["reference"], "rate": 1e-4, "pictures": REFERENCE_PICTURES},
    steps="steps",
    suited=suited_reference,
    cost=cost,
)

with_reconstruction = Criterion(
    name="pipe_rec",
    title="PIPE with reconstruction",
    decodes=True,
    summary="PIPE, lower for models that reconstruct worse than the best of the family",
    sees="It sees whether latents can be set one by one, and how well pictures are reconstructed.",
    blind="It cannot see an entanglement that keeps pictures plausible, and its weights are a rule of thumb.",
    reference=_REFERENCE,
    judge=judge,
    high=1.0,
    settings={**_SETTINGS, "alpha": 1.0, "error": "nats"},
    relative=True,
    steps="steps",
    suited=suited,
    cost=cost,
)
