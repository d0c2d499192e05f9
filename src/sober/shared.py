"""What several metrics, or several criteria, need of the same input: computed once, and handed on as an argument."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Shared:
    """Results of pure functions, for as long as one call of a battery lasts.

    `shared(function, codes, bins)` is `function(codes, bins)`, computed at the first call and looked up after that.
    Arguments must be hashable; codes and families are known by identity, so hand on the same object. A function that
    shares more itself takes the `Shared` as one of its arguments.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        request = (function, args, tuple(sorted(kwargs.items())))
        if request not in self._known:
            self._known[request] = function(*args, **kwargs)
        return self._known[request]
