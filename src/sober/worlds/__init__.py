"""Worlds by name. To add a world: its file in a folder here, one line in `WORLDS`, its test."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Sequence
from typing import Any

from sober.errors import MissingError, RequestError, choices, listed, unknown
from sober.types import WorldSpec
from sober.worlds.drawn.abstract_dsprites import AbstractDSprites
from sober.worlds.drawn.blocks import Blocks
from sober.worlds.drawn.color_dsprites import ColorDSprites
from sober.worlds.drawn.desk import Desk
from sober.worlds.drawn.dsprites import DSprites
from sober.worlds.drawn.heads import Heads
from sober.worlds.drawn.letters import Letters
from sober.worlds.drawn.noisy_dsprites import NoisyDSprites
from sober.worlds.drawn.rooms import Rooms
from sober.worlds.drawn.scream_dsprites import ScreamDSprites
from sober.worlds.drawn.teapots import Teapots
from sober.worlds.pictures.from_python import from_array, from_dataset, from_iterable
from sober.worlds.pictures.own_pictures import OwnPictures
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
    "desk": Desk,
    "dsprites": DSprites,
    "faces3d": Faces3D,
    "heads": Heads,
    "letters": Letters,
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

OPEN_WORLDS = 4


def world(spec: str | WorldSpec, *, views: str | Sequence[str] = (), **options: object) -> World:
    """Opens a world by its name, with options and views either in its written form or as arguments.

    >>> sober.world("dsprites | part train 0.8")
    >>> sober.world("dsprites", views=["part train 0.8"])
    >>> sober.world("pictures", folder="photos", size=32)

    The written form is described at `sober.types.WorldSpec`, views at `sober.worlds.views`. An option of
    None keeps its default.
    """
    written = spec if isinstance(spec, WorldSpec) else WorldSpec.parse(spec)
    chosen = {name: str(value) for name, value in options.items() if value is not None}
    if twice := written.options.keys() & chosen.keys():
        raise RequestError(f"world {written.name!r} has option {listed(twice)} twice: in its name and as an argument")
    views = (views,) if isinstance(views, str) else tuple(views)
    full_spec = WorldSpec(written.name, {**written.options, **chosen}, written.views + views)
    return _opened(full_spec, WORLDS.get(full_spec.name), *map(VIEWS.get, full_spec.view_names))


@functools.lru_cache(maxsize=OPEN_WORLDS)
def _opened(spec: WorldSpec, *entries: Any) -> World:
    """Opens a world; the last `OPEN_WORLDS` stay open with their pictures.

    `entries` are its classes in the registries: if one is replaced, the world is opened anew.
    """
    return functools.reduce(view, spec.views, _without_views(spec))


def check_views(spec: str | WorldSpec) -> None:
    """Refuses a spec that names an unknown world, option, view, factor or class. Reads and fetches no pictures.

    Factors are known without files. A view that needs files, such as a condition on labels in a file, is skipped: it
    chooses pictures and leaves the factors as they are.
    """
    spec = spec if isinstance(spec, WorldSpec) else WorldSpec.parse(spec)
    checked = _without_views(spec).offline()
    for text in spec.views:
        with contextlib.suppress(MissingError):
            checked = view(checked, text)


def _without_views(spec: WorldSpec) -> World:
    if spec.name not in WORLDS:
        raise unknown("world", WORLDS, spec.name, "`sober worlds` lists all worlds")
    parameters = inspect.signature(WORLDS[spec.name]).parameters
    if others := spec.options.keys() - parameters.keys():
        advice = choices(min(others), parameters)
        raise RequestError(f"world {spec.name!r} has no option {listed(others)!r}: {advice}")
    return WORLDS[spec.name](**spec.options)


__all__ = [
    "WORLDS",
    "Continuum",
    "Grid",
    "Sample",
    "World",
    "WorldSpec",
    "check_views",
    "from_array",
    "from_dataset",
    "from_iterable",
    "world",
]
