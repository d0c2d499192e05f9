"""MPI3D: a robot arm holds one of six objects, in drawings and in photographs (Gondal et al. 2019).

Three data sets of the same 1,036,800 combinations: `toy` and `realistic` are rendered, `real` is photographed.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from sober.files import npy_rows
from sober.types import Factor
from sober.worlds.published.published_world import PublishedWorld, Source
from sober.worlds.world import Grid

FACTORS = (
    Factor("object_color", 6, "categorical", ("white", "green", "red", "blue", "brown", "olive")),
    Factor("object_shape", 6, "categorical", ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere")),
    Factor("object_size", 2, "ordinal", (0.0, 1.0)),  # small, large
    Factor("camera_height", 3, "ordinal", (2.0, 1.0, 0.0)),  # from the top down
    Factor("background_color", 3, "categorical", ("purple", "sea green", "salmon")),
    Factor("horizontal_axis", 40, "ordinal", tuple(np.arange(40.0).tolist())),
    Factor("vertical_axis", 40, "ordinal", tuple(np.arange(40.0).tolist())),
)
CITATION = r"""@inproceedings{gondal2019transfer,
  title     = {On the Transfer of Inductive Bias from Simulation to the Real World: a New Disentanglement Dataset},
  author    = {Gondal, Muhammad Waleed and W{\"u}thrich, Manuel and Miladinovi{\'c}, {\DJ}or{\dj}e and
               Locatello, Francesco and Breidt, Martin and Volchkov, Valentin and Akpo, Joel and
               Bachem, Olivier and Sch{\"o}lkopf, Bernhard and Bauer, Stefan},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2019}
}"""


def _source(kind: str, md5: str) -> Source:
    return Source(
        f"mpi3d_{kind}.npz",
        f"https://storage.googleapis.com/mpi3d_disentanglement_dataset/data/mpi3d_{kind}.npz",
        checksum=f"md5:{md5}",
        licence="CC BY 4.0",
        citation=CITATION,
    )


class MPI3D(Grid, PublishedWorld):
    """The common base class of the three data sets."""

    reference = "Gondal et al. (2019): On the transfer of inductive bias from simulation to the real world"
    factors = FACTORS
    image_shape = (64, 64, 3)

    def convert(self, *paths: Path) -> Iterator[UInt8[np.ndarray, "n 64 64 3"]]:
        with zipfile.ZipFile(paths[0]) as archive, archive.open("images.npy") as file:
            yield from npy_rows(file, (self.size, *self.image_shape))


class MPI3DToy(MPI3D):
    name = "mpi3d_toy"
    summary = "a robot arm, simply drawn: 7 factors, 1,036,800 pictures of 64 x 64"
    sources = (_source("toy", "55889cb7c7dfc655d6e0277beee88868"),)


class MPI3DRealistic(MPI3D):
    name = "mpi3d_realistic"
    summary = "a robot arm, realistically drawn: 7 factors, 1,036,800 pictures of 64 x 64"
    sources = (_source("realistic", "59a6225b88b635365f70c91b3e52f70f"),)


class MPI3DReal(MPI3D):
    name = "mpi3d_real"
    summary = "photographs of a robot arm: 7 factors, 1,036,800 pictures of 64 x 64"
    sources = (_source("real", "0f33f609918fb5c97996692f91129802"),)
