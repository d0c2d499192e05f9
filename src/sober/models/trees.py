"""Trees of arrays as named arrays and back: how models and states become files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import numpy as np

from sober.errors import RequestError

Tree = TypeVar("Tree")


def named_arrays(tree: Any, prefix: str) -> dict[str, np.ndarray]:
    """Every leaf on the host, named by its place: `prefix.encoder.convs.0.weight`."""
    leaves = jax.tree_util.tree_flatten_with_path(jax.device_get(tree))[0]
    return {_name(prefix, path): np.asarray(leaf) for path, leaf in leaves}


def tree_of(template: Tree, arrays: Mapping[str, np.ndarray], prefix: str) -> Tree:
    """The tree with the structure of `template` (whose leaves have `shape` and `dtype`) filled from named arrays."""

    def fill(path: Any, leaf: Any) -> np.ndarray:
        name = _name(prefix, path)
        found = arrays.get(name)
        if found is None or found.shape != leaf.shape or found.dtype != leaf.dtype:
            have = "is missing" if found is None else f"has shape {found.shape} and type {found.dtype}"
            raise RequestError(f"array {name} {have}, expected {leaf.shape} {leaf.dtype}: the file is of another run")
        return found

    return jax.tree_util.tree_map_with_path(fill, template)


def _name(prefix: str, path: Any) -> str:
    names = [prefix, *(jax.tree_util.keystr((part,), simple=True) for part in path)]
    return ".".join(filter(None, names))  # a net inside another may have no name of its own
