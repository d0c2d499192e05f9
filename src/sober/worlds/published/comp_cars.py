"""CompCars: photographs of cars from the web, in folders by make, model and year (Yang et al. 2015)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8

from sober.errors import MissingError, RequestError
from sober.types import Factor
from sober.worlds.published.archives import picture, pictures
from sober.worlds.published.published_world import PublishedWorld, Source, Table

MAKES, MODELS, PICTURES = 163, 1716, 136_726  # as published


class CompCars(PublishedWorld):
    """`comp_cars:file=FOLDER`, where FOLDER/MAKE/MODEL/YEAR/*.jpg or FOLDER/image/MAKE/MODEL/YEAR/*.jpg.

    Part of the data set is enough: the makes, models and pictures are those in the folder. The year is not a factor,
    because it is not known for every picture.
    """

    name = "comp_cars"
    summary = "cars from the web: make and model, 136,726 pictures of 64 x 64"
    reference = "Yang, Luo, Loy & Tang (2015): A large-scale car dataset"
    image_shape = (64, 64, 3)
    sources = (
        Source(
            "image/",
            "http://mmlab.ie.cuhk.edu.hk/datasets/comp_cars/index.html",
            licence="non-commercial research only; the archive's password is given on request",
            citation="""@inproceedings{yang2015large,
  title     = {A Large-Scale Car Dataset for Fine-Grained Categorization and Verification},
  author    = {Yang, Linjie and Luo, Ping and Loy, Chen Change and Tang, Xiaoou},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition},
  year      = {2015}
}""",
            direct=False,
            unpacked="image",
        ),
    )

    @functools.cached_property
    def factors(self) -> tuple[Factor, ...]:  # type: ignore[override]
        if self._table is None:
            return Factor("make", MAKES, "categorical"), Factor("model", MODELS, "categorical")
        makes, models = self._table.values
        return Factor("make", len(makes), "categorical", makes), Factor("model", len(models), "categorical", models)

    @functools.cached_property
    def size(self) -> int:  # type: ignore[override]
        return PICTURES if self._table is None else len(self._table.labels)

    @functools.cached_property
    def _table(self) -> Table | None:
        """The labels of the pictures in the folder; None without a folder, so that the world can be listed."""
        if cached := self.cached():
            return cached.table
        try:
            folders = self.paths(fetch=False)
        except MissingError:
            if self.file is not None:
                raise
            return None
        return self.table(*folders)

    def labels(self, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, "N 2"]:
        table = self.converted.table
        assert table is not None
        return table.labels[self.checked(index)]

    def table(self, *paths: Path) -> Table:
        """The make and the model of every picture, numbered by their folders' names in sorted order."""
        files = _files(paths[0])
        if not files:
            raise RequestError(f"{paths[0]} holds no MAKE/MODEL/YEAR/*.jpg: see {self.sources[0].url}")
        owners = [file.relative_to(paths[0]).parts[:2] for file in files]
        columns = [np.unique([owner[axis] for owner in owners], return_inverse=True) for axis in range(2)]
        labels = np.stack([inverse for _, inverse in columns], axis=1).astype(np.int32)
        return Table(labels, tuple(tuple(values.tolist()) for values, _ in columns))

    def convert(self, *paths: Path) -> Iterator[UInt8[np.ndarray, "n 64 64 3"]]:
        files = _files(paths[0])
        yield from pictures(((str(file), file.read_bytes()) for file in files), lambda content: picture(content, "RGB"))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*/*/*.jpg"))
