"""Keeps small versions of the pictures that a page shows for each encoder's best layer and its last one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sober.encoders.pictures import with_side
from sober.probing.layer import Layer
from sober.probing.layer_files import save_pictures
from sober.probing.shown_layers import shown_layers
from sober.results.training_state_files import world_digest
from sober.worlds import World

SIDE = 64  # pixels of a small picture


def keep_pictures(folder: Path, world: World, world_name: str, layers: Sequence[Layer]) -> None:
    """Draws and keeps the pictures of a world that show what layers know."""
    wanted: set[int] = set()
    for layer in shown_layers([layer for layer in layers if layer.world == world_name]):
        wanted |= {int(place) for place in (*layer.nearest.flat, *layer.along.flat) if place >= 0}
    if wanted:
        index = np.array(sorted(wanted))
        images = np.concatenate([_small(world.render(index[start : start + 64])) for start in range(0, len(index), 64)])
        save_pictures(folder, world_digest(world_name), index, images)


def _small(images: np.ndarray) -> np.ndarray:
    return images if max(images.shape[1:3]) <= SIDE else with_side(images, SIDE)
