"""Drawn worlds whose pictures have the side that is asked for, such as `rooms:size=224`."""

from __future__ import annotations

from collections.abc import Mapping

from sober.errors import RequestError
from sober.worlds.world import World

SMALLEST, LARGEST = 8, 518  # the largest is the side of DINOv2


class Sized(World):
    """A world that is drawn anew at any side, never enlarged; `image_shape` of the class is its own size.

    Its own size is left out of its label and of its options, so runs on it keep their identity.
    """

    def __init__(self, size: int | str | None = None) -> None:
        own_side, _, channels = type(self).image_shape
        self.side = own_side if size is None else _side(type(self).name, size)
        self.image_shape = (self.side, self.side, channels)
        self.summary = type(self).summary.replace(f"{own_side} x {own_side}", f"{self.side} x {self.side}")

    @property
    def own_size(self) -> bool:
        """Whether pictures have the size that the world was made for."""
        return self.image_shape == type(self).image_shape

    @property
    def options(self) -> Mapping[str, object]:
        return {"size": None if self.own_size else self.side}

    @property
    def label(self) -> str:
        return self.label_with()

    def label_with(self, *details: str) -> str:
        """The label of this world with its version, the details given, and its side if that is not its own."""
        version = [] if self.version == 1 else [str(self.version)]
        side = [] if self.own_size else [f"size={self.side}"]
        base = ":".join([self.name, *version, *details])
        return ",".join([base, *side]) if version or details else ":".join([base, *side])


def _side(name: str, size: int | str) -> int:
    try:
        side = int(size)
    except ValueError:
        side = 0
    if not SMALLEST <= side <= LARGEST:
        raise RequestError(
            f"world {name!r} cannot be drawn with size={size}: give the side of its pictures in pixels, "
            f"{SMALLEST} to {LARGEST}"
        )
    return side
