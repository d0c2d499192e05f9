"""Kernel runs: consecutive layers of a net that GPU kernels compute together, and the choice to use kernels.

A run is two or more 4 x 4 convolutions with a ReLU after each, or two or more transposed convolutions with a ReLU
before each. A norm between them ends the run: plain layers compute it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from sober.nets.kernels import Case, down, trial_verdicts, up
from sober.nets.kernels.layout import Kind
from sober.nets.layers import Activation, Conv, Deconv, relu

KernelKinds = frozenset[Kind]  # the kinds of runs that kernels compute
PLAIN: KernelKinds = frozenset()


class KernelRun(NamedTuple):
    """Consecutive convolutions of one kind, with their ReLUs."""

    kind: Kind
    convolutions: tuple[Any, ...]

    @property
    def layers(self) -> int:
        """How many layers of the net it replaces: each convolution has a ReLU."""
        return 2 * len(self.convolutions)

    @property
    def arrays(self) -> tuple[tuple[Any, Any], ...]:
        return tuple((layer.weight, layer.bias) for layer in self.convolutions)

    def __call__(self, x: Float[Array, "B H W C"]) -> Float[Array, "B h w c"]:
        return (down if self.kind == "down" else up)(x, self.arrays)


def split_runs(layers: Sequence[Any], kernels: KernelKinds) -> Iterator[Any]:
    """The layers in their order; consecutive layers that kernels compute are joined into runs."""
    place = 0
    while place < len(layers):
        run = _leading_run(layers[place:], kernels)
        yield layers[place] if run is None else run
        place += 1 if run is None else run.layers


def _leading_run(layers: Sequence[Any], kernels: KernelKinds) -> KernelRun | None:
    """The run that these layers begin with, if any."""
    for kind in kernels:
        firsts, seconds = layers[::2], layers[1::2]
        convolutions, activations = (firsts, seconds) if kind == "down" else (seconds, firsts)
        wanted = Conv if kind == "down" else Deconv
        pairs = zip(convolutions, activations, strict=False)
        leading = itertools.takewhile(lambda pair: isinstance(pair[0], wanted) and _is_relu(pair[1]), pairs)  # noqa: B023
        if len(run := [convolution for convolution, _ in leading]) > 1:
            return KernelRun(kind, tuple(run))
    return None


def _is_relu(layer: Any) -> bool:
    return isinstance(layer, Activation) and layer.function is relu


class KernelChoice(NamedTuple):
    """The kinds of runs that a program computes with kernels, and the reason in a sentence; empty without runs."""

    kernels: KernelKinds = PLAIN
    reason: str = ""
    unchecked: tuple[Case, ...] = ()  # those whose verdict came with Sober and was not checked on this machine


def choose_kernels(
    nets: Sequence[tuple[Any, tuple[int, ...]]],
    dtype: Any,
    models: int,
    *,
    unchecked: bool = False,
    meanwhile: Callable[[], Callable[[], Any]] | None = None,
) -> KernelChoice:
    """The kernels to use for nets (with shapes in place of arrays), given input shapes, type and models per device.

    Tries kernels on this machine first, once per shape: they must be right, and faster than plain layers. With
    `unchecked` the caller checks kernels whose verdict came with Sober. `meanwhile` is called if there is a trial: it
    begins work of the caller, and returns a function that waits for its end.
    """
    cases = list(cases_of(nets, dtype, models))
    verdicts, unchecked_cases = trial_verdicts(cases, unchecked=unchecked, meanwhile=meanwhile)
    of_kinds = [(case.kind, verdict) for case, verdict in zip(cases, verdicts, strict=True)]
    refused = {kind: verdict.why for kind, verdict in of_kinds if not verdict.use}
    used = [(kind, verdict) for kind, verdict in of_kinds if kind not in refused]
    sentences = [f"convolutions by plain layers: {why}" for why in dict.fromkeys(refused.values())]
    if used:
        sentences.append(
            f"{_convolutions(used)} by kernels: {'; '.join(dict.fromkeys(verdict.why for _, verdict in used))}"
        )
    kinds = frozenset(kind for kind, _ in used)
    return KernelChoice(kinds, ". ".join(sentences), tuple(case for case in unchecked_cases if case.kind in kinds))


def possible_kernels(nets: Sequence[tuple[Any, tuple[int, ...]]], dtype: Any) -> KernelKinds:
    """The kinds of runs that kernels can compute, on a GPU that they were made for."""
    cases = list(cases_of(nets, dtype, 1))
    refused = {case.kind for case in cases if case.unmet_requirement() is not None}
    return frozenset(case.kind for case in cases if case.kind not in refused)


def cases_of(nets: Sequence[tuple[Any, tuple[int, ...]]], dtype: Any, models: int) -> Iterator[Case]:
    """The subjects of trials: the runs of all nets."""
    for net, shape in nets:
        for run, x in _runs_of(net, jax.ShapeDtypeStruct(shape, dtype)):
            layers = [(weight.shape, bias.shape) for weight, bias in run.arrays]
            yield Case.of(run.kind, x.shape, layers, x.dtype, models)


def _convolutions(used: Sequence[tuple[Kind, Any]]) -> str:
    kinds = {kind for kind, _ in used}
    return "convolutions" if len(kinds) == 2 else f"{'' if 'down' in kinds else 'transposed '}convolutions"


def _runs_of(net: Any, x: jax.ShapeDtypeStruct) -> Iterator[tuple[KernelRun, jax.ShapeDtypeStruct]]:
    """The runs of a net, each with the shape of its input."""
    for step in split_runs(net.layers, frozenset({"down", "up"})):
        if isinstance(step, KernelRun):
            yield step, x
            layers = step.convolutions  # ReLUs change no shape
        else:
            layers = (step,)
        for layer in layers:
            x = jax.eval_shape(lambda layer, x: layer(x), layer, x)
