"""Solids by signed distance: rays hit them where the closed form says, and a ball casts the shadow of a ball."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sober.worlds.drawn import desk_things, solids
from sober.worlds.drawn.solids import Part, Solid, Vectors, cast, column, dot, material, normals, openness, visible

BALL = Solid((Part(lambda point: solids.ball(point, (0, 0, 1), 0.5), (1, 0, 0)),), (0, 0, 1), 0.6)
THINGS: dict[str, Callable[[], Solid]] = {
    "mug": desk_things.mug,
    "pencil": desk_things.pencil,
    "lamp_stand": desk_things.lamp_stand,
    "lamp_head": desk_things.lamp_head,
    "book": lambda: desk_things.book(0.3),
    **{name: lambda name=name: desk_things.thing(name, (0.4, 0.2)) for name in desk_things.THINGS},  # type: ignore[misc]
}
every_thing = pytest.mark.parametrize("name", THINGS)


def rays(centre: np.ndarray, count: int = 3000) -> tuple[Vectors, Vectors]:
    """Rays of length 1 from all around that pass near a centre."""
    rng = np.random.default_rng(0)
    outwards = rng.standard_normal((3, count))
    origin = centre + 3 * outwards / np.linalg.norm(outwards, axis=0)
    towards = centre + rng.uniform(-0.7, 0.7, (3, count)) - origin
    return origin.astype(np.float32), (towards / np.linalg.norm(towards, axis=0)).astype(np.float32)


def test_rays_enter_a_ball_where_the_formula_says() -> None:
    origin, ray = rays(BALL.centre)
    from_centre = origin - column(0, 0, 1)
    along = -dot(from_centre, ray)
    inside = 0.25 - (dot(from_centre, from_centre) - along**2)
    length = cast(BALL, origin, ray)
    assert (np.isfinite(length) == (inside > 0))[np.abs(inside) > 0.005].all()
    deep = inside > 0.01
    np.testing.assert_allclose(length[deep], (along - np.sqrt(np.maximum(inside, 0)))[deep], atol=0.01)
    met = origin[:, deep] + length[deep] * ray[:, deep]
    np.testing.assert_allclose(normals(BALL, met), (met - column(0, 0, 1)) / 0.5, atol=0.02)


@every_thing
def test_rays_stop_at_the_surface_and_at_nothing_before_it(name: str) -> None:
    solid = THINGS[name]()
    origin, ray = rays(solid.centre, 600)
    length = cast(solid, origin, ray)
    met = np.isfinite(length)
    assert met.sum() > 10
    assert np.abs(solid.distance(origin[:, met] + length[met] * ray[:, met])).max() < 5e-3
    walked = np.full(len(met), np.inf)
    for step in np.arange(4.5, 1.5, -0.01, dtype=np.float32):  # backwards, so that the first place remains
        walked[solid.distance(origin + step * ray) < 0] = step
    assert (walked[met] > length[met] - 0.012).all()
    assert np.isfinite(walked[~met]).mean() < 0.005  # a ray that only grazes a solid may miss it


@every_thing
def test_a_solid_is_inside_its_ball(name: str) -> None:
    solid = THINGS[name]()
    outwards = np.random.default_rng(1).standard_normal((3, 4000)).astype(np.float32)
    shell = solid.centre + np.float32(solid.radius) * outwards / np.linalg.norm(outwards, axis=0)
    assert (solid.distance(shell)[shell[2] > 0] > 0).all()  # nobody sees what is below the desk top


def test_behind_a_ball_is_shadow_and_its_rim_sees_half_the_lamp() -> None:
    lamp, radius = column(0, 0, 5), 0.4
    edge = 0.5 / np.sqrt(1 - (0.5 / 4) ** 2) * 5 / 4  # where the ray to the lamp's middle touches the ball
    point = np.stack([np.array([0, 0.3, edge, 1.5]), np.zeros(4), np.zeros(4)]).astype(np.float32)
    np.testing.assert_allclose(visible(BALL, point, lamp, radius), [0, 0, 0.5, 1], atol=0.02)


def test_shadows_are_softer_under_a_wider_lamp() -> None:
    point = np.stack([np.linspace(0, 2, 400), np.zeros(400), np.zeros(400)]).astype(np.float32)
    soft = []
    for radius in (0.1, 0.2, 0.4):
        seen = visible(BALL, point, column(0, 0, 5), radius)
        soft.append(np.ptp(point[0, (seen > 0.02) & (seen < 0.98)]))
    assert soft[0] > 0
    assert soft[1] == pytest.approx(2 * soft[0], rel=0.2)
    assert soft[2] == pytest.approx(2 * soft[1], rel=0.2)


def test_light_from_all_around_is_less_close_to_a_solid() -> None:
    gap = np.linspace(0.01, 1, 50, dtype=np.float32)
    point = np.stack([0 * gap, 0 * gap, 0.5 - gap])  # below the ball, facing it
    share = openness(BALL, point, np.broadcast_to(column(0, 0, 1), point.shape))
    assert (np.diff(share) >= 0).all()
    assert share[0] < 0.4
    assert share[-1] == 1


def test_a_point_has_the_material_of_the_nearest_part() -> None:
    book = desk_things.book(0.0)
    x, y = book.place
    point = np.stack([column(x - 0.4, y, 0.2), column(x + 0.06, y + 0.2, 0.204), column(x, y - 0.335, 0.1)])[..., 0].T
    made = material(book, point.astype(np.float32))
    assert made.tinted.tolist() == [True, False, False]
    assert (made.colour[:, 0] == 0).all()
    assert (made.colour[:, 1:] > 0.7).all()
