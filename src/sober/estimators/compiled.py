"""Loops that numba compiles when they are first called, and stores in Sober's cache folder if it can.

Numba finds stored code by the function's name and first line, and reads it before it checks its age. Stored code names
the classes of the arguments. So if such a class is renamed, rename the compiled functions that take it too.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from sober.errors import RequestError
from sober.files import cache_dir, writable_folder

FOLDER = "loops"  # in the cache folder
Inlining = Literal["by_llvm", "forced", "in_source"]


class Callee(NamedTuple):
    """A function that compiled code calls, with a `fastmath` of its own."""

    function: Callable[..., Any]
    fastmath: frozenset[str]


@functools.lru_cache(maxsize=64)  # more than the loops of the package, which are about a dozen
def compiled(
    function: Callable[..., Any],
    *callees: Callable[..., Any] | Callee,
    fastmath: frozenset[str] = frozenset(),
    inlining: Inlining = "by_llvm",
) -> Callable[..., Any]:
    """A function as machine code, which runs beside other threads and divides by zero as NumPy does.

    `callees` are the Python functions that it calls, directly or through each other. `fastmath` names the liberties
    that LLVM may take with floating-point numbers; without any, sums and products keep their order. `inlining` says who
    copies callees into the function: LLVM where it pays, LLVM always, or numba before it infers types. Call this
    before threads start: two threads that call it at once would both compile.
    """
    import numba  # noqa: PLC0415 -- takes half a second, so only who compiles pays it
    from numba.extending import overload  # noqa: PLC0415

    for callee in callees:
        python, liberties = callee if isinstance(callee, Callee) else (callee, fastmath)
        options: Any = _options(liberties) | ({"forceinline": True} if inlining == "forced" else {})
        inline: Literal["always", "never"] = "always" if inlining == "in_source" else "never"
        overload(python, jit_options=options, inline=inline, strict=False)(lambda *_, python=python: python)
    compile_ = functools.partial(numba.njit, nogil=True, **_options(fastmath))
    try:
        with _stored_in_the_cache_folder():
            return compile_(function, cache=True)
    except (RequestError, RuntimeError):  # the folder cannot be written to
        return compile_(function)


@contextlib.contextmanager
def _stored_in_the_cache_folder() -> Iterator[None]:
    """Functions that are wrapped inside the block have their code in the cache folder, or where NUMBA_CACHE_DIR says.

    Numba reads its setting while it wraps a function. The end of the block restores the setting.
    """
    import numba  # noqa: PLC0415

    config: Any = numba.config
    before = config.CACHE_DIR
    folder = before or str(writable_folder(cache_dir() / FOLDER))
    try:
        config.CACHE_DIR = folder
        yield
    finally:
        config.CACHE_DIR = before


def _options(fastmath: frozenset[str]) -> dict[str, Any]:
    return {"error_model": "numpy"} | ({"fastmath": set(fastmath)} if fastmath else {})
