"""Small JSON files. Their content may come from anyone: whatever it is, an error is one line that names the file."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sober.errors import RequestError, brief
from sober.files.atomic import reading, replacing

LARGEST_JSON = 2**29  # bytes of a file: room for the names of millions of pictures


def write_json(path: Path, value: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    advice = "restore it, or choose another folder"
    try:
        with reading(path):
            size = path.stat().st_size
            if size > LARGEST_JSON:
                raise RequestError(f"{path} has {size:,} bytes, and {LARGEST_JSON:,} are allowed: {advice}")
            text = path.read_text(encoding="utf-8")
        return parse_json(text)
    except RequestError:
        raise
    except (OSError, ValueError) as error:
        raise RequestError(f"{path} cannot be read ({brief(error)}): {advice}") from error


def parse_json(text: str | bytes) -> Any:
    """The value in JSON from anyone. Text that is no JSON, or no value that Python can hold, is a `ValueError`."""
    try:
        return json.loads(text, parse_float=_number)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large")
    return number


@contextlib.contextmanager
def expecting(path: Path, noun: str) -> Iterator[None]:
    """Turns every error about unexpected content into a line with the file's name and what it should be."""
    try:
        yield
    except RequestError:
        raise
    except KeyError as error:
        raise RequestError(f"{path} is not {noun} (it has no {error}): restore it, or move it elsewhere") from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise RequestError(f"{path} is not {noun} ({brief(error)}): restore it, or move it elsewhere") from error
