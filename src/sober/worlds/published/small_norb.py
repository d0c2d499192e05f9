"""SmallNORB: fifty toys of five kinds, photographed from 162 directions in six lights (LeCun et al. 2004).

Four factors, as in the Sober Look study. The number of the toy within its kind is not a factor, because the third
animal has nothing in common with the third car. Every combination has ten pictures, one for each toy.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Int, UInt8

from sober.errors import RequestError
from sober.files import raw_rows
from sober.installation import needing_extra
from sober.types import Factor
from sober.worlds.published.archives import reading
from sober.worlds.published.published_world import PublishedWorld, Source

BYTES, INTEGERS = 0x1E3D4C55, 0x1E3D4C54  # the first four bytes of a file are its type of numbers
SIDE = 96  # of a published picture
CITATION = """@inproceedings{lecun2004learning,
  title     = {Learning Methods for Generic Object Recognition with Invariance to Pose and Lighting},
  author    = {LeCun, Yann and Huang, Fu Jie and Bottou, L{\\'e}on},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition},
  year      = {2004}
}"""


def _source(split: str, size: int, sha256: str) -> Source:
    file = f"smallnorb-{split}.mat"
    return Source(
        f"{file}.gz",
        f"https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/{file}.gz",
        size=size,
        checksum=f"sha256:{sha256}",
        licence="research only",
        citation=CITATION,
        unpacked=file,
    )


TRAINING, TESTING = "5x46789x9x18x6x2x96x96-training", "5x01235x9x18x6x2x96x96-testing"


class SmallNORB(PublishedWorld):
    name = "small_norb"
    summary = "photographs of toys: 4 factors and 10 toys of each kind, 48,600 pictures of 64 x 64"
    reference = "LeCun, Huang & Bottou (2004): Learning methods for generic object recognition"
    factors = (
        Factor("category", 5, "categorical", ("animal", "human", "airplane", "truck", "car")),
        Factor("elevation", 9, "ordinal", tuple(np.arange(30.0, 71, 5).tolist())),
        Factor("azimuth", 18, "cyclic", tuple(np.arange(0.0, 360, 20).tolist())),
        Factor("lighting", 6, "categorical"),
    )
    toys = 10  # in each category: the fastest to vary in the order of the pictures
    image_shape = (64, 64, 1)
    sources = (
        _source(f"{TRAINING}-dat", 131_896_188, "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873"),
        _source(f"{TRAINING}-cat", 348, "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa"),
        _source(f"{TRAINING}-info", 71_052, "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32"),
        _source(f"{TESTING}-dat", 130_799_817, "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474"),
        _source(f"{TESTING}-cat", 347, "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff"),
        _source(f"{TESTING}-info", 10_428, "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2"),
    )

    @property
    def size(self) -> int:  # type: ignore[override]
        return math.prod(self._sizes) * self.toys

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(factor.size for factor in self.factors)

    def labels(self, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, "N 4"]:
        return np.stack(np.unravel_index(self.checked(index) // self.toys, self._sizes), axis=-1).astype(np.int32)

    def vary(self, index: int, factor: int, count: int) -> UInt8[np.ndarray, "n 64 64 1"]:
        """As in a grid, with a fixed number of the toy: another category shows its toy of that number."""
        size = self.factors[factor].size
        values = np.unique(np.linspace(0, size - 1, min(count, size)).round().astype(int))
        classes = np.tile(self.labels(np.array([index])), (len(values), 1))
        classes[:, factor] = values
        return self.render(np.ravel_multi_index(tuple(classes.T), self._sizes) * self.toys + index % self.toys)

    def convert(self, *paths: Path) -> Iterator[UInt8[np.ndarray, "n 64 64 1"]]:
        images = np.empty((self.size, *self.image_shape), np.uint8)
        filled = np.zeros(self.size, int)
        for images_file, categories_file, info_file in (paths[:3], paths[3:]):
            places = self._places(categories_file, info_file)
            done = 0
            for rows in _matrix(images_file, BYTES, (len(places), 2, SIDE, SIDE)):
                images[places[done : done + len(rows)]] = _resized(rows[:, 0])  # the left of its two cameras
                done += len(rows)
            filled[places] += 1
        if (filled != 1).any():
            raise RequestError(f"{paths[1]} and the files beside it do not list every combination once")
        yield images

    def _places(self, categories: Path, info: Path) -> Int[np.ndarray, " N"]:
        """The index in this world of each picture of the training or testing files."""
        half = self.size // 2
        category = np.concatenate(list(_matrix(categories, INTEGERS, (half,))))
        toy, elevation, azimuth, lighting = np.concatenate(list(_matrix(info, INTEGERS, (half, 4)))).T
        columns = (category, elevation, azimuth // 2, lighting, toy)  # azimuths count in steps of ten degrees
        if (azimuth % 2).any():
            raise RequestError(f"{info} has an azimuth that is no multiple of 20 degrees")
        with reading(info, self.name):
            return np.ravel_multi_index(columns, (*self._sizes, self.toys))


def _matrix(path: Path, magic: int, shape: tuple[int, ...]) -> Iterator[Any]:
    """The rows of a file in the data set's own format, gzipped or not, in blocks."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with reading(path, "small_norb"), opener(path, "rb") as file:
        first, ndim = _integers(file, 2)
        if first != magic or ndim != len(shape):
            raise ValueError(f"it begins with {first:#x} and {ndim} axes, not {magic:#x} and {len(shape)}")
        sizes = tuple(_integers(file, max(3, ndim))[:ndim])  # at least three are stored
        if sizes != shape:
            raise ValueError(f"it holds an array of shape {sizes}, not {shape}")
        if magic == BYTES:
            yield from raw_rows(file, shape)
        else:
            for rows in raw_rows(file, (shape[0], 4 * math.prod(shape[1:]))):
                yield rows.view("<i4").reshape(-1, *shape[1:])
        if file.read(1):  # at the end of the file gzip compares the checksum
            raise ValueError("more data than its header says")


def _integers(file: IO[bytes], count: int) -> list[int]:
    content = file.read(4 * count)
    if len(content) < 4 * count:
        raise ValueError("it ends within its header")
    return [int(number) for number in np.frombuffer(content, "<i4")]


def _resized(images: UInt8[np.ndarray, "n 96 96"]) -> UInt8[np.ndarray, "n 64 64 1"]:
    """Resized with Pillow's Lanczos filter, as in the study."""
    with needing_extra("reading pictures"):
        from PIL import Image  # noqa: PLC0415

    small = [Image.fromarray(image).resize((64, 64), Image.Resampling.LANCZOS) for image in images]
    return np.stack([np.asarray(image) for image in small])[..., None]
