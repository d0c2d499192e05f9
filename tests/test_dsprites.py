"""dSprites: the rendered pictures are the published ones, and no accident to a file gives others."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sober.errors import MissingError, RequestError
from sober.worlds import world
from sober.worlds.drawn import dsprites
from sober.worlds.drawn.dsprites import DSprites

ENTRY = ["dsprites-1.json", "dsprites-1.npy"]
SHA256 = "4bf32c097708f86b61a5016dedf3409c31356ee9d0c6dba061dd975fe344b1d5"

FEW = """
import os, resource, signal, sys
import numpy as np
import sober.files
from sober.worlds.drawn import dsprites
dsprites.render_all = lambda: np.arange(1000 * 64, dtype=np.uint64).reshape(1000, 64)
"""

# Waits, so that two of these start at once, and prints what it got.
FIRST_USE = """
print("ready", flush=True)
sys.stdin.readline()
print(int(dsprites.DSprites().make_data().view("<u8").sum()))
"""

KILLED_BEFORE_RENAMING = """
sober.files.atomic.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
dsprites.DSprites().make_data()
"""

# The system refuses to write more than 10,000 bytes, as a full disk would.
FULL_DISK = """
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
print(dsprites.DSprites().make_data().shape)
"""


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """Every picture, a 64-bit word for each of its rows."""
    return world("dsprites").make_data().view("<u8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, removed at once after the test: a full one takes 400 MB."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("SOBER_CACHE", str(folder))
    yield folder / "drawn"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Stands in for the pictures where only their way to the disk and back matters."""
    few = np.arange(1000 * 64, dtype=np.uint64).reshape(1000, 64)
    monkeypatch.setattr(dsprites, "render_all", lambda: few)
    return few


def entry(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def quietly() -> np.ndarray:
    """The pictures of a new process's first use, as words; a warning fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return DSprites().make_data().view("<u8")


def test_the_published_pictures_come_out_but_for_a_pixel_in_four(shared: Path) -> None:
    with np.load(shared / "data" / "dsprites_real_46080.npz", allow_pickle=False) as published:
        images, index = published["imgs"], published["original_dataset_indices"]
    assert len(images) == 46_080
    off = np.bitwise_count(world("dsprites").make_data()[index] ^ packed(images)).sum(axis=1)
    assert (off > 0).sum() <= 4
    assert off.max() <= 1
    some = np.flatnonzero(off == 0)[::100]
    np.testing.assert_array_equal(world("dsprites").render(index[some])[..., 0], 255 * images[some])


def test_no_pixel_has_ever_changed(rows: np.ndarray) -> None:
    assert hashlib.sha256(rows).hexdigest() == SHA256  # rendered in this session: its cache began empty


def test_the_first_and_the_last_orientation_are_the_same(rows: np.ndarray) -> None:
    by_orientation = rows.reshape(3, 6, 40, 32, 32, 64)
    np.testing.assert_array_equal(by_orientation[:, :, 0], by_orientation[:, :, 39])


def test_715706_pictures_are_distinct(rows: np.ndarray) -> None:
    assert len(rows) == 737_280
    assert len({row.tobytes() for row in rows}) == 715_706


def test_pictures_are_rendered_once_and_then_read(
    folder: Path, few: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.testing.assert_array_equal(quietly(), few)
    monkeypatch.setattr(dsprites, "render_all", lambda: pytest.fail("rendered again"))
    np.testing.assert_array_equal(quietly(), few)
    assert isinstance(quietly(), np.memmap)
    assert entry(folder) == ENTRY


@pytest.mark.parametrize("end", [".npy", ".json"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:-5] + b"other",
        lambda whole: b"",
    ],
    ids=["truncated", "altered", "empty"],
)
def test_a_damaged_cache_is_rendered_again_with_a_warning_and_replaced(
    folder: Path, few: np.ndarray, damage: Callable[[bytes], bytes], end: str
) -> None:
    quietly()
    path = folder / f"dsprites-1{end}"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match="damaged.*rendering dsprites again"):
        np.testing.assert_array_equal(DSprites().make_data().view("<u8"), few)
    assert entry(folder) == ENTRY
    np.testing.assert_array_equal(quietly(), few)


def test_two_processes_at_once_on_an_empty_cache_both_get_good_pictures(
    folder: Path, few: np.ndarray, start: Callable
) -> None:
    processes = [start(FEW + FIRST_USE) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        assert process.communicate(timeout=60)[0] == f"{few.sum()}\n"
        assert process.returncode == 0
    assert entry(folder) == ENTRY
    np.testing.assert_array_equal(quietly(), few)


@pytest.mark.kill
def test_a_process_killed_before_its_cache_is_in_place_does_no_harm(
    folder: Path, few: np.ndarray, start: Callable
) -> None:
    assert start(FEW + KILLED_BEFORE_RENAMING).wait(timeout=60) == -signal.SIGKILL
    assert len(entry(folder)) == 1  # it got as far as writing
    np.testing.assert_array_equal(quietly(), few)
    assert entry(folder) == ENTRY
    np.testing.assert_array_equal(quietly(), few)


def test_a_cache_that_cannot_be_made_is_a_warning(
    tmp_path: Path, few: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match=r"could not be cached.*SOBER_CACHE"):
        np.testing.assert_array_equal(DSprites().make_data().view("<u8"), few)


def test_a_full_disk_is_a_warning(folder: Path, start: Callable) -> None:
    process = start(FEW + FULL_DISK)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert "could not be cached" in output
    assert "(1000, 128)" in output
    assert list(folder.iterdir()) == []


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def write_published(path: Path, parts: list[np.ndarray | None]) -> None:
    """All 3 GB of the published file; a part without rows is black, and compressed only once to be quick."""
    squeeze = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)

    def piece(content: Any) -> bytes:
        # After a full flush what follows does not refer back: pieces can be repeated.
        return squeeze.compress(content) + squeeze.flush(zlib.Z_FULL_FLUSH)

    header = io.BytesIO()
    about = {"descr": "|u1", "fortran_order": False, "shape": (737_280, 64, 64)}
    np.lib.format.write_array_header_1_0(header, about)
    stream, size, checksum = [piece(header.getvalue())], len(header.getvalue()), zlib.crc32(header.getvalue())
    blank = bytes(4096 * 64 * 64)
    blank_piece = piece(blank)
    for rows in parts:
        content = blank if rows is None else np.unpackbits(rows.view(np.uint8), bitorder="little")
        stream.append(blank_piece if rows is None else piece(content))
        size, checksum = size + len(content), zlib.crc32(content, checksum)
    stream.append(squeeze.flush())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("imgs.npy", b"".join(stream))
        info = archive.getinfo("imgs.npy")  # written to the directory when the archive closes
        info.compress_type, info.file_size, info.CRC = zipfile.ZIP_DEFLATED, size, checksum


def test_the_published_file_is_read_without_its_pickle(rows: np.ndarray, tmp_path: Path) -> None:
    path, bomb = tmp_path / "published.npz", tmp_path / "unpickled"
    np.savez(path, metadata=np.array([Bomb(bomb)], object))
    whole = dict(enumerate(np.split(rows, 180)))
    write_published(path, [whole[part] if part in (0, 77, 179) else None for part in whole])
    expected = np.concatenate([whole[part] * np.uint64(part in (0, 77, 179)) for part in whole])

    opened = world(f"dsprites:file={path}")
    assert (opened.make_data().view("<u8") == expected).all()
    assert not bomb.exists()
    assert opened.label == f"dsprites:{hashlib.sha256(expected).hexdigest()[:16]}"
    assert opened.spec == f"dsprites:file={path}"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """A published set of 180 pictures, so that a file of them can be damaged everywhere."""
    monkeypatch.setattr(dsprites, "PUBLISHED", (180, 64, 64))
    return (np.random.default_rng(0).random((180, 64, 64)) < 0.01).astype(np.uint8)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


def npz(path: Path, member: str, content: bytes, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(member, content)
    return path.read_bytes()


def packed(images: np.ndarray) -> np.ndarray:
    return np.packbits(images, axis=-1, bitorder="little").view("<u4").reshape(-1, 128)


def pictures_or_refusal(path: Path) -> np.ndarray | str:
    """The pictures of a file, or what is said about one that is not dSprites: one line that names it."""
    try:
        return DSprites(str(path)).make_data()
    except RequestError as error:
        message = str(error)
    assert str(path) in message
    assert "\n" not in message
    return message


def refusal(path: Path) -> str:
    message = pictures_or_refusal(path)
    assert isinstance(message, str), "not refused"
    return message


def test_a_small_published_file_is_read(small: np.ndarray, tmp_path: Path) -> None:
    npz(tmp_path / "file.npz", "imgs.npy", npy(small))
    np.testing.assert_array_equal(DSprites(str(tmp_path / "file.npz")).make_data(), packed(small))


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((5, 64, 64), np.uint8),
        np.zeros((180, 64, 64, 1), np.uint8),
        np.zeros((180, 64, 64), np.float32),
        np.zeros((180, 64, 64), np.uint8, order="F"),
    ],
    ids=["too few", "an axis more", "floats", "column-major"],
)
def test_a_file_of_other_images_is_refused(small: np.ndarray, tmp_path: Path, images: np.ndarray) -> None:
    npz(tmp_path / "file.npz", "imgs.npy", npy(images))
    assert f"{images.dtype} images of shape {images.shape}" in refusal(tmp_path / "file.npz")


@pytest.mark.parametrize("missing", [1, 2, 90, 179])
def test_a_file_with_fewer_pictures_than_it_says_is_refused(small: np.ndarray, tmp_path: Path, missing: int) -> None:
    npz(tmp_path / "file.npz", "imgs.npy", npy(small)[: -missing * 64 * 64])
    refusal(tmp_path / "file.npz")


def test_every_kind_of_file_that_is_not_the_published_one_is_refused(small: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    with pytest.raises(MissingError, match="is not there"):
        DSprites(str(path)).make_data()
    assert str(path) in (DSprites(str(path)).absent() or "")
    assert str(path) in (world(f"color_dsprites:file={path}").absent() or "")
    assert DSprites().absent() is None
    path.mkdir()
    refusal(path)
    path.rmdir()
    path.write_bytes(b"not a zip")
    refusal(path)
    npz(path, "images.npy", npy(small))
    assert "imgs.npy" in refusal(path)
    npz(path, "imgs.npy", b"not an array")
    refusal(path)


def test_a_truncated_file_is_refused(small: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    whole = npz(path, "imgs.npy", npy(small))
    for length in np.linspace(0, len(whole) - 1, 50).astype(int):
        path.write_bytes(whole[:length])
        refusal(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED], ids=["deflated", "stored"])
def test_a_damaged_file_never_gives_other_pictures(small: np.ndarray, tmp_path: Path, compression: int) -> None:
    path = tmp_path / "file.npz"
    whole = npz(path, "imgs.npy", npy(small), compression)
    expected = packed(small)
    # Every byte of the headers at both ends, and some of the pictures between.
    ends = [*range(250), *range(len(whole) - 150, len(whole))]
    for at in [*ends, *np.linspace(250, len(whole) - 150, 100).astype(int)]:
        for flip in (0x01, 0x20, 0xFF):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            found = pictures_or_refusal(path)
            if not isinstance(found, str):
                np.testing.assert_array_equal(found, expected, err_msg=f"byte {at} ^ {flip}")
