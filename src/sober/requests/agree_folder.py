"""What recurs among the models of a folder of results, from the codes that it keeps."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from sober.agreement.analysis import analyse
from sober.agreement.features import FEWEST_ROWS
from sober.errors import RequestError, shell_command
from sober.files import folder_names, load_arrays
from sober.models.packed_codes import unpacked
from sober.requests.results import Results
from sober.types import Codes

if TYPE_CHECKING:
    from sober.report.component_pictures import FolderAgreement

KEPT = re.compile(r"(?P<run>[0-9a-f]+)(?P<pictures>-\d+-\d+)?\.safetensors")  # a file of codes, and which pictures
FEWEST = 3  # models of one world that a report compares
ROWS, DRAWS = 4_096, 1_024  # pictures, and features of each kind of chance, for a report


def kept_codes(results: Results) -> dict[str, dict[str, Codes]]:
    """The codes that a folder keeps of the same pictures, by world and by run: the pictures of most models."""
    files: dict[str, dict[str, str]] = defaultdict(dict)
    folder = results.path / "codes"
    for name in folder_names(folder, ".safetensors"):
        if match := KEPT.fullmatch(name):
            files[match["run"]][match["pictures"] or ""] = name
    by_world: dict[str, dict[str, Codes]] = {}
    for world in dict.fromkeys(run.world for run in results.runs):
        runs = [run for run in results.runs if run.world == world and run.identity in files]
        pictures = Counter(pictures for run in runs for pictures in files[run.identity])
        if not pictures:
            continue
        most = max(pictures, key=lambda name: (pictures[name], name))
        by_world[world] = {
            run.identity: _codes(results, files[run.identity][most]) for run in runs if most in files[run.identity]
        }
    return by_world


def _codes(results: Results, name: str) -> Codes:
    arrays, _ = load_arrays(results.path / "codes" / name)
    mean, logvar = unpacked(arrays).values()
    return Codes(mean, logvar if np.ptp(logvar) > 0 else None, np.zeros((len(mean), 0)), ())


def _names(results: Results, identities: Iterable[str]) -> dict[str, str]:
    """The name of each run for people, its setting and its seed, and the run's identity."""
    by_identity = {run.identity: run for run in results.runs}
    runs = [by_identity[identity] for identity in identities]
    words = [f"{results.words(run)}, seed {run.seed}" for run in runs]
    times = Counter(words)
    return {
        name if times[name] == 1 else f"{name} ({run.identity[:6]})": run.identity
        for name, run in zip(words, runs, strict=True)
    }


def codes_of_folder(results: Results) -> dict[str, Codes]:
    """The codes of the folder's world whose models it keeps most codes of."""
    by_world = kept_codes(results)
    codes = max(by_world.values(), key=len, default={})
    if len(codes) < 2:
        raise RequestError(
            f"{results.path} keeps codes of {len(codes)} models, and what recurs needs two: "
            f"{shell_command('sober', 'encode', results.path)} keeps them"
        )
    return {name: codes[run] for name, run in _names(results, codes).items()}


def agreements(results: Results) -> dict[str, FolderAgreement]:
    """For a report: what recurs on each world with enough models, from fewer rows."""
    from sober.report.component_pictures import FolderAgreement  # noqa: PLC0415 -- reports take long to import

    compared: dict[str, FolderAgreement] = {}
    for world, by_run in kept_codes(results).items():
        finite = [
            run for run, codes in by_run.items() if len(codes.mean) >= FEWEST_ROWS and np.isfinite(codes.mean).all()
        ]
        if len(finite) >= FEWEST:
            runs = _names(results, finite)
            analysis = analyse({name: by_run[run] for name, run in runs.items()}, rows=ROWS, draws=DRAWS)
            compared[world] = FolderAgreement(analysis, runs)
    return compared
