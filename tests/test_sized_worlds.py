"""Drawn worlds at another side show the same pictures, drawn anew."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sober.errors import RequestError
from sober.types import WorldSpec
from sober.worlds import WORLDS, World, world
from sober.worlds.drawn.dsprites import DSprites, draw
from sober.worlds.drawn.sized import LARGEST, SMALLEST, Sized
from sober.worlds.world import Continuum

SIZED = [name for name, kind in WORLDS.items() if issubclass(kind, Sized) and name != "scream_dsprites"]


def halved(images: np.ndarray) -> np.ndarray:
    """Pictures of half the side: the mean of every four pixels."""
    n, height, width, channels = images.shape
    return images.reshape(n, height // 2, 2, width // 2, 2, channels).mean(axis=(2, 4))


def some(opened: World, count: int = 12) -> np.ndarray:
    return np.random.default_rng(0).integers(0, opened.size, count)


def test_every_world_that_sober_draws_has_any_side() -> None:
    drawn = {name for name, kind in WORLDS.items() if kind.origin == "drawn"}
    assert drawn == {*SIZED, "scream_dsprites"}


@pytest.mark.parametrize("side", [20, 90])
@pytest.mark.parametrize("name", SIZED)
def test_a_side_is_part_of_the_world(name: str, side: int) -> None:
    own, opened = world(name), world(name, size=side)
    assert opened.image_shape == (side, side, own.image_shape[2])
    assert opened.spec == f"{name}:size={side}"
    assert world(opened.spec).label == opened.label
    assert opened.label != own.label
    assert WorldSpec.parse(opened.label).options["size"] == str(side)
    assert f"{side} x {side}" in opened.summary or "x" not in own.summary
    assert opened.factors == own.factors


@pytest.mark.parametrize("name", SIZED)
def test_its_own_side_is_the_world_itself(name: str) -> None:
    own = world(name)
    same = world(name, size=own.image_shape[0])
    assert (same.label, same.spec) == (own.label, own.spec)


@pytest.mark.parametrize("name", [name for name in SIZED if name != "noisy_dsprites"])
def test_a_picture_of_twice_the_side_shows_the_same(name: str) -> None:
    own = world(name)
    twice = world(name, size=2 * own.image_shape[0])
    index = some(own)
    assert np.array_equal(own.labels(index), twice.labels(index))
    apart = np.abs(halved(twice.render(index)) - own.render(index)).mean(axis=(1, 2, 3))
    assert apart.max() < 3.5  # of 255: pixels at edges alone


@pytest.mark.parametrize("name", SIZED)
def test_large_pictures_do_not_depend_on_their_neighbours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = world(name, size=72)
    whole = opened.sample(5, 7).images
    monkeypatch.setattr(sys.modules["sober.worlds.world"], "BLOCK_NUMBERS", 3 * np.prod(opened.image_shape))
    in_blocks = opened.sample(5, 7).images
    assert np.abs(in_blocks.astype(int) - whole).max() <= 1  # programs of other shapes may round otherwise


def test_the_formula_of_dsprites_agrees_with_its_polygons() -> None:
    own = DSprites()
    index = some(own, 300)
    formula = np.asarray(draw(*jnp.unravel_index(jnp.asarray(index), own._sizes), side=64)) > 0
    differ = (formula != (own.render(index) > 0)).sum(axis=(1, 2, 3))
    assert differ.mean() < 0.3
    assert differ.max() <= 4


def test_views_on_demand_are_drawn_for_many_batches_at_once() -> None:
    opened = world("teapots", size=72)
    assert isinstance(opened, Continuum)
    keys = jax.random.split(jax.random.key(3), 2)
    together = jax.jit(jax.vmap(lambda key: opened.draw((), key, 3)))(keys)
    alone = jnp.stack([opened.draw((), key, 3) for key in keys])
    assert jnp.abs(together - alone).max() < 1e-5


@pytest.mark.parametrize("size", [SMALLEST - 1, LARGEST + 1, 0, "large", "64.5", ""])
def test_other_sides_are_refused_with_what_to_give(size: Any) -> None:
    with pytest.raises(RequestError, match=f"give the side of its pictures in pixels, {SMALLEST} to {LARGEST}$"):
        world("rooms", size=size)


def test_published_sprites_have_their_own_side() -> None:
    with pytest.raises(RequestError, match="give file=PATH or size=32, not both"):
        world("dsprites", file="there.npz", size=32)
