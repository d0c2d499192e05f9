"""Results that come with Sober: folders of the usual layout, kept as they are, each with a note of how it came about.

results/NAME/note.json   title, what, when, device, command, versions; and beneath `made` one record for each merge

Whoever opens such a folder only reads: what is written about it goes elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sober.errors import RequestError, UnknownError, listed
from sober.files import read_json, write_json

NOTE = "note.json"
LARGEST = 16 * 2**20  # bytes of all of them: what a repository and a wheel can carry


@dataclasses.dataclass(frozen=True)
class Note:
    """What a folder of results holds, and how it came about."""

    title: str
    what: str
    when: str  # of the latest, as 2026-05-01
    device: str
    command: str
    versions: Mapping[str, str]
    made: tuple[Mapping[str, Any], ...] = ()  # what each merge brought: when, device, runs, versions, pace

    @staticmethod
    def read(folder: Path) -> Note:
        plain = read_json(folder / NOTE)
        try:
            return Note(**{**plain, "made": tuple(plain.get("made", ()))})
        except TypeError as error:
            raise RequestError(f"{folder / NOTE} is not a note about results: restore it") from error

    def write(self, folder: Path) -> None:
        write_json(folder / NOTE, {**dataclasses.asdict(self), "made": list(self.made)})


def home() -> Path:
    """Where the results that come with Sober are: beside its code in a wheel, else in the repository."""
    beside = Path(__file__).resolve().parents[1] / "shipped_results"
    return beside if beside.is_dir() else Path(__file__).resolve().parents[3] / "results"


def shipped(folder: Path | None = None) -> dict[str, Path]:
    """The results that come with Sober, or those in a folder of them, by name."""
    return {note.parent.name: note.parent for note in sorted((folder or home()).glob(f"*/{NOTE}"))}


def find_shipped(name: str) -> Path:
    """The folder of the results of that name."""
    if name not in shipped():
        has = f"choose from {listed(shipped())}" if shipped() else "none are in yet"
        raise UnknownError(f"no results named {name!r} come with Sober: {has}")
    return shipped()[name]
