"""What a probe found, in sentences: what encoders know, what they mix up, and what they are better than."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from sober.errors import counted
from sober.probing.differences import differences
from sober.probing.layer import Layer
from sober.probing.shown_layers import by_encoder
from sober.short_text import one_line

KNOWN, PARTLY = 0.9, 0.5  # how well a linear readout tells a factor, from 0, which is chance, to 1
MIXED_UP = 0.2  # the share of a class that is taken for another one
ONE_DIRECTION = 0.5  # factors whose moves have a larger cosine share a direction
FEWEST_LAYERS = 6  # for a sentence about numbers across layers


class Reading(NamedTuple):
    """How well a factor is told by the layer that tells it best."""

    factor: str
    share: float
    layer: str


def findings(layers: Sequence[Layer]) -> Iterator[str]:
    """For each encoder that is no line to beat: first what it knows about each world."""
    for sentences in findings_by_encoder(layers).values():
        yield from sentences


def findings_by_encoder(layers: Sequence[Layer]) -> dict[tuple[str, str], list[str]]:
    """The findings by world and encoder. The first one says what the encoder knows and what it mixes up."""
    pairs = by_encoder(layer for layer in layers if not layer.reference)
    return {
        (world, encoder): [one_line(sentence) for sentence in _findings(layers, world, encoder)]
        for world, encoder in pairs
    }


def _findings(layers: Sequence[Layer], world: str, encoder: str) -> Iterator[str]:
    own_layers = [layer for layer in layers if (layer.world, layer.encoder) == (world, encoder)]
    yield f"{encoder} on {world}: {'; '.join(filter(None, (knows(own_layers), mixes_up(own_layers))))}."
    if lost := unseen(own_layers):
        yield lost
    yield from better_than(layers, world, encoder)
    if tells := label_free_tells(own_layers):
        yield tells


def readings(layers: Sequence[Layer]) -> list[Reading]:
    """The best linear readout of each factor over layers, the best told factor first."""
    best = []
    for factor in layers[0].about:
        by_layer = [
            (number.share, layer.name) for layer in layers if (number := layer.number(factor.name, "linear readout"))
        ]
        share, layer = max(by_layer, key=lambda pair: pair[0])
        best.append(Reading(factor.name, share, layer))
    return sorted(best, key=lambda reading: -reading.share)


def knows(layers: Sequence[Layer]) -> str:
    """`it knows floor_hue (0.99) and scale (0.93), partly shape (0.71), hardly orientation (0.12)`."""
    words = {"knows": (KNOWN, math.inf), "partly": (PARTLY, KNOWN), "hardly": (-math.inf, PARTLY)}
    parts: list[str] = []
    for word, (low, high) in words.items():
        factors = [f"{name} ({share:.2f})" for name, share, _ in readings(layers) if low <= share < high]
        if factors:
            verb = word if word == "knows" or parts else f"{word} knows"
            parts.append(f"{verb} {_and(factors)}")
    return f"it {', '.join(parts)}"


def mixes_up(layers: Sequence[Layer]) -> str:
    """The two classes that the best layer confuses most, or the factors that move along one direction."""
    layer = max(layers, key=Layer.readable)
    worst, words = MIXED_UP, ""
    for factor, shares in layer.confusions():
        wrong = shares - np.diag(np.diag(shares))
        true, guessed = np.unravel_index(int(wrong.argmax()), wrong.shape)
        if wrong[true, guessed] > worst:
            names = [str(value) for value in factor.values] or [f"{factor.name} {c}" for c in range(factor.size)]
            worst = wrong[true, guessed]
            words = f"it takes {worst:.0%} of {names[true]} for {names[guessed]}"
    if words:
        return words
    by_factor = {factor.name: layer.number(factor.name, "own direction") for factor in layer.about}
    shared = [name for name, number in by_factor.items() if number is not None and number.value < 1 - ONE_DIRECTION]
    return f"{_and(shared)} move it along nearly one direction" if len(shared) > 1 else ""


def unseen(layers: Sequence[Layer]) -> str:
    """What the best layer's readouts lose on combinations of factors that they never saw."""
    layer = max(layers, key=Layer.readable)
    pairs = [(layer.number(factor.name, "seen"), layer.number(factor.name, "unseen")) for factor in layer.about]
    values = [(number.value, new.value, new.factor) for number, new in pairs if number is not None and new is not None]
    if not values:
        return ""
    seen_mean, unseen_mean = (float(np.mean([row[place] for row in values])) for place in (0, 1))
    worst = max(values, key=lambda row: row[0] - row[1])
    most = f", most for {worst[2]} ({worst[0]:.2f} to {worst[1]:.2f})" if worst[0] - worst[1] > 0.05 else ""
    return (
        f"On combinations of two factors that they never saw, readouts of {layer.name} go from {seen_mean:.2f} to "
        f"{unseen_mean:.2f}{most}."
    )


def better_than(layers: Sequence[Layer], world: str, encoder: str) -> Iterator[str]:
    """How many factors each other encoder tells worse or better, where the paired 95% interval leaves out 0."""
    of_world = [layer for layer in layers if layer.world == world]
    by_other: dict[str, list[tuple[str, float]]] = {}
    for row in differences(of_world):
        if row.factor and row.encoder == encoder:
            by_other.setdefault(row.other, []).append((row.factor, row.difference if row.sure else 0.0))
    for other, gaps in by_other.items():
        better, worse = [name for name, gap in gaps if gap > 0], [name for name, gap in gaps if gap < 0]
        words = f"It tells {len(better)} of {counted(len(gaps), 'factor')} better than {other}"
        yield f"{words}, and {_and(worse)} worse." if worse else f"{words}."


def label_free_tells(layers: Sequence[Layer]) -> str:
    """Whether the effective rank goes with what can be read, over an encoder's layers."""
    pairs = [
        (number.value, layer.readable())
        for layer in layers
        if (number := layer.number("", "effective rank")) is not None
    ]
    if len(pairs) < FEWEST_LAYERS or min(len(set(column)) for column in zip(*pairs, strict=True)) < 3:
        return ""
    rank = float(stats.spearmanr(*zip(*pairs, strict=True)).statistic)
    # Fisher's transform, with the variance of Bonett and Wright (2000) for ranks.
    error = 1.96 * math.sqrt((1 + rank**2 / 2) / (len(pairs) - 3))
    low, high = (math.tanh(math.atanh(min(max(rank, -0.999), 0.999)) + side * error) for side in (-1, 1))
    verdict = "so it does not tell which layer to take" if low <= 0 <= high else "so it tells something"
    return (
        f"Over its {len(pairs)} layers, effective rank and what can be read have a rank correlation of {rank:.2f} "
        f"({low:.2f} to {high:.2f}): {verdict if rank > 0 or low <= 0 <= high else 'the larger, the less can be read'}."
    )


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
