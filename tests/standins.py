"""Stand-ins for what others published: small files in the original formats, and worlds that take them for the whole.

The writers of each format also serve the tests of its reader, test_readers.py.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import itertools
import math
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.io
from PIL import Image

from sober.types import Factor
from sober.worlds import WORLDS, World
from sober.worlds.drawn import scream_dsprites
from sober.worlds.published import faces3d as faces3d_format
from sober.worlds.published.celeba import ATTRIBUTES
from sober.worlds.published.published_world import PublishedWorld, Source
from sober.worlds.published.small_norb import TESTING, TRAINING

RNG = np.random.default_rng(0)


# Containers and encodings.


def encoded(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **({"quality": 100, "subsampling": 0} if kind == "JPEG" else {}))
    return file.getvalue()


def npy(array: np.ndarray, **options: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, members: dict[str, bytes], mode: str, link: str | None = None) -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo(link)
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
            archive.addfile(info)
    return path


# The formats of the data sets.


def write_shapes(path: Path, images: np.ndarray, labels: np.ndarray, chunks: Any = (5, 8, 8, 1)) -> Path:
    """3D Shapes: an HDF5 file."""
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=images, chunks=chunks, compression="gzip")
        file.create_dataset("labels", data=labels)
    return path


def mesh(number: int, im: Any = None, azimuths: int = 3, elevations: int = 2) -> bytes:
    """A car of Cars3D, a MATLAB file: blocks of one colour, so that resizing keeps them, by azimuth and elevation."""
    if im is None:
        im = np.zeros((128, 128, 3, azimuths, elevations), np.uint8)
        for azimuth, elevation in itertools.product(range(azimuths), range(elevations)):
            im[..., azimuth, elevation] = (50 * number, 60 * azimuth, 100 * elevation % 256)
    file = io.BytesIO()
    mask = np.zeros((128, 128, azimuths, elevations), np.uint8)
    scipy.io.savemat(file, {"im": im, "mask": mask}, do_compression=True)
    return file.getvalue()


def matrix(array: np.ndarray) -> bytes:
    """An array in the format of SmallNORB: what it holds, its axes, its sizes (at least three), its content."""
    magic = {1: 0x1E3D4C55, 4: 0x1E3D4C54}[array.dtype.itemsize]
    sizes = [*array.shape, *[1] * (3 - array.ndim)]
    return struct.pack(f"<{2 + len(sizes)}i", magic, array.ndim, *sizes) + array.tobytes()


def toys(categories: int, elevations: int, azimuths: int, lights: int, count: int) -> dict[str, bytes]:
    """The files of SmallNORB, with `count` toys of each category: training has the even ones."""
    files = {}
    for part, first in ((TRAINING, 0), (TESTING, 1)):
        seen = (range(categories), range(first, count, 2), range(elevations), range(azimuths), range(lights))
        rows = RNG.permutation(list(itertools.product(*seen)))
        images = np.zeros((len(rows), 2, 96, 96), np.uint8)
        images[:, 0] = (rows @ [100, 20, 10, 3, 1])[:, None, None]
        info = rows[:, 1:] * [1, 1, 2, 1]  # azimuths count in steps of ten degrees
        files[f"smallnorb-{part}-dat.mat"] = matrix(images)
        files[f"smallnorb-{part}-cat.mat"] = matrix(rows[:, 0].astype("<i4"))
        files[f"smallnorb-{part}-info.mat"] = matrix(info.astype("<i4"))
    return files


def write_toys(folder: Path, files: dict[str, bytes], packed: bool = True) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / (f"{name}.gz" if packed else name)).write_bytes(
            gzip.compress(content, 1, mtime=0) if packed else content
        )
    return folder


def write_faces(path: Path, faces: np.ndarray, old: bool = False) -> Path:
    """3D Faces: a tensor as `torch.save` writes it, since version 1.6 or, `old`, before; without PyTorch."""
    content = faces.ravel(order="K").tobytes()
    if not old:
        members = {"data.pkl": _tensor(faces), "byteorder": b"little", "data/0": content, "version": b"3\n"}
        return write_zip(path, {f"archive/{name}": each for name, each in members.items()})
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    start = b"".join(pickle.dumps(part, 2) for part in (faces3d_format.MAGIC, 1001, system))
    key = pickle.dumps(["0"], 2)
    path.write_bytes(start + _tensor(faces, None) + key + faces.size.to_bytes(8, "little") + content)
    return path


def _tensor(array: np.ndarray, *view: None) -> bytes:
    """The pickle of a tensor: a call of a function with a storage, an offset, sizes and strides, and no hooks."""

    def part(value: Any) -> bytes:
        return pickle.dumps(value, 2)[2:-1]  # without the protocol before it and the stop behind it

    kind = {"uint8": b"ByteStorage", "float32": b"FloatStorage"}[str(array.dtype)]
    storage = [part("storage"), b"ctorch\n" + kind + b"\n", *map(part, ("0", "cpu", array.size, *view))]
    strides = tuple(stride // array.itemsize for stride in array.strides)
    hooks = b"ccollections\nOrderedDict\n)R"
    arguments = [b"(", *storage, b"tQ", part(0), part(array.shape), part(strides), part(False), hooks]
    return b"".join([b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(", *arguments, b"tR."])


def chairs() -> dict[str, bytes]:
    """Two chairs from three sides and two heights: each picture grey in its middle, with a white border."""
    members = {}
    for chair, (view, (elevation, azimuth)) in itertools.product(
        range(2), enumerate(itertools.product((20, 30), (11, 23, 348)))
    ):
        pixels = np.full((600, 600, 3), 255, np.uint8)
        pixels[100:500, 100:500] = 100 * chair + view
        name = f"rendered_chairs/{chair:032x}/renders/image_{view:03d}_p{elevation:03d}_t{azimuth:03d}_r096.png"
        members[name] = encoded(pixels)
    return members


def photographs() -> dict[str, bytes]:
    """Three photographs of CelebA, each of one colour within the middle 148 pixels and black around."""
    members = {}
    for number in range(1, 4):
        pixels = np.zeros((218, 178, 3), np.uint8)
        pixels[35:183, 15:163] = (80 * number, 120, 250 - 80 * number)
        members[f"img_align_celeba/{number:06d}.jpg"] = encoded(pixels, "JPEG")
    return members


SIGNS = np.where(RNG.random((3, 40)) < 0.5, -1, 1)


def write_celeba(folder: Path, members: dict[str, bytes], signs: np.ndarray = SIGNS, packed: bool = True) -> Path:
    folder.mkdir(exist_ok=True)
    rows = [f"{number:06d}.jpg  " + " ".join(f"{sign:2d}" for sign in row) for number, row in enumerate(signs, 1)]
    (folder / "list_attr_celeba.txt").write_text(f"{len(signs)}\n{' '.join(ATTRIBUTES)} \n" + "\n".join(rows) + "\n")
    if packed:
        write_zip(folder / "img_align_celeba.zip", {"img_align_celeba/": b"", **members})
    else:
        (folder / "img_align_celeba").mkdir()
        for name, content in members.items():
            (folder / name).write_bytes(content)
    return folder


CAR_FILES = {
    "78/3/2014/a.jpg": (90, 60, (200, 0, 0)),
    "78/3/2014/b.jpg": (60, 90, (0, 200, 0)),
    "78/12/unknown/c.jpg": (64, 64, (0, 0, 200)),
    "9/1/2009/d.jpg": (300, 200, (90, 90, 90)),
}


def write_cars(folder: Path) -> Path:
    """CompCars: a folder of makes, models and years."""
    for name, (width, height, colour) in CAR_FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encoded(np.full((height, width, 3), colour, np.uint8), "JPEG"))
    return folder


# A stand-in for each published world: its files in a folder, and the world that expects so few pictures. Factors keep
# their names and kinds, and as many classes as views of them need: three for `joint`, six lights for `lighting=5`.


def shapes3d(kind: type[PublishedWorld], folder: Path) -> type[PublishedWorld]:
    small = smaller(kind, 2, 2, 2, 3, 4, 3)
    columns = [range(factor.size) if factor.kind == "categorical" else factor.values for factor in small.factors]
    labels = np.array(list(itertools.product(*columns)), np.float64)
    write_shapes(folder / "3dshapes.h5", numbered(small), labels)
    return small


def mpi3d(kind: type[PublishedWorld], folder: Path) -> type[PublishedWorld]:
    small = smaller(kind, 2, 2, 2, 2, 2, 3, 3)
    write_zip(folder / kind.sources[0].file, {"images.npy": npy(numbered(small))})
    return small


def cars3d(kind: type[PublishedWorld], folder: Path) -> type[PublishedWorld]:
    cars = {f"data/cars/car_{number:03d}_mesh.mat": mesh(number, azimuths=4, elevations=3) for number in range(3)}
    write_tar(folder / "nips2015-analogy-data.tar.gz", cars, "w:gz")
    return smaller(kind, 3, 4, 3)


def small_norb(kind: type[PublishedWorld], folder: Path) -> type[PublishedWorld]:
    write_toys(folder, toys(2, 3, 4, 2, count=2))
    return smaller(kind, 2, 3, 4, 2, toys=2)


def faces3d(kind: type[PublishedWorld], folder: Path) -> type[PublishedWorld]:
    small = smaller(kind, 2, 4, 3, 6)
    write_faces(folder / "basel_face_renders.pth", numbered(small).reshape(2, 4, 3, 6, 64, 64))
    return small


def chairs3d(kind: type[PublishedWorld], folder: Path) -> type[PublishedWorld]:
    write_tar(folder / "rendered_chairs.tar", chairs(), "w")
    return smaller(kind, 2, 3, 2)


def celeba(kind: type[PublishedWorld], folder: Path) -> type[PublishedWorld]:
    write_celeba(folder, photographs())
    return smaller(kind, size=3)


def comp_cars(kind: type[PublishedWorld], folder: Path) -> type[PublishedWorld]:
    write_cars(folder / "image")
    return smaller(kind)


STANDINS: dict[str, Callable[[type[PublishedWorld], Path], type[PublishedWorld]]] = {
    "cars3d": cars3d,
    "celeba": celeba,
    "chairs3d": chairs3d,
    "comp_cars": comp_cars,
    "faces3d": faces3d,
    "mpi3d_real": mpi3d,
    "mpi3d_realistic": mpi3d,
    "mpi3d_toy": mpi3d,
    "shapes3d": shapes3d,
    "small_norb": small_norb,
}


def stand_in(cache: Path) -> dict[str, type[World]]:
    """Writes all stand-ins into the data folder of a cache, and a painting; the worlds that take them, by name.

    They are classes of their own, to be put into the registry: a world that is open already stays what it was.
    """
    kinds: dict[str, type[World]] = {}
    for name, write in STANDINS.items():
        folder = cache / "data" / name
        folder.mkdir(parents=True)
        kind: Any = WORLDS[name]
        small = write(kind, folder)
        small.sources = tuple(published(source, folder / source.file) for source in small.sources)
        kinds[name] = small
    height, width = np.mgrid[:274, :350].astype(np.uint8)
    painting = np.stack([height, width, height ^ width], axis=-1)
    (cache / scream_dsprites.FILENAME).write_bytes(encoded(painting, "JPEG"))
    kinds["scream_dsprites"] = type("ScreamDSprites", (scream_dsprites.ScreamDSprites,), {})
    return kinds


def smaller(kind: type[PublishedWorld], *sizes: int, **others: Any) -> type[PublishedWorld]:
    """The same world, of fewer classes and with other attributes."""
    factors = {"factors": fewer(kind.factors, sizes)} if sizes else {}
    return type(kind.__name__, (kind,), {**factors, **others})


def fewer(factors: Iterable[Factor], sizes: Sequence[int]) -> tuple[Factor, ...]:
    """The first classes of each factor."""
    pairs = zip(factors, sizes, strict=True)
    return tuple(dataclasses.replace(factor, size=size, values=factor.values[:size]) for factor, size in pairs)


def published(source: Source, path: Path) -> Source:
    """A source as if this file were the published one: its size and checksum, where those of the original are known."""
    size = None if source.size is None else path.stat().st_size
    if source.checksum is None:
        return dataclasses.replace(source, size=size)
    algorithm = source.checksum.partition(":")[0]
    digest = hashlib.new(algorithm, path.read_bytes(), usedforsecurity=False).hexdigest()
    return dataclasses.replace(source, size=size, checksum=f"{algorithm}:{digest}")


def numbered(kind: type[PublishedWorld]) -> np.ndarray:
    """A picture of one shade for each combination of factors, each picture another than its neighbours."""
    count = math.prod(factor.size for factor in kind.factors)
    shades = (np.arange(count) % 251).astype(np.uint8)
    return np.tile(shades[:, None, None, None], (1, *kind.image_shape))  # (N, H, W, C)
