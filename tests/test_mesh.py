"""Meshes: files are read or refused, never misread, and the drawing is what geometry says it should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sober.errors import RequestError
from sober.worlds.drawn import mesh as drawing
from sober.worlds.drawn.mesh import FINER, FOCAL, SIDE, Mesh, Surface, draw, fitted, joined, read_obj, sheet

POINTS = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 2 3 4\n"
HEAD_ON = np.zeros(1)

FINE = FINER * SIDE


def ball(rows: int = 60) -> Surface:
    up, around = np.linspace(-np.pi / 2, np.pi / 2, rows)[:, None], np.linspace(-np.pi, np.pi, 2 * rows)
    return sheet(np.stack([np.cos(up) * np.sin(around), np.sin(up) + 0 * around, np.cos(up) * np.cos(around)], -1))


def read(tmp_path: Path, text: str) -> Surface:
    path = tmp_path / "object.obj"
    path.write_text(text)
    return read_obj(path)


@pytest.mark.parametrize(
    "faces",
    [
        "f 1 2 3\nf 1 3 4",
        "f 1 2 3 4",
        "f 1/9 2/8 3/7 4/6",
        "f 1//9 2//8 3//7 4//6",
        "f 1/9/1 2/8/1 3/7/1 4/6/1",
        "f -5 -4 -3 -2",
        "f 1 2 \\\n  3 4",
        "f 1 2 3 4 # a square\r\n",
        "o square\nvn 0 0 1\nvt 0 0\ng side\nusemtl red\ns off\n\tf  1 2   3 4",
    ],
)
def test_a_square_is_the_same_however_it_is_written(tmp_path: Path, faces: str) -> None:
    surface = read(tmp_path, POINTS + faces)
    np.testing.assert_array_equal(surface.triangles, [[0, 1, 2], [0, 2, 3]])
    np.testing.assert_array_equal(surface.vertices[4], [2, 3, 4])


def test_a_point_counted_backwards_is_counted_from_the_face(tmp_path: Path) -> None:
    surface = read(tmp_path, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf -3 -2 -1\nv 5 5 5\nf -3 -2 -1")
    np.testing.assert_array_equal(surface.triangles, [[0, 1, 2], [1, 2, 3]])


def test_a_face_may_come_before_its_points(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read(tmp_path, f"f 1 2 3\n{POINTS}").triangles, [[0, 1, 2]])


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("v 1 2", "three numbers"),
        ("v 1 2 x", "'x'"),
        ("v 1 nan 2", "finite"),
        ("v 1 2 1e999", "finite"),
        ("f 1 2", "three corners"),
        ("f", "three corners"),
        ("f 1 2 0", "'0'"),
        ("f 1 2 1.5", "'1.5'"),
        ("f 1 2 3/x", "'3/x'"),
        ("f 1 2 3/1/1/1", "'3/1/1/1'"),
        ("f 1 2 -6", "-6"),
        ("f 1 2 6", "no point 6, only 5"),
        (f"f 1 2 {10**30}", f"no point {10**30}, only 5"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, statement: str, complaint: str) -> None:
    with pytest.raises(RequestError, match=r"object\.obj, line 7: ") as caught:
        read(tmp_path, f"{POINTS}f 1 2 3\n{statement}\nf 1 2 3\n")
    assert complaint in str(caught.value)


def test_what_is_no_mesh_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="cannot be read"):
        read_obj(tmp_path / "missing.obj")
    with pytest.raises(RequestError, match="cannot be read"):
        read_obj(tmp_path)
    for text in ("", POINTS, "\x89PNG\r\n\x1a\n\x00\x00"):
        with pytest.raises(RequestError, match="no faces"):
            read(tmp_path, text)


def test_the_shared_teapot_is_read_whole_and_a_part_of_it_is_read_or_refused(shared: Path, tmp_path: Path) -> None:
    whole = read_obj(shared / "data" / "teapot.obj")
    assert whole.vertices.shape == (1292, 3)
    assert whole.triangles.shape == (2464, 3)
    text = (shared / "data" / "teapot.obj").read_text()
    refused = 0
    for length in np.linspace(1, len(text) - 1, 60).astype(int):
        try:
            part = read(tmp_path, text[:length])
        except RequestError as error:
            assert "object.obj" in str(error)  # noqa: PT017
            refused += 1
        else:
            assert part.triangles.max() < len(part.vertices)
    assert 0 < refused < 60


def test_an_object_is_centred_and_fills_the_unit_ball_whatever_its_place_and_size() -> None:
    surface = ball(9)
    vertices = surface.vertices * [3, 2, 1]
    moved = Surface(np.concatenate([700 * vertices + [1e4, -5e3, 2], [[1e9, 0, 0]]]), surface.triangles)  # and a stray
    mesh = fitted(moved)
    assert np.linalg.norm(mesh.corners, axis=0).max() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(mesh.corners.max(axis=(1, 2)), -mesh.corners.min(axis=(1, 2)), atol=1e-5)


def test_the_fingerprint_tells_one_shape_from_another_and_not_its_size() -> None:
    surface = ball(9)
    marks = [fitted(Surface(surface.vertices * scale, surface.triangles)).fingerprint for scale in (1, 4, [1, 1, 2])]
    assert marks[0] == marks[1] != marks[2]


@pytest.mark.parametrize("points", [np.ones((3, 3)), np.eye(3)[[0, 0, 1]], np.arange(9.0).reshape(3, 3)])
def test_an_object_without_extent_is_refused(points: np.ndarray) -> None:
    with pytest.raises(RequestError, match="no extent"):
        fitted(Surface(points, np.array([[0, 1, 2]])))


def test_round_surfaces_are_smooth_and_sharp_edges_stay_sharp() -> None:
    mesh = fitted(ball(30))
    np.testing.assert_allclose(mesh.normals, mesh.corners, atol=0.02)
    square = np.array([[[-1.0, -1, 1], [1, -1, 1]], [[-1, 1, 1], [1, 1, 1]]])
    sides = [sign * np.roll(square, axis, axis=-1) for axis in range(3) for sign in (1, -1)]
    box = fitted(joined(*map(sheet, sides)))
    np.testing.assert_allclose(np.abs(box.normals).max(axis=0), 1)


def test_points_that_a_file_repeats_for_each_face_are_shaded_as_one() -> None:
    surface = ball(20)
    apart = Surface(
        surface.vertices[surface.triangles].reshape(-1, 3), np.arange(surface.triangles.size).reshape(-1, 3)
    )
    np.testing.assert_array_equal(fitted(apart).normals, fitted(surface).normals)


def test_a_ball_is_the_disc_that_perspective_makes_of_it_without_a_hole() -> None:
    picture = draw(fitted(ball()), HEAD_ON, HEAD_ON)[0]
    off = np.abs(np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2)
    distance = np.hypot(*off)
    assert (picture[distance < 0.96 * SIDE / 2 - 1] > 0).all()
    assert (picture[distance > 0.96 * SIDE / 2 + 1] == 0).all()


def test_a_ball_is_shaded_by_the_direction_of_its_surface() -> None:
    picture = draw(fitted(ball(90)), HEAD_ON, HEAD_ON)[0].astype(float)
    # Where the ray of each small pixel meets the unit ball, and so the direction of its surface.
    across = ((np.arange(FINE) + 0.5) / (FINE / 2) - 1) / FOCAL
    ray = np.stack(np.broadcast_arrays(across, -across[:, None], -1.0))  # from the camera, one unit forward
    forward, long = drawing.DISTANCE, (ray**2).sum(axis=0)
    inside = forward**2 - long * (drawing.DISTANCE**2 - 1)
    reach = (forward - np.sqrt(np.maximum(inside, 0))) / long
    point = ray * reach + np.array([0, 0, drawing.DISTANCE])[:, None, None]
    matt = np.maximum(np.tensordot(drawing.LIGHT, point, 1), 0)
    gloss = np.maximum(np.tensordot(drawing.HALFWAY, point, 1), 0) ** 32
    fine = np.where(inside > 0, np.minimum(192 * (0.22 + 0.78 * matt) + 110 * gloss, 255), 0)
    expected = fine.reshape(SIDE, 2, SIDE, 2).mean(axis=(1, 3))
    rim = np.hypot(*(np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2)) > 0.96 * SIDE / 2 - 1.5
    assert np.abs(picture - expected)[~rim].max() < 4
    assert picture.max() == 255


def slow(mesh: Mesh) -> np.ndarray:
    """Which triangle is nearest in every small pixel seen head-on, found one triangle at a time; -1 for none."""
    x, y, z = mesh.corners.astype(float)
    near = 1 / (drawing.DISTANCE - z)
    x, y = FINE / 2 * (1 + FOCAL * x * near), FINE / 2 * (1 - FOCAL * y * near)
    row, column = np.mgrid[:FINE, :FINE] + 0.5
    best, which = np.zeros((FINE, FINE)), np.full((FINE, FINE), -1)
    for t in range(mesh.size):
        areas = [
            (x[b, t] - column) * (y[c, t] - row) - (x[c, t] - column) * (y[b, t] - row)
            for b, c in ((1, 2), (2, 0), (0, 1))
        ]
        inside = (np.min(areas, axis=0) > 0) | (np.max(areas, axis=0) < 0)
        depth = sum(area * near[k, t] for k, area in enumerate(areas)) / sum(areas)
        best, which = np.where(inside & (depth > best), [depth, which * 0 + t], [best, which])
    return which.astype(int)


def test_what_is_nearest_is_seen_among_triangles_that_cross_each_other() -> None:
    corners = np.random.default_rng(0).uniform(-1, 1, (40, 3, 3))
    mesh = fitted(Surface(corners.reshape(-1, 3), np.arange(120).reshape(-1, 3)))
    flat = mesh.normals[:, 0]  # (3, T): every triangle stands alone, so it has one shade
    towards = np.where(facing(mesh), flat, -flat)
    shade = np.append(drawing._shade(towards.astype(np.float32)), 0)
    expected = shade[slow(mesh)].reshape(SIDE, 2, SIDE, 2).mean(axis=(1, 3))
    wrong = np.abs(draw(mesh, HEAD_ON, HEAD_ON)[0] - expected) > 1
    assert wrong.mean() < 1e-3  # a centre that lies on an edge may go either way


def facing(mesh: Mesh) -> np.ndarray:
    """Whether the camera, head-on, is in front of each triangle."""
    first = mesh.corners[:, 0]
    normal = np.cross(mesh.corners[:, 1] - first, mesh.corners[:, 2] - first, axis=0)
    return ((np.array([[0], [0], [drawing.DISTANCE]]) - first) * normal).sum(axis=0) > 0


def test_the_order_of_triangles_does_not_matter() -> None:
    surface = joined(ball(12), Surface(ball(12).vertices * 0.7 + [0.6, 0.2, 0.5], ball(12).triangles))
    shuffled = np.random.default_rng(0).permutation(surface.triangles)
    views = np.linspace(0, 3, 5), np.linspace(0, 1, 5)
    one = draw(fitted(surface), *views)
    other = draw(fitted(Surface(surface.vertices, shuffled)), *views)
    assert (np.abs(one.astype(int) - other) > 1).mean() < 1e-3


def test_both_sides_of_a_sheet_are_seen_and_lit() -> None:
    mesh = fitted(Surface(np.array([[-1.0, -1, 0], [1, -1, 0], [0, 1, 0]]), np.array([[0, 1, 2]])))
    front, back = draw(mesh, np.array([0, np.pi]), np.zeros(2))
    np.testing.assert_allclose(front, back[:, ::-1], atol=1)
    assert front.max() > 100


def test_azimuth_turns_an_object_to_the_left_in_front_and_elevation_shows_its_top() -> None:
    # A long thin nail that points to the right, with its head at the tip.
    nail = joined(ball(12), Surface(ball(12).vertices * 0.3 + [3, 0, 0], ball(12).triangles))
    straight, turned, above = draw(fitted(nail), np.array([0, np.pi / 2, 0]), np.array([0, 0, np.pi / 2]))
    tall = Surface(nail.vertices[:, [1, 0, 2]], nail.triangles[:, ::-1])
    upright, seen_from_above = draw(fitted(tall), np.zeros(2), np.array([0, np.pi / 2]))
    assert np.ptp(np.flatnonzero(straight.any(axis=0))) > 1.5 * np.ptp(np.flatnonzero(turned.any(axis=0)))
    np.testing.assert_array_equal(above.any(axis=0), straight.any(axis=0))
    assert np.ptp(np.flatnonzero(upright.any(axis=1))) > 1.5 * np.ptp(np.flatnonzero(seen_from_above.any(axis=1)))


def test_views_do_not_depend_on_how_many_are_drawn_or_by_how_many_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    views = np.linspace(0, 6, 11), np.linspace(0, 1.5, 11)
    mesh = fitted(joined(ball(10), Surface(ball(10).vertices * 0.5 + [1, 0.5, 0], ball(10).triangles)))
    together = draw(mesh, *views, workers=3)
    monkeypatch.setattr(drawing, "TRIANGLES_AT_ONCE", 1)
    alone = draw(mesh, *views, workers=1)
    assert (together != alone).mean() < 1e-3  # coordinates further down a tall picture have a bit less precision
    assert draw(mesh, np.zeros(0), np.zeros(0)).shape == (0, SIDE, SIDE)


def test_a_closed_object_looks_the_same_with_and_without_its_inside() -> None:
    views = np.linspace(0, 6, 7), np.linspace(0, 1.5, 7)
    np.testing.assert_array_equal(draw(fitted(ball(20), closed=True), *views), draw(fitted(ball(20)), *views))
