"""The families of a folder of results: its runs on each world."""

from __future__ import annotations

from sober.errors import RequestError, listed
from sober.files.model_files import finished_runs
from sober.models.family import Family
from sober.results.folder import Folder


def families_of(folder: Folder) -> dict[str, Family]:
    """The runs on each world, by the world's label."""
    by_world = folder.request.by_world()
    return {label: Family(folder.path, folder.request.worlds[label], runs) for label, runs in by_world.items()}


def finished_families(folder: Folder) -> dict[str, Family]:
    """The finished runs on each world, by the world's label. Worlds without finished runs are left out."""
    families = families_of(folder)
    finished = {label: finished_runs(folder.path, family.runs) for label, family in families.items()}
    return {label: families[label].part(runs) for label, runs in finished.items() if runs}


def only_family(folder: Folder) -> Family:
    """The runs of the folder's only world. A folder with several worlds is refused."""
    families = families_of(folder)
    if len(families) != 1:
        raise RequestError(f"{folder.path} has runs on {listed(families) or 'no world'}: choose one of them")
    return next(iter(families.values()))
