"""Trees of arrays as named arrays and back, for the files of models and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import numpy as np

from sober.errors import RequestError

Tree = TypeVar("Tree")


def named_arrays(tree: Any, prefix: str) -> dict[str, np.ndarray]:
    """All leaves of a tree, on the host, named by their path: `prefix.encoder.convs.0.weight`."""
    leaves = jax.tree_util.tree_flatten_with_path(jax.device_get(tree))[0]
    return {_name(prefix, path): np.asarray(leaf) for path, leaf in leaves}


def tree_from_arrays(template: Tree, arrays: Mapping[str, np.ndarray], prefix: str) -> Tree:
    """The tree of `template`, whose leaves have `shape` and `dtype`, filled from named arrays."""

    def fill(path: Any, leaf: Any) -> np.ndarray:
        name = _name(prefix, path)
        array = arrays.get(name)
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            problem = "is missing" if array is None else f"has shape {array.shape} and type {array.dtype}"
            raise RequestError(
                f"array {name} {problem}, expected {leaf.shape} {leaf.dtype}: the file is of another run"
            )
        return array

    return jax.tree_util.tree_map_with_path(fill, template)


def _name(prefix: str, path: Any) -> str:
    names = [prefix, *(jax.tree_util.keystr((key,), simple=True) for key in path)]
    return ".".join(filter(None, names))  # a net inside another net may have no name
