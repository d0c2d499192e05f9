"""Results that come with Sober: folders of the usual layout, each with a note of how it was made.

results/NAME/note.json   title, what, when, device, command, versions; and under `made` one record for each merge

Such a folder is only read. A report about it goes into the current folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sober.errors import UnknownError, choices
from sober.files import expecting, read_json, write_json

NOTE = "note.json"
LARGEST = 16 * 2**20  # bytes of all results together, to keep the repository and the wheel small


@dataclasses.dataclass(frozen=True)
class Note:
    """What a folder of results holds, and how it was made."""

    title: str
    what: str
    when: str  # day of the latest merge, such as 2026-05-01
    device: str
    command: str
    versions: Mapping[str, str]
    made: tuple[Mapping[str, Any], ...] = ()  # for each merge: when, device, runs, versions, pace

    @staticmethod
    def read(folder: Path) -> Note:
        with expecting(folder / NOTE, "a note about results"):
            plain = read_json(folder / NOTE)
            return Note(**{**plain, "made": tuple(plain.get("made", ()))})

    def write(self, folder: Path) -> None:
        write_json(folder / NOTE, {**dataclasses.asdict(self), "made": list(self.made)})


def home() -> Path:
    """The folder of the results that come with Sober: in the package if it is installed, else in the repository."""
    in_package = Path(__file__).resolve().parents[1] / "shipped_results"
    return in_package if in_package.is_dir() else Path(__file__).resolve().parents[3] / "results"


def shipped(folder: Path | None = None) -> dict[str, Path]:
    """By name, the folders of the results that come with Sober, or of all results with a note in `folder`."""
    return {note.parent.name: note.parent for note in sorted((folder or home()).glob(f"*/{NOTE}"))}


def find_shipped(name: str) -> Path:
    """The folder of the results with this name."""
    if name not in shipped():
        advice = choices(name, shipped(), "`sober results` lists them")
        raise UnknownError(f"no results named {name!r} come with Sober: {advice}")
    return shipped()[name]
