"""A frame: the size and colours that every picture is brought to, whatever its file holds.

A picture is decoded, turned as its EXIF tag says, laid on white where it is transparent, and scaled with a triangle
filter two new pixels wide: a weighted mean, so nothing overshoots, and a picture of the right size keeps its bytes.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, get_args

import numpy as np
from jaxtyping import UInt8

from sober.errors import RequestError, listed

if TYPE_CHECKING:
    from PIL import Image

Fit = Literal["crop", "pad", "stretch"]
Mode = Literal["auto", "rgb", "grey"]
# Each is read by a decoder of Pillow's own; formats that start other programs (EPS) are not here.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "AVIF")
LARGEST_SIDE = 4096


@dataclasses.dataclass(frozen=True)
class Frame:
    """`height` x `width`; `fit` says what happens to another aspect, `mode` whether colours are kept.

    `auto` keeps colours here; whether all pictures are grey is known only when all are there.
    """

    height: int
    width: int
    fit: Fit
    mode: Mode

    @staticmethod
    def of(size: int | str, fit: str, mode: str) -> Frame:
        """The frame of a request: a side, or `HxW`."""
        sides = re.fullmatch(r"(\d+)(?:x(\d+))?", str(size), re.ASCII)
        height, width = (int(sides[1]), int(sides[2] or sides[1])) if sides else (0, 0)
        if not (1 <= height <= LARGEST_SIDE and 1 <= width <= LARGEST_SIDE):
            raise RequestError(f"size={size} is not a size: give a side, as 64, or HxW, as 64x48 (1 to {LARGEST_SIDE})")
        for name, value, known in (("fit", fit, get_args(Fit)), ("mode", mode, get_args(Mode))):
            if value not in known:
                raise RequestError(f"{name}={value} is unknown: choose one of {listed(known)}")
        return Frame(height, width, fit, mode)  # type: ignore[arg-type]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a picture in this frame."""
        return self.height, self.width, 1 if self.mode == "grey" else 3

    def decode(self, file: Path | BinaryIO) -> UInt8[np.ndarray, "H W C"]:
        """The picture in a file, the first of an animation; whatever Pillow raises for one that is damaged."""
        image_module, _ = pillow()
        formats = [name for name in FORMATS if name in image_module.OPEN]  # an older Pillow has no AVIF
        try:
            opened = image_module.open(file, formats=formats)
        except image_module.UnidentifiedImageError as error:  # which names the file again, or an address in memory
            raise ValueError("not a picture") from error
        with opened as image:
            # A JPEG can be decoded at a half, a quarter or an eighth of its size, so photographs take a fraction of the
            # time. Four times what is needed, either way round, moves nothing by more than a ninth of a pixel.
            side = 4 * max(self.height, self.width)
            image.draft(None, (side, side))
            return self.fitted(image)

    def fitted(self, image: Image.Image) -> UInt8[np.ndarray, "H W C"]:
        """A picture in memory, turned as its EXIF tag says, scaled by the rule of `fit`."""
        image_module, operations = pillow()
        filter_, image = image_module.Resampling.BILINEAR, _plain(operations.exif_transpose(image))
        across, down = image.width / self.width, image.height / self.height  # old pixels in a new one
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
                x, y = max(x, 0.0), max(y, 0.0)  # where rounding put the box a hair outside
                box = (x, y, image.width - x, image.height - y)
            out = image.resize((self.width, self.height), filter_, box).convert(colours)
        return np.asarray(out).reshape(self.shape)


def pillow() -> tuple[Any, Any]:
    """Pillow's `Image` and `ImageOps`, with every decoder loaded: loading them is not safe among threads."""
    try:
        from PIL import Image, ImageOps  # noqa: PLC0415
    except ImportError as error:
        raise RequestError("reading pictures needs Pillow: pip install pillow") from error
    Image.init()
    return Image, ImageOps


def _plain(image: Image.Image) -> Image.Image:
    """A picture of any mode as 8-bit grey or RGB."""
    image_module, _ = pillow()
    if image.mode[0] in "IF":
        return image_module.fromarray(_deep(np.asarray(image)))
    if image.has_transparency_data:
        seen = image.convert("RGBA")
        return image_module.alpha_composite(image_module.new("RGBA", seen.size, "white"), seen).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _deep(values: np.ndarray) -> UInt8[np.ndarray, "H W"]:
    """One channel of 16 bits, or of floats in [0, 1], as bytes. Pillow itself would clip all above 255 to white."""
    white = 65535 if values.dtype.kind in "iu" else 1
    if not (values.min() >= 0 and values.max() <= white):
        raise ValueError(f"its values run from {values.min():g} to {values.max():g}, and white would be {white}")
    return np.round(values * (255 / white)).astype(np.uint8)
