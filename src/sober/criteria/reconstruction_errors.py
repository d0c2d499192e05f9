"""How well decoders reconstruct pictures, from the codes at hand: nothing is encoded again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sober.contracts import ProgressCallback
from sober.criteria.criterion import Evidence
from sober.criteria.same_program import same_program_groups
from sober.device import compiler_options
from sober.methods import hyper_of
from sober.methods.method import BERNOULLI, pixel_loss, sample
from sober.model_placement import MODELS, SHARED, ModelPlacement, on_each_device
from sober.models.encode import models_at_once, pictures_at_once
from sober.models.model import stacked
from sober.nets import Compute
from sober.types import Precision
from sober.worlds import World


class ReconstructionErrors(NamedTuple):
    """The reconstruction error of each picture under each model, for one sample z of its code."""

    nats: Float[np.ndarray, "M N"]  # -log p(x|z)
    squared: Float[np.ndarray, "M N"]  # (x - x̂)², mean over pixels and channels


def reconstruction_errors(evidence: Evidence, seed: int, progress: ProgressCallback) -> ReconstructionErrors:
    """Reconstruction errors of each picture under each model, in nats and squared.

    Pictures come in the batches and with the key that they were encoded with, so that a world with random nuisance
    draws the same nuisance again.
    """
    world = evidence.world
    pictures = world.everything() if evidence.index is None else evidence.index
    errors = np.empty((2, len(evidence.runs), len(pictures)), np.float32)
    done = 0
    at_once = models_at_once(evidence.runs[0], pictures_at_once(evidence.runs[0]))
    for group in same_program_groups(evidence.models, at_once):
        batch = pictures_at_once(evidence.runs[group[0]])
        spread = ModelPlacement(len(group))
        models = spread.place(stacked([evidence.models[m] for m in group]))
        pixels = [{**BERNOULLI, **hyper_of(evidence.runs[m])} for m in group]
        decode = _decoder(world, evidence.runs[group[0]].precision, str(pixels[0]["likelihood"]))
        variance = spread.place(np.array([hyper["variance"] for hyper in pixels], np.float32))
        for start in range(0, len(pictures), batch):
            rows = slice(start, min(start + batch, len(pictures)))
            missing = batch - (rows.stop - start)
            padded = np.pad(pictures[rows], (0, missing), mode="edge")  # one shape, one compilation
            codes = np.array([[array[rows] for array in evidence.posterior(m)] for m in group], np.float32)
            codes = np.pad(codes, ((0, 0), (0, 0), (0, missing), (0, 0)), mode="edge")  # (M, 2, B, D)
            key = jax.random.fold_in(jax.random.key(seed), start)
            data, places = world.gather(padded)
            mean, logvar = spread.place((codes[:, 0], codes[:, 1]))
            batch_errors = decode(models, variance, mean, logvar, spread.replicated(data), places, key)  # two of (M, B)
            for kind, kind_errors in zip(errors, spread.fetched(batch_errors), strict=True):
                kind[group, rows] = kind_errors[:, : batch - missing]
            progress(done + len(group) * rows.stop, len(evidence.runs) * len(pictures))
        done += len(group) * len(pictures)
    return ReconstructionErrors(*errors)


@functools.lru_cache(maxsize=8)
def _decoder(
    world: World, precision: Precision, likelihood: str
) -> Callable[..., tuple[Float[Array, "M B"], Float[Array, "M B"]]]:
    """The compiled function that computes both errors of one batch under models of one program."""
    compute = Compute(jnp.dtype(precision))

    def decode(
        models: Any, variance: Array, mean: Array, logvar: Array, data: Any, index: Int[Array, " B"], key: Any
    ) -> tuple[Float[Array, "M B"], Float[Array, "M B"]]:
        images = world.pixels(data, index, jax.random.key(0))

        def decode_one(
            model: Any, variance: Float[Array, ""], mean: Float[Array, "B D"], logvar: Float[Array, "B D"]
        ) -> tuple[Float[Array, " B"], Float[Array, " B"]]:
            logits = model.decode(sample(mean, logvar, key), compute)
            nats = pixel_loss(logits, images, {"likelihood": likelihood, "variance": variance})
            squared = jnp.mean((jax.nn.sigmoid(logits) - images) ** 2, axis=(1, 2, 3))
            return jnp.sum(nats, axis=(1, 2, 3)), squared

        return jax.vmap(decode_one)(models, variance, mean, logvar)

    axes = MODELS, MODELS, MODELS, MODELS, SHARED, SHARED, SHARED
    return jax.jit(on_each_device(decode, axes), compiler_options=compiler_options("for seconds"))
