"""What a user can cause: each error says what was wrong, where, and what to do, in one line.

Code that reacts to an error asks for its type, never for its words.
"""

from __future__ import annotations

from collections.abc import Iterable


class RequestError(ValueError):
    """A request that cannot be met. The command line prints its message and exits with status 2."""


class UnknownError(RequestError):
    """A name that is in no registry."""


class MissingError(RequestError):
    """Files of a published data set that are not here."""


class NotMeasuredError(RequestError):
    """A metric that cannot be computed for these codes. Its message is the reason, in a sentence."""


class FullDiskError(RequestError):
    """There is no room to write."""


def listed(names: Iterable[object]) -> str:
    """Names as a person would list them in a message: sorted, separated by commas."""
    return ", ".join(sorted(str(name) for name in names))


def counted(number: int, noun: str) -> str:
    """`1 model`, `2 models`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def brief(error: Exception) -> str:
    """What went wrong, in one line: the first that the error has."""
    text = getattr(error, "strerror", None) or str(error)
    return (text.splitlines() or [""])[0] or type(error).__name__
