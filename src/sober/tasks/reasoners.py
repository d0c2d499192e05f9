"""Relation networks in training: copies of one net learn from the embeddings of many models, side by side.

A net's design, its initial weights and its questions depend on the seed alone. So all models get the same nets and the
same questions, and company never matters.
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

from sober.device import compiler_options, equal_chunks, free_memory, kept_compilations, local_devices, seed_key
from sober.methods.method import follow
from sober.model_placement import MODELS, SHARED, ModelPlacement, on_each_device
from sober.nets.cpu_gpu_variants import on_cpu
from sober.tasks.matrices import Kind, draw_questions
from sober.tasks.panels import Panels
from sober.tasks.relation_network import PAIRS, Architecture, Design, RelationNetwork, embedding_size, eyes

TIMES = 6  # how often accuracy is measured during training, the end included
CHUNK = 50  # steps between reports
AT_ONCE = 64  # nets in training on a device, at most
DRAWN_AT_ONCE = 2**15  # questions
TRAINING, VALIDATION, TEST = range(3)  # purposes of questions

Report = Callable[[int], None]  # takes the number of steps done


class QuestionBatches(NamedTuple):
    """Batches of questions: the numbers of their pictures among the panels, and the correct answers."""

    panels: Int[np.ndarray, "t b 14"]  # eight of the context, six answers
    right: Int[np.ndarray, "t b"]


def question_batches(panels: Panels, kind: Kind, purpose: int, batches: int, batch: int, seed: int) -> QuestionBatches:
    """Draws batches of questions. With one seed, the first batches are the same however many are drawn."""
    count = batches * batch
    numbers, right = np.empty((count, 14), np.int32), np.empty(count, np.int32)
    for chunk, start in enumerate(range(0, count, DRAWN_AT_ONCE)):
        rng = np.random.default_rng([seed, purpose, chunk])
        questions = draw_questions(rng, panels.sizes, DRAWN_AT_ONCE, kind)
        drawn = panels.numbers(np.concatenate([questions.context, questions.answers], axis=1), rng)
        end = min(start + DRAWN_AT_ONCE, count)
        numbers[start:end], right[start:end] = drawn[: end - start], questions.right[: end - start]
    return QuestionBatches(numbers.reshape(batches, batch, 14), right.reshape(batches, batch))


class Curve(NamedTuple):
    """Accuracy during training, of one net for each of M models."""

    validation: Float[np.ndarray, "M times"]
    test: Float[np.ndarray, "M times"]


def times_of(steps: int) -> Int[np.ndarray, " times"]:
    """The steps after which accuracy is measured: after each sixth of all."""
    return np.unique(np.ceil(steps * np.arange(1, TIMES + 1) / TIMES).astype(int))


@kept_compilations()
def training_curves(
    tables: Float[np.ndarray, "M N e"],
    design: Design,
    training: QuestionBatches,
    unseen: QuestionBatches,
    *,
    key: Key[Array, ""],
    report_done: Report,
    pictures: Panels | None = None,
) -> Curve:
    """Trains one net on each model's embeddings of the panels, or on embeddings of `pictures` that it learns.

    The first half of the `unseen` batches is for validation, the second for testing.
    """
    steps, batch = training.right.shape
    at_once = max(1, min(AT_ONCE, free_memory() // 2 // _bytes(design.architecture, batch, tables[0].nbytes)))
    curves, before = [], 0
    for group in equal_chunks(range(len(tables)), at_once * len(local_devices())):

        def report_step(step: int, before: int = before, models: int = len(group)) -> None:
            report_done(before + step * models)

        curves.append(_train_group(tables[group], design, training, unseen, key, report_step, pictures))
        before += steps * len(group)
    return Curve(*map(np.concatenate, zip(*curves, strict=True)))


def _bytes(architecture: Architecture, batch: int, table: int) -> int:
    """About how many bytes a net in training takes: its table, and four times each layer's activations of all pairs."""
    return table + 16 * batch * PAIRS * architecture.edge_units * architecture.edge_layers


def _train_group(
    tables: Float[np.ndarray, "M N e"],
    design: Design,
    training: QuestionBatches,
    unseen: QuestionBatches,
    key: Key[Array, ""],
    report_done: Report,
    pictures: Panels | None,
) -> Curve:
    placement = ModelPlacement(len(tables))
    programs = programs_of(design.architecture, pictures)
    placed_tables, data = placement.place(tables), None if pictures is None else placement.replicated(pictures.data)
    training_batches, unseen_batches = (
        placement.place(jax.tree.map(jnp.asarray, batches), SHARED) for batches in (training, unseen)
    )
    untrained = programs.untrained(key, tables.shape[-1])
    reasoners, step, accuracies = programs.begin(placed_tables, placement.place(untrained, SHARED)), 0, []
    for time in times_of(len(training.right)).tolist():
        while step < time:
            stop = min(step + CHUNK, time)
            reasoners = programs.advance(
                placed_tables, reasoners, data, training_batches, key, design.rate, design.dropout, step, stop
            )
            step = stop
            jax.block_until_ready(reasoners)
            report_done(step)
        accuracies.append(placement.fetched(programs.examine(placed_tables, reasoners, data, unseen_batches)))  # (M, t)
    by_half = np.stack(accuracies, axis=1).reshape(len(tables), len(accuracies), 2, -1).mean(axis=-1)
    return Curve(by_half[..., 0], by_half[..., 1])


def map_models(f: Callable[..., Any], *trees: Any) -> Any:
    """Applies f to each model's slice of some trees, side by side on a GPU and one after another on a CPU.

    One product keeps the cores of a CPU busy, and in turn each model gets bit for bit the numbers that it gets alone.
    """
    if not on_cpu():
        return jax.vmap(f)(*trees)

    def slices(model: Any) -> Any:
        return jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, model, keepdims=False), trees)

    models = len(jax.tree.leaves(trees)[0])
    results = jax.tree.map(lambda leaf: jnp.zeros((models, *leaf.shape), leaf.dtype), jax.eval_shape(f, *slices(0)))

    def add_result(model: Any, results: Any) -> Any:
        return jax.tree.map(lambda array, leaf: array.at[model].set(leaf), results, f(*slices(model)))

    # The compiler must not know the number of models: a loop of one would be another program.
    return jax.lax.fori_loop(0, jax.lax.optimization_barrier(models), add_result, results)


class Reasoner(NamedTuple):
    """A net in training. If it sees pictures, its first part encodes them; else the first part is None."""

    net: tuple[Any, RelationNetwork]
    optimiser: Any


class Programs(NamedTuple):
    """Compiled functions for any number of models."""

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
        embeddings = net(pictures.pixels(data, numbers.ravel(), seed_key(0)))
        return embeddings.reshape(*numbers.shape, -1)  # (b, 14, e)

    def logits(net: Any, table: Any, data: Any, numbers: Any, kept_units: Any) -> Float[Array, "b 6"]:
        return net[1](embedded(net[0], table, data, numbers), kept_units)

    def untrained(key: Key[Array, ""], size: int) -> tuple[Any, RelationNetwork]:
        """An untrained net for embeddings of one size."""
        net_key, eyes_key = jax.random.split(jax.random.fold_in(key, 0))
        if pictures is None:
            return None, kind(net_key, architecture, size)
        shape = pictures.image_shape
        return eyes(eyes_key, shape), kind(net_key, architecture, embedding_size(shape))

    def begin(tables: Float[Array, "M N e"], net: Any) -> Reasoner:
        """The same net for all models."""
        reasoner = Reasoner(net, optax.adam(1.0).init(net))
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(tables), *leaf.shape)), reasoner)

    def advance(
        tables: Float[Array, "M N e"],
        reasoners: Reasoner,
        data: Any,
        training: QuestionBatches,
        key: Key[Array, ""],
        rate: Any,
        dropout: Any,
        start: int,
        stop: int,
    ) -> Reasoner:
        def step_all(step: Any, reasoners: Reasoner) -> Reasoner:
            numbers, right = training.panels[step], training.right[step]
            mask = jax.random.bernoulli(jax.random.fold_in(key, 1 + step), 1 - dropout, (architecture.graph_units,))
            kept_units = mask / (1 - dropout)

            def loss(net: Any, table: Any) -> Float[Array, ""]:
                log_probabilities = jax.nn.log_softmax(logits(net, table, data, numbers, kept_units))
                return -jnp.mean(jnp.take_along_axis(log_probabilities, right[:, None], axis=1))

            def step_one(gradient: Any, reasoner: Reasoner) -> Reasoner:
                return Reasoner(*follow(gradient, reasoner.net, optax.adam(rate), reasoner.optimiser))

            return jax.vmap(step_one)(map_models(jax.grad(loss), reasoners.net, tables), reasoners)

        return jax.lax.fori_loop(start, stop, step_all, reasoners)

    def examine(
        tables: Float[Array, "M N e"], reasoners: Reasoner, data: Any, unseen: QuestionBatches
    ) -> Float[Array, "M t"]:
        def share_right(batch: QuestionBatches) -> Float[Array, " M"]:
            answer = functools.partial(logits, data=data, numbers=batch.panels, kept_units=1.0)
            answers = map_models(answer, reasoners.net, tables)
            return jnp.mean(jnp.argmax(answers, axis=-1) == batch.right, axis=-1)

        return jax.lax.map(share_right, unseen).T

    return Programs(
        # Compiled on its own: together with copies for models, its rounding would depend on their number.
        jax.jit(untrained, static_argnums=1, compiler_options=compiler_options("once")),
        jax.jit(on_each_device(begin, (MODELS, SHARED)), compiler_options=compiler_options("once")),
        jax.jit(
            on_each_device(advance, (MODELS, MODELS, *[SHARED] * 7)),
            donate_argnums=1,
            compiler_options=compiler_options(),
        ),
        jax.jit(
            on_each_device(examine, (MODELS, MODELS, SHARED, SHARED)), compiler_options=compiler_options("for seconds")
        ),
    )
