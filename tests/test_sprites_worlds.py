"""The worlds made of dSprites' objects: what is nuisance is drawn as the study draws it, and the objects stay."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image
from scipy.stats import chisquare, kstest

from sober.errors import RequestError
from sober.worlds import Grid, World, world
from sober.worlds.drawn import dsprites, scream_dsprites
from sober.worlds.drawn.abstract_dsprites import COLOURS, GREYS, AbstractDSprites
from sober.worlds.drawn.color_dsprites import ColorDSprites
from sober.worlds.drawn.noisy_dsprites import NoisyDSprites
from sober.worlds.drawn.scream_dsprites import ScreamDSprites
from sober.worlds.drawn.sprites import sprites

INDEX = np.linspace(0, 737_279, 200).astype(int)


@pytest.fixture(scope="module")
def objects() -> np.ndarray:
    """Which pixels of some pictures belong to the object."""
    return sprites(None).render(INDEX) > 0


@pytest.fixture(scope="module")
def texture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small picture of noise, 66 x 65 pixels: six patches, no two alike."""
    path = tmp_path_factory.mktemp("texture") / "texture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (66, 65, 3), np.uint8)).save(path)
    return path


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_color_dsprites_paints_the_object_in_one_colour_on_black(objects: np.ndarray) -> None:
    images = world("color_dsprites").render(INDEX)
    np.testing.assert_array_equal((images > 0).all(axis=-1), objects[..., 0])
    assert not images[~objects[..., 0]].any()
    colours = images.max(axis=(1, 2))  # (picture, channel)
    np.testing.assert_array_equal(images, objects * colours[:, None, None])
    assert kstest((colours / 255).ravel(), "uniform", (0.5, 0.5)).pvalue > 0.01
    assert np.abs(np.corrcoef(colours.T) - np.eye(3)).max() < 0.2


def test_noisy_dsprites_shows_a_white_object_on_noise(objects: np.ndarray) -> None:
    images = world("noisy_dsprites").render(INDEX)
    assert (images[objects[..., 0]] == 255).all()
    noise = images[~objects[..., 0]]  # (pixel, channel)
    assert chisquare(np.bincount(noise.ravel(), minlength=256)).pvalue > 0.01
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.01
    assert np.abs(np.corrcoef(noise[:-1].T, noise[1:].T)[:3, 3:]).max() < 0.01  # a pixel and the next


def test_scream_dsprites_inverts_the_object_on_a_shaded_patch(objects: np.ndarray, texture: Path) -> None:
    images = ScreamDSprites(image=str(texture)).render(INDEX) / 255
    background = np.where(objects, 1 - images, images)
    painting = np.array(Image.open(texture)) / 255
    patches = np.stack([painting[y : y + 64, x : x + 64] for y in range(3) for x in range(2)])
    # Twice the background less its patch is one colour all over; less any other patch it is noise.
    shades = 2 * background[:, None] - patches  # (picture, patch, row, column, channel)
    spread = np.ptp(shades, axis=(2, 3)).max(axis=-1)
    which = spread.argmin(axis=1)
    assert np.sort(spread, axis=1)[:, 0].max() < 0.01
    assert np.sort(spread, axis=1)[:, 1].min() > 0.5
    assert chisquare(np.bincount(which, minlength=6)).pvalue > 0.01
    colours = shades[np.arange(len(which)), which].mean(axis=(1, 2))
    assert kstest(colours.ravel(), "uniform").pvalue > 0.01
    assert np.abs(np.corrcoef(colours.T) - np.eye(3)).max() < 0.2


@pytest.fixture(params=[AbstractDSprites, ColorDSprites, NoisyDSprites, ScreamDSprites])
def stochastic(request: pytest.FixtureRequest, texture: Path) -> World:
    options = {"image": str(texture)} if request.param is ScreamDSprites else {}
    return request.param(**options)


def test_nuisance_is_drawn_anew_with_every_key_and_is_each_pictures_own(stochastic: World) -> None:
    assert stochastic.stochastic
    pixels = jax.jit(stochastic.pixels)
    index = INDEX[:50]
    one, again, other = (np.asarray(pixels(stochastic.data, index, jax.random.key(k))) for k in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    least = 0.9 if isinstance(stochastic, AbstractDSprites) else 1.0  # a square may look the same turned
    assert (one != other).any(axis=(1, 2, 3)).mean() >= least
    backwards = np.asarray(pixels(stochastic.data, index[::-1], jax.random.key(0)))
    np.testing.assert_array_equal(backwards[::-1], one)
    assert one.min() >= 0
    assert one.max() <= 1


def test_a_family_draws_what_each_of_its_models_would(stochastic: World) -> None:
    draw = jax.jit(functools.partial(stochastic.draw, n=4))
    together = jax.jit(jax.vmap(functools.partial(stochastic.draw, n=4), in_axes=(None, 0)))
    keys = jax.random.split(jax.random.key(4), 2)
    alone = np.stack([draw(stochastic.data, key) for key in keys])
    np.testing.assert_allclose(together(stochastic.data, keys), alone, atol=1e-6)


def test_variants_share_one_copy_of_the_objects(texture: Path) -> None:
    worlds = ColorDSprites(), NoisyDSprites(), ScreamDSprites(image=str(texture))
    assert len({id(each.sprites) for each in worlds}) == 1


def test_the_painting_is_reduced_as_in_the_study(shared: Path) -> None:
    opened = ScreamDSprites(image=str(shared / "data" / "the_scream.jpg"))
    assert opened.painting.shape == (274, 215, 3)  # of 652 x 512
    images = opened.render(INDEX)
    assert images.std(axis=(1, 2)).min() > 1
    assert len({image.tobytes() for image in images}) == len(images)


def test_another_picture_is_another_label_and_another_file_of_it_is_not(texture: Path, tmp_path: Path) -> None:
    painting = Image.open(texture)
    painting.save(tmp_path / "copy.bmp")
    painting.rotate(180).save(tmp_path / "turned.png")
    label = ScreamDSprites(image=str(texture)).label
    assert ScreamDSprites(image=str(tmp_path / "copy.bmp")).label == label
    assert ScreamDSprites(image=str(tmp_path / "turned.png")).label != label
    assert label.startswith("scream_dsprites:")
    assert world(ScreamDSprites(image=str(texture)).spec).label == label


def test_a_grey_picture_will_do(tmp_path: Path) -> None:
    Image.fromarray(np.full((80, 90), 51, np.uint8)).save(tmp_path / "grey.png")
    assert (ScreamDSprites(image=str(tmp_path / "grey.png")).painting == np.full((80, 90, 3), 51)).all()


@pytest.mark.parametrize("kind", ["missing", "a folder", "not a picture", "truncated", "narrow"])
def test_what_is_no_painting_is_refused(kind: str, texture: Path, tmp_path: Path) -> None:
    path = tmp_path / "painting.png"
    if kind == "a folder":
        path.mkdir()
    elif kind == "not a picture":
        path.write_bytes(b"not a picture")
    elif kind == "truncated":
        path.write_bytes(texture.read_bytes()[:5000])
    elif kind == "narrow":
        Image.new("RGB", (3500, 600)).save(path)  # 350 x 60 when reduced
    with pytest.raises(RequestError, match=r"painting\.png.*image=PATH") as caught:
        ScreamDSprites(image=str(path)).make_data()
    assert "\n" not in str(caught.value)


def test_the_painting_is_taken_from_the_cache(empty_cache: Path, texture: Path) -> None:
    expected = ScreamDSprites(image=str(texture)).painting
    empty_cache.mkdir(exist_ok=True)
    path = empty_cache / "the_scream.jpg"
    path.write_bytes(texture.read_bytes())
    assert (ScreamDSprites().painting == expected).all()
    assert ScreamDSprites().spec == "scream_dsprites"
    path.with_name("the_scream.jpg.sha256").write_text(hashlib.sha256(path.read_bytes()).hexdigest() + "\n")
    assert (ScreamDSprites().painting == expected).all()
    with open(path, "ab") as file:
        file.write(b"something else")
    with pytest.raises(RequestError, match="no longer what was downloaded"):
        _ = ScreamDSprites().painting


def test_without_the_painting_the_message_says_which_file_goes_where(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has published its checksum, so nothing is downloaded."""
    monkeypatch.setattr("socket.create_connection", lambda *_, **__: pytest.fail("a download"))
    with pytest.raises(RequestError) as caught:
        ScreamDSprites().make_data()
    for part in (scream_dsprites.SOURCE, str(empty_cache / "the_scream.jpg"), "scream_dsprites:image=PATH"):
        assert part in str(caught.value)
        assert part in (ScreamDSprites().absent() or "")
    assert "\n" not in str(caught.value)
    assert not (empty_cache / "the_scream.jpg").exists()


def abstract(index: np.ndarray, key: int) -> np.ndarray:
    """Pictures of abstract_dsprites as bytes, with orientations drawn by a key."""
    opened = world("abstract_dsprites")
    pixels = jax.jit(opened.pixels)(opened.data, index, jax.random.key(key))
    return np.round(255 * np.asarray(pixels)).astype(np.uint8)


def test_abstract_dsprites_has_the_factors_of_its_source() -> None:
    opened = world("abstract_dsprites")
    sizes = {factor.name: factor.size for factor in opened.factors}
    assert sizes == {"background": 5, "colour": 6, "shape": 3, "scale": 6, "x": 32, "y": 32}
    assert opened.factors[0].values == (0, 0.25, 0.5, 0.75, 1)
    assert opened.size == 552_960
    assert opened.label == "abstract_dsprites:2"  # its pictures were others once


def test_abstract_dsprites_shows_the_objects_of_dsprites_turned_at_random() -> None:
    opened, original = world("abstract_dsprites"), sprites(None)
    assert isinstance(opened, Grid)
    heart, scale, y = 2, 4, 7  # no turn leaves a heart as it is
    index = opened.index_of(np.array([[0, 3, heart, scale, x, y] for x in range(32)]))
    turns = []
    for key in range(5):
        masks = (abstract(index, key) > 0).any(axis=-1)  # on black
        for x, mask in enumerate(masks):
            turned = original.render(original.index_of(np.array([[heart, scale, turn, x, y] for turn in range(40)])))
            same = np.flatnonzero(((turned[..., 0] > 0) == mask).all(axis=(1, 2)))
            turns.append(same[0])  # where the first orientation matches so does the last, which is the same
    counts = np.bincount(turns, minlength=39)
    assert len(counts) == 39
    expected = len(turns) * np.array([2, *[1] * 38]) / 40
    assert chisquare(counts, expected).pvalue > 1e-3


def test_abstract_dsprites_has_one_colour_on_one_grey() -> None:
    opened = world("abstract_dsprites")
    assert isinstance(opened, Grid)
    for background, colour in np.ndindex(5, 6):
        image = opened.render(opened.index_of(np.array([[background, colour, 2, 5, 3, 1]])))[0]
        mask = (image == COLOURS[colour]).all(axis=-1)
        assert 200 < mask.sum() < 400
        assert (image[~mask] == np.round(255 * GREYS[background])).all()


def test_object_colours_are_equally_light_and_their_hues_equally_far_apart() -> None:
    rgb = COLOURS / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = to_xyz @ linear.T
    white = to_xyz @ np.ones(3)
    lightness = 116 * np.cbrt(y / white[1]) - 16
    total, of_white = x + 15 * y + 3 * z, white @ [1, 15, 3]
    u, v = 4 * x / total - 4 * white[0] / of_white, 9 * y / total - 9 * white[1] / of_white
    hue = np.degrees(np.unwrap(np.arctan2(v, u)))
    np.testing.assert_allclose(lightness, 69.3, atol=0.2)
    np.testing.assert_allclose(hue, 35.9 + 59.8 * np.arange(6), atol=1)


def test_variants_take_the_published_file(tmp_path: Path, texture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dsprites, "PUBLISHED", (360, 64, 64))
    images = (np.random.default_rng(0).random((360, 64, 64)) < 0.1).astype(np.uint8)
    path = tmp_path / "published.npz"
    np.savez(path, imgs=images)
    fingerprint = world(f"dsprites:file={path}").label.removeprefix("dsprites")
    for variant in ("color_dsprites", "noisy_dsprites"):
        opened = world(f"{variant}:file={path}")
        assert opened.spec == f"{variant}:file={path}"
        assert opened.label == variant + fingerprint
    assert world(f"abstract_dsprites:file={path}").label == "abstract_dsprites:2" + fingerprint
    for variant in ("color_dsprites", "noisy_dsprites"):
        opened = world(f"{variant}:file={path}")
        np.testing.assert_array_equal((opened.render(np.arange(9)) > 0)[images[:9] > 0], True)
    scream = ScreamDSprites(file=str(path), image=str(texture))
    assert scream.spec == f"scream_dsprites:file={path},image={texture}"
    assert scream.label == ScreamDSprites(image=str(texture)).label.replace(":", f"{fingerprint}:")
