"""The features of many pictures: an encoder runs on one batch after another, and its layers are pooled at once.

Checks what encoders get wrong: the number of rows, numbers that are not finite, results that change with the batch,
pictures of a size that they do not take.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from sober.encoders.encoder import Encoder, Output, Pictures, Pooling
from sober.encoders.outputs import pooled
from sober.encoders.pictures import with_channels, with_side
from sober.errors import RequestError, brief, choices

Pooled = tuple[str, Pooling]  # a layer, and how its tokens or maps are pooled

FITTED_ON = 1_000  # an encoder such as PCA learns from the first pictures
CHECKED = 16  # pictures that are encoded alone and in another batch
TOLERANCE = 0.1  # of a feature's spread: half precision stays below it, batch statistics and dropout do not
SIZE_WORDS = ("size", "shape", "dimension", "mat1", "broadcast", "resolution", "expected input", "reshape")


def features(
    encoder: Encoder, batches: Iterable[Pictures], pooling: Pooling = "mean"
) -> dict[str, Float[np.ndarray, "N D"]]:
    """The features of each layer, a row for each picture, from pictures in batches of any size and channels."""
    return {layer: rows for (layer, _), rows in pooled_features(encoder, batches, (pooling,)).items()}


def pooled_features(
    encoder: Encoder, batches: Iterable[Pictures], poolings: Sequence[Pooling]
) -> dict[Pooled, Float[np.ndarray, "N D"]]:
    """The features of each layer, pooled in each way: a row for each picture, from batches of any size and channels.

    Pictures are brought to the encoder's channels, and to its size if they have another.
    """
    encoder, stream = fitted(encoder, adapted(encoder, batches))
    blocks: dict[Pooled, list[Float[np.ndarray, "n D"]]] = {}
    first = next(stream, None)
    if first is None:
        raise RequestError(f"{encoder.name}: there are no pictures to encode")
    check_batches(encoder, first)
    for batch in itertools.chain([first], stream):
        for pooled_layer, rows in layer_rows(encoder, batch, poolings).items():
            blocks.setdefault(pooled_layer, []).append(rows)
    return {key: _joined(encoder, key[0], blocks.pop(key)) for key in list(blocks)}


def adapted(encoder: Encoder, batches: Iterable[Pictures]) -> Iterator[Pictures]:
    """Pictures with the channels and size of an encoder, in batches that it takes at once."""
    for pictures in batches:
        if pictures.ndim != 4 or pictures.dtype != np.uint8:
            raise RequestError(f"pictures must be bytes (n, H, W, C), got {pictures.dtype} of shape {pictures.shape}")
        for start in range(0, len(pictures), encoder.batch):
            batch = pictures[start : start + encoder.batch]
            yield np.ascontiguousarray(with_side(with_channels(batch, encoder.channels), encoder.side))


def fitted(encoder: Encoder, stream: Iterator[Pictures]) -> tuple[Encoder, Iterator[Pictures]]:
    """An encoder that has learned from the first pictures, if it must, and all pictures."""
    if encoder.fit is None:
        return encoder, stream
    first: list[Pictures] = []
    for batch in stream:
        first.append(batch)
        if sum(map(len, first)) >= FITTED_ON:
            break
    pictures = np.concatenate(first)[:FITTED_ON] if first else np.zeros((0, 1, 1, 1), np.uint8)
    return encoder.fit(pictures), itertools.chain(first, stream)


def layer_rows(
    encoder: Encoder, pictures: Pictures, poolings: Sequence[Pooling]
) -> dict[Pooled, Float[np.ndarray, "n D"]]:
    """The features of each layer of an encoder for one batch, pooled in each way, checked."""
    outputs = run(encoder, pictures)
    rows = {}
    for layer, pooling in itertools.product(encoder.layers or tuple(outputs), poolings):
        if layer not in outputs:
            raise RequestError(f"{encoder.name} has no layer {layer!r}: {choices(layer, outputs)}")
        try:
            pooled_rows = pooled(outputs[layer], pooling, encoder.first_patch)
        except (RequestError, TypeError, ValueError) as error:
            raise RequestError(f"{encoder.name}, layer {layer}: {brief(error)}") from error
        if len(pooled_rows) != len(pictures) or not pooled_rows.shape[1]:
            raise RequestError(
                f"{encoder.name}, layer {layer}: shape {tuple(np.shape(outputs[layer]))} for {len(pictures)} pictures: "
                "give one row for each picture, as (n, D), (n, T, D) or (n, H, W, D)"
            )
        if not np.isfinite(pooled_rows).all():
            raise RequestError(
                f"{encoder.name}, layer {layer}: some features are not finite: check the range of pixels that it "
                "takes, and compute in full precision"
            )
        rows[layer, pooling] = pooled_rows
    return rows


def run(encoder: Encoder, pictures: Pictures) -> Mapping[str, Output]:
    """The outputs of an encoder. An error of its own code is told in one line, with advice."""
    try:
        return encoder.forward(pictures)
    except RequestError:
        raise
    except Exception as error:  # any code of anybody
        side = "x".join(map(str, pictures.shape[1:]))
        words = f"{type(error).__name__} {error}".lower()
        advice = "its own code failed"
        if "memory" in words:
            advice = f"give it fewer than {len(pictures)} pictures at once (--batch)"
        elif any(word in words for word in SIZE_WORDS):
            advice = "does it need another size? give --size"
        raise RequestError(f"{encoder.name} fails on pictures of {side} ({brief(error)}): {advice}") from error


def check_batches(encoder: Encoder, pictures: Pictures) -> None:
    """Refuses an encoder whose features of a picture depend on the other pictures of its batch, or on chance.

    Encodes the first 16 pictures alone, and in reverse order behind others.
    """
    few = pictures[:CHECKED]
    others = pictures[CHECKED : encoder.batch - len(few)]
    # Without others, a part of the few: a batch of another size.
    company = np.concatenate([others, few[::-1]]) if len(others) else few[: max(1, len(few) // 2)][::-1]
    alone, together = layer_rows(encoder, few, ("mean",)), layer_rows(encoder, company, ("mean",))
    for (layer, pooling), rows in alone.items():
        others_first = together[layer, pooling][::-1]
        count = min(len(rows), len(others_first))
        change = _change(rows, rows[:count], others_first[:count])
        if change > TOLERANCE:
            raise RequestError(
                f"{encoder.name}, layer {layer}: the features of a picture change with the batch, by {change:.0%} of "
                "their spread: put the network in evaluation mode, without dropout and batch statistics"
            )


def _change(rows: Float[np.ndarray, "n D"], alone: np.ndarray, together: np.ndarray) -> float:
    """How far features are from each other, in units of their spread: the 90th percentile over features.

    A hundredth of a feature's size counts as spread, so that rounding of a feature that hardly varies is no change.
    """
    spread = rows.std(axis=0) + 0.01 * np.sqrt(np.square(rows).mean(axis=0))
    change = np.sqrt(np.square(alone - together).mean(axis=0))
    alive = spread > 0
    ratios = np.where(alive, change / np.where(alive, spread, 1), np.where(change > 0, np.inf, 0))
    return float(np.percentile(ratios, 90))


def _joined(encoder: Encoder, layer: str, rows: list[Float[np.ndarray, "n D"]]) -> Float[np.ndarray, "N D"]:
    widths = {block.shape[1] for block in rows}
    if len(widths) > 1:
        raise RequestError(f"{encoder.name}, layer {layer}: {sorted(widths)} features for different batches")
    return np.concatenate(rows)
