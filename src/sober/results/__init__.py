"""Results: the folder, the table, statistics, the papers' tables, and how they are written."""

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
