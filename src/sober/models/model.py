"""A trained model as a value, which one file holds."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from safetensors import safe_open

from sober.errors import RequestError, counted
from sober.files import expecting, load_arrays, parse_json, save_arrays
from sober.files.model_files import model_path
from sober.methods import METHODS, Structure, structure
from sober.methods.method import kl_per_latent
from sober.methods.settings import setting
from sober.models.named_arrays import named_arrays, tree_from_arrays
from sober.nets import NETS, Autoencoder, Nets, find_nets
from sober.short_text import as_call, as_facts
from sober.types import Run

BATCH = 1024  # pictures encoded at a time, which bounds memory
CURVE = "curve."  # what the names of training curves begin with, in a model's file
STRUCTURES = 64  # whose array shapes are kept in memory


class NoWeightsError(RequestError):
    """A model's weights were not kept; how its training went was, and perhaps its codes."""


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingRecord:
    """How a model's training went. `diverged` is the step at which its loss stopped being finite, or None."""

    run: Run
    image_shape: tuple[int, int, int]
    diverged: int | None = None
    curves: Mapping[str, Float[np.ndarray, " T"]] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        return as_call(self)

    def ended(self, term: str) -> float:
        """The final value of a training term: the mean of the last 5% of its curve, or NaN if none of it is finite."""
        curve = np.asarray(self.curves.get(term, ()), float)
        last = curve[-max(1, len(curve) // 20) :]
        finite = last[np.isfinite(last)]
        return float(finite.mean()) if len(finite) else math.nan

    def save(self, path: Path) -> None:
        """Writes a model's file without its weights: `load` refuses it, `load_record` reads it."""
        arrays, metadata = self.file_content()
        save_arrays(path, arrays, metadata | {"weights": "none"})

    def file_content(self) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        """The arrays and the metadata of a model's file, without its weights."""
        arrays = {f"{CURVE}{name}": np.asarray(curve) for name, curve in self.curves.items()}
        return arrays, {
            "kind": "sober.model",
            "run": json.dumps(self.run.canonical()),
            "image_shape": json.dumps(self.image_shape),
            "diverged": json.dumps(self.diverged),
        }


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """One trained model. `diverged` is the step at which its loss stopped being finite, or None."""

    run: Run
    image_shape: tuple[int, int, int]
    autoencoder: Autoencoder
    diverged: int | None = None
    curves: Mapping[str, Float[np.ndarray, " T"]] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        facts = {
            "setting": setting(self.run),
            "nets": f"{self.run.nets}, {counted(self.run.latents, 'latent')}",
            "pictures": " × ".join(map(str, self.image_shape)),
            "trained": f"{self.run.steps:,} steps, seed {self.run.seed}",
            "diverged": None if self.diverged is None else f"at step {self.diverged:,}",
        }
        return as_facts(f"Model {self.run.identity}: {self.run.method} on {self.run.world}", facts)

    def encode(self, images: np.ndarray) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N D"]]:
        """Mean and log-variance of the codes of pictures: bytes 0 to 255, or floats 0 to 1."""
        images = self._pictures(images)
        means, logvars = zip(*(_encode(self.autoencoder, batch) for batch in self._batches(images)), strict=True)
        return np.concatenate([*map(np.asarray, means)]), np.concatenate([*map(np.asarray, logvars)])

    def decode(self, codes: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N H W C"]:
        """Pictures in [0, 1]: the mean of p(x|z)."""
        codes = np.asarray(codes, np.float32)
        if codes.ndim != 2 or codes.shape[1] != self.run.latents:
            raise RequestError(f"codes must be (N, {self.run.latents}), got shape {codes.shape}")
        return np.concatenate([np.asarray(_decode(self.autoencoder, batch)) for batch in self._batches(codes)])

    @property
    def record(self) -> TrainingRecord:
        """How its training went."""
        return TrainingRecord(self.run, self.image_shape, self.diverged, self.curves)

    def ended(self, term: str) -> float:
        """The final value of a training term: the mean of the last 5% of its curve, or NaN if none of it is finite."""
        return self.record.ended(term)

    def save(self, path: Path) -> None:
        """Writes one safetensors file that `load` reads in a fresh process."""
        arrays, metadata = self.record.file_content()
        save_arrays(path, named_arrays(self.autoencoder, "model") | arrays, metadata)

    def _batches(self, rows: np.ndarray) -> list[np.ndarray]:
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
    """The information in each latent: KL(q(z|x) || N(0, 1)) in nats, mean over the pictures.

    Codes without log-variances count as if their variance were 1, which gives half their mean square.
    """
    logvar = np.zeros_like(mean) if logvar is None else logvar
    return np.asarray(jnp.mean(kl_per_latent(jnp.asarray(mean), jnp.asarray(logvar)), axis=0))


def load(path: str | Path) -> Model:
    """The model in a file of `Model.save`, or the selected model of a folder of results."""
    path = Path(path)
    if (path / "model.safetensors").exists():
        path = path / "model.safetensors"
    if path.is_dir():
        raise RequestError(f"{path} is a folder: give one model's file, such as {path / 'models'}/IDENTITY.safetensors")
    record, arrays, has_weights = _read(path)
    if not has_weights:
        raise NoWeightsError(
            f"the weights of run {record.run.identity} were not kept, only how its training went ({path}): ask for "
            "what its codes allow"
        )
    run = record.run
    if run.method not in METHODS or run.nets not in NETS:
        raise RequestError(f"{path} was made by method {run.method!r} with nets {run.nets!r}, which are not known here")
    with expecting(path, "a model of Sober's"):
        autoencoder = tree_from_arrays(blank(run, record.image_shape), arrays, "model")
    return Model(run, record.image_shape, autoencoder, record.diverged, record.curves)


def has_weights(folder: Path, run: Run) -> bool:
    """Whether the weights of a finished run were kept. Only its file's head is read."""
    with safe_open(_finished_path(folder, run), framework="numpy") as file:
        return (file.metadata() or {}).get("weights") != "none"


def load_record(path: Path) -> TrainingRecord:
    """How the training of the model in a file went, whether or not its weights were kept."""
    return _read(path)[0]


def _read(path: Path) -> tuple[TrainingRecord, dict[str, np.ndarray], bool]:
    """The record of training in a model's file, all its arrays, and whether weights are among them."""
    arrays, metadata = load_arrays(path)
    if metadata.get("kind") != "sober.model":
        raise RequestError(f"{path} is not a model saved by Sober")
    curves = {name.removeprefix(CURVE): array for name, array in arrays.items() if name.startswith(CURVE)}
    with expecting(path, "a model of Sober's"):
        height, width, channels = map(operator.index, parse_json(metadata["image_shape"]))
        diverged = parse_json(metadata["diverged"])
        run = Run.of(parse_json(metadata["run"]))
        record = TrainingRecord(run, (height, width, channels), diverged, curves)
    return record, arrays, metadata.get("weights") != "none"


def model_of(folder: Path, run: Run) -> Model:
    """The model of a run in a folder; refused where it is not finished."""
    return load(_finished_path(folder, run))


def record_of(folder: Path, run: Run) -> TrainingRecord:
    """How the training of a finished run in a folder went."""
    return load_record(_finished_path(folder, run))


def _finished_path(folder: Path, run: Run) -> Path:
    path = model_path(folder, run)
    if not path.exists():
        raise RequestError(f"run {run.identity} is not finished: run the command that trains it again to go on")
    return path


def stacked(models: Sequence[Model]) -> Any:
    """The nets of models of one structure as one tree, with the models along the first axis of each array.

    NumPy stacks them: JAX would compile a program for every shape.
    """
    return jax.tree.map(lambda *leaves: np.stack(leaves), *[model.autoencoder for model in models])


@functools.lru_cache(maxsize=STRUCTURES)
def _blank(structure: Structure, nets: Nets, shape: tuple[int, int, int]) -> Autoencoder:
    """A model's arrays as shapes; tracing them takes longer than reading a small model."""
    return jax.eval_shape(lambda key: structure.fresh(key, nets, shape), jax.random.key(0))


def blank(run: Run, shape: tuple[int, int, int]) -> Autoencoder:
    """The model of a run with shapes in place of arrays."""
    return _blank(structure(run), find_nets(run.nets), shape)


def _as_float(images: Any) -> Any:
    return images.astype(jnp.float32) / 255 if images.dtype == jnp.uint8 else images.astype(jnp.float32)


_encode: Callable[..., Any] = jax.jit(lambda model, images: model.encode(_as_float(images)))
_decode: Callable[..., Any] = jax.jit(lambda model, codes: jax.nn.sigmoid(model.decode(codes)))
