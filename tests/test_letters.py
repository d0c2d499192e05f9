"""letters: each factor does what its name says, and letters are as heavy, tall and distinct as they should be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sober.worlds import world
from sober.worlds.drawn.letters import HUES, INK_LUMINANCE, PAPERS, PLACES, SIZES, SLANTS, Letters, ink_colours
from sober.worlds.drawn.typefaces import FIELD_SIDE, LETTERS, REACH, TYPEFACES, WEIGHTS, distance

# The mean colours of 4 x 4 parts of five pictures, row by row. A processor that rounds otherwise may differ by 1.
PINNED = (
    "fffffffef8f8fffffffffffffffdfdf9cfcfffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "1212141212141212141212141212141212142312252012221212142612282c122e2412261212142112232f1230151217"
    "1212141212141212141212141212141e12203212343a123c1212143212348013806c136d12121446134861136239123a"
    "1212141212141212141212141212141212142b122d1d121f1212141212143b123d1312151212141212142d122f121214"
    "1212141212141212141212141212141212143d123e3012311212141212145a135b1c121e1212142312255a135b131215"
)
ORDER = ["letter", "typeface", "weight", "slant", "size", "x", "y", "ink_hue", "paper"]
PLACE = ((np.arange(FIELD_SIDE) + 0.5) / FIELD_SIDE * 2 - 1) * REACH
every_letter = pytest.mark.parametrize("letter", LETTERS)
every_typeface = pytest.mark.parametrize("typeface", TYPEFACES)


@pytest.fixture(scope="module")
def letters() -> Letters:
    opened = world("letters")
    assert isinstance(opened, Letters)
    return opened


def ink(letters: Letters, **factors: object) -> np.ndarray:
    """The share of ink in each pixel, on white paper. Other factors have their first class."""
    first = dict.fromkeys(ORDER, 0)
    classes = np.broadcast_arrays(*(np.asarray({**first, **factors}[name]) for name in ORDER))
    images = letters.render(letters.index_of(np.stack([column.reshape(-1) for column in classes], axis=1)))
    return (255.0 - images[..., 1]) / (255 - 255 * ink_colours()[0, 1])  # red ink: green falls with its share


def covered(letter: str, typeface: str, weight: float) -> np.ndarray:
    """The share of ink of a letter in its field, upwards first."""
    return np.clip(0.5 - distance(letter, typeface, weight, PLACE) * FIELD_SIDE / (2 * REACH), 0, 1)


def test_factors_are_these(letters: Letters) -> None:
    assert [factor.name for factor in letters.factors] == ORDER
    assert [factor.size for factor in letters.factors] == [26, 3, 4, 3, 4, 4, 4, 6, 4]
    assert letters.size == 26 * 3 * 4 * 3 * 4 * 4 * 4 * 6 * 4
    assert f"{letters.size:,} pictures" in letters.summary


def test_pictures_of_64_pixels_stay_as_they_are(letters: Letters) -> None:
    index = np.linspace(0, letters.size - 1, 5).astype(int)
    means = letters.render(index).reshape(5, 4, 16, 4, 16, 3).mean(axis=(2, 4))
    assert np.abs(means - np.frombuffer(bytes.fromhex(PINNED), np.uint8).reshape(5, 4, 4, 3)).max() < 1.5


@every_letter
@every_typeface
def test_a_letter_is_as_tall_as_its_line_and_lies_within_its_field(letter: str, typeface: str) -> None:
    for weight in WEIGHTS:
        rows = np.flatnonzero(covered(letter, typeface, weight).max(axis=1) > 0.5)
        texel = 2 * REACH / FIELD_SIDE
        assert PLACE[rows[0]] == pytest.approx(-0.5, abs=1.5 * texel)
        assert PLACE[rows[-1]] == pytest.approx(0.5, abs=1.5 * texel)
        field = distance(letter, typeface, weight, PLACE)
        assert min(field[0].min(), field[-1].min(), field[:, 0].min(), field[:, -1].min()) > 0.02


@every_letter
@every_typeface
def test_more_weight_is_more_ink(letter: str, typeface: str) -> None:
    amounts = [covered(letter, typeface, weight).sum() for weight in WEIGHTS]
    assert (np.diff(amounts) > 0.1 * amounts[0]).all()


def test_letters_differ_from_each_other_in_every_typeface_and_typefaces_in_every_letter() -> None:
    shapes = np.stack([[covered(letter, face, WEIGHTS[1]) for face in TYPEFACES] for letter in LETTERS])
    apart = np.abs(shapes[:, None] - shapes[None]).sum(axis=(-1, -2)) / shapes.sum(axis=(-1, -2)).mean()
    assert (apart[~np.eye(len(LETTERS), dtype=bool)] > 0.08).all()
    for faces in shapes:
        for one, other in itertools.combinations(faces, 2):
            assert np.abs(one - other).sum() > 0.04 * one.sum()


def test_a_stem_is_as_wide_as_the_weight_says() -> None:
    for weight in WEIGHTS:
        stem = covered("I", "sans", weight)[FIELD_SIDE // 2].sum() * 2 * REACH / FIELD_SIDE
        assert stem == pytest.approx(weight, abs=2e-3)


def test_x_and_y_move_the_letter(letters: Letters) -> None:
    amount = ink(letters, letter=14, x=np.arange(4)[:, None], y=np.arange(4))  # an O
    amount = amount.reshape(4, 4, 64, 64)
    middle = (np.arange(64) + 0.5) / 64
    x = (amount.sum(axis=2) * middle).sum(axis=-1) / amount.sum(axis=(-1, -2))
    y = (amount.sum(axis=3) * middle).sum(axis=-1) / amount.sum(axis=(-1, -2))
    np.testing.assert_allclose(x, np.broadcast_to(PLACES[:, None], (4, 4)), atol=3e-3)
    np.testing.assert_allclose(y, np.broadcast_to(PLACES, (4, 4)), atol=3e-3)


def test_size_is_the_height_of_the_letter(letters: Letters) -> None:
    amount = ink(letters, letter=8, weight=3, size=np.arange(4), x=1, y=1)  # an I
    heights = amount.sum(axis=1).max(axis=1) / 64
    np.testing.assert_allclose(heights, SIZES, atol=0.01)


def test_slant_leans_the_letter_to_the_right(letters: Letters) -> None:
    amount = ink(letters, letter=8, weight=1, size=3, x=1, y=1, slant=np.arange(3))
    row = np.arange(64)
    for image, slant in zip(amount, SLANTS, strict=True):
        inside = image.sum(axis=1) > 0.6 * image.sum(axis=1).max()
        centre = (image * (np.arange(64) + 0.5)).sum(axis=1)[inside] / image.sum(axis=1)[inside]
        slope = -np.polyfit(row[inside], centre, 1)[0]
        assert np.degrees(np.arctan(slope)) == pytest.approx(slant, abs=1)


def test_every_ink_can_be_read_on_every_paper() -> None:
    weights = (0.2126, 0.7152, 0.0722)
    inks = ink_colours() ** 2.2 @ np.array(weights)
    np.testing.assert_allclose(inks, INK_LUMINANCE, atol=1e-3)
    assert len({tuple(colour) for colour in ink_colours()}) == len(HUES)
    for paper in PAPERS.values():
        luminance = np.array(paper) ** 2.2 @ np.array(weights)
        light, dark = max(luminance, INK_LUMINANCE) + 0.05, min(luminance, INK_LUMINANCE) + 0.05
        assert light / dark > 3  # the contrast that guidelines ask for large letters


def test_corners_are_paper_alone(letters: Letters) -> None:
    for size in (8, 64, 300):
        opened = world("letters", size=size)
        index = np.random.default_rng(0).integers(0, opened.size, 40)
        papers = np.rint(255 * np.array(list(PAPERS.values()))).astype(int)
        corners = opened.render(index)[:, [0, 0, -1, -1], [0, -1, 0, -1]].astype(int)
        assert np.abs(corners - papers[opened.labels(index)[:, -1]][:, None]).max() <= (60 if size == 8 else 0)
