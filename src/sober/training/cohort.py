"""A cohort: models that train side by side in one compiled program, model axis first.

Hyperparameters, optimiser settings and randomness are arrays with one entry per model, so changing them compiles
nothing. The number of steps is an argument too: a stopped and resumed training runs the same program, so its models are
bit for bit those of an uninterrupted one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key, UInt32

from sober.device import compiler_options, random_key
from sober.methods import METHODS, hyper_of
from sober.methods.method import Images, Method, Setup, State, Terms, clipped
from sober.model_placement import MODELS, SHARED, on_each_device
from sober.models.model import blank
from sober.nets import NETS, Compute
from sober.nets.kernel_runs import PLAIN, KernelKinds, choose_kernels, possible_kernels
from sober.nets.kernels import Case
from sober.nets.layers import written
from sober.types import Run, Setting
from sober.worlds import World

SEQUENTIAL_ABOVE = 2**24  # bytes written in a step: more than a core's share of the cache
PROGRAMS = 16  # programs kept in memory


class Inputs(NamedTuple):
    """The inputs in which the models of a cohort differ."""

    entropy: UInt32[Array, "M 2"]
    hyper: dict[str, Float[Array, " M"]]
    adam: dict[str, Float[Array, " M"]]


class Carry(NamedTuple):
    """A cohort in training: the content of a checkpoint."""

    state: State
    step: Int[Array, ""]
    diverged: Int[Array, " M"]  # the step at which a model's terms stopped being finite, or -1
    sums: Terms  # of each term since the last entry of the log, per model
    counts: Int[Array, " M"]  # good steps in those sums


PLACEMENT = Carry(MODELS, SHARED, MODELS, MODELS, MODELS)  # every part belongs to a model, except the step


class Memory(NamedTuple):
    """Bytes that training takes: once per cohort, and for each model."""

    shared: int
    each: int

    def models(self, free: int) -> int:
        """How many models fit into `free` bytes with a fifth to spare; at least one."""
        return max(1, int((0.8 * free - self.shared) // self.each))


class StepProfile(NamedTuple):
    """Properties of one model's step, known before anything is compiled."""

    written: int  # bytes that a step writes to memory
    terms: Mapping[str, jax.ShapeDtypeStruct]


class AheadOfUse(NamedTuple):
    """Compilations of `init` and `advance` that run in threads. `result()` waits for one and raises its error."""

    init: Future[Any]
    advance: Future[Any]

    def wait(self) -> None:
        """Waits for both, whether they succeed or fail."""
        wait(self)


class Signature(NamedTuple):
    """What selects a compiled program. Runs with the same signature can share a cohort."""

    method: str
    choices: tuple[tuple[str, Setting], ...]
    nets: str
    latents: int
    batch: int
    precision: str
    steps: int
    clips: bool  # whether gradients are clipped


def signature(run: Run) -> Signature:
    choices = tuple(METHODS[run.method].selecting(run.hyper).items())
    clips = run.optimiser.clip is not None
    return Signature(run.method, choices, run.nets, run.latents, run.batch, run.precision, run.steps, clips)


def program(world: World, signature: Signature, kernels: KernelKinds = PLAIN) -> Program:
    """The compiled functions for a signature: compiled once per number of models, for any number of steps."""
    return _program(world, signature._replace(steps=0), kernels)


class FastestProgram(NamedTuple):
    """The fastest program for a number of models on a device, and the reason."""

    program: Program
    reason: str
    unchecked: tuple[Case, ...] = ()  # kernels that it uses and that the caller must check on this machine


def fastest_program(
    world: World,
    run: Run,
    models: int,
    *,
    unchecked: bool = False,
    meanwhile: Callable[[], Callable[[], Any]] | None = None,
) -> FastestProgram:
    """The fastest program for this many models on a device: `choose_kernels` has the arguments."""
    chosen = choose_kernels(inputs_of_nets(world, run), run.precision, models, unchecked=unchecked, meanwhile=meanwhile)
    return FastestProgram(program(world, signature(run), chosen.kernels), chosen.reason, chosen.unchecked)


def likely_program(world: World, run: Run) -> Program:
    """The program that a trial of kernels is likely to choose: with all kernels that can compute these nets."""
    return program(world, signature(run), possible_kernels(inputs_of_nets(world, run), run.precision))


def inputs_of_nets(world: World, run: Run) -> list[tuple[Any, tuple[int, ...]]]:
    encoder, decoder = blank(run, world.image_shape).nets
    return [(encoder, (run.batch, *world.image_shape)), (decoder, (run.batch, run.latents))]


@functools.lru_cache(maxsize=PROGRAMS)
def _program(world: World, signature: Signature, kernels: KernelKinds) -> Program:
    return Program(world, signature, kernels)


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """`init` and `advance` of a cohort, for any number of models."""

    world: World
    signature: Signature
    kernels: KernelKinds = PLAIN

    @functools.cached_property
    def method(self) -> Method:
        return METHODS[self.signature.method]

    def inputs(self, runs: Sequence[Run]) -> Inputs:
        """The inputs of runs, on the host: NumPy converts them without compiling."""
        on_host: Any = np.array
        settings = [hyper_of(run) for run in runs]
        numbers = [name for name in settings[0] if name not in dict(self.signature.choices)]
        adam = [run.optimiser.plain() for run in runs]
        return Inputs(
            on_host([run.entropy for run in runs], np.uint32),
            {name: on_host([hyper[name] for hyper in settings], np.float32) for name in numbers},
            {name: on_host([options[name] for options in adam], np.float32) for name in adam[0]},
        )

    @functools.cached_property
    def init(self) -> Any:
        """`init(inputs, data) -> Carry` at step 0."""
        return jax.jit(
            on_each_device(self._init, (MODELS, SHARED), PLACEMENT), compiler_options=compiler_options("once")
        )

    @functools.cached_property
    def advance(self) -> Any:
        """`advance(carry, data, inputs, stop) -> Carry` at step `stop`; the memory of `carry` is reused."""
        advance = on_each_device(self._advance, (PLACEMENT, SHARED, MODELS, SHARED), PLACEMENT)
        return jax.jit(advance, donate_argnums=0, compiler_options=compiler_options())

    def compile_ahead(self, inputs: Inputs, data: Any, example: Any) -> AheadOfUse:
        """Compiles both functions in threads, side by side. They are then compiled already where they are called.

        `data` has the shapes of what `advance` is called with, `example` those of `init`. The caller's thread traces
        both functions; `advance`, which takes longer to compile, comes first.
        """
        carry = self.shapes(inputs, example)
        pool = ThreadPoolExecutor(2)
        advance = pool.submit(self.advance.lower(carry, data, inputs, 1).compile)
        init = pool.submit(self.init.lower(inputs, example).compile)
        pool.shutdown(wait=False)
        return AheadOfUse(init, advance)

    def shapes(self, inputs: Inputs, data: Any) -> Carry:
        """The shapes of what `init` returns, without the copies that fill up the last device."""
        return jax.eval_shape(self._init, inputs, data)

    def memory(self, inputs: Inputs) -> Memory:
        """An estimate of the memory that training takes, rather too high than too low, without compiling.

        A model takes twice its state (the old state is kept until the new one is known to be finite), and one and a
        half times the bytes that a step writes, which models that run one after another share.
        """
        one, data = jax.tree.map(lambda x: x[:1], inputs), self.world.example
        carry = self.shapes(one, data)
        state = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(carry))
        written = 3 * self._step_profile(carry.state, one, data).written // 2
        sequential = self._sequential(carry.state, one, data)
        return Memory(shared=written, each=2 * state) if sequential else Memory(shared=0, each=2 * state + written)

    def _setup(self, adam: Mapping[str, Array]) -> Setup:
        return Setup(
            nets=NETS[self.signature.nets],
            image_shape=self.world.image_shape,
            latents=self.signature.latents,
            batch=self.signature.batch,
            pictures=self.world.size,
            compute=Compute(jnp.dtype(self.signature.precision), self.kernels),
            optimiser=optimiser(**adam),
        )

    def _init_one(self, inputs: Inputs) -> State:
        key = jax.random.fold_in(random_key(inputs.entropy), 0)
        return self.method.init(self._setup(inputs.adam), key, inputs.hyper | dict(self.signature.choices))

    def _update_one(self, state: State, inputs: Inputs, step: Array, data: Any) -> tuple[State, Terms]:
        key = jax.random.fold_in(random_key(inputs.entropy), 1)
        hyper = inputs.hyper | dict(self.signature.choices)
        setup, key = self._setup(inputs.adam), jax.random.fold_in(key, step)

        def draw(key: Key[Array, ""]) -> Images:
            images = self.world.draw(data, key, self.signature.batch)
            return written(images) if self.world.drawn_once else images

        return self.method.update(setup, state, draw, key, step, hyper)

    @functools.cached_property
    def _step_of_one(self) -> Any:
        """`_update_one`, traced once for its profile and for all numbers of models."""
        return jax.jit(self._update_one, inline=True)

    def _init(self, inputs: Inputs, data: Any) -> Carry:
        state = jax.lax.map(self._init_one, inputs)  # `vmap` would take twice as long to compile
        models = len(inputs.entropy)
        terms = self._step_profile(state, inputs, data).terms
        return Carry(
            state,
            jnp.int32(0),
            jnp.full(models, -1, jnp.int32),
            {name: jnp.zeros(models, term.dtype) for name, term in terms.items()},
            jnp.zeros(models, jnp.int32),
        )

    def _updates(self, state: State, inputs: Inputs, step: Array, data: Any) -> tuple[State, Terms]:
        if self._sequential(state, inputs, data):
            return jax.lax.map(lambda model: self._step_of_one(model[0], model[1], step, data), (state, inputs))
        return jax.vmap(self._step_of_one, in_axes=(0, 0, None, None))(state, inputs, step, data)

    def _sequential(self, state: State, inputs: Inputs, data: Any) -> bool:
        """Whether models take a step one after another, still inside one compiled program.

        On a CPU one model with large pictures keeps every core busy and half of its arrays in the cache. Side by side,
        models would push each other's arrays out of the cache.
        """
        return jax.default_backend() == "cpu" and self._step_profile(state, inputs, data).written > SEQUENTIAL_ABOVE

    def _step_profile(self, state: State, inputs: Inputs, data: Any) -> StepProfile:
        """The profile of one model's step, the same for any number of models."""
        one_model = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), (state, inputs))
        traced = self._step_of_one.trace(*one_model, jnp.int32(0), data)
        return StepProfile(_bytes_written(traced.jaxpr.jaxpr), traced.out_info[1])

    def _step(self, carry: Carry, data: Any, inputs: Inputs) -> Carry:
        state, terms = self._updates(carry.state, inputs, carry.step, data)
        finite = functools.reduce(operator.and_, (jnp.isfinite(term) for term in terms.values()))
        advances = finite & (carry.diverged < 0)

        def choose(new: Array, old: Array) -> Array:  # a model that diverged keeps its last finite state
            return jnp.where(advances.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        return Carry(
            jax.tree.map(choose, state, carry.state),
            carry.step + 1,
            jnp.where(finite | (carry.diverged >= 0), carry.diverged, carry.step),
            {name: carry.sums[name] + jnp.where(advances, term, 0) for name, term in terms.items()},
            carry.counts + advances,
        )

    def _advance(self, carry: Carry, data: Any, inputs: Inputs, stop: Array) -> Carry:
        return jax.lax.fori_loop(carry.step, stop, lambda _, carry: self._step(carry, data, inputs), carry)


def optimiser(*, clip: Array | None = None, **adam: Array) -> optax.GradientTransformation:
    """Adam on gradients clipped to the norm `clip`; without `clip` the program has no such operation.

    Its memory is Adam's with and without `clip`.
    """
    plain = optax.adam(**adam)
    if clip is None:
        return plain

    def update(gradient: Any, memory: Any, params: Any = None) -> tuple[Any, Any]:
        return plain.update(clipped(gradient, clip)[0], memory, params)

    return optax.GradientTransformation(plain.init, update)


def _bytes_written(jaxpr: Any) -> int:
    """The bytes of all results of operations that do not fuse, in a program and in the programs it calls."""
    writes = {"dot_general", "concatenate", "pad", "transpose", "gather"}
    total = 0
    for equation in jaxpr.eqns:
        inner = [p for p in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr) if _is_jaxpr(p)]
        if inner:
            total += sum(_bytes_written(getattr(program, "jaxpr", program)) for program in inner)
        elif equation.primitive.name in writes:
            total += sum(math.prod(out.aval.shape) * out.aval.dtype.itemsize for out in equation.outvars)
    return total


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")
