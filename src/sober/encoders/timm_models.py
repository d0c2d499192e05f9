"""`timm:NAME`: a network of timm, with its own size of pictures, mean and spread of pixels.

Layers are the ends of stages or blocks that timm names for each network, and `out`, the features before the classifier.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
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
    seeded,
    torch_library,
)
from sober.errors import RequestError, brief, choices

WEIGHTS = ("model.safetensors", "open_clip_model.safetensors")


def of_name(source: str, options: EncoderOptions) -> Encoder:
    torch = torch_library()
    with needing_package(source, "timm"):
        timm: Any = importlib.import_module("timm")
        data: Any = importlib.import_module("timm.data")
    name = source.removeprefix("timm:")
    architecture = name.partition(".")[0]
    if not timm.is_model(architecture):
        raise RequestError(f"timm has no model {name!r}: {choices(architecture, timm.list_models())}")
    arguments: dict[str, Any] = {"pretrained": False}
    if options.weights == "pretrained":
        arguments = {"pretrained": True, "pretrained_cfg_overlay": _weights(timm, source, name)}
    with seeded(torch, options.seed):
        model = _created(timm, source, name, arguments, options.size)
    config: Mapping[str, Any] = data.resolve_model_data_config(model)
    layers = options.layers if isinstance(options.layers, tuple) else _feature_layers(model)
    submodules = () if options.layers == "last" else tuple(layer for layer in layers if layer != LAST)
    check_submodules(source, model, submodules)
    return TorchEncoder(
        source,
        model,
        hooked(submodules),
        (*submodules, LAST),
        side=options.size or config["input_size"][1],
        channels=config["input_size"][0],
        first_patch=prefix_tokens(model),
        mean=config["mean"],
        std=config["std"],
    ).opened(options)


def _weights(timm: Any, source: str, name: str) -> dict[str, Any]:
    """Changes to timm's description of its weights, so that it loads a safetensors file."""
    try:
        config = timm.get_pretrained_cfg(name)
    except RuntimeError as error:
        tags = timm.list_pretrained(f"{name.partition('.')[0]}.*")
        raise RequestError(f"{source} has no such weights: {choices(name, tags)}") from error
    if config is None or not config.hf_hub_id:
        raise RequestError(f"{source}: timm has no weights for it on the hub: name others, or ask for random weights")
    repository = config.hf_hub_id.partition("@")[0]
    return {"file": str(fetched(source, repository, WEIGHTS)), "custom_load": False}


def _created(timm: Any, source: str, name: str, arguments: Mapping[str, Any], size: int | None) -> Any:
    """The network, for pictures of another size if it must be told, as transformers must."""
    sizes: list[dict[str, int]] = [{}] if size is None else [{"img_size": size}, {}]
    for arguments_of_size in sizes:
        try:
            return timm.create_model(name, num_classes=0, **arguments, **arguments_of_size)
        except TypeError as error:
            if arguments_of_size:  # a convolutional network takes any size
                continue
            raise RequestError(f"{source} cannot be made ({brief(error)})") from error
        except Exception as error:  # the library's own code
            raise RequestError(f"{source} cannot be made ({brief(error)})") from error
    raise AssertionError("unreachable")


def _feature_layers(model: Any) -> tuple[str, ...]:
    """The layers that timm names, or the blocks of the network."""
    submodules = {path for path, _ in model.named_modules()}
    names = tuple(entry["module"] for entry in getattr(model, "feature_info", None) or ())
    return names if names and set(names) <= submodules else blocks(model)
