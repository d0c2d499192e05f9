"""The cache of pictures: made once, mapped ever after, and no accident to it gives others."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sober.errors import FullDiskError, RequestError
from sober.files import replacing, write_npy
from sober.worlds import cache
from sober.worlds.cache import cached_array, entry_path, find_entry, fingerprint, make_entry

PICTURES = np.arange(60, dtype=np.uint8).reshape(5, 2, 2, 3)
LABELS = np.arange(10.0).reshape(5, 2)

# Is killed after a number of files have been put in their place, of pictures that differ from those of the test.
KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
import sober.files.atomic as whole
from sober.worlds.cache import make_entry
left, replace = int(sys.argv[2]), os.replace

def replace_or_die(*paths):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    replace(*paths)

whole.os.replace = replace_or_die
pictures = np.zeros((5, 2, 2, 3), np.uint8)
make_entry(Path(sys.argv[1]), "theirs", pictures.shape, lambda: [pictures], labels=np.zeros((5, 2)))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def made(made_from: str = "ours", pictures: np.ndarray = PICTURES, **options: bool) -> cache.Entry:
    parts = lambda: np.array_split(pictures, 3)  # noqa: E731
    path = entry_path("tests", "entry")
    return make_entry(path, made_from, pictures.shape, parts, labels=LABELS, notes={"n": 1}, **options)


def found(made_from: str = "ours") -> cache.Entry | None:
    return find_entry(entry_path("tests", "entry"), lambda origin: origin == made_from, "making it")


def same(ours: cache.Entry | None, theirs: cache.Entry) -> bool:
    assert ours is not None
    assert ours.labels is not None
    assert theirs.labels is not None
    np.testing.assert_array_equal(ours.pictures, theirs.pictures)
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    return (ours.notes, ours.fingerprint) == (theirs.notes, theirs.fingerprint)


def test_an_entry_comes_back_mapped_with_all_that_was_kept(folder: Path) -> None:
    entry = made()
    again = found()
    assert again is not None
    assert isinstance(again.pictures, np.memmap)
    assert isinstance(entry.pictures, np.memmap)
    assert same(again, entry)
    np.testing.assert_array_equal(entry.pictures, PICTURES)
    assert again.fingerprint == fingerprint(PICTURES, LABELS) != fingerprint(PICTURES)
    names = ["entry.json", "entry.labels.npy", "entry.npy"]
    assert sorted(path.name for path in (folder / "tests").iterdir()) == names
    np.testing.assert_array_equal(np.load(folder / "tests" / "entry.npy"), PICTURES)  # any tool can open it


def test_an_entry_made_from_something_else_is_not_taken() -> None:
    made()
    assert found("another file") is None


def test_files_of_another_time_are_read_once_and_then_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = made()
    os.utime(entry_path("tests", "entry").with_suffix(".npy"), ns=(1, 1))
    assert same(found(), entry)
    monkeypatch.setattr(cache, "fingerprint", lambda *_: pytest.fail("read twice"))
    assert same(found(), entry)


def test_a_changed_byte_anywhere_never_gives_another_entry() -> None:
    entry = made()
    paths = [entry_path("tests", "entry").with_suffix(end) for end in (".json", ".npy", ".labels.npy")]
    refused = 0
    for path in paths:
        whole = path.read_bytes()
        about = path.stat()
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x01]) + whole[at + 1 :])
            with warnings.catch_warnings(action="ignore"):
                after = found()
            assert after is None or same(after, entry), f"{path.name}, byte {at}"
            refused += after is None
            path.write_bytes(whole)
            os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert refused > 300  # the rest are blanks of headers and records


@pytest.mark.parametrize("files", [0, 1, 2])
@pytest.mark.kill
def test_a_process_killed_between_its_files_does_no_harm(folder: Path, start: Callable, files: int) -> None:
    entry = made()
    assert start(KILLED, entry_path("tests", "entry"), files).wait(timeout=60) == -signal.SIGKILL
    assert found() is None  # its record went first
    assert found("theirs") is None
    assert same(made(), entry)
    assert same(found(), entry)
    assert len(list((folder / "tests").iterdir())) == 3


def test_the_files_of_another_process_are_not_taken_for_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes make an entry of one name from different files at once: one record, and the other's pictures."""
    path = entry_path("tests", "entry")
    write_record = cache._write_record

    def overtaken(at: Path, record: dict) -> None:
        with replacing(path.with_suffix(".npy")) as temporary:
            write_npy(temporary, PICTURES.shape, PICTURES.dtype, [np.zeros_like(PICTURES)])
        write_record(at, record)

    monkeypatch.setattr(cache, "_write_record", overtaken)
    entry = made()
    np.testing.assert_array_equal(entry.pictures, PICTURES)
    with pytest.warns(UserWarning, match="does not have its fingerprint.*making it again"):
        assert found() is None


def test_a_cache_that_cannot_be_written_is_a_warning_where_pictures_fit_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match=r"entry could not be cached.*SOBER_CACHE"):
        entry = made()
    np.testing.assert_array_equal(entry.pictures, PICTURES)
    assert entry.fingerprint == fingerprint(PICTURES, LABELS)
    with pytest.raises(RequestError, match="SOBER_CACHE"):
        made(or_in_memory=False)
    monkeypatch.setattr(cache, "IN_MEMORY", PICTURES.nbytes - 1)
    with pytest.raises(RequestError, match="SOBER_CACHE"):
        made()


def test_a_full_disk_has_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "write_npy", full)
    with pytest.raises(FullDiskError, match=r"No space left.*free some space"):
        made(or_in_memory=False)


def test_an_array_is_made_once_and_again_when_its_file_is_damaged(folder: Path) -> None:
    views, calls = np.arange(8, dtype=np.uint8).reshape(2, 4), []

    def make() -> np.ndarray:
        calls.append(True)
        return views

    def cached() -> np.ndarray:
        return cached_array("drawn", "things", make, "drawing things")

    np.testing.assert_array_equal(cached(), views)
    np.testing.assert_array_equal(cached(), views)
    assert len(calls) == 1
    path = folder / "drawn" / "things.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.warns(UserWarning, match="drawing things again"):
        np.testing.assert_array_equal(cached(), views)
    np.testing.assert_array_equal(cached(), views)
    assert len(calls) == 2
