"""Progressive matrices: three rows of three pictures, the last one missing, and six answers to choose from.

In one, two or three factors every row is constant. The first two rows show which factors these are, and so what the
missing picture has in common with its row. This file deals with values of factors only, not with pictures (van
Steenkiste et al. 2019, after Barrett et al. 2018 and Raven 1936).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

SIDE = 3  # rows and columns of a matrix
CONTEXT = SIDE**2 - 1  # pictures that are shown
ANSWERS = 6
RELATIONS = 3  # at most, in one matrix
LEAST = SIDE  # values of a factor with a relation: fewer could not all differ in a row

Kind = Literal["easy", "hard"]
Values = Int[np.ndarray, "n K"]
Sizes = Sequence[int] | Int[np.ndarray, " K"]


class Questions(NamedTuple):
    """Matrices with their answers, by the values of K factors."""

    context: Int[np.ndarray, "n 8 K"]  # row by row
    answers: Int[np.ndarray, "n 6 K"]
    right: Int[np.ndarray, " n"]  # the index of the correct answer
    related: Bool[np.ndarray, "n K"]  # whether rows are constant in the factor


def draw_questions(rng: np.random.Generator, sizes: Sizes, count: int, kind: Kind) -> Questions:
    """Draws questions over factors of these sizes. All numbers of relations are equally likely, and all factors too."""
    related = _relations(rng, sizes, count)
    matrix = _matrices(rng, sizes, related)
    answers = _answers(rng, sizes, related, matrix[:, -1, -1], kind)
    order = np.argsort(rng.random((count, ANSWERS)), axis=1)
    shuffled = np.take_along_axis(answers, order[..., None], axis=1)
    context = matrix.reshape(count, SIDE**2, -1)[:, :-1]
    return Questions(context, shuffled, np.argmin(order, axis=1), related)


def _relations(rng: np.random.Generator, sizes: Sizes, count: int) -> Bool[np.ndarray, "n K"]:
    """Which factors have a relation: one to three of those with enough values."""
    priority = np.where(np.array(sizes) >= LEAST, rng.random((count, len(sizes))), np.inf)
    place = np.argsort(np.argsort(priority, axis=1), axis=1)
    return place < rng.integers(1, RELATIONS + 1, (count, 1))


def _matrices(rng: np.random.Generator, sizes: Sizes, related: Bool[np.ndarray, "n K"]) -> Int[np.ndarray, "n 3 3 K"]:
    """Matrices with constant rows in related factors. Other values are random, drawn until they suggest no relation."""
    matrix = _values(rng, sizes, (len(related), SIDE, SIDE))
    np.copyto(matrix, matrix[:, :, :1], where=related[:, None, None])
    question, factor = np.nonzero(~related & suggests_relation(matrix))
    while len(question):
        matrix[question, :, :, factor] = _values(rng, np.array(sizes)[factor], (SIDE, SIDE)).transpose(2, 0, 1)
        repeat = suggests_relation(matrix[question, :, :, factor][..., None])[:, 0]
        question, factor = question[repeat], factor[repeat]
    return matrix


def suggests_relation(matrix: Int[np.ndarray, "n 3 3 K"]) -> Bool[np.ndarray, "n K"]:
    """Whether the first two rows are both constant in a factor, or both have three distinct values."""
    first, second, third = np.moveaxis(matrix[:, :-1], 2, 0)  # columns, each (n, 2, K)
    constant = (first == second) & (second == third)
    distinct = (first != second) & (second != third) & (first != third)
    return constant.all(axis=1) | distinct.all(axis=1)


def _answers(
    rng: np.random.Generator, sizes: Sizes, related: Bool[np.ndarray, "n K"], solution: Values, kind: Kind
) -> Int[np.ndarray, "n 6 K"]:
    """The correct answer, then five different ones that each break a relation."""
    propose = _hard if kind == "hard" else _easy
    answers = np.repeat(solution[:, None], ANSWERS, axis=1)
    for number in range(1, ANSWERS):
        waiting, proposed = np.arange(len(solution)), solution
        while len(waiting):
            proposed = propose(rng, sizes, related[waiting], proposed)
            breaks = (related[waiting] & (proposed != solution[waiting])).any(axis=1)
            differs = (proposed[:, None] != answers[waiting, :number]).any(axis=2).all(axis=1)
            accepted = breaks & differs
            answers[waiting[accepted], number] = proposed[accepted]
            waiting, proposed = waiting[~accepted], proposed[~accepted]
    return answers


def _easy(rng: np.random.Generator, sizes: Sizes, related: Bool[np.ndarray, "n K"], last: Values) -> Values:
    """Random values: the last picture of another matrix can be any picture."""
    return _values(rng, sizes, (len(last),))


def _hard(rng: np.random.Generator, sizes: Sizes, related: Bool[np.ndarray, "n K"], last: Values) -> Values:
    """`last`, the correct answer or the last rejected proposal, with one related and all unrelated factors redrawn."""
    chosen = np.argmax(related * rng.random(related.shape), axis=1)
    redrawn = ~related
    redrawn[np.arange(len(redrawn)), chosen] = True
    return np.where(redrawn, _values(rng, sizes, (len(last),)), last)


def _values(rng: np.random.Generator, sizes: Sizes, shape: tuple[int, ...]) -> Int[np.ndarray, "*n K"]:
    """Random values of each factor, all equally likely."""
    return (rng.random((*shape, len(sizes)), dtype=np.float32) * np.asarray(sizes, np.float32)).astype(np.int16)
