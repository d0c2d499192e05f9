"""Image encoders of any library, by name or as Python objects. One file for each kind.

    open_encoder("timm:vit_small_patch14_dinov2")    open_encoder("./encoder.onnx")    open_encoder(torch_module)

Importing this needs no JAX and no other library: each kind imports its library when an encoder is opened.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sober.encoders import (
    callables,
    classic,
    onnx_files,
    open_clip_models,
    sober_models,
    timm_models,
    torch_modules,
    transformers_models,
)
from sober.encoders.encoder import Encoder, EncoderOptions, Output, Pictures, Pooling, Weights
from sober.encoders.kinds import EncoderKind, begins, ends
from sober.encoders.running import features, pooled_features
from sober.encoders.saved_features import SavedFeatures, holds_features, saved_features
from sober.errors import RequestError, nearest, shown

__all__ = [
    "ENCODERS",
    "Encoder",
    "EncoderKind",
    "EncoderOptions",
    "Output",
    "Pictures",
    "Pooling",
    "SavedFeatures",
    "Weights",
    "features",
    "holds_features",
    "open_encoder",
    "pooled_features",
    "saved_features",
]

OPTIONS = EncoderOptions()

# By name, in the order in which a source is looked for. To add one: one file here, one entry below, one test.
ENCODERS: dict[str, EncoderKind] = {
    "pixels": EncoderKind(
        "means over blocks of pixels, 32 x 32 for each channel",
        "pixels",
        begins("pixels"),
        lambda source, options: classic.pixels(options),
    ),
    "pca": EncoderKind("principal components of pixels", "pca:10", begins("pca"), classic.pca),
    "hog": EncoderKind(
        "histograms of oriented gradients",
        "hog",
        begins("hog"),
        lambda source, options: classic.hog(options),
        "scikit-image",
    ),
    "random": EncoderKind(
        "a small convolutional net with random weights",
        "random",
        begins("random"),
        lambda source, options: classic.random(options),
    ),
    "sober": EncoderKind(
        "a model of Sober", "runs/models/IDENTITY.safetensors", sober_models.is_model, sober_models.of_file
    ),
    "onnx": EncoderKind("a network in an ONNX file", "./encoder.onnx", ends(".onnx"), onnx_files.of_file),
    "timm": EncoderKind(
        "a network of timm, by name", "timm:vit_small_patch14_dinov2", begins("timm"), timm_models.of_name, "timm"
    ),
    "transformers": EncoderKind(
        "an image encoder of transformers, by name or folder",
        "transformers:facebook/dinov2-small",
        transformers_models.is_source,
        transformers_models.of_name,
        "transformers",
    ),
    "open_clip": EncoderKind(
        "the image tower of a network of open_clip",
        "open_clip:ViT-B-32/laion2b_s34b_b79k",
        begins("open_clip"),
        open_clip_models.of_name,
        "open_clip_torch",
    ),
    "callable": EncoderKind(
        "a Python function, or a module of PyTorch: pictures to an array, or to arrays by layer",
        "my_module:encoder",
        lambda source: isinstance(source, str) and ":" in source,
        lambda source, options: _of_object(callables.imported(source), options, source),
    ),
}


def open_encoder(source: Any, options: EncoderOptions = OPTIONS, *, layers: Mapping[str, Any] | None = None) -> Encoder:
    """An encoder by its name, file or Python object.

    `layers` gives the layers as functions or modules of their own, by name: `layers={"mid": f, "out": g}`.
    """
    if layers is not None:
        last = dataclasses.replace(options, layers="last")
        name = None if source is None else source if isinstance(source, str) else callables.name_of(source)
        return callables.of_several({key: open_encoder(value, last) for key, value in layers.items()}, options, name)
    if isinstance(source, Encoder):
        return callables.chosen(source, options)
    if holds_features(source):
        raise RequestError(
            f"{shown(source)} holds features of fixed pictures, and cannot encode others: give them with their factors"
        )
    if isinstance(source, str | Path):
        return _of_name(source, options)
    if isinstance(source, Mapping):
        return open_encoder(None, options, layers=source)
    return _of_object(source, options)


def _of_name(source: str | Path, options: EncoderOptions) -> Encoder:
    for kind in ENCODERS.values():
        if kind.takes(source):
            return kind.open(source, options)
    alike = nearest(str(source), ENCODERS)
    examples = [ENCODERS[name].example for name in alike or ENCODERS]
    raise RequestError(f"{shown(str(source))} names no encoder: write one like {', '.join(examples)}")


def _of_object(source: Any, options: EncoderOptions, name: str | None = None) -> Encoder:
    if isinstance(source, Encoder):
        return open_encoder(source, options)
    if hasattr(source, "autoencoder") and hasattr(source, "image_shape"):
        return sober_models.of_model(source, options, name)
    if torch_modules.is_module(source):
        return torch_modules.of_module(source, options, name)
    if callable(source):
        return callables.of_callable(source, options, name)
    raise RequestError(f"{shown(source)} is no encoder: give a function, a module, a file or a name")
