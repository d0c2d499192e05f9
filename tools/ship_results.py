"""Puts the tables and judgements of a folder of results into results/, where they come with Sober. Codes stay behind.

Only files that tools/check_results.py accepts are copied.

python tools/ship_results.py FOLDER NAME --what "in a sentence" --when 2026-11-19 --device "one NVIDIA H200"
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

from check_results import FILES, FOLDERS  # noqa: E402
from sober.errors import RequestError  # noqa: E402
from sober.evaluation.context import versions  # noqa: E402
from sober.results.folder import Folder  # noqa: E402
from sober.results.shipped import LARGEST, NOTE, Note  # noqa: E402

WEIGHTS = "models"  # they stay behind, too


def ship(source: Path, name: str, description: str, when: str, device: str, command: str, without: list[str]) -> Path:
    """Copies a folder's facts about its models, writes the note, and refuses more bytes than may come with Sober."""
    folder, target = Folder.open(source), ROOT / "results" / name
    if target.resolve() == folder.path.resolve():
        raise RequestError(f"{target} is where the results go: give the folder that they come from")
    folder.store.compact()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for file in FILES - {NOTE}:
        if (folder.path / file).is_file():
            shutil.copyfile(folder.path / file, target / file)
    for place, endings in FOLDERS.items():
        if place == WEIGHTS or place in without:
            continue
        for path in (folder.path / place).glob("*"):
            if path.suffix in endings:
                (target / place).mkdir(exist_ok=True)
                shutil.copyfile(path, target / place / path.name)
    Note(folder.request.title or description, description, when, device, command, versions()).write(target)
    size = sum(path.stat().st_size for path in (ROOT / "results").rglob("*") if path.is_file())
    if size > LARGEST:
        sys.exit(f"{target} was written, but all results take {size / 2**20:.1f} MiB of {LARGEST / 2**20:.0f}")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", help="of the folder in results/")
    parser.add_argument("--what", dest="description", required=True, help="what the folder holds, in a sentence")
    parser.add_argument("--when", required=True, help="the day when it was made")
    parser.add_argument("--device", required=True, help="what it was trained on")
    parser.add_argument("--command", default="", help="the command that made it")
    parser.add_argument("--without", action="append", default=[], help="a part to leave behind, such as matrices")
    arguments = vars(parser.parse_args())
    try:
        print(ship(arguments.pop("folder"), **arguments))
    except RequestError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
