"""rooms: rays meet what they should, light falls as it should, and colours only multiply."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sober.worlds import world
from sober.worlds.drawn import rooms
from sober.worlds.drawn.rooms import ANGLES, COLOURS, RADIUS, SCALES, SHAPES, TALL

every_shape = pytest.mark.parametrize("shape", SHAPES)


@pytest.fixture(scope="module")
def views() -> np.ndarray:
    """The light from floor, walls and object in each view: (scale, shape, orientation, surface, row, column)."""
    return np.asarray(world("rooms").data).reshape(8, 4, 15, 3, 64, 64)


def contains(shape: str, scale: float, point: np.ndarray) -> np.ndarray:
    """Whether points (3, …) are in the object, by its definition."""
    x, y, z = point / scale
    radius, tall = RADIUS[shape], TALL[shape]
    if shape == "cube":
        return (np.abs(x) <= radius) & (np.abs(y) <= radius) & (z >= 0) & (z <= tall)
    if shape == "cylinder":
        return (np.hypot(x, y) <= radius) & (z >= 0) & (z <= tall)
    above_axis = z - np.clip(z, radius, tall - radius)
    return x**2 + y**2 + above_axis**2 <= radius**2


@every_shape
@pytest.mark.parametrize("angle", [-30, 0, 17])
def test_a_ray_enters_where_a_walk_along_it_first_gets_inside(shape: str, angle: float) -> None:
    eye, ray = rooms.camera(angle)
    some = np.random.default_rng(0).integers(0, ray.shape[1], 2000)
    hit = rooms.cast_object(shape, 1.2, eye, ray[:, some])
    steps = np.arange(1.2, 4.2, 0.004)
    inside = contains(shape, 1.2, eye[:, :, None] + steps * ray[:, some, None])  # (ray, step)
    walked = np.where(inside.any(axis=1), steps[inside.argmax(axis=1)], np.inf)
    both = np.isfinite(walked) & np.isfinite(hit.distance)
    assert both.sum() > 100
    assert np.ptp(walked[both] - hit.distance[both]) < 0.01
    # A ray that only grazes the object may step over it.
    assert (np.isfinite(walked) != np.isfinite(hit.distance)).mean() < 0.01


@every_shape
def test_normals_have_length_one_and_face_the_camera(shape: str) -> None:
    eye, ray = rooms.camera(11.0)
    hit = rooms.cast_object(shape, 0.9, eye, ray)
    seen = np.isfinite(hit.distance)
    np.testing.assert_allclose(np.linalg.norm(hit.normal[:, seen], axis=0), 1, atol=1e-4)
    assert (np.einsum("kn,kn->n", hit.normal, ray)[seen] < 1e-3).all()


def test_the_480_views_are_distinct(views: np.ndarray) -> None:
    assert len({view.tobytes() for view in views.reshape(480, -1)}) == 480


def test_views_are_numbered_as_the_pictures_are(views: np.ndarray) -> None:
    at = (5, 3, 2)
    light = rooms.render_orientation(ANGLES[at[2]])[at[0] * 4 + at[1]]
    ratio = views[at][light > 0.1] / light[light > 0.1]
    assert np.ptp(ratio[views[at][light > 0.1] < 255]) < 0.04 * ratio.mean()


@every_shape
def test_a_larger_scale_covers_more_pixels(views: np.ndarray, shape: str) -> None:
    covered = (views[:, SHAPES.index(shape), :, 2] > 0).sum(axis=(-1, -2))  # (scale, orientation)
    assert (np.diff(covered, axis=0) > 0).all()


def test_opposite_orientations_mirror_what_is_where(views: np.ndarray) -> None:
    there = views > 0
    # A ray that meets an edge exactly may fall on either side of it.
    assert (there != there[:, :, ::-1, :, :, ::-1]).mean() < 1e-4


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_a_round_object_looks_the_same_from_all_around_and_the_room_does_not(views: np.ndarray, shape: str) -> None:
    there = views[:, SHAPES.index(shape)] > 0  # (scale, orientation, surface, …)
    assert (there[:, :, 2] != there[:, :1, 2]).mean() < 1e-4
    for one, other in itertools.pairwise(range(len(ANGLES))):
        assert (there[:, one, 1] != there[:, other, 1]).any(axis=(1, 2)).all()


def test_edges_are_smooth(views: np.ndarray) -> None:
    shared = ((views > 0).sum(axis=3) > 1).mean(axis=(-1, -2))  # the share of pixels in which surfaces meet
    assert (shared > 0.012).all()


def test_there_is_no_sky_and_no_hole(views: np.ndarray) -> None:
    assert views.sum(axis=3, dtype=int).min() > 40


@every_shape
def test_the_floor_is_in_shadow_where_the_object_is_between_it_and_the_lamp(shape: str) -> None:
    x, y = np.random.default_rng(2).uniform(-1.5, 1.5, (2, 3000)).astype(np.float32)
    clear = ~contains(shape, 1.0, np.stack([x, y, 0 * x]))
    floor = np.stack([x, y, 0 * x])[:, clear]
    towards = np.array(rooms.LAMP, np.float32)[:, None] - floor
    shadow = np.isfinite(rooms.cast_object(shape, 1.0, floor, towards).distance)
    steps = np.linspace(0, 0.4, 500)
    walked = contains(shape, 1.0, floor[:, :, None] + steps * towards[:, :, None]).any(axis=1)
    assert shadow.sum() > 50
    assert (shadow != walked).mean() < 0.01


@every_shape
def test_large_pictures_have_shadows_without_steps(shape: str) -> None:
    grid = rooms.floor_shadow(1.25, shape, 200)
    assert (grid[[0, -1]] == 1).all()  # the square holds the whole shadow
    assert (grid[:, [0, -1]] == 1).all()
    assert len(np.unique(grid)) > 40
    floor = np.stack([*np.random.default_rng(3).uniform(-1, 2.5, (2, 2000)), np.zeros(2000)]).astype(np.float32)
    lamp = rooms.lamp_points(rooms.LAMP_POINTS)
    seen = [np.isinf(rooms.cast_object(shape, 1.25, floor, point[:, None] - floor).distance) for point in lamp.T]
    assert np.abs(rooms.on_floor(grid, floor) - np.mean(seen, axis=0)).mean() < 0.01


@every_shape
def test_the_shadow_falls_away_from_the_lamp(views: np.ndarray, shape: str) -> None:
    middle = views[:, SHAPES.index(shape), len(ANGLES) // 2].astype(int)  # (scale, surface, row, column)
    only_floor = np.where((middle[:, 1] == 0) & (middle[:, 2] == 0), middle[:, 0], 255)
    left, right = ((half < 150).sum(axis=(1, 2)) for half in np.split(only_floor, 2, axis=2))
    assert rooms.LAMP[0] < 0
    assert (right > 1.4 * left).all()


@every_shape
def test_the_floor_is_darker_beside_the_object(views: np.ndarray, shape: str) -> None:
    middle = views[4, SHAPES.index(shape), len(ANGLES) // 2]
    bottom = np.flatnonzero((middle[2] > 0).any(axis=1)).max()
    assert middle[0, bottom + 1, 32] < middle[0, bottom + 8, 32] - 10


def test_colours_are_ten_hues_of_full_strength() -> None:
    assert COLOURS.max(axis=1).tolist() == [1] * 10
    assert COLOURS.min(axis=1).tolist() == [0] * 10
    np.testing.assert_allclose(COLOURS[[0, 5]], [[1, 0, 0], [0, 1, 1]])
    assert len({tuple(colour) for colour in COLOURS}) == 10


def test_a_picture_is_each_surface_in_its_colour(views: np.ndarray) -> None:
    opened = world("rooms")
    classes = opened.classes(np.random.default_rng(1).integers(0, opened.size, 30))
    for picture, (floor, wall, thing, scale, shape, turn) in zip(
        opened.render(opened.index_of(classes)), classes, strict=True
    ):
        light = views[scale, shape, turn].astype(float)
        expected = np.einsum("khw,kc->hwc", light, COLOURS[[floor, wall, thing]].astype(float))
        assert np.abs(np.minimum(expected, 255) - picture).max() <= 0.51


def test_factors_are_those_of_the_published_set_in_its_order() -> None:
    opened = world("rooms")
    names = [factor.name for factor in opened.factors]
    assert names == ["floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"]
    assert [factor.size for factor in opened.factors] == [10, 10, 10, 8, 4, 15]
    assert opened.size == 480_000
    assert (SCALES[0], SCALES[-1], ANGLES[0], ANGLES[-1]) == (0.75, 1.25, -30, 30)
