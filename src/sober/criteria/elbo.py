"""What training itself knows: reconstruction error, KL and their sum, the negative evidence lower bound, in nats.

The criteria every new one is measured against. They hold on to what a model keeps of a picture, not to how.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sober.criteria.criterion import Criterion, Evidence, Judgement, alike, halves
from sober.device import compiler_options
from sober.methods.method import bernoulli_loss, kl_per_latent, sample
from sober.models.encode import BATCH, Progress, models_at_once
from sober.models.model import stacked
from sober.types import Precision
from sober.worlds import World

Terms = dict[str, Float[np.ndarray, "M N"]]


def terms_of(evidence: Evidence, seed: int, progress: Progress) -> Terms:
    """`reconstruction` and `kl` of each picture under each model, with one sample of its code; computed once."""
    kept = vars(evidence).setdefault("_terms", {})
    if seed not in kept:
        kept[seed] = _terms(evidence, seed, progress)
    return kept[seed]


def _terms(evidence: Evidence, seed: int, progress: Progress) -> Terms:
    world = evidence.family.world
    pictures = world.everything() if evidence.index is None else evidence.index
    found = {name: np.empty((len(evidence.runs), len(pictures)), np.float32) for name in ("reconstruction", "kl")}
    done = 0
    for group in alike(evidence.models, models_at_once(evidence.runs[0], BATCH)):
        models = stacked([evidence.models[at] for at in group])
        for start in range(0, len(pictures), BATCH):
            part = pictures[start : start + BATCH]
            padded = np.pad(part, (0, BATCH - len(part)), mode="edge")  # one shape, one compilation
            key = jax.random.fold_in(jax.random.key(seed), start)
            values = _forward(evidence.runs[group[0]].precision)(world, models, *world.gather(padded), key)
            for name, value in zip(found, values, strict=True):
                found[name][group, start : start + len(part)] = value[:, : len(part)]
            progress(done + len(group) * (start + len(part)), len(evidence.runs) * len(pictures))
        done += len(group) * len(pictures)
    return found


@functools.cache
def _forward(precision: Precision) -> Callable[..., tuple[Float[Array, "M B"], Float[Array, "M B"]]]:
    dtype = jnp.dtype(precision)  # what the models were trained in

    def forward(world: World, models: Any, data: Any, index: Int[Array, " B"], key: Any) -> tuple[Array, Array]:
        images = world.pixels(data, index, jax.random.key(0))

        def one(model: Any) -> tuple[Array, Array]:
            mean, logvar = model.encode(images, dtype)
            logits = model.decode(sample(mean, logvar, key), dtype)
            loss = jnp.sum(bernoulli_loss(logits, images), axis=(1, 2, 3))
            return loss, jnp.sum(kl_per_latent(mean, logvar), axis=1)

        return jax.vmap(one)(models)

    return jax.jit(forward, static_argnums=0, compiler_options=compiler_options("for seconds"))


def _judge(evidence: Evidence, *, seed: int, progress: Progress, of: Callable[[Terms], np.ndarray]) -> Judgement:
    each = of(terms_of(evidence, seed, progress)).astype(np.float64)  # (M, N)
    replicates = np.stack([each[:, rows].mean(axis=1) for rows in halves(each.shape[1], seed, 50)])
    return Judgement(each.mean(axis=1), replicates, tuple(codes.flags for codes in evidence.codes))


_REFERENCE = "Kingma & Welling (2014) Auto-Encoding Variational Bayes"

reconstruction = Criterion(
    name="reconstruction",
    summary="how much of a picture is lost, in nats",
    sees="It sees how much of a picture a model gives back.",
    blind="It cannot see whether latents are disentangled, and prefers models without regularisation.",
    reference=_REFERENCE,
    judge=functools.partial(_judge, of=operator.itemgetter("reconstruction")),
    better="lower",
)

kl = Criterion(
    name="kl",
    summary="how much the codes say of a picture, in nats",
    sees="It sees how few nats a model spends on a picture.",
    blind="It cannot see what they are spent on, and prefers models that have given up.",
    reference=_REFERENCE,
    judge=functools.partial(_judge, of=operator.itemgetter("kl")),
    better="lower",
)

elbo = Criterion(
    name="elbo",
    summary="the evidence lower bound, with its sign turned: reconstruction + KL, in nats",
    sees="It sees how well a model explains the pictures.",
    blind="It cannot see the latents: turning them all at once leaves it as it is, and it prefers the weakest penalty.",
    reference=_REFERENCE,
    judge=functools.partial(_judge, of=lambda terms: terms["reconstruction"] + terms["kl"]),
    better="lower",
)
