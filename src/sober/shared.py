"""Results that several metrics, or several criteria, need of the same input: computed once per call of a battery."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Shared:
    """Results of pure functions, kept while one call of a battery lasts.

    `shared(function, codes, bins)` is `function(codes, bins)`, computed at the first call and looked up after that.
    Arguments must be hashable; codes and families are compared by identity, so pass on the same object. A function that
    shares results itself takes the `Shared` as one of its arguments.
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}

    def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        request = self._request(function, args, kwargs)
        if request not in self._results:
            self._results[request] = function(*args, **kwargs)
        return self._results[request]

    def _request(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        """The key of a call: the same whether a value is a default, or given by place or by name.

        Leaves out this `Shared`: with a reference to itself its arrays would outlive the call.
        """
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        return function, tuple((name, value) for name, value in bound.arguments.items() if value is not self)
