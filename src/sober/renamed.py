"""Old names of arguments: they still work, with a warning that names the new one."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

from sober.errors import RequestError

F = TypeVar("F", bound=Callable[..., Any])


def renamed(**new_names: str) -> Callable[[F], F]:
    """Lets callers use old names of arguments: `@renamed(sample="pictures")` above a function with `pictures`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            for old, new in new_names.items():
                if old not in options:
                    continue
                if new in options:
                    raise RequestError(f"{old} is the old name of {new}: give {new} alone")
                warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel=2)
                options[new] = options.pop(old)
            return function(*arguments, **options)

        return cast(F, call)

    return decorate
