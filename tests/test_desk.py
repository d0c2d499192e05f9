"""desk: what each factor does to the picture, and that layers lie over each other as things do."""

from __future__ import annotations

import numpy as np
import pytest

from sober.worlds import world
from sober.worlds.drawn import desk_things
from sober.worlds.drawn.desk import Desk
from sober.worlds.drawn.desk_views import ANGLES, BEHIND, PLACES, TURNS, Layers, View, camera
from sober.worlds.drawn.solids import cast
from sober.worlds.drawn.wood import WOODS, wood

# The mean colours of 4 x 4 parts of five pictures, row by row. A processor that rounds otherwise may differ by 1.
PINNED = (
    "5e615e5e615e64534c5a605c6f665b8c65508273566b5b45793827b5673ad7965dcf885386623ea174439f7343986e43"
    "9aada898a7a19a9f97918f8794805d8e7f699c9475877c62976427844333a9615f77462b97502c9e533b904e468c4c2c"
    "9aada898a7a19a9f97918f8776886484826c9c9475877c62667133764737a9615f77462b97502c9e533b904e468c4c2c"
    "9aada898a7a19a9f97918f8776717c847a749c9475877c62664a59763c42a9615f77462b97502c9e533b904e468c4c2c"
    "9aada898a7a19a9f97918f87946a748e77719c9475877c62973e4d84383ea9615f77462b97502c9e533b904e468c4c2c"
)
ORDER = ["mug_hue", "book_hue", "wood", "daylight", "thing", "place", "book_turn", "camera"]


@pytest.fixture(scope="module")
def desk() -> Desk:
    opened = world("desk")
    assert isinstance(opened, Desk)
    return opened


@pytest.fixture(scope="module")
def layers(desk: Desk) -> Layers:
    return Layers(*(np.asarray(layer) for layer in desk.data))


def pictures(desk: Desk, **factors: object) -> np.ndarray:
    """Pictures with these classes, from 0 to 255; a factor that is not given has a class in the middle."""
    middle = {factor.name: factor.size // 2 for factor in desk.factors}
    classes = np.broadcast_arrays(*(np.asarray({**middle, **factors}[name]) for name in ORDER))
    return desk.render(desk.index_of(np.stack([column.reshape(-1) for column in classes], axis=1))).astype(int)


def parts(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), 4, 16, 4, 16, 3).mean(axis=(2, 4))


def test_factors_are_these(desk: Desk) -> None:
    assert [factor.name for factor in desk.factors] == ORDER
    assert [factor.size for factor in desk.factors] == [8, 8, 4, 5, 5, 7, 5, 5]
    assert {factor.kind for factor in desk.factors} == {"cyclic", "categorical", "ordinal"}


def test_pictures_of_64_pixels_stay_as_they_are(desk: Desk) -> None:
    index = np.linspace(0, desk.size - 1, 5).astype(int)
    pinned = np.frombuffer(bytes.fromhex(PINNED), np.uint8).reshape(5, 4, 4, 3)
    assert np.abs(parts(desk.render(index)) - pinned).max() < 1.5


@pytest.mark.parametrize(("factor", "surface"), [("mug_hue", "mug"), ("book_hue", "book")])
def test_a_hue_colours_its_own_surface_alone(desk: Desk, layers: Layers, factor: str, surface: str) -> None:
    images = pictures(desk, **{factor: np.arange(8)})
    changed = (images != images[:1]).any(axis=(0, 3))
    tinted = layers.still_light[2, :, 1] if surface == "mug" else layers.book_light[2, 2, :, 0]
    assert not changed[(tinted == 0).all(axis=0)].any()
    assert changed.mean() > 0.03


def test_more_daylight_is_brighter_by_the_window_and_less_lamplight_under_the_lamp(desk: Desk) -> None:
    images = pictures(desk, daylight=np.arange(5))
    wall = images[:, :8, :8].mean(axis=(1, 2, 3))
    assert (np.diff(wall) > 8).all()
    warmth = (images[..., 0] - images[..., 2])[:, 30:36, 36:44].mean(axis=(1, 2))  # on the desk, in the beam
    assert warmth[0] > warmth[-1] + 20


def test_the_thing_moves_to_the_right(layers: Layers) -> None:
    share = layers.thing_share[..., 0, :, :].astype(float)  # (camera, thing, place, H, W)
    column = (share.sum(axis=-2) * np.arange(64)).sum(axis=-1) / share.sum(axis=(-1, -2))
    assert (np.diff(column, axis=2) > 1).all()


def test_the_thing_can_be_seen_wherever_it_is(layers: Layers) -> None:
    covered = (layers.thing_share[..., 0, :, :] / 255).sum(axis=(-1, -2))
    assert covered.min() > 20  # pixels


def test_the_book_turns_and_stays_in_its_place(layers: Layers) -> None:
    share = layers.book_share[2, :, 0] / 255
    assert share.sum(axis=(1, 2)).min() > 200
    for one in range(len(TURNS)):
        for other in range(one):
            assert np.abs(share[one] - share[other]).sum() > 20


def test_the_book_is_always_in_front_of_the_thing() -> None:
    for angle in ANGLES[[0, 2, 4]]:
        eye, ray = camera(angle, 16)
        books = np.stack([cast(desk_things.book(turn), eye, ray) for turn in np.radians(TURNS)])
        for name in desk_things.THINGS:
            for place in PLACES[::2]:
                thing = cast(desk_things.thing(name, (place, BEHIND)), eye, ray)
                both = np.isfinite(books) & np.isfinite(thing)
                assert (books < thing)[both].all()


def test_what_stands_in_front_hides_the_thing() -> None:
    view = View(ANGLES[0], 32)
    mug = view.tinted.reshape(-1, 32, 32).all(axis=0)
    for name in desk_things.THINGS:
        assert not view.thing(name, PLACES[0]).share[0][mug].any()


@pytest.mark.parametrize("layer", ["thing_left", "book_left"])
def test_things_throw_shadows_beside_them(layers: Layers, layer: str) -> None:
    left = getattr(layers, layer)
    share = getattr(layers, layer.replace("left", "share"))
    beside = share == 0
    for lamp in range(2):
        dark = (left[..., lamp : lamp + 1, :, :] < 200) & beside
        assert dark.sum(axis=(-1, -2)).min() > 2


def test_shadows_of_window_and_lamp_fall_to_other_sides(layers: Layers) -> None:
    ball, middle = 1, 3
    left = layers.thing_left[2, ball, middle].astype(float)
    share = layers.thing_share[2, ball, middle, 0]
    centre = (share.sum(axis=0) * np.arange(64)).sum() / share.sum()
    shadow = np.where(share == 0, 255 - left, 0) * (np.arange(64)[:, None] > 26)  # on the desk top
    window, lamp = ((dark.sum(axis=0) * np.arange(64)).sum() / dark.sum() for dark in shadow)
    assert window > centre + 1
    assert lamp < centre - 1


def test_woods_differ_in_colour_and_in_grain() -> None:
    x, y = np.meshgrid(np.linspace(-1, 1, 100, dtype=np.float32), np.linspace(-1, 1, 100, dtype=np.float32))
    colours = np.stack([wood(name, x.ravel(), y.ravel()) for name in WOODS])
    assert colours.min() >= 0
    assert colours.max() <= 1
    for one in range(len(WOODS)):
        assert colours[one].std(axis=1).max() > 0.02
        for other in range(one):
            assert np.abs(colours[one].mean(axis=1) - colours[other].mean(axis=1)).max() > 0.08
            assert np.corrcoef(colours[one].mean(axis=0), colours[other].mean(axis=0))[0, 1] < 0.5
