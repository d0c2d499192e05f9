"""A trained model as a value: its run, its nets, and one file that holds all of it."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sober.errors import RequestError
from sober.files import load_arrays, save_arrays
from sober.methods import METHODS, Structure, structure
from sober.methods.method import kl_per_latent
from sober.models.trees import named_arrays, tree_of
from sober.nets import NETS, Autoencoder, Nets, find_nets
from sober.types import Run

BATCH = 1024  # pictures at a time: bounds memory whatever a caller hands over


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """One trained model. `diverged` is the step at which its loss stopped being finite, or None."""

    run: Run
    image_shape: tuple[int, int, int]
    autoencoder: Autoencoder
    diverged: int | None = None
    curves: Mapping[str, Float[np.ndarray, " T"]] = dataclasses.field(default_factory=dict)

    def encode(self, images: np.ndarray) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N D"]]:
        """Mean and log-variance of the codes of pictures: bytes 0 to 255, or floats 0 to 1."""
        images = self._pictures(images)
        parts = [_encode(self.autoencoder, part) for part in self._parts(images)]
        return np.concatenate([np.asarray(mean) for mean, _ in parts]), np.concatenate(
            [np.asarray(v) for _, v in parts]
        )

    def decode(self, codes: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N H W C"]:
        """Pictures in [0, 1]: the mean of p(x|z)."""
        codes = np.asarray(codes, np.float32)
        if codes.ndim != 2 or codes.shape[1] != self.run.latents:
            raise RequestError(f"codes must be (N, {self.run.latents}), got shape {codes.shape}")
        return np.concatenate([np.asarray(_decode(self.autoencoder, part)) for part in self._parts(codes)])

    def ended(self, term: str) -> float:
        """Where a term of its training ended: the mean of the last twentieth of its curve; NaN if it is no number."""
        curve = np.asarray(self.curves.get(term, ()), float)
        last = curve[-max(1, len(curve) // 20) :]
        finite = last[np.isfinite(last)]
        return float(finite.mean()) if len(finite) else math.nan

    def save(self, path: Path) -> None:
        """Writes one safetensors file that `load` reads in a fresh process."""
        arrays = named_arrays(self.autoencoder, "model") | {f"curve.{k}": np.asarray(v) for k, v in self.curves.items()}
        about = {
            "kind": "sober.model",
            "run": json.dumps(self.run.canonical()),
            "image_shape": json.dumps(self.image_shape),
            "diverged": json.dumps(self.diverged),
        }
        save_arrays(path, arrays, about)

    def _parts(self, rows: np.ndarray) -> list[np.ndarray]:
        size = find_nets(self.run.nets).at_once(BATCH)
        return [rows[start : start + size] for start in range(0, max(len(rows), 1), size)]

    def _pictures(self, images: np.ndarray) -> np.ndarray:
        images = np.asarray(images)
        if images.shape[1:] == self.image_shape[:2] and self.image_shape[2] == 1:
            images = images[..., None]
        if images.shape[1:] != self.image_shape:
            raise RequestError(f"pictures must be (N, {', '.join(map(str, self.image_shape))}), got {images.shape}")
        if images.dtype != np.uint8 and not np.issubdtype(images.dtype, np.floating):
            raise RequestError(f"pictures must be bytes 0 to 255 or floats 0 to 1, got {images.dtype}")
        return images


def latent_kl(mean: Float[np.ndarray, "N D"], logvar: Float[np.ndarray, "N D"] | None) -> Float[np.ndarray, " D"]:
    """What each latent carries: KL(q(z|x) || N(0, 1)) in nats, mean over the pictures.

    Of codes without a spread it is half their mean square, as if they had one of 1.
    """
    logvar = np.zeros_like(mean) if logvar is None else logvar
    return np.asarray(jnp.mean(kl_per_latent(jnp.asarray(mean), jnp.asarray(logvar)), axis=0))


def load(path: str | Path) -> Model:
    """The model in a file of `Model.save`, or the one that a folder of results has chosen."""
    path = Path(path)
    if (path / "model.safetensors").exists():
        path = path / "model.safetensors"
    if path.is_dir():
        raise RequestError(f"{path} is a folder: give one model's file, such as {path / 'models'}/IDENTITY.safetensors")
    arrays, about = load_arrays(path)
    if about.get("kind") != "sober.model":
        raise RequestError(f"{path} is not a model saved by Sober")
    run = Run.of(json.loads(about["run"]))
    shape = tuple(json.loads(about["image_shape"]))
    if run.method not in METHODS or run.nets not in NETS:
        raise RequestError(f"{path} was made by method {run.method!r} with nets {run.nets!r}, which are not known here")
    autoencoder = tree_of(blank(run, shape), arrays, "model")
    curves = {name.removeprefix("curve."): array for name, array in arrays.items() if name.startswith("curve.")}
    return Model(run, shape, autoencoder, json.loads(about["diverged"]), curves)


def stacked(models: Sequence[Model]) -> Any:
    """The nets of models alike as one tree, each array with the models along its first axis.

    Stacked by NumPy: JAX would compile a program for every shape.
    """
    return jax.tree.map(lambda *leaves: np.stack(leaves), *[model.autoencoder for model in models])


@functools.lru_cache(64)
def _blank(structure: Structure, nets: Nets, shape: tuple[int, int, int]) -> Autoencoder:
    """The shapes of a model's arrays, which take longer to trace than a small model to read."""
    return jax.eval_shape(lambda key: structure.fresh(key, nets, shape), jax.random.key(0))


def blank(run: Run, shape: tuple[int, int, int]) -> Autoencoder:
    """The model of a run without its numbers."""
    return _blank(structure(run), find_nets(run.nets), shape)


def _as_float(images: Any) -> Any:
    return images.astype(jnp.float32) / 255 if images.dtype == jnp.uint8 else images.astype(jnp.float32)


_encode: Callable[..., Any] = jax.jit(lambda model, images: model.encode(_as_float(images)))
_decode: Callable[..., Any] = jax.jit(lambda model, codes: jax.nn.sigmoid(model.decode(codes)))
