"""Results as data: the folder, its table, statistics, the papers' tables, and how they are written.

Reading results needs neither JAX nor the code that trained the models. This package is also a function:
`sober.results("NAME")` opens results that come with Sober.
"""

import importlib
import sys
import types
import warnings
from typing import Any

from sober.results.folder import Folder
from sober.results.formats import latex, markdown, write_table
from sober.results.request import Measure, Request
from sober.results.runs import Runs, as_runs
from sober.results.store import Store
from sober.results.tables.registry import TABLES, make_tables
from sober.results.tables.table import ResultTable, Table

__all__ = [
    "TABLES",
    "Folder",
    "Measure",
    "Request",
    "ResultTable",
    "Runs",
    "Store",
    "Table",
    "as_runs",
    "latex",
    "make_tables",
    "markdown",
    "write_table",
]

_RENAMED = {"Made": "ResultTable", "make": "make_tables", "write": "write_table"}


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"sober.results.{name} is now called {_RENAMED[name]}", DeprecationWarning, stacklevel=2)
    return globals()[_RENAMED[name]]


class _CallableModule(types.ModuleType):
    """A module that can be called, because the public function `sober.results` has the same name."""

    def __call__(self, name: str) -> Any:
        return importlib.import_module("sober.requests.results").shipped_results(name)


sys.modules[__name__].__class__ = _CallableModule
