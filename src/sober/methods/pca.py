"""Principal components (Tipping & Bishop 1999), in closed form: the linear baseline of Eastwood & Williams (2018).

With the D largest eigenvalues λ of the pictures' covariance, their eigenvectors U, and σ² the mean of the others,

    p(x|z) = N(U (λ - σ²)^½ z + μ, σ²)        q(z|x) = N(λ^-1 (λ - σ²)^½ U^T (x - μ), σ² / λ)

is the linear model of the largest likelihood, so codes are Gaussians with a spread as a VAE's are. One step with a
large batch is the exact answer for that batch. With more steps, as in `--steps 4 --batch 10000`, the components found
so far stand for the pictures seen so far (Ross et al. 2008), and the fit goes on with the next batch. The terms of a
batch are logged before it is fitted, so the first entry is about the random start.

With `standardise`, as in the public code of Eastwood & Williams, every pixel is first divided by its standard deviation
in the first batch, so that all pixels that vary count equally. Encoder and decoder undo this: pixels in and out are as
always.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from sober.methods.method import Draw, Hyper, Images, Method, Setup, State, Terms, elbo_terms
from sober.nets import Autoencoder, autoencoder


class PictureSummary(NamedTuple):
    """A summary of the pictures seen so far."""

    pictures: Float[Array, ""]
    mean: Float[Array, " P"]
    components: Float[Array, "D P"]  # times their singular values
    squares: Float[Array, ""]  # sum of squared distances from the mean
    scale: Any = ()  # what each pixel is divided by, (P,), if pixels are standardised; the rest is of divided pixels


def init(setup: Setup, key: Key[Array, ""], hyper: Mapping[str, Any]) -> State:
    model = autoencoder(key, setup.nets, setup.image_shape, setup.latents)
    pixels = math.prod(setup.image_shape)
    scale = jnp.ones(pixels) if hyper["standardise"] else ()
    summary = PictureSummary(jnp.zeros(()), jnp.zeros(pixels), jnp.zeros((setup.latents, pixels)), jnp.zeros(()), scale)
    return State(model, (), summary)


def update(
    setup: Setup, state: State, draw: Draw, key: Key[Array, ""], step: Int[Array, ""], hyper: Mapping[str, Any]
) -> tuple[State, Terms]:
    """Fits one more batch. The terms are of this batch, before the fit."""
    for_images, for_codes = jax.random.split(key)
    model, summary, terms = refitted(state.model, state.memory, draw(for_images), for_codes)
    return State(model, (), summary), terms


@jax.custom_batching.sequential_vmap  # one model after another: eigenvectors keep a whole device busy
def refitted(
    model: Autoencoder, summary: PictureSummary, images: Images, key: Key[Array, ""]
) -> tuple[Autoencoder, PictureSummary, Terms]:
    pictures = images.reshape(len(images), -1)
    elbo = elbo_terms(model, images, key)
    error = jnp.sum((model.decoder.layers[0](elbo.mean) - pictures) ** 2) / len(images)
    summary = with_pictures(summary, pictures)
    return fitted(model, summary), summary, {"loss": error, **elbo.terms}


def with_pictures(summary: PictureSummary, pictures: Float[Array, "B P"]) -> PictureSummary:
    """The summary with more pictures: the largest components of the old summary and the new pictures together."""
    if not isinstance(summary.scale, tuple):
        spread = jnp.std(pictures - pictures[0], axis=0)  # so rounding leaves exactly 0 for a pixel that never varies
        of_first_batch = jnp.where(spread > 0, spread, 1.0)
        summary = summary._replace(scale=jnp.where(summary.pictures == 0, of_first_batch, summary.scale))
        pictures = pictures / summary.scale
    count = summary.pictures + len(pictures)
    middle = jnp.mean(pictures, axis=0)
    apart = jnp.sqrt(summary.pictures * len(pictures) / count) * (summary.mean - middle)  # from one mean to the other
    rows = jnp.concatenate([summary.components, pictures - middle, apart[None]])
    mean = summary.mean + (middle - summary.mean) * len(pictures) / count
    squares = summary.squares + jnp.sum((pictures - middle) ** 2) + jnp.sum(apart**2)
    return PictureSummary(count, mean, largest(rows, len(summary.components)), squares, summary.scale)


def largest(rows: Float[Array, "R P"], count: int) -> Float[Array, "D P"]:
    """Singular values times right singular vectors, the largest first; each with its largest entry positive.

    Where symmetric pictures make several entries equally large, the first of them is positive, whatever rounding says.
    """
    exactly = jax.lax.Precision.HIGHEST
    if rows.shape[0] <= rows.shape[1]:  # the smaller of the two products has the same eigenvalues
        _, vectors = jnp.linalg.eigh(jnp.matmul(rows, rows.T, precision=exactly))
        components = jnp.matmul(vectors.T, rows, precision=exactly)[::-1][:count]
    else:
        values, vectors = jnp.linalg.eigh(jnp.matmul(rows.T, rows, precision=exactly))
        components = (vectors * jnp.sqrt(jnp.maximum(values, 0.0))).T[::-1][:count]
    components = jnp.pad(components, ((0, count - len(components)), (0, 0)))  # fewer pixels than latents
    size = jnp.abs(components)
    first_largest = jnp.argmax(size >= 0.999 * jnp.max(size, axis=1, keepdims=True), axis=1, keepdims=True)
    peak = jnp.take_along_axis(components, first_largest, axis=1)
    return jnp.where(peak < 0, -components, components)


def fitted(model: Autoencoder, summary: PictureSummary) -> Autoencoder:
    """The linear model of the largest likelihood."""
    freedom = jnp.maximum(summary.pictures - 1, 1)
    values = jnp.sum(summary.components**2, axis=1) / freedom  # λ
    others = max(summary.components.shape[1] - len(values), 1)
    noise = jnp.maximum(summary.squares / freedom - jnp.sum(values), 0.0) / others  # σ²
    noise = jnp.maximum(noise, 1e-6 * values[0] + 1e-12)  # pictures that D components tell exactly
    above_noise = values > noise
    scale = jnp.sqrt(jnp.where(above_noise, values - noise, 0.0))
    directions = summary.components / jnp.sqrt(jnp.where(above_noise, values, 1.0) * freedom)[:, None]
    weight = (scale / jnp.where(above_noise, values, 1.0))[None, :] * directions.T
    logvar = jnp.where(above_noise, jnp.log(noise) - jnp.log(jnp.where(above_noise, values, 1.0)), 0.0)
    bias = -jnp.matmul(summary.mean, weight, precision=jax.lax.Precision.HIGHEST)
    decoder, mean = scale[:, None] * directions, summary.mean
    if not isinstance(summary.scale, tuple):  # from divided pixels to pixels
        weight, decoder, mean = weight / summary.scale[:, None], decoder * summary.scale, mean * summary.scale
    return eqx.tree_at(_arrays, model, (weight, bias, logvar, decoder, mean))


def _arrays(model: Autoencoder) -> tuple[Array, ...]:
    down, up = model.encoder.layers[-1], model.decoder.layers[0]
    return down.weight, down.bias, down.logvar, up.weight, up.bias


pca = Method(
    name="pca",
    title="PCA",
    summary="principal components in closed form: one step on one large batch",
    reference="Tipping & Bishop (1999): Probabilistic Principal Component Analysis",
    hyper=(
        Hyper(
            "standardise",
            False,
            "whether each pixel is divided by its standard deviation first",
            choices=(True, False),
            later=True,
            title="standardised pixels",
        ),
    ),
    init=init,
    update=update,
    nets="linear",
    losses=0,
    sweeps={"dci": {"standardise": (True,)}},  # their public code; the paper does not say
)
