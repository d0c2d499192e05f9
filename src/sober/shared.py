"""What several metrics, or several criteria, need of the same input: computed once, and handed on as an argument."""

from __future__ import annotations

import inspect
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
        request = self._request(function, args, kwargs)
        if request not in self._known:
            self._known[request] = function(*args, **kwargs)
        return self._known[request]

    def _request(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        """The same for a default and for the same value given, by place or by name.

        Leaves out this `Shared` itself: if it held a reference to itself, its arrays would outlive the call.
        """
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        return function, tuple((name, value) for name, value in bound.arguments.items() if value is not self)
