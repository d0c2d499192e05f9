"""A layer of an encoder on one world: every number about it, and the guesses of its linear readout."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int, Num

from sober.estimators.predictors import nearest, points
from sober.probing.knowledge import Number, block, outcomes
from sober.types import Factor


@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """A layer of an encoder on one world. `reference` says that the encoder is a line to beat, such as raw pixels."""

    world: str
    encoder: str
    name: str
    pooling: str
    place: int  # among the encoder's layers, the first is 0
    width: int  # features
    rows: int  # pictures whose features the readouts used
    reference: bool
    about: tuple[Factor, ...]
    numbers: tuple[Number, ...]
    guesses: Float[np.ndarray, "T m"]  # of the test rows, the points of all factors side by side
    truth: Num[np.ndarray, "T K"]  # the factors of the test rows
    nearest: Int[np.ndarray, "Q n"]  # pictures: in each row one, and those nearest to it
    along: Int[np.ndarray, "K c"]  # pictures from the lowest guess of a factor to the highest; -1 for none
    run: str = ""  # identity of the run that stands for the layer in a folder of results

    def __repr__(self) -> str:
        return f"Layer {self.name} of {self.encoder} on {self.world}: {len(self.numbers)} numbers"

    def number(self, factor: str, name: str, labels: int | None = None) -> Number | None:
        """A number about a factor, with the most labels or as many as `labels` says; None if it was not measured."""
        matching = [
            number
            for number in self.numbers
            if (number.factor, number.name) == (factor, name) and labels in (None, number.labels)
        ]
        return max(matching, key=lambda number: number.labels, default=None)

    def readable(self, name: str = "linear readout") -> float:
        """The mean over factors of how well readouts tell them, each from 0, which is chance, to 1."""
        numbers = [self.number(factor.name, name) for factor in self.about]
        return float(np.mean([number.share for number in numbers if number is not None] or [0.0]))

    def outcomes(self, rows: slice = slice(None)) -> Float[np.ndarray, "K T"]:
        """For each factor, what each of these test rows adds to their accuracy or R² of the linear readout."""
        return np.stack([outcomes(factor, *self._points(k, factor, rows)) for k, factor in enumerate(self.about)])

    def _points(self, k: int, factor: Factor, rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        truth = points(factor, self.truth[rows, k])
        return block(self.guesses, k, self.about)[rows], truth, truth.mean(axis=0)

    def confusions(self) -> Iterator[tuple[Factor, Float[np.ndarray, "C C"]]]:
        """For each factor of categories, the share of each true class (rows) that is taken for each class (columns)."""
        for k, factor in enumerate(self.about):
            if factor.kind == "categorical":
                guessed = nearest(factor, block(self.guesses, k, self.about))
                counts = np.zeros((factor.size, factor.size))
                np.add.at(counts, (self.truth[:, k].astype(np.int64), guessed), 1)
                yield factor, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
