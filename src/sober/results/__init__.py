"""The papers' tables: results as runs, the tables by name, and how they are written."""

from sober.results.formats import latex, markdown, write
from sober.results.papers import TABLES, Made, Table, make
from sober.results.runs import Runs, as_runs, pairs_of

__all__ = ["TABLES", "Made", "Runs", "Table", "as_runs", "latex", "make", "markdown", "pairs_of", "write"]
