"""Scream-dSprites: a random piece of Munch's The Scream in a random shade, the object's pixels inverted.

The background is the mean of a 64 x 64 patch of the painting and a random colour. The painting is first reduced to fit
350 x 274 pixels. Both are as in the code of the study. The painting is a file of the user.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from sober.errors import MissingError, RequestError, brief
from sober.files import cache_dir
from sober.installation import needing_extra
from sober.worlds.drawn.dsprites import DSprites
from sober.worlds.drawn.sized import Sized
from sober.worlds.drawn.sprites import sprites
from sober.worlds.world import Grid

SOURCE = "https://upload.wikimedia.org/wikipedia/commons/f/f4/The_Scream.jpg"  # the file of the study
FILENAME = "the_scream.jpg"  # in the cache
WHERE = (
    f"scream_dsprites needs a picture of Munch's The Scream: save {SOURCE} as {{path}}, or name any picture file, "
    "scream_dsprites:image=PATH"
)
FIT = (350, 274)  # width and height in pixels
PATCH = 64  # the side of a picture in the study


class ScreamDSprites(Sized, Grid):
    """`scream_dsprites`; `image=PATH` takes another picture, `file=PATH` the objects of the published npz."""

    name = "scream_dsprites"
    summary = "a shape on The Scream: 5 factors, 737,280 pictures of 64 x 64"
    reference = "Locatello et al. (2020): A sober look at the unsupervised learning of disentangled representations"
    factors = DSprites.factors
    image_shape = (64, 64, 3)
    question_values = DSprites.question_values
    stochastic = True

    def __init__(self, file: str | None = None, image: str | None = None, size: int | str | None = None) -> None:
        super().__init__(size)
        self.sprites = sprites(file, size)
        self.image = None if image is None else Path(image).expanduser().resolve()

    @property
    def options(self) -> Mapping[str, object]:
        return {"file": self.sprites.file, "image": self.image, **super().options}

    @property
    def label(self) -> str:
        # The painting always has a fingerprint, because its reproductions differ.
        return self.label_with(*self.sprites.file_fingerprint, hashlib.sha256(self.painting.data).hexdigest()[:16])

    def absent(self) -> str | None:
        if self.image is not None or (cache_dir() / FILENAME).exists():
            return self.sprites.absent()
        return WHERE.format(path=cache_dir() / FILENAME)

    def make_data(self) -> tuple[Any, UInt8[np.ndarray, "height width 3"]]:
        return self.sprites.data, self.painting

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n H W 3"]:
        bits, painting = data
        paint = functools.partial(shaded_patch, painting, side=self.side)
        background = jax.vmap(paint)(self.keys(key, index))
        return jnp.where(self.sprites.pixels(bits, index, key) > 0, 1 - background, background)

    @functools.cached_property
    def painting(self) -> UInt8[np.ndarray, "height width 3"]:
        return read_painting(self.image or painting_path(), self.side)


def shaded_patch(painting: UInt8[Array, "height width 3"], key: Key[Array, ""], *, side: int) -> Float[Array, "H W 3"]:
    """The mean of a random patch of the painting and a random colour."""
    corner_key, shade_key = jax.random.split(key)
    height, width, channels = painting.shape
    corner = jax.random.randint(corner_key, (2,), 0, jnp.array([height - side, width - side]) + 1)
    patch = jax.lax.dynamic_slice(painting, (*corner, 0), (side, side, channels))
    return (patch.astype(jnp.float32) / 255 + jax.random.uniform(shade_key, (channels,))) / 2


def read_painting(path: Path, side: int) -> UInt8[np.ndarray, "height width 3"]:
    """A picture file, reduced as in the study, or less where patches are larger than there."""
    fit = (FIT[0] * side // PATCH, FIT[1] * side // PATCH)
    with needing_extra("reading pictures"):
        from PIL import Image  # noqa: PLC0415

    try:
        with Image.open(path) as opened:
            opened.thumbnail(fit)
            painting = np.array(opened.convert("RGB"))
    except Exception as error:  # a damaged picture fails in different ways in each format
        raise RequestError(f"{path} cannot be read as a picture ({brief(error)}): give another, image=PATH") from error
    if min(painting.shape[:2]) < side:
        height, width = painting.shape[:2]
        raise RequestError(
            f"{path} is {width} x {height} pixels when it fits {fit[0]} x {fit[1]}: patches need {side} x {side}, "
            "so give a larger or less narrow picture, image=PATH"
        )
    return painting


def painting_path() -> Path:
    """The painting in the cache. Nobody has published its checksum, so Sober does not download it.

    An older version did, and wrote down the checksum of what it downloaded, which must not have changed.
    """
    path = cache_dir() / FILENAME
    if not path.exists():
        raise MissingError(WHERE.format(path=path))
    checksum_path = path.with_name(f"{FILENAME}.sha256")
    if checksum_path.exists() and checksum_path.read_text().strip() != _sha256(path):
        raise RequestError(
            f"{path} is no longer what was downloaded: save {SOURCE} there again, and delete {checksum_path.name}"
        )
    return path


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
