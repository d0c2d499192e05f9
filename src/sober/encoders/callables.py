"""Python functions as encoders: pictures to an array, or to a mapping from layers to arrays.

A function gets float32 pictures (n, H, W, C) from 0 to 1 in NumPy. `my_module:encoder` names a function, or a module of
PyTorch, in a module that Python finds here or in the current folder.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sober.encoders.encoder import Encoder, EncoderOptions, Output, Pictures
from sober.encoders.outputs import channels_last, first_array, is_tensor
from sober.encoders.pictures import as_floats
from sober.errors import RequestError, brief, choices, shown

LAST = "out"  # the layer of a function that returns one array


def of_callable(function: Callable[..., Any], options: EncoderOptions, name: str | None = None) -> Encoder:
    """A function as an encoder; its layers are known from its first output, if they are not named."""
    name = name or name_of(function)
    names = options.layers

    def forward(pictures: Pictures) -> Mapping[str, Output]:
        result = function(options.normalised(as_floats(pictures)))
        outputs = dict(result) if isinstance(result, Mapping) else {LAST: result}
        if not outputs:
            raise RequestError(f"{name} returned no layer")
        layers = list(outputs)[-1:] if names == "last" else outputs
        return {str(layer): _output(outputs[layer]) for layer in layers}

    encoder = Encoder(name, names if isinstance(names, tuple) else (), forward, batch=options.batch)
    return chosen(encoder, options)


def _output(result: Any) -> Output:
    """The array of one layer. Maps of PyTorch have channels first; those of other libraries have channels last."""
    array = first_array(result)
    return channels_last(array) if is_tensor(array) else array


def of_several(encoders: Mapping[str, Encoder], options: EncoderOptions, name: str | None = None) -> Encoder:
    """Several encoders as the layers of one, by name. Each gives its last layer."""
    if not encoders:
        raise RequestError("layers is empty: give a function for each layer, by its name")
    sides = {encoder.side for encoder in encoders.values()} - {None}
    channels = {encoder.channels for encoder in encoders.values()} - {None}
    if len(sides) > 1 or len(channels) > 1:
        raise RequestError(f"the layers {', '.join(encoders)} take pictures of different sizes or channels")
    first_patches = {encoder.first_patch for encoder in encoders.values()}
    if len(first_patches) > 1:
        raise RequestError(f"the layers {', '.join(encoders)} have class tokens in different places: give one kind")

    def forward(pictures: Pictures) -> Mapping[str, Output]:
        outputs = {}
        for layer, encoder in encoders.items():
            layer_outputs = encoder.forward(pictures)
            outputs[layer] = layer_outputs[(encoder.layers or tuple(layer_outputs))[-1]]
        return outputs

    def untrained(seed: int) -> Encoder:
        fresh = {layer: encoder.untrained(seed) for layer, encoder in encoders.items() if encoder.untrained}
        return of_several(fresh, options, name)

    together = Encoder(
        name or ", ".join(dict.fromkeys(encoder.name for encoder in encoders.values())),
        tuple(encoders),
        forward,
        side=next(iter(sides), None),
        channels=next(iter(channels), None),
        first_patch=first_patches.pop(),
        untrained=untrained if all(encoder.untrained for encoder in encoders.values()) else None,
        batch=options.batch,
        takes_device=any(encoder.takes_device for encoder in encoders.values()),
    )
    return chosen(together, options)


def chosen(encoder: Encoder, options: EncoderOptions) -> Encoder:
    """The encoder with the layers and the size that a person asked for."""
    if options.size is not None and encoder.side is not None and encoder.side != options.size:
        raise RequestError(
            f"{encoder.name} takes pictures of {encoder.side} x {encoder.side} only: leave the size {options.size} out"
        )
    if encoder.side is None and options.size is not None:
        encoder = encoder.changed(side=options.size)
    if options.layers == "all" or not encoder.layers:
        return encoder
    return encoder.only(encoder.layers[-1:] if options.layers == "last" else options.layers)


def name_of(value: object) -> str:
    """How a Python object is named in tables."""
    return getattr(value, "__name__", None) or type(value).__name__


def imported(source: str) -> Any:
    """The object that `my_module:encoder` names; `my_module:models.encoder` names an attribute of an attribute."""
    module_name, _, path = source.partition(":")
    with _current_folder_too():
        try:
            value = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != module_name and not module_name.startswith(f"{error.name}."):
                raise RequestError(f"{source}: {module_name} needs {error.name}, which is not installed") from error
            raise RequestError(
                f"{source}: there is no Python module {module_name!r} in {Path.cwd()} or installed: write "
                "module:attribute, without .py"
            ) from error
        except Exception as error:  # the module's own code
            raise RequestError(
                f"{source}: importing {module_name} fails ({type(error).__name__}: {brief(error)})"
            ) from error
    for attribute in path.split("."):
        if not hasattr(value, attribute):
            public = [name for name in dir(value) if not name.startswith("_")]
            raise RequestError(f"{source}: {name_of(value)} has no {attribute!r}: {choices(attribute, public)}")
        value = getattr(value, attribute)
    if not callable(value):
        raise RequestError(f"{source} is {shown(value)}: name a function or a module of PyTorch")
    return value


@contextlib.contextmanager
def _current_folder_too() -> Iterator[None]:
    """Python looks for modules in the current folder first, and afterwards last."""
    folder = str(Path.cwd())
    before = folder in sys.path
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        if not before:
            sys.path.append(folder)  # what the module imports when it runs
