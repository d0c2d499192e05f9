"""What latents do in words: drawn discs that move, grow and change colour, and a model whose factors are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sober.results.latent_effects import effect_of, has_even_ground
from sober.results.latent_names import QUIET, factors_of_latents, latent_words, row_names
from sober.results.shipped import find_shipped
from sober.results.showcase_files import load_showcase

SIDE, STEPS = 32, np.linspace(-1, 1, 11)
RED, GREEN = np.array([1.0, 0.2, 0.2]), np.array([0.2, 1.0, 0.2])


def disc(
    x: float = 0.5, y: float = 0.5, width: float = 0.2, height: float = 0.2, lean: float = 0.0, colour: Any = (0.8,) * 3
) -> np.ndarray:
    """A filled ellipse on black."""
    down, across = (np.indices((SIDE, SIDE)) + 0.5) / SIDE
    far = ((across - x - lean * (y - down)) / width) ** 2 + ((down - y) / height) ** 2
    return np.clip(4 * (1.2 - far), 0, 1)[..., None] * np.asarray(colour)


def some_discs(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    places, sides = rng.uniform(0.35, 0.65, (24, 2)), rng.uniform(0.1, 0.3, (24, 2))
    leans, colours = rng.uniform(-0.6, 0.6, 24), rng.uniform(0.3, 1, (24, 3))
    described = zip(*places.T, *sides.T, leans, colours, strict=True)
    return np.stack([disc(*description) for description in described])


@pytest.mark.parametrize(
    ("words", "row"),
    [
        ("moves right", [disc(x=0.5 + 0.2 * step) for step in STEPS]),
        ("moves up", [disc(y=0.5 - 0.2 * step) for step in STEPS]),
        ("gets larger", [disc(width=0.2 + 0.1 * step, height=0.2 + 0.1 * step) for step in STEPS]),
        ("gets narrower", [disc(width=0.2 - 0.1 * step) for step in STEPS]),
        ("leans right", [disc(lean=0.8 * step) for step in STEPS]),
        ("gets brighter", [disc(colour=[0.6 + 0.35 * step] * 3) for step in STEPS]),
        ("changes colour", [disc(colour=(1 - step) / 2 * RED + (1 + step) / 2 * GREEN) for step in STEPS]),
        ("moves right, moves down", [disc(x=0.5 + 0.2 * step, y=0.5 + 0.2 * step) for step in STEPS]),
        ("", [disc() for _ in STEPS]),
        ("", [disc(x=0.5 + 0.002 * step) for step in STEPS]),  # less than can be seen
    ],
)
def test_what_changes_in_a_row_is_said(words: str, row: list[np.ndarray]) -> None:
    assert has_even_ground(some_discs())
    assert effect_of(np.stack(row), some_discs(), has_ground=True) == words


def test_what_goes_back_and_forth_has_no_direction() -> None:
    row = np.stack([disc(x=0.5 + 0.2 * np.cos(2 * np.pi * step)) for step in STEPS])
    assert "moves" not in effect_of(row, some_discs(), has_ground=True)


def test_noise_and_black_pictures_have_no_words() -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(size=(12, SIDE, SIDE, 3))
    assert not has_even_ground(noise)
    assert effect_of(noise[:11], noise, has_ground=False) == ""
    black = np.zeros((11, SIDE, SIDE, 1))
    assert not has_even_ground(black)
    for has_ground in (False, True):
        assert effect_of(black, black, has_ground=has_ground) == ""


def test_without_an_even_ground_the_words_say_only_where_colours_or_pixels_change() -> None:
    rng = np.random.default_rng(1)
    scenes = np.stack([scene(*rng.uniform(0.1, 0.9, (2, 3))) for _ in range(24)])
    assert not has_even_ground(scenes)
    row = np.stack([scene(RED, (1 - step) / 2 * RED + (1 + step) / 2 * GREEN) for step in STEPS])
    assert effect_of(row, scenes, has_ground=False).startswith("changes colour in the lower half")
    spots = np.stack([scene(RED, GREEN) for _ in STEPS])
    spots[:, 2:10, 2:10] *= (0.5 + STEPS / 2)[:, None, None, None]
    assert effect_of(spots, scenes, has_ground=False) in ("changes the upper half", "changes the left half")


def test_pictures_of_which_few_have_an_even_ground_have_no_figures() -> None:
    rng = np.random.default_rng(2)
    smooth = [np.full((SIDE, SIDE, 3), light) for light in rng.uniform(0, 1, 6)]
    gradients = [
        np.linspace(low, high, SIDE)[:, None, None] * np.ones((1, SIDE, 3)) for low, high in rng.random((6, 2))
    ]
    photographs = np.stack([*smooth, *gradients])
    assert not has_even_ground(photographs)
    row = np.stack([np.full((SIDE, SIDE, 3), (step + 1) / 2) for step in STEPS])
    assert effect_of(row, photographs, has_ground=False) == "gets brighter"


def test_a_figure_that_changes_its_shape_does_not_get_brighter() -> None:
    row = np.stack([disc(width=0.3 - 0.2 * (step + 1) / 2, colour=[0.5 + 0.3 * (step + 1) / 2] * 3) for step in STEPS])
    assert "brighter" not in effect_of(row, some_discs(), has_ground=True)


def scene(sky: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Two halves of different colours."""
    picture = np.broadcast_to(np.asarray(sky), (SIDE, SIDE, 3)).copy()
    picture[SIDE // 2 :] = floor
    return picture


def test_words_from_pictures_alone_agree_with_the_factors_of_a_trained_model() -> None:
    arrays, description = load_showcase(find_shipped("rooms_on_a_cpu") / "shown" / "f98ce6ad35a1fac7.safetensors")
    unlabelled = latent_words(arrays, {**description, "factors": []})
    by_factor = dict(zip(factors_of_latents(arrays, description), unlabelled, strict=True))
    assert by_factor["floor_hue"] == "changes colour in the lower half"
    assert by_factor["wall_hue"] == "changes colour in the upper half"
    assert by_factor["object_hue"] == "changes colour in the middle"
    assert "colour" not in by_factor["scale"] + by_factor["shape"] + by_factor["orientation"]
    assert [unlabelled[latent] for latent in np.flatnonzero(arrays["kl"] < QUIET)] == ["", "", ""]
    assert "floor hue" in row_names(arrays, description)
    assert f"latent {int(np.argmin(arrays['kl']))}" in row_names(arrays, {**description, "factors": []})
