"""Results: the folder, the table, statistics, the papers' tables, and how they are written.

This room is also a function: `sober.results("NAME")` opens results that come with Sober.
"""

import importlib
import sys
import types
from typing import Any

from sober.results.folder import Folder
from sober.results.formats import latex, markdown, write
from sober.results.papers import TABLES, Made, Table, make
from sober.results.request import Measure, Request
from sober.results.runs import Runs, as_runs
from sober.results.store import Store

__all__ = [
    "TABLES",
    "Folder",
    "Made",
    "Measure",
    "Request",
    "Runs",
    "Store",
    "Table",
    "as_runs",
    "latex",
    "make",
    "markdown",
    "write",
]


class _Room(types.ModuleType):
    """A module that can be called: the name of the room is also that of the public function."""

    def __call__(self, name: str) -> Any:
        return importlib.import_module("sober.workflows.opened").shipped_results(name)


sys.modules[__name__].__class__ = _Room
