"""A kind of encoder: how people name it, and how it is opened."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sober.encoders.encoder import Encoder, EncoderOptions
from sober.short_text import as_call


@dataclasses.dataclass(frozen=True)
class EncoderKind:
    """One entry of the registry."""

    summary: str
    example: str  # a source of this kind
    takes: Callable[[Any], bool]  # whether a source is of this kind
    open: Callable[[Any, EncoderOptions], Encoder]
    package: str = ""  # what must be installed beside Sober's own extras

    def __repr__(self) -> str:
        return as_call(self)


def begins(word: str) -> Callable[[Any], bool]:
    """Whether a source is `word` or begins with `word:`."""
    return lambda source: isinstance(source, str) and (source == word or source.startswith(f"{word}:"))


def ends(*endings: str) -> Callable[[Any], bool]:
    """Whether a source is the name of a file that ends so."""
    return lambda source: isinstance(source, str | Path) and Path(source).suffix.lower() in endings
