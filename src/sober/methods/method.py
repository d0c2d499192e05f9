"""What a training method is: `init` makes what one model must remember, `update` takes one step.

Both are pure functions of one model; the loop in `train.py` maps them over a family. A method may hold more networks,
more optimisers, controllers or schedules: all of it is state, so all of it is checkpointed, resumed and frozen alike.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from sober.errors import RequestError, listed
from sober.nets import FLOAT32, Autoencoder, Compute, Nets, autoencoder
from sober.nets.nets import Saw
from sober.types import Setting

Images = Float[Array, "B H W C"]
Scalar = Float[Array, ""]
Terms = dict[str, Scalar]  # named numbers to log; a step is good when all of them are finite
Draw = Callable[[Key[Array, ""]], Images]  # a fresh batch of pictures
Objective = tuple[Scalar, Terms, Saw]  # what to go down, terms to log, and what the nets saw of the batch
Loss = Callable[[Autoencoder, Images, Key[Array, ""], Mapping[str, Any], "Setup"], Objective]


class State(NamedTuple):
    """One model in training. Every leaf is an array."""

    model: Autoencoder
    optimiser: Any
    memory: Any = ()  # what the method remembers besides: discriminators, controllers, schedules


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a method may know of its run besides hyperparameters."""

    nets: Nets
    image_shape: tuple[int, int, int]
    latents: int
    batch: int
    pictures: int  # in the world: minibatch estimators of the aggregate posterior need it
    compute: Compute  # how the nets do
    optimiser: optax.GradientTransformation


@dataclasses.dataclass(frozen=True)
class Hyper:
    """A hyperparameter. Numbers vary inside one compiled program; `choices` select which program."""

    name: str
    default: Setting
    help: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str | bool, ...] = ()
    with_steps: int = 0  # how it goes with the length of training: 1 in proportion, -1 inversely, 0 not at all
    shapes: bool = False  # whether the shapes of a model's arrays depend on it; a number is then whole, and selects too
    later: bool = False  # came after runs without it: a run leaves out its default, so that those keep their identities

    @property
    def range(self) -> str:
        """Which values it takes, in words."""
        if self.choices:
            return listed(self.choices)
        if math.isinf(self.high):
            return "any number" if math.isinf(self.low) else f"from {self.low:g}"
        return f"{self.low:g} to {self.high:g}"

    def check(self, value: Setting) -> Setting:
        if self.choices:
            if not any(value == choice and type(value) is type(choice) for choice in self.choices):  # 1 is not True
                raise RequestError(f"{self.name}={value} is not one of {listed(self.choices)}")
            return value
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise RequestError(f"{self.name}={value} is not a number")
        if not self.low <= value <= self.high:
            raise RequestError(f"{self.name}={value:g} is outside [{self.low:g}, {self.high:g}]")
        if self.shapes and value != int(value):
            raise RequestError(f"{self.name}={value:g} must be a whole number")
        return float(value)


# How pixels are drawn given codes: of every method that reconstructs.
LIKELIHOOD = (
    Hyper(
        "likelihood",
        "bernoulli",
        "of pixels given codes: bernoulli, or gaussian with a fixed variance",
        choices=("bernoulli", "gaussian"),
        later=True,
    ),
    Hyper(
        "variance",
        0.125,
        "of the gaussian likelihood, for pixels from 0 to 1; 1/8 is the squared error of pixels from -1 to 1",
        low=1e-6,
        later=True,
    ),
)
BERNOULLI: Mapping[str, Setting] = {hyper.name: hyper.default for hyper in LIKELIHOOD}


def no_advice(small: bool, steps: int) -> Mapping[str, tuple[float, ...]]:
    return {}


@dataclasses.dataclass(frozen=True)
class Method:
    """One entry of the registry.

    `init(setup, key, hyper) -> State`
    `update(setup, state, draw, key, step, hyper) -> (State, Terms)`, where `draw(key)` gives a fresh batch of pictures.
    `sweeps` holds the values that studies give its hyperparameters, by the study's name: `grid` takes one as it is.
    `advised(small, steps)` gives values of its main hyperparameter between which good ones lie, for small pictures or
    large ones and so many steps; nothing where its defaults are all that can be said.
    """

    name: str
    summary: str
    reference: str
    hyper: tuple[Hyper, ...]
    init: Callable[[Setup, Key[Array, ""], Mapping[str, Any]], State]
    update: Callable[[Setup, State, Draw, Key[Array, ""], Int[Array, ""], Mapping[str, Any]], tuple[State, Terms]]
    sweeps: Mapping[str, Mapping[str, tuple[Setting, ...]]] = dataclasses.field(default_factory=dict)
    nets: str | None = None  # the only ones it works with
    cost: float = 1.0  # about, of a step, in steps of a β-VAE (benchmarks/methods.py)
    advised: Callable[[bool, int], Mapping[str, tuple[float, ...]]] = no_advice
    objective: str = "loss"  # the term that falls as training gets on: in a game, one side's loss is the other's gain
    model: Callable[..., Autoencoder] = autoencoder  # what it trains: of key, nets, shape, latents, and `shaping`
    losses: int = 1  # that a step goes down, one after another; 0 where it follows no gradient
    step_of: str | None = None  # another method whose step it takes with other weights: tests of that one need no twin
    same_bits: bool = True  # whether a model's bits on a CPU are the same in a family of any size, from two on

    def sweep(self, study: str) -> Mapping[str, tuple[Setting, ...]]:
        """The values that a study gave this method."""
        if study not in self.sweeps:
            has = f"choose from {listed(self.sweeps)}" if self.sweeps else "it has none"
            raise RequestError(f"method {self.name!r} has no sweep {study!r}: {has}")
        return self.sweeps[study]

    def settings(self, given: Mapping[str, Setting]) -> dict[str, Setting]:
        """The hyperparameters of a run: the given ones checked, the others at their defaults.

        Those that came `later` and are at their defaults are left out: `complete` fills them in.
        """
        known = {hyper.name: hyper for hyper in self.hyper}
        if unknown := given.keys() - known.keys():
            has = f"choose from {listed(known)}" if known else "it has none"
            raise RequestError(f"method {self.name!r} has no hyperparameter {listed(unknown)!r}: {has}")
        values = {name: hyper.check(given.get(name, hyper.default)) for name, hyper in known.items()}
        return {name: value for name, value in values.items() if not known[name].later or value != known[name].default}

    def complete(self, hyper: Mapping[str, Setting]) -> dict[str, Setting]:
        """The hyperparameters of a run with those that it leaves out, which came later; in order of their names."""
        later = {each.name: each.default for each in self.hyper if each.later}
        return dict(sorted({**later, **hyper}.items()))

    def selecting(self, hyper: Mapping[str, Setting]) -> dict[str, Setting]:
        """Those of a run's hyperparameters that select its compiled program."""
        numbers = {each.name for each in self.hyper if each.shapes}
        complete = self.complete(hyper).items()
        return {name: value for name, value in complete if isinstance(value, str | bool) or name in numbers}

    def shaping(self, hyper: Mapping[str, Setting]) -> dict[str, Any]:
        """Those that the shapes of its model's arrays depend on: `model` takes them by name."""
        values = self.complete(hyper)
        shaping = {each.name: values[each.name] for each in self.hyper if each.shapes}
        return {name: int(value) if isinstance(value, float) else value for name, value in shaping.items()}


def init_autoencoder(setup: Setup, key: Key[Array, ""], hyper: Mapping[str, Any]) -> State:
    """A fresh autoencoder and its optimiser: all the state that a method with one loss needs."""
    model = autoencoder(key, setup.nets, setup.image_shape, setup.latents)
    return State(model, setup.optimiser.init(model))


def clipped(gradient: Any, most: float | Scalar) -> tuple[Any, Scalar]:
    """The gradient cut to a norm of at most so much, and the norm it had."""
    norm = optax.tree.norm(gradient)
    return jax.tree.map(lambda leaf: leaf / jnp.maximum(norm / most, 1), gradient), norm


def follow(gradient: Any, params: Any, optimiser: optax.GradientTransformation, memory: Any) -> tuple[Any, Any]:
    """One optimiser step along a gradient: new parameters, and the optimiser's new memory."""
    updates, memory = optimiser.update(gradient, memory, params)
    return optax.apply_updates(params, updates), memory


class Descent(NamedTuple):
    """One optimiser step down a loss."""

    params: Any  # the new ones
    memory: Any  # the optimiser's
    terms: Terms  # to log: with the loss, and the norm of its gradient
    besides: Any  # what else the loss came by: what nets saw of the batch, codes to use again


def descend(
    loss: Callable[[Any], tuple[Scalar, Terms, Any]], params: Any, optimiser: optax.GradientTransformation, memory: Any
) -> Descent:
    """One optimiser step down `loss`, which returns its value, terms to log, and what else it came by."""

    def split(params: Any) -> tuple[Scalar, tuple[Terms, Any]]:
        value, terms, besides = loss(params)
        return value, (terms, besides)

    (value, (terms, besides)), gradient = jax.value_and_grad(split, has_aux=True)(params)
    params, memory = follow(gradient, params, optimiser, memory)
    return Descent(params, memory, {"loss": value, **terms, "gradient_norm": optax.tree.norm(gradient)}, besides)


def update_by(loss: Loss) -> Callable[..., tuple[State, Terms]]:
    """The update of a method that is one loss of the autoencoder on one batch."""

    def update(
        setup: Setup,
        state: State,
        draw: Draw,
        key: Key[Array, ""],
        step: Int[Array, ""],
        hyper: Mapping[str, Any],
    ) -> tuple[State, Terms]:
        for_images, for_loss = jax.random.split(key)
        images = draw(for_images)
        model, optimiser, terms, saw = descend(
            lambda model: loss(model, images, for_loss, hyper, setup), state.model, setup.optimiser, state.optimiser
        )
        return state._replace(model=model.having_seen(saw), optimiser=optimiser), terms

    return update


class Elbo(NamedTuple):
    """The two terms of the evidence lower bound on a batch, and what further penalties may need."""

    terms: Terms  # `reconstruction` and `kl`
    mean: Float[Array, "B D"]
    logvar: Float[Array, "B D"]
    codes: Float[Array, "B D"]  # one sample of each
    saw: Saw  # what the nets saw of the batch


def elbo_terms(
    model: Autoencoder,
    images: Images,
    key: Key[Array, ""],
    compute: Compute = FLOAT32,
    hyper: Mapping[str, Any] = BERNOULLI,
) -> Elbo:
    """A pass through both nets in training.

    Reconstruction is the negative log-likelihood that `hyper` names and KL the divergence from N(0, 1); both are summed
    over what one picture has (pixels and channels; latents) and averaged over the batch.
    """
    (mean, logvar), by_encoder = model.encode_batch(images, compute)
    codes = sample(mean, logvar, key)
    logits, by_decoder = model.decode_batch(codes, compute)
    reconstruction = jnp.sum(pixel_loss(logits, images, hyper)) / len(images)
    kl = jnp.sum(kl_per_latent(mean, logvar)) / len(images)
    return Elbo({"reconstruction": reconstruction, "kl": kl}, mean, logvar, codes, Saw(by_encoder, by_decoder))


def pixel_loss(
    logits: Float[Array, "*n"], target: Float[Array, "*n"], hyper: Mapping[str, Any] = BERNOULLI
) -> Float[Array, "*n"]:
    """-log p(x|z) of each number of a picture under a method's likelihood; Bernoulli where it has no such setting."""
    if hyper.get("likelihood", "bernoulli") == "gaussian":
        return gaussian_loss(logits, target, hyper["variance"])
    return bernoulli_loss(logits, target)


def gaussian_loss(
    logits: Float[Array, "*n"], target: Float[Array, "*n"], variance: float | Scalar
) -> Float[Array, "*n"]:
    """-log N(target; sigmoid(logit), variance) = (x - x̂)² / 2σ² + log(2πσ²) / 2 of each number.

    The squared error of pixels from -1 to 1, X = 2x - 1, is (X - X̂)² = 4 (x - x̂)², so it is this loss for σ² = 1/8, but
    for a constant; half of it, which is a Gaussian of variance 1 on that scale, for σ² = 1/4. A decoder that ends in
    tanh on that scale, X̂ = tanh(y), is x̂ = sigmoid(2y) here: its logits are twice as large, and nothing else differs.
    """
    return (jax.nn.sigmoid(logits) - target) ** 2 / (2 * variance) + 0.5 * jnp.log(2 * math.pi * variance)


@jax.custom_jvp
def bernoulli_loss(logits: Float[Array, "*n"], target: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """-log Bernoulli(target; sigmoid(logit)) of each number, finite for any logit."""
    return jnp.maximum(logits, 0) + jnp.log1p(jnp.exp(-jnp.abs(logits))) - logits * target


@bernoulli_loss.defjvp
def _slope_of_loss(numbers: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    logits, target = numbers
    slope = jax.nn.sigmoid(logits) - target
    return bernoulli_loss(logits, target), slope * tangents[0] - logits * tangents[1]


def sample(mean: Float[Array, "B D"], logvar: Float[Array, "B D"], key: Key[Array, ""]) -> Float[Array, "B D"]:
    """Codes drawn from N(mean, exp(logvar)), through which gradients reach both."""
    return mean + jnp.exp(logvar / 2) * jax.random.normal(key, mean.shape, mean.dtype)


def kl_per_latent(mean: Float[Array, "B D"], logvar: Float[Array, "B D"]) -> Float[Array, "B D"]:
    """KL(N(mean, exp(logvar)) || N(0, 1)) of each latent, in nats."""
    return 0.5 * (mean**2 + jnp.exp(logvar) - 1 - logvar)
