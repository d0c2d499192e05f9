"""What the report shows of chosen models, computed once: their pictures, what each latent does, and which factors it
goes with.

All that needs a model or a world is computed here, while a folder is worked on, and kept in it at
shown/IDENTITY.safetensors. The page is made of these files alone.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt8

from sober.errors import RequestError, brief
from sober.files import load_arrays, save_arrays
from sober.metrics.discrete import discretised
from sober.metrics.metric import varying
from sober.metrics.registry import METRICS
from sober.metrics.score import as_codes, score
from sober.models.encode import Index
from sober.models.model import Model, latent_kl
from sober.report.start import SPAN, start_of
from sober.results.settings import setting
from sober.types import Codes, Factor, Run
from sober.worlds import World

PICTURES = 12
STEPS = 11  # pictures along a traversal
QUANTILES = (0.1, 0.9)

Pictures = UInt8[np.ndarray, "n H W C"]


def showcase(
    model: Model, codes: Codes, world: World, index: Index | None = None, *, seed: int = 0
) -> dict[str, np.ndarray]:
    """What is shown of a model, from its codes of the pictures in `index`, all of them without it.

    pictures, reconstructions   (12, H, W, C), bytes, drawn from these by `seed`, and their `codes` (12, D)
    mixed                       (12, H, W, C): pictures of codes whose latents are drawn one by one, each from its range
    traversals                  (D, 11, H, W, C): a picture in which latents are seen well, one from -2 to 2
    kl                          (D,), what each latent carries, in nats
    mi.matrix, gbt.…, svm.…     (D, K), and the other parts of the unified scores: curve of groups, merge thresholds
    response.0, response.1, …   (3, V, D): mean, 10% and 90% quantile of the latents for each value of a factor

    The last two are there where factors vary, which are those of `about_shown`. The model is not asked to encode again.
    """
    if codes.mean.shape[1] != model.run.latents:
        raise RequestError(f"codes has {codes.mean.shape[1]} latents, the model {model.run.latents}: pass its own")
    if codes.logvar is None and model.autoencoder.reading.has_spread:
        raise RequestError(f"run {model.run.identity} has codes without log-variances: show those of its encoder")
    if not (np.isfinite(codes.mean).all() and (codes.logvar is None or np.isfinite(codes.logvar).all())):
        raise RequestError(f"run {model.run.identity} has codes that are not finite: show a model that did not diverge")
    index = world.everything() if index is None else index
    if len(index) != len(codes.mean):
        raise RequestError(f"codes are of {len(codes.mean):,} pictures, but {len(index):,} are given: pass their index")
    rows = np.random.default_rng(seed).permutation(len(codes.mean))[:PICTURES]
    shown = codes.mean[rows]
    start = start_of(model.decode, codes.mean)
    return {
        "pictures": _bytes(world.render(index[rows])),
        "reconstructions": _bytes(model.decode(shown)),
        "codes": shown,
        "mixed": _bytes(model.decode(_mixed(codes.mean, seed))),
        "traversals": np.stack([_bytes(model.decode(each)) for each in _traversals(start)]),
        "kl": latent_kl(codes.mean, codes.logvar),
        **_matrices(codes, seed),
        **{f"response.{k}": response for k, response in enumerate(_responses(codes))},
    }


def about_shown(run: Run, codes: Codes) -> dict[str, Any]:
    """What the arrays of `showcase` are about: the run in words, and the factors that vary, with their values."""
    known = varying(as_codes(codes))
    factors = [
        {"name": factor.name, "kind": factor.kind, "values": _texts(factor, known.factors[:, k], labels)}
        for k, (factor, labels) in enumerate(zip(known.about, discretised(known).factors.T, strict=True))
    ]
    return {
        "run": run.identity,
        "setting": setting(run),
        "world": run.world,
        "seed": run.seed,
        "factors": factors,
    }


def save_showcase(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Writes what `showcase` and `about_shown` made as one safetensors file, atomically; pictures as PNG, in bytes."""
    pictures = {name: array for name, array in arrays.items() if array.dtype == np.uint8 and array.ndim > 3}
    shapes = {name: list(array.shape) for name, array in pictures.items()}
    small = {name: pictures_as_png(array) if name in shapes else array for name, array in arrays.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"kind": "sober.showcase", "about": json.dumps(about), "pictures": json.dumps(shapes)}
        save_arrays(path, small, metadata)
    except OSError as error:
        raise RequestError(f"cannot write {path} ({brief(error)}): choose another folder") from error


def keep_showcase(folder: Path, model: Model, codes: Codes, world: World, index: Index | None = None) -> None:
    """Computes what is shown of a model and keeps it in a folder of results."""
    path = shown_path(folder, model.run.identity)
    save_showcase(path, showcase(model, codes, world, index), about_shown(model.run, codes))


def load_showcase(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays in a file of `save_showcase`, and what they are about."""
    arrays, metadata = load_arrays(path)
    if metadata.get("kind") != "sober.showcase":
        raise RequestError(f"{path} is not a showcase saved by Sober: move it elsewhere")
    shapes = json.loads(metadata.get("pictures", "{}"))  # earlier versions kept pictures as they are
    pictures = {name: pictures_of_png(arrays[name], tuple(shape), path) for name, shape in shapes.items()}
    return {**arrays, **pictures}, json.loads(metadata["about"])


def pictures_as_png(pictures: UInt8[np.ndarray, "*n H W C"]) -> UInt8[np.ndarray, " bytes"]:
    """Pictures one below the other as a PNG file: what changes little from one to the next takes little room."""
    from PIL import Image  # noqa: PLC0415

    sheet = pictures.reshape(-1, *pictures.shape[-2:])  # (n·H, W, C)
    with io.BytesIO() as file:
        Image.fromarray(sheet if sheet.shape[2] == 3 else sheet[..., 0]).save(file, "PNG", optimize=True)
        return np.frombuffer(file.getvalue(), np.uint8)


def pictures_of_png(data: UInt8[np.ndarray, " bytes"], shape: tuple[int, ...], path: Path) -> Pictures:
    """What `pictures_as_png` was given, where it has this shape."""
    from PIL import Image  # noqa: PLC0415

    try:
        with Image.open(io.BytesIO(data.tobytes()), formats=["PNG"]) as image:
            if image.size != (shape[-2], math.prod(shape[:-2])):  # before anything of it is read
                raise ValueError(f"pictures of another size, {image.size}")
            return np.asarray(image, np.uint8).reshape(shape)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise RequestError(f"{path} has pictures that cannot be read ({brief(error)})") from error


def shown_path(folder: Path, identity: str) -> Path:
    """Where a folder keeps what is shown of a run."""
    return folder / "shown" / f"{identity}.safetensors"


def _mixed(mean: Float[np.ndarray, "N D"], seed: int) -> Float[np.ndarray, "12 D"]:
    """Codes of no picture: each latent uniform over the range that it has, by itself, as PIPE draws them."""
    low, high = mean.min(axis=0), mean.max(axis=0)
    drawn = np.random.default_rng([seed, 1]).uniform(low, high, (PICTURES, mean.shape[1]))
    return drawn.astype(mean.dtype)


def _traversals(start: Float[np.ndarray, " D"]) -> Float[np.ndarray, "D 11 D"]:
    codes = np.tile(start, (len(start), STEPS, 1))
    for latent, each in enumerate(codes):
        each[:, latent] = np.linspace(-SPAN, SPAN, STEPS)
    return codes


def _matrices(codes: Codes, seed: int) -> dict[str, np.ndarray]:
    if not codes.about:
        return {}
    drawn = [name for name, metric in METRICS.items() if metric.matrix]
    parts_of = score(codes, metrics=drawn, seed=seed).parts
    return {f"{name}.{part}": array for name, parts in parts_of.items() for part, array in parts.items()}


def _responses(codes: Codes) -> list[Float[np.ndarray, "3 V D"]]:
    """Mean and quantiles of every latent by the value of each factor; a continuous one is cut into bins."""
    known = varying(as_codes(codes))
    return [_response(known.mean, labels) for labels in discretised(known).factors.T]


def _response(mean: Float[np.ndarray, "N D"], labels: Int[np.ndarray, " N"]) -> Float[np.ndarray, "3 V D"]:
    groups = [mean[labels == value] for value in range(labels.max() + 1)]
    rows = [
        (group.mean(axis=0, dtype=np.float64), *np.quantile(group, QUANTILES, axis=0)) for group in groups
    ]  # (V, 3, D)
    return np.array(rows, np.float32).swapaxes(0, 1)


def _texts(factor: Factor, column: np.ndarray, labels: Int[np.ndarray, " N"]) -> list[str]:
    """A text for each value that a factor has among the codes, in order."""
    middle = np.bincount(labels, column) / np.bincount(labels)  # the value itself, or the mean of a bin
    if factor.kind == "continuous":
        return [f"{value:.3g}" for value in middle]
    named = [factor.values[round(value)] if factor.values else round(value) for value in middle]
    return [f"{value:.3g}" if isinstance(value, float) else str(value) for value in named]


def _bytes(images: np.ndarray) -> Pictures:
    values = images if images.dtype == np.uint8 else np.round(255 * images)
    if values.shape[-1] != 3:  # one channel is grey; others have no colours: show their mean
        values = values.mean(axis=-1, keepdims=True)
    return values.astype(np.uint8)
