"""The pictures that a person gives, as a world, with a note about everything that was done to them.

A folder, an archive, arrays and PIL images end up in one size. Pictures that cannot be learned from are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sober.criteria.criterion import FEWEST_PICTURES
from sober.errors import RequestError, UnknownError, counted
from sober.nets import default_nets, find_nets
from sober.short_text import as_call
from sober.worlds import World, from_array, from_iterable, world
from sober.worlds.pictures.frame import sides_in_file
from sober.worlds.pictures.from_python import BLOCK, CHANNELS, ChannelsLast, channels_are_first
from sober.worlds.pictures.own_pictures import OwnPictures
from sober.worlds.pictures.picture_files import picture_files

SIDE = 64  # of pictures that are scaled, as in a folder
FEW = 100  # pictures: with fewer, a person is warned


class GivenPictures(NamedTuple):
    """The world of the pictures given, and in sentences what was done to them."""

    world: World
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return as_call(self)


def given_pictures(images: Any, nets: str | None = None) -> GivenPictures:
    """The world of pictures in a folder, an archive, an array or an iterable of pictures; or the world of that name.

    Pictures that all have one size with sides of at most 64 keep it, if the `nets` that will see them can take it.
    Others become 64 x 64.
    """
    if isinstance(images, World):
        return GivenPictures(images)
    if isinstance(images, str | Path):
        return _named(images, nets)
    if isinstance(images, list | tuple):
        images = _as_array(images)
    if is_array(images):
        return _from_array(images, nets)
    return _from_several(images, nets)


def opened_pictures(name: str | Path, nets: str | None = None) -> World:
    """The world of pictures in a folder or archive, prepared for these nets; or the world of that name."""
    return given_pictures(name, nets).world


def is_array(pictures: Any) -> bool:
    """Whether these are pictures in one array, of NumPy, JAX or PyTorch."""
    return hasattr(pictures, "shape") and getattr(pictures, "dtype", None) != np.dtype(object)


def refuse_hopeless(pictures: World) -> tuple[str, ...]:
    """Refuses pictures that nothing can be learned from. Returns a warning if they are few."""
    if pictures.size < FEWEST_PICTURES:
        raise RequestError(
            f"{counted(pictures.size, 'picture')} cannot show which model is best: give at least {FEWEST_PICTURES}, "
            "and better some hundreds"
        )
    if _are_all_the_same(pictures):
        raise RequestError(f"all {pictures.size:,} pictures are the same: there is nothing to learn from them")
    if pictures.size < FEW:
        return (
            f"{counted(pictures.size, 'picture')} are few: a model can learn each of them by heart, and the choice "
            "says little about new pictures. Some hundreds are better.",
        )
    return ()


def _named(name: str | Path, nets: str | None) -> GivenPictures:
    path = Path(name).expanduser()
    try:
        if not path.exists():
            return GivenPictures(world(str(name)))
        if (sides := _sides_of_all(path, nets)) is None:
            opened, notes = world(f"pictures:folder={path}"), [_scaled(set())]
        else:
            opened, notes = world(f"pictures:folder={path},size={sides[0]}x{sides[1]}"), []
    except UnknownError as error:
        raise RequestError(f"{name} is neither a folder or archive of pictures nor a world") from error
    if isinstance(opened, OwnPictures) and (unreadable := opened.unreadable):
        left_out = counted(len(unreadable), "file")
        notes.append(f"{left_out} could not be read and {'is' if len(unreadable) == 1 else 'are'} left out.")
    return GivenPictures(opened, tuple(notes))


def _sides_of_all(path: Path, nets: str | None) -> tuple[int, int] | None:
    """Height and width of all pictures in a folder or archive, if they have one size that needs no scaling."""
    sides: tuple[int, int] | None = None
    with picture_files(path) as files:
        for name in files.stamps:
            try:
                sides_here = sides_in_file(files.open(name))
            except Exception:  # a damaged file fails in too many ways to name; `world` names it
                continue
            if sides_here != (sides or sides_here) or not _is_taken(*sides_here, nets):
                return None
            sides = sides_here
    return sides


def _as_array(pictures: Sequence[Any]) -> Any:
    """Pictures of one shape as one array; others unchanged."""
    shapes = {getattr(picture, "shape", None) for picture in pictures}
    if len(shapes) == 1 and None not in shapes:
        return np.stack([np.asarray(picture) for picture in pictures])
    if pictures and all(isinstance(picture, list | tuple) for picture in pictures):
        try:
            return np.asarray(pictures)
        except ValueError as error:
            raise RequestError("the rows of a picture differ in length: give each picture as an array") from error
    return pictures


def _from_array(images: Any, nets: str | None) -> GivenPictures:
    notes: list[str] = []
    if channels_are_first(images.shape):
        images = ChannelsLast(images)
        _, height, width, channels = images.shape
        notes.append(
            f"The array has its channels first: it was read as pictures of {height} x {width} with "
            f"{counted(channels, 'channel')}."
        )
    shape = tuple(images.shape)
    if len(shape) == 2:
        raise RequestError(
            f"pictures must be (N, H, W) or (N, H, W, C), got shape {shape}: give every picture its rows and columns, "
            "as in pictures.reshape(N, H, W)"
        )
    if len(shape) == 3 and shape[2] in CHANNELS[1:]:
        raise RequestError(f"shape {shape} looks like one picture: give many, as (N, H, W) or (N, H, W, C)")
    if len(shape) not in (3, 4) or 0 in shape or (len(shape) == 4 and shape[3] not in CHANNELS):
        return GivenPictures(from_array(images))  # which says what is wrong
    keeps_size = _is_taken(shape[1], shape[2], nets)
    is_transparent = len(shape) == 4 and shape[3] == 4
    if keeps_size and not is_transparent:
        return GivenPictures(from_array(images), tuple(notes))
    size = f"{shape[1]}x{shape[2]}" if keeps_size else str(SIDE)
    opened = from_iterable(_one_by_one(images), size=size)
    if is_transparent:
        notes.append("The fourth channel was taken for transparency: the pictures were laid on white.")
    if not keeps_size:
        notes.append(_scaled({shape[1:3]}))
    return GivenPictures(opened, tuple(notes))


def _from_several(pictures: Iterable[Any], nets: str | None) -> GivenPictures:
    """Pictures of several sizes, files or PIL images. An iterator is read once, a few pictures at a time."""
    sizes = {_sides(picture) for picture in pictures} if isinstance(pictures, Sequence | np.ndarray) else {None}
    if len(sizes) == 1 and (sides := next(iter(sizes))) is not None and _is_taken(*sides, nets):
        return GivenPictures(from_iterable(pictures, size=f"{sides[0]}x{sides[1]}"))
    return GivenPictures(from_iterable(pictures, size=SIDE), (_scaled(sizes),))


def _one_by_one(images: Any) -> Iterator[np.ndarray]:
    """The pictures of an array that may be mapped from disk."""
    for start in range(0, images.shape[0], BLOCK):
        yield from np.asarray(images[start : start + BLOCK])


def _is_taken(height: int, width: int, nets: str | None) -> bool:
    """Whether pictures of this size need no scaling."""
    multiple = find_nets(nets or default_nets((height, width, 1))).sides
    return max(height, width) <= SIDE and height % multiple == 0 == width % multiple


def _sides(picture: Any) -> tuple[int, int] | None:
    """Height and width of an array or a PIL image; None if only opening it would tell."""
    shape = getattr(picture, "shape", None)
    if shape is not None and len(shape) in (2, 3):
        return tuple(shape[1:]) if channels_are_first((1, *shape)) else tuple(shape[:2])
    size = getattr(picture, "size", None)  # of a PIL image
    return (size[1], size[0]) if isinstance(size, tuple) and len(size) == 2 else None


def _scaled(sizes: set[Any]) -> str:
    """A note about pictures of these sizes, where all of them are known."""
    if len(sizes) == 1 and None not in sizes:
        height, width = next(iter(sizes))
        cut = "" if height == width else ", and their longer side was cut"
        return f"The pictures are {height} x {width}: they were scaled to {SIDE} x {SIDE}{cut}."
    return f"All pictures were scaled to {SIDE} x {SIDE}. Where they were not square, their longer side was cut."


def _are_all_the_same(pictures: World) -> bool:
    """Whether no picture differs from the first. Looks at pictures only until one differs."""
    first = pictures.render(pictures.everything()[:1])
    return all((images == first).all() for _, images in pictures.batches(BLOCK))
