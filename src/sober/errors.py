"""Errors that a user can cause. Each message says in one line what was wrong, where, and what to do.

Code that reacts to an error checks its type, never its message.
"""

from __future__ import annotations

import difflib
import errno
import itertools
import os
import shlex
from collections.abc import Iterable

LONG_NAME = 200  # letters: a message gives only both ends of a longer name of a file
LONG_REASON = 300  # letters of an error's message
LONG_VALUE = 60  # letters: a message gives only the start of a longer value
FEW = 12  # the most names that an error lists
SHORTEST = 3  # the fewest letters that are looked for inside longer names
ALIKE, SLIP = 0.6, 0.8  # how like a name is that is suggested, and one with a slip of a letter or two
CLOSE = 0.15  # names are suggested beside the likeliest one if they are less like the unknown one by at most this


class RequestError(ValueError):
    """A request that cannot be met. The command line prints its message and exits with status 2."""


class UnknownError(RequestError):
    """A name that is in no registry."""


class MissingError(RequestError):
    """Files of a published data set are missing."""


class NotMeasuredError(RequestError):
    """A metric that cannot be computed for these codes. Its message is the reason, in a sentence."""


class ReadFaultError(RequestError):
    """The system failed to read a file. The file may be sound, so nothing moves or replaces it."""


class FullDiskError(RequestError):
    """The disk is full."""


def shown(value: object) -> str:
    """A value for a message, in one line of at most `LONG_VALUE` letters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an object's own code
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONG_VALUE else f"{text[:LONG_VALUE]}…"


def listed(names: Iterable[object]) -> str:
    """Names for a message: sorted, separated by commas, in one line."""
    return ", ".join(sorted(" ".join(str(name).split()) for name in names))


def nearest(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """The names that a person may have meant, the likeliest first: none if nothing is like `name`."""
    by_letters = {_letters(full_name): full_name for full_name in reversed(list(names))}
    letters, others = _letters(name), list(by_letters)[::-1]
    if letters in by_letters:
        return [by_letters[letters]]
    longer = sorted((other for other in others if len(letters) >= SHORTEST and letters in other), key=len)
    shorter = sorted((other for other in others if len(other) >= SHORTEST and other in letters), key=len, reverse=True)
    if slips := _alike(letters, others, SLIP):
        longer = [other for other in longer if other.startswith(letters)]
    swapped = [other for other in others if sorted(other) == sorted(letters)]  # the same letters in another order
    matches = [*swapped, *slips, *longer] or _alike(letters, others, ALIKE) or shorter
    return [by_letters[match] for match in list(dict.fromkeys(matches))[:most]]


def _alike(letters: str, names: Iterable[str], least: float) -> list[str]:
    """Names that are spelled almost like `letters`, the likeliest first. Equal first letters count twice."""
    likeness = {}
    for match in difflib.get_close_matches(letters, names, n=6, cutoff=least):
        same_start = sum(
            1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(letters, match, strict=False))
        )
        likeness[match] = difflib.SequenceMatcher(None, letters, match).ratio() + same_start / len(letters + match)
    best = max(likeness.values(), default=0.0)
    ranked = sorted(likeness, key=likeness.__getitem__, reverse=True)
    return [match for match in ranked if likeness[match] > best - CLOSE]


def _letters(name: str) -> str:
    """A name as it is compared: `β-VAE` and `beta_vae` are one."""
    return "".join(character for character in name.casefold().replace("β", "beta") if character.isalnum())


def choices(name: str, names: Iterable[str], where: str = "") -> str:
    """Advice about an unknown name: `did you mean 'mig' or 'rmig'?`, or all names if they are few and none is like it.

    `where` tells where to read a long list, such as "`sober worlds` lists all worlds".
    """
    allowed = list(names)
    if alike := nearest(name, allowed):
        *others, last = map(repr, alike)
        return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"
    if not allowed:
        return "it has none"
    if len(allowed) <= FEW:
        return f"choose one of {listed(allowed)}"
    return where or f"choose one of {listed(sorted(allowed)[:FEW])} and {len(allowed) - FEW} more"


def unknown(kind: str, names: Iterable[str], name: object, where: str = "") -> UnknownError:
    """The error for a name that is not among the known ones: `unknown metric 'mug': did you mean 'mig'?`"""
    return UnknownError(f"unknown {kind} {str(name)!r}: {choices(str(name), names, where)}")


def counted(number: int, noun: str) -> str:
    """`1 model`, `2 models`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shell_command(*words: object) -> str:
    """A command as a person can copy it into a shell: names with spaces or brackets are quoted."""
    return shlex.join(map(str, words))


ADVICE = {  # what a person can do about an error of the system
    errno.ENOSPC: "make room, and run the same command again",
    errno.EDQUOT: "make room, and run the same command again",
    errno.EACCES: "ask for access to it, or name another",
    errno.EPERM: "ask for access to it, or name another",
    errno.EROFS: "name a place that can be written",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOENT: "check the name",
    errno.ENOTDIR: "check the name",
    errno.EISDIR: "name a file, not a folder",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EIO: "check the disk, then run the same command again",
    errno.ESTALE: "check the network drive, then run the same command again",
}


def refused_by_the_system(error: OSError) -> str:
    """An error of the operating system in one line: the file, the reason, and what to do."""
    name = error.filename2 or error.filename or ""
    name = os.fsdecode(name) if isinstance(name, (str, bytes, os.PathLike)) else str(name)
    start = name if len(name) <= LONG_NAME else f"{name[: LONG_NAME // 2]}…{name[-LONG_NAME // 2 :]}"
    advice = ADVICE.get(error.errno or 0)
    return ": ".join(filter(None, (start, brief(error), advice)))


def brief(error: Exception) -> str:
    """The first line of an error's message, shortened if a file's content makes it long; or the name of its type."""
    text = getattr(error, "strerror", None) or str(error)
    reason = (text.splitlines() or [""])[0] or type(error).__name__
    return reason if len(reason) <= LONG_REASON else f"{reason[:LONG_REASON]}…"
