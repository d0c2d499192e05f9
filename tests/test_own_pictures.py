"""People's own pictures: whatever a file holds, the world shows it as stated, or says why it does not."""

from __future__ import annotations

import io
import os
import re
import shutil
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import jax
import matplotlib.image
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import sober
from sober.errors import RequestError
from sober.evaluation.picture_sheets import contact_sheet
from sober.models.grid import grid
from sober.requests.train import train
from sober.types import WorldSpec
from sober.worlds import _opened, from_array, from_dataset, from_iterable, world
from sober.worlds.pictures.cached_pictures import record_path
from sober.worlds.pictures.frame import Frame
from sober.worlds.pictures.own_pictures import OwnPictures

EXIF_ORIENTATION = 0x0112


@pytest.fixture(autouse=True)
def kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for each test, so that what one has kept cannot help another."""
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pictures"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three colours and a grey, of different sizes and kinds, in nested folders."""
    folder = tmp_path / "photos"
    (folder / "deep" / "er").mkdir(parents=True)
    Image.new("RGB", (30, 20), (200, 10, 10)).save(folder / "red.png")
    Image.new("RGB", (20, 30), (10, 200, 10)).save(folder / "deep" / "green.bmp")
    Image.new("RGB", (20, 20), (10, 10, 200)).save(folder / "deep" / "er" / "blue.tiff")
    Image.new("L", (9, 9), 77).save(folder / "zz.png")
    return folder


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def only(path: Path, **options: Any) -> np.ndarray:
    """The one picture of a folder."""
    opened = OwnPictures(folder=path, **options)
    assert opened.size == 1
    return opened.pictures[0]


def image_of(array: np.ndarray) -> Image.Image:
    return Image.fromarray(array)


# Which pictures there are


def test_pictures_come_in_order_of_their_paths(photos: Path) -> None:
    opened = OwnPictures(folder=photos, size=8)
    assert opened.names == ("deep/er/blue.tiff", "deep/green.bmp", "red.png", "zz.png")
    expected = [(10, 10, 200), (10, 200, 10), (200, 10, 10), (77, 77, 77)]
    np.testing.assert_array_equal(opened.pictures[:, 4, 4], expected)
    np.testing.assert_array_equal(opened.render(np.arange(4)), opened.pictures)
    assert (opened.size, opened.image_shape, opened.factors) == (4, (8, 8, 3), ())


def test_hidden_files_and_what_is_not_a_picture_are_ignored(photos: Path) -> None:
    (photos / ".hidden.png").write_bytes((photos / "red.png").read_bytes())
    for folder in ("__MACOSX", ".thumbnails"):
        shutil.copytree(photos / "deep", photos / folder)
    (photos / "notes.txt").write_text("not a picture")
    (photos / "folder.png").mkdir()
    os.mkfifo(photos / "pipe.png")  # which would block whoever opens it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(OwnPictures(folder=photos).names) == 4


def test_an_archive_shows_what_its_folder_shows(photos: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "photos"), "zip", photos)
    zipped, plain = OwnPictures(folder=archive, size=8), OwnPictures(folder=photos, size=8)
    assert zipped.names == plain.names
    np.testing.assert_array_equal(zipped.pictures, plain.pictures)
    assert zipped.label == plain.label


def test_hostile_members_of_an_archive_write_nothing_and_stop_nothing(photos: Path, tmp_path: Path) -> None:
    picture = (photos / "red.png").read_bytes()
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / "hostile.zip", "w") as archive:
        names = ["../../up.png", "/rooted.png", "C:\\windows.png", "two\nlines.png", "__MACOSX/._x.png", "in/side.png"]
        for name in names:
            archive.writestr(name, picture)
        archive.writestr("folder.png/", b"")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("in/side.png", (photos / "zz.png").read_bytes())
    before = sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts)
    opened = OwnPictures(folder=place / "hostile.zip", size=8)
    assert opened.names == ("C:/windows.png", "in/side.png", "rooted.png", "two\nlines.png")
    assert opened.pictures[1, 0, 0].tolist() == [77, 77, 77]  # of two with one name the last
    assert sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts) == before


def test_a_damaged_member_of_an_archive_is_left_out(photos: Path, tmp_path: Path) -> None:
    path = Path(shutil.make_archive(str(tmp_path / "photos"), "zip", photos))
    with zipfile.ZipFile(path) as archive:
        offset = archive.getinfo("red.png").header_offset
    damaged = bytearray(path.read_bytes())
    damaged[offset + 45 : offset + 60] = bytes(15)
    path.write_bytes(damaged)
    with pytest.warns(UserWarning, match=r"1 of 4 files .*red\.png"):
        assert OwnPictures(folder=path).size == 3


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda path: None, "there is no folder or zip archive at"),
        (lambda path: path.mkdir(), "has no pictures: looked for files ending in"),
        (lambda path: path.write_text("text"), "cannot be read as a folder or zip archive"),
    ],
)
def test_a_place_without_pictures_is_refused(tmp_path: Path, made: Any, says: str) -> None:
    made(tmp_path / "place")
    with pytest.raises(RequestError, match=f"{tmp_path / 'place'}.*{says}|{says}.*{tmp_path / 'place'}"):
        OwnPictures(folder=tmp_path / "place")


# What a file may hold


@pytest.mark.parametrize("kind", ["png", "bmp", "tiff", "gif", "webp", "ppm"])
def test_a_picture_of_the_right_size_keeps_its_bytes(tmp_path: Path, kind: str) -> None:
    # Few colours, because a GIF has a palette.
    picture = np.array([[0, 0, 0], [255, 0, 9], [4, 200, 30]], np.uint8)[noise(16, 12) % 3]
    Image.fromarray(picture).save(tmp_path / f"one.{kind}", **({"lossless": True} if kind == "webp" else {}))
    for fit in ("crop", "pad", "stretch"):
        np.testing.assert_array_equal(only(tmp_path, size="16x12", fit=fit), picture)


def test_transparency_is_laid_on_white(tmp_path: Path) -> None:
    shades = np.array([[[100, 0, 0, 0], [100, 0, 0, 255]], [[100, 0, 0, 51], [0, 0, 0, 128]]], np.uint8)
    Image.fromarray(shades).save(tmp_path / "one.png")
    np.testing.assert_allclose(
        only(tmp_path, size=2), [[[255, 255, 255], [100, 0, 0]], [[224, 204, 204], [127, 127, 127]]], atol=1
    )


def test_grey_with_transparency_is_laid_on_white(tmp_path: Path) -> None:
    Image.fromarray(np.array([[[10, 0], [10, 255]]], np.uint8)).save(tmp_path / "one.png")
    np.testing.assert_array_equal(only(tmp_path, size="1x2")[..., 0], [[255, 10]])


def test_a_palette_is_looked_up_and_its_transparent_colour_is_white(tmp_path: Path) -> None:
    image = Image.fromarray(np.array([[0, 1, 2]], np.uint8), "P")
    image.putpalette([9, 8, 7, 200, 100, 50, 1, 2, 3])
    image.save(tmp_path / "one.png", transparency=2)
    np.testing.assert_array_equal(only(tmp_path, size="1x3"), [[[9, 8, 7], [200, 100, 50], [255, 255, 255]]])


@pytest.mark.parametrize("kind", ["png", "tiff", "pgm"])
def test_sixteen_bits_become_eight_without_clipping(tmp_path: Path, kind: str) -> None:
    deep = np.array([[0, 257, 32768, 65535]], np.uint16)
    Image.fromarray(deep).save(tmp_path / f"one.{kind}")
    np.testing.assert_array_equal(only(tmp_path, size="1x4")[..., 0], [[0, 1, 128, 255]])


def test_floats_between_0_and_1_are_read_and_others_are_not_guessed_at(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 0.5, 1]], np.float32)).save(tmp_path / "one.tiff")
    np.testing.assert_array_equal(only(tmp_path, size="1x3")[..., 0], [[0, 128, 255]])
    Image.fromarray(np.array([[0, 0.5, 900]], np.float32)).save(tmp_path / "one.tiff")
    with pytest.raises(RequestError, match="from 0 to 900, and white would be 1"):
        OwnPictures(folder=tmp_path)


def test_one_bit_and_cmyk_pictures_are_read(tmp_path: Path) -> None:
    Image.fromarray(np.array([[True, False]])).save(tmp_path / "a.png")
    Image.new("CMYK", (2, 1), (0, 255, 255, 0)).save(tmp_path / "b.tiff")
    opened = OwnPictures(folder=tmp_path, size="1x2")
    np.testing.assert_array_equal(opened.pictures, [[[[255] * 3, [0] * 3]], [[[255, 0, 0]] * 2]])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photograph_stands_as_its_camera_was_held(tmp_path: Path, orientation: int) -> None:
    upright = np.zeros((32, 48, 3), np.uint8)
    upright[:16, :24], upright[:16, 24:], upright[16:, :24] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    # What the sensor saw: the inverse of the turn that the tag asks for.
    seen = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.swapaxes(0, 1),
        6: np.rot90,
        7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
        8: lambda a: np.rot90(a, -1),
    }[orientation](upright)
    exif = Image.Exif()
    exif[EXIF_ORIENTATION] = orientation
    Image.fromarray(np.ascontiguousarray(seen)).save(tmp_path / "one.jpg", exif=exif, quality=95, subsampling=0)
    np.testing.assert_allclose(only(tmp_path, size="32x48")[4::8, 4::8], upright[4::8, 4::8], atol=12)


def test_a_large_photograph_is_scaled_as_if_decoded_whole(tmp_path: Path) -> None:
    """A JPEG may be decoded at a fraction of its size; the result is the same to a few shades."""
    down, across = np.mgrid[:900, :1201]
    smooth = np.stack([across / 1200, down / 899, 0.5 + 0.5 * np.sin(across / 90)], axis=-1)
    Image.fromarray((255 * smooth).astype(np.uint8)).save(tmp_path / "one.jpg", quality=95, subsampling=0)
    Image.open(tmp_path / "one.jpg").save(tmp_path / "two.png")
    opened = OwnPictures(folder=tmp_path, size=48)
    np.testing.assert_allclose(opened.pictures[0].astype(int), opened.pictures[1].astype(int), atol=4)


def test_of_an_animation_the_first_picture_counts(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    frames[0].save(tmp_path / "one.gif", save_all=True, append_images=frames[1:], duration=50)
    np.testing.assert_array_equal(only(tmp_path, size=1), [[[255, 0, 0]]])


# What cannot be read


@pytest.fixture
def some_unreadable(photos: Path) -> Path:
    buffer = io.BytesIO()
    image_of(noise(64, 64, 3)).save(buffer, "JPEG")
    (photos / "cut.jpg").write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    (photos / "text.png").write_text("not a picture at all")
    (photos / "empty.gif").write_bytes(b"")
    (photos / "a\nb.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (photos / "gone.png").symlink_to(photos / "nowhere.png")
    return photos


def test_unreadable_files_are_told_counted_and_listed(some_unreadable: Path, kept_here: Path) -> None:
    with pytest.warns(UserWarning, match=r"5 of 9 files .* are left out: 'a\\nb\.png' \(.*cut\.jpg \(.*, …"):
        opened = OwnPictures(folder=some_unreadable, size=8)
    assert opened.names == ("deep/er/blue.tiff", "deep/green.bmp", "red.png", "zz.png")
    (listing,) = kept_here.glob("*.unreadable.txt")
    lines = listing.read_text().splitlines()
    assert [line.split(": ")[0] for line in lines] == [r"'a\nb.png'", "cut.jpg", "empty.gif", "gone.png", "text.png"]
    assert "truncated" in lines[1]
    assert lines[4] == "text.png: not a picture"


def test_unreadable_files_are_told_every_time(some_unreadable: Path) -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match="5 of 9 files"):
            OwnPictures(folder=some_unreadable)


def test_pictures_are_read_where_the_system_cannot_bind_a_process_to_cores(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    assert len(OwnPictures(folder=photos, size=8).pictures) == 4
    assert len(from_iterable(noise(3, 8, 8), size=8).pictures) == 3


def test_a_folder_with_nothing_readable_is_refused(tmp_path: Path, kept_here: Path) -> None:
    for name in "abcde":
        (tmp_path / f"{name}.png").write_text("text")
    with pytest.raises(RequestError, match=r"none of 5 files in .* a\.png \(not a picture\), b.*, …"):
        OwnPictures(folder=tmp_path)
    assert list(kept_here.iterdir()) == []


def test_an_archive_member_that_would_fill_memory_is_left_out(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = shutil.make_archive(str(tmp_path / "photos"), "zip", photos)
    monkeypatch.setattr("sober.worlds.pictures.picture_files.LARGEST_FILE", 1000)
    with pytest.warns(UserWarning, match=r"blue\.tiff \(larger than 1,000 bytes\), deep/green\.bmp"):
        assert OwnPictures(folder=archive).size == 2


# The frame

sides = st.integers(1, 40)
fits = st.sampled_from(["crop", "pad", "stretch"])


@settings(max_examples=150, deadline=None)
@given(
    height=sides,
    width=sides,
    out_height=sides,
    out_width=sides,
    fit=fits,
    grey=st.booleans(),
    shade=st.binary(min_size=3, max_size=3),
)
def test_shapes_are_exact_and_constants_stay_constant(
    height: int, width: int, out_height: int, out_width: int, fit: str, grey: bool, shade: bytes
) -> None:
    frame = Frame.of(f"{out_height}x{out_width}", fit, "grey" if grey else "rgb")
    image = Image.new("RGB", (width, height), (shade[0],) * 3 if grey else tuple(shade))
    out = frame.fitted(image)
    assert out.shape == (out_height, out_width, 1 if grey else 3) == frame.shape
    colour = np.frombuffer(shade, np.uint8)[: out.shape[2]]
    same = (out == colour).all(axis=-1)
    if fit != "pad":
        assert same.all()
        return
    # Padding: a centred rectangle that touches two opposite edges, of the picture's aspect to within a pixel.
    scale = max(width / out_width, height / out_height)
    tall, wide = max(1, round(height / scale)), max(1, round(width / scale))
    top, left = (out_height - tall) // 2, (out_width - wide) // 2
    assert tall == out_height or wide == out_width
    assert same[top : top + tall, left : left + wide].all()
    outside = np.ones(same.shape, bool)
    outside[top : top + tall, left : left + wide] = False
    assert (out[outside] == 0).all()


@settings(max_examples=60, deadline=None)
@given(
    height=st.integers(20, 90),
    width=st.integers(20, 90),
    out=st.integers(16, 48),
    fit=fits,
    where=st.tuples(*[st.floats(0.35, 0.65)] * 2),
)
def test_a_spot_is_where_the_rule_puts_it(
    height: int, width: int, out: int, fit: str, where: tuple[float, float]
) -> None:
    """Crop and pad keep the aspect: one scale for both directions, about the centre; stretch has two."""
    row, column = int(where[0] * height), int(where[1] * width)
    picture = np.zeros((height, width), np.uint8)
    picture[row : row + 3, column : column + 3] = 255
    fitted = Frame.of(out, fit, "grey").fitted(image_of(picture))[..., 0].astype(float)
    across, down = width / out, height / out
    scale = {"crop": (min(across, down),) * 2, "pad": (max(across, down),) * 2, "stretch": (down, across)}[fit]
    expected = [
        (at + 1.5 - side / 2) / s + out / 2 for at, side, s in zip((row, column), (height, width), scale, strict=True)
    ]
    if all(2 < at < out - 2 for at in expected):  # wholly inside, so that its centre is its centre
        middle = np.arange(out) + 0.5
        found = fitted.sum(1) @ middle / fitted.sum(), fitted.sum(0) @ middle / fitted.sum()
        # Pad rounds to whole pixels: half of one in its place, half of one in its size.
        np.testing.assert_allclose(found, expected, atol=1.1 if fit == "pad" else 0.35)


def test_crop_shows_the_middle_and_pad_shows_all(tmp_path: Path) -> None:
    wide = np.repeat(np.arange(0, 240, 10, dtype=np.uint8)[None], 8, axis=0)  # (8, 24)
    image_of(wide).save(tmp_path / "one.png")
    np.testing.assert_array_equal(only(tmp_path, size=8, fit="crop")[..., 0], wide[:, 8:16])
    padded = only(tmp_path, size=24, fit="pad")[..., 0]
    np.testing.assert_array_equal(padded[8:16], wide)
    assert not padded[:8].any()
    assert not padded[16:].any()


def test_a_very_long_picture_still_fits() -> None:
    for fit in ("crop", "pad", "stretch"):
        for shape in ((1, 5000), (5000, 1)):
            out = Frame.of(16, fit, "grey").fitted(image_of(np.full(shape, 200, np.uint8)))
            assert out.shape == (16, 16, 1)
            assert out.max() == 200


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": "big"}, "size=big is not a size"),
        ({"size": 0}, "size=0 is not a size"),
        ({"size": "64x"}, "size=64x is not a size"),
        ({"size": 100_000}, "size=100000 is not a size"),
        ({"fit": "squeeze"}, "fit=squeeze is unknown: choose one of crop, pad, stretch"),
        ({"mode": "sepia"}, "mode=sepia is unknown: choose one of auto, grey, rgb"),
    ],
)
def test_a_frame_that_is_none_is_refused(photos: Path, options: Any, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        OwnPictures(folder=photos, **options)


def test_colours_are_kept_unless_every_picture_is_grey(photos: Path) -> None:
    assert OwnPictures(folder=photos).image_shape == (64, 64, 3)
    assert OwnPictures(folder=photos, mode="grey").image_shape == (64, 64, 1)
    for name in ("red.png", "deep/green.bmp", "deep/er/blue.tiff"):
        (photos / name).unlink()
    Image.new("RGB", (5, 5), (8, 8, 8)).save(photos / "a.png")  # grey, though its file has three channels
    grey = OwnPictures(folder=photos)
    assert grey.image_shape == (64, 64, 1)
    np.testing.assert_array_equal(grey.pictures[:, 0, 0, 0], [8, 77])
    assert OwnPictures(folder=photos, mode="rgb").image_shape == (64, 64, 3)


def test_grey_is_the_luma_of_colours(photos: Path) -> None:
    colours = np.array([(10, 10, 200), (10, 200, 10), (200, 10, 10), (77, 77, 77)])
    grey = OwnPictures(folder=photos, mode="grey").pictures[:, 9, 9, 0]
    np.testing.assert_allclose(grey, colours @ [0.299, 0.587, 0.114], atol=1)


# The cache


def test_pictures_are_decoded_once_and_mapped_from_disk(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = OwnPictures(folder=photos)
    monkeypatch.setattr(Frame, "decode", lambda *_: pytest.fail("decoded again"))
    again = OwnPictures(folder=photos)
    assert isinstance(again.pictures, np.memmap)
    np.testing.assert_array_equal(again.pictures, first.pictures)
    assert again.names == first.names


@pytest.mark.parametrize("change", ["content", "new file", "renamed", "removed"])
def test_a_folder_that_changed_is_decoded_again(photos: Path, change: str) -> None:
    before = OwnPictures(folder=photos, size=8)
    label, names = before.label, before.names
    if change == "content":
        Image.new("RGB", (30, 20), (0, 99, 0)).save(photos / "red.png")
    elif change == "new file":
        Image.new("RGB", (30, 20), (0, 99, 0)).save(photos / "more.png")
    elif change == "renamed":
        (photos / "red.png").rename(photos / "a.png")
    else:
        (photos / "red.png").unlink()
    after = OwnPictures(folder=photos, size=8)
    assert after.label != label
    assert (after.names == names) == (change == "content")


def test_two_folders_with_like_files_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """Same names, same sizes, same times, as archives are often unpacked."""
    labels = []
    for name, shade in (("one", 10), ("two", 20)):
        (tmp_path / name).mkdir()
        Image.new("L", (8, 8), shade).save(tmp_path / name / "x.bmp")
        os.utime(tmp_path / name / "x.bmp", (0, 0))
        labels.append(OwnPictures(folder=tmp_path / name).label)
    assert labels[0] != labels[1]


def test_a_damaged_cache_is_made_again(photos: Path, kept_here: Path) -> None:
    label = OwnPictures(folder=photos).label
    (path,) = kept_here.glob("*.npy")
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.warns(UserWarning, match=r"is damaged.*decoding .*photos again"):
        assert OwnPictures(folder=photos).label == label


def test_where_the_cache_cannot_be_written_a_folder_is_held_in_memory(
    some_unreadable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.warns(UserWarning, match="left out"):
        kept = OwnPictures(folder=some_unreadable)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "file"))
    with warnings.catch_warnings(record=True) as warned:
        held = OwnPictures(folder=some_unreadable)
    cannot, left_out = (str(each.message) for each in warned)
    assert re.search(r"could not be cached.*SOBER_CACHE", cannot)
    assert re.search("left out", left_out)
    assert "listed in" not in left_out
    assert (held.label, held.names) == (kept.label, kept.names)
    np.testing.assert_array_equal(held.pictures, kept.pictures)


def test_pictures_given_from_python_need_a_cache_to_be_found_in_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "file"))
    with pytest.raises(RequestError, match="cannot write to"):
        from_array(noise(3, 8, 8))


def test_damaged_pictures_that_were_given_from_python_are_asked_for_again(kept_here: Path) -> None:
    pictures = noise(3, 8, 8)
    opened = from_array(pictures, {"n": [0, 1, 1]})
    damaged = WorldSpec.parse(opened.spec).options["cache"]
    (kept_here / f"{damaged}.labels.npy").write_bytes(b"")
    with pytest.warns(UserWarning, match="damaged.*give the pictures again"), pytest.raises(RequestError):
        OwnPictures(cache=damaged)
    np.testing.assert_array_equal(from_array(pictures, {"n": [0, 1, 1]}).labels(np.arange(3)), [[0], [1], [1]])


def test_an_interrupted_decoding_leaves_nothing_behind(
    photos: Path, kept_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Frame, "decode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        OwnPictures(folder=photos)
    assert list(kept_here.iterdir()) == []


def peak_bytes(function: Any) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_many_pictures_take_the_memory_of_a_few() -> None:
    """16 MB of pictures pass; most is the block in which they are copied."""
    from_iterable(np.zeros((1, 8, 8), np.uint8))  # what is imported once
    many = (noise(64, 64, 3, seed=at % 5) for at in range(1300))
    assert peak_bytes(lambda: from_iterable(many)) < 10e6


def test_a_folder_takes_the_memory_of_a_few(tmp_path: Path) -> None:
    image_of(noise(8, 8, 3)).save(tmp_path / "000.png")
    for at in range(1, 300):
        os.link(tmp_path / "000.png", tmp_path / f"{at:03}.png")
    opened: list[OwnPictures] = []
    assert peak_bytes(lambda: opened.append(OwnPictures(folder=tmp_path, size=160))) < 12e6
    assert opened[0].pictures.nbytes > 22e6


# The world


def test_a_world_is_opened_again_by_its_spec(photos: Path, tmp_path: Path) -> None:
    folder = photos.rename(tmp_path / "a, b=c; d:e")
    (folder / "t.csv").write_text(
        "file,shade,n\n"
        + "".join(
            f"{n},{s},{at // 2}\n"
            for at, (n, s) in enumerate(
                [("red.png", "dark"), ("deep/green.bmp", "light"), ("deep/er/blue.tiff", "dark"), ("zz.png", "light")]
            )
        )
    )
    spec = f"pictures:folder={folder},size=12x10,fit=pad,mode=grey,labels={folder}/t.csv,file=file,kinds=n:categorical"
    opened = world(spec)
    assert opened.spec == spec
    again = world(opened.spec)
    assert (again.image_shape, again.label, again.factors) == (opened.image_shape, opened.label, opened.factors)
    assert world(f"pictures:folder={folder}").spec == f"pictures:folder={folder}"


def test_a_relative_path_is_remembered_in_full(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos.parent)
    assert world("pictures:folder=photos").spec == f"pictures:folder={photos}"


def test_a_path_that_no_spec_can_hold_is_refused_when_it_is_asked_for(photos: Path, tmp_path: Path) -> None:
    opened = OwnPictures(folder=photos.rename(tmp_path / "a,size=3"))
    with pytest.raises(RequestError, match="rename it"):
        _ = opened.spec


def test_without_a_folder_it_is_listed_and_says_what_it_needs() -> None:
    opened = world("pictures")
    assert (opened.size, opened.factors, opened.spec) == (0, (), "pictures")
    for use in (lambda: opened.data, lambda: opened.sample(0, 1), lambda: opened.label):
        with pytest.raises(RequestError, match="pictures:folder=PATH"):
            use()
    with pytest.raises(RequestError, match="labels need pictures"):
        world("pictures:labels=t.csv")
    with pytest.raises(RequestError, match="add labels=TABLE"):
        world("pictures:folder=photos,file=name")


def test_a_sample_shows_pictures_of_the_folder_in_a_compiled_step(photos: Path) -> None:
    opened = OwnPictures(folder=photos, size=8)
    batch = np.asarray(jax.jit(opened.draw, static_argnums=2)(opened.data, jax.random.key(5), 50))
    sample = opened.sample(5, 50)
    np.testing.assert_array_equal(np.round(255 * batch), sample.images)
    assert sample.factors.shape == (50, 0)
    assert {tuple(image[4, 4]) for image in sample.images} == {tuple(image[4, 4]) for image in opened.pictures}
    assert opened.vary(0, 0, 4) is None


def test_an_index_beyond_the_pictures_is_refused(photos: Path) -> None:
    with pytest.raises(RequestError, match="pictures 0 to 3"):
        OwnPictures(folder=photos).labels(np.array([4]))


def test_a_contact_sheet_shows_random_pictures(photos: Path, tmp_path: Path) -> None:
    contact_sheet(OwnPictures(folder=photos), tmp_path / "sheet.png")
    assert matplotlib.image.imread(tmp_path / "sheet.png").std() > 0.1


def test_a_folder_becomes_codes(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for at in range(40):
        image_of(noise(16, 16, 3, seed=at)).save(tmp_path / "photos" / f"{at}.png")
    (tmp_path / "t.csv").write_text("file,half,third\n" + "".join(f"{at},{at % 2},{at % 3}\n" for at in range(40)))
    opened = world(f"pictures:folder={tmp_path}/photos,size=16,labels={tmp_path}/t.csv")
    train(grid(opened, "vae", {}, steps=2, latents=2, batch=4), opened, tmp_path / "family")
    family = sober.open(tmp_path / "family")
    ((_, codes),) = family.encode()
    assert codes.mean.shape == (40, 2)
    names = family.world.names  # type: ignore[attr-defined]
    np.testing.assert_array_equal(codes.factors[:, 1], [int(Path(name).stem) % 3 for name in names])


# From Python


@pytest.mark.parametrize("shape", [(5, 6, 7), (5, 6, 7, 1), (5, 6, 7, 3)])
@pytest.mark.parametrize("kind", ["bytes", "float32", "float64", "jax", "list"])
def test_an_array_is_a_world(shape: tuple[int, ...], kind: str) -> None:
    pictures = noise(*shape)
    images: Any = pictures
    if kind.startswith("float"):
        images = (pictures / 255).astype(kind)
    elif kind == "jax":
        images = jax.numpy.asarray(pictures)
    elif kind == "list":
        images = list(pictures)
    opened = from_array(images)
    expected = pictures.reshape(5, 6, 7, -1)
    np.testing.assert_array_equal(opened.pictures, expected)
    again = world(opened.spec)
    np.testing.assert_array_equal(again.render(np.arange(5)), expected)
    assert again.label == opened.label
    assert re.fullmatch("pictures:cache=[0-9a-f]{16}", opened.spec)


def test_more_pictures_than_a_block_arrive_in_order() -> None:
    pictures = noise(600, 4, 4)
    np.testing.assert_array_equal(from_array(pictures).pictures[..., 0], pictures)


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (np.zeros((2, 3, 8, 8), np.uint8), "put the channels last"),
        (np.zeros((8, 8), np.uint8), r"got shape \(8, 8\)"),
        (np.zeros((2, 8, 8, 4), np.uint8), r"got shape \(2, 8, 8, 4\)"),
        (np.zeros((0, 8, 8), np.uint8), r"got shape \(0, 8, 8\)"),
        (np.zeros((2, 8, 8), np.int64), "holds int64: pass bytes"),
        (np.zeros((2, 8, 8), bool), "holds bool: pass bytes"),
        (np.full((2, 8, 8), 200.0), "from 200 to 200: pass floats in"),
        (np.full((2, 8, 8), -0.1), "from -0.1 to -0.1"),
        (np.full((2, 8, 8), np.nan), "values that are missing or infinite"),
    ],
)
def test_arrays_that_are_no_pictures_are_refused(images: np.ndarray, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        from_array(images)


def test_masks_of_0_and_1_are_told_to_be_black() -> None:
    with pytest.warns(UserWarning, match="multiply by 255"):
        from_array(np.eye(8, dtype=np.uint8)[None])


def test_the_same_pictures_have_the_same_name_and_others_another() -> None:
    pictures, labels = noise(6, 8, 8), np.arange(6)[:, None] % 3
    one = from_array(pictures, labels)
    assert from_array(pictures.copy(), labels.copy()).spec == one.spec
    others = [
        from_array(pictures[::-1], labels),
        from_array(pictures, labels[::-1]),
        from_array(pictures, labels, names=["other"]),
        from_array(pictures.reshape(6, 4, 16), labels),
    ]
    assert len({each.spec for each in (one, *others)}) == 5
    assert others[1].label == one.label  # the same pictures: what is trained on them is the same


def test_labels_come_with_arrays() -> None:
    opened = from_array(
        noise(6, 8, 8),
        {"species": ["cat", "dog", "cat", "ant", "dog", None], "n": [3, 1, 2, 3, 1, 1], "height": np.linspace(0, 1, 6)},
        kinds={"n": "cyclic"},
    )
    again = world(opened.spec)
    assert [(f.name, f.size, f.kind, f.values) for f in again.factors] == [
        ("species", 3, "categorical", ("ant", "cat", "dog")),
        ("n", 3, "cyclic", (1.0, 2.0, 3.0)),
        ("height", 0, "continuous", ()),
    ]
    expected = np.array([[1, 2, 1, 0, 2, np.nan], [2, 0, 1, 2, 0, 0], np.linspace(0, 1, 6)]).T
    np.testing.assert_array_equal(again.labels(np.arange(6)), expected)


def test_classes_without_gaps_are_whole_numbers() -> None:
    opened = from_array(noise(6, 8, 8), np.array([[5, 5, 6, 6, 5, 9]]).T, names=["n"])
    labels = opened.labels(np.arange(6))
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(labels[:, 0], [0, 0, 1, 1, 0, 2])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"labels": np.zeros(6)}, r"pass labels\[:, None\]"),
        ({"labels": np.zeros((5, 1))}, "5 values for 6 pictures"),
        ({"labels": np.zeros((6, 2)), "names": ["a"]}, "name each of the 2 columns once"),
        ({"names": ["a"]}, "names describe labels, and none were passed"),
        ({"labels": {"a": [1, 2, 3, 4, 5, np.inf]}}, "'a' hold an infinite value"),
        ({"labels": {"a": [object()] * 6}}, "'a' hold object"),
        ({"labels": {"a": [1, 2] * 3}, "kinds": {"b": "ordinal"}}, "kinds names b"),
        ({"labels": {"a": [1, 2] * 3}, "kinds": {"a": "huge"}}, "'a' cannot be 'huge'"),
    ],
)
def test_labels_that_do_not_fit_are_refused(arguments: Any, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        from_array(noise(6, 8, 8), **arguments)


def test_an_emptied_cache_says_what_to_do_and_the_same_pictures_bring_it_back(kept_here: Path) -> None:
    pictures = noise(3, 8, 8)
    spec = from_array(pictures).spec
    shutil.rmtree(kept_here)
    with pytest.raises(RequestError, match=r"cache was emptied.*sober\.worlds\.from_array"):
        OwnPictures(cache=WorldSpec.parse(spec).options["cache"])
    assert from_array(pictures).spec == spec


@pytest.mark.parametrize("digest", ["../../etc/passwd", "", "0123", "0123456789ABCDEF"])
def test_a_name_that_is_no_digest_is_refused(digest: str) -> None:
    with pytest.raises(RequestError, match="16 hexadecimal digits"):
        OwnPictures(cache=digest)


def test_a_kept_world_takes_no_folder(photos: Path) -> None:
    with pytest.raises(RequestError, match="takes no folder"):
        OwnPictures(cache="0" * 16, folder=photos)


def test_a_family_on_an_array_is_opened_later(tmp_path: Path) -> None:
    opened = from_array(noise(20, 16, 16), {"n": np.arange(20) % 4})
    train(grid(opened, "vae", {}, steps=2, latents=2, batch=4), opened, tmp_path / "family")
    _opened.cache_clear()
    later = sober.open(tmp_path / "family").world
    np.testing.assert_array_equal(later.render(np.arange(20)), opened.pictures)
    np.testing.assert_array_equal(later.labels(np.arange(20))[:, 0], np.arange(20) % 4)
    record_path(WorldSpec.parse(opened.spec).options["cache"]).unlink()
    _opened.cache_clear()
    with pytest.raises(RequestError, match="from_array"):
        _ = sober.open(tmp_path / "family").world


def test_pictures_of_any_kind_may_come_one_by_one() -> None:
    values = [
        np.full((10, 20), 50, np.uint8),
        np.full((10, 20, 1), 0.2),
        np.full((30, 5, 3), 90, np.uint8),
        np.dstack([np.full((9, 9, 3), 7), np.zeros((9, 9))]).astype(np.uint8),
        Image.new("RGBA", (3, 3), (100, 100, 100, 255)),
    ]
    opened = from_iterable(iter(values), size="6x4", labels={"n": [0, 0, 1, 1, 2]})
    assert opened.image_shape == (6, 4, 1)
    np.testing.assert_array_equal(opened.pictures[:, 3, 2, 0], [50, 51, 90, 255, 100])
    assert opened.labels(np.arange(5))[:, 0].tolist() == [0, 0, 1, 1, 2]
    assert from_iterable(iter(values), size="6x4", mode="rgb").image_shape == (6, 4, 3)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], "the iterable is empty"),
        ([noise(4, 4), "photo.png"], "picture 1 must be .* got str"),
        ([noise(4, 4), noise(4, 4), noise(3, 4, 4)[:, :, :2]], r"picture 2 must be .* got shape \(3, 4, 2\)"),
        ([noise(4, 4).astype(int)], "picture 0 holds int64"),
        ([{"bytes": b"text"}], "picture 0 cannot be read .*not a picture"),
    ],
)
def test_what_is_no_picture_among_others_is_refused_by_its_number(
    values: list[Any], says: str, kept_here: Path
) -> None:
    with pytest.raises(RequestError, match=says):
        from_iterable(values)
    assert list(kept_here.iterdir()) == []


class ClassNames:
    def __init__(self, names: list[str]) -> None:
        self.names = names


class Dataset:
    """Behaves as a Hugging Face dataset: a length, rows as dictionaries, and what its columns are."""

    def __init__(self, count: int, **features: Any) -> None:
        self.count, self.features = count, {"image": object(), "n": object(), "species": None, **features}

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> dict[str, Any]:
        buffer = io.BytesIO()
        Image.new("RGB", (9, 6), (at, 0, 0)).save(buffer, "PNG")
        image = Image.new("RGB", (9, 6), (at, 0, 0)) if at % 2 else {"bytes": buffer.getvalue(), "path": None}
        return {"image": image, "species": (at % 3) - 1, "n": at % 2, "weight": at / 3, "caption": f"number {at}"}


def test_a_dataset_is_a_world() -> None:
    dataset = Dataset(12, species=ClassNames(["zebra", "ant", "unseen"]))
    with pytest.warns(UserWarning, match=r"left out caption \(another value for each picture\)"):
        opened = from_dataset(dataset, labels=["weight", "species", "caption", "n"], size=6)
    assert [(f.name, f.size, f.kind, f.values) for f in opened.factors] == [
        ("weight", 0, "continuous", ()),
        ("species", 3, "categorical", ("zebra", "ant", "unseen")),
        ("n", 2, "ordinal", (0.0, 1.0)),
    ]
    at = np.arange(12)
    np.testing.assert_array_equal(opened.pictures[:, 0, 0, 0], at)
    expected = np.stack([at / 3, np.where(at % 3 == 0, np.nan, at % 3 - 1), at % 2], axis=1)
    np.testing.assert_array_equal(opened.labels(at), expected)
    np.testing.assert_array_equal(world(opened.spec).labels(at), expected)


def test_a_dataset_needs_no_features_and_no_labels() -> None:
    rows = [{"photo": noise(5, 5, 3)}, {"photo": noise(5, 5, 3, seed=1)}]
    opened = from_dataset(rows, image="photo", size=5)
    np.testing.assert_array_equal(opened.pictures, [row["photo"] for row in rows])
    assert opened.factors == ()


@pytest.mark.parametrize(
    ("dataset", "arguments", "says"),
    [
        (Dataset(0), {}, "the dataset is empty"),
        (Dataset(2), {"image": "photo"}, "no column photo: choose one of caption, image, n, species, weight"),
        (Dataset(2), {"labels": ["colour"]}, "no column colour"),
        (Dataset(6, species=ClassNames(["one"])), {"labels": ["species"]}, "'species' must be -1 to 0"),
        (Dataset(2), {"labels": ["n"], "kinds": {"weight": "continuous"}}, "kinds names weight"),
    ],
)
def test_a_dataset_without_what_is_asked_for_is_refused(dataset: Dataset, arguments: Any, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        from_dataset(dataset, **arguments)
