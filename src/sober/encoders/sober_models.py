"""Models of Sober as encoders: the mean of the codes, and the layers of the net before it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sober.encoders.callables import chosen
from sober.encoders.encoder import Encoder, EncoderOptions, Output, Pictures
from sober.encoders.pictures import as_floats, resized

if TYPE_CHECKING:
    from sober.models.model import Model
    from sober.nets.net import Net

MEAN = "mean"


def is_model(source: object) -> bool:
    """Whether a source is the name of a file that may hold a model, or of a folder with the selected one."""
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    return path.suffix.lower() == ".safetensors" or (
        (path / "model.safetensors").is_file() and not (path / "config.json").is_file()  # a folder of transformers
    )


def of_file(path: str | Path, options: EncoderOptions) -> Encoder:
    """The encoder of the model in a file of `Model.save`."""
    from sober.models.model import load  # noqa: PLC0415 -- takes JAX

    return of_model(load(path), options, str(path))


def of_model(model: Model, options: EncoderOptions, name: str | None = None) -> Encoder:
    """The encoder of a model. Layers are the outputs of the net's weights, with norm and activation, and the mean."""
    from sober.nets import find_nets  # noqa: PLC0415

    options.refuse_normalisation(name or f"model {model.run.identity}")
    height, width, channels = model.image_shape
    layers = (*weight_layers(model.autoencoder.encoder)[:-1], MEAN)
    encode = _program()

    def forward(pictures: Pictures) -> Mapping[str, Output]:
        return encode(model.autoencoder, resized(as_floats(pictures), height, width))

    def untrained(seed: int) -> Encoder:
        return of_model(_fresh(model, seed), options, name)

    encoder = Encoder(
        name or f"model {model.run.identity}",
        layers,
        forward,
        side=max(height, width),  # pictures that are no squares are made of squares
        channels=channels,
        untrained=untrained,
        batch=find_nets(model.run.nets).at_once(options.batch),
    )
    return chosen(encoder, options)


def weight_layers(net: Net) -> tuple[str, ...]:
    """The names of the layers of a net that have weights."""
    return tuple(name for name, layer in zip(net.names, net.layers, strict=True) if _has_weights(layer))


def _has_weights(layer: Any) -> bool:
    import jax  # noqa: PLC0415

    return any(getattr(leaf, "ndim", 0) >= 2 for leaf in jax.tree.leaves(layer))


@functools.cache
def _program() -> Callable[..., Mapping[str, Output]]:
    """The program from a model and pictures to the output of every layer."""
    import jax  # noqa: PLC0415

    from sober.nets.layers import Flatten  # noqa: PLC0415

    def encode(autoencoder: Any, x: Any) -> Mapping[str, Any]:
        net, outputs, current = autoencoder.encoder, {}, ""
        names = weight_layers(net)
        for name, layer in zip(net.names, net.layers, strict=True):
            x = layer(x)
            current = name if name in names else current
            if current and not isinstance(layer, Flatten):
                outputs[current] = x
        outputs.pop(names[-1], None)
        return {**outputs, MEAN: autoencoder.reading.codes(x)[0]}

    return jax.jit(encode)


def _fresh(model: Model, seed: int) -> Model:
    """A model before its training: the same nets with new random weights.

    Shuffled weights are no line to beat here: with the biases of training, the units of small nets may all be dead.
    """
    import jax  # noqa: PLC0415

    from sober.methods import structure  # noqa: PLC0415
    from sober.nets import find_nets  # noqa: PLC0415

    autoencoder = structure(model.run).fresh(jax.random.key(seed), find_nets(model.run.nets), model.image_shape)
    return dataclasses.replace(model, autoencoder=autoencoder)
