"""Other people's libraries: a clear line where one is not installed, or cannot fetch weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sober.errors import RequestError


@contextlib.contextmanager
def needing_package(encoder: str, package: str) -> Iterator[None]:
    """Inside it, a module that is not installed becomes one line with the command that installs the package."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise RequestError(f"{encoder} needs the package {package}: pip install {package}") from error
