"""PyTorch modules as encoders: float32 pictures (n, C, H, W) from 0 to 1, in evaluation mode and without gradients.

Layers are the module's blocks and its output, `out`; or submodules by name. A person's own module stays as it is: it is
copied if it must go to another device, and is in evaluation mode only while pictures are encoded.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import logging
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sober.encoders.callables import LAST, chosen, name_of
from sober.encoders.encoder import Encoder, EncoderOptions, Output, Pictures
from sober.encoders.outputs import channels_last, first_array, is_tensor
from sober.errors import RequestError, brief, choices
from sober.installation import needing_extra

Compute = Callable[[Any, Any], Mapping[str, Any]]  # of a module and pictures: an output for each layer
CLASS_TOKENS = ("cls_token", "class_token", "class_embedding")
REGISTERS = ("register_tokens", "reg_token", "storage_tokens")


def is_module(source: object) -> bool:
    """Whether a source is a module of PyTorch, which need not be installed."""
    return any(cls.__module__ == "torch.nn.modules.module" for cls in type(source).__mro__)


def torch_library() -> Any:
    with needing_extra("a PyTorch module"):
        return importlib.import_module("torch")


@dataclasses.dataclass(frozen=True)
class TorchEncoder:
    """A module of PyTorch, and how to encode with it."""

    name: str
    module: Any
    compute: Compute
    layers: tuple[str, ...]
    side: int | None = None
    channels: int | None = None
    first_patch: int = 0
    mean: Sequence[float] = ()  # of each channel, in pixels from 0 to 1; empty for no normalisation
    std: Sequence[float] = ()

    def __repr__(self) -> str:
        return f"TorchEncoder(name={self.name!r})"

    def opened(self, options: EncoderOptions) -> Encoder:
        """The encoder on the device of the options."""
        torch = torch_library()
        device = _device(torch, options)
        mean, std = (options.mean, options.std) if options.mean else (self.mean, self.std)
        on_device = dataclasses.replace(self, module=_on(self.module, device), mean=mean, std=std)

        def untrained(seed: int) -> Encoder:
            shuffled = with_shuffled_weights(torch, self.module, seed)
            return dataclasses.replace(self, module=shuffled).opened(options)

        encoder = Encoder(
            self.name,
            self.layers,
            lambda pictures: on_device.outputs(torch, pictures, device, options.half),
            side=self.side,
            channels=self.channels,
            first_patch=self.first_patch,
            untrained=untrained,
            batch=options.batch,
            takes_device=True,
        )
        return chosen(encoder, options)

    def outputs(self, torch: Any, pictures: Pictures, device: Any, half: bool) -> dict[str, Output]:
        """The outputs of all layers for pictures, with channels last, on the module's device."""
        x = torch.from_numpy(np.array(pictures)).to(device)  # bytes travel faster than floats
        x = x.permute(0, 3, 1, 2).contiguous().float() / 255
        if len(self.mean):
            mean, std = (torch.tensor(tuple(values), device=device)[:, None, None] for values in (self.mean, self.std))
            x = (x - mean) / std
        kinds = {weight.dtype for weight in self.module.parameters() if weight.is_floating_point()}
        with torch.no_grad(), _evaluating(self.module), _in_half(torch, device, half):
            result = self.compute(self.module, x.to(kinds.pop()) if len(kinds) == 1 else x)
        return {layer: self._arranged(layer, output, len(pictures)) for layer, output in result.items()}

    def _arranged(self, layer: str, result: Any, count: int) -> Output:
        tensor = first_array(result)
        if not is_tensor(tensor):
            raise RequestError(f"{self.name}, layer {layer}: {type(tensor).__name__} is no tensor: name another layer")
        if tensor.ndim == 3 and tensor.shape[0] != count == tensor.shape[1]:
            return tensor.transpose(0, 1)  # tokens come before pictures
        return channels_last(tensor)


def of_module(module: Any, options: EncoderOptions, name: str | None = None) -> Encoder:
    """A person's module as an encoder."""
    name = name or name_of(module)
    names = blocks(module)
    if isinstance(options.layers, tuple):
        names = tuple(layer for layer in options.layers if layer != LAST)
    elif options.layers == "last":
        names = ()
    check_submodules(name, module, names)
    return TorchEncoder(
        name,
        module,
        hooked(names),
        (*names, LAST),
        channels=_channels(module),
        first_patch=prefix_tokens(module),
    ).opened(options)


def check_submodules(name: str, module: Any, names: Sequence[str]) -> None:
    """Refuses names that are no submodules."""
    submodules = [path for path, _ in module.named_modules() if path]
    for layer in names:
        if layer not in submodules:
            raise RequestError(f"{name} has no layer {layer!r}: {choices(layer, [*submodules, LAST])}")


def hooked(names: Sequence[str], call: Callable[[Any, Any], Any] | None = None) -> Compute:
    """Computes the outputs of submodules, and of the module, in one forward pass."""

    def compute(module: Any, x: Any) -> dict[str, Any]:
        outputs: dict[str, Any] = {}

        def keep(name: str) -> Callable[..., None]:
            def hook(submodule: Any, inputs: Any, output: Any) -> None:
                tensor = first_array(output)
                outputs[name] = tensor.clone() if is_tensor(tensor) else tensor  # a later layer may write into it

            return hook

        handles = [module.get_submodule(name).register_forward_hook(keep(name)) for name in names]
        try:
            result = module(x) if call is None else call(module, x)
        finally:
            for handle in handles:
                handle.remove()
        return {**{name: outputs[name] for name in names if name in outputs}, LAST: result}

    return compute


def blocks(module: Any) -> tuple[str, ...]:
    """The blocks of a module: the children of its longest ModuleList or Sequential, and of others with the same kind.

    Lists inside a block are not looked at.
    """
    lists = list(_lists(module, ""))
    if not lists:
        return ()
    longest = max(lists, key=lambda entry: len(entry[1]))[1]
    kinds = {type(child) for child in longest.values()}
    chosen = [children for _, children in lists if {type(child) for child in children.values()} == kinds]
    return tuple(name for children in (chosen if len(kinds) == 1 else [longest]) for name in children)


def _lists(module: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lists of layers in a module with their children by name, without lists inside blocks."""
    children = {".".join(filter(None, (path, name))): child for name, child in module.named_children()}
    if type(module).__name__ in ("ModuleList", "Sequential") and len(children) > 1:
        yield path, children
        if len({type(child) for child in children.values()}) == 1 and not _is_list(next(iter(children.values()))):
            return
    for name, child in children.items():
        yield from _lists(child, name)


def _is_list(module: Any) -> bool:
    return type(module).__name__ in ("ModuleList", "Sequential")


def prefix_tokens(module: Any) -> int:
    """How many tokens come before the patches: a class token, registers."""
    count = getattr(module, "num_prefix_tokens", None)
    if isinstance(count, int):
        return count
    for submodule in module.modules():
        if any(is_tensor(getattr(submodule, name, None)) for name in CLASS_TOKENS):
            registers: list[Any] = [getattr(submodule, name, None) for name in REGISTERS]
            return 1 + sum(tokens.shape[1] for tokens in registers if is_tensor(tokens) and tokens.ndim == 3)
    return 0


def _channels(module: Any) -> int | None:
    """How many channels a module's first convolution takes, if pictures have as many."""
    for submodule in module.modules():
        if type(submodule).__name__ == "Conv2d":
            return submodule.in_channels if submodule.in_channels in (1, 3) else None
    return None


def with_shuffled_weights(torch: Any, module: Any, seed: int) -> Any:
    """A copy of a module with the entries of each weight array in random order."""
    fresh = _copied(module)
    with torch.no_grad():
        for name, weight in fresh.named_parameters():
            if weight.ndim >= 2:
                generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
                order = torch.randperm(weight.numel(), generator=generator).to(weight.device)
                weight.copy_(weight.reshape(-1)[order].reshape(weight.shape))
    return fresh


def _copied(module: Any) -> Any:
    try:
        return copy.deepcopy(module)
    except Exception as error:  # the module's own code
        raise RequestError(
            f"{name_of(module)} cannot be copied ({brief(error)}): put it on the device yourself"
        ) from error


def _on(module: Any, device: Any) -> Any:
    """The module, or a copy of it on another device."""
    places = {tensor.device for tensors in (module.parameters(), module.buffers()) for tensor in tensors}
    return module if places <= {device} else _copied(module).to(device)


def _device(torch: Any, options: EncoderOptions) -> Any:
    name = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.zeros(1, device=name).device  # cuda becomes cuda:0
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise RequestError(f"PyTorch cannot use the device {name!r} ({brief(error)}): choose another") from error


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Inside it, a module is in evaluation mode; afterwards each submodule is in its mode of before."""
    training = [submodule for submodule in module.modules() if submodule.training]
    for submodule in training:
        submodule.training = False
    try:
        yield
    finally:
        for submodule in training:
            submodule.training = True


@contextlib.contextmanager
def seeded(torch: Any, seed: int) -> Iterator[None]:
    """Inside it, PyTorch draws weights with a seed; its random state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Inside it, some loggers tell errors only, and Python no warnings."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _in_half(torch: Any, device: Any, half: bool) -> Any:
    """Products in 16 bits: of float16 on a GPU, of bfloat16 on a CPU."""
    kind = torch.bfloat16 if device.type == "cpu" else torch.float16
    return torch.autocast(device.type, dtype=kind) if half else contextlib.nullcontext()
