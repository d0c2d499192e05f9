"""Showcases, which the report shows: a model's pictures, what each latent does, and which factors it follows.

Everything that needs a model or a world is computed here, before the report is made, and saved in the folder at
shown/IDENTITY.safetensors. The report reads these files alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sober.errors import RequestError
from sober.evaluation.traversal_start import start_of
from sober.methods.settings import setting
from sober.metrics.common.factor_classes import discretised
from sober.metrics.common.metric_rows import varying
from sober.metrics.registry import METRICS
from sober.metrics.scoring.score import as_codes, score
from sober.models.encode import Index, encode_pictures, picture_index, sample_of
from sober.models.model import Model, latent_kl
from sober.results.showcase_files import SPAN, STEPS, Pictures, save_showcase, showcase_path
from sober.types import Codes, Factor, Run
from sober.worlds import World

PICTURES = 12
SAMPLED = 4_096  # pictures that tell what a latent carries, where no showcase is saved
QUANTILES = (0.1, 0.9)


def showcase(
    model: Model,
    codes: Codes,
    world: World,
    index: Index | None = None,
    *,
    seed: int = 0,
    matrices: Sequence[str] | None = None,
    span: float = SPAN,
) -> dict[str, np.ndarray]:
    """The showcase of a model, made from its codes of the pictures in `index`, or of all pictures of the world.

    pictures, reconstructions   (12, H, W, C), bytes: pictures drawn by `seed`, and what the model makes of them
    codes                       (12, D): the codes of these pictures
    mixed                       (12, H, W, C): decoded codes whose latents are drawn independently, each from its range
    traversals                  (D, 11, H, W, C): one picture, decoded while one latent runs from -span to span
    kl                          (D,): what each latent carries, in nats
    mi.matrix, gbt.…, svm.…     (D, K), and the other parts of these metrics: curve of groups, merge thresholds
    response.0, response.1, …   (3, V, D): mean, 10% and 90% quantile of the latents for each value of a factor

    The last two need factors that vary; `about_shown` lists these factors. `matrices` names the metrics whose matrices
    to compute; None means every metric that has one. The model does not encode pictures again.
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
    drawn_codes = codes.mean[rows]
    start = start_of(model.decode, codes.mean)
    return {
        "pictures": _bytes(world.render(index[rows])),
        "reconstructions": _bytes(model.decode(drawn_codes)),
        "codes": drawn_codes,
        "mixed": _bytes(model.decode(_mixed(codes.mean, seed))),
        "traversals": np.stack([_bytes(model.decode(traversal)) for traversal in _traversals(start, span)]),
        "kl": latent_kl(codes.mean, codes.logvar),
        **_matrices(codes, matrices, seed),
        **{f"response.{k}": response for k, response in enumerate(_responses(codes))},
    }


def about_shown(run: Run, codes: Codes) -> dict[str, Any]:
    """The facts beside the arrays of `showcase`: the run in words, and the factors that vary, with their values."""
    varied = varying(as_codes(codes))
    factors = [
        {"name": factor.name, "kind": factor.kind, "values": _texts(factor, varied.factors[:, k], labels)}
        for k, (factor, labels) in enumerate(zip(varied.about, discretised(varied).factors.T, strict=True))
    ]
    return {
        "run": run.identity,
        "setting": setting(run),
        "world": run.world,
        "seed": run.seed,
        "factors": factors,
    }


def sampled_showcases(
    models: Sequence[Model], world: World, *, seed: int = 0, span: float = SPAN
) -> list[tuple[dict[str, np.ndarray], dict[str, Any]]]:
    """The showcase of each model and its description, made from a sample of pictures, with the first matrix alone.

    Both are empty for a model whose codes are not finite. Nothing is saved.
    """
    index = picture_index(world, sample_of(world, SAMPLED, seed))
    showcases: list[tuple[dict[str, np.ndarray], dict[str, Any]]] = []
    for model, codes in zip(models, encode_pictures(world, models, index), strict=True):
        if np.isfinite(codes.mean).all() and (codes.logvar is None or np.isfinite(codes.logvar).all()):
            arrays = showcase(model, codes, world, index, seed=seed, matrices=metrics_with_matrix()[:1], span=span)
            showcases.append((arrays, about_shown(model.run, codes)))
        else:
            showcases.append(({}, {}))
    return showcases


def traversals_of(decode: Callable[[np.ndarray], np.ndarray], mean: Float[np.ndarray, "N D"]) -> dict[str, np.ndarray]:
    """The parts of a showcase that need no world: reconstructions, and what each latent does to one picture."""
    traversals = [_bytes(decode(traversal)) for traversal in _traversals(start_of(decode, mean))]
    return {"reconstructions": _bytes(decode(mean[:PICTURES])), "traversals": np.stack(traversals)}


def keep_showcase(folder: Path, model: Model, codes: Codes, world: World, index: Index | None = None) -> None:
    """Computes the showcase of a model and saves it in a folder of results."""
    path = showcase_path(folder, model.run.identity)
    save_showcase(path, showcase(model, codes, world, index), about_shown(model.run, codes))


def _mixed(mean: Float[np.ndarray, "N D"], seed: int) -> Float[np.ndarray, "12 D"]:
    """Codes that no picture has: each latent is drawn uniformly from its own range, as PIPE draws them."""
    low, high = mean.min(axis=0), mean.max(axis=0)
    drawn = np.random.default_rng([seed, 1]).uniform(low, high, (PICTURES, mean.shape[1]))
    return drawn.astype(mean.dtype)


def _traversals(start: Float[np.ndarray, " D"], span: float = SPAN) -> Float[np.ndarray, "D 11 D"]:
    codes = np.tile(start, (len(start), STEPS, 1))
    for latent, traversal in enumerate(codes):
        traversal[:, latent] = np.linspace(-span, span, STEPS)
    return codes


def metrics_with_matrix() -> list[str]:
    """The metrics that estimate a matrix of latents and factors."""
    return [name for name, metric in METRICS.items() if metric.matrix]


def _matrices(codes: Codes, metrics: Sequence[str] | None, seed: int) -> dict[str, np.ndarray]:
    if not codes.about:
        return {}
    names = metrics_with_matrix() if metrics is None else list(metrics)
    metric_parts = score(codes, metrics=names, seed=seed).parts
    return {f"{name}.{key}": array for name, arrays in metric_parts.items() for key, array in arrays.items()}


def _responses(codes: Codes) -> list[Float[np.ndarray, "3 V D"]]:
    """Mean and quantiles of every latent for each value of each factor; a continuous factor is cut into bins."""
    varied = varying(as_codes(codes))
    return [_response(varied.mean, labels) for labels in discretised(varied).factors.T]


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
