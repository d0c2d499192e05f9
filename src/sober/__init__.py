"""Sober: train families of representation models at once, and say which to trust."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

# The public names stand in __init__.pyi, where types find them, too. Importing Sober imports none of them, so it takes
# no time and needs no JAX: each is imported when it is first used.
_HERE = Path(__file__).parent
_STUB = (_HERE / "__init__.pyi").read_text(encoding="utf-8")
_IMPORTS = re.findall(r"^from (\S+) import (.+)$", _STUB, flags=re.MULTILINE)
_MODULE_OF = {name.split(" as ")[0]: module for module, names in _IMPORTS for name in names.split(", ")}
_RENAMED = dict(re.findall(r"^(\w+) = (\w+)$", _STUB, flags=re.MULTILINE))
_NAMES = {name: name for name in _MODULE_OF if name not in _RENAMED.values()} | _RENAMED

__all__ = list(sorted(_NAMES))  # noqa: C413 -- so that linters see a list


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _NAMES:
        raise AttributeError(f"module 'sober' has no attribute {name!r}")
    from sober.installation import needing_extra  # noqa: PLC0415

    with needing_extra(f"sober.{name}"):
        if (_HERE / name).is_dir():  # a room, such as sober.metrics; sober.results can be called, too
            return importlib.import_module(f"sober.{name}")
        value = getattr(importlib.import_module(_MODULE_OF[_NAMES[name]]), _NAMES[name])
    globals()[name] = value  # from now on an attribute like any other
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _version() -> str:
    from sober.installation import version  # noqa: PLC0415

    return version()
