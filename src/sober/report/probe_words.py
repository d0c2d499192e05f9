"""The words of a probe's page: what each number is called, how it was measured, and whom to cite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from sober.probing.knowledge import FOURIER, SHUFFLES, Number
from sober.probing.label_free import ALTERED, OBJECTS
from sober.probing.layer import Layer
from sober.probing.moves import DOUBLE, SINGLE

READOUTS = ("linear readout", "nonlinear readout")


class NumberWords(NamedTuple):
    """A number's name for people, and in a sentence what it says."""

    title: str
    meaning: str
    interval: str = "95% interval"  # what its bounds are


OVER_PAIRS = "over pairs with other factors"
NUMBERS = {  # about factors, in the order of the page
    "linear readout": NumberWords(
        "linear readout", "How well a linear readout tells each factor. 0 is chance, 1 is perfect."
    ),
    "nonlinear readout": NumberWords(
        "nonlinear readout", "How well a nonlinear readout tells each factor. 0 is chance, 1 is perfect."
    ),
    "best unit": NumberWords(
        "best unit", "How well the best single unit tells each factor. 0 is chance, 1 is perfect."
    ),
    "best eight units": NumberWords(
        "best eight units", "How well the best eight units tell each factor. 0 is chance, 1 is perfect."
    ),
    "unseen": NumberWords(
        "unseen combinations",
        "How well a linear readout tells each factor in combinations of two factors that it never saw. 0 is chance, "
        "1 is perfect.",
        OVER_PAIRS,
    ),
    "seen": NumberWords(
        "seen combinations",
        "The same readouts as for unseen combinations, tested on combinations they saw.",
        OVER_PAIRS,
    ),
    "same direction": NumberWords(
        "same direction",
        "When only this factor changes, do the features of all pictures move the same way? The mean cosine: 1 is yes, "
        "0 is no.",
    ),
    "own direction": NumberWords(
        "own direction",
        "Does this factor move the features along a direction of its own? 1 is at right angles to every other "
        "factor’s direction, 0 is along another’s.",
    ),
    "additive": NumberWords(
        "additive",
        "When two factors change, is the move the sum of their own moves? R²: 1 is yes, 0 is not at all.",
    ),
}
LABEL_FREE = {  # about layers
    "effective rank": NumberWords("effective rank", "how many axes the features use: RankMe"),
    "participation": NumberWords("participation ratio", "how many axes carry the variance"),
    "lidar": NumberWords("LiDAR", "how many axes tell pictures apart from altered versions of others"),
    "nuisance": NumberWords("nuisance", "the share of variance that nuisance alone makes; 0 is invariant"),
}


class Scaled(NamedTuple):
    """A number from 0, which is chance for an accuracy, to 1, with its bounds; and whether it may be chance."""

    value: float
    low: float
    high: float
    chance: float  # an accuracy's; NaN for other numbers
    may_be_chance: bool


def scaled(layer: Layer, number: Number) -> Scaled:
    """A number on the scale that all factors share. One without a chance of its own has that of the linear readout."""
    chance = math.nan
    if number.unit == "accuracy":
        linear = layer.number(number.factor, "linear readout")
        chance = number.chance if math.isfinite(number.chance) or linear is None else linear.chance
    span = 1 - chance if math.isfinite(chance) and chance < 1 else 1.0
    start = chance if math.isfinite(chance) and chance < 1 else 0.0
    value, low, high = (max(0.0, (bound - start) / span) for bound in number[2:5])
    return Scaled(value, low, high, chance, number.value <= number.chance_high)


def details(layer: Layer, number: Number) -> str:
    """A number's bounds, its value before scaling, chance and labels, for a tooltip."""
    on_scale = scaled(layer, number)
    lines = [f"{number.factor}, {layer_name(layer)}: {two(on_scale.value)}"]
    if math.isfinite(number.low):
        lines.append(f"{two(on_scale.low)} to {two(on_scale.high)} ({NUMBERS[number.name].interval})")
    if number.unit == "accuracy":
        by_chance = f", by chance {on_scale.chance:.0%}" if math.isfinite(on_scale.chance) else ""
        lines.append(f"accuracy {number.value:.0%}{by_chance}")
    elif math.isfinite(number.chance):
        lines.append(f"{number.unit} by chance {two(number.chance)}")
    if on_scale.may_be_chance:
        lines.append("may be chance")
    return "\n".join(lines)


def layer_name(layer: Layer) -> str:
    return f"{layer.name} ({layer.pooling})" if layer.pooling not in ("", "mean") else layer.name


def two(value: float) -> str:
    """A number with two digits after the point."""
    return f"{value:.2f}".replace("-", "−") if math.isfinite(value) else "–"


def labels_of(layers: Sequence[Layer], name: str = "linear readout") -> list[int]:
    """The numbers of labels that a number was measured with."""
    return sorted({number.labels for layer in layers for number in layer.numbers if number.name == name})


def how_measured(layers: Sequence[Layer]) -> str:
    """The method in short paragraphs, without what was not measured."""
    items = "".join(f"<dt>{escape(term)}</dt><dd>{escape(words)}</dd>" for term, words in _method(layers))
    return f"<dl>{items}</dl>"


def _method(layers: Sequence[Layer]) -> Iterator[tuple[str, str]]:
    measured = {number.name for layer in layers for number in layer.numbers}
    sizes = ", ".join(f"{size:,}" for size in labels_of(layers))
    yield (
        "Readouts",
        f"A linear readout is a ridge regression from a layer’s features to a factor. It learned from "
        f"{sizes} labelled pictures, and was tested on others. A nonlinear readout also has {FOURIER} random Fourier "
        "features of a Gaussian kernel. A number or an angle counts by R²: 0 is guessing the mean. A factor of "
        "categories counts by accuracy. The page gives it as a share of the way from chance to all right.",
    )
    yield (
        "Chance",
        f"The same readout learned {SHUFFLES} times from shuffled factors, also without the combinations that are held "
        "out. A number in brackets is not above what a further shuffle may give. Intervals of 95% cover the draw "
        "of the test pictures.",
    )
    if "best unit" in measured:
        yield (
            "Units",
            "The best unit, and the best eight, are those with the largest correlation with a factor. A linear "
            "readout learned from these alone.",
        )
    if "unseen" in measured:
        yield (
            "Unseen combinations",
            "For each pair of factors, the pictures with both in their upper halves are held out. "
            "Readouts learn from the others and are tested on those held out. The number is the mean over pairs.",
        )
    if "same direction" in measured:
        yield (
            "Moves",
            f"In {SINGLE} pictures, one factor goes from a quarter to three quarters of its values while all "
            f"others stay. In {DOUBLE} pictures for each pair, two factors go. Features are scaled to standard "
            "deviation 1 first.",
        )
    if "lidar" in measured:
        yield (
            "Without labels",
            f"Effective rank and participation ratio come from the singular values of the features; "
            f"LiDAR from {OBJECTS} pictures, each moved a little and made brighter or darker {ALTERED} times.",
        )
    if len({(layer.world, layer.encoder) for layer in layers}) > 1:
        yield (
            "Differences",
            "Each encoder takes part with its best layer. The first half of the test pictures chooses the "
            "layer, and the second half measures the difference, picture by picture.",
        )


class Work(NamedTuple):
    """A work to cite, and the numbers that come from it."""

    reference: str
    title: str
    numbers: tuple[str, ...]


WORKS = (
    Work("Alain & Bengio (2017)", "Understanding intermediate layers using linear classifier probes", READOUTS),
    Work(
        "Garrido et al. (2023)",
        "RankMe: Assessing the downstream performance of pretrained self-supervised representations by their rank",
        ("effective rank",),
    ),
    Work(
        "Thilak et al. (2024)",
        "LiDAR: Sensing linear probing performance in joint embedding SSL architectures",
        ("lidar",),
    ),
    Work(
        "Eastwood & Williams (2018)",
        "A framework for the quantitative evaluation of disentangled representations",
        ("unseen", "seen"),
    ),
)


def works(layers: Sequence[Layer]) -> str:
    """The works to cite, each with the numbers that come from it."""
    measured = {number.name for layer in layers for number in layer.numbers}
    titles = {name: words.title for name, words in (NUMBERS | LABEL_FREE).items()}
    items = [
        f"<li>{escape(work.reference)}: {escape(work.title)} "
        f"<small>{escape(', '.join(titles[name] for name in work.numbers if name in measured))}</small></li>"
        for work in WORKS
        if measured & set(work.numbers)
    ]
    return f'<ul class="works">{"".join(items)}</ul>' if items else ""
