"""Kernels prove themselves on the machine before they are used: right, the same twice, and faster than plain layers.

A compiler that changes may make a kernel slow, or silently wrong. A trial takes a few programs and a moment, and its
verdict is kept in the cache folder: a training that is resumed takes the same path, and the trial is paid once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sober.device import device_kind, out_of_memory
from sober.errors import RequestError, brief
from sober.files import cache_dir, locked, read_json, writable_folder, write_json
from sober.nets.kernels.plain import plain, rounded
from sober.nets.kernels.plan import Kind, Plan
from sober.nets.kernels.reasons import why_not, why_not_here
from sober.nets.kernels.stacks import down, up

VERSION = 1  # of the kernels: raise it with every change to them, and all are tried anew
SLACK = 1.5  # by which errors may exceed those of the plain layers in the same type
ORDER = 1e-5  # a relative error that sums of float32 in another order may have
ROUNDED = 1e-3  # and one that a few numbers of another type, rounded the other way for that reason, may add
COMPARED = 4  # models whose results are compared with float32
ROUNDS, CALLS = 7, 5  # the median of so many rounds, of so many calls each

T = TypeVar("T")
Stack = Callable[[Array, Any], Array]  # pictures or a grid, and layers
Data = tuple[Array, Any, Array]  # inputs, layers and slopes of the loss
Program = Callable[..., dict[str, Array]]
Shapes = Sequence[tuple[tuple[int, ...], tuple[int, ...]]]  # of weight and bias of each layer


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether to use kernels, and why. Times are of a forward and backward pass, for each model; 0 if not measured."""

    use: bool
    why: str
    kernels_us: float = 0.0
    plain_us: float = 0.0


@dataclasses.dataclass(frozen=True)
class Case:
    """What is tried: a run of layers at an input (batch, height, width, channels), for so many models at once."""

    kind: Kind
    shape: tuple[int, ...]
    layers: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    dtype: str
    models: int

    def why_not(self) -> str | None:
        x = jax.ShapeDtypeStruct(self.shape, self.dtype)
        layers = [(jax.ShapeDtypeStruct(w, self.dtype), jax.ShapeDtypeStruct(b, self.dtype)) for w, b in self.layers]
        plan = Plan.of(self.kind, x, layers, False)  # type: ignore[arg-type]
        channels = plan.widths if self.kind == "down" else plan.widths[::-1]
        return why_not(self.kind, plan.picture, channels, self.dtype)

    def identity(self) -> dict[str, Any]:
        """All that a verdict depends on, as JSON has it."""
        here = {"device": device_kind(), "jax": jax.__version__, "kernels": VERSION}
        return json.loads(json.dumps(here | dataclasses.asdict(self)))

    def path(self) -> Path:
        digest = hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()
        return cache_dir() / "kernels" / f"{self.kind}-{digest[:16]}.json"


def tried(
    kind: Kind, shape: tuple[int, ...], layers: Shapes, dtype: Any, models: int, *, kernels: Stack | None = None
) -> Verdict:
    """The verdict on kernels, or on what is given in their place, for an input (batch, height, width, channels) and
    layers of these shapes: the kept one, or that of a trial now."""
    shapes = tuple((tuple(weight), tuple(bias)) for weight, bias in layers)
    case = Case(kind, tuple(shape), shapes, jnp.dtype(dtype).name, models)
    if kernels is None and (reason := why_not_here() or case.why_not()):
        return Verdict(False, reason)
    kernels = kernels or {"down": down, "up": up}[kind]
    try:
        folder = writable_folder(case.path().parent)
    except RequestError:
        return judged(case, kernels)[0]  # there is no place to keep it
    with locked(folder, wait=True):  # whoever else tries now would disturb the times
        return kept_verdict(case) or _new_verdict(case, kernels)


def kept_verdict(case: Case) -> Verdict | None:
    """What an earlier trial found; a damaged file is the same as none."""
    try:
        record = read_json(case.path())
        verdict = Verdict(**record["verdict"])
    except (RequestError, KeyError, TypeError):
        return None
    kinds = {"use": bool, "why": str, "kernels_us": float, "plain_us": float}
    whole = all(type(getattr(verdict, name)) is kind for name, kind in kinds.items())
    return verdict if whole and record.get("case") == case.identity() else None


def _new_verdict(case: Case, kernels: Stack) -> Verdict:
    verdict, lasting = judged(case, kernels)
    if lasting:
        with contextlib.suppress(OSError):
            write_json(case.path(), {"case": case.identity(), "verdict": dataclasses.asdict(verdict)})
    return verdict


def judged(case: Case, kernels: Stack) -> tuple[Verdict, bool]:
    """The verdict of a trial, and whether it would be the same another time: not where memory ran out."""
    with ThreadPoolExecutor(1) as thread:  # in which nothing is being traced, whoever asks
        return thread.submit(_judged, case, kernels).result()


def _judged(case: Case, kernels: Stack) -> tuple[Verdict, bool]:
    try:
        programs = both_ways(case, kernels)
        if fault := what_is_wrong(case, programs):
            return Verdict(False, fault), True
        timed = [programs[-1], passes(functools.partial(plain, case.kind), case.kind == "up")]
        kernels_us, plain_us = times(timed, samples(case))
    except Exception as error:  # whatever a compiler may say
        full = isinstance(error, jax.errors.JaxRuntimeError) and out_of_memory(error)
        return Verdict(False, f"kernels cannot be tried here ({brief(error)})"), not full
    faster = kernels_us < plain_us
    why = f"kernels are {'right and faster' if faster else 'right, but not faster'}"
    return Verdict(faster, f"{why}: {kernels_us:.1f} µs against {plain_us:.1f}", kernels_us, plain_us), True


def both_ways(case: Case, kernels: Stack) -> list[Program]:
    """Forward and back with the gradient of the input; and for `down` also without, which takes other kernels. The last
    is what training runs: pictures are data."""
    return [passes(kernels, wanted) for wanted in ((True,) if case.kind == "up" else (True, False))]


def what_is_wrong(case: Case, programs: Sequence[Program], runs: int = 2) -> str | None:
    """With the results and gradients of kernels, if anything."""
    for program in programs:
        fault = unlike_rounded(case, program) or unlike_float32(case, program) or unlike_itself(case, program, runs)
        if fault:
            return fault
    return None


def unlike_rounded(case: Case, program: Program) -> str | None:
    """Compares with the plain layers in float32, rounded where kernels round. Small errors show: no number before a
    ReLU is near 0, where an error of the last bit would decide whether a gradient passes."""
    data = samples(case, apart=True)
    theirs = passes(functools.partial(rounded, case.kind, dtype=case.dtype), True)(*_wide(_some(case, data)))
    return differences(_some(case, program(*data)), theirs, dict.fromkeys(theirs, ROUNDED))


def unlike_float32(case: Case, program: Program) -> str | None:
    """Compares with the plain layers in float32, and with the errors that they have in the same type."""
    data = samples(case)
    theirs, few = passes(functools.partial(plain, case.kind), True), _some(case, data)
    exact, usual = theirs(*_wide(few)), theirs(*few)
    allowed = {name: SLACK * far(usual[name], exact[name]) + ORDER for name in exact}
    return differences(_some(case, program(*data)), exact, allowed)


def unlike_itself(case: Case, program: Program, runs: int) -> str | None:
    data = samples(case)
    first, *others = (program(*data) for _ in range(runs))
    same = all(bool(jnp.array_equal(first[name], other[name])) for other in others for name in first)
    return None if same else "kernels give other numbers when they run again"


def differences(ours: dict[str, Array], theirs: dict[str, Array], allowed: dict[str, float]) -> str | None:
    """The first result of kernels that is further off than is allowed."""
    for name, result in ours.items():
        off = far(result, theirs[name])
        if not off <= allowed[name]:  # also where it is not a number
            return f"kernels are wrong: {name} is off by {off:.1e} of its size, and {allowed[name]:.1e} is allowed"
    return None


def _some(case: Case, tree: T) -> T:
    """Of a few models, from the first to the last."""
    which = np.unique(np.linspace(0, case.models - 1, COMPARED).astype(int))
    return jax.tree.map(lambda leaf: leaf[which], tree)


def _wide(tree: T) -> T:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), tree)


def far(x: Array, y: Array) -> float:
    """The distance from x to y, relative to the size of y."""
    x, y = x.astype(jnp.float32), y.astype(jnp.float32)
    size = float(jnp.linalg.norm(y.ravel()))
    return float(jnp.linalg.norm((x - y).ravel())) / (size or 1.0)


def passes(stack: Stack, wanted: bool) -> Program:
    """A program of all models: forward and back, by name; the gradient of the input too if it is wanted."""

    def one(x: Array, layers: Any, slope: Array) -> dict[str, Array]:
        y, pull = jax.vjp(stack, x, layers) if wanted else jax.vjp(lambda layers: stack(x, layers), layers)
        *back, gradients = pull(slope)
        out = {"the result": y}
        for k, (weight, bias) in enumerate(gradients, start=1):
            out |= {f"the gradient of weight {k}": weight, f"the gradient of bias {k}": bias}
        return out | ({"the gradient of the input": back[0]} if wanted else {})

    return jax.jit(jax.vmap(one))


def samples(case: Case, *, apart: bool = False) -> Data:
    """Random inputs, weights and slopes of the loss, for all models. If `apart`, biases are 1 or -1 and what is added
    to them is small, so that no number before a ReLU is near 0."""
    dtype = jnp.dtype(case.dtype)
    keys = iter(jax.random.split(jax.random.key(0), 2 + 2 * len(case.layers)))

    def normal(shape: tuple[int, ...]) -> Array:
        return jax.random.normal(next(keys), (case.models, *shape))

    def layer(weight: tuple[int, ...], bias: tuple[int, ...]) -> tuple[Array, Array]:
        scale = (0.15 if apart else 1.0) * weight[0] ** -0.5
        return scale * normal(weight), jnp.sign(normal(bias)) if apart else 0.1 * normal(bias)

    x, layers = normal(case.shape).astype(dtype), tuple(layer(*shapes) for shapes in case.layers)
    one = jax.tree.map(lambda leaf: leaf[0], (x, layers))
    return x, layers, normal(jax.eval_shape(functools.partial(plain, case.kind), *one).shape).astype(dtype)


def times(programs: Sequence[Callable[..., Any]], data: Data) -> list[float]:
    """Microseconds that programs take for each model. Their rounds alternate: what disturbs one disturbs the others."""
    for program in programs:
        jax.block_until_ready(program(*data))
    rounds = [[_seconds(program, data) for program in programs] for _ in range(ROUNDS)]
    return [1e6 * statistics.median(column) / len(data[0]) for column in zip(*rounds, strict=True)]


def _seconds(program: Callable[..., Any], data: Data) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        out = program(*data)
    jax.block_until_ready(out)
    return (time.perf_counter() - started) / CALLS
