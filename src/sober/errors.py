"""The one exception a user causes: it says what was wrong, where, and what to do, in one line."""

from __future__ import annotations


class RequestError(ValueError):
    """A request that cannot be met. The command line prints its message and exits with status 2."""


def listed(names: object) -> str:
    """Names as a person would list them in a message: sorted, separated by commas."""
    return ", ".join(sorted(str(name) for name in names))  # type: ignore[attr-defined]
