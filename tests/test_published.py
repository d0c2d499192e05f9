"""Published data sets: their files are found, checked and converted once, and no accident to a file gives others."""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import os
import shutil
import socket
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sober.errors import FullDiskError, MissingError, RequestError
from sober.files import raw_rows
from sober.types import Factor
from sober.worlds import WORLDS, world
from sober.worlds import cache as cache_of_pictures
from sober.worlds.published import published_world
from sober.worlds.published.published_world import PublishedWorld, Source, Table
from sober.worlds.views import view
from sober.worlds.world import Grid

CONTENT = np.arange(48, dtype=np.uint8).tobytes()  # twelve pictures of four pixels
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
PUBLISHED = [name for name, kind in WORLDS.items() if kind.origin == "its files"]


class Tiny(Grid, PublishedWorld):
    name = "tiny"
    summary = reference = "a world for these tests"
    factors = (Factor("row", 4), Factor("column", 3))
    image_shape = (2, 2, 1)
    sources = (Source("tiny.bin", "https://example.invalid/tiny.bin", 48, SHA256, direct=False),)

    def convert(self, *paths: Path) -> Iterator[np.ndarray]:
        with open(paths[0], "rb") as file:
            yield from raw_rows(file, (self.size, *self.image_shape))


class Tabled(Tiny):
    """The same pictures with labels that no grid could give."""

    name = "tabled"

    def table(self, *paths: Path) -> Table:
        return Table(np.arange(24, dtype=np.int32).reshape(12, 2) % 5, (("a", "b"), ("c",)))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a data folder of this test's own."""
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SOBER_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> Path:
        raise OSError("no network")

    monkeypatch.setattr(published_world, "_download", unreachable)


def put(folder: Path, content: bytes = CONTENT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.bin").write_bytes(content)
    return folder / "tiny.bin"


def quietly(opened: PublishedWorld) -> np.ndarray:
    """The pictures; a warning fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return opened.pictures


def with_source(kind: type[PublishedWorld], **changes: object) -> type[PublishedWorld]:
    (source,) = kind.sources
    return type(kind.__name__, (kind,), {"sources": (dataclasses.replace(source, **changes),)})


def refusal(opened: PublishedWorld, kind: type[RequestError] = RequestError) -> str:
    """What is said, in one line, where an error of just this kind is raised."""
    with pytest.raises(RequestError) as caught:
        _ = opened.pictures
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return str(caught.value)


def converted_files(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "published").glob("*"))


def test_without_the_file_one_line_says_what_to_get_and_where_to_put_it(cache: Path) -> None:
    message = refusal(Tiny(), MissingError)
    for fact in ("tiny.bin", "48 bytes", SHA256, "https://example.invalid/tiny.bin", str(cache / "data" / "tiny")):
        assert fact in message
    assert "tiny:file=PATH" in message


@pytest.mark.usefixtures("offline")
def test_a_download_that_fails_says_why_and_what_to_do_instead(cache: Path) -> None:
    message = refusal(with_source(Tiny, direct=True)(), MissingError)
    assert "no network" in message
    assert str(cache / "data" / "tiny") in message


def test_the_data_folder_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOBER_DATA", str(tmp_path / "elsewhere"))
    put(tmp_path / "elsewhere" / "tiny")
    assert quietly(Tiny()).tobytes() == CONTENT


@pytest.mark.parametrize("by", ["file", "folder"])
def test_a_file_is_found_by_its_path_or_by_its_folder(tmp_path: Path, by: str) -> None:
    path = put(tmp_path / "mine")
    opened = Tiny(str(path if by == "file" else path.parent))
    assert quietly(opened).tobytes() == CONTENT
    assert opened.spec == f"tiny:file={path if by == 'file' else path.parent}"


@pytest.mark.parametrize("missing", ["nothing", "a folder without it"])
def test_a_path_without_the_file_is_refused_by_name(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "mine"
    if missing != "nothing":
        path.mkdir()
    message = refusal(Tiny(str(path)), MissingError)
    assert str(path) in message
    assert "tiny.bin" in message


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server of one file, tiny.bin."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/tiny.bin" else 404)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_a_missing_file_is_downloaded_into_the_data_folder(cache: Path, server: str) -> None:
    pytest.importorskip("pooch")
    kind = with_source(Tiny, url=f"{server}/tiny.bin", direct=True)
    assert quietly(kind()).tobytes() == CONTENT
    assert (cache / "data" / "tiny" / "tiny.bin").read_bytes() == CONTENT
    assert kind().label == "tiny"


@pytest.mark.parametrize("wrong", [{"checksum": "sha256:" + "0" * 64}, {"url": "/other.bin"}], ids=["sum", "address"])
def test_a_download_that_goes_wrong_leaves_nothing(cache: Path, server: str, wrong: dict[str, str]) -> None:
    pytest.importorskip("pooch")
    url = server + wrong.pop("url", "/tiny.bin")
    assert "no download" in refusal(with_source(Tiny, url=url, direct=True, **wrong)(), MissingError)
    assert list((cache / "data" / "tiny").iterdir()) == []


def test_a_server_that_does_not_answer_is_named() -> None:
    pytest.importorskip("pooch")
    with socket.socket() as reserved:  # bound, but not listening
        reserved.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{reserved.getsockname()[1]}"
        message = refusal(with_source(Tiny, url=f"http://{host}/tiny.bin", direct=True)(), MissingError)
    assert f"(no download: {host} cannot be reached)" in message


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_a_file_with_another_checksum_is_refused_with_both(cache: Path, kind: str) -> None:
    path = put(cache / "data" / "tiny", CONTENT[::-1])
    expected = f"{kind}:{hashlib.new(kind, CONTENT).hexdigest()}"
    message = refusal(with_source(Tiny, checksum=expected)())
    assert str(path) in message
    assert expected in message
    assert f"{kind}:{hashlib.new(kind, CONTENT[::-1]).hexdigest()}" in message
    assert converted_files(cache) == []


def test_a_file_of_another_size_is_refused_before_it_is_read(cache: Path) -> None:
    path = put(cache / "data" / "tiny", CONTENT[:-1])
    message = refusal(Tiny())
    assert f"{path} has 47 bytes" in message
    assert "48 bytes" in message


def test_a_known_checksum_makes_the_name_the_label(cache: Path) -> None:
    put(cache / "data" / "tiny")
    assert Tiny().label == "tiny"


def test_an_unknown_checksum_makes_the_pictures_part_of_the_label(cache: Path) -> None:
    kind = with_source(Tiny, checksum=None, size=None)
    put(cache / "data" / "tiny")
    one = kind()
    assert one.label == f"tiny:{one.fingerprint}"
    put(cache / "data" / "tiny", CONTENT[::-1])
    assert kind().label not in (one.label, "tiny")


@pytest.mark.parametrize("kind", [Tiny, Tabled])
def test_pictures_are_converted_once_and_then_mapped(
    cache: Path, kind: type[PublishedWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache / "data" / kind.name)
    first = kind()
    quietly(first)
    monkeypatch.setattr(kind, "convert", lambda *_: pytest.fail("converted again"))
    monkeypatch.setattr(published_world, "_verify", lambda *_: pytest.fail("checked again"))
    monkeypatch.setattr(cache_of_pictures, "fingerprint", lambda *_: pytest.fail("read again"))
    again = kind()
    assert isinstance(quietly(again), np.memmap)
    assert again.pictures.tobytes() == CONTENT
    assert again.label == first.label == kind.name
    assert again.fingerprint == first.fingerprint


def test_a_table_comes_back_from_the_cache(cache: Path) -> None:
    put(cache / "data" / "tabled")
    quietly(Tabled())
    table = Tabled().converted.table
    assert table is not None
    np.testing.assert_array_equal(table.labels, Tabled().table().labels)
    assert table.values == (("a", "b"), ("c",))


def test_a_file_in_the_data_folder_may_be_deleted_once_converted(cache: Path) -> None:
    path = put(cache / "data" / "tiny")
    quietly(Tiny())
    path.unlink()
    assert quietly(Tiny()).tobytes() == CONTENT


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    path = put(tmp_path / "mine")
    quietly(Tiny(str(path)))
    path.unlink()
    assert str(path) in refusal(Tiny(str(path)), MissingError)


def test_a_file_that_changed_is_converted_again(cache: Path) -> None:
    kind = with_source(Tiny, checksum=None)
    put(cache / "data" / "tiny")
    quietly(kind())
    path = put(cache / "data" / "tiny", CONTENT[::-1])
    os.utime(path, ns=(1, 1))
    assert quietly(kind()).tobytes() == CONTENT[::-1]


def pictures_of(cache: Path) -> Path:
    (path,) = (path for path in (cache / "published").glob("*.npy") if not path.name.endswith(".labels.npy"))
    return path


def damage_record(cache: Path) -> None:
    next((cache / "published").glob("*.json")).write_text("{")


def damage_fields(cache: Path) -> None:
    next((cache / "published").glob("*.json")).write_text('{"files": 3}')


def damage_pictures(cache: Path) -> None:
    path = pictures_of(cache)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")


def truncate_pictures(cache: Path) -> None:
    path = pictures_of(cache)
    path.write_bytes(path.read_bytes()[:-10])


def lengthen_pictures(cache: Path) -> None:
    path = pictures_of(cache)
    path.write_bytes(path.read_bytes()[:-1] + b"\x00more")


def replace_pictures(cache: Path) -> None:
    np.save(pictures_of(cache), np.zeros((3, 2, 2, 1), np.uint8))


def pickle_pictures(cache: Path) -> None:
    np.save(pictures_of(cache), np.array([{}], object))


def delete_pictures(cache: Path) -> None:
    pictures_of(cache).unlink()


def damage_table(cache: Path) -> None:
    next((cache / "published").glob("*.labels.npy")).write_bytes(b"nothing")


@pytest.mark.parametrize(
    "damage",
    [
        damage_record,
        damage_fields,
        damage_pictures,
        truncate_pictures,
        lengthen_pictures,
        replace_pictures,
        pickle_pictures,
        delete_pictures,
        damage_table,
    ],
)
def test_a_damaged_cache_is_made_again_with_a_warning(cache: Path, damage: object) -> None:
    put(cache / "data" / "tabled")
    quietly(Tabled())
    damage(cache)  # type: ignore[operator]
    with pytest.warns(UserWarning, match="damaged.*converting tabled again"):
        assert Tabled().pictures.tobytes() == CONTENT
    assert quietly(Tabled()).tobytes() == CONTENT


def test_a_copied_cache_is_read_once_and_believed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache / "data" / "tiny")
    quietly(Tiny())
    path = pictures_of(cache)
    shutil.copy(path, path.with_suffix(".copy"))
    os.replace(path.with_suffix(".copy"), path)
    os.utime(path, ns=(1, 1))
    monkeypatch.setattr(Tiny, "convert", lambda *_: pytest.fail("converted again"))
    assert quietly(Tiny()).tobytes() == CONTENT
    monkeypatch.setattr(cache_of_pictures, "fingerprint", lambda *_: pytest.fail("read twice"))
    assert quietly(Tiny()).tobytes() == CONTENT


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([np.zeros((11, 2, 2, 1), np.uint8)], "11 pictures, not 12"),
        ([np.zeros((12, 2, 2, 1), np.uint8), np.zeros((1, 2, 2, 1), np.uint8)], "13 pictures, not 12"),
        ([np.zeros((12, 2, 2, 1), np.float32)], "float32"),
        ([np.zeros((12, 2, 2, 3), np.uint8)], r"\(2, 2, 3\)"),
        ([], "0 pictures"),
    ],
)
def test_a_file_that_gives_other_pictures_is_refused_and_nothing_is_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch, parts: list[np.ndarray], says: str
) -> None:
    path = put(cache / "data" / "tiny")
    monkeypatch.setattr(Tiny, "convert", lambda *_: iter(parts))
    with pytest.raises(RequestError, match=says) as caught:
        _ = Tiny().pictures
    assert str(path) in str(caught.value)
    assert converted_files(cache) == []


def test_a_full_disk_is_noticed_before_anything_is_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache / "data" / "tiny")
    monkeypatch.setattr(cache_of_pictures.shutil, "disk_usage", lambda _: SimpleNamespace(free=47))
    monkeypatch.setattr(cache_of_pictures, "IN_MEMORY", 47)
    message = refusal(Tiny(), FullDiskError)
    assert "48 bytes are needed" in message
    assert "SOBER_CACHE" in message
    assert converted_files(cache) == []


def test_a_cache_that_cannot_be_made_is_refused_where_pictures_do_not_fit_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "mine")
    (tmp_path / "plain").touch()
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "plain" / "cache"))
    monkeypatch.setattr(cache_of_pictures, "IN_MEMORY", 47)
    assert "SOBER_CACHE" in refusal(Tiny(str(path)))
    monkeypatch.setattr(cache_of_pictures, "IN_MEMORY", 48)
    with pytest.warns(UserWarning, match=r"could not be cached.*SOBER_CACHE"):
        assert Tiny(str(path)).pictures.tobytes() == CONTENT


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_world_is_listed_without_its_files(name: str, cache: Path) -> None:
    opened = WORLDS[name]()
    assert opened.name == opened.spec == name
    assert opened.size > 10_000
    assert opened.factors
    assert opened.image_shape[:2] == (64, 64)
    assert opened.summary
    assert opened.reference
    assert not cache.exists()


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.usefixtures("offline")
def test_a_published_world_without_its_files_says_what_it_needs(name: str, cache: Path) -> None:
    opened = WORLDS[name]()
    source = opened.sources[0]  # type: ignore[attr-defined]
    message = refusal(opened, MissingError)  # type: ignore[arg-type]
    for fact in (name, source.file, source.url, str(cache / "data" / name), source.checksum or "checksum not known"):
        assert fact in message
    with pytest.raises(MissingError, match="needs"):
        _ = opened.label
    with pytest.raises(MissingError, match="needs"):
        _ = view(opened, "part train 0.5").label


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_source_has_its_terms_and_a_well_formed_checksum(name: str) -> None:
    for source in WORLDS[name].sources:  # type: ignore[attr-defined]
        assert source.licence
        assert source.citation.startswith("@")
        assert source.url.startswith("http")
        if source.checksum is not None:
            kind, _, digits = source.checksum.partition(":")
            assert len(bytes.fromhex(digits)) == hashlib.new(kind).digest_size


def test_a_world_says_which_of_its_files_is_absent_until_it_is_there_or_converted(cache: Path) -> None:
    missing = Tiny().absent()
    assert missing is not None
    assert str(cache / "data" / "tiny") in missing
    path = put(cache / "data" / "tiny")
    assert Tiny().absent() is None
    quietly(Tiny())
    path.unlink()
    assert Tiny().absent() is None
    assert view(Tiny(), "part train 0.5").absent() is None
    assert view(Tiny(), "keep row").absent() is None
    shutil.rmtree(cache)
    assert view(Tiny(), "part train 0.5").absent() == view(Tiny(), "keep row").absent() == missing


def test_absent_answers_about_missing_files_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another size is there; and another error is not taken for a missing file."""
    put(cache / "data" / "tiny", CONTENT[:-1])
    assert Tiny().absent() is None

    def wrong(*_: object) -> Path:
        raise RequestError("something else")

    monkeypatch.setattr(Tiny, "_path", wrong)
    with pytest.raises(RequestError, match="something else"):
        Tiny().absent()


def test_a_condition_on_labels_that_are_missing_says_that_files_are_missing(cache: Path) -> None:
    with pytest.raises(MissingError, match="celeba"):
        world("celeba | without Male == 'yes'")
    with pytest.raises(MissingError, match="no/such"):
        _ = world("shapes3d:file=/no/such.h5 | part train 0.5").label


def test_published_worlds_are_opened_by_name() -> None:
    assert len(PUBLISHED) >= 10
    assert world("shapes3d:file=/no/such.h5").spec == "shapes3d:file=/no/such.h5"


def test_every_offered_download_can_be_checked() -> None:
    """A file over http could be replaced on its way, and md5 of a replaced file could be made to fit."""
    sources = [source for kind in WORLDS.values() for source in getattr(kind, "sources", ())]
    offered = {source.file: source for source in sources if source.offered}
    assert {"3dshapes.h5", "mpi3d_real.npz"} <= set(offered)
    assert not {"nips2015-analogy-data.tar.gz", "rendered_chairs.tar"} & set(offered)
    for source in offered.values():
        assert source.checksum
        assert source.url.startswith("https:")


@pytest.mark.parametrize("weak", [{"checksum": None}, {"checksum": "md5:" + "0" * 32}], ids=["none", "md5 over http"])
def test_a_file_that_cannot_be_checked_is_not_downloaded(cache: Path, server: str, weak: dict[str, str]) -> None:
    message = refusal(with_source(Tiny, url=f"{server}/tiny.bin", direct=True, **weak)(), MissingError)
    assert f"get it from {server}/tiny.bin" in message
    assert not (cache / "data").exists()
