"""What chance gives: features that cannot recur, sent through the same search for partners.

shuffled   a feature's codes in another order of rows: it has the same values and fires as often, at other examples
rotated    a random mixture of the model's own features: it holds the same information, along axes that mean nothing
untrained  the features of models that were never trained, where a person has them

The direction of a rotated feature is drawn with the mean and the covariance of the model's directions: it is a row of a
random dictionary with the same statistics. A rotated feature of codes that fire is cut, so that it fires as often as a
feature of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from sober.agreement.columns import Columns, of_directions, scaled, scaled_sparse
from sober.agreement.features import SPARSE, Features, Statistics
from sober.agreement.partners import Panel, blocks, empty, similarities, take_rows
from sober.short_text import as_call

Kind = Literal["shuffled", "rotated", "untrained"]
DRAWS = 4_096  # features of each kind, over all models
FEWEST = 64  # features of each kind for one model
AT_ONCE = 2**25  # numbers of dense columns that are made at a time
STRATUM = 128  # features that fire about as often, compared with each other


class Chance(NamedTuple):
    """The best partners that features of one kind of chance have in the models."""

    kind: Kind
    model: Int[np.ndarray, " C"]  # the model that each feature was made from; -1 for untrained ones
    effective: Float[np.ndarray, " C"]  # how many rows carry the variance of the feature it was made from
    best: Float[np.ndarray, "C M"]  # the strength of its best partner in each model; 0 in its own

    def __repr__(self) -> str:
        return f"Chance({self.kind!r}, {len(self.model):,} features, {self.best.shape[1]} models)"


class Model(NamedTuple):
    """What chance needs of one model."""

    features: Features
    facts: Statistics
    parts: tuple[Columns, ...]  # columns of codes, of directions, or of both in this order

    def __repr__(self) -> str:
        return as_call(self)


def draws_per_model(models: int, draws: int = DRAWS) -> int:
    return max(FEWEST, -(-draws // models))


# Finds the strength of the best partner that features have in each model but the numbered one, which is theirs.
Finder = Callable[[tuple[Columns, ...], int], Float[np.ndarray, "C M"]]


def chance(kind: Kind, models: Sequence[Model], find: Finder, count: int, *, seed: int) -> Chance | None:
    """`count` features made from each model; None if none can be made."""
    results = []
    for number, model in enumerate(models):
        rng = np.random.default_rng([seed, number, ("shuffled", "rotated").index(kind)])
        sources = _sources(kind, model, count, rng)
        step = max(16, AT_ONCE // max(columns.shape[0] for columns in model.parts))
        for start in range(0, len(sources), step):
            chosen = sources[start : start + step]
            drawn_features = _shuffled(model, chosen, rng) if kind == "shuffled" else _rotated(model, chosen, rng)
            results.append((np.full(len(chosen), number), model.facts.effective[chosen], find(drawn_features, number)))
    if not results:
        return None
    return Chance(kind, *(np.concatenate(arrays) for arrays in zip(*results, strict=True)))


def untrained_chance(models: Sequence[Model], find: Finder) -> Chance:
    """The features of untrained models, against all trained ones."""
    best = [find(model.parts, -1)[model.facts.alive] for model in models]
    effective = np.concatenate([model.facts.effective[model.facts.alive] for model in models])
    return Chance("untrained", np.full(len(effective), -1), effective, np.concatenate(best))


def finder(all_panels: Sequence[Panel], *, signed: bool) -> Finder:
    models = sum(len(panel.models) for panel in all_panels)

    def find(parts: tuple[Columns, ...], model: int) -> Float[np.ndarray, "C M"]:
        width = parts[0].shape[1]
        drawn_features = Panel(parts, np.array([0]), np.array([0, width]))
        partners = empty(np.full(width, model), np.zeros(models + 1, int), 1)
        for panel in all_panels:
            if list(panel.models) == [model]:
                continue
            for span in blocks(width, panel.width):
                rows = np.arange(span.start, span.stop)
                take_rows(partners, similarities(drawn_features, span, panel), rows, panel, signed)
        return partners.best

    return find


def _sources(kind: Kind, model: Model, count: int, rng: np.random.Generator) -> Int[np.ndarray, " n"]:
    """The features that new ones are made from: all in turn, in random order, so that they share their statistics."""
    alive = np.flatnonzero(model.facts.alive)
    if (
        not len(alive)
        or (kind == "rotated" and len(alive) < 2)
        or (kind == "shuffled" and model.features.codes is None)
    ):
        return np.zeros(0, int)
    return np.concatenate([rng.permutation(alive) for _ in range(-(-count // len(alive)))])[:count]


def _shuffled(model: Model, sources: np.ndarray, rng: np.random.Generator) -> tuple[Columns, ...]:
    """The same codes in another order of rows; directions stay."""
    codes, *others = model.parts
    if codes.is_sparse:
        picked = codes.values[:, sources]
        rows = [rng.choice(picked.shape[0], size, replace=False, shuffle=False) for size in np.diff(picked.indptr)]
        values = scipy.sparse.csc_array((picked.data, np.concatenate(rows), picked.indptr), picked.shape)
        return Columns(values, codes.shift[sources], scipy.sparse.csr_array(values)), *_chosen(others, sources)
    values = rng.permuted(codes.dense(sources), axis=0)
    return Columns(values, np.zeros(len(sources))), *_chosen(others, sources)


def _chosen(parts: Sequence[Columns], sources: np.ndarray) -> list[Columns]:
    return [columns.only(sources) for columns in parts]


def _rotated(model: Model, sources: np.ndarray, rng: np.random.Generator) -> tuple[Columns, ...]:
    """Random mixtures of all features of the model that vary, the same mixture for codes and for directions."""
    alive = np.flatnonzero(model.facts.alive)
    mixture = np.zeros((len(model.facts.alive), len(sources)))
    mixture[alive] = rng.standard_normal((len(alive), len(sources)))
    drawn_features = []
    if model.features.codes is not None:
        drawn_features.append(_mixed_codes(model, mixture, sources))
    if model.features.dictionary is not None:
        directions = model.features.dictionary.directions
        mean = np.asarray(directions, float)[alive].mean(axis=0)
        centred = mixture[alive] - mixture[alive].mean(axis=0)
        drawn_features.append(
            of_directions(mean + centred.T @ directions[alive] / np.sqrt(len(alive)), model.parts[-1].values.dtype)
        )
    return tuple(drawn_features)


def _mixed_codes(model: Model, mixture: np.ndarray, sources: np.ndarray) -> Columns:
    codes = model.parts[0]
    if codes.centre is not None:
        mixed = np.concatenate(
            [codes.read(slice(row, row + 4096), slice(None)) @ mixture for row in range(0, codes.shape[0], 4096)]
        )
    else:
        values = codes.by_row if codes.is_sparse else codes.values  # by row, each row of the result is written once
        mixed = np.asarray(values @ mixture.astype(values.dtype))
    firing = model.facts.firing
    if not (model.facts.one_sided and np.nanmedian(firing[model.facts.alive]) < SPARSE):
        return scaled(mixed, dtype=mixed.dtype)
    return _cut(mixed, firing[sources])


def _cut(mixed: Float[np.ndarray, "N n"], firing: Float[np.ndarray, " n"]) -> Columns:
    """Keeps the largest values of each column, less the largest value that is left out, and sets the others to 0."""
    rows = len(mixed)
    counts = np.clip(np.round(firing * rows).astype(int), 2, rows - 1)
    places, values = [], []
    for column, count in zip(mixed.T, counts, strict=True):
        order = np.argpartition(column, rows - count - 1)
        places.append(order[rows - count :])
        values.append(column[order[rows - count :]] - column[order[rows - count - 1]])
    start = np.concatenate([[0], np.cumsum(counts)])
    columns = scipy.sparse.csc_array((np.concatenate(values), np.concatenate(places), start), mixed.shape)
    columns.eliminate_zeros()
    return scaled_sparse(columns, dtype=mixed.dtype)
