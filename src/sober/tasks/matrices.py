"""Progressive matrices: three rows of three pictures of which the last is missing, and six answers to choose from.

In one, two or three factors every row is constant; whoever sees which ones in the first two rows knows what the missing
picture must have in common with its row. Everything here is about values of factors, not about pictures (van
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
RELATIONS = 3  # that hold at once, at most
LEAST = SIDE  # values that a factor with a relation needs: fewer could not be distinct in a row

Kind = Literal["easy", "hard"]
Values = Int[np.ndarray, "n K"]
Sizes = Sequence[int] | Int[np.ndarray, " K"]


class Questions(NamedTuple):
    """Matrices with their answers, by the values of K factors."""

    context: Int[np.ndarray, "n 8 K"]  # row by row
    answers: Int[np.ndarray, "n 6 K"]
    right: Int[np.ndarray, " n"]  # which answer
    related: Bool[np.ndarray, "n K"]  # the factors in which rows are constant


def draw_questions(rng: np.random.Generator, sizes: Sizes, count: int, kind: Kind) -> Questions:
    """So many questions over factors of these sizes: how many relations hold is drawn evenly, and so is which."""
    related = _relations(rng, sizes, count)
    matrix = _matrices(rng, sizes, related)
    answers = _answers(rng, sizes, related, matrix[:, -1, -1], kind)
    order = np.argsort(rng.random((count, ANSWERS)), axis=1)
    shuffled = np.take_along_axis(answers, order[..., None], axis=1)
    context = matrix.reshape(count, SIDE**2, -1)[:, :-1]
    return Questions(context, shuffled, np.argmin(order, axis=1), related)


def _relations(rng: np.random.Generator, sizes: Sizes, count: int) -> Bool[np.ndarray, "n K"]:
    """Which factors have a relation: one to three of those with enough values."""
    lots = np.where(np.array(sizes) >= LEAST, rng.random((count, len(sizes))), np.inf)
    place = np.argsort(np.argsort(lots, axis=1), axis=1)
    return place < rng.integers(1, RELATIONS + 1, (count, 1))


def _matrices(rng: np.random.Generator, sizes: Sizes, related: Bool[np.ndarray, "n K"]) -> Int[np.ndarray, "n 3 3 K"]:
    """Constant rows where there is a relation; else values at random, none of whose first two rows suggest one."""
    matrix = _values(rng, sizes, (len(related), SIDE, SIDE))
    np.copyto(matrix, matrix[:, :, :1], where=related[:, None, None])
    question, factor = np.nonzero(~related & suggests_relation(matrix))
    while len(question):
        matrix[question, :, :, factor] = _values(rng, np.array(sizes)[factor], (SIDE, SIDE)).transpose(2, 0, 1)
        still = suggests_relation(matrix[question, :, :, factor][..., None])[:, 0]
        question, factor = question[still], factor[still]
    return matrix


def suggests_relation(matrix: Int[np.ndarray, "n 3 3 K"]) -> Bool[np.ndarray, "n K"]:
    """Whether the first two rows are both constant in a factor, or both of distinct values."""
    first, second, third = np.moveaxis(matrix[:, :-1], 2, 0)  # columns, each (n, 2, K)
    constant = (first == second) & (second == third)
    distinct = (first != second) & (second != third) & (first != third)
    return constant.all(axis=1) | distinct.all(axis=1)


def _answers(
    rng: np.random.Generator, sizes: Sizes, related: Bool[np.ndarray, "n K"], solution: Values, kind: Kind
) -> Int[np.ndarray, "n 6 K"]:
    """The right answer, then five that break a relation, all different."""
    propose = _hard if kind == "hard" else _easy
    answers = np.repeat(solution[:, None], ANSWERS, axis=1)
    for number in range(1, ANSWERS):
        waiting, proposed = np.arange(len(solution)), solution
        while len(waiting):
            proposed = propose(rng, sizes, related[waiting], proposed)
            breaks = (related[waiting] & (proposed != solution[waiting])).any(axis=1)
            differs = (proposed[:, None] != answers[waiting, :number]).any(axis=2).all(axis=1)
            taken = breaks & differs
            answers[waiting[taken], number] = proposed[taken]
            waiting, proposed = waiting[~taken], proposed[~taken]
    return answers


def _easy(rng: np.random.Generator, sizes: Sizes, related: Bool[np.ndarray, "n K"], last: Values) -> Values:
    """The last picture of another matrix: no rule is about the last picture alone, so it can be any."""
    return _values(rng, sizes, (len(last),))


def _hard(rng: np.random.Generator, sizes: Sizes, related: Bool[np.ndarray, "n K"], last: Values) -> Values:
    """`last`, the right answer or the last one that was not taken, with one related factor and all others anew."""
    chosen = np.argmax(related * rng.random(related.shape), axis=1)
    anew = ~related
    anew[np.arange(len(anew)), chosen] = True
    return np.where(anew, _values(rng, sizes, (len(last),)), last)


def _values(rng: np.random.Generator, sizes: Sizes, shape: tuple[int, ...]) -> Int[np.ndarray, "*n K"]:
    """A value of each factor, all as likely."""
    return (rng.random((*shape, len(sizes)), dtype=np.float32) * np.asarray(sizes, np.float32)).astype(np.int16)
