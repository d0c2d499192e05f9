"""A family: runs on one world, and the folder in which their models lie."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

from sober.errors import RequestError
from sober.short_text import as_call
from sober.types import Run
from sober.worlds import World, world


@dataclasses.dataclass(frozen=True)
class Family:
    """Runs on one world, whose models are in `folder` as soon as they are trained."""

    folder: Path
    spec: str  # how to open the world
    runs: tuple[Run, ...]

    def __repr__(self) -> str:
        return as_call(self)

    @functools.cached_property
    def world(self) -> World:
        """The world the family was trained on; refused if its file now holds other pictures."""
        opened = world(self.spec)
        if opened.label != self.label:
            raise RequestError(f"{self.spec} holds other pictures than this family was trained on")
        return opened

    @property
    def label(self) -> str:
        """What its runs call their world."""
        return self.runs[0].world

    def part(self, runs: Sequence[Run]) -> Family:
        """Some of its runs."""
        return dataclasses.replace(self, runs=tuple(runs))
