"""teapots: the factors of Eastwood & Williams (2018), and pictures that follow them without a jump."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sober.errors import RequestError
from sober.worlds import _opened, world
from sober.worlds.drawn.mesh import draw, fitted
from sober.worlds.drawn.teapots import AZIMUTHS, ELEVATIONS, Teapots, teapot

STEP = np.pi / 80  # from view to view
GREY = (0.5, 0.5, 0.5)
paint = jax.jit(Teapots().paint)


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Few views, soon drawn, in a cache of their own."""
    monkeypatch.setattr(Teapots, "azimuths", 12)
    monkeypatch.setattr(Teapots, "elevations", 4)
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "drawn"
    _opened.cache_clear()


@pytest.fixture(scope="module")
def views() -> np.ndarray:
    """Views around azimuth 3 and elevation 7 of the full set, at their places in it; the rest is black."""
    mesh = fitted(teapot(), closed=True)
    data = np.zeros((AZIMUTHS, ELEVATIONS, 64, 64), np.uint8)
    at, height = np.repeat([-1, 0, 3, 4], 3), np.tile([7, 8, 40], 4)
    data[at, height] = draw(mesh, at * STEP, height * STEP)
    return data


def pictures(views: np.ndarray, *values: tuple[float, ...]) -> np.ndarray:
    return np.asarray(paint(views, jnp.array(values), jax.random.key(0)))


def test_the_factors_and_their_ranges_are_those_of_the_paper() -> None:
    opened = Teapots()
    assert [factor.name for factor in opened.factors] == ["azimuth", "elevation", "red", "green", "blue"]
    assert all(factor.kind == "continuous" for factor in opened.factors)
    assert opened.size == 200_000
    values = opened.labels(np.arange(20_000))
    np.testing.assert_allclose(values.min(axis=0), 0, atol=2e-3)
    np.testing.assert_allclose(values.max(axis=0), [2 * np.pi, np.pi / 2, 1, 1, 1], atol=2e-3)
    np.testing.assert_allclose(np.corrcoef(values.T), np.eye(5), atol=0.03)


def test_a_picture_at_a_view_that_was_drawn_is_that_view(views: np.ndarray) -> None:
    picture = pictures(views, (3 * STEP, 7 * STEP, 1, 0.5, 0))[0]
    shade = views[3, 7].astype(float)
    own, white = np.minimum(shade / 192, 1), np.maximum(shade - 192, 0) / 63
    expected = np.stack([own, 0.5 * own + 0.5 * white, white], axis=-1)
    np.testing.assert_allclose(picture, expected, atol=2e-3)
    assert expected.max() == 1


def test_a_picture_between_views_is_close_to_one_drawn_there(views: np.ndarray) -> None:
    between = draw(fitted(teapot(), closed=True), np.array([3.5 * STEP]), np.array([7.5 * STEP]))[0]
    own = np.minimum(between / 192, 1)
    picture = pictures(views, (3.5 * STEP, 7.5 * STEP, 1, 1, 1))[0, ..., 0]
    off = np.abs(picture - own)[(own > 0) | (picture > 0)]
    assert off.mean() < 4 / 255
    neighbour = np.abs(np.minimum(views[3, 7] / 192, 1) - own)[(own > 0) | (picture > 0)]
    assert off.mean() < neighbour.mean() / 2


def test_pictures_move_with_the_angles_without_a_jump(views: np.ndarray) -> None:
    for path in (
        [(3 * STEP + STEP * t, 7.3 * STEP, *GREY) for t in np.linspace(0, 1, 65)],
        [(3.3 * STEP, 7 * STEP + STEP * t, *GREY) for t in np.linspace(0, 1, 65)],
        [(2 * np.pi - STEP + STEP * t, 7.5 * STEP, *GREY) for t in np.linspace(0, 1, 65)],
    ):
        moved = np.abs(np.diff(pictures(views, *path), axis=0)).max(axis=(1, 2, 3))
        assert moved.max() < 1 / 64
        assert moved.min() > 1e-4  # and none is left out: no step is snapped to the same picture


def test_a_full_turn_ends_where_it_began_and_the_top_is_included(views: np.ndarray) -> None:
    start, end = pictures(views, (0, 7 * STEP, *GREY), (2 * np.pi, 7 * STEP, *GREY))
    np.testing.assert_allclose(start, end, atol=1e-5)
    top = pictures(views, (3 * STEP, np.pi / 2, 1, 1, 1))[0, ..., 0]
    np.testing.assert_allclose(top, np.minimum(views[3, 40] / 192, 1), atol=2e-3)


@pytest.mark.parametrize("channel", range(3))
def test_a_colour_changes_its_own_channel_alone(views: np.ndarray, channel: int) -> None:
    low, high = [3.2 * STEP, 7.1 * STEP, *GREY], [3.2 * STEP, 7.1 * STEP, *GREY]
    low[2 + channel], high[2 + channel] = 0.0, 1.0
    dark, bright = pictures(views, tuple(low), tuple(high))
    np.testing.assert_array_equal(np.delete(dark, channel, axis=-1), np.delete(bright, channel, axis=-1))
    assert (bright[..., channel] >= dark[..., channel]).all()
    assert bright[..., channel].sum() > 2 * dark[..., channel].sum()


def test_many_models_draw_at_once_what_each_would_draw_alone(views: np.ndarray) -> None:
    values = np.array([[[3.1 * STEP, 7.2 * STEP, 0.1, 0.9, 0.4]], [[3.9 * STEP, 7.8 * STEP, 0.7, 0.2, 0.5]]])
    together = jax.vmap(paint, in_axes=(None, 0, None))(jnp.array(views), jnp.array(values), jax.random.key(0))
    alone = [pictures(views, *map(tuple, each)) for each in values]
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_no_two_azimuths_look_alike() -> None:
    turn = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    for elevation in (0.0, 0.8, np.pi / 2):
        seen = draw(fitted(teapot(), closed=True), turn, np.full(24, elevation)).astype(float).reshape(24, -1)
        apart = np.abs(seen[:, None] - seen).mean(axis=2) + 100 * np.eye(24)
        assert apart.min() > 2


def test_no_inside_of_the_teapot_is_ever_seen() -> None:
    mesh = fitted(teapot(), closed=True)
    poses = np.linspace(0, 6, 9), np.linspace(0, np.pi / 2, 9)
    np.testing.assert_array_equal(draw(mesh, *poses), draw(mesh._replace(closed=False), *poses))


def test_views_are_kept_for_each_object_apart(coarse: Path, tmp_path: Path) -> None:
    pyramid = "v -1 0 -1\nv 1 0 -1\nv 1 0 1\nv -1 0 1\nv 0 2 0.3\nf 1 2 3 4\nf 1 5 2\nf 2 5 3\nf 3 5 4\nf 4 5 1\n"
    (tmp_path / "one.obj").write_text(pyramid)
    (tmp_path / "same.obj").write_text("# the same\n" + pyramid)
    (tmp_path / "other.obj").write_text(pyramid.replace("0.3", "0.4"))
    one, same, other = (world(f"teapots:mesh={tmp_path / name}.obj") for name in ("one", "same", "other"))
    assert one.label == same.label != other.label
    assert one.label.startswith("teapots:")
    assert one.spec == f"teapots:mesh={tmp_path / 'one.obj'}"
    assert (one.make_data() == same.make_data()).all()
    assert (one.make_data() != other.make_data()).any()
    assert len(list(coarse.glob("*.npy"))) == 2
    assert one.render(np.arange(3)).shape == (3, 64, 64, 3)


def test_the_shared_teapot_is_seen_where_ours_is(coarse: Path, shared: Path) -> None:
    opened = world(f"teapots:mesh={shared / 'data' / 'teapot.obj'}")
    theirs, ours = opened.make_data() > 0, Teapots().make_data() > 0
    overlap = (theirs & ours).sum(axis=(2, 3)) / (theirs | ours).sum(axis=(2, 3))
    assert overlap.min() > 0.6  # spout to the right, handle to the left, the lid on top


def test_a_file_that_is_no_mesh_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"missing\.obj cannot be read"):
        world(f"teapots:mesh={tmp_path}/missing.obj").label  # noqa: B018
    (tmp_path / "flat.obj").write_text("v 1 1 1\nv 1 1 1\nv 1 1 1\nf 1 2 3\n")
    with pytest.raises(RequestError, match="no extent"):
        world(f"teapots:mesh={tmp_path}/flat.obj").label  # noqa: B018
