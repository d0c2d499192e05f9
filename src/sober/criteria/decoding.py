"""How well decoders give pictures back, from the codes that are there: nothing is encoded again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sober.criteria.alike import alike
from sober.criteria.criterion import Evidence, Progress
from sober.device import compiler_options
from sober.methods import hyper_of
from sober.methods.method import BERNOULLI, pixel_loss, sample
from sober.models.encode import models_at_once, pictures_at_once
from sober.models.model import stacked
from sober.nets import Compute
from sober.spread import MODELS, SHARED, Spread, mapped
from sober.types import Precision
from sober.worlds import World


class Errors(NamedTuple):
    """How much of each picture each model loses, for one sample z of its code."""

    nats: Float[np.ndarray, "M N"]  # -log p(x|z)
    squared: Float[np.ndarray, "M N"]  # (x - x̂)², mean over pixels and channels


def reconstruction_errors(evidence: Evidence, seed: int, progress: Progress) -> Errors:
    """How well each picture is given back by each model, in nats and as a squared error.

    Pictures come in the batches, and with the key, that they were encoded with: a world that draws its nuisance then
    draws the same one.
    """
    world = evidence.world
    pictures = world.everything() if evidence.index is None else evidence.index
    errors = np.empty((2, len(evidence.runs), len(pictures)), np.float32)
    done = 0
    for group in alike(evidence.models, models_at_once(evidence.runs[0], pictures_at_once(evidence.runs[0]))):
        batch = pictures_at_once(evidence.runs[group[0]])
        spread = Spread(len(group))
        models = spread.place(stacked([evidence.models[m] for m in group]))
        pixels = [{**BERNOULLI, **hyper_of(evidence.runs[m])} for m in group]
        decode = _decode(evidence.runs[group[0]].precision, str(pixels[0]["likelihood"]))
        variance = spread.place(np.array([hyper["variance"] for hyper in pixels], np.float32))
        for start in range(0, len(pictures), batch):
            rows = slice(start, min(start + batch, len(pictures)))
            missing = batch - (rows.stop - start)
            padded = np.pad(pictures[rows], (0, missing), mode="edge")  # one shape, one compilation
            codes = np.array([[part[rows] for part in evidence.posterior(m)] for m in group], np.float32)
            codes = np.pad(codes, ((0, 0), (0, 0), (0, missing), (0, 0)), mode="edge")  # (M, 2, B, D)
            key = jax.random.fold_in(jax.random.key(seed), start)
            data, places = world.gather(padded)
            mean, logvar = spread.place((codes[:, 0], codes[:, 1]))
            of_batch = decode(world, models, variance, mean, logvar, spread.copied(data), places, key)  # two of (M, B)
            for error, of_models in zip(errors, spread.trimmed(of_batch), strict=True):
                error[group, rows] = of_models[:, : batch - missing]
            progress(done + len(group) * rows.stop, len(evidence.runs) * len(pictures))
        done += len(group) * len(pictures)
    return Errors(*errors)


@functools.cache
def _decode(precision: Precision, likelihood: str) -> Callable[..., tuple[Float[Array, "M B"], Float[Array, "M B"]]]:
    """Reconstruction errors of one batch under models alike, in what they were trained in."""
    compute = Compute(jnp.dtype(precision))

    def decode(
        world: World, models: Any, variance: Array, mean: Array, logvar: Array, data: Any, index: Array, key: Any
    ) -> tuple[Float[Array, "M B"], Float[Array, "M B"]]:
        def of_models(
            models: Any, variance: Array, mean: Array, logvar: Array, data: Any, index: Int[Array, " B"], key: Any
        ) -> tuple[Float[Array, "M B"], Float[Array, "M B"]]:
            images = world.pixels(data, index, jax.random.key(0))

            def one(
                model: Any, variance: Float[Array, ""], mean: Float[Array, "B D"], logvar: Float[Array, "B D"]
            ) -> tuple[Float[Array, " B"], Float[Array, " B"]]:
                logits = model.decode(sample(mean, logvar, key), compute)
                nats = pixel_loss(logits, images, {"likelihood": likelihood, "variance": variance})
                squared = jnp.mean((jax.nn.sigmoid(logits) - images) ** 2, axis=(1, 2, 3))
                return jnp.sum(nats, axis=(1, 2, 3)), squared

            return jax.vmap(one)(models, variance, mean, logvar)

        takes = MODELS, MODELS, MODELS, MODELS, SHARED, SHARED, SHARED
        return mapped(of_models, takes)(models, variance, mean, logvar, data, index, key)

    return jax.jit(decode, static_argnums=0, compiler_options=compiler_options("for seconds"))
