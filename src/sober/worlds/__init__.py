"""Worlds, by name. To add one: one file here, one line below, one test."""

from __future__ import annotations

import functools
import inspect
import re

from sober.errors import RequestError, listed
from sober.worlds.blocks import Blocks
from sober.worlds.dsprites import DSprites
from sober.worlds.world import Continuum, Grid, Sample, World

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
    # A comma begins another option only before NAME=, so that a path may hold commas.
    pairs = dict(option.partition("=")[::2] for option in re.split(r",(?=\w+=)", options) if option)
    takes = inspect.signature(WORLDS[name]).parameters
    if unknown := pairs.keys() - takes.keys():
        has = f"it takes {listed(takes)}" if takes else "it takes none"
        raise RequestError(f"world {name!r} has no option {listed(unknown)!r}: {has}")
    return WORLDS[name](**pairs)


__all__ = ["WORLDS", "Continuum", "Grid", "Sample", "World", "world"]
