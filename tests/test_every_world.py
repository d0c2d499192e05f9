"""What holds for every world in the registry."""

from __future__ import annotations

import itertools
import math
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from sober.errors import RequestError, UnknownError
from sober.worlds import WORLDS, Grid, World, world
from sober.worlds.stored_world import StoredWorld
from sober.worlds.world import Origin

# Worlds of files are tested where those files are made: test_published.py, test_readers.py, test_own_pictures.py.
DRAWN = {name: kind for name, kind in WORLDS.items() if kind.origin == "drawn"}


@pytest.fixture(scope="module")
def opened(request: pytest.FixtureRequest) -> World:
    """A world, opened once for all tests that look at it."""
    quick = WORLDS[request.param].quick()
    if missing := quick.absent():
        pytest.skip(missing)
    return quick


def each(names: Iterable[str]) -> Any:
    return pytest.mark.parametrize("opened", list(names), indirect=True)


every_world = each(DRAWN)
every_grid = each(name for name, kind in DRAWN.items() if issubclass(kind, Grid))


N = 50  # pictures at a time, in most tests: another number compiles another program


def spread_out(opened: World) -> np.ndarray:
    """Pictures from all over the grid, first and last among them."""
    return np.linspace(0, opened.size - 1, N).astype(int)


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_says_where_its_pictures_come_from(name: str) -> None:
    kind = WORLDS[name]
    assert kind.origin in get_args(Origin)
    assert (kind.origin == "drawn") != issubclass(kind, StoredWorld)
    assert type(kind.quick()) is kind


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_knows_which_files_are_missing_without_fetching_any(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SOBER_DATA", raising=False)
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("went to the net"))
    missing = WORLDS[name]().absent()
    assert missing is None or (name in missing and "\n" not in missing)
    assert missing is not None or WORLDS[name].origin != "its files"
    assert not (tmp_path / "cache").exists()


@every_world
def test_a_world_says_what_it_is(opened: World) -> None:
    assert WORLDS[opened.name] is type(opened)
    assert opened.spec == opened.name
    assert opened.label.startswith(opened.name)
    assert opened.summary
    assert opened.reference


@every_grid
def test_factors_have_names_of_their_own_and_span_the_grid(opened: Grid) -> None:
    names = [axis.name for axis in opened.axes]
    assert len(set(names)) == len(names)
    assert math.prod(axis.size for axis in opened.axes) == opened.size
    assert {*opened.factors, *opened.hidden} == {*opened.axes}


@every_grid
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_classes_and_index_are_each_others_inverse(opened: Grid, data: st.DataObject) -> None:
    index = np.array(data.draw(st.lists(st.integers(0, opened.size - 1), min_size=1, max_size=20)))
    classes = opened.classes(index)
    assert classes.shape == (len(index), len(opened.axes))
    assert (classes >= 0).all()
    assert (classes < [axis.size for axis in opened.axes]).all()
    np.testing.assert_array_equal(opened.index_of(classes), index)


@every_grid
def test_the_last_factor_varies_fastest(opened: Grid) -> None:
    last = opened.axes[-1].size
    np.testing.assert_array_equal(opened.classes(np.arange(last + 1))[:, -1], [*range(last), 0])


@every_world
def test_pictures_are_bytes_of_the_stated_shape(opened: World) -> None:
    images = opened.render(spread_out(opened))
    assert isinstance(images, np.ndarray)
    assert images.dtype == np.uint8
    assert images.shape == (N, *opened.image_shape)
    assert images.max() > 250 if opened.stochastic else images.max() == 255


@every_world
def test_a_single_index_gives_a_single_picture(opened: World) -> None:
    image = opened.render(7)  # type: ignore[arg-type]
    assert isinstance(image, np.ndarray)
    np.testing.assert_array_equal(image, opened.render(np.array([7]))[0])


@every_world
def test_bytes_are_the_pixels_of_training_times_255(opened: World) -> None:
    index = spread_out(opened)
    pixels = np.asarray(jax.jit(opened.pixels)(opened.data, index, jax.random.key(0)))
    assert pixels.min() >= 0
    assert pixels.max() <= 1
    np.testing.assert_array_equal(opened.render(index), np.round(255 * pixels))


@every_world
def test_a_sample_depends_on_its_key_alone(opened: World) -> None:
    one, again, other = (opened.sample(jax.random.key(seed), N) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.factors, again.factors)
    np.testing.assert_array_equal(one.images, again.images)
    assert (one.factors != other.factors).any()
    assert (one.images != other.images).any()


@every_world
@pytest.mark.parametrize("seed", [3, np.int64(3)])
def test_a_whole_number_is_a_key(opened: World, seed: Any) -> None:
    np.testing.assert_array_equal(opened.sample(seed, N).factors, opened.sample(jax.random.key(3), N).factors)


@every_grid
def test_a_sample_shows_the_pictures_of_its_factors(opened: Grid) -> None:
    sample = opened.sample(0, N)
    which, nuisance = jax.random.split(jax.random.key(0))
    index = opened.index(which, N)
    np.testing.assert_array_equal(opened.labels(np.asarray(index)), sample.factors)
    np.testing.assert_array_equal(sample.images, np.round(255 * jax.jit(opened.pixels)(opened.data, index, nuisance)))


@every_world
def test_a_picture_does_not_depend_on_its_neighbours(opened: World) -> None:
    index = spread_out(opened)
    np.testing.assert_array_equal(opened.render(index[::-1])[::-1], opened.render(index))


@every_world
def test_a_training_batch_is_the_sample_of_its_key(opened: World) -> None:
    draw = jax.jit(opened.draw, static_argnums=2)
    batch = np.asarray(draw(opened.data, jax.random.key(5), N))
    np.testing.assert_array_equal(np.round(255 * batch), opened.sample(5, N).images)


@every_world
def test_batches_walk_the_grid_in_order(opened: World) -> None:
    first = list(itertools.islice(opened.batches(N), 3))
    np.testing.assert_array_equal(np.concatenate([index for index, _ in first]), np.arange(3 * N))
    images = np.concatenate([images for _, images in first])
    np.testing.assert_array_equal(images[::3], opened.render(np.arange(0, 3 * N, 3)))


def test_the_last_batch_may_be_shorter() -> None:
    opened = world("blocks")
    batches = list(opened.batches(1000))
    assert [len(index) for index, _ in batches] == [1000, 1000, 1000, 1000, 96]
    np.testing.assert_array_equal(np.concatenate([index for index, _ in batches]), np.arange(opened.size))
    np.testing.assert_array_equal(
        np.concatenate([images for _, images in batches]), opened.render(np.arange(opened.size))
    )


@every_world
@pytest.mark.parametrize("side", ["before the first", "after the last"])
def test_an_index_outside_the_grid_is_refused(opened: World, side: str) -> None:
    index = np.array([0, -1 if side == "before the first" else opened.size])
    with pytest.raises(RequestError, match=f"{opened.name} has pictures 0 to {opened.size - 1}"):
        opened.render(index)
    with pytest.raises(RequestError, match=f"{opened.name} has pictures 0 to {opened.size - 1}"):
        opened.labels(index)


@every_world
def test_an_index_between_two_pictures_is_refused(opened: World) -> None:
    with pytest.raises(RequestError, match="index"):
        opened.render(np.array([0.5]))


@every_grid
def test_classes_outside_the_grid_are_refused(opened: Grid) -> None:
    for column, axis in enumerate(opened.axes):
        classes = np.zeros((1, len(opened.axes)), int)
        classes[0, column] = axis.size
        with pytest.raises(RequestError, match="out of range"):
            opened.index_of(classes)


@every_world
def test_every_factor_changes_the_picture(opened: World) -> None:
    for column, factor in enumerate(opened.factors):
        for index in np.asarray(opened.index(jax.random.key(column), 8)):
            varied = opened.vary(int(index), column, 4)
            assert varied is not None
            assert (varied[1:] != varied[:-1]).any(axis=(1, 2, 3)).all(), factor.name


@every_grid
def test_training_draws_every_class_equally_often(opened: Grid) -> None:
    classes = opened.classes(np.asarray(opened.index(jax.random.key(0), 40_000)))
    for column, axis in enumerate(opened.axes):
        counts = np.bincount(classes[:, column], minlength=axis.size)
        assert len(counts) == axis.size
        # One draw in a thousand of a uniform sample would fail; this one, of a fixed key, does not.
        assert chisquare(counts).pvalue > 1e-3, axis.name


@pytest.mark.parametrize("name", sorted(WORLDS))
def test_an_unknown_world_is_refused_with_the_closest_name(name: str) -> None:
    with pytest.raises(UnknownError, match=rf"unknown world '{name}_': did you mean '{name}'\?$"):
        world(f"{name}_")


@every_world
def test_an_unknown_option_is_refused_by_name(opened: World) -> None:
    with pytest.raises(RequestError, match=f"'{opened.name}'.*colour"):
        world(f"{opened.name}:colour=red")


def test_an_unknown_option_is_refused_with_the_options_there_are() -> None:
    with pytest.raises(RequestError, match="file"):
        world("dsprites:colour=red")


@pytest.mark.parametrize(
    "spec", ["dsprites:colour=red", "blocks | turn left", "blocks | part train", "pictures:size=9,fit=x"]
)
def test_a_wrong_option_or_view_is_neither_an_unknown_world_nor_a_missing_file(spec: str) -> None:
    with pytest.raises(RequestError) as caught:
        _ = world(spec).label
    assert type(caught.value) is RequestError
