"""The worlds that a person names, each at the size that an encoder takes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sober.encoders.encoder import Encoder
from sober.errors import RequestError
from sober.types import WorldSpec
from sober.worlds import WORLDS, World
from sober.worlds import world as open_world
from sober.worlds.drawn.sized import LARGEST, Sized


def named_worlds(worlds: str | Sequence[str]) -> list[str]:
    """Several worlds in one text are separated by commas; a comma before `NAME=` belongs to a world's options."""
    texts = re.split(r",(?!\s*\w+=)", worlds) if isinstance(worlds, str) else list(worlds)
    named = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if not named:
        raise RequestError("name a world to probe with, as in --world rooms")
    return named


def world_for(text: str, encoder: Encoder | None, size: int | None) -> tuple[World, str]:
    """A world at the size that an encoder takes, and a note where its pictures must be resized.

    `size` is the size that a person asked for. Drawn worlds are drawn at any size.
    """
    spec = WorldSpec.parse(text)
    side = size or (min(encoder.side, LARGEST) if encoder is not None and encoder.side else None)
    drawn = issubclass(WORLDS.get(spec.name, World), Sized)
    opened = open_world(spec, size=side) if drawn and side and "size" not in spec.options else open_world(spec)
    if not opened.factors:
        raise RequestError(f"world {text!r} has no factors that an encoder could know: name another")
    height, width, _ = opened.image_shape
    takes = encoder.side if encoder is not None else None
    if takes is None or (height, width) == (takes, takes):
        return opened, ""
    return opened, f"{text}: pictures of {height} x {width} are resized to {takes} x {takes} for {encoder.name}"  # type: ignore[union-attr]
