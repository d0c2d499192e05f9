"""The mean picture of a world: a model is worth something only if it reconstructs pictures better than this does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from sober.methods import hyper_of
from sober.methods.method import BERNOULLI, pixel_loss
from sober.models.encode import Pictures, picture_index
from sober.types import Run
from sober.worlds import World

PICTURES = 500  # that it is the mean of
DARKEST, BRIGHTEST = 1e-4, 1 - 1e-4  # of a pixel, whose logit must be finite


class MeanPicture(NamedTuple):
    """The mean of some pictures, as a reconstruction of each of them."""

    pictures: Float[np.ndarray, "N H W C"]
    mean: Float[np.ndarray, "H W C"]
    squared_error: float  # mean over pictures and pixels

    @staticmethod
    def of(pictures: Float[np.ndarray, "N H W C"]) -> MeanPicture:
        mean = pictures.mean(axis=0)
        return MeanPicture(pictures, mean, float(np.mean((pictures - mean) ** 2)))

    def nats(self, hyper: Mapping[str, Any]) -> float:
        """-log p(x) of a picture, if p is the likelihood of a method with these settings around the mean picture."""
        clipped = np.clip(self.mean, DARKEST, BRIGHTEST)
        logits = np.log(clipped) - np.log1p(-clipped)
        losses = pixel_loss(jnp.asarray(logits), jnp.asarray(self.pictures), {**BERNOULLI, **hyper})
        return float(np.asarray(losses, np.float64).sum(axis=(1, 2, 3)).mean())


def mean_picture(world: World, index: Int[np.ndarray, "n ..."]) -> MeanPicture:
    """The mean of the pictures at these places of a world."""
    return MeanPicture.of(world.render(index).astype(np.float32) / 255)


def losses_of_mean_picture(world: World, pictures: Pictures, runs: Sequence[Run]) -> Float[np.ndarray, " M"]:
    """The reconstruction loss of the mean picture under the likelihood of each run, in nats."""
    index = picture_index(world, pictures)
    of_world = mean_picture(world, index[few_rows(world, len(index))])
    likelihoods = [tuple({**BERNOULLI, **hyper_of(run)}[name] for name in BERNOULLI) for run in runs]
    nats = {values: of_world.nats(dict(zip(BERNOULLI, values, strict=True))) for values in set(likelihoods)}
    return np.array([nats[values] for values in likelihoods])


def few_rows(world: World, count: int) -> Int[np.ndarray, " n"]:
    """The rows of a few pictures: at random, or the first where pictures have a nuisance, which follows the row."""
    if world.stochastic:
        return np.arange(min(count, PICTURES))
    return np.sort(np.random.default_rng(0).permutation(count)[:PICTURES])
