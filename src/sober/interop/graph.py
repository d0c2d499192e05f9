"""A trained model's encoder or decoder as plain data. PyTorch modules, ONNX files and web pages are made from it.

Nets describe themselves: `sober.nets.graph` defines each kind of layer.
"""

from __future__ import annotations

from sober.models.model import Model
from sober.nets.graph import Build, Graph, Layer, channels_first

__all__ = ["Graph", "Layer", "decoder_graph", "encoder_graph"]


def encoder_graph(model: Model) -> Graph:
    """`pictures` (C, H, W) in [0, 1] to `mean` and `logvar`, each (D,): two linear layers side by side."""
    build = Build("pictures", channels_first(model.image_shape))
    layers, last = model.autoencoder.encoder.all_but_last()
    x = layers.describe(build, "", build.input)
    for name, head in zip(("mean", "logvar"), model.autoencoder.reading.heads(last), strict=True):
        build.linear(name, x, head)
    return build.graph({"mean": "mean", "logvar": "logvar"})


def decoder_graph(model: Model, *, logits: bool = False) -> Graph:
    """`codes` (D,) to `pictures` (C, H, W) in [0, 1], or to their `logits`."""
    build = Build("codes", (model.run.latents,))
    x = model.autoencoder.decoder.describe(build, "", build.input)
    if logits:
        return build.graph({"logits": x.name})
    build.add("sigmoid", x, name="pictures")
    return build.graph({"pictures": "pictures"})
