"""Readers of the published data sets, each on a small file in the original format, whole, damaged or malicious."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sober.errors import RequestError
from sober.worlds.published import celeba, faces3d
from sober.worlds.published.cars3d import Cars3D
from sober.worlds.published.celeba import ATTRIBUTES, CelebA
from sober.worlds.published.chairs3d import Chairs3D
from sober.worlds.published.comp_cars import CompCars
from sober.worlds.published.faces3d import Faces3D
from sober.worlds.published.mpi3d import MPI3DToy
from sober.worlds.published.published_world import PublishedWorld
from sober.worlds.published.shapes3d import Shapes3D
from sober.worlds.published.small_norb import TESTING, TRAINING, SmallNORB
from standins import (
    SIGNS,
    chairs,
    encoded,
    fewer,
    matrix,
    mesh,
    npy,
    photographs,
    toys,
    write_cars,
    write_celeba,
    write_faces,
    write_shapes,
    write_tar,
    write_toys,
    write_zip,
)

RNG = np.random.default_rng(0)


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SOBER_DATA", raising=False)


@pytest.fixture
def shrink(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes a data set expect few classes of each factor, and a file without a published checksum."""

    def shrunk(kind: type[PublishedWorld], *sizes: int) -> None:
        sources = tuple(dataclasses.replace(source, size=None, checksum=None) for source in kind.sources)
        monkeypatch.setattr(kind, "sources", sources)
        if sizes:
            monkeypatch.setattr(kind, "factors", fewer(kind.factors, sizes))

    return shrunk


def refusal(kind: type[PublishedWorld], given: Path, named: Path | None = None) -> str:
    """What is said about a file that is not the published one: one line that names it."""
    with pytest.raises(RequestError) as caught:
        _ = kind(str(given)).pictures
    message = str(caught.value)
    assert str(named or given) in message
    assert "\n" not in message
    return message


def refused_when_cut_short(kind: type[PublishedWorld], path: Path, padding: int = 0) -> None:
    whole = path.read_bytes()
    for length in np.linspace(0, len(whole) - padding - 1, 12).astype(int):
        path.write_bytes(whole[:length])
        refusal(kind, path)


# shapes3d


SHAPES = RNG.integers(0, 256, (24, 64, 64, 3), np.uint8)
SHAPE_LABELS = np.array(list(itertools.product([0, 0.1], [0.5], [0.2, 0.9, 1], [0.75, 1.25], [0, 3], [-30])))


def test_shapes3d_are_the_images_of_the_file(tmp_path: Path, shrink: Callable) -> None:
    shrink(Shapes3D, 2, 1, 3, 2, 2, 1)
    opened = Shapes3D(str(write_shapes(tmp_path / "3dshapes.h5", SHAPES, SHAPE_LABELS)))
    np.testing.assert_array_equal(opened.pictures, SHAPES)
    np.testing.assert_array_equal(opened.render(np.arange(24)), SHAPES)
    assert opened.labels(np.array([23])).tolist() == [[1, 0, 2, 1, 1, 0]]


def test_shapes3d_that_do_not_come_in_chunks_are_read_as_well(tmp_path: Path, shrink: Callable) -> None:
    h5py = pytest.importorskip("h5py")
    shrink(Shapes3D, 2, 1, 3, 2, 2, 1)
    with h5py.File(tmp_path / "3dshapes.h5", "w") as file:
        file["images"], file["labels"] = SHAPES, SHAPE_LABELS
    np.testing.assert_array_equal(Shapes3D(str(tmp_path / "3dshapes.h5")).pictures, SHAPES)


@pytest.mark.parametrize(
    ("images", "labels", "says"),
    [
        (SHAPES[:12], SHAPE_LABELS[:12], r"(12, 64, 64, 3)"),
        (SHAPES.astype(np.float32), SHAPE_LABELS, "float32"),
        (SHAPES, SHAPE_LABELS[:, :5], "labels of shape"),
        (SHAPES, SHAPE_LABELS[::-1], "order"),
    ],
    ids=["too few", "floats", "a factor less", "another order"],
)
def test_other_shapes3d_are_refused(
    tmp_path: Path, shrink: Callable, images: np.ndarray, labels: np.ndarray, says: str
) -> None:
    shrink(Shapes3D, 2, 1, 3, 2, 2, 1)
    assert says in refusal(Shapes3D, write_shapes(tmp_path / "3dshapes.h5", images, labels))


def test_damaged_shapes3d_are_refused(tmp_path: Path, shrink: Callable) -> None:
    h5py = pytest.importorskip("h5py")
    shrink(Shapes3D, 2, 1, 3, 2, 2, 1)
    path = tmp_path / "3dshapes.h5"
    with h5py.File(path, "w") as file:
        file["images"] = SHAPES
    assert "labels" in refusal(Shapes3D, path)
    refused_when_cut_short(Shapes3D, write_shapes(path, SHAPES, SHAPE_LABELS))


# mpi3d


MPI = RNG.integers(0, 256, (16, 64, 64, 3), np.uint8)


def test_mpi3d_is_the_images_of_the_file_and_its_pickles_stay_closed(tmp_path: Path, shrink: Callable) -> None:
    shrink(MPI3DToy, 2, 1, 2, 1, 1, 2, 2)
    bomb = npy(np.array([Bomb(tmp_path / "unpickled")], object), allow_pickle=True)
    path = write_zip(tmp_path / "mpi3d_toy.npz", {"metadata.npy": bomb, "images.npy": npy(MPI)})
    opened = MPI3DToy(str(path))
    np.testing.assert_array_equal(opened.pictures, MPI)
    assert opened.labels(np.array([5])).tolist() == [[0, 0, 1, 0, 0, 0, 1]]
    assert not (tmp_path / "unpickled").exists()


def test_other_mpi3d_files_are_refused(tmp_path: Path, shrink: Callable) -> None:
    shrink(MPI3DToy, 2, 1, 2, 1, 1, 2, 2)
    path = tmp_path / "mpi3d_toy.npz"
    bomb = npy(np.array([Bomb(tmp_path / "unpickled")] * 16, object), allow_pickle=True)
    for content, says in [
        (npy(MPI[:8]), "(8, 64, 64, 3)"),
        (npy(MPI.astype(np.int16)), "int16"),
        (npy(np.asfortranarray(MPI)), "images of shape"),
        (npy(MPI)[:-1], "too early"),
        (npy(MPI) + b"more", "more data"),
        (bomb, "object"),
        (b"nothing", "magic"),
    ]:
        assert says in refusal(MPI3DToy, write_zip(path, {"images.npy": content}))
    assert "images.npy" in refusal(MPI3DToy, write_zip(path, {"pictures.npy": npy(MPI)}))
    refused_when_cut_short(MPI3DToy, write_zip(path, {"images.npy": npy(MPI)}))
    assert not (tmp_path / "unpickled").exists()


# cars3d


# Not in sorted order, as in an archive.
CARS = {f"data/cars/car_{number:03d}_mesh.mat": mesh(number) for number in (2, 0, 3, 1)}


@pytest.mark.parametrize("unpacked", [False, True])
def test_cars3d_are_ordered_by_elevation_azimuth_and_the_names_of_files(
    tmp_path: Path, shrink: Callable, unpacked: bool
) -> None:
    shrink(Cars3D, 2, 3, 4)
    path = tmp_path / "nips2015-analogy-data.tar.gz"
    if unpacked:
        path = tmp_path / "cars"
        path.mkdir()
        for name, content in CARS.items():
            (path / Path(name).name).write_bytes(content)
    else:
        others = {"data/cars/list.txt": b"car_000_mesh\n", "data/shapes48.mat": b"", "data/sprites/a.mat": b"no"}
        write_tar(path, {**others, **CARS}, "w:gz")
    opened = Cars3D(str(path))
    colours = [(50 * n, 60 * a, 100 * e) for e in range(2) for a in range(3) for n in range(4)]
    np.testing.assert_array_equal(opened.pictures[:, 0, 0], colours)
    np.testing.assert_array_equal(opened.pictures[:, 63, 40], colours)
    assert opened.labels(np.array([13])).tolist() == [[1, 0, 1]]


def test_cars3d_are_halved_with_the_lanczos_filter(tmp_path: Path, shrink: Callable) -> None:
    shrink(Cars3D, 2, 3, 1)
    im = RNG.integers(0, 256, (128, 128, 3, 3, 2), np.uint8)
    path = write_tar(tmp_path / "cars.tar.gz", {"data/cars/car_000_mesh.mat": mesh(0, im)}, "w:gz")
    expected = Image.fromarray(im[..., 2, 1]).resize((64, 64), Image.Resampling.LANCZOS)
    np.testing.assert_array_equal(Cars3D(str(path)).pictures[5], np.asarray(expected))


def test_other_cars3d_archives_are_refused(tmp_path: Path, shrink: Callable) -> None:
    shrink(Cars3D, 2, 3, 4)
    path, first = tmp_path / "cars.tar.gz", "data/cars/car_000_mesh.mat"
    cells = np.full((128, 128, 3, 3, 2), 0, object)
    noisy = mesh(0, RNG.integers(0, 256, (128, 128, 3, 3, 2), np.uint8))
    for members, says in [
        (dict(list(CARS.items())[:3]), "3 cars, not 4"),
        ({**CARS, "data/cars/car_009_mesh.mat": mesh(4)}, "more than 4"),
        ({**CARS, first: mesh(0, np.zeros((64, 64, 3, 3, 2), np.uint8))}, "of shape"),
        ({**CARS, first: mesh(0, np.zeros((128, 128, 3, 3, 2)))}, "uint8"),
        ({**CARS, first: mesh(0, cells[:2])}, "uint8"),
        ({**CARS, first: pickle.dumps(Bomb(tmp_path / "unpickled"))}, "cannot be read"),
        ({**CARS, first: noisy[: len(noisy) // 2]}, "cannot be read"),
        ({**CARS, "../../outside.mat": b""}, "outside"),
        ({**CARS, "/outside.mat": b""}, "outside"),
    ]:
        assert says in refusal(Cars3D, write_tar(path, members, "w:gz"))
    three = {name: content for name, content in CARS.items() if name != first}
    assert "3 cars" in refusal(Cars3D, write_tar(path, three, "w:gz", link=first))
    refused_when_cut_short(Cars3D, write_tar(path, CARS, "w:gz"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cache", "cars.tar.gz"]


# small_norb


@pytest.fixture
def few_toys(shrink: Callable, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    shrink(SmallNORB, 2, 2, 3, 1)
    monkeypatch.setattr(SmallNORB, "toys", 4)
    return toys(2, 2, 3, 1, count=4)


@pytest.mark.parametrize("packed", [True, False])
def test_small_norb_is_ordered_by_its_factors_then_by_toy(
    tmp_path: Path, few_toys: dict[str, bytes], packed: bool
) -> None:
    opened = SmallNORB(str(write_toys(tmp_path / "norb", few_toys, packed)))
    order = [(c, e, a, t) for c in range(2) for e in range(2) for a in range(3) for t in range(4)]
    np.testing.assert_array_equal(
        opened.pictures[:, 5, 50, 0], [100 * c + 20 * t + 10 * e + 3 * a for c, e, a, t in order]
    )
    assert opened.labels(np.arange(48)).tolist() == [[c, e, a, 0] for c, e, a, _ in order]
    assert [factor.name for factor in opened.factors] == ["category", "elevation", "azimuth", "lighting"]


def test_small_norb_varies_one_factor_of_the_same_toy(tmp_path: Path, few_toys: dict[str, bytes]) -> None:
    opened = SmallNORB(str(write_toys(tmp_path / "norb", few_toys)))
    at = 4 * 7 + 3  # category 1, elevation 0, azimuth 1, toy 3
    assert opened.vary(at, 0, 9)[:, 0, 0, 0].tolist() == [63, 163]
    assert opened.vary(at, 2, 9)[:, 0, 0, 0].tolist() == [160, 163, 166]


def test_small_norb_pictures_are_the_left_ones_resized_with_the_lanczos_filter(
    tmp_path: Path, few_toys: dict[str, bytes]
) -> None:
    image = RNG.integers(0, 256, (24, 2, 96, 96), np.uint8)
    few_toys[f"smallnorb-{TESTING}-dat.mat"] = matrix(image)
    opened = SmallNORB(str(write_toys(tmp_path / "norb", few_toys)))
    expected = np.asarray(Image.fromarray(image[7, 0]).resize((64, 64), Image.Resampling.LANCZOS))
    assert sum((picture[..., 0] == expected).all() for picture in opened.pictures) == 1


def test_other_small_norb_files_are_refused(tmp_path: Path, few_toys: dict[str, bytes]) -> None:
    dat, cat, info = (f"smallnorb-{TRAINING}-{kind}.mat" for kind in ("dat", "cat", "info"))
    odd = np.zeros((24, 4), "<i4")
    odd[3, 2] = 1
    for name, content, says in [
        (dat, matrix(np.zeros((24, 2, 96, 96), np.int32)), "begins with"),
        (dat, matrix(np.zeros((23, 2, 96, 96), np.uint8)), "(23, 2, 96, 96)"),
        (dat, few_toys[dat][:-1], "too early"),
        (dat, few_toys[dat] + b"m", "more data"),
        (dat, b"\x55\x4c", "header"),
        (cat, few_toys[cat][:30], "too early"),
        (cat, matrix(np.full(24, 7, "<i4")), "every combination"),
        (info, matrix(np.full((24, 4), -2, "<i4")), "cannot be read"),
        (info, matrix(np.zeros((24, 4), "<i4")), "every combination"),
        (info, matrix(odd), "azimuth"),
    ]:
        folder = write_toys(tmp_path / "norb", {**few_toys, name: content})
        if "every" not in says:
            assert says in refusal(SmallNORB, folder, folder / f"{name}.gz")
        else:
            refusal(SmallNORB, folder)
    folder = write_toys(tmp_path / "norb", few_toys)
    whole = (folder / f"{info}.gz").read_bytes()
    (folder / f"{info}.gz").write_bytes(whole[:-6])
    refusal(SmallNORB, folder, folder / f"{info}.gz")
    (folder / f"{info}.gz").unlink()
    assert f"{info}.gz" in refusal(SmallNORB, folder)


# faces3d


FACES = RNG.integers(0, 256, (2, 3, 2, 2, 64, 64), np.uint8)


@pytest.mark.parametrize("form", ["old", "new", "npz"])
def test_faces3d_are_the_array_of_the_file(tmp_path: Path, shrink: Callable, form: str) -> None:
    shrink(Faces3D, 2, 3, 2, 2)
    path = tmp_path / "basel_face_renders.pth"
    if form == "npz":
        write_zip(path, {"images.npy": npy(FACES)})
    else:
        write_faces(path, FACES, form == "old")
    opened = Faces3D(str(path))
    np.testing.assert_array_equal(opened.pictures, FACES.reshape(24, 64, 64, 1))
    assert opened.labels(np.array([23])).tolist() == [[1, 2, 1, 1]]


@pytest.mark.parametrize("old", [True, False])
def test_faces3d_are_what_pytorch_reads_and_writes(tmp_path: Path, shrink: Callable, old: bool) -> None:
    torch = pytest.importorskip("torch")
    shrink(Faces3D, 2, 3, 2, 2)
    path = write_faces(tmp_path / "ours.pth", FACES, old)
    np.testing.assert_array_equal(torch.load(path, weights_only=True).numpy(), FACES)
    theirs = tmp_path / "theirs.pth"
    torch.save(torch.from_numpy(FACES), theirs, _use_new_zipfile_serialization=not old)
    np.testing.assert_array_equal(Faces3D(str(theirs)).pictures, FACES.reshape(24, 64, 64, 1))


@pytest.mark.parametrize("old", [True, False])
def test_other_faces3d_are_refused(tmp_path: Path, shrink: Callable, old: bool) -> None:
    shrink(Faces3D, 2, 3, 2, 2)
    path = tmp_path / "basel_face_renders.pth"
    turned = FACES.transpose(0, 2, 1, 3, 4, 5).copy().transpose(0, 2, 1, 3, 4, 5)
    for faces in (FACES[:1].copy(), FACES.astype(np.float32), FACES.reshape(24, 64, 64), turned):
        assert "array of bytes" in refusal(Faces3D, write_faces(path, faces, old))
    refused_when_cut_short(Faces3D, write_faces(path, FACES, old))


def test_a_malicious_pickle_of_faces3d_is_not_followed(tmp_path: Path, shrink: Callable) -> None:
    shrink(Faces3D, 2, 3, 2, 2)
    path, bomb = tmp_path / "basel_face_renders.pth", pickle.dumps(Bomb(tmp_path / "unpickled"), 2)
    start = b"".join(pickle.dumps(part, 2) for part in (faces3d.MAGIC, 1001, {}))
    path.write_bytes(start + bomb + pickle.dumps(["0"], 2) + FACES.size.to_bytes(8, "little") + FACES.tobytes())
    assert "mkdir" in refusal(Faces3D, path)
    path.write_bytes(bomb)
    refusal(Faces3D, path)
    refusal(Faces3D, write_zip(path, {"archive/data.pkl": bomb, "archive/data/0": FACES.tobytes()}))
    newest = pickle.dumps(Bomb(tmp_path / "unpickled"), 4)
    refusal(Faces3D, write_zip(path, {"archive/data.pkl": newest, "archive/data/0": FACES.tobytes()}))
    assert not (tmp_path / "unpickled").exists()


# chairs3d


@pytest.mark.parametrize("unpacked", [False, True])
def test_chairs3d_are_ordered_by_chair_azimuth_and_elevation(tmp_path: Path, shrink: Callable, unpacked: bool) -> None:
    shrink(Chairs3D, 2, 3, 2)
    members = dict(reversed(chairs().items()))
    path = tmp_path / "rendered_chairs.tar"
    if unpacked:
        for name, content in members.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
        path = tmp_path / "rendered_chairs"
    else:
        write_tar(path, {"rendered_chairs/all_chair_names.mat": b"names", **members}, "w")
    pictures = Chairs3D(str(path)).pictures
    assert pictures[:, 30, 30, 0].tolist() == [
        100 * c + 3 * e + a for c in range(2) for a in range(3) for e in range(2)
    ]
    # The middle 400 pixels and no more: the white border is gone.
    np.testing.assert_array_equal(pictures, np.broadcast_to(pictures[:, :1, :1], pictures.shape))


def test_what_is_transparent_in_a_chair_is_white(tmp_path: Path, shrink: Callable) -> None:
    shrink(Chairs3D, 2, 3, 2)
    members = chairs()
    members[next(iter(members))] = encoded(np.zeros((600, 600, 4), np.uint8))
    pictures = Chairs3D(str(write_tar(tmp_path / "rendered_chairs.tar", members, "w"))).pictures
    assert (pictures[0] == 255).all()


def test_other_chairs3d_archives_are_refused(tmp_path: Path, shrink: Callable) -> None:
    shrink(Chairs3D, 2, 3, 2)
    path, whole = tmp_path / "rendered_chairs.tar", chairs()
    first = next(iter(whole))
    missing = {name: content for name, content in whole.items() if name != first}
    for members, says in [
        (missing, "11 pictures"),
        ({**missing, first.replace("t011", "t012"): whole[first]}, "4 azimuths"),
        ({**whole, first: encoded(np.zeros((64, 64, 3), np.uint8))}, "64 x 64 pixels"),
        ({**whole, first: b"GIF89a"}, first),
        ({**whole, first: whole[first][:300]}, first),
        ({**whole, "rendered_chairs/../../evil.png": b""}, "outside"),
    ]:
        assert says in refusal(Chairs3D, write_tar(path, members, "w"))
    assert "11 pictures" in refusal(Chairs3D, write_tar(path, missing, "w", link=first))
    content = write_tar(path, whole, "w").read_bytes()
    refused_when_cut_short(Chairs3D, path, padding=len(content) - len(content.rstrip(b"\0")))


# celeba


@pytest.fixture
def few_faces(shrink: Callable, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    shrink(CelebA)
    monkeypatch.setattr(CelebA, "size", 3)
    return photographs()


@pytest.mark.parametrize("packed", [True, False])
def test_celeba_is_cropped_to_the_face_and_labelled_by_its_list(
    tmp_path: Path, few_faces: dict[str, bytes], packed: bool
) -> None:
    opened = CelebA(str(write_celeba(tmp_path / "celeba", dict(reversed(few_faces.items())), packed=packed)))
    assert opened.pictures.shape == (3, 64, 64, 3)
    for number, picture in enumerate(opened.pictures.astype(int), 1):
        assert np.abs(picture - (80 * number, 120, 250 - 80 * number)).max() < 12  # JPEG alters it a little
    np.testing.assert_array_equal(opened.labels(np.arange(3)), SIGNS > 0)
    assert opened.vary(0, 0, 2) is None
    assert len(opened.factors) == len(set(ATTRIBUTES)) == 40
    assert (CelebA(str(tmp_path / "celeba")).sample(0, 5).factors < 2).all()


def test_celeba_is_found_by_its_zip_file(tmp_path: Path, few_faces: dict[str, bytes]) -> None:
    folder = write_celeba(tmp_path / "celeba", few_faces)
    assert len(CelebA(str(folder / "img_align_celeba.zip")).pictures) == 3


def test_other_celeba_files_are_refused(tmp_path: Path, few_faces: dict[str, bytes]) -> None:
    folder = tmp_path / "celeba"
    packed, listed = folder / "img_align_celeba.zip", folder / "list_attr_celeba.txt"
    first = next(iter(few_faces))
    for members, says in [
        (dict(list(few_faces.items())[1:]), "000001.jpg"),
        ({**few_faces, first: encoded(np.zeros((218, 170, 3), np.uint8), "JPEG")}, "170 x 218"),
        ({**few_faces, first: few_faces[first][:200]}, "000001.jpg"),
        ({**few_faces, first: b"nothing"}, "000001.jpg"),
        ({**few_faces, "../../000001.jpg": b""}, "outside"),
        ({**few_faces, "..\\evil.jpg": b""}, "outside"),
    ]:
        assert says in refusal(CelebA, write_celeba(folder, members), packed)
    refusal(CelebA, write_celeba(folder, few_faces, SIGNS[:2]), listed)
    refusal(CelebA, write_celeba(folder, few_faces, 0 * SIGNS), listed)
    write_celeba(folder, few_faces)
    text = listed.read_text()
    for other in (text.replace("Young", "Old"), text.replace("000002", "../../2"), text[:200], text[:-5], "", "\udcff"):
        listed.write_text(other, errors="surrogateescape")
        refusal(CelebA, folder, listed)
    listed.unlink()
    assert "list_attr_celeba.txt" in refusal(CelebA, folder)


def test_a_member_that_never_ends_is_not_read_to_its_end(
    tmp_path: Path, few_faces: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sober.worlds.published.archives.LARGEST", 1_000_000)
    few_faces["img_align_celeba/000002.jpg"] = bytes(2_000_000)
    message = refusal(CelebA, write_celeba(tmp_path / "celeba", few_faces), tmp_path / "celeba/img_align_celeba.zip")
    assert "000002.jpg' holds more than 1,000,000 bytes" in message


def test_the_face_is_in_the_middle_of_the_published_picture() -> None:
    width, height = celeba.SIZE
    assert ((width - celeba.CROP) / 2, (height - celeba.CROP) / 2) == (15, 35)


# comp_cars


@pytest.mark.parametrize("above", [False, True])
def test_comp_cars_are_labelled_by_their_folders(tmp_path: Path, above: bool) -> None:
    folder = write_cars(tmp_path / "data" / "image")
    opened = CompCars(str(folder.parent if above else folder))
    assert opened.size == 4
    assert [(factor.name, factor.size, factor.values) for factor in opened.factors] == [
        ("make", 2, ("78", "9")),
        ("model", 3, ("1", "12", "3")),
    ]
    assert opened.labels(np.arange(4)).tolist() == [[0, 1], [0, 2], [0, 2], [1, 0]]
    expected = np.array([(0, 0, 200), (200, 0, 0), (0, 200, 0), (90, 90, 90)])
    assert np.abs(opened.pictures.astype(int) - expected[:, None, None]).max() < 4
    assert opened.label == f"comp_cars:{opened.fingerprint}"
    again = CompCars(str(folder.parent if above else folder))  # from the cache
    assert (again.size, again.factors) == (opened.size, opened.factors)


def test_comp_cars_in_the_data_folder_are_counted_when_they_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOBER_DATA", str(tmp_path))
    assert CompCars().size == 136_726
    write_cars(tmp_path / "comp_cars" / "image")
    assert CompCars().size == 4


def test_other_comp_cars_are_refused(tmp_path: Path) -> None:
    folder = write_cars(tmp_path / "cars")
    (folder / "78/3/2014/a.jpg").write_bytes(b"nothing")
    assert "a.jpg" in refusal(CompCars, folder)
    (tmp_path / "empty").mkdir()
    assert "no MAKE/MODEL/YEAR" in refusal(CompCars, tmp_path / "empty")
    with pytest.raises(RequestError, match="not there"):
        _ = CompCars(str(tmp_path / "none")).size
