"""Files are whole or absent, whatever happens while they are written or to them afterwards."""

from __future__ import annotations

import io
import pickle
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save_file

import sober
from sober.errors import RequestError
from sober.files import (
    cache_dir,
    load_arrays,
    locked,
    map_npy,
    npy_rows,
    read_json,
    replacing,
    save_arrays,
    writable_folder,
    write_json,
    write_npy,
)

# Lets a process import a module of the package without the package as a whole, which takes seconds.
ALONE = f"""
import sys, types
sys.modules["sober"] = types.ModuleType("sober")
sys.modules["sober"].__path__ = {[*sober.__path__]}
"""

# Writes half a file, says so, and waits to be told to go on.
HALF_WRITTEN = """
import sys
from pathlib import Path
from sober.files import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("theirs")
    print("writing", flush=True)
    sys.stdin.readline()
"""

# The system ends the process at the 10,000th byte of the file it writes: a kill at a known place.
KILLED_WRITING = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from sober.files import save_arrays
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
save_arrays(Path(sys.argv[1]), {"a": np.zeros(10_000)}, {})
"""

LOCKING = """
import sys
from pathlib import Path
from sober.files import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.readline()
"""

ARRAYS = {
    "weights": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3),
    "steps": np.array([2**40, -1]),
    "alive": np.array([True, False]),
    "empty": np.zeros((0, 3), np.float16),
}


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def same(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> bool:
    """Equal to the bit, NaNs included."""
    return ours.keys() == theirs.keys() and all(
        (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
        for a, b in ((ours[name], theirs[name]) for name in ours)
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "saved.safetensors"
    save_arrays(path, ARRAYS, {"kind": "test"})
    return path


def test_replacing_puts_the_new_file_in_place_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert contents(tmp_path) == ["file"]


def test_an_exception_while_replacing_leaves_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted() -> None:
        with replacing(path) as temporary:
            temporary.write_text("new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert path.read_text() == "old"
    assert contents(tmp_path) == ["file"]


@pytest.mark.kill
def test_what_a_dead_process_left_half_written_is_removed_by_the_next_write(tmp_path: Path, start: Callable) -> None:
    path = tmp_path / "file"
    process = start(ALONE + HALF_WRITTEN, path)
    assert process.stdout.readline() == "writing\n"
    process.kill()
    process.wait()
    assert len(contents(tmp_path)) == 1  # the temporary, and no file
    assert not path.exists()
    with replacing(path) as temporary:
        temporary.write_text("ours")
    assert contents(tmp_path) == ["file"]


def test_what_a_living_process_is_writing_is_left_to_it(tmp_path: Path, start: Callable) -> None:
    path = tmp_path / "file"
    process = start(ALONE + HALF_WRITTEN, path)
    assert process.stdout.readline() == "writing\n"
    with replacing(path) as temporary:
        temporary.write_text("ours")
    assert path.read_text() == "ours"
    assert process.communicate("\n", timeout=30) == ("", None)
    assert process.returncode == 0
    assert path.read_text() == "theirs"
    assert contents(tmp_path) == ["file"]


@pytest.mark.kill
def test_arrays_half_written_by_a_killed_process_are_removed_by_the_next_write(tmp_path: Path, start: Callable) -> None:
    path = tmp_path / "file"
    process = start(ALONE + KILLED_WRITING, path)
    assert process.wait(timeout=30) == -signal.SIGXFSZ
    assert not path.exists()
    save_arrays(path, ARRAYS, {})
    assert contents(tmp_path) == ["file"]
    assert same(load_arrays(path)[0], ARRAYS)


named_arrays = st.dictionaries(
    st.text(st.characters(codec="ascii", categories=["L", "N"], include_characters="._"), min_size=1, max_size=12),
    hnp.arrays(
        st.one_of(
            hnp.boolean_dtypes(),
            hnp.integer_dtypes(endianness="="),
            hnp.unsigned_integer_dtypes(endianness="="),
            hnp.floating_dtypes(endianness="=", sizes=(16, 32, 64)),
        ),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(arrays=named_arrays, metadata=st.dictionaries(st.sampled_from(["kind", "run"]), st.text(max_size=5)))
def test_arrays_come_back_as_they_were_saved(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray], metadata: dict[str, str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "roundtrip.safetensors"
    save_arrays(path, arrays, metadata)
    loaded, about = load_arrays(path)
    assert same(loaded, arrays)
    assert about == metadata


@pytest.mark.parametrize(
    "array",
    [
        np.array(3, np.int32),
        np.zeros((2, 0), np.float16),
        np.array([np.nan, -0.0]),
        np.arange(6).reshape(2, 3).T,
        np.arange(8)[::2],
        np.arange(3, dtype=">f4"),
    ],
    ids=["no axes", "empty", "nan", "transposed", "strided", "big-endian"],
)
def test_an_unusual_array_comes_back_with_its_shape_type_and_values(tmp_path: Path, array: np.ndarray) -> None:
    save_arrays(tmp_path / "file", {"a": array}, {})
    loaded = load_arrays(tmp_path / "file")[0]["a"]
    assert loaded.shape == array.shape
    assert loaded.dtype == array.dtype.newbyteorder("=")  # a file has one byte order, whatever the array's was
    np.testing.assert_array_equal(loaded, array)


def test_every_truncation_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in range(len(whole)):
        saved.write_bytes(whole[:length])
        with pytest.raises(RequestError, match="damaged"):
            load_arrays(saved)


def test_a_changed_byte_anywhere_never_gives_other_arrays(saved: Path) -> None:
    whole = saved.read_bytes()
    refused = 0
    for at in range(len(whole)):
        for flip in (0x01, 0x20, 0xFF):
            saved.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            try:
                assert same(load_arrays(saved)[0], ARRAYS), f"byte {at} ^ {flip}"
            except RequestError:
                refused += 1
    # What may pass is a change to the metadata, a few bytes of the whole.
    assert refused > 0.9 * 3 * len(whole)


@pytest.mark.parametrize("write", [pickle.dump, lambda arrays, file: np.savez(file, **arrays)], ids=["pickle", "npz"])
def test_another_kind_of_file_is_refused_by_name(tmp_path: Path, write: Callable) -> None:
    path = tmp_path / "other"
    with open(path, "wb") as file:
        write(ARRAYS, file)
    with pytest.raises(RequestError, match=str(path)) as caught:
        load_arrays(path)
    assert "\n" not in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=200))
def test_random_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "random"
    path.write_bytes(content)
    with pytest.raises(RequestError, match="damaged"):
        load_arrays(path)


def test_a_safetensors_file_without_our_checksum_is_refused(tmp_path: Path) -> None:
    save_file(ARRAYS, tmp_path / "file")
    with pytest.raises(RequestError, match="checksum"):
        load_arrays(tmp_path / "file")


# npy files


def npy_bytes(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> io.BytesIO:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    file.seek(0)
    return file


@settings(max_examples=60, deadline=None)
@given(
    array=hnp.arrays(
        st.sampled_from(["u1", "<i4", ">f4", "<u8", "?"]),
        hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4),
    )
)
def test_an_npy_file_written_in_parts_is_numpys_own_and_is_mapped(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray
) -> None:
    path = tmp_path_factory.getbasetemp() / "parts.npy"
    write_npy(path, array.shape, array.dtype, np.array_split(array, 3))
    assert path.read_bytes() == npy_bytes(array).getvalue()
    mapped = map_npy(path)
    assert (mapped.dtype, mapped.shape, mapped.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert isinstance(mapped, np.memmap) or not array.size


def test_an_array_that_lies_column_by_column_is_mapped_as_it_is(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(np.arange(6).reshape(2, 3)))
    np.testing.assert_array_equal(map_npy(tmp_path / "a.npy"), np.arange(6).reshape(2, 3))


@pytest.mark.parametrize(
    "parts",
    [[np.zeros((2, 3), np.uint8)], [np.zeros((3, 3), np.uint8)] * 2, [np.zeros((4, 3))], [np.zeros((4, 2), np.uint8)]],
    ids=["fewer", "more", "another type", "another shape"],
)
def test_rows_that_do_not_make_up_the_array_are_refused(tmp_path: Path, parts: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match="rows"):
        write_npy(tmp_path / "a.npy", (4, 3), np.dtype(np.uint8), parts)


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_rows_stream_from_an_npy_file(version: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sober.files.npy.AT_ONCE", 25)
    array = np.arange(70, dtype=np.uint8).reshape(7, 10)
    parts = list(npy_rows(npy_bytes(array, version), (7, 10)))
    assert [len(part) for part in parts] == [2, 2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(parts), array)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (npy_bytes(np.zeros((3, 2), np.uint8)).getvalue(), r"uint8 images of shape \(3, 2\), not uint8 \(2, 3\)"),
        (npy_bytes(np.zeros((2, 3), np.float32)).getvalue(), "float32 images"),
        (npy_bytes(np.zeros((2, 3), np.uint8, order="F")).getvalue(), "column by column"),
        (npy_bytes(np.zeros((2, 3), np.uint8)).getvalue()[:-1], "ends too early"),
        (npy_bytes(np.zeros((2, 3), np.uint8)).getvalue() + b"0", "more data"),
        (npy_bytes(np.zeros((2, 3), np.uint8), (3, 0)).getvalue(), "version"),
        (npy_bytes(np.array([{}], object)).getvalue(), "pickled objects"),
        (b"PK\x03\x04 and so on", "magic"),
        (b"", "magic|EOF"),
    ],
)
def test_an_npy_file_of_another_form_is_refused_before_it_is_read(tmp_path: Path, content: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        list(npy_rows(io.BytesIO(content), (2, 3)))


@pytest.mark.parametrize("change", [lambda whole: whole[:-1], lambda whole: whole + b"0", lambda whole: whole[:70]])
def test_an_npy_file_of_another_length_is_not_mapped(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    (tmp_path / "a.npy").write_bytes(change(npy_bytes(np.zeros((2, 3), np.uint8)).getvalue()))
    with pytest.raises(ValueError, match=r"bytes|header"):
        map_npy(tmp_path / "a.npy")


def test_pickled_objects_are_not_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object))
    with pytest.raises(ValueError, match="pickled objects"):
        map_npy(tmp_path / "a.npy")


# json, locks, folders


@pytest.mark.parametrize("read", [load_arrays, read_json])
def test_a_missing_file_is_named(tmp_path: Path, read: Callable) -> None:
    with pytest.raises(RequestError, match=str(tmp_path / "absent")):
        read(tmp_path / "absent")


def test_json_comes_back_as_it_was_written(tmp_path: Path) -> None:
    value = {"runs": [1, 2.5, None, "β"], "done": True}
    write_json(tmp_path / "file", value)
    assert read_json(tmp_path / "file") == value


@pytest.mark.parametrize("content", [b"", b'{"a": ', b"\xff\xfe"])
def test_damaged_json_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=str(path)):
        read_json(path)


@pytest.mark.kill
def test_a_folder_is_held_by_one_process_until_that_process_is_killed(tmp_path: Path, start: Callable) -> None:
    process = start(ALONE + LOCKING, tmp_path)
    assert process.stdout.readline() == "locked\n"
    with pytest.raises(RequestError, match="in use by another process"), locked(tmp_path):
        pass
    process.kill()
    process.wait()
    with locked(tmp_path):
        pass


def test_a_lock_is_released_when_its_block_raises(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        raise ZeroDivisionError
    with locked(tmp_path):
        pass


def test_a_writable_folder_is_made_with_its_parents_and_left_empty(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert writable_folder(folder) == folder
    assert contents(folder) == []
    assert writable_folder(folder) == folder


@pytest.mark.parametrize("below", ["", "folder", "deep/folder"])
def test_a_folder_cannot_be_made_where_a_file_is(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match=f"cannot write to {tmp_path / 'file' / below}"):
        writable_folder(tmp_path / "file" / below)


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOBER_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert cache_dir() == Path("/a")
    monkeypatch.delenv("SOBER_CACHE")
    assert cache_dir() == Path("/b/sober")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path("/c/.cache/sober")
