"""Features without training: pixels, PCA of pixels, gradients (HOG), and a random convolutional net. Lines to beat."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from sober.encoders.callables import chosen
from sober.encoders.encoder import Encoder, EncoderOptions, Output, Pictures
from sober.encoders.libraries import needing_package
from sober.encoders.pictures import as_floats, block_means
from sober.errors import RequestError

GRID = 32  # pixels that remain along each side
CELLS, ORIENTATIONS, LARGEST = 8, 9, 64  # of HOG: cells along each side, angles, pixels along each side
RANDOM_CHANNELS = (16, 32, 64, 128)
RANDOM_GRID = 4  # positions that remain along each side in the last layer of the random net


def pixels(options: EncoderOptions) -> Encoder:
    """Means over blocks of pixels: at most 32 x 32 for each channel."""
    return _one_layer("pixels", pixel_means, options)


def pixel_means(pictures: Pictures) -> Float[np.ndarray, "n P"]:
    return block_means(as_floats(pictures), GRID).reshape(len(pictures), -1).astype(np.float32)


def pca(source: str, options: EncoderOptions) -> Encoder:
    """`pca:N`: the first N principal components of `pixels`, of the first 1,000 pictures."""
    if not re.fullmatch(r"pca:[1-9]\d*", source):
        raise RequestError(f"{source}: say how many components, as in pca:10")
    count = int(source.partition(":")[2])

    def fit(pictures: Pictures) -> Encoder:
        rows = pixel_means(pictures)
        if count > min(rows.shape):
            raise RequestError(
                f"{source}: {rows.shape[0]:,} pictures of {rows.shape[1]:,} block means have at most "
                f"{min(rows.shape):,} components: ask for fewer"
            )
        mean = rows.mean(axis=0)
        axes = np.linalg.svd(rows - mean, full_matrices=False)[2][:count].T
        return _one_layer(source, lambda pictures: (pixel_means(pictures) - mean) @ axes, options, layer="pca")

    def unfitted(pictures: Pictures) -> Mapping[str, Output]:
        raise RequestError(f"{source} has not seen any pictures: `fit` it to pictures first")

    encoder = Encoder(source, ("pca",), unfitted, fit=fit, batch=options.batch)
    return chosen(encoder, options)


def hog(options: EncoderOptions) -> Encoder:
    """Histograms of oriented gradients (Dalal & Triggs 2005) in 8 x 8 cells, of at most 64 x 64 pixels."""
    with needing_package("hog", "scikit-image"):
        from skimage.feature import hog as histograms  # noqa: PLC0415

    def compute(pictures: Pictures) -> Float[np.ndarray, "n F"]:
        small = block_means(as_floats(pictures), LARGEST)
        cell = tuple(max(1, size // CELLS) for size in small.shape[1:3])
        rows = [histograms(picture, ORIENTATIONS, cell, (2, 2), channel_axis=-1) for picture in small]
        return np.stack(rows).astype(np.float32)

    return _one_layer("hog", compute, options)


def random(options: EncoderOptions) -> Encoder:
    """Four convolutions of stride 2 with random weights: the same for everybody, except for the seed."""
    options.refuse_normalisation("random")
    kernels = _random_kernels(options.seed)
    program = _convolutions()

    def forward(pictures: Pictures) -> Mapping[str, Output]:
        maps = {f"conv{place}": np.asarray(x) for place, x in enumerate(program(kernels, as_floats(pictures)), 1)}
        coarse = block_means(maps[f"conv{len(kernels)}"], RANDOM_GRID)
        return {**maps, "out": coarse.reshape(len(pictures), -1).astype(np.float32)}

    layers = (*(f"conv{place}" for place in range(1, len(kernels) + 1)), "out")

    def untrained(seed: int) -> Encoder:
        return random(dataclasses.replace(options, seed=seed))

    encoder = Encoder("random", layers, forward, channels=3, untrained=untrained, batch=options.batch)
    return chosen(encoder, options)


def _random_kernels(seed: int) -> list[Float[np.ndarray, "3 3 i o"]]:
    """Normal weights that keep the size of activations (He et al. 2015)."""
    rng = np.random.default_rng([seed, 36])
    shapes = [(3, 3, i, o) for i, o in zip((3, *RANDOM_CHANNELS), RANDOM_CHANNELS, strict=False)]
    return [rng.normal(0, np.sqrt(2 / np.prod(shape[:3])), shape).astype(np.float32) for shape in shapes]


@functools.cache
def _convolutions() -> Callable[..., Any]:
    """The program from kernels and pictures to the maps after each convolution."""
    import jax  # noqa: PLC0415 -- an extra

    def maps(kernels: list[Any], x: Any) -> list[Any]:
        outputs = []
        x = x - 0.5
        for kernel in kernels:
            x = jax.lax.conv_general_dilated(
                x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
            )
            x = jax.nn.relu(x)
            outputs.append(x)
        return outputs

    return jax.jit(maps)


def _one_layer(
    name: str, compute: Callable[[Pictures], Float[np.ndarray, "n F"]], options: EncoderOptions, layer: str = ""
) -> Encoder:
    options.refuse_normalisation(name)
    layer = layer or name
    encoder = Encoder(name, (layer,), lambda pictures: {layer: compute(pictures)}, batch=options.batch)
    return chosen(encoder, options)
