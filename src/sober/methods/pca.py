"""Principal components (Tipping & Bishop 1999), in closed form: the linear baseline of Eastwood & Williams (2018).

With the D largest eigenvalues λ of the pictures' covariance, their eigenvectors U, and σ² the mean of the others,

    p(x|z) = N(U (λ - σ²)^½ z + μ, σ²)        q(z|x) = N(λ^-1 (λ - σ²)^½ U^T (x - μ), σ² / λ)

is the linear model of the largest likelihood, so codes are Gaussians with a spread as a VAE's are. One step with a
large batch is the exact answer for that batch. With more, as in `--steps 4 --batch 10000`, the components found so far
stand for the pictures seen so far (Ross et al. 2008), and the fit goes on with the next batch. What is logged is how
well a batch is described before it is fitted, so the first entry is that of the random start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from sober.methods.method import Draw, Images, Method, Setup, State, Terms, elbo_terms
from sober.nets import Autoencoder, autoencoder


class Seen(NamedTuple):
    """All that is kept of the pictures seen so far."""

    pictures: Float[Array, ""]
    mean: Float[Array, " P"]
    components: Float[Array, "D P"]  # times their singular values
    squares: Float[Array, ""]  # sum of squared distances from the mean


def init(setup: Setup, key: Key[Array, ""], hyper: Mapping[str, Any]) -> State:
    model = autoencoder(key, setup.nets, setup.image_shape, setup.latents)
    pixels = math.prod(setup.image_shape)
    seen = Seen(jnp.zeros(()), jnp.zeros(pixels), jnp.zeros((setup.latents, pixels)), jnp.zeros(()))
    return State(model, (), seen)


def update(
    setup: Setup, state: State, draw: Draw, key: Key[Array, ""], step: Int[Array, ""], hyper: Mapping[str, Any]
) -> tuple[State, Terms]:
    """One batch more. The terms are those of the fresh batch, which the model has not seen."""
    for_images, for_codes = jax.random.split(key)
    model, seen, terms = refitted(state.model, state.memory, draw(for_images), for_codes)
    return State(model, (), seen), terms


@jax.custom_batching.sequential_vmap  # one model after the other: eigenvectors keep a whole device busy
def refitted(model: Autoencoder, seen: Seen, images: Images, key: Key[Array, ""]) -> tuple[Autoencoder, Seen, Terms]:
    pictures = images.reshape(len(images), -1)
    elbo = elbo_terms(model, images, key)
    error = jnp.sum((model.decoder.layers[0](elbo.mean) - pictures) ** 2) / len(images)
    seen = also(seen, pictures)
    return fitted(model, seen), seen, {"loss": error, **elbo.terms}


def also(seen: Seen, pictures: Float[Array, "B P"]) -> Seen:
    """What is kept after more pictures: the largest components of those kept so far and the new ones together."""
    count = seen.pictures + len(pictures)
    middle = jnp.mean(pictures, axis=0)
    apart = jnp.sqrt(seen.pictures * len(pictures) / count) * (seen.mean - middle)  # what lies between the two means
    rows = jnp.concatenate([seen.components, pictures - middle, apart[None]])
    mean = seen.mean + (middle - seen.mean) * len(pictures) / count
    squares = seen.squares + jnp.sum((pictures - middle) ** 2) + jnp.sum(apart**2)
    return Seen(count, mean, largest(rows, len(seen.components)), squares)


def largest(rows: Float[Array, "R P"], count: int) -> Float[Array, "D P"]:
    """Singular values times right singular vectors, the largest first; each with its largest entry positive."""
    exactly = jax.lax.Precision.HIGHEST
    if rows.shape[0] <= rows.shape[1]:  # the smaller of the two products has the same eigenvalues
        _, vectors = jnp.linalg.eigh(jnp.matmul(rows, rows.T, precision=exactly))
        components = jnp.matmul(vectors.T, rows, precision=exactly)[::-1][:count]
    else:
        values, vectors = jnp.linalg.eigh(jnp.matmul(rows.T, rows, precision=exactly))
        components = (vectors * jnp.sqrt(jnp.maximum(values, 0.0))).T[::-1][:count]
    components = jnp.pad(components, ((0, count - len(components)), (0, 0)))  # fewer pixels than latents
    peak = jnp.take_along_axis(components, jnp.argmax(jnp.abs(components), axis=1, keepdims=True), axis=1)
    return jnp.where(peak < 0, -components, components)


def fitted(model: Autoencoder, seen: Seen) -> Autoencoder:
    """The linear model of the largest likelihood."""
    freedom = jnp.maximum(seen.pictures - 1, 1)
    values = jnp.sum(seen.components**2, axis=1) / freedom  # λ
    others = max(seen.components.shape[1] - len(values), 1)
    noise = jnp.maximum(seen.squares / freedom - jnp.sum(values), 0.0) / others  # σ²
    noise = jnp.maximum(noise, 1e-6 * values[0] + 1e-12)  # pictures that D components tell exactly
    kept = values > noise
    scale = jnp.sqrt(jnp.where(kept, values - noise, 0.0))
    directions = seen.components / jnp.sqrt(jnp.where(kept, values, 1.0) * freedom)[:, None]
    weight = (scale / jnp.where(kept, values, 1.0))[None, :] * directions.T
    logvar = jnp.where(kept, jnp.log(noise) - jnp.log(jnp.where(kept, values, 1.0)), 0.0)
    bias = -jnp.matmul(seen.mean, weight, precision=jax.lax.Precision.HIGHEST)
    decoder = scale[:, None] * directions
    return eqx.tree_at(_arrays, model, (weight, bias, logvar, decoder, seen.mean))


def _arrays(model: Autoencoder) -> tuple[Array, ...]:
    down, up = model.encoder.layers[-1], model.decoder.layers[0]
    return down.weight, down.bias, down.logvar, up.weight, up.bias


pca = Method(
    name="pca",
    summary="principal components in closed form: one step on one large batch",
    reference="Tipping & Bishop (1999): Probabilistic Principal Component Analysis",
    hyper=(),
    init=init,
    update=update,
    nets="linear",
    losses=0,
)
