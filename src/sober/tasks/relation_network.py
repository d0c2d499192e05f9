"""Wild Relation Networks (Barrett et al. 2018): every two panels of a matrix are compared, for each of the answers.

With e_i the embedding of panel i and o_i its place as a one-hot, a matrix completed by an answer has nine panels and

    logit = graph( Σ_i Σ_j edge([e_i o_i, e_j o_j]) )          over all 81 ordered pairs, softmax over the six answers

Two things make it cheap, and change nothing but the order of sums. The first layer of `edge` is a sum of what it makes
of either panel, so it is applied to panels, not to pairs. And the 64 pairs of the context are the same for all answers,
so that a question has 64 + 6 · 17 = 166 pairs and not 6 · 81 = 486.
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

PAIRS = CONTEXT**2 + ANSWERS * (2 * CONTEXT + 1)  # that go through the edge net for a question
PANELS = CONTEXT + 1

EDGE_LAYERS, EDGE_UNITS = (2, 3, 4), (256, 512)
GRAPH_LAYERS, GRAPH_UNITS = (1, 2), (128, 256)
DROPOUTS = (0.0, 0.25, 0.5, 0.75)
RATES = (1e-2, 1e-3, 1e-4)
CHANNELS = (32, 32, 64, 64)


class Architecture(NamedTuple):
    """What selects a program: how many layers, of how many units."""

    edge_layers: int
    edge_units: int
    graph_layers: int
    graph_units: int


class Design(NamedTuple):
    """A net as it is drawn, whatever it will look at."""

    architecture: Architecture
    dropout: float  # the share of the last layer's inputs that is left out
    rate: float  # of Adam


def drawn_design(seed: int, number: int, width: float = 1.0) -> Design:
    """The design of net `number`: each part as likely as its alternatives, layers `width` times as wide."""
    rng = np.random.default_rng([seed, number])
    choices: list[Sequence[float]] = [EDGE_LAYERS, EDGE_UNITS, GRAPH_LAYERS, GRAPH_UNITS, DROPOUTS, RATES]
    edge_layers, edge_units, graph_layers, graph_units, dropout, rate = (rng.choice(each) for each in choices)
    units = [max(1, round(width * each)) for each in (edge_units, graph_units)]
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
    """Normal with variance 1 / fan_in, nothing beyond two standard deviations (of the normal before that cut)."""
    cut = 0.87962566  # what the cut leaves of the standard deviation
    return jax.random.truncated_normal(key, -2, 2, shape) / (cut * math.sqrt(fan_in))


class RelationNetwork(eqx.Module):
    """Panels' embeddings to one logit for each answer."""

    first: Float[Array, "e+9 u"]  # of the first layer of the edge net: what it makes of the first panel of a pair,
    second: Float[Array, "e+9 u"]  # and of the second
    bias: Float[Array, " u"]
    edge: tuple[Dense, ...]  # its other layers
    graph: tuple[Dense, ...]
    last: Float[Array, " g"]  # no bias: it would be the same for all answers

    def __init__(self, key: Key[Array, ""], architecture: Architecture, embedding: int) -> None:
        edge_layers, units, graph_layers, graph_units = architecture
        for_pairs, for_edge, for_graph, for_last = jax.random.split(key, 4)
        panel = embedding + PANELS
        self.first, self.second = jnp.split(lecun(for_pairs, (2 * panel, units), 2 * panel), 2)
        self.bias = jnp.zeros(units)
        self.edge = _layers(for_edge, [units] * edge_layers)
        self.graph = _layers(for_graph, [units, *[graph_units] * graph_layers])
        self.last = lecun(for_last, (graph_units,), graph_units)

    def __call__(self, panels: Float[Array, "b 14 e"], kept: Float[Array, " g"] | float = 1.0) -> Float[Array, "b 6"]:
        """`kept` is what dropout leaves of the last layer's inputs: 0, or above 1 to make up for the others."""
        x = self.pairs(panels)
        for layer in self.edge:
            x = relu(layer(x))
        of_context, of_answers = x[:, : CONTEXT**2], x[:, CONTEXT**2 :]
        of_answers = jnp.sum(of_answers.reshape(len(x), ANSWERS, -1, x.shape[-1]), axis=2)
        x = jnp.sum(of_context, axis=1)[:, None] + of_answers  # (b, 6, u)
        for layer in self.graph:
            x = relu(layer(x))
        return (x * kept) @ self.last

    def pairs(self, panels: Float[Array, "b 14 e"]) -> Float[Array, "b 166 u"]:
        """What the first layer of the edge net makes of all pairs: of the context, then those of each answer."""
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
        both = [among_context, jnp.concatenate(with_answer, axis=2)]
        return relu(jnp.concatenate([part.reshape(b, -1, first.shape[-1]) for part in both], axis=1))


def _layers(key: Key[Array, ""], units: Sequence[int]) -> tuple[Dense, ...]:
    keys = jax.random.split(key, max(1, len(units) - 1))
    return tuple(Dense(each, i, o) for each, (i, o) in zip(keys, itertools.pairwise(units), strict=False))


def eyes(key: Key[Array, ""], shape: tuple[int, int, int]) -> Net:
    """Pictures to embeddings, learned along with the rest: four convolutions, flattened."""
    parts: list[Any] = []
    for number, (i, o) in enumerate(itertools.pairwise((shape[2], *CHANNELS))):
        own = jax.random.fold_in(key, number)
        layer = Conv(own, i, o)
        weight = lecun(own, layer.weight.shape, 16 * i)
        parts += [(f"convs.{number}", eqx.tree_at(lambda conv: conv.weight, layer, weight)), RELU]
    return net(*parts, Flatten())


def embedding_size(shape: tuple[int, int, int]) -> int:
    """Of what `eyes` see."""
    h, w = coarse(shape)
    return h * w * CHANNELS[-1]
