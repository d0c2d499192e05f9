"""Starts the command `sober`, or says in one line that Python finds another package named `sober`."""

from __future__ import annotations

import importlib.util
import sys


def main() -> None:
    """Runs the command line."""
    try:
        from sober.cli import main as command  # noqa: PLC0415 -- may not be there
    except ImportError as error:
        if error.name not in {"sober", "sober.cli"}:
            raise
        found = importlib.util.find_spec("sober")
        where = (found and found.origin) or "a folder without __init__.py"
        sys.exit(f"sober: `import sober` finds {where}, not sober-learn: rename it, or use another environment")
    command()
