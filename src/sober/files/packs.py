"""Packs: files that are carried from one machine to another, together, checked when they are taken up again.

WORD-DIGEST-K-of-N.pack   a line of JSON (format, checksum of the whole, which piece this is), then a piece of the whole

The whole is a zip archive with manifest.json, which says what the pack is, and has the checksum of every other file. A
pack is read into memory, never unpacked to where its names point; no name leads out of a folder, and nothing in it is
ever run or unpickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sober.errors import RequestError, brief, listed

FORMAT = "sober.pack.1"
ENDING = ".pack"
PIECE = 16 * 2**20  # bytes of a file
LARGEST = 64 * 2**20  # of a pack, and of all that it holds eight times as much
NAME = re.compile(r"(?:[A-Za-z0-9_-]+/)*[A-Za-z0-9][A-Za-z0-9_.-]*")  # of a file in a pack
MANIFEST = "manifest.json"
DENSE = ("models/", "checkpoints/")  # weights, which do not get smaller


class Pack(NamedTuple):
    """What is carried: plain values that say what it is, and files by their names."""

    about: Mapping[str, Any]
    files: Mapping[str, bytes]
    paths: tuple[Path, ...] = ()  # its pieces, where it was read


def pack_bytes(about: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """A pack as one archive, the same bytes for the same content."""
    checksums = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    manifest = json.dumps({"format": FORMAT, "about": about, "files": checksums}, sort_keys=True).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in {MANIFEST: manifest, **dict(sorted(files.items()))}.items():
            how = zipfile.ZIP_STORED if name.startswith(DENSE) else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), data, how)
    return buffer.getvalue()


def pieces(word: str, data: bytes, size: int = PIECE) -> dict[str, bytes]:
    """A pack as files of at most so many bytes, by name."""
    whole, room = hashlib.sha256(data).hexdigest(), size - 256
    parts = [data[start : start + room] for start in range(0, len(data), room)]
    return {
        f"{word}-{whole[:12]}-{number}-of-{len(parts)}{ENDING}": _header(whole, number, len(parts)) + part
        for number, part in enumerate(parts, start=1)
    }


def read_packs(paths: Iterable[Path]) -> tuple[list[Pack], list[str]]:
    """The packs in these files, and in folders among them; and in a line each what is wrong with others."""
    packs: list[Pack] = []
    wrong: list[str] = []
    parts: dict[tuple[str, int], dict[int, tuple[Path, bytes]]] = {}
    for path in _files(paths):
        try:
            (whole, number, count), data = _piece(path)
            parts.setdefault((whole, count), {})[number] = (path, data)
        except RequestError as error:
            wrong.append(str(error))
    for (whole, count), found in parts.items():
        try:
            packs.append(_joined(whole, count, found))
        except RequestError as error:
            wrong.append(str(error))
    return packs, wrong


def _files(paths: Iterable[Path]) -> list[Path]:
    several = [sorted(path.glob(f"*{ENDING}")) if path.is_dir() else [path] for path in map(Path, paths)]
    return list(dict.fromkeys(path for some in several for path in some))


def _header(whole: str, number: int, count: int) -> bytes:
    return json.dumps({"format": FORMAT, "whole": whole, "piece": number, "of": count}).encode() + b"\n"


def _piece(path: Path) -> tuple[tuple[str, int, int], bytes]:
    try:
        if path.stat().st_size > LARGEST:
            raise RequestError(f"{path} is larger than a pack can be")
        head, _, data = path.read_bytes().partition(b"\n")
        about = json.loads(head)
        whole, number, count = about["whole"], about["piece"], about["of"]
        if about["format"] != FORMAT:
            raise RequestError(f"{path} was written by another version of Sober (format {about['format']})")
        if not (isinstance(whole, str) and isinstance(count, int) and 1 <= int(number) <= count):
            raise ValueError("a piece without a place")
        return (whole, int(number), count), data
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({brief(error)})") from error
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(f"{path} is no pack of Sober's, or damaged ({brief(error)})") from error


def _joined(whole: str, count: int, found: Mapping[int, tuple[Path, bytes]]) -> Pack:
    paths = tuple(path for _, (path, _) in sorted(found.items()))
    if lacking := set(range(1, count + 1)) - found.keys():
        raise RequestError(f"{paths[0]} is one of {count} pieces: piece {listed(lacking)} is not here, bring it, too")
    data = b"".join(part for _, (_, part) in sorted(found.items()))
    if len(data) > LARGEST or hashlib.sha256(data).hexdigest() != whole:
        raise RequestError(f"{paths[0]} is damaged (its checksum does not match): bring it again")
    about, files = _opened(paths[0], data)
    return Pack(about, files, paths)


def _opened(path: Path, data: bytes) -> tuple[Mapping[str, Any], dict[str, bytes]]:
    """The content of an archive, every name and every checksum of it looked at."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if sum(info.file_size for info in infos) > 8 * LARGEST:
                raise RequestError(f"{path} holds more than a pack can: it is refused")
            if odd := [info.filename for info in infos if not safe_name(info.filename)]:
                raise RequestError(f"{path} has a file named {odd[0]!r}, which leads out of a folder: it is refused")
            files = {info.filename: archive.read(info) for info in infos}
        manifest = json.loads(files.pop(MANIFEST))
        checksums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        if len(infos) != len(files) + 1 or manifest["files"] != checksums or not isinstance(manifest["about"], dict):
            raise RequestError(f"{path} does not hold what its manifest says: it is refused")
        return manifest["about"], files
    except (zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, NotImplementedError, EOFError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(f"{path} is no pack of Sober's, or damaged ({brief(error)})") from error


def safe_name(name: str) -> bool:
    """Whether a name stays in the folder that it is written to."""
    return NAME.fullmatch(name) is not None


def total(names: Sequence[Path]) -> int:
    """Bytes of files."""
    return sum(path.stat().st_size for path in names)
