"""3D Shapes: one of four solids in a coloured room, seen from fifteen sides (Burgess & Kim 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from sober.files.npy import ROWS
from sober.installation import needing_extra
from sober.types import Factor
from sober.worlds.published.published_world import PublishedWorld, Source
from sober.worlds.world import Grid

HUES = tuple((np.arange(10) / 10).tolist())


class Shapes3D(Grid, PublishedWorld):
    name = "shapes3d"
    summary = "a solid in a coloured room: 6 factors, 480,000 pictures of 64 x 64"
    reference = "Burgess & Kim (2018): 3D Shapes dataset"
    factors = (
        Factor("floor_hue", 10, "cyclic", HUES),
        Factor("wall_hue", 10, "cyclic", HUES),
        Factor("object_hue", 10, "cyclic", HUES),
        Factor("scale", 8, "ordinal", tuple(np.linspace(0.75, 1.25, 8).tolist())),
        Factor("shape", 4, "categorical", ("cube", "cylinder", "sphere", "pill")),
        Factor("orientation", 15, "ordinal", tuple(np.linspace(-30, 30, 15).tolist())),
    )
    image_shape = (64, 64, 3)
    sources = (
        Source(
            "3dshapes.h5",
            "https://storage.googleapis.com/3d-shapes/3dshapes.h5",
            size=267_573_662,
            checksum="sha256:0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
            licence="Apache License 2.0",
            citation="""@misc{3dshapes18,
  title        = {3D Shapes Dataset},
  author       = {Burgess, Chris and Kim, Hyunjik},
  howpublished = {https://github.com/deepmind/3dshapes-dataset/},
  year         = {2018}
}""",
        ),
    )

    def convert(self, *paths: Path) -> Iterator[UInt8[np.ndarray, "n 64 64 3"]]:
        with needing_extra(f"reading {paths[0]}"):
            import h5py  # noqa: PLC0415
        with h5py.File(paths[0], "r") as file:
            images, labels = file["images"], file["labels"]
            if images.shape != (self.size, *self.image_shape) or images.dtype != np.uint8:
                raise ValueError(f"it holds {images.dtype} images of shape {images.shape}, not uint8")
            if labels.shape != (self.size, len(self.factors)):
                raise ValueError(f"it holds labels of shape {labels.shape}")
            self._check_order(labels[:])
            # Read in whole chunks: a chunk is decompressed for every block that touches it.
            chunk = images.chunks[0] if images.chunks else 1
            step = chunk * max(1, ROWS // chunk)
            for start in range(0, self.size, step):
                yield images[start : start + step]

    def _check_order(self, labels: np.ndarray) -> None:
        classes = self.classes(np.arange(self.size))
        for column, factor in enumerate(self.factors):
            if (np.unique(labels[:, column], return_inverse=True)[1].ravel() != classes[:, column]).any():
                raise ValueError(f"its pictures are not in the order of their factors: see {factor.name}")
