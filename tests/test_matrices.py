"""Progressive matrices: whoever reads the relations off the first two rows finds one answer that fits, and only one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sober
from sober.tasks.matrices import ANSWERS, LEAST, Questions, draw_questions
from sober.tasks.rounded_factors import rounded_sizes, true_classes, usual_size
from sober.types import Factor

MANY = 4000
STUDY = (5, 6, 3, 3, 4, 4)

# At least three factors that can have a relation, and others that cannot.
sizes_of_worlds = st.lists(st.integers(2, 12), min_size=3, max_size=7).filter(
    lambda sizes: sum(size >= LEAST for size in sizes) >= 3
)


def drawn(sizes: tuple[int, ...], kind: str, seed: int = 0, count: int = MANY) -> Questions:
    return draw_questions(np.random.default_rng(seed), sizes, count, kind)  # type: ignore[arg-type]


def solved(context: np.ndarray, answers: np.ndarray) -> list[int]:
    """By hand: the answers that go on with every factor that is constant in both complete rows."""
    rows = context[:3], context[3:6]
    constant = [factor for factor in range(context.shape[1]) if all(len({*row[:, factor]}) == 1 for row in rows)]
    assert constant, "nothing to go by"
    return [number for number, answer in enumerate(answers) if all(answer[f] == context[7][f] for f in constant)]


@pytest.mark.parametrize("kind", ["easy", "hard"])
@settings(max_examples=25, deadline=None)
@given(sizes=sizes_of_worlds, seed=st.integers(0, 2**32 - 1))
def test_exactly_one_answer_completes_the_matrix(kind, sizes, seed):
    found = drawn(tuple(sizes), kind, seed, 50)
    for context, answers, right in zip(found.context, found.answers, found.right, strict=True):
        assert solved(context, answers) == [right]
        assert len({tuple(answer) for answer in answers.tolist()}) == ANSWERS
    for values in (found.context, found.answers):
        assert values.min() >= 0
        assert (values < np.array(sizes)).all()


@pytest.mark.parametrize("kind", ["easy", "hard"])
def test_relations_hold_in_rows_and_no_other_factor_suggests_one(kind):
    found = drawn(STUDY, kind)
    right = found.answers[np.arange(MANY), found.right]
    matrix = np.concatenate([found.context, right[:, None]], axis=1).reshape(MANY, 3, 3, len(STUDY))
    values = np.sort(matrix, axis=2)
    different = 1 + (np.diff(values, axis=2) > 0).sum(axis=2)  # values in each row of each factor
    assert (different.max(axis=1) == 1)[found.related].all()
    first_two = different[:, :2].transpose(0, 2, 1)[~found.related]
    assert not (first_two == 1).all(axis=1).any()
    assert not (first_two == 3).all(axis=1).any()


@pytest.mark.parametrize("kind", ["easy", "hard"])
def test_one_two_or_three_relations_are_as_likely_and_so_is_every_factor_and_place(kind):
    found = drawn(STUDY, kind, count=30_000)
    sure = 0.015  # five standard errors
    np.testing.assert_allclose(np.bincount(found.related.sum(axis=1)) / 30_000, [0, 1 / 3, 1 / 3, 1 / 3], atol=sure)
    np.testing.assert_allclose(found.related.mean(axis=0), 1 / 3, atol=sure)
    np.testing.assert_allclose(np.bincount(found.right) / 30_000, 1 / 6, atol=sure)
    for factor, size in enumerate(STUDY):
        share = np.bincount(found.context[:, 6, factor], minlength=size) / 30_000
        np.testing.assert_allclose(share, 1 / size, atol=sure)


def test_hard_answers_differ_from_the_right_one_mostly_in_one_factor_with_a_relation():
    distance = {}
    for kind in ("easy", "hard"):
        found = drawn(STUDY, kind)
        right = found.answers[np.arange(MANY), found.right]
        wrong = np.arange(ANSWERS) != found.right[:, None]
        broken = ((found.answers != right[:, None]) & found.related[:, None]).sum(axis=2)
        assert (broken[wrong] >= 1).all()
        distance[kind] = broken[wrong & (found.related.sum(axis=1) == 3)[:, None]].mean()
    assert distance["hard"] < 1.05
    assert distance["easy"] > 2


def test_factors_without_a_relation_do_not_give_the_right_answer_away():
    """They are drawn anew in every answer."""
    found = drawn((3, 3, 3, 12), "hard")
    right = found.answers[np.arange(MANY), found.right]
    alike = (found.answers[..., 3] == right[:, None, 3]).mean(axis=1)[~found.related[:, 3]]
    assert alike.mean() == pytest.approx(1 / 6 + 5 / 6 / 12, abs=0.02)


def test_a_factor_with_two_values_never_has_a_relation():
    found = drawn((2, 3, 3, 3), "hard")
    assert not found.related[:, 0].any()
    assert found.related[:, 1:].any(axis=0).all()


def test_questions_are_repeatable():
    one, again, other = drawn(STUDY, "hard", 1), drawn(STUDY, "hard", 1), drawn(STUDY, "hard", 2)
    for ours, theirs in zip(one, again, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (one.context != other.context).any()


@pytest.mark.parametrize(
    ("world", "sizes"),
    [
        ("abstract_dsprites", (5, 6, 3, 3, 4, 4)),
        ("shapes3d", (10, 10, 10, 4, 4, 4)),
        ("rooms", (10, 10, 10, 4, 4, 4)),
        ("dsprites", (3, 3, 3, 4, 4)),
        ("dsprites | hide orientation", (3, 3, 4, 4)),
        ("dsprites | keep shape orientation x", (3, 3, 4)),
        ("blocks", (4, 4, 4, 4)),
        ("teapots", (1, 1, 1, 1, 1)),
    ],
)
def test_rounding_is_that_of_the_study_and_suits_other_worlds(world: str, sizes: tuple[int, ...]):
    assert rounded_sizes(sober.world(world)) == sizes


def test_a_world_of_many_factors_has_fewer_values_of_each():
    class Many:
        question_values: dict[str, int] = {}  # noqa: RUF012
        factors = tuple(Factor(f"f{k}", 10, "categorical") for k in range(8))

    sizes = rounded_sizes(Many())  # type: ignore[arg-type]
    assert np.prod(sizes) <= 2**17
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(2, 300), st.sampled_from(["ordinal", "cyclic", "categorical"]))
def test_values_that_stand_for_others_are_different_ones(size, kind):
    rounded = usual_size(Factor("factor", size, kind))
    assert 2 <= rounded <= size
    classes = true_classes(size, rounded)
    assert classes[0] == 0
    assert classes[-1] < size
    assert all(low < high for low, high in itertools.pairwise(classes.tolist()))
    np.testing.assert_array_equal(classes, np.floor(np.arange(rounded) * (size / rounded) + 1e-9))
