"""heads: a head that turns and nods; who it is is noise."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import chisquare

from sober.worlds.drawn.heads import AZIMUTHS, BUMPS, ELEVATIONS, PEOPLE, Heads, head
from sober.worlds.drawn.mesh import draw

FEW = 4


@pytest.fixture(scope="module")
def few() -> Heads:
    """The world with four people instead of fifty, which are soon drawn."""
    return Heads.quick()


def test_the_factors_are_those_of_the_paper() -> None:
    assert [(factor.name, factor.size) for factor in Heads.factors] == [("azimuth", 21), ("elevation", 11)]
    assert Heads().size == 231


def test_a_picture_is_one_of_the_people_in_the_pose_of_its_classes(few: Heads) -> None:
    index = np.array([0, 10, 115, 230])
    images = few.render(index)[..., 0]
    for at, (azimuth, elevation) in enumerate(few.classes(index)):
        people = [draw(head(who), AZIMUTHS[[azimuth]], ELEVATIONS[[elevation]])[0] for who in range(FEW)]
        assert min(np.abs(images[at].astype(int) - person).max() for person in people) <= 2
    assert few.data.shape == (FEW, 231, 64, 64)


def test_everyone_is_equally_likely_in_every_pose(few: Heads) -> None:
    pose, draws = 57, 2000
    keys = jax.random.split(jax.random.key(0), draws)
    images = jax.jit(jax.vmap(few.pixels, in_axes=(None, None, 0)))(few.data, np.array([pose]), keys)
    shown = np.round(255 * np.asarray(images)).reshape(draws, -1)
    people = np.asarray(few.data)[:, pose].reshape(FEW, -1)
    counts = [(shown == person).all(axis=1).sum() for person in people]
    assert sum(counts) == draws
    assert chisquare(counts).pvalue > 1e-3


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
