"""Worlds, by name. To add one: its file in a folder here, one line in `WORLDS`, its test."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from typing import Any

from sober.errors import MissingError, RequestError, UnknownError, listed
from sober.worlds.drawn.abstract_dsprites import AbstractDSprites
from sober.worlds.drawn.blocks import Blocks
from sober.worlds.drawn.color_dsprites import ColorDSprites
from sober.worlds.drawn.dsprites import DSprites
from sober.worlds.drawn.heads import Heads
from sober.worlds.drawn.noisy_dsprites import NoisyDSprites
from sober.worlds.drawn.rooms import Rooms
from sober.worlds.drawn.scream_dsprites import ScreamDSprites
from sober.worlds.drawn.teapots import Teapots
from sober.worlds.pictures.given import from_array, from_dataset, from_iterable
from sober.worlds.pictures.own import OwnPictures
from sober.worlds.published.cars3d import Cars3D
from sober.worlds.published.celeba import CelebA
from sober.worlds.published.chairs3d import Chairs3D
from sober.worlds.published.comp_cars import CompCars
from sober.worlds.published.faces3d import Faces3D
from sober.worlds.published.mpi3d import MPI3DReal, MPI3DRealistic, MPI3DToy
from sober.worlds.published.shapes3d import Shapes3D
from sober.worlds.published.small_norb import SmallNORB
from sober.worlds.views import VIEWS, view
from sober.worlds.world import Continuum, Grid, Sample, World

WORLDS: dict[str, type[World]] = {
    "abstract_dsprites": AbstractDSprites,
    "blocks": Blocks,
    "cars3d": Cars3D,
    "celeba": CelebA,
    "chairs3d": Chairs3D,
    "color_dsprites": ColorDSprites,
    "comp_cars": CompCars,
    "dsprites": DSprites,
    "faces3d": Faces3D,
    "heads": Heads,
    "mpi3d_real": MPI3DReal,
    "mpi3d_realistic": MPI3DRealistic,
    "mpi3d_toy": MPI3DToy,
    "noisy_dsprites": NoisyDSprites,
    "pictures": OwnPictures,
    "rooms": Rooms,
    "scream_dsprites": ScreamDSprites,
    "shapes3d": Shapes3D,
    "small_norb": SmallNORB,
    "teapots": Teapots,
}


def world(spec: str) -> World:
    """The world of this name; options follow a colon, as in `dsprites:file=dsprites.npz`, and views of it a bar, as in
    `dsprites | part train 0.8` (see `sober.worlds.views`)."""
    opened, *views = spec.split(" | ")
    entries = [VIEWS.get(each.strip().partition(" ")[0]) for each in views]
    return _opened(spec, WORLDS.get(opened.strip().partition(":")[0]), *entries)


@functools.lru_cache(maxsize=4)
def _opened(spec: str, *entries: Any) -> World:
    """A world is kept open, unless another has taken its place in the registry, or one of its views'."""
    opened, *views = spec.split(" | ")
    return functools.reduce(view, views, _named(opened.strip()))


def check_views(spec: str) -> None:
    """An error where a spec asks for a view, a factor or a class that there is not. Fetches nothing.

    Factors are known without files. A view that needs more, as one that looks at labels in a file, is read and then
    passed over: it chooses pictures, and leaves the factors as they are.
    """
    opened, *views = spec.split(" | ")
    so_far = _named(opened.strip()).offline()
    for text in views:
        with contextlib.suppress(MissingError):
            so_far = view(so_far, text)


def _named(spec: str) -> World:
    name, _, options = spec.partition(":")
    if name not in WORLDS:
        raise UnknownError(f"unknown world {name!r}: choose one of {listed(WORLDS)}")
    # A comma begins another option only before NAME=, so that a path may hold commas.
    pairs = dict(option.partition("=")[::2] for option in re.split(r",(?=\w+=)", options) if option)
    takes = inspect.signature(WORLDS[name]).parameters
    if unknown := pairs.keys() - takes.keys():
        has = f"it takes {listed(takes)}" if takes else "it takes none"
        raise RequestError(f"world {name!r} has no option {listed(unknown)!r}: {has}")
    return WORLDS[name](**pairs)


__all__ = [
    "WORLDS",
    "Continuum",
    "Grid",
    "Sample",
    "World",
    "check_views",
    "from_array",
    "from_dataset",
    "from_iterable",
    "world",
]
