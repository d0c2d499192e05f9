"""3D Chairs: 1,393 chairs, each rendered from 31 sides and two heights (Aubry et al. 2014)."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from sober.types import Factor
from sober.worlds.published.archives import picture, pictures, tar_bytes, tar_members
from sober.worlds.published.published_world import PublishedWorld, Source
from sober.worlds.world import Grid

RENDER = re.compile(r"(?:^|/)([^/]+)/renders/image_\d+_p(\d+)_t(\d+)_r\d+\.png$")
SIDE, CROP = 600, 400  # a published picture, and its middle, which holds every chair

View = tuple[str, int, int]  # chair, azimuth, elevation


class Chairs3D(Grid, PublishedWorld):
    name = "chairs3d"
    summary = "chairs seen from all around: 3 factors, 86,366 grey pictures of 64 x 64"
    reference = "Aubry, Maturana, Efros, Russell & Sivic (2014): Seeing 3D chairs"
    factors = (
        Factor("chair", 1393, "categorical"),
        Factor("azimuth", 31, "cyclic", tuple((np.arange(31) * 360 / 31).tolist())),
        Factor("elevation", 2, "ordinal", (20.0, 30.0)),
    )
    image_shape = (64, 64, 1)
    sources = (
        Source(
            "rendered_chairs.tar",
            "https://www.di.ens.fr/willow/research/seeing3Dchairs/data/rendered_chairs.tar",
            licence="none stated",
            citation="""@inproceedings{aubry2014seeing,
  title     = {Seeing 3D chairs: exemplar part-based 2D-3D alignment using a large dataset of CAD models},
  author    = {Aubry, Mathieu and Maturana, Daniel and Efros, Alexei A. and Russell, Bryan C. and Sivic, Josef},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition},
  year      = {2014}
}""",
            unpacked="rendered_chairs",
        ),
    )

    def convert(self, *paths: Path) -> Iterator[UInt8[np.ndarray, "n 64 64 1"]]:
        path = paths[0]
        if path.is_dir():
            files = _by_view((str(file.relative_to(path)), file) for file in path.glob("*/renders/*.png"))
            yield from _decoded((files[view].name, files[view].read_bytes()) for view in self._order(files))
            return
        with tarfile.open(path, "r:") as archive:
            members = _by_view((member.name, member) for member in tar_members(archive))
            order = [members[view] for view in self._order(members)]
            yield from _decoded((member.name, tar_bytes(archive, member)) for member in order)

    def _order(self, views: Iterable[View]) -> list[View]:
        """All views, sorted; refuses a set that is not every combination of chairs, azimuths and elevations."""
        views = sorted(views)
        chairs, azimuths, elevations = sizes = tuple(len({view[axis] for view in views}) for axis in range(3))
        if sizes != self._sizes or len(views) != self.size:
            raise ValueError(
                f"it holds {len(views)} pictures of {chairs} chairs, {azimuths} azimuths and {elevations} elevations, "
                f"not every one of {self._sizes}"
            )
        return views


def _by_view(named_files: Iterable[tuple[str, Any]]) -> dict[View, Any]:
    matches = ((RENDER.search(name), file) for name, file in named_files)
    return {(match[1], int(match[3]), int(match[2])): file for match, file in matches if match}


def _decoded(contents: Iterable[tuple[str, bytes]]) -> Iterator[UInt8[np.ndarray, "n 64 64 1"]]:
    return pictures(contents, lambda content: picture(content, "L", size=(SIDE, SIDE), crop=CROP))
