"""`transformers:NAME`: an image encoder of transformers, or of the folder NAME, with its image processor's numbers.

Layers are the hidden states, `hidden.0` (the embeddings) to the last, then `out`, the last hidden state after the final
norm, and `pooler` if the network has one with trained weights. Weights are read from safetensors only, and no code of
a repository is run. With random weights NAME may be an architecture, such as `vit`.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sober.encoders.callables import LAST
from sober.encoders.encoder import Encoder, EncoderOptions
from sober.encoders.hub import check_reachable
from sober.encoders.libraries import needing_package
from sober.encoders.torch_modules import TorchEncoder, prefix_tokens, seeded, torch_library
from sober.errors import RequestError, brief

TOWERS = ("vision_model", "vision_tower", "visual")  # the image encoder inside a network of pictures and text
MIDDLE = (0.5, 0.5, 0.5)  # the mean and spread of pixels of a network without an image processor
POOLER = "pooler"


def is_source(source: object) -> bool:
    """Whether a source names an encoder of transformers, or a folder that holds one."""
    if isinstance(source, str) and source.startswith("transformers:"):
        return True
    return isinstance(source, str | Path) and (Path(source).expanduser() / "config.json").is_file()


def of_name(source: str | Path, options: EncoderOptions) -> Encoder:
    torch = torch_library()
    source = str(source)
    with needing_package(source, "transformers"):
        transformers: Any = importlib.import_module("transformers")
    name = source.removeprefix("transformers:")
    if (folder := Path(name).expanduser()).is_dir():
        name = str(folder)
    random = options.weights == "random"
    with seeded(torch, options.seed), _quiet(transformers):
        if random:
            model, untrained_weights = transformers.AutoModel.from_config(_config(transformers, source, name)), False
        else:
            model, untrained_weights = _loaded(transformers, source, name)
        processor = _processor(transformers, source, name, random)
    module = next((getattr(model, tower) for tower in TOWERS if hasattr(model, tower)), model)
    if getattr(module, "main_input_name", "pixel_values") != "pixel_values":
        raise RequestError(f"{source} is no encoder of pictures: its input is {module.main_input_name}")
    side = options.size or _side(processor, module.config)
    compute = hidden_states(_arguments(module, side), with_pooler=not untrained_weights)
    channels = getattr(module.config, "num_channels", 3)
    normalised = processor.get("do_normalize", True)
    encoder = TorchEncoder(
        source,
        module,
        compute,
        _layers(torch, source, module, compute, side, channels),
        side=side,
        channels=channels,
        first_patch=prefix_tokens(module),
        mean=(processor.get("image_mean") or MIDDLE[:channels]) if normalised else (),
        std=(processor.get("image_std") or MIDDLE[:channels]) if normalised else (),
    )
    return encoder.opened(options)


def hidden_states(arguments: Mapping[str, Any], *, with_pooler: bool) -> Callable[[Any, Any], dict[str, Any]]:
    """Computes the hidden states of a network of transformers."""

    def compute(module: Any, x: Any) -> dict[str, Any]:
        result = module(pixel_values=x, output_hidden_states=True, return_dict=True, **arguments)
        states = {f"hidden.{place}": state for place, state in enumerate(result.hidden_states or ())}
        pooled = getattr(result, "pooler_output", None) if with_pooler else None
        pooler = {} if pooled is None else {POOLER: pooled.flatten(1)}
        return {**states, **pooler, LAST: result.last_hidden_state}

    return compute


def _layers(torch: Any, source: str, module: Any, compute: Any, side: int, channels: int) -> tuple[str, ...]:
    """The layers of one black picture."""
    try:
        with torch.no_grad():
            return tuple(compute(module.eval(), torch.zeros(1, channels, side, side, dtype=module.dtype)))
    except Exception as error:  # the library's own code
        raise RequestError(
            f"{source} does not encode a picture of {side} x {side} ({brief(error)}): name an image encoder, and give "
            "the size that it takes (--size)"
        ) from error


def _arguments(module: Any, side: int) -> dict[str, Any]:
    """What tells a network that pictures have another size than in training, where it must be told."""
    if getattr(module.config, "image_size", side) == side:
        return {}
    arguments = inspect.signature(module.forward).parameters
    return {"interpolate_pos_encoding": True} if "interpolate_pos_encoding" in arguments else {}


def _config(transformers: Any, source: str, name: str) -> Any:
    """The description of a network without its weights; that of an architecture comes with the library."""
    if name in transformers.CONFIG_MAPPING and not Path(name).is_dir():
        return transformers.AutoConfig.for_model(name)
    return _from_cache_or_hub(source, name, lambda **where: transformers.AutoConfig.from_pretrained(name, **where))


def _loaded(transformers: Any, source: str, name: str) -> tuple[Any, bool]:
    """A network with its weights, and whether its pooler has none."""

    def load(**where: Any) -> Any:
        return transformers.AutoModel.from_pretrained(name, use_safetensors=True, output_loading_info=True, **where)

    model, info = _from_cache_or_hub(source, name, load)
    missing = [key for key in info["missing_keys"] if "vision" in key or not hasattr(model, "text_model")]
    if others := [key for key in missing if POOLER not in key]:
        raise RequestError(f"{source} has no weights for {others[0]} and {len(others) - 1} other arrays")
    return model, bool(missing)


def _processor(transformers: Any, source: str, name: str, random: bool) -> Mapping[str, Any]:
    """The numbers of the image processor; empty if there is none."""
    base: Any = importlib.import_module("transformers.image_processing_base")

    def load(**where: Any) -> Any:
        return base.ImageProcessingMixin.get_image_processor_dict(name, **where)[0]

    try:
        return load(local_files_only=True)
    except Exception:  # the library raises errors of several others
        if random or Path(name).is_dir():
            return {}
    check_reachable(source)
    try:
        return load()
    except Exception:
        return {}


def _side(processor: Mapping[str, Any], config: Any) -> int:
    """The side of pictures: from the processor's crop if it crops, from its size, or from the network's config."""
    sizes = [processor.get("crop_size") if processor.get("do_center_crop") else None, processor.get("size")]
    for size in (*sizes, getattr(config, "image_size", None)):
        if isinstance(size, Mapping):
            values = [value for value in size.values() if isinstance(value, int)]
            if values:
                return max(values)
        elif isinstance(size, list | tuple):
            return max(size)
        elif isinstance(size, int):
            return size
    return 224


def _from_cache_or_hub(source: str, name: str, load: Callable[..., Any]) -> Any:
    """What transformers reads from its cache or a folder, or else from the hub if the hub answers."""
    try:
        return load(local_files_only=True)
    except Exception as error:  # the library raises errors of several others
        if Path(name).is_dir():
            raise RequestError(
                f"{source}: the folder holds no image encoder in safetensors ({brief(error)})"
            ) from error
    check_reachable(source)
    try:
        return load()
    except Exception as error:
        raise RequestError(
            f"{source} cannot be fetched as safetensors ({brief(error)}): check the name; Sober loads no pickles"
        ) from error


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Inside it, transformers prints errors only, and no progress."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
