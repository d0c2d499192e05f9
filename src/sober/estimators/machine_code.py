"""Loops as machine code, by numba: compiled when first used, and kept on disk where there is a place for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


@functools.cache
def machine_code(function: Callable[..., Any], *parts: Callable[..., Any]) -> Callable[..., Any]:
    """A function compiled, with the functions of its own file that it calls. It runs beside other threads."""
    import numba  # noqa: PLC0415 -- half a second that only those pay who come here
    from numba.extending import register_jitable  # noqa: PLC0415

    options: dict[str, Any] = {"error_model": "numpy"}
    for part in parts:
        register_jitable(**options)(part)
    compile_ = functools.partial(numba.njit, nogil=True, **options)
    try:
        return compile_(function, cache=True)
    except RuntimeError:  # no folder that can be written to
        return compile_(function)
