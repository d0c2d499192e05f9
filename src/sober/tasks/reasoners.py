"""Relation networks in training, the same one on the embeddings of many models side by side.

What a net looks like, how it begins and the questions it is asked depend on the seed alone, so all models meet the same
nets and the same questions, and company never matters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from sober.device import compiler_options, evenly, free_memory, keep_compilations, local_devices, seed_key
from sober.methods.method import follow
from sober.nets.forms import on_cpu
from sober.spread import MODELS, SHARED, Spread, mapped
from sober.tasks.matrices import Kind, draw_questions
from sober.tasks.panels import Panels
from sober.tasks.relation_network import PAIRS, Architecture, Design, RelationNetwork, embedding_size, eyes

TIMES = 6  # how often accuracy is measured on the way, the end included
CHUNK = 50  # steps between reports
AT_ONCE = 64  # nets in training on a device, at most
DRAWN_AT_ONCE = 2**15  # questions
TRAINING, VALIDATION, TEST = range(3)  # what questions are for

Told = Callable[[int], None]


class Asked(NamedTuple):
    """Batches of questions, by the numbers of their pictures among the panels."""

    panels: Int[np.ndarray, "t b 14"]  # eight of the context, six answers
    right: Int[np.ndarray, "t b"]


def asked(panels: Panels, kind: Kind, purpose: int, batches: int, batch: int, seed: int) -> Asked:
    """Batches by seed: fewer are the beginning of more."""
    count = batches * batch
    numbers, right = np.empty((count, 14), np.int32), np.empty(count, np.int32)
    for part, start in enumerate(range(0, count, DRAWN_AT_ONCE)):
        rng = np.random.default_rng([seed, purpose, part])
        questions = draw_questions(rng, panels.sizes, DRAWN_AT_ONCE, kind)
        drawn = panels.numbers(np.concatenate([questions.context, questions.answers], axis=1), rng)
        end = min(start + DRAWN_AT_ONCE, count)
        numbers[start:end], right[start:end] = drawn[: end - start], questions.right[: end - start]
    return Asked(numbers.reshape(batches, batch, 14), right.reshape(batches, batch))


class Curve(NamedTuple):
    """Accuracy on the way, of one net for each of M models."""

    validation: Float[np.ndarray, "M times"]
    test: Float[np.ndarray, "M times"]


def times_of(steps: int) -> Int[np.ndarray, " times"]:
    """The steps after which accuracy is measured: each sixth of them."""
    return np.unique(np.ceil(steps * np.arange(1, TIMES + 1) / TIMES).astype(int))


def trained(
    tables: Float[np.ndarray, "M N e"],
    design: Design,
    training: Asked,
    unseen: Asked,
    *,
    key: Key[Array, ""],
    told: Told,
    pictures: Panels | None = None,
) -> Curve:
    """Trains a net of a design on the embedding that each model has for every panel, or, where `pictures` are given, on
    what it learns to see in them. The first half of the `unseen` batches is to validate, the second to test."""
    keep_compilations()
    steps, batch = training.right.shape
    at_once = max(1, min(AT_ONCE, free_memory() // 2 // _bytes(design.architecture, batch, tables[0].nbytes)))
    curves, before = [], 0
    for group in evenly(range(len(tables)), at_once * len(local_devices())):

        def so_far(step: int, before: int = before, models: int = len(group)) -> None:
            told(before + step * models)

        curves.append(_trained_together(tables[group], design, training, unseen, key, so_far, pictures))
        before += steps * len(group)
    return Curve(*map(np.concatenate, zip(*curves, strict=True)))


def _bytes(architecture: Architecture, batch: int, table: int) -> int:
    """That a net in training takes, about: each layer's activations of all pairs some four times, and what it reads."""
    return table + 16 * batch * PAIRS * architecture.edge_units * architecture.edge_layers


def _trained_together(
    tables: Float[np.ndarray, "M N e"],
    design: Design,
    training: Asked,
    unseen: Asked,
    key: Key[Array, ""],
    told: Told,
    pictures: Panels | None,
) -> Curve:
    spread = Spread(len(tables))
    programs = programs_of(design.architecture, pictures)
    read, data = spread.place(tables), None if pictures is None else spread.copied(pictures.data)
    asked_now, asked_then = (spread.place(jax.tree.map(jnp.asarray, each), SHARED) for each in (training, unseen))
    untrained = programs.untrained(key, tables.shape[-1])
    reasoners, step, accuracies = programs.begin(read, spread.place(untrained, SHARED)), 0, []
    for time in times_of(len(training.right)).tolist():
        while step < time:
            stop = min(step + CHUNK, time)
            reasoners = programs.advance(read, reasoners, data, asked_now, key, design.rate, design.dropout, step, stop)
            step = stop
            jax.block_until_ready(reasoners)
            told(step)
        accuracies.append(spread.trimmed(programs.examine(read, reasoners, data, asked_then)))  # (M, t)
    by_half = np.stack(accuracies, axis=1).reshape(len(tables), len(accuracies), 2, -1).mean(axis=-1)
    return Curve(by_half[..., 0], by_half[..., 1])


def of_each(f: Callable[..., Any], *of_models: Any) -> Any:
    """f of each model's part of some trees: side by side on a GPU. On a CPU, whose cores one product keeps busy, one
    after another, so that a model's numbers are bit by bit those that it has alone."""
    if not on_cpu():
        return jax.vmap(f)(*of_models)

    def part(model: Any) -> Any:
        return jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, model, keepdims=False), of_models)

    models = len(jax.tree.leaves(of_models)[0])
    results = jax.tree.map(lambda leaf: jnp.zeros((models, *leaf.shape), leaf.dtype), jax.eval_shape(f, *part(0)))

    def one(model: Any, results: Any) -> Any:
        return jax.tree.map(lambda whole, leaf: whole.at[model].set(leaf), results, f(*part(model)))

    # The compiler must not know how many: a loop of one would be another program.
    return jax.lax.fori_loop(0, jax.lax.optimization_barrier(models), one, results)


class Reasoner(NamedTuple):
    """A net in training: with eyes where it looks at pictures."""

    net: tuple[Any, RelationNetwork]
    optimiser: Any


class Programs(NamedTuple):
    """Compiled for any number of models."""

    untrained: Any
    begin: Any
    advance: Any
    examine: Any


@functools.lru_cache(maxsize=32)
def programs_of(
    architecture: Architecture, pictures: Panels | None, kind: type[RelationNetwork] = RelationNetwork
) -> Programs:
    def embedded(net: Any, table: Float[Array, "N e"], data: Any, numbers: Int[Array, "b 14"]) -> Any:
        if pictures is None:
            return table[numbers]
        seen = net(pictures.pixels(data, numbers.ravel(), seed_key(0)))
        return seen.reshape(*numbers.shape, -1)  # (b, 14, e)

    def logits(net: Any, table: Any, data: Any, numbers: Any, kept: Any) -> Float[Array, "b 6"]:
        return net[1](embedded(net[0], table, data, numbers), kept)

    def untrained(key: Key[Array, ""], size: int) -> tuple[Any, RelationNetwork]:
        """A net that has learnt nothing, of embeddings of a size."""
        for_net, for_eyes = jax.random.split(jax.random.fold_in(key, 0))
        if pictures is None:
            return None, kind(for_net, architecture, size)
        shape = pictures.image_shape
        return eyes(for_eyes, shape), kind(for_net, architecture, embedding_size(shape))

    def begin(tables: Float[Array, "M N e"], net: Any) -> Reasoner:
        """The same net for all models."""
        reasoner = Reasoner(net, optax.adam(1.0).init(net))
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(tables), *leaf.shape)), reasoner)

    def advance(
        tables: Float[Array, "M N e"],
        reasoners: Reasoner,
        data: Any,
        training: Asked,
        key: Key[Array, ""],
        rate: Any,
        dropout: Any,
        start: int,
        stop: int,
    ) -> Reasoner:
        def one(step: Any, reasoners: Reasoner) -> Reasoner:
            numbers, right = training.panels[step], training.right[step]
            mask = jax.random.bernoulli(jax.random.fold_in(key, 1 + step), 1 - dropout, (architecture.graph_units,))
            kept = mask / (1 - dropout)

            def loss(net: Any, table: Any) -> Float[Array, ""]:
                of_answers = jax.nn.log_softmax(logits(net, table, data, numbers, kept))
                return -jnp.mean(jnp.take_along_axis(of_answers, right[:, None], axis=1))

            def step_one(gradient: Any, reasoner: Reasoner) -> Reasoner:
                return Reasoner(*follow(gradient, reasoner.net, optax.adam(rate), reasoner.optimiser))

            return jax.vmap(step_one)(of_each(jax.grad(loss), reasoners.net, tables), reasoners)

        return jax.lax.fori_loop(start, stop, one, reasoners)

    def examine(tables: Float[Array, "M N e"], reasoners: Reasoner, data: Any, unseen: Asked) -> Float[Array, "M t"]:
        def share_right(batch: Asked) -> Float[Array, " M"]:
            one = functools.partial(logits, data=data, numbers=batch.panels, kept=1.0)
            answers = of_each(one, reasoners.net, tables)
            return jnp.mean(jnp.argmax(answers, axis=-1) == batch.right, axis=-1)

        return jax.lax.map(share_right, unseen).T

    return Programs(
        # Made by itself: with copies for models, how the compiler rounds would depend on how many.
        jax.jit(untrained, static_argnums=1, compiler_options=compiler_options("once")),
        jax.jit(mapped(begin, (MODELS, SHARED)), compiler_options=compiler_options("once")),
        jax.jit(
            mapped(advance, (MODELS, MODELS, *[SHARED] * 7)), donate_argnums=1, compiler_options=compiler_options()
        ),
        jax.jit(mapped(examine, (MODELS, MODELS, SHARED, SHARED)), compiler_options=compiler_options("for seconds")),
    )
