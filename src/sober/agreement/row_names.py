"""Names of rows, as frames and tables have them: the rows of all models are brought into one order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

from sober.errors import RequestError, counted, shown


def names_of_rows(codes: Any) -> np.ndarray | None:
    """The index of a frame of pandas; None if it only counts the rows, and for other arrays."""
    index = getattr(codes, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return None
    return np.fromiter(index, object, len(index))


def in_one_order(names_by_model: Mapping[str, np.ndarray | None]) -> dict[str, Int[np.ndarray, " N"]]:
    """For each model whose rows come in another order than those of the first model with names, the rows to take."""
    named = {model: names for model, names in names_by_model.items() if names is not None}
    if len(named) < 2:
        return {}
    first, *others = named
    places = {name: place for place, name in enumerate(named[first])}
    orders = {}
    for model in others:
        names = named[model]
        if len(names) == len(named[first]) and all(map(_equal, names, named[first])):
            continue
        for owner, owned in ((first, named[first]), (model, names)):
            if len(set(owned)) < len(owned):
                raise RequestError(
                    f"two rows of model {owner!r} have the same name: name rows apart, or drop the names"
                )
        if unknown := [name for name in names if name not in places]:
            raise RequestError(
                f"{counted(len(unknown), 'row')} of model {model!r}, such as {shown(unknown[0])}, are not in "
                f"{first!r}: encode the same rows"
            )
        orders[model] = np.argsort([places[name] for name in names])
    return orders


def _equal(first: Any, second: Any) -> bool:
    return bool(first == second)
