"""The verdict on the models of each world, on disk.

verdicts/DIGEST.json   the verdict on one world's models; the digest is the world's
"""

from __future__ import annotations

from pathlib import Path

from sober.criteria.verdict import Verdict
from sober.files import expecting, folder_names, read_json, write_json
from sober.results.training_state_files import world_digest


def save_verdict(folder: Path, world: str, verdict: Verdict) -> None:
    """Replaces the verdict on a world's models."""
    path = _path(folder, world)
    path.parent.mkdir(exist_ok=True)
    write_json(path, {"world": world, **verdict.plain()})


def load_verdicts(folder: Path) -> dict[str, Verdict]:
    """The verdicts of a folder, by world."""
    return dict(_load(folder / "verdicts" / name) for name in folder_names(folder / "verdicts", ".json"))


def forget_verdict(folder: Path, world: str) -> None:
    """Removes the verdict on a world's models, if there is one: other models joined them."""
    _path(folder, world).unlink(missing_ok=True)


def _load(path: Path) -> tuple[str, Verdict]:
    """The world and the verdict in a file."""
    with expecting(path, "a verdict saved by Sober"):
        plain = read_json(path)
        return plain["world"], Verdict.of(plain)


def _path(folder: Path, world: str) -> Path:
    return folder / "verdicts" / f"{world_digest(world)}.json"
