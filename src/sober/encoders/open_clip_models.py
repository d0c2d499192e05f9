"""`open_clip:MODEL` or `open_clip:MODEL/PRETRAINED`: the image tower of a network of open_clip.

Layers are the tower's blocks, and `out`, the picture's place in the space that it shares with text.
"""

from __future__ import annotations

import importlib
from typing import Any

from sober.encoders.callables import LAST
from sober.encoders.encoder import Encoder, EncoderOptions
from sober.encoders.hub import fetched
from sober.encoders.libraries import needing_package
from sober.encoders.torch_modules import (
    TorchEncoder,
    blocks,
    check_submodules,
    hooked,
    prefix_tokens,
    quiet,
    seeded,
    torch_library,
)
from sober.errors import RequestError, brief, choices

WEIGHTS = ("open_clip_model.safetensors", "model.safetensors")


def of_name(source: str, options: EncoderOptions) -> Encoder:
    torch = torch_library()
    with needing_package(source, "open_clip_torch"):
        open_clip: Any = importlib.import_module("open_clip")
    name, _, tag = source.removeprefix("open_clip:").partition("/")
    if name not in open_clip.list_models():
        raise RequestError(f"open_clip has no model {name!r}: {choices(name, open_clip.list_models())}")
    config, weights = _weights(open_clip, source, name, tag) if options.weights == "pretrained" else ({}, None)
    with seeded(torch, options.seed), quiet("open_clip", "root"):
        try:
            model = open_clip.create_model(
                name,
                weights,
                force_quick_gelu=config.get("quick_gelu", False),
                force_image_size=options.size,
                pretrained_text=False,
            )
        except Exception as error:  # the library's own code
            raise RequestError(f"{source} cannot be made ({brief(error)})") from error
    tower = model.visual
    layers = options.layers if isinstance(options.layers, tuple) else blocks(tower)
    submodules = () if options.layers == "last" else tuple(layer for layer in layers if layer != LAST)
    check_submodules(source, tower, submodules)
    size = tower.image_size
    return TorchEncoder(
        source,
        tower,
        hooked(submodules),
        (*submodules, LAST),
        side=max(size) if isinstance(size, tuple | list) else size,
        channels=3,
        first_patch=prefix_tokens(tower),
        mean=config.get("mean", open_clip.OPENAI_DATASET_MEAN),
        std=config.get("std", open_clip.OPENAI_DATASET_STD),
    ).opened(options)


def _weights(open_clip: Any, source: str, name: str, tag: str) -> tuple[dict[str, Any], str]:
    """What open_clip knows about weights, and the file that holds them."""
    tags = open_clip.list_pretrained_tags_by_model(name)
    if not tag or not (config := open_clip.get_pretrained_cfg(name, tag)):
        advice = f"write open_clip:{name}/{tags[-1]}" if tags and not tag else choices(tag, tags)
        raise RequestError(f"{source} names no weights of {name}: {advice}, or ask for random weights")
    repository = config.get("hf_hub", "").rpartition("/")
    if not repository[0]:
        raise RequestError(f"{source}: these weights are not on the hub as safetensors: {choices(tag, tags)}")
    names = (repository[2], *WEIGHTS) if repository[2].endswith(".safetensors") else WEIGHTS
    return config, str(fetched(source, repository[0], names))
