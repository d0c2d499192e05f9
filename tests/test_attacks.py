"""Faults of reading and crafted files: each is one line that names the file, takes little memory and loses nothing."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars
import pytest
import scipy
from PIL import Image
from safetensors.numpy import save

import sober
from families import BLOCKS, small_runs
from sober.errors import ReadFaultError, RequestError
from sober.evaluation.failures import Failures
from sober.evaluation.progress_notes import ProgressNotes
from sober.files import load_arrays, read_json, read_npy, read_npz, read_table, save_arrays, tables
from sober.models.model import load
from sober.parallel import MemoryBudget
from sober.requests.code_files import read_codes
from sober.requests.train import train
from sober.results import Folder
from sober.results.judgement_files import load_judgement
from sober.results.score_files import load_parts
from sober.results.shipped import Note
from sober.results.showcase_files import load_showcase
from sober.results.store import Store
from sober.results.verdict_files import load_verdicts
from test_store import BETA, DAVA, files, scores, write

FAULTS = [errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE]
USES: list[Callable[[Store], object]] = [
    Store.table,
    Store.done,
    Store.height,
    Store.compact,
    lambda store: list(store.rows()),
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with two scores in its table and one in a part."""
    store = Store.create(tmp_path / "store")
    write(store, scores(BETA, ["mig", "sap"]))
    store.compact()
    write(store, scores(DAVA, ["mig"]))
    return store


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, except locks."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("use", USES, ids=["table", "done", "height", "compact", "rows"])
@pytest.mark.parametrize("where", ["scores.parquet", "parts", "columns.json"])
@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_of_reading_is_refused_and_changes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, code: int, where: str, use: Callable[[Store], object]
) -> None:
    before, table = content(store.folder), store.table()
    read_bytes, read_text = Path.read_bytes, Path.read_text

    def failing(read: Callable) -> Callable:
        def instead(path: Path, *arguments: object, **named: object) -> object:
            if where in path.parts:
                raise OSError(code, os.strerror(code))
            return read(path, *arguments, **named)

        return instead

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", failing(read_bytes))
        patch.setattr(Path, "read_text", failing(read_text))
        with pytest.raises(RequestError, match=f"{where}.* cannot be read"):
            use(store)
    assert content(store.folder) == before
    assert store.table().equals(table)


@pytest.mark.parametrize("use", USES, ids=["table", "done", "height", "compact", "rows"])
def test_parts_that_cannot_be_listed_are_not_taken_for_none(
    store: Store, monkeypatch: pytest.MonkeyPatch, use: Callable[[Store], object]
) -> None:
    scandir = os.scandir

    def failing(path: str | Path) -> object:
        if Path(path).name == "parts":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", failing)
        with pytest.raises(ReadFaultError, match="parts cannot be read"):
            use(store)
    assert store.table().height == 3


def test_a_store_whose_columns_cannot_be_seen_is_not_begun_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before, stat = content(store.folder), os.stat

    def failing(path: str | Path, **named: object) -> object:
        if str(path).endswith("columns.json"):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return stat(path, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", failing)
        with pytest.raises(ReadFaultError, match=r"columns.json cannot be read"):
            Store.create(store.folder)
    assert content(store.folder) == before


def test_a_model_that_cannot_be_read_for_a_moment_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = small_runs(steps=20)
    train(runs, BLOCKS, tmp_path)
    (tmp_path / "models" / f"{runs[0].identity}.safetensors").unlink()  # so that the cohort has work left
    before = content(tmp_path / "models")

    def failing(path: Path, **named: object) -> object:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr("sober.files.arrays.safe_open", failing)
        with pytest.raises(ReadFaultError, match="cannot be read"):
            train(runs, BLOCKS, tmp_path)
    assert content(tmp_path / "models") == before
    assert not (tmp_path / "aside").exists()


def changed_columns(store: Store, change: Callable[[dict], object], *, checksum: bool) -> Path:
    path = store.folder / "columns.json"
    columns = json.loads(path.read_text())
    change(columns["hyper"])
    if not checksum:
        columns.pop("checksum", None)
    path.write_text(json.dumps(columns))
    return path


CHANGES: dict[str, Callable[[dict], object]] = {
    "a wrong type": lambda hyper: hyper.update(hyper_beta="String"),
    "a wrong letter": lambda hyper: hyper.update(hyper_zeta=hyper.pop("hyper_beta")),
    "a type that no table has": lambda hyper: hyper.update(hyper_beta="Object"),
    "a type that is no name": lambda hyper: hyper.update(hyper_beta=["Float64"]),
    "a name that is no hyperparameter's": lambda hyper: hyper.update(beta="Float64"),
}


@pytest.mark.parametrize("use", [Store.table, Store.compact], ids=["table", "compact"])
@pytest.mark.parametrize("how", CHANGES)
def test_columns_that_were_changed_are_blamed_and_the_scores_stay(
    store: Store, how: str, use: Callable[[Store], object]
) -> None:
    whole = content(store.folder)
    path = changed_columns(store, CHANGES[how], checksum=True)
    before = content(store.folder)
    with pytest.raises(RequestError, match=rf"{path} is damaged \(its checksum does not match\)"):
        use(store)
    assert content(store.folder) == before
    path.write_bytes(whole["columns.json"])
    assert store.table().height == 3


def test_columns_of_an_earlier_version_get_their_checksum_at_the_next_write(store: Store) -> None:
    path = changed_columns(store, lambda hyper: None, checksum=False)
    rows = store.table()
    assert "checksum" not in json.loads(path.read_text())  # reading changes nothing
    write(store, scores(DAVA, ["sap"]))
    assert json.loads(path.read_text())["checksum"].startswith("sha256:")
    assert store.table().height == rows.height + 1


@pytest.mark.parametrize("how", [how for how in CHANGES if "letter" not in how])
def test_columns_of_an_earlier_version_have_no_checksum_and_move_no_file(store: Store, how: str) -> None:
    changed_columns(store, lambda hyper: None, checksum=False)
    assert store.table().height == 3
    changed_columns(store, CHANGES[how], checksum=True)  # there is none to keep
    before = content(store.folder)
    with pytest.raises(RequestError, match=r"columns\.json is damaged \(columns or types|hyper_beta is String in"):
        store.table()
    assert content(store.folder) == before
    assert "aside" not in files(store.folder)


# ---------------------------------------------------------------- crafted JSON

JSON = {
    "deep": "[" * 200_000,
    "deep and closed": "[" * 100_000 + "]" * 100_000,
    "a number of 5,000 digits": "9" * 5000,
    "a number beyond floats": '{"format": 1e400}',
    "cut off": '{"format": 2',
    "no text": "\udcff",
    "null": "null",
    "a list": "[1, null]",
    "text": '"runs"',
    "the keys without values": '{"format": 2, "hyper": {}, "maker": "train", "runs": [null], "measure": null}',
    "an infinite seed": '{"format": 2, "maker": "train", "runs": [{"seed": Infinity, "optimiser": {}}]}',
}


@pytest.mark.parametrize("how", JSON)
@pytest.mark.parametrize("name", ["request.json", "columns.json"])
def test_crafted_json_is_one_line_that_names_the_file(tmp_path: Path, name: str, how: str) -> None:
    path = tmp_path / name
    path.write_text(JSON[how], encoding="utf-8", errors="surrogateescape")
    if name == "columns.json" and how == "the keys without values":
        return  # these are columns of an empty table
    with pytest.raises(RequestError, match=name) as error:
        Folder.open(tmp_path) if name == "request.json" else Store.open(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["[]", "null", "{}", "[[1]]", '{"task": null}', '{"title": 1, "made": 2}'])
def test_a_crafted_note_is_one_line_that_names_it(tmp_path: Path, text: str) -> None:
    readers = {
        "failures": lambda: Failures(tmp_path).all(),
        "progress": lambda: ProgressNotes(tmp_path).all(),
        "note": lambda: Note.read(tmp_path / "note"),
        "verdicts": lambda: load_verdicts(tmp_path),
    }
    for name, read in readers.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.json").write_text(text)
        with pytest.raises(RequestError, match=rf"{name}/note.json is not a") as error:
            read()
        assert "\n" not in str(error.value)


def test_a_json_file_of_any_size_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with open(path, "wb") as file:
        file.truncate(2**33)
    with pytest.raises(RequestError, match=r"large.json has 8,589,934,592 bytes"):
        read_json(path)


ROWS = {
    "null": "null",
    "a list": "[]",
    "no key": "{}",
    "a list as a name": '{"run": ["a"], "metric": "mig"}',
    "a number beyond floats": '{"value": 1e400}',
    "a number of 5,000 digits": '{"models": %s}' % ("9" * 5000),
    "a number of 30 digits": '{"models": %s}' % ("9" * 30),
}


@pytest.mark.parametrize("how", ROWS)
@pytest.mark.parametrize("which", ["runs", "scores"])
@pytest.mark.parametrize("use", USES, ids=["table", "done", "height", "compact", "rows"])
def test_a_part_with_a_crafted_row_is_set_aside_and_the_rest_is_used(
    store: Store, how: str, which: str, use: Callable[[Store], object]
) -> None:
    (part,) = (store.folder / "parts").iterdir()
    rows = json.loads(part.read_bytes().partition(b"\n")[2])
    text = json.dumps(rows | {which: "ROWS"}).replace('"ROWS"', f"[{ROWS[how]}]").encode()
    (part.with_name("crafted.json")).write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
    with pytest.warns(UserWarning, match=r"crafted.json cannot be used"):
        use(store)
    assert store.table().height == 3


# ---------------------------------------------------------------- crafted arrays and metadata


METADATA: list[dict[str, str]] = [
    {},
    {"run": "{}"},
    {"image_shape": "5"},
    {"image_shape": "[64, 64]"},
    {"image_shape": "[64, 64, 1e400]"},
    {"image_shape": "[" * 100_000},
    {"run": "[" * 100_000},
    {"run": "9" * 5000},
    {"run": '{"world": "blocks", "method": "beta_vae", "hyper": {}, "optimiser": null}'},
]


@pytest.mark.parametrize("change", METADATA, ids=range(len(METADATA)))
def test_a_model_with_crafted_metadata_is_one_line_that_names_it(tmp_path: Path, change: dict[str, str]) -> None:
    path, run = tmp_path / "crafted.safetensors", small_runs()[0]
    usual = {"run": json.dumps(run.canonical()), "image_shape": "[64, 64, 3]", "diverged": "null"}
    save_arrays(path, {}, {"kind": "sober.model"} | (usual | change if change else {}))
    with pytest.raises(RequestError, match=r"crafted.safetensors is not a model of Sober's"):
        load(path)


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        ("sober.judgement", load_judgement),
        ("sober.showcase", load_showcase),
        ("sober.parts", lambda path: list(load_parts(path.parent.parent, path.stem))),
    ],
)
@pytest.mark.parametrize("text", ["[", "[]", "null", "{}", "[" * 100_000, "9" * 5000, '{"runs": 1e400}'])
def test_other_files_with_crafted_metadata_are_one_line_that_names_them(
    tmp_path: Path, kind: str, read: Callable[[Path], object], text: str
) -> None:
    (tmp_path / "matrices").mkdir()
    path = tmp_path / "matrices" / "crafted.safetensors"
    named = {"question": text, "flags": text, "pictures": '{"b": [1]}' if text == "{}" else text}
    for metadata in (named | {"about": text}, {}):
        save_arrays(path, {"a": np.zeros(2)}, {"kind": kind, **metadata})
        with pytest.raises(RequestError, match=r"crafted.safetensors is not a"):
            read(path)


def test_types_that_numpy_lacks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "crafted.safetensors"
    data = save({"a": np.zeros(2, np.float16)})
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].rstrip().replace(b'"F16"', b'"BF16"').ljust(length + 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
    with pytest.raises(RequestError, match=r"crafted.safetensors is "):
        load_arrays(path)


def zipped(path: Path, name: str, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return path


def patched(path: Path, change: Callable[[bytearray, int, int], None]) -> Path:
    """A zip file of one member with its local header and its entry in the directory changed."""
    data = bytearray(path.read_bytes())
    change(data, data.index(b"PK\x03\x04"), data.index(b"PK\x01\x02"))
    path.write_bytes(data)
    return path


def encrypt(data: bytearray, header: int, entry: int) -> None:
    data[header + 6] |= 1
    data[entry + 8] |= 1


def pack_in_an_unknown_way(data: bytearray, header: int, entry: int) -> None:
    data[header + 8] = data[entry + 10] = 77


def array_bytes(array: np.ndarray) -> bytes:
    with io.BytesIO() as file:
        np.save(file, array)
        return file.getvalue()


@pytest.mark.parametrize("change", [encrypt, pack_in_an_unknown_way])
def test_an_npz_that_is_encrypted_or_packed_in_an_unknown_way_is_one_line(
    tmp_path: Path, change: Callable[[bytearray, int, int], None]
) -> None:
    path = patched(zipped(tmp_path / "codes.npz", "codes.npy", array_bytes(np.zeros((9, 2)))), change)
    with pytest.raises(RequestError, match=r"codes.npz cannot be read as an npz file"):
        read_codes(path)
    with pytest.raises(RequestError, match=r"codes.npz cannot be read as an npz file"):
        read_npz(path, ["codes"])


@pytest.mark.parametrize("change", [encrypt, pack_in_an_unknown_way])
def test_an_archive_of_pictures_that_is_encrypted_is_one_line(
    tmp_path: Path, change: Callable[[bytearray, int, int], None]
) -> None:
    path = patched(zipped(tmp_path / "pictures.zip", "a.png", png(8, 8)), change)
    with pytest.raises(RequestError, match=r"none of 1 file in .*pictures.zip can be read"):
        sober.world("pictures", folder=str(path))


def png(height: int, width: int) -> bytes:
    with io.BytesIO() as file:
        Image.new("RGB", (width, height), "red").save(file, "PNG")
        return file.getvalue()


@pytest.mark.parametrize("version", [1, 2])
def test_an_array_that_promises_more_than_its_file_holds_takes_no_memory(tmp_path: Path, version: int) -> None:
    shape = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 4)}\n"
    length = struct.pack("<H" if version == 1 else "<I", len(shape) if version == 1 else 2**32 - 1)
    content = b"\x93NUMPY" + bytes([version, 0]) + length + shape.encode() + bytes(64)
    (tmp_path / "codes.npy").write_bytes(content)
    with pytest.raises(RequestError, match=r"codes.npy cannot be read .*(it ends too early|its npy head)"):
        read_npy(tmp_path / "codes.npy")
    path = zipped(tmp_path / "codes.npz", "codes.npy", content)
    with pytest.raises(RequestError, match=r"codes.npz"):
        read_npz(path, ["codes"])


@pytest.mark.parametrize(
    ("element", "shape"),
    [("<f8", (-5, 3)), ("<f8", (10**30, 0)), ("<f8", (True, False)), ("<f8", (1,) * 40), ("<U0", (10**9,))],
)
def test_an_array_of_an_impossible_shape_is_one_line(tmp_path: Path, element: str, shape: tuple[int, ...]) -> None:
    header = str({"descr": element, "fortran_order": False, "shape": shape}) + "\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(64)
    (tmp_path / "codes.npy").write_bytes(content)
    with pytest.raises(RequestError, match=r"codes.npy cannot be read .*(it ends too early|the shape of no array)"):
        read_npy(tmp_path / "codes.npy")
    with pytest.raises(RequestError, match=r"codes.npz"):
        read_npz(zipped(tmp_path / "codes.npz", "codes.npy", content), ["codes"])


def test_a_damaged_npz_of_another_compression_is_one_line(tmp_path: Path) -> None:
    for kind in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        path = tmp_path / "codes.npz"
        with zipfile.ZipFile(path, "w", kind) as archive:
            archive.writestr("codes.npy", array_bytes(np.random.default_rng(0).normal(size=(60, 3))))
        content = bytearray(path.read_bytes())
        content[90:200] = bytes(byte ^ 0x5A for byte in content[90:200])
        path.write_bytes(content)
        with pytest.raises(RequestError, match=r"codes.npz cannot be read as an npz file"):
            read_npz(path, ["codes"])


def sparse_file(path: Path, **arrays: object) -> Path:
    """Sparse codes as SciPy writes them, with other arrays in place of some."""
    good = {"data": np.ones(60), "indices": np.arange(60) % 5, "indptr": np.arange(61), "shape": (60, 5)}
    np.savez(path, format=np.array(b"csr"), **{**good, **arrays})
    return path


@pytest.mark.parametrize("indices", [np.full(60, 7), np.full(60, 10**6), np.full(60, -1)])
def test_sparse_codes_whose_places_are_outside_touch_no_other_memory(tmp_path: Path, indices: np.ndarray) -> None:
    path = sparse_file(tmp_path / "codes.npz", indices=indices)
    with pytest.raises(RequestError, match=r"codes.npz.* sparse array"):
        read_codes(path)
    codes = scipy.sparse.csr_array((60, 5))
    codes.data, codes.indices, codes.indptr = np.ones(60), indices, np.arange(61)
    factors = np.arange(60)[:, None] % 3
    for refused in (
        lambda: sober.score(codes, factors),
        lambda: sober.udr([codes, codes]),
        lambda: sober.agree({"a": codes, "b": codes}),
        lambda: sober.probe(codes, factors=factors),
    ):
        with pytest.raises(RequestError, match="a sparse array that contradicts itself"):
            refused()


def test_sparse_codes_of_a_trillion_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"codes.npz: a sparse array of 60 rows and 1,000,000,000,000 columns needs"):
        read_codes(sparse_file(tmp_path / "codes.npz", shape=(60, 10**12)))


def test_a_reason_is_short_whatever_a_file_holds(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("a,b\n" + ("9" * 5000 + ",1\n") * 30)
    with pytest.raises(RequestError, match=r"codes.csv cannot be read as a table") as refused:
        read_codes(tmp_path / "codes.csv")
    assert len(str(refused.value)) < 600


def test_more_memory_than_there_is_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "codes.npz", codes=np.zeros((1000, 10)))
    monkeypatch.setattr("sober.files.memory.available_memory", lambda: 50_000)
    with pytest.raises(RequestError, match=r"array 'codes' needs 80,128 bytes of memory, and 50,000 are free"):
        read_npz(tmp_path / "codes.npz", ["codes"])


def test_a_compressed_table_is_unpacked_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LARGEST_TEXT", 10_000)
    (tmp_path / "codes.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 10_000))
    with pytest.raises(RequestError, match=r"codes.csv.gz unpacks to more than 10,000 bytes"):
        read_table(tmp_path / "codes.csv.gz")


def test_a_parquet_file_of_more_rows_than_there_is_memory_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polars.DataFrame({"a": np.zeros(10**6)}).write_parquet(tmp_path / "codes.parquet")
    monkeypatch.setattr("sober.files.memory.available_memory", lambda: 50_000)
    with pytest.raises(RequestError, match=r"codes.parquet needs 8,000,000 bytes of memory, and 50,000 are free"):
        read_table(tmp_path / "codes.parquet")


# Runs a piece of code and prints by how many bytes its memory grew at most.
MEASURING = """
import resource, sys, warnings
from pathlib import Path
from sober.errors import RequestError
import sober, sober.worlds.pictures.own_pictures, sober.requests.code_files
warnings.simplefilter("ignore")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    {code}
except RequestError as error:
    print(error)
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


def told_and_grew(code: str, path: Path, cache: Path) -> tuple[str, int]:
    """What a piece of code says about a file, and how many bytes of memory it took."""
    process = subprocess.run(
        [sys.executable, "-c", MEASURING.replace("{code}", code), str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SOBER_CACHE": str(cache)},
    )
    *told, grew = process.stdout.splitlines()
    return "\n".join(told), int(grew)


def endless(path: Path, name: str, start: bytes, size: int, *, says: int | None = None) -> Path:
    """A zip whose member begins as given and goes on with zeros; its directory may give another size."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        member.write(start)
        for _ in range(size // 2**24):
            member.write(bytes(2**24))
    if says is not None:
        data = bytearray(path.read_bytes())
        entry = data.rindex(b"PK\x01\x02")
        data[entry + 24 : entry + 28] = struct.pack("<I", says)
        path.write_bytes(data)
    return path


@pytest.mark.slow
def test_an_archive_that_lies_about_its_size_takes_little_memory(tmp_path: Path) -> None:
    path = endless(tmp_path / "pictures.zip", "a.png", png(8, 8), 2**31, says=1000)
    assert path.stat().st_size < 2**24
    told, grew = told_and_grew("sober.world('pictures', folder=sys.argv[1])", path, tmp_path / "cache")
    assert "none of 1 file in" in told
    assert grew < 2**28


@pytest.mark.slow
def test_an_npz_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path) -> None:
    header = array_bytes(np.zeros((0, 1024)))
    header = header.replace(b"(0, 1024)", b"(262144, 1024)").replace(b" " * 5 + b"\n", b"\n")
    path = endless(tmp_path / "codes.npz", "codes.npy", header, 2**31)
    told, grew = told_and_grew("sober.requests.code_files.read_codes(Path(sys.argv[1]))", path, tmp_path / "cache")
    assert "codes.npz: array 'codes' would unpack from" in told
    assert grew < 2**28


# ---------------------------------------------------------------- pictures


def test_a_budget_is_shared_and_too_large_a_share_waits_until_it_is_alone() -> None:
    budget, together, most = MemoryBudget(10), 0, 0
    lock = threading.Lock()

    def work(size: int) -> None:
        nonlocal together, most
        with budget.taking(size):
            with lock:
                together += min(size, 10)
                most = max(most, together)
            threading.Event().wait(0.002)
            with lock:
                together -= min(size, 10)

    threads = [threading.Thread(target=work, args=(size,)) for size in (4, 4, 100, 3, 7, 10, 1, 99) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 10
    assert budget.free == 10


@pytest.mark.slow
def test_large_pictures_are_decoded_within_a_limit_for_all_threads(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.png").write_bytes(png(9000, 9000))  # 81 million pixels: a gigabyte with all copies
    code = "sober.parallel.cores = lambda: 8; sober.world('pictures', folder=sys.argv[1])"
    told, grew = told_and_grew(code, folder, tmp_path / "cache")
    assert told == ""
    assert grew < 3 * 2**30  # the limit and a gigabyte
