"""PIPE (Estermann & Wattenhofer 2023): whether pictures of freely mixed codes look like reconstructions.

A model's latents can be mixed freely if it makes no difference whether codes come from a picture or each latent is
drawn by itself. A discriminator is trained to tell the two apart, x̂ = Dec(z) with z ~ q(z|x) from x̃ = Dec(z̃) with
z̃ uniform over the range that each latent has. With its accuracy on pictures that it has not seen,

    PIPE = 2 · (1 - accuracy)        1 where it is clueless, 0 where it is always right
    PIPE_rec = PIPE - α · rec        rec: reconstruction error, from 0 for the family's best to 1 for its worst

A decoder that ignores its codes scores 1, which is why the reconstruction stands beside the score.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from sober.criteria.criterion import REPLICATES, Criterion, Evidence, Judgement, alike
from sober.device import compiler_options, free_memory
from sober.errors import RequestError
from sober.methods.factor_vae import permuted
from sober.methods.method import bernoulli_loss, follow, sample
from sober.models.model import Model, stacked
from sober.nets import NETS, Nets
from sober.nets.nets import at_least_float32
from sober.nets.norms import NoNorm
from sober.training.train import Feed
from sober.types import Precision, Setting
from sober.worlds import World

BATCH = 64
LOOK = 4096  # pictures that tell a latent's range
LOOK_AT_ONCE = 256
EXAMINE_AT_ONCE = LOOK_AT_ONCE // 2  # of each kind: both are decoded together
HELD_OUT = 10_240  # pictures of each kind that accuracy is measured on
IGNORES = 0.01  # of the pictures' variance: a decoder whose pictures vary less hardly looks at its codes
BYTES_EACH = 2**28  # that a discriminator in training takes, rather too much than too little
CHUNK = 200  # steps between reports

Mixing = Literal["uniform", "permuted"]
Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True, eq=False)
class Pipe:
    """What PIPE says of each model, in the order they were given."""

    scores: Float[np.ndarray, " M"]
    accuracy: Float[np.ndarray, " M"]  # of the discriminator, on pictures it has not seen
    reconstruction: Float[np.ndarray, " M"]  # nats a picture
    flags: tuple[tuple[str, ...], ...]

    def with_reconstruction(self, alpha: float = 1.0) -> Float[np.ndarray, " M"]:
        """PIPE_rec: less for models that reconstruct worse than the best of the family."""
        low, high = np.min(self.reconstruction), np.max(self.reconstruction)
        return self.scores - alpha * (self.reconstruction - low) / (high - low if high > low else 1)


class Judged(NamedTuple):
    """One model and its discriminator in training."""

    discriminator: Any
    optimiser: Any
    low: Float[Array, " D"]  # the range of each latent
    high: Float[Array, " D"]


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
    if not models:
        raise RequestError("PIPE needs at least one model")
    if mixing not in ("uniform", "permuted"):
        raise RequestError(f"codes are mixed 'uniform' or 'permuted', not {mixing!r}")
    at_once = max(1, min(64, int(0.5 * free_memory()) // BYTES_EACH))
    groups = alike(models, at_once)
    found: dict[int, tuple[float, float, float]] = {}
    for number, group in enumerate(groups):

        def told(step: int, number: int = number) -> None:
            if progress is not None:
                progress(number * steps + step, len(groups) * steps)

        together = [models[at] for at in group]
        for at, each in zip(group, _judge(together, world, mixing, steps, rate, seed, told), strict=True):
            found[at] = each
    accuracy, reconstruction, varies = (np.array([found[at][k] for at in range(len(models))]) for k in range(3))
    flags = tuple(
        ("diverged",) * (model.diverged is not None) + ("ignores_codes",) * bool(share < IGNORES)
        for model, share in zip(models, varies, strict=True)
    )
    return Pipe(np.clip(2 * (1 - accuracy), 0, 1), accuracy, reconstruction, flags)


def _judge(
    models: Sequence[Model],
    world: World,
    mixing: Mixing,
    steps: int,
    rate: float,
    seed: int,
    told: Callable[[int], None],
) -> list[tuple[float, float, float]]:
    """Accuracy, reconstruction, and the share of the pictures' variance that reconstructions have, of models alike."""
    autoencoders = stacked(models)
    nets, shape = NETS[models[0].run.nets], models[0].image_shape
    programs = _programs(world, nets, shape, mixing, models[0].run.precision)
    key = jax.random.key(seed)
    # The pictures are the same for all models; all else is drawn by a model's identity, so company never matters.
    who = jnp.array([int(model.run.identity[:8], 16) for model in models], jnp.uint32)
    feed, step = Feed(world), 0
    state = Judged(*programs.novices(who, key, rate), *programs.ranges(autoencoders, feed.at(0, steps)[0]))
    while step < steps:
        data, end = feed.at(step, steps)
        stop = min(step + CHUNK, steps, end)
        state = programs.advance(autoencoders, who, state, data, key, rate, step, stop)
        step = stop
        told(step)
    right, error, varies = programs.examine(autoencoders, who, state, world.shard(steps)[0], key)
    return list(zip(*(np.asarray(each, float).tolist() for each in (right, error, varies)), strict=True))


class Programs(NamedTuple):
    """Compiled for any number of models."""

    novices: Any
    ranges: Any
    advance: Any
    examine: Any


@functools.lru_cache(maxsize=8)
def _programs(world: World, nets: Nets, shape: tuple[int, int, int], mixing: Mixing, precision: Precision) -> Programs:
    """Everything computes in what the models were trained in."""
    dtype = jnp.dtype(precision)

    def pictures(
        model: Any, judged: Judged, images: Float[Array, "B H W C"], key: Key[Array, ""]
    ) -> Float[Array, "2B H W C"]:
        """Logits of reconstructions, then of as many pictures whose codes were mixed."""
        for_codes, for_mixing = jax.random.split(key)
        mean, logvar = model.encode(images, dtype)
        codes = sample(mean, logvar, for_codes)
        if mixing == "permuted":
            mixed = permuted(codes, for_mixing)
        else:
            mixed = jax.random.uniform(for_mixing, codes.shape, minval=judged.low, maxval=judged.high)
        return model.decode(jnp.concatenate([codes, mixed]), dtype)

    def logits(net: Any, both: Float[Array, "2B H W C"]) -> Float[Array, " 2B"]:
        return at_least_float32(net(jax.nn.sigmoid(both).astype(dtype))[:, 0])

    def novices(who: Any, key: Key[Array, ""], rate: Any) -> tuple[Any, Any]:
        """Discriminators that have learnt nothing, and their optimisers."""

        def one(key: Key[Array, ""]) -> tuple[Any, Any]:
            net = nets.judge(key, shape, 1, NoNorm)
            return net, optax.adam(rate).init(net)

        return jax.vmap(one)(_keys(jax.random.fold_in(key, 1), who))

    def ranges(models: Any, data: Any) -> tuple[Float[Array, "M D"], Float[Array, "M D"]]:
        keys = jax.random.split(jax.random.key(0), LOOK // LOOK_AT_ONCE)  # whatever the seed: a range is not luck
        images = jax.lax.map(lambda key: world.draw(data, key, LOOK_AT_ONCE), keys)

        def one(model: Any) -> tuple[Float[Array, " D"], Float[Array, " D"]]:
            # A part at a time: many models look at many pictures.
            mean, logvar = jax.lax.map(lambda part: model.encode(part, dtype), images)
            codes = sample(mean, logvar, jax.random.key(1))
            return codes.min(axis=(0, 1)), codes.max(axis=(0, 1))

        return jax.vmap(one)(models)

    def step_one(model: Any, judged: Judged, images: Any, key: Key[Array, ""], rate: Any) -> Judged:
        both = pictures(model, judged, images, key)
        target = jnp.asarray(jnp.arange(len(both)) < len(images), jnp.float32)

        def loss(net: Any) -> Float[Array, ""]:
            return jnp.mean(bernoulli_loss(logits(net, both), target))

        net, optimiser = follow(
            jax.grad(loss)(judged.discriminator), judged.discriminator, optax.adam(rate), judged.optimiser
        )
        return judged._replace(discriminator=net, optimiser=optimiser)

    def advance(
        models: Any, who: Any, state: Judged, data: Any, key: Key[Array, ""], rate: Any, start: int, stop: int
    ) -> Judged:
        def one(step: Any, state: Judged) -> Judged:
            for_images, for_models = jax.random.split(jax.random.fold_in(key, 2 + step))
            images = world.draw(data, for_images, BATCH)
            step_all = jax.vmap(step_one, in_axes=(0, 0, None, 0, None))
            return step_all(models, state, images, _keys(for_models, who), rate)

        return jax.lax.fori_loop(start, stop, one, state)

    def examine_one(model: Any, judged: Judged, images: Any, key: Key[Array, ""]) -> tuple[Any, Any, Any]:
        both = pictures(model, judged, images, key)
        rebuilt = both[: len(images)]
        right = (logits(judged.discriminator, both) > 0) == (jnp.arange(len(both)) < len(images))
        error = jnp.sum(bernoulli_loss(rebuilt, images)) / len(images)
        of_pictures = jnp.sum(jnp.var(images, axis=0))
        return jnp.mean(right), error, jnp.sum(jnp.var(jax.nn.sigmoid(rebuilt), axis=0)) / of_pictures

    def examine(models: Any, who: Any, state: Judged, data: Any, key: Key[Array, ""]) -> tuple[Any, Any, Any]:
        def part(number: Any) -> Any:
            for_images, for_models = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, 1), number))
            images = world.draw(data, for_images, EXAMINE_AT_ONCE)
            examine_all = jax.vmap(examine_one, in_axes=(0, 0, None, 0))
            return examine_all(models, state, images, _keys(for_models, who))

        parts = jax.lax.map(part, jnp.arange(1, 1 + HELD_OUT // EXAMINE_AT_ONCE))
        return jax.tree.map(lambda each: jnp.mean(each, axis=0), parts)

    quick = compiler_options("for seconds")
    return Programs(
        jax.jit(novices, compiler_options=compiler_options("once")),
        jax.jit(ranges, compiler_options=quick),
        jax.jit(advance, donate_argnums=2, compiler_options=compiler_options()),
        jax.jit(examine, compiler_options=quick),
    )


def _keys(key: Key[Array, ""], who: Any) -> Key[Array, " M"]:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, who)


def _as_criterion(
    evidence: Evidence, *, seed: int, progress: Progress, mixing: Mixing, steps: float, rate: float, alpha: float
) -> Judgement:
    """With the pictures that the discriminator was tested on drawn anew for the replicates."""
    kept = vars(evidence).setdefault("_pipe", {})  # PIPE and PIPE_rec are one training
    if (seed, mixing, steps, rate) not in kept:
        kept[seed, mixing, steps, rate] = pipe(
            evidence.models,
            evidence.family.world,
            mixing=mixing,
            steps=int(steps),
            rate=rate,
            seed=seed,
            progress=progress,
        )
    found = kept[seed, mixing, steps, rate]
    rng = np.random.default_rng([seed, 2])
    right = rng.binomial(2 * HELD_OUT, found.accuracy, (REPLICATES, len(found.scores))) / (2 * HELD_OUT)
    scores = found.with_reconstruction(alpha)
    again = np.clip(2 * (1 - right), 0, 1) - found.scores + scores  # what reconstruction takes off is nearly certain
    return Judgement(scores, again, found.flags)


_SETTINGS: dict[str, Setting] = {"mixing": "uniform", "steps": 10_000, "rate": 1e-4}
_REFERENCE = "Estermann & Wattenhofer (2023) DAVA: Disentangling Adversarial Variational Autoencoder"

criterion = Criterion(
    name="pipe",
    summary="do pictures of freely mixed codes look like reconstructions?",
    sees="It sees whether latents can be set one by one and still make pictures like those of the world.",
    blind="It cannot see what a model has lost: one with few latents, or a decoder that ignores them, mixes well.",
    reference=_REFERENCE,
    judge=functools.partial(_as_criterion, alpha=0.0),
    settings=_SETTINGS,
)

with_reconstruction = Criterion(
    name="pipe_rec",
    summary="PIPE, less for models that reconstruct worse than the best of the family",
    sees="It sees whether latents can be set one by one, and how well pictures are given back.",
    blind="It cannot see an entanglement that keeps pictures plausible; how the two are weighed is a rule of thumb.",
    reference=_REFERENCE,
    judge=_as_criterion,
    settings={**_SETTINGS, "alpha": 1.0},
)
