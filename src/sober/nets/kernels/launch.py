"""Launch settings: the work of one program, by kernel and height of the coarse grid.

Measured on one H200 in bfloat16, for pictures of 64 x 64 x 1, widths 32, 32, 64, 64 and tiles of 64 rows. Other shapes
use the settings of the nearest height, cut to their size. After a change of stages check a kernel again on a GPU
(`benchmarks/kernels.py`): one pattern that is not used here was silently wrong with three stages and right with two.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from sober.nets.kernels.layout import ROWS, Grids, power_of_two

SHARED = (227 - 16) * 1024  # bytes that a program of a Hopper GPU can have, less 16 KiB that the compiler adds
SUMS = 8192  # the most numbers that a program of `down` sums, as measured; with more, registers run out


class Launch(NamedTuple):
    """The work of one program, and how it is compiled."""

    pixels: int = 2  # coarse pixels at once
    parts: int = 1  # the blocks, or pixels, are cut into this many parts, one per program
    warps: int = 4
    stages: int = 3
    bands: int = 2  # rows of blocks at once
    columns: int = 128  # of a product


Table = dict[tuple[str, int], Launch]
LaunchTable = Literal["few", "many"]  # by how many models train at once

MANY: Table = {
    ("down", 16): Launch(pixels=4),
    ("down", 8): Launch(stages=4),
    ("down", 4): Launch(),
    ("down_back", 16): Launch(stages=4),
    ("down_back", 8): Launch(stages=4),
    ("down_back", 4): Launch(),
    ("up", 16): Launch(parts=17),
    ("up", 8): Launch(parts=2),
    ("up", 4): Launch(warps=8),
    ("up_back", 16): Launch(parts=17, columns=64),  # not measured: as for `up`, with fewer registers
    ("up_back", 8): Launch(parts=3, warps=8),
    ("up_back", 4): Launch(warps=8),
    ("weight_gradient", 16): Launch(warps=8),
    ("weight_gradient", 8): Launch(warps=8),
    ("weight_gradient", 4): Launch(warps=8),
    ("first_layers_back", 16): Launch(parts=4, stages=2),
    ("thin_down", 32): Launch(pixels=4, warps=8),
    ("thin_up", 32): Launch(),
    ("thin_back", 32): Launch(parts=32),
    ("thin_input_gradient", 32): Launch(parts=32),  # these two not measured: as for `thin_back`, which does both
    ("thin_weight_gradient", 32): Launch(parts=32),
}

# One model alone should still fill the machine.
FEW: Table = MANY | {
    ("up", 16): Launch(parts=97),
    ("up", 8): Launch(parts=41),
    ("up", 4): Launch(parts=13),
    ("up_back", 16): Launch(parts=97, columns=64),
    ("up_back", 8): Launch(parts=41),
    ("up_back", 4): Launch(parts=13),
    ("weight_gradient", 16): Launch(parts=58, warps=8),
    ("weight_gradient", 8): Launch(parts=21, warps=8),
    ("weight_gradient", 4): Launch(parts=7, warps=8),
    ("first_layers_back", 16): Launch(parts=58, stages=2),
    ("thin_back", 32): Launch(parts=128),
    ("thin_input_gradient", 32): Launch(parts=128),
    ("thin_weight_gradient", 32): Launch(parts=128),
}

# Model-steps/s with FEW and MANY: 13,944 and 10,728 at 16 models, 16,187 and 17,127 at 32. On a line through the
# logarithms of their ratio they are equal at 28.
CROSSING = 28


TABLES: dict[LaunchTable, Table] = {"few": FEW, "many": MANY}


def launch_table(models: int, tiles: int) -> LaunchTable:
    """The table for this many models at once, with this many tiles of a batch each: tiles run side by side too."""
    return "few" if models * tiles < CROSSING else "many"


def settings(kernel: str, grids: Grids, models: int, tiles: int) -> Launch:
    """The settings of a kernel on these grids, for this many models at once with this many tiles of a batch each."""
    table = TABLES[launch_table(models, tiles)]
    heights = [height for name, height in table if name == kernel]
    nearest = min(heights, key=lambda height: abs(math.log2(grids.h / height)))
    return fitted(kernel, grids, tiles, table[kernel, nearest])


def fitted(kernel: str, grids: Grids, tiles: int, measured: Launch) -> Launch:
    """The measured settings, cut to the size of these grids and to a GPU's shared memory and registers."""
    pixels = min(measured.pixels * ROWS // grids.rows, grids.w)  # as many rows in a tile
    if kernel.startswith("down"):
        pixels = max(1, min(pixels, SUMS // (grids.rows * grids.b)))
    pieces = grids.h * grids.w // pixels if kernel.startswith("thin") else grids.blocks
    fit = measured._replace(pixels=pixels, parts=min(measured.parts, pieces))
    if kernel == "up_back" and measured.warps == 4 and (tiles > 1 or grids.rows < ROWS):
        return fit._replace(columns=64)  # as measured it just fits into the registers, and here it would not
    return _in_shared_memory(grids, fit) if kernel == "thin_up" else fit


def _in_shared_memory(grids: Grids, launch: Launch) -> Launch:
    """Fewer rows of blocks at once, then fewer stages, until weights and tiles fit."""
    choices = [launch, *(launch._replace(bands=1, stages=stages) for stages in range(launch.stages, 0, -1))]
    return next((choice for choice in choices if thin_up_bytes(grids, choice) <= SHARED), choices[-1])


def thin_up_bytes(grids: Grids, launch: Launch) -> int:
    """Bytes of shared memory that `thin_up` takes in bfloat16 for weights and the tiles of all stages."""
    columns = power_of_two(16 * launch.bands * grids.a)
    return 2 * 4 * grids.b * (launch.bands + 1) * (columns + grids.rows * launch.stages)
