"""Worlds, by name. To add one: one file here, one line below, one test."""

from __future__ import annotations

import functools

from sober.errors import RequestError, listed
from sober.worlds.blocks import Blocks
from sober.worlds.dsprites import DSprites
from sober.worlds.world import Sample, World

WORLDS: dict[str, type[World]] = {
    "blocks": Blocks,
    "dsprites": DSprites,
}


@functools.lru_cache(maxsize=4)
def world(spec: str) -> World:
    """The world of this name; options follow a colon, as in `dsprites:file=dsprites.npz`."""
    name, _, options = spec.partition(":")
    if name not in WORLDS:
        raise RequestError(f"unknown world {name!r}: choose one of {listed(WORLDS)}")
    pairs = dict(option.partition("=")[::2] for option in options.split(",") if option)
    try:
        return WORLDS[name](**pairs)
    except TypeError as error:
        raise RequestError(f"world {name!r} does not take the options {options!r}") from error


__all__ = ["WORLDS", "Sample", "World", "world"]
