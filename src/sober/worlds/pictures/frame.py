"""A frame: the size and colours that every picture is brought to, for any kind of file.

A picture is decoded, turned as its EXIF tag says, laid on white if it has transparency, and scaled with a triangle
filter two new pixels wide. That filter is a weighted mean, so nothing overshoots, and a picture of the right size keeps
its bytes.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, get_args

import numpy as np
from jaxtyping import UInt8

from sober.errors import RequestError, listed
from sober.installation import needing_extra
from sober.parallel import MemoryBudget, give_memory_back

if TYPE_CHECKING:
    from PIL import Image

Fit = Literal["crop", "pad", "stretch"]
Mode = Literal["auto", "rgb", "grey"]
# Pillow itself decodes all of these; formats that start other programs (EPS) are left out.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "AVIF")
LARGEST_SIDE = 4096
# Bytes of decoded pictures in all threads together: at the size of their files, with copies in other modes.
DECODED, COPIES = MemoryBudget(2**31), 3
LARGE = 2**26  # bytes of a decoded picture that are worth the milliseconds that giving them back takes
ORIENTATION = 274  # the EXIF tag; above 4, height and width change places


@dataclasses.dataclass(frozen=True)
class Frame:
    """`height` x `width`; `fit` says how another aspect ratio is fitted, `mode` whether colours are kept.

    `auto` keeps colours here: only after the last picture is it known whether all of them are grey.
    """

    height: int
    width: int
    fit: Fit
    mode: Mode

    @staticmethod
    def of(size: int | str, fit: str, mode: str) -> Frame:
        """The frame of a size, a side or `HxW`, and of the names of a fit and a mode."""
        sides = re.fullmatch(r"(\d+)(?:x(\d+))?", str(size), re.ASCII)
        height, width = (int(sides[1]), int(sides[2] or sides[1])) if sides else (0, 0)
        if not (1 <= height <= LARGEST_SIDE and 1 <= width <= LARGEST_SIDE):
            raise RequestError(f"size={size} is not a size: give a side, as 64, or HxW, as 64x48 (1 to {LARGEST_SIDE})")
        for name, value, names in (("fit", fit, get_args(Fit)), ("mode", mode, get_args(Mode))):
            if value not in names:
                raise RequestError(f"{name}={value} is unknown: choose one of {listed(names)}")
        return Frame(height, width, fit, mode)  # type: ignore[arg-type]

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of a picture in this frame."""
        return self.height, self.width, 1 if self.mode == "grey" else 3

    def decode(self, file: Path | BinaryIO) -> UInt8[np.ndarray, "H W C"]:
        """The picture in a file, or the first of an animation. A damaged file raises an error of Pillow."""
        with _opened(file) as image:
            # A JPEG can be decoded at a half, a quarter or an eighth of its size, in a fraction of the time. At four
            # times the size of the frame or more, this moves nothing by more than a ninth of a pixel.
            side = 4 * max(self.height, self.width)
            image.draft(None, (side, side))
            size = COPIES * 4 * image.width * image.height
            with DECODED.taking(size):
                try:
                    return self.fitted(image)
                finally:
                    image.close()
                    if size > LARGE:
                        give_memory_back()

    def fitted(self, image: Image.Image) -> UInt8[np.ndarray, "H W C"]:
        """A picture in memory, turned as its EXIF tag says and scaled as `fit` says."""
        image_module, operations = pillow()
        filter_, image = image_module.Resampling.BILINEAR, _plain(operations.exif_transpose(image))
        across, down = image.width / self.width, image.height / self.height  # old pixels per new pixel
        colours = "L" if self.mode == "grey" else "RGB"
        if self.fit == "pad":
            most = max(across, down)
            width, height = max(1, round(image.width / most)), max(1, round(image.height / most))
            scaled = image.resize((width, height), filter_).convert(colours)
            out = image_module.new(colours, (self.width, self.height))  # black
            out.paste(scaled, ((self.width - width) // 2, (self.height - height) // 2))
        else:
            box = (0.0, 0.0, float(image.width), float(image.height))
            if self.fit == "crop":
                least = min(across, down)
                x, y = (image.width - least * self.width) / 2, (image.height - least * self.height) / 2
                x, y = max(x, 0.0), max(y, 0.0)  # rounding may put the box slightly outside
                box = (x, y, image.width - x, image.height - y)
            out = image.resize((self.width, self.height), filter_, box).convert(colours)
        return np.asarray(out).reshape(self.shape)


def sides_in_file(file: Path | BinaryIO) -> tuple[int, int]:
    """Height and width of the picture in a file, turned as its EXIF tag says. Its pixels are not decoded."""
    with _opened(file) as image:
        is_on_its_side = image.getexif().get(ORIENTATION, 1) > 4
        return (image.width, image.height) if is_on_its_side else (image.height, image.width)


def _opened(file: Path | BinaryIO) -> Image.Image:
    image_module, _ = pillow()
    formats = [name for name in FORMATS if name in image_module.OPEN]  # an older Pillow has no AVIF
    try:
        return image_module.open(file, formats=formats)
    except image_module.UnidentifiedImageError as error:  # its message repeats the file, or an address in memory
        raise ValueError("not a picture") from error


def pillow() -> tuple[Any, Any]:
    """Pillow's `Image` and `ImageOps`, with every decoder loaded: loading them is not safe in several threads."""
    with needing_extra("reading pictures"):
        from PIL import Image, ImageOps  # noqa: PLC0415
    Image.init()
    return Image, ImageOps


def _plain(image: Image.Image) -> Image.Image:
    """A picture of any mode as 8-bit grey or RGB."""
    image_module, _ = pillow()
    if image.mode[0] in "IF":
        return image_module.fromarray(_deep(np.asarray(image)))
    if image.has_transparency_data:
        transparent = image.convert("RGBA")
        paper = image_module.new("RGBA", transparent.size, "white")
        return image_module.alpha_composite(paper, transparent).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _deep(values: np.ndarray) -> UInt8[np.ndarray, "H W"]:
    """One channel of 16 bits, or of floats in [0, 1], as bytes. Pillow itself would clip values above 255 to white."""
    white = 65535 if values.dtype.kind in "iu" else 1
    if not (values.min() >= 0 and values.max() <= white):
        raise ValueError(f"its values run from {values.min():g} to {values.max():g}, and white would be {white}")
    return np.round(values * (255 / white)).astype(np.uint8)
