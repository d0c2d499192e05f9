"""Scream-dSprites: a random piece of Munch's The Scream in a random shade, the object's pixels inverted.

The background is the mean of a 64 x 64 patch of the painting and a random colour, as in the code of the study; as there
the painting is first reduced to fit 350 x 274 pixels. The painting is a file that the user brings or Sober downloads.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from sober.errors import MissingError, RequestError, brief
from sober.files import cache_dir, replacing
from sober.worlds.drawn.dsprites import DSprites
from sober.worlds.drawn.sprites import sprites
from sober.worlds.world import Grid

SOURCE = "https://upload.wikimedia.org/wikipedia/commons/f/f4/The_Scream.jpg"  # the file of the study
FILENAME = "the_scream.jpg"  # in the cache
FIT = (350, 274)  # pixels, across and down
PATCH = 64


class ScreamDSprites(Grid):
    """`scream_dsprites`; `image=PATH` takes another picture, `file=PATH` the objects of the published npz."""

    name = "scream_dsprites"
    summary = "a shape on The Scream: 5 factors, 737,280 pictures of 64 x 64"
    reference = "Locatello et al. (2020): A sober look at the unsupervised learning of disentangled representations"
    factors = DSprites.factors
    image_shape = (64, 64, 3)
    question_values = DSprites.question_values
    stochastic = True

    def __init__(self, file: str | None = None, image: str | None = None) -> None:
        self.sprites = sprites(file)
        self.image = None if image is None else Path(image).expanduser().resolve()

    @property
    def spec(self) -> str:
        chosen = {"file": self.sprites.file, "image": self.image}
        options = ",".join(f"{option}={path}" for option, path in chosen.items() if path is not None)
        return f"{self.name}:{options}" if options else self.name

    @property
    def label(self) -> str:
        # The painting always has a fingerprint, because no two reproductions of it are alike.
        of_sprites = self.sprites.label.removeprefix(self.sprites.name)
        return f"{self.name}{of_sprites}:{hashlib.sha256(self.painting.data).hexdigest()[:16]}"

    def absent(self) -> str | None:
        if self.image is not None or (cache_dir() / FILENAME).exists():
            return self.sprites.absent()
        return f"{self.name} needs a picture of Munch's The Scream, which is downloaded on first use"

    def make_data(self) -> tuple[Any, UInt8[np.ndarray, "height width 3"]]:
        return self.sprites.data, self.painting

    def pixels(self, data: Any, index: Int[Array, " n"], key: Key[Array, ""]) -> Float[Array, "n 64 64 3"]:
        bits, painting = data
        background = jax.vmap(shaded_patch, in_axes=(None, 0))(painting, self.keys(key, index))
        return jnp.where(self.sprites.pixels(bits, index, key) > 0, 1 - background, background)

    @functools.cached_property
    def painting(self) -> UInt8[np.ndarray, "height width 3"]:
        return read_painting(self.image or found_painting())


def shaded_patch(painting: UInt8[Array, "height width 3"], key: Key[Array, ""]) -> Float[Array, "64 64 3"]:
    """The mean of a random patch of the painting and a random colour."""
    where, shade = jax.random.split(key)
    height, width, channels = painting.shape
    corner = jax.random.randint(where, (2,), 0, jnp.array([height - PATCH, width - PATCH]) + 1)
    patch = jax.lax.dynamic_slice(painting, (*corner, 0), (PATCH, PATCH, channels))
    return (patch.astype(jnp.float32) / 255 + jax.random.uniform(shade, (channels,))) / 2


def read_painting(path: Path) -> UInt8[np.ndarray, "height width 3"]:
    """A picture file, reduced as in the study."""
    from PIL import Image  # noqa: PLC0415

    try:
        with Image.open(path) as opened:
            opened.thumbnail(FIT)
            painting = np.array(opened.convert("RGB"))
    except Exception as error:  # a damaged picture fails in as many ways as there are formats
        raise RequestError(f"{path} cannot be read as a picture ({brief(error)}): give another, image=PATH") from error
    if min(painting.shape[:2]) < PATCH:
        height, width = painting.shape[:2]
        raise RequestError(
            f"{path} is {width} x {height} pixels when it fits {FIT[0]} x {FIT[1]}: patches need {PATCH} x {PATCH}, "
            "so give a larger or less narrow picture, image=PATH"
        )
    return painting


def found_painting() -> Path:
    """The painting in the cache, downloaded on first use; from then on its checksum must stay the same."""
    path = cache_dir() / FILENAME
    noted = path.with_name(f"{FILENAME}.sha256")
    if path.exists():
        if noted.exists() and noted.read_text().strip() != _sha256(path):
            raise RequestError(f"{path} is no longer what was downloaded: delete it, and {noted.name}, to get it again")
        return path
    try:
        import pooch  # noqa: PLC0415

        pooch.get_logger().setLevel("WARNING")
        # Wikimedia refuses the name that Python's libraries give themselves.
        download = pooch.HTTPDownloader(headers={"User-Agent": "sober (python)"})
        pooch.retrieve(SOURCE, known_hash=None, fname=path.name, path=path.parent, downloader=download)
    except Exception as error:  # no network, a refusal, a folder that cannot be written, no pooch
        raise MissingError(
            f"scream_dsprites needs a picture of Munch's The Scream, which could not be downloaded "
            f"({type(error).__name__}): save {SOURCE} as {path}, or name any picture file, scream_dsprites:image=PATH"
        ) from error
    with replacing(noted) as temporary:
        temporary.write_text(_sha256(path) + "\n")
    return path


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
