"""The programs of a trial, and the comparison of kernels with plain layers.

A trial compiles few programs, side by side: kernels forward and back (`trial_programs`), samples, all comparisons in
one, and plain layers to time. `compiled` compiles them in threads.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sober.device import compiler_options
from sober.nets.kernels.plain import plain, rounded
from sober.nets.kernels.verdicts import Case

SLACK = 1.5  # errors may be this many times as large as the errors of the plain layers in the same type
ORDER = 1e-5  # relative error allowed for float32 sums in another order
ROUNDED = 1e-3  # relative error allowed for a few numbers of another type that such sums round the other way
COMPARED = 4  # models whose results are compared with float32
THREADS = 8  # that compile

T = TypeVar("T")
Stack = Callable[[Array, Any], Array]  # pictures or a grid, and layers
Data = tuple[Array, Any, Array]  # inputs, layers and slopes of the loss
Results = dict[str, Array]  # the output and the gradients, by name
Program = Callable[..., Results]


class Samples(NamedTuple):
    """Random inputs, weights and slopes of the loss, for all models."""

    usual: Data
    apart: Data  # biases are 1 or -1 and the products small, so that no number before a ReLU is near 0


class Errors(NamedTuple):
    """How far one result of kernels is from what it should be, and what is allowed."""

    rounded: Float[Array, ""]  # from plain layers in float32 that round where kernels round
    exact: Float[Array, ""]  # from plain layers in float32
    allowed: Float[Array, ""]  # of `exact`: by the errors of plain layers in the same type
    repeated: Float[Array, ""]  # 1 if a second run gave the same bits, else 0


class TrialPrograms(NamedTuple):
    """The compiled programs of a trial."""

    samples: Callable[[], Samples]
    kernels: tuple[Program, ...]  # the last is the program that training runs
    compare: Callable[..., list[dict[str, Errors]]]
    plain: Program | None  # to time; None if only a check is wanted


def trial_programs(stack: Stack, kind: str) -> list[Program]:
    """Kernels forward and back with the gradient of the input; the last is the program that training runs.

    For `down` also without that gradient, which uses other kernels: in training its input is pictures, which need none.
    """
    return [passes(stack, wanted) for wanted in ((True,) if kind == "up" else (True, False))]


def compiled(cases: Sequence[Case], stacks: Sequence[Stack], *, timed: bool) -> list[TrialPrograms | Exception]:
    """The programs of all cases, compiled side by side; an error where the compiler, or a kernel, does not work."""
    long, once = compiler_options(), compiler_options("once")
    with ThreadPoolExecutor(THREADS) as pool:
        compilations: list[Any] = []
        for case, stack in zip(cases, stacks, strict=True):
            try:
                data = jax.eval_shape(functools.partial(samples, case))
                kernel_passes = trial_programs(stack, case.kind)
                results = [jax.eval_shape(one_pass, *data.usual) for one_pass in kernel_passes]
                lowered = [
                    _lowered(functools.partial(samples, case), once),
                    _lowered(functools.partial(comparison, case), once, data, results, results, results),
                    *(_lowered(one_pass, long, *data.usual) for one_pass in kernel_passes),
                ]
                if timed:
                    plain_pass = passes(functools.partial(plain, case.kind), case.kind == "up")
                    lowered.append(_lowered(plain_pass, long, *data.usual))
            except Exception as error:  # a kernel may raise anything while it is traced
                compilations.append(error)
            else:
                compilations.append([pool.submit(program.compile) for program in lowered])
        return [_gathered(futures, timed) for futures in compilations]


def _gathered(futures: Any, timed: bool) -> TrialPrograms | Exception:
    if isinstance(futures, Exception):
        return futures
    try:
        sampling, compare, *others = [future.result() for future in futures]
    except Exception as error:  # a compiler may raise anything
        return error
    plain_pass = others.pop() if timed else None
    return TrialPrograms(lambda: Samples(*sampling()), tuple(others), compare, plain_pass)


def _lowered(f: Callable[..., Any], options: Mapping[str, Any], *arguments: Any) -> Any:
    return jax.jit(f, compiler_options=dict(options)).lower(*arguments)


def find_fault(case: Case, programs: TrialPrograms, runs: int = 2) -> str | None:
    """The first fault in the results and gradients of kernels, or None."""
    data = programs.samples()
    apart = [program(*data.apart) for program in programs.kernels]
    first = [program(*data.usual) for program in programs.kernels]
    for _ in range(runs - 1):
        again = [program(*data.usual) for program in programs.kernels]
        if fault := first_fault(programs.compare(data, apart, first, again)):
            return fault
    return None


def first_fault(compared: Sequence[Mapping[str, Errors]]) -> str | None:
    """The first result with an error above the allowed one, in a sentence, or None."""
    for errors_by_name in jax.device_get(compared):
        for name, errors in errors_by_name.items():
            for error, allowed in ((errors.rounded, ROUNDED), (errors.exact, errors.allowed)):
                if not error <= allowed:  # true also for NaN
                    return f"kernels are wrong: {name} is off by {error:.1e} of its size, and {allowed:.1e} is allowed"
        if any(errors.repeated != 1 for errors in errors_by_name.values()):
            return "kernels give other numbers when they run again"
    return None


def comparison(
    case: Case, data: Samples, apart: list[Results], first: list[Results], again: list[Results]
) -> list[dict[str, Errors]]:
    """The errors of each program's results on the samples that lie apart, and on the usual ones in two runs.

    Samples that lie apart show small errors: no number before a ReLU is near 0, where its last bit would decide about
    the gradient. References are computed for a few models, once for all programs.
    """
    compared = functools.partial(_compared, case)
    plain_passes = passes(functools.partial(plain, case.kind), True)
    expected = passes(functools.partial(rounded, case.kind, dtype=case.dtype), True)(*_wide(compared(data.apart)))
    exact, usual = plain_passes(*_wide(compared(data.usual))), plain_passes(*compared(data.usual))
    allowed = {name: SLACK * relative_error(usual[name], exact[name]) + ORDER for name in exact}
    return [
        {
            name: Errors(
                relative_error(compared(on_apart[name]), expected[name]),
                relative_error(compared(result), exact[name]),
                allowed[name],
                jnp.array_equal(result, repeated[name]).astype(jnp.float32),
            )
            for name, result in results.items()
        }
        for on_apart, results, repeated in zip(apart, first, again, strict=True)
    ]


def _compared(case: Case, tree: T) -> T:
    """The arrays of a few models, evenly from the first to the last."""
    chosen = np.unique(np.linspace(0, case.models - 1, COMPARED).astype(int))
    return jax.tree.map(lambda leaf: leaf[chosen], tree)


def _wide(tree: T) -> T:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), tree)


def relative_error(x: Array, y: Array) -> Float[Array, ""]:
    """The distance from x to y, relative to the size of y."""
    x, y = x.astype(jnp.float32).ravel(), y.astype(jnp.float32).ravel()
    size = jnp.linalg.norm(y)
    return jnp.linalg.norm(x - y) / jnp.where(size == 0, 1, size)


def passes(stack: Stack, wanted: bool) -> Program:
    """All models forward and back, with named results: the output and the gradients, the input's only if `wanted`."""

    def one(x: Array, layers: Any, slope: Array) -> Results:
        y, pull = jax.vjp(stack, x, layers) if wanted else jax.vjp(lambda layers: stack(x, layers), layers)
        *back, gradients = pull(slope)
        out = {"the result": y}
        for k, (weight, bias) in enumerate(gradients, start=1):
            out |= {f"the gradient of weight {k}": weight, f"the gradient of bias {k}": bias}
        return out | ({"the gradient of the input": back[0]} if wanted else {})

    return jax.vmap(one)


def samples(case: Case) -> Samples:
    return Samples(_sample(case, apart=False), _sample(case, apart=True))


def _sample(case: Case, *, apart: bool) -> Data:
    """Numbers are drawn all at once and cut into arrays: a draw for each array would take seconds to compile."""
    dtype = jnp.dtype(case.dtype)
    one = (
        jax.ShapeDtypeStruct(case.shape, dtype),
        [tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes) for shapes in case.layers],
    )
    output = jax.eval_shape(functools.partial(plain, case.kind), *one).shape
    shapes = [case.shape, *itertools.chain(*case.layers), output]
    ends = np.cumsum([case.models * math.prod(shape) for shape in shapes])
    pieces = jnp.split(jax.random.normal(jax.random.key(0), (int(ends[-1]),)), ends[:-1])
    x, *parameters, slope = [piece.reshape(case.models, *shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def layer(weight: Array, bias: Array) -> tuple[Array, Array]:
        scale = (0.15 if apart else 1.0) * weight.shape[1] ** -0.5
        return scale * weight, jnp.sign(bias) if apart else 0.1 * bias

    layers = tuple(itertools.starmap(layer, zip(parameters[::2], parameters[1::2], strict=True)))
    return x.astype(dtype), layers, slope.astype(dtype)
