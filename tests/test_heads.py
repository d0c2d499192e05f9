"""heads: a head that turns and nods; who it is is noise."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import chisquare

from sober.models.encode import sample_of
from sober.worlds.drawn.heads import AZIMUTHS, BUMPS, ELEVATIONS, PEOPLE, Heads, head
from sober.worlds.drawn.mesh import draw
from sober.worlds.views import view
from sober.worlds.views.distributions import joint

FEW = 4


@pytest.fixture(scope="module")
def few() -> Heads:
    """The world with four people instead of fifty, which are soon drawn."""
    return Heads.quick()


def test_the_factors_are_those_of_the_paper_and_identity_is_hidden() -> None:
    assert [(factor.name, factor.size) for factor in Heads.factors] == [("azimuth", 21), ("elevation", 11)]
    assert [(axis.name, axis.size) for axis in Heads().hidden] == [("identity", 50)]
    assert Heads().size == 50 * 231


def test_a_picture_is_that_person_in_the_pose_of_its_classes(few: Heads) -> None:
    index = np.array([0, 10, 346, 923])
    images = few.render(index)[..., 0]
    for image, (person, azimuth, elevation) in zip(images, few.classes(index), strict=True):
        drawn = draw(head(person), AZIMUTHS[[azimuth]], ELEVATIONS[[elevation]])[0]
        assert np.abs(image.astype(int) - drawn).max() <= 2
    np.testing.assert_array_equal(few.labels(index), few.classes(index)[:, 1:])
    assert few.data.shape == (FEW, 231, 64, 64)


def test_no_picture_comes_twice_where_all_are_encoded(few: Heads) -> None:
    """So that no test row of a metric repeats a row that it has learned from."""
    assert sample_of(Heads(), 20_000) is None  # every picture
    np.testing.assert_array_equal(few.everything(), np.arange(few.size))
    assert len({image.tobytes() for image in few.render(few.everything())}) == few.size


def test_everyone_is_equally_likely_in_every_pose(few: Heads) -> None:
    classes = few.classes(np.asarray(few.index(jax.random.key(0), 40_000)))
    assert chisquare(np.bincount(classes[:, 0] * 231 + classes[:, 1] * 11 + classes[:, 2])).pvalue > 1e-3


def test_two_factors_are_drawn_together_whoever_is_shown(few: Heads) -> None:
    opened = view(few, "joint azimuth elevation D")
    classes = few.classes(np.asarray(opened.index(jax.random.key(0), 200_000)))
    counts = np.zeros((21, 11))
    np.add.at(counts, (classes[:, 1], classes[:, 2]), 1)
    assert chisquare(counts.ravel(), 200_000 * joint("D", 21, 11).ravel()).pvalue > 1e-3
    assert chisquare(np.bincount(classes[:, 0])).pvalue > 1e-3


def test_people_look_different_but_not_very() -> None:
    front = np.stack([draw(head(who), np.zeros(1), np.zeros(1))[0] for who in range(PEOPLE)]).astype(float)
    apart = np.abs(front[:, None] - front).mean(axis=(2, 3))[~np.eye(PEOPLE, dtype=bool)]
    turned = draw(head(0), np.array([0.7]), np.zeros(1))[0]
    assert apart.min() > 1
    assert apart.mean() < np.abs(turned - front[0]).mean()


def test_a_head_has_two_equal_halves_and_turns_equally_far_to_both_sides() -> None:
    outlines = draw(head(3), AZIMUTHS, np.zeros(21)) > 0
    different = (outlines != outlines[::-1, :, ::-1]).mean(axis=(1, 2))
    assert different.max() < 0.01


def test_the_nose_points_where_the_head_is_turned() -> None:
    left, ahead, right = draw(head(0), AZIMUTHS[[0, 10, 20]], np.zeros(3)) > 0
    reach = [np.flatnonzero(outline.any(axis=0))[[0, -1]] for outline in (left, ahead, right)]
    assert reach[0][0] < reach[1][0]
    assert reach[2][1] > reach[1][1]


def test_no_inside_of_a_head_is_ever_seen() -> None:
    mesh = head(2)
    poses = np.linspace(-1.5, 1.5, 9), np.linspace(-0.6, 0.6, 9)
    assert mesh.closed
    np.testing.assert_array_equal(draw(mesh, *poses), draw(mesh._replace(closed=False), *poses))


@pytest.mark.parametrize("part", BUMPS)
def test_every_part_of_the_face_can_be_seen(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    views = AZIMUTHS[[5, 10, 15]], np.zeros(3)
    whole = draw(head(0), *views).astype(int)
    monkeypatch.delitem(BUMPS, part)
    assert (np.abs(draw(head(0), *views) - whole) > 10).sum() > 20
