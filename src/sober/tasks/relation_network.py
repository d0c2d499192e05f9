"""Wild Relation Networks (Barrett et al. 2018): every two panels of a matrix are compared, for each of the answers.

With e_i the embedding of panel i and o_i its place as a one-hot, a matrix completed by an answer has nine panels and

    logit = graph( Σ_i Σ_j edge([e_i o_i, e_j o_j]) )          over all 81 ordered pairs, softmax over the six answers

Two shortcuts change nothing but the order of sums. The first layer of `edge` is linear before its ReLU, so it is
applied to panels and summed over the two panels of each pair. And the 64 pairs of the context are the same for all
answers, so a question has 64 + 6 · 17 = 166 pairs, not 6 · 81 = 486.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from sober.nets.conv import coarse
from sober.nets.layers import RELU, Conv, Flatten, add_bias, relu
from sober.nets.net import Net, net
from sober.tasks.matrices import ANSWERS, CONTEXT

PAIRS = CONTEXT**2 + ANSWERS * (2 * CONTEXT + 1)  # of a question, which go through the edge net
PANELS = CONTEXT + 1

EDGE_LAYERS, EDGE_UNITS = (2, 3, 4), (256, 512)
GRAPH_LAYERS, GRAPH_UNITS = (1, 2), (128, 256)
DROPOUTS = (0.0, 0.25, 0.5, 0.75)
RATES = (1e-2, 1e-3, 1e-4)
CHANNELS = (32, 32, 64, 64)


class Architecture(NamedTuple):
    """The numbers of layers and units, which select a compiled program."""

    edge_layers: int
    edge_units: int
    graph_layers: int
    graph_units: int


class Design(NamedTuple):
    """A randomly drawn net, independent of the size of its inputs."""

    architecture: Architecture
    dropout: float  # the share of the last layer's inputs that is dropped
    rate: float  # of Adam


def drawn_design(seed: int, number: int, width: float = 1.0) -> Design:
    """The design of net `number`: all choices are equally likely, and layers are `width` times as wide."""
    rng = np.random.default_rng([seed, number])
    choices: list[Sequence[float]] = [EDGE_LAYERS, EDGE_UNITS, GRAPH_LAYERS, GRAPH_UNITS, DROPOUTS, RATES]
    edge_layers, edge_units, graph_layers, graph_units, dropout, rate = (rng.choice(options) for options in choices)
    units = [max(1, round(width * count)) for count in (edge_units, graph_units)]
    return Design(Architecture(int(edge_layers), units[0], int(graph_layers), units[1]), float(dropout), float(rate))


class Dense(eqx.Module):
    """x @ weight + bias over the last axis, with LeCun's initialisation."""

    weight: Float[Array, "i o"]
    bias: Float[Array, " o"]

    def __init__(self, key: Key[Array, ""], i: int, o: int) -> None:
        self.weight = lecun(key, (i, o), i)
        self.bias = jnp.zeros(o)

    def __call__(self, x: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        return add_bias(x @ self.weight, self.bias)


def lecun(key: Key[Array, ""], shape: tuple[int, ...], fan_in: int) -> Float[Array, "..."]:
    """Normal with variance 1 / fan_in, truncated at two standard deviations (of the normal before truncation)."""
    cut = 0.87962566  # standard deviation after truncation, of a standard normal
    return jax.random.truncated_normal(key, -2, 2, shape) / (cut * math.sqrt(fan_in))


class RelationNetwork(eqx.Module):
    """Panels' embeddings to one logit for each answer."""

    first: Float[Array, "e+9 u"]  # weights of the edge net's first layer, for the first panel of a pair
    second: Float[Array, "e+9 u"]  # and for the second panel
    bias: Float[Array, " u"]
    edge: tuple[Dense, ...]  # other layers of the edge net
    graph: tuple[Dense, ...]
    last: Float[Array, " g"]  # no bias: it would be the same for all answers

    def __init__(self, key: Key[Array, ""], architecture: Architecture, embedding: int) -> None:
        edge_layers, units, graph_layers, graph_units = architecture
        pairs_key, edge_key, graph_key, last_key = jax.random.split(key, 4)
        panel = embedding + PANELS
        self.first, self.second = jnp.split(lecun(pairs_key, (2 * panel, units), 2 * panel), 2)
        self.bias = jnp.zeros(units)
        self.edge = _layers(edge_key, [units] * edge_layers)
        self.graph = _layers(graph_key, [units, *[graph_units] * graph_layers])
        self.last = lecun(last_key, (graph_units,), graph_units)

    def __call__(
        self, panels: Float[Array, "b 14 e"], kept_units: Float[Array, " g"] | float = 1.0
    ) -> Float[Array, "b 6"]:
        """`kept_units` multiplies the last layer's inputs: 0 if dropped, above 1 for the others to make up for it."""
        x = self.pairs(panels)
        for layer in self.edge:
            x = relu(layer(x))
        context, answers = x[:, : CONTEXT**2], x[:, CONTEXT**2 :]
        answers = jnp.sum(answers.reshape(len(x), ANSWERS, -1, x.shape[-1]), axis=2)
        x = jnp.sum(context, axis=1)[:, None] + answers  # (b, 6, u)
        for layer in self.graph:
            x = relu(layer(x))
        return (x * kept_units) @ self.last

    def pairs(self, panels: Float[Array, "b 14 e"]) -> Float[Array, "b 166 u"]:
        """The edge net's first layer applied to all pairs: those of the context, then those of each answer."""
        b, _, e = panels.shape
        places = np.minimum(np.arange(CONTEXT + ANSWERS), CONTEXT)  # every answer is the ninth panel
        first = panels @ self.first[:e] + self.first[e:][places]
        second = panels @ self.second[:e] + (self.second[e:] + self.bias)[places]
        first_context, first_answer = first[:, :CONTEXT, None], first[:, CONTEXT:, None]  # (b, 8 or 6, 1, u)
        second_context, second_answer = second[:, None, :CONTEXT], second[:, CONTEXT:, None]
        among_context = first_context + second_context  # (b, 8, 8, u)
        with_answer = [  # (b, 6, 8 or 1, u)
            first[:, None, :CONTEXT] + second_answer,
            first_answer + second_context,
            first_answer + second_answer,
        ]
        sums = [among_context, jnp.concatenate(with_answer, axis=2)]
        return relu(jnp.concatenate([pairs.reshape(b, -1, first.shape[-1]) for pairs in sums], axis=1))


def _layers(key: Key[Array, ""], units: Sequence[int]) -> tuple[Dense, ...]:
    keys = jax.random.split(key, max(1, len(units) - 1))
    return tuple(Dense(layer_key, i, o) for layer_key, (i, o) in zip(keys, itertools.pairwise(units), strict=False))


def eyes(key: Key[Array, ""], shape: tuple[int, int, int]) -> Net:
    """The net that encodes pictures, trained with the rest: four convolutions, flattened."""
    layers: list[Any] = []
    for number, (i, o) in enumerate(itertools.pairwise((shape[2], *CHANNELS))):
        layer_key = jax.random.fold_in(key, number)
        layer = Conv(layer_key, i, o)
        weight = lecun(layer_key, layer.weight.shape, 16 * i)
        layers += [(f"convs.{number}", eqx.tree_at(lambda conv: conv.weight, layer, weight)), RELU]
    return net(*layers, Flatten())


def embedding_size(shape: tuple[int, int, int]) -> int:
    """The size of the embeddings that `eyes` makes."""
    h, w = coarse(shape)
    return h * w * CHANNELS[-1]
