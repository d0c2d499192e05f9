"""The papers' tables: results as runs, the tables by name, and how they are written."""

from sober.tables.papers import TABLES, Made, Table, make
from sober.tables.runs import Runs, as_runs, pairs_of
from sober.tables.written import latex, markdown, write

__all__ = ["TABLES", "Made", "Runs", "Table", "as_runs", "latex", "make", "markdown", "pairs_of", "write"]
