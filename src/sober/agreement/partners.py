"""For each feature, its best partners in every other model. No table of all pairs of features is ever held whole.

Small models stand side by side in a panel. A block of features of one panel is multiplied with another panel, and two
loops take the best of each row and of each column from the block, before the next block takes its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.agreement.columns import Columns, products
from sober.estimators.compiled import compiled
from sober.parallel import cores
from sober.short_text import as_call

BLOCK = 2**23  # numbers in one block of similarities: 32 MB
PANEL = 2_048  # features that small models in one panel have together
KEPT = 4  # partners that each feature keeps in each other model
STRETCH = 64  # similarities whose maximum is taken at once
FASTMATH = frozenset({"nnan", "nsz", "reassoc"})


class Partners(NamedTuple):
    """The best partners of F features, all models one after the other, in each of M models; none in their own."""

    model: Int[np.ndarray, " F"]  # the model of each feature
    start: Int[np.ndarray, " M+1"]  # where each model's features start
    place: Int[np.ndarray, "F M k"]  # the partner's number in its model; -1 if it has none
    similarity: Float[np.ndarray, "F M k"]  # with its sign, the strongest first
    total: Float[np.ndarray, "F M"]  # the sum of strengths over all features of the other model

    @property
    def models(self) -> int:
        return len(self.start) - 1

    @property
    def best(self) -> Float[np.ndarray, "F M"]:
        """The strength of each feature's best partner in each model; 0 in its own."""
        return np.abs(self.similarity[:, :, 0])

    def __repr__(self) -> str:
        return f"Partners({len(self.model):,} features of {self.models} models)"


class Panel(NamedTuple):
    """The columns of several models side by side: of one measure, or two, which must agree."""

    parts: tuple[Columns, ...]
    models: Int[np.ndarray, " m"]
    start: Int[np.ndarray, " m+1"]  # where each model's columns start

    @property
    def width(self) -> int:
        return int(self.start[-1])

    def __repr__(self) -> str:
        return as_call(self)


def panels(models: Sequence[tuple[Columns, ...]]) -> list[Panel]:
    """Models with few features share a panel; others have one each."""
    groups: list[list[int]] = []
    width = 0
    for number, parts in enumerate(models):
        joins = groups and width + parts[0].shape[1] <= PANEL and _plain(parts) and _plain(models[groups[-1][-1]])
        if joins:
            groups[-1].append(number)
        else:
            groups.append([number])
            width = 0
        width += parts[0].shape[1]
    return [_panel([models[number] for number in group], group) for group in groups]


def _plain(parts: tuple[Columns, ...]) -> bool:
    return not any(columns.is_sparse or columns.centre is not None for columns in parts)


def _panel(models: Sequence[tuple[Columns, ...]], numbers: Sequence[int]) -> Panel:
    start = np.cumsum([0, *(parts[0].shape[1] for parts in models)])
    if len(models) == 1:
        return Panel(models[0], np.array(numbers), start)
    joined = tuple(
        Columns(
            np.concatenate([columns.values for columns in parts], axis=1),
            np.concatenate([columns.shift for columns in parts]),
        )
        for parts in zip(*models, strict=True)
    )
    return Panel(joined, np.array(numbers), start)


def similarities(first: Panel, span: slice, second: Panel) -> Float[np.ndarray, "n D"]:
    """The similarities of some features with all of a panel.

    If there are two measures, it is the weaker one, or 0 if their signs differ.
    """
    block, *others = (products(a, span, b) for a, b in zip(first.parts, second.parts, strict=True))
    if others:
        loop = compiled(_weaker)
        _in_threads(len(block), lambda low, high: loop(block[low:high], others[0][low:high]))
    return block


def _weaker(block: np.ndarray, other: np.ndarray) -> None:
    """Puts the weaker of two similarities into the first table; 0 if their signs differ."""
    for row in range(block.shape[0]):
        for column in range(block.shape[1]):
            one, two = block[row, column], other[row, column]
            if (one > 0) != (two > 0):
                block[row, column] = 0
            elif abs(two) < abs(one):
                block[row, column] = two


def search(all_panels: Sequence[Panel], *, signed: bool, most: int = KEPT) -> Partners:
    """The best partners of all features. If similarities are `signed`, a negative one is no match."""
    widths = np.zeros(sum(len(panel.models) for panel in all_panels), int)
    for panel in all_panels:
        widths[panel.models] = np.diff(panel.start)
    start = np.cumsum([0, *widths])
    partners = empty(np.repeat(np.arange(len(widths)), widths), start, most)
    for first, second in itertools.combinations_with_replacement(all_panels, 2):
        if second is first and len(first.models) == 1:  # a model has no partners in itself
            continue
        for span in blocks(first.width, second.width):
            block = similarities(first, span, second)
            take_rows(partners, block, features_of(first, start)[span], second, signed)
            if second is not first:
                _take_columns(partners, block, first, span, second, signed)
    return partners


def empty(model: np.ndarray, start: np.ndarray, most: int) -> Partners:
    shape = (len(model), len(start) - 1)
    return Partners(
        model, start, np.full((*shape, most), -1, np.int32), np.zeros((*shape, most), np.float32), np.zeros(shape)
    )


def blocks(rows: int, columns: int) -> list[slice]:
    """Stretches of rows whose similarities with all columns fit a block."""
    step = max(16, BLOCK // columns)
    return [slice(first, min(first + step, rows)) for first in range(0, rows, step)]


def features_of(panel: Panel, start: np.ndarray) -> np.ndarray:
    """The numbers of a panel's columns among the features of all models."""
    spans = [np.arange(start[model], start[model + 1]) for model in panel.models]
    return np.concatenate(spans)


def take_rows(partners: Partners, block: np.ndarray, rows: np.ndarray, second: Panel, signed: bool) -> None:
    """Keeps the best of each row of a block; `rows` are the numbers of its features."""
    model = partners.model[rows]
    loop = compiled(_best_of_rows, _insert, _largest, fastmath=FASTMATH)
    _in_threads(
        len(rows),
        lambda low, high: loop(
            block[low:high], rows[low:high], model[low:high], second.start, second.models, signed,
            partners.place, partners.similarity, partners.total,
        ),
    )  # fmt: skip


def _take_columns(
    partners: Partners, block: np.ndarray, first: Panel, span: slice, second: Panel, signed: bool
) -> None:
    """Keeps the best of each column: the features of the second panel have partners in the first."""
    columns = features_of(second, partners.start)
    begin, end, _ = span.indices(first.width)
    loop = compiled(_best_of_columns, _insert, fastmath=FASTMATH)
    for model, model_begin, model_end in zip(first.models, first.start[:-1], first.start[1:], strict=True):
        low, high = max(model_begin, begin), min(model_end, end)
        if low >= high:
            continue
        lines = block[low - begin : high - begin]
        offset = int(low - model_begin)
        _in_threads(
            len(columns),
            lambda left, right, lines=lines, model=int(model), offset=offset: loop(
                lines[:, left:right], columns[left:right], model, offset, signed,
                partners.place, partners.similarity, partners.total,
            ),
        )  # fmt: skip


def _in_threads(count: int, work: object) -> None:
    bounds = np.linspace(0, count, (cores() if count > STRETCH else 1) + 1).astype(int).tolist()
    if len(bounds) == 2:
        work(0, count)  # type: ignore[operator]
        return
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(work, bounds[:-1], bounds[1:]))  # type: ignore[arg-type]


def _insert(index: np.ndarray, similarity: np.ndarray, place: int, value: float) -> None:
    """Puts a partner among the best ones, which stay sorted; of equal ones, the first stays first."""
    position = len(similarity) - 1
    while position > 0 and abs(similarity[position - 1]) < abs(value):
        similarity[position] = similarity[position - 1]
        index[position] = index[position - 1]
        position -= 1
    similarity[position] = value
    index[position] = place


def _largest(line: np.ndarray, low: int, high: int, signed: bool) -> tuple[float, float]:
    """The largest strength in a stretch of a line, and the sum of strengths."""
    largest, total = 0.0, 0.0
    if signed:
        for column in range(low, high):
            strength = max(line[column], 0.0)
            largest = max(largest, strength)
            total += strength
    else:
        for column in range(low, high):
            strength = abs(line[column])
            largest = max(largest, strength)
            total += strength
    return largest, total


def _best_of_rows(
    block: np.ndarray,
    rows: np.ndarray,
    model: np.ndarray,
    start: np.ndarray,
    models: np.ndarray,
    signed: bool,
    index: np.ndarray,
    similarity: np.ndarray,
    total: np.ndarray,
) -> None:
    for row in range(len(block)):
        feature = rows[row]
        for segment in range(len(models)):
            other = models[segment]
            if other == model[row]:
                continue
            best, places = similarity[feature, other], index[feature, other]
            for low in range(start[segment], start[segment + 1], STRETCH):
                high = min(low + STRETCH, start[segment + 1])
                largest, stretch_total = _largest(block[row], low, high, signed)
                total[feature, other] += stretch_total
                if largest > abs(best[-1]):
                    for column in range(low, high):
                        value = block[row, column]
                        if (value if signed else abs(value)) > abs(best[-1]):
                            _insert(places, best, column - start[segment], value)


def _best_of_columns(
    block: np.ndarray,
    columns: np.ndarray,
    model: int,
    offset: int,
    signed: bool,
    index: np.ndarray,
    similarity: np.ndarray,
    total: np.ndarray,
) -> None:
    """Rows come one after the other, so that each line of the block is read in order."""
    width = len(columns)
    floor, sums = np.empty(width, block.dtype), np.zeros(width)
    for column in range(width):
        floor[column] = abs(similarity[columns[column], model, -1])
    for row in range(len(block)):
        for low in range(0, width, STRETCH):
            high = min(low + STRETCH, width)
            above = 0
            for column in range(low, high):
                value = block[row, column]
                strength = max(value, 0.0) if signed else abs(value)
                sums[column] += strength
                above += strength > floor[column]
            if above:
                for column in range(low, high):
                    value = block[row, column]
                    if (value if signed else abs(value)) > floor[column]:
                        feature = columns[column]
                        _insert(index[feature, model], similarity[feature, model], offset + row, value)
                        floor[column] = abs(similarity[feature, model, -1])
    for column in range(width):
        total[columns[column], model] += sums[column]
