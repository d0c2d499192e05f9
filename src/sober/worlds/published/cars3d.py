"""Cars3D: 183 car models, each rendered from 24 sides and 4 heights (Reed et al. 2015)."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy
from jaxtyping import UInt8

from sober.installation import needing_extra
from sober.types import Factor
from sober.worlds.published.archives import reading, tar_bytes, tar_members
from sober.worlds.published.published_world import PublishedWorld, Source
from sober.worlds.world import Grid

SIDE = 128  # of a published picture
MESH = re.compile(r"(?:^|/)cars/([^/]+)\.mat$")


class Cars3D(Grid, PublishedWorld):
    name = "cars3d"
    summary = "cars seen from all around: 3 factors, 17,568 pictures of 64 x 64"
    reference = "Reed, Zhang, Zhang & Lee (2015): Deep visual analogy-making"
    factors = (
        Factor("elevation", 4, "ordinal"),
        Factor("azimuth", 24, "cyclic", tuple((15.0 * np.arange(24)).tolist())),
        Factor("object", 183, "categorical"),
    )
    image_shape = (64, 64, 3)
    sources = (
        Source(
            "nips2015-analogy-data.tar.gz",
            "http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
            checksum="md5:4e866a7919c1beedf53964e6f7a23686",
            licence="none stated",
            citation="""@inproceedings{reed2015deep,
  title     = {Deep Visual Analogy-Making},
  author    = {Reed, Scott E and Zhang, Yi and Zhang, Yuting and Lee, Honglak},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2015}
}""",
            unpacked="cars",
        ),
    )

    def convert(self, *paths: Path) -> Iterator[UInt8[np.ndarray, "n 64 64 3"]]:
        elevations, azimuths, objects = self._sizes
        cars: dict[str, UInt8[np.ndarray, "E A 64 64 3"]] = {}
        for name, content in _meshes(paths[0]):
            if len(cars) == objects:
                raise ValueError(f"it holds more than {objects} cars")
            cars[name] = _views(content, (azimuths, elevations))
        if len(cars) < objects:
            raise ValueError(f"it holds {len(cars)} cars, not {objects}")
        for elevation in range(elevations):
            for azimuth in range(azimuths):
                yield np.stack([cars[name][elevation, azimuth] for name in sorted(cars)])


def _meshes(path: Path) -> Iterator[tuple[str, bytes]]:
    """The MATLAB files of all cars by name, from the archive or from its unpacked folder."""
    if path.is_dir():
        for file in sorted(path.glob("*.mat")):
            with reading(file, "cars3d"):
                yield file.stem, file.read_bytes()
        return
    with tarfile.open(path, "r:*") as archive:
        for member in tar_members(archive):
            if match := MESH.search(member.name):
                yield match[1], tar_bytes(archive, member)
        while archive.fileobj and archive.fileobj.read(2**20):  # at the end of the file gzip compares the checksum
            pass


def _views(content: bytes, views: tuple[int, int]) -> UInt8[np.ndarray, "E A 64 64 3"]:
    """One car from all its sides, each picture halved in size with Pillow's Lanczos filter, as in the study."""
    with needing_extra("reading pictures"):
        from PIL import Image  # noqa: PLC0415

    shape = (SIDE, SIDE, 3, *views)
    # The header is checked first: an array of objects, or a too large array, is never read.
    if ("im", shape, "uint8") not in scipy.io.whosmat(io.BytesIO(content)):
        raise ValueError(f"a car without uint8 pictures `im` of shape {shape}")
    images = scipy.io.loadmat(io.BytesIO(content), variable_names=["im"])["im"]
    images = images.transpose(4, 3, 0, 1, 2)  # (E, A, H, W, 3)
    small = [
        Image.fromarray(image).resize((64, 64), Image.Resampling.LANCZOS) for image in images.reshape(-1, *shape[:3])
    ]
    return np.stack([np.asarray(image) for image in small]).reshape(*images.shape[:2], 64, 64, 3)
