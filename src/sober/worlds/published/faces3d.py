"""3D Faces: fifty faces of the Basel model from many sides and in many lights (Paysan et al. 2009, Chen et al. 2018).

The renders circulate as a file of PyTorch, which is a pickle and could run any code when it is loaded. It is never
loaded here. The pickle is read as a list of instructions, without running one, to check that it describes one array of
bytes of the right shape; then the bytes are read.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import UInt8

from sober.files import npy_rows, raw_rows
from sober.types import Factor
from sober.worlds.published.published_world import PublishedWorld, Source
from sober.worlds.world import Grid

MAGIC = 0x1950A86A20F9469CFC6C  # the first number in a file of PyTorch before version 1.6


class Faces3D(Grid, PublishedWorld):
    """`faces3d:file=PATH` reads basel_face_renders.pth, or an npz file whose `images` are the same array."""

    name = "faces3d"
    summary = "faces of the Basel model: 4 factors, 127,050 pictures of 64 x 64"
    reference = "Paysan et al. (2009): A 3D face model; renders of Chen et al. (2018)"
    factors = (
        Factor("identity", 50, "categorical"),
        Factor("azimuth", 21, "ordinal"),
        Factor("elevation", 11, "ordinal"),
        Factor("lighting", 11, "ordinal"),
    )
    image_shape = (64, 64, 1)
    sources = (
        Source(
            "basel_face_renders.pth",
            "https://github.com/rtqichen/beta-tcvae",
            licence="that of the Basel Face Model: research only, not to be passed on",
            citation="""@inproceedings{paysan2009face,
  title     = {A 3D Face Model for Pose and Illumination Invariant Face Recognition},
  author    = {Paysan, Pascal and Knothe, Reinhard and Amberg, Brian and Romdhani, Sami and Vetter, Thomas},
  booktitle = {Advanced Video and Signal Based Surveillance},
  year      = {2009}
}""",
            direct=False,
        ),
    )

    def convert(self, *paths: Path) -> Iterator[UInt8[np.ndarray, "n 64 64 1"]]:
        shape = (*self._sizes, *self.image_shape[:2])
        if not zipfile.is_zipfile(paths[0]):
            with open(paths[0], "rb") as file:
                yield from self._rows(_old_format(file, shape))
            return
        with zipfile.ZipFile(paths[0]) as archive:
            names = archive.namelist()
            if "images.npy" in names:
                with archive.open("images.npy") as file:
                    for rows in npy_rows(file, shape):
                        yield rows.reshape(-1, *self.image_shape)
                return
            (pickle,) = (name for name in names if name.endswith("/data.pkl"))
            with archive.open(pickle) as file:
                _check_pickle(file, shape)
            with archive.open(pickle.replace("data.pkl", "data/0")) as file:
                yield from self._rows(file)

    def _rows(self, file: IO[bytes]) -> Iterator[UInt8[np.ndarray, "n 64 64 1"]]:
        yield from raw_rows(file, (self.size, *self.image_shape))
        if file.read(1):
            raise ValueError("more data than its header says")


def _old_format(file: IO[bytes], shape: tuple[int, ...]) -> IO[bytes]:
    """`file` at the first byte of its only array, which follows five pickles and the number of its elements."""
    first = [argument for _, argument, _ in pickletools.genops(file) if argument is not None]
    if MAGIC not in first:
        raise ValueError("it is no file of PyTorch")
    for _ in ("protocol", "system"):
        list(pickletools.genops(file))
    _check_pickle(file, shape)
    list(pickletools.genops(file))  # the key of the array
    if int.from_bytes(file.read(8), "little") != np.prod(shape):
        raise ValueError(f"it does not hold one array of shape {shape}")
    return file


def _check_pickle(file: IO[bytes], shape: tuple[int, ...]) -> None:
    """Refuses a pickle that does not describe one array of bytes with this shape, in row-major order."""
    names, numbers = set(), []
    for code, argument, _ in pickletools.genops(file):
        if code.name in ("GLOBAL", "STACK_GLOBAL", "REDUCE", "INST", "OBJ"):
            names.add(argument or code.name)
        if isinstance(argument, int) and code.name.startswith(("BININT", "INT", "LONG")):
            numbers.append(argument)
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    rebuild = {"torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2"}
    if not names <= {"torch ByteStorage", "collections OrderedDict", "REDUCE", *rebuild} or not names & rebuild:
        raise ValueError(f"its pickle asks for {', '.join(sorted(names - {'REDUCE'}))}, not for one array of bytes")
    if "torch ByteStorage" not in names or numbers != [int(np.prod(shape)), 0, *shape, *strides]:
        raise ValueError(f"it does not hold one array of bytes of shape {shape}")
