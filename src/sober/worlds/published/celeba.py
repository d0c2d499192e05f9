"""CelebA: photographs of celebrities' faces with forty attributes each (Liu et al. 2015)."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8

from sober.types import Factor
from sober.worlds.published.archives import picture, pictures, reading, zip_bytes, zip_members
from sober.worlds.published.published_world import PublishedWorld, Source, Table

ATTRIBUTES = (
    *("5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs", "Big_Lips", "Big_Nose"),
    *("Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair", "Bushy_Eyebrows", "Chubby", "Double_Chin", "Eyeglasses"),
    *("Goatee", "Gray_Hair", "Heavy_Makeup", "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache"),
    *("Narrow_Eyes", "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline", "Rosy_Cheeks"),
    *("Sideburns", "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Hat", "Wearing_Lipstick"),
    *("Wearing_Necklace", "Wearing_Necktie", "Young"),
)
SIZE, CROP = (178, 218), 148  # a published picture, and the side of its middle, the face
PAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
TERMS = "non-commercial research only"
CITATION = """@inproceedings{liu2015faceattributes,
  title     = {Deep Learning Face Attributes in the Wild},
  author    = {Liu, Ziwei and Luo, Ping and Wang, Xiaogang and Tang, Xiaoou},
  booktitle = {International Conference on Computer Vision},
  year      = {2015}
}"""


class CelebA(PublishedWorld):
    """`celeba:file=FOLDER`, with list_attr_celeba.txt and either img_align_celeba.zip or its unpacked folder."""

    name = "celeba"
    summary = "celebrities' faces: 40 attributes, 202,599 pictures of 64 x 64"
    reference = "Liu, Luo, Wang & Tang (2015): Deep learning face attributes in the wild"
    factors = tuple(Factor(name, 2, "categorical", ("no", "yes")) for name in ATTRIBUTES)
    image_shape = (64, 64, 3)
    size = 202_599
    sources = (
        Source(
            "img_align_celeba.zip",
            PAGE,
            size=1_443_490_838,
            checksum="sha256:46fb89443c578308acf364d7d379fe1b9efb793042c0af734b6112e4fd3a8c74",
            licence=TERMS,
            citation=CITATION,
            direct=False,
            unpacked="img_align_celeba",
        ),
        Source(
            "list_attr_celeba.txt",
            PAGE,
            size=26_721_026,
            checksum="sha256:f0e5da289d5ccf75ffe8811132694922b60f2af59256ed362afa03fefba324d0",
            licence=TERMS,
            citation=CITATION,
            direct=False,
        ),
    )

    def labels(self, index: Int[np.ndarray, " N"]) -> Int[np.ndarray, "N 40"]:
        table = self.converted.table
        assert table is not None
        return table.labels[self.checked(index)]

    def table(self, *paths: Path) -> Table:
        """Attributes as 0 and 1, a row for each picture in the order of the list."""
        with reading(paths[1], self.name):
            lines = paths[1].read_text(encoding="ascii").splitlines()
            if int(lines[0]) != self.size or tuple(lines[1].split()) != ATTRIBUTES:
                raise ValueError(f"it does not begin with {self.size} and the forty attributes")
            rows = [line.split() for line in lines[2:] if line]
            if [row[0] for row in rows] != [f"{number:06d}.jpg" for number in range(1, self.size + 1)]:
                raise ValueError("its pictures are not numbered from 000001.jpg on")
            signs = np.array([row[1:] for row in rows], np.int32)
            if signs.shape != (self.size, len(ATTRIBUTES)) or (np.abs(signs) != 1).any():
                raise ValueError("an attribute is neither 1 nor -1")
        return Table((signs + 1) // 2)

    def convert(self, *paths: Path) -> Iterator[UInt8[np.ndarray, "n 64 64 3"]]:
        names = [f"{number:06d}.jpg" for number in range(1, self.size + 1)]
        if paths[0].is_dir():
            yield from pictures(((name, (paths[0] / name).read_bytes()) for name in names), _face)
            return
        with zipfile.ZipFile(paths[0]) as archive:
            members = {
                member.filename.rpartition("/")[2]: member
                for name, member in zip_members(archive).items()
                if re.fullmatch(r"(?:img_align_celeba/)?\d{6}\.jpg", name)
            }
            yield from pictures(((name, zip_bytes(archive, members[name])) for name in names), _face)


def _face(content: bytes) -> UInt8[np.ndarray, "64 64 3"]:
    return picture(content, "RGB", size=SIZE, crop=CROP)
