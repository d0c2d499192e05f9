"""A cohort: models that train side by side in one compiled program, model axis first.

Hyperparameters, optimiser settings and randomness are arrays with one entry per model, so changing them compiles
nothing. The number of steps is an argument too: stopping anywhere and going on runs the very same program, which is why
a resumed run equals an uninterrupted one bit for bit.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, UInt32

from sober.device import compiler_options, random_key
from sober.methods import METHODS, hyper_of
from sober.methods.method import Method, Setup, State, Terms, clipped
from sober.models.model import blank
from sober.nets import NETS, Compute
from sober.nets.stretches import PLAIN, Kernels, path
from sober.spread import MODELS, SHARED, mapped
from sober.types import Run, Setting
from sober.worlds import World

IN_TURN_ABOVE = 2**24  # bytes written in a step: more than a core's share of the cache


class Inputs(NamedTuple):
    """What makes each model of a cohort itself."""

    entropy: UInt32[Array, "M 2"]
    hyper: dict[str, Float[Array, " M"]]
    adam: dict[str, Float[Array, " M"]]


class Carry(NamedTuple):
    """A cohort in training: all that a checkpoint holds."""

    state: State
    step: Int[Array, ""]
    diverged: Int[Array, " M"]  # the step at which a model's numbers stopped being finite; -1 while they are
    sums: Terms  # of each term since the last entry of the log, per model
    counts: Int[Array, " M"]  # good steps in those sums


PLACES = Carry(MODELS, SHARED, MODELS, MODELS, MODELS)  # where the parts of a cohort are: all but the step are models'


class Memory(NamedTuple):
    """Bytes that training takes: once for a cohort, and for each of its models."""

    shared: int
    each: int

    def models(self, free: int) -> int:
        """How many models fit into `free` bytes, with a fifth to spare; one is always tried."""
        return max(1, int((0.8 * free - self.shared) // self.each))


class Step(NamedTuple):
    """A step of one model, before anything is compiled."""

    written: int  # bytes that it writes out
    terms: Mapping[str, jax.ShapeDtypeStruct]


class Signature(NamedTuple):
    """What selects a compiled program: runs that agree in it can share a cohort."""

    method: str
    choices: tuple[tuple[str, Setting], ...]
    nets: str
    latents: int
    batch: int
    precision: str
    steps: int
    clips: bool  # whether gradients have a largest norm


def signature(run: Run) -> Signature:
    choices = tuple(METHODS[run.method].selecting(run.hyper).items())
    clips = run.optimiser.clip is not None
    return Signature(run.method, choices, run.nets, run.latents, run.batch, run.precision, run.steps, clips)


def program(world: World, of: Signature, kernels: Kernels = PLAIN) -> Program:
    """The compiled functions for a signature; compiled once per number of models, whatever the number of steps."""
    return _program(world, of._replace(steps=0), kernels)


def best_program(world: World, run: Run, models: int) -> tuple[Program, str]:
    """That which trains so many models like this one on a device the fastest, and in words why it is this one."""
    encoder, decoder = blank(run, world.image_shape).nets
    inputs = (encoder, (run.batch, *world.image_shape)), (decoder, (run.batch, run.latents))
    chosen = path(inputs, run.precision, models)
    return program(world, signature(run), chosen.kernels), chosen.why


@functools.lru_cache(maxsize=16)
def _program(world: World, of: Signature, kernels: Kernels) -> Program:
    return Program(world, of, kernels)


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """`init` and `advance` of a cohort, for any number of models."""

    world: World
    of: Signature
    kernels: Kernels = PLAIN

    @functools.cached_property
    def method(self) -> Method:
        return METHODS[self.of.method]

    def inputs(self, runs: Sequence[Run]) -> Inputs:
        settings = [hyper_of(run) for run in runs]
        numbers = [name for name in settings[0] if name not in dict(self.of.choices)]
        adam = [run.optimiser.plain() for run in runs]
        return Inputs(
            jnp.array([run.entropy for run in runs], jnp.uint32),
            {name: jnp.array([hyper[name] for hyper in settings], jnp.float32) for name in numbers},
            {name: jnp.array([plain[name] for plain in adam], jnp.float32) for name in adam[0]},
        )

    @functools.cached_property
    def init(self) -> Any:
        """`init(inputs, data) -> Carry` at step 0."""
        return jax.jit(mapped(self._init, (MODELS, SHARED), PLACES), compiler_options=compiler_options("once"))

    @functools.cached_property
    def advance(self) -> Any:
        """`advance(carry, data, inputs, stop) -> Carry` at step `stop`; the memory of `carry` is reused."""
        advance = mapped(self._advance, (PLACES, SHARED, MODELS, SHARED), PLACES)
        return jax.jit(advance, donate_argnums=0, compiler_options=compiler_options())

    def shapes(self, inputs: Inputs, data: Any) -> Carry:
        """What `init` gives, without its numbers, and without the copies that fill up the last device."""
        return jax.eval_shape(self._init, inputs, data)

    def memory(self, inputs: Inputs) -> Memory:
        """About how much memory training takes, rather too much than too little, without compiling.

        A model takes twice its state (the old one is kept until the new one is known to be good), and half as much
        again as the results that a step must write out, which models that run in turn share.
        """
        one, data = jax.tree.map(lambda x: x[:1], inputs), self.world.example
        carry = self.shapes(one, data)
        state = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(carry))
        written = 3 * self._looked_at(carry.state, one, data).written // 2
        in_turn = self._in_turn(carry.state, one, data)
        return Memory(shared=written, each=2 * state) if in_turn else Memory(shared=0, each=2 * state + written)

    def _setup(self, adam: Mapping[str, Array]) -> Setup:
        return Setup(
            nets=NETS[self.of.nets],
            image_shape=self.world.image_shape,
            latents=self.of.latents,
            batch=self.of.batch,
            pictures=self.world.size,
            compute=Compute(jnp.dtype(self.of.precision), self.kernels),
            optimiser=optimiser(**adam),
        )

    def _init_one(self, inputs: Inputs) -> State:
        key = jax.random.fold_in(random_key(inputs.entropy), 0)
        return self.method.init(self._setup(inputs.adam), key, inputs.hyper | dict(self.of.choices))

    def _update_one(self, state: State, inputs: Inputs, step: Array, data: Any) -> tuple[State, Terms]:
        key = jax.random.fold_in(random_key(inputs.entropy), 1)
        draw = functools.partial(self.world.draw, data, n=self.of.batch)
        hyper = inputs.hyper | dict(self.of.choices)
        setup, key = self._setup(inputs.adam), jax.random.fold_in(key, step)
        return self.method.update(setup, state, draw, key, step, hyper)

    @functools.cached_property
    def _step_of_one(self) -> Any:
        """`_update_one`, traced once, whoever asks: to know what it is like, and for each number of models."""
        return jax.jit(self._update_one, inline=True)

    def _init(self, inputs: Inputs, data: Any) -> Carry:
        state = jax.lax.map(self._init_one, inputs)  # side by side they would take twice as long to compile
        models = len(inputs.entropy)
        terms = self._looked_at(state, inputs, data).terms
        return Carry(
            state,
            jnp.int32(0),
            jnp.full(models, -1, jnp.int32),
            {name: jnp.zeros(models, term.dtype) for name, term in terms.items()},
            jnp.zeros(models, jnp.int32),
        )

    def _updates(self, state: State, inputs: Inputs, step: Array, data: Any) -> tuple[State, Terms]:
        if self._in_turn(state, inputs, data):
            return jax.lax.map(lambda each: self._step_of_one(each[0], each[1], step, data), (state, inputs))
        return jax.vmap(self._step_of_one, in_axes=(0, 0, None, None))(state, inputs, step, data)

    def _in_turn(self, state: State, inputs: Inputs, data: Any) -> bool:
        """Whether models take a step one after the other, still inside the one compiled program.

        On a CPU one model with large pictures keeps every core busy, and its arrays half in the cache; side by side
        they would only push each other out.
        """
        return jax.default_backend() == "cpu" and self._looked_at(state, inputs, data).written > IN_TURN_ABOVE

    def _looked_at(self, state: State, inputs: Inputs, data: Any) -> Step:
        """What one model's step is like, whatever the models' number."""
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), (state, inputs))
        traced = self._step_of_one.trace(*one, jnp.int32(0), data)
        return Step(_written(traced.jaxpr.jaxpr), traced.out_info[1])

    def _step(self, carry: Carry, data: Any, inputs: Inputs) -> Carry:
        state, terms = self._updates(carry.state, inputs, carry.step, data)
        finite = functools.reduce(operator.and_, (jnp.isfinite(term) for term in terms.values()))
        good = finite & (carry.diverged < 0)

        def choose(new: Array, old: Array) -> Array:  # a model that diverged keeps its last good state for good
            return jnp.where(good.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        return Carry(
            jax.tree.map(choose, state, carry.state),
            carry.step + 1,
            jnp.where(finite | (carry.diverged >= 0), carry.diverged, carry.step),
            {name: carry.sums[name] + jnp.where(good, term, 0) for name, term in terms.items()},
            carry.counts + good,
        )

    def _advance(self, carry: Carry, data: Any, inputs: Inputs, stop: Array) -> Carry:
        return jax.lax.fori_loop(carry.step, stop, lambda _, carry: self._step(carry, data, inputs), carry)


def optimiser(*, clip: Array | None = None, **adam: Array) -> optax.GradientTransformation:
    """Adam, after cutting the gradient to the norm `clip`; without it there is no such operation in the program.

    What it remembers is Adam's memory either way.
    """
    plain = optax.adam(**adam)
    if clip is None:
        return plain

    def update(gradient: Any, memory: Any, params: Any = None) -> tuple[Any, Any]:
        return plain.update(clipped(gradient, clip)[0], memory, params)

    return optax.GradientTransformation(plain.init, update)


def _written(jaxpr: Any) -> int:
    """Bytes of the results of operations that do not fuse, in a program and those it calls."""
    writes = {"dot_general", "concatenate", "pad", "transpose", "gather"}
    total = 0
    for equation in jaxpr.eqns:
        inner = [p for p in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr) if _is_jaxpr(p)]
        if inner:
            total += sum(_written(getattr(each, "jaxpr", each)) for each in inner)
        elif equation.primitive.name in writes:
            total += sum(math.prod(out.aval.shape) * out.aval.dtype.itemsize for out in equation.outvars)
    return total


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")
