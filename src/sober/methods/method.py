"""The interface of training methods: `init` makes the state of one model, `update` takes one step.

Both are pure functions of one model; the loop in `train.py` maps them over a family. A method may hold more networks,
optimisers, controllers or schedules in its state. All of it is checkpointed, resumed and frozen in the same way.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from sober.errors import RequestError, choices, listed
from sober.nets import FLOAT32, Autoencoder, Compute, Nets, autoencoder
from sober.nets.autoencoder import AutoencoderStatistics
from sober.short_text import as_call
from sober.types import Setting

Images = Float[Array, "B H W C"]
Scalar = Float[Array, ""]
Terms = dict[str, Scalar]  # named numbers to log; a step is good when all of them are finite
Draw = Callable[[Key[Array, ""]], Images]  # a fresh batch of pictures
Objective = tuple[Scalar, Terms, AutoencoderStatistics]  # the loss, terms to log, and the nets' statistics of the batch
Loss = Callable[[Autoencoder, Images, Key[Array, ""], Mapping[str, Any], "Setup"], Objective]


class State(NamedTuple):
    """One model in training. Every leaf is an array."""

    model: Autoencoder
    optimiser: Any
    memory: Any = ()  # other state of the method: discriminators, controllers, schedules

    def __repr__(self) -> str:
        return as_call(self)


@dataclasses.dataclass(frozen=True)
class Setup:
    """The properties of a run that a method needs, apart from hyperparameters."""

    nets: Nets
    image_shape: tuple[int, int, int]
    latents: int
    batch: int
    pictures: int  # in the world: minibatch estimators of the aggregate posterior need it
    compute: Compute  # how the nets compute
    optimiser: optax.GradientTransformation

    def __repr__(self) -> str:
        return as_call(self)


@dataclasses.dataclass(frozen=True)
class Hyper:
    """A hyperparameter. Numbers vary inside one compiled program; `choices` select which program."""

    name: str
    default: Setting
    help: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str | bool, ...] = ()
    with_steps: int = 0  # how it scales with the length of training: 1 in proportion, -1 inversely, 0 not at all
    shapes: bool = False  # whether array shapes depend on it: a number is then whole and selects a program
    later: bool = False  # added later: runs leave out its default, so that earlier runs keep their identities
    title: str = ""  # its name for people; `name` if empty

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def range(self) -> str:
        """Its allowed values, in words."""
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


# The likelihood of pixels, for every method that reconstructs.
LIKELIHOOD = (
    Hyper(
        "likelihood",
        "bernoulli",
        "likelihood of pixels given codes: bernoulli, or gaussian with a fixed variance",
        choices=("bernoulli", "gaussian"),
        later=True,
        title="likelihood",
    ),
    Hyper(
        "variance",
        0.125,
        "variance of the gaussian likelihood, for pixels from 0 to 1; 1/8 is the squared error of pixels from -1 to 1",
        low=1e-6,
        later=True,
        title="variance",
    ),
)
# How baselines of Estermann & Wattenhofer (2023) weigh the KL. Their text sums it over latents, as everyone does; their
# code takes its mean over latents, a tenth of the weight with ten latents.
READING = Hyper(
    "reading",
    "as_written",
    "the KL is summed over latents as_written in the paper, or is its mean over latents as_published in DAVA's code",
    choices=("as_written", "as_published"),
    later=True,
    title="reading",
)
BERNOULLI: Mapping[str, Setting] = {hyper.name: hyper.default for hyper in LIKELIHOOD}


def no_advice(small: bool, steps: int) -> Mapping[str, tuple[float, ...]]:
    return {}


@dataclasses.dataclass(frozen=True)
class Method:
    """One entry of the registry.

    `init(setup, key, hyper) -> State`
    `update(setup, state, draw, key, step, hyper) -> (State, Terms)`, where `draw(key)` gives a fresh batch of pictures.
    `sweeps` holds the hyperparameter values of studies, by the study's name: `grid` takes them by that name.
    `advised(small, steps)` gives limits of the range in which good values of its main hyperparameters lie, for small or
    large pictures and a number of steps; nothing if only the defaults can be advised.
    """

    name: str
    summary: str
    reference: str
    hyper: tuple[Hyper, ...]
    init: Callable[[Setup, Key[Array, ""], Mapping[str, Any]], State]
    update: Callable[[Setup, State, Draw, Key[Array, ""], Int[Array, ""], Mapping[str, Any]], tuple[State, Terms]]
    sweeps: Mapping[str, Mapping[str, tuple[Setting, ...]]] = dataclasses.field(default_factory=dict)
    nets: str | None = None  # the only nets it works with
    cost: float = 1.0  # time of a step, about, relative to a β-VAE (benchmarks/methods.py)
    advised: Callable[[bool, int], Mapping[str, tuple[float, ...]]] = no_advice
    objective: str = "loss"  # the term that falls during training; in a game no side's loss does
    model: Callable[..., Autoencoder] = autoencoder  # makes the model from key, nets, shape, latents and `shaping`
    losses: int = 1  # how many losses a step minimises, one after another; 0 without gradients
    step_of: str | None = None  # another method with the same step but other weights, whose tests cover this one too
    same_bits: bool = True  # whether a model's bits on a CPU are the same in a family of any size, from two on
    title: str = ""  # its name for people; `name` if empty

    def __repr__(self) -> str:
        return as_call(self)

    def sweep(self, study: str) -> Mapping[str, tuple[Setting, ...]]:
        """The values that a study gave this method."""
        if study not in self.sweeps:
            raise RequestError(f"method {self.name!r} has no sweep {study!r}: {choices(study, self.sweeps)}")
        return self.sweeps[study]

    def settings(self, hyper: Mapping[str, Setting]) -> dict[str, Setting]:
        """The hyperparameters of a run: those in `hyper` checked, the others at their defaults.

        Leaves out a hyperparameter added `later` that is at its default; `complete` fills it in.
        """
        parameters = {parameter.name: parameter for parameter in self.hyper}
        if unknown := hyper.keys() - parameters.keys():
            advice = choices(min(unknown), parameters)
            raise RequestError(f"method {self.name!r} has no hyperparameter {listed(unknown)!r}: {advice}")
        values = {name: parameter.check(hyper.get(name, parameter.default)) for name, parameter in parameters.items()}
        return {
            name: value
            for name, value in values.items()
            if not parameters[name].later or value != parameters[name].default
        }

    def complete(self, hyper: Mapping[str, Setting]) -> dict[str, Setting]:
        """All hyperparameters of a run, with the defaults of those added later; sorted by name."""
        later = {parameter.name: parameter.default for parameter in self.hyper if parameter.later}
        return dict(sorted({**later, **hyper}.items()))

    def selecting(self, hyper: Mapping[str, Setting]) -> dict[str, Setting]:
        """The hyperparameters of a run that select its compiled program."""
        shaping = {parameter.name for parameter in self.hyper if parameter.shapes}
        complete = self.complete(hyper).items()
        return {name: value for name, value in complete if isinstance(value, str | bool) or name in shaping}

    def shaping(self, hyper: Mapping[str, Setting]) -> dict[str, Any]:
        """The hyperparameters of a run that array shapes depend on; `model` takes them by name."""
        values = self.complete(hyper)
        shaping = {parameter.name: values[parameter.name] for parameter in self.hyper if parameter.shapes}
        return {name: int(value) if isinstance(value, float) else value for name, value in shaping.items()}


def init_autoencoder(setup: Setup, key: Key[Array, ""], hyper: Mapping[str, Any]) -> State:
    """An untrained autoencoder and its optimiser: the state of a method with one loss."""
    model = autoencoder(key, setup.nets, setup.image_shape, setup.latents)
    return State(model, setup.optimiser.init(model))


def clipped(gradient: Any, most: float | Scalar) -> tuple[Any, Scalar]:
    """The gradient clipped to a norm of `most`, and its norm before that."""
    norm = optax.tree.norm(gradient)
    return jax.tree.map(lambda leaf: leaf / jnp.maximum(norm / most, 1), gradient), norm


def follow(gradient: Any, params: Any, optimiser: optax.GradientTransformation, memory: Any) -> tuple[Any, Any]:
    """One optimiser step along a gradient: the new parameters, and the optimiser's new memory."""
    updates, memory = optimiser.update(gradient, memory, params)
    return optax.apply_updates(params, updates), memory


class Descent(NamedTuple):
    """The result of one optimiser step on a loss."""

    params: Any  # the new parameters
    memory: Any  # the new memory of the optimiser
    terms: Terms  # to log, with the loss and the norm of its gradient
    besides: Any  # other results of the loss: statistics of the batch, codes to use again


def descend(
    loss: Callable[[Any], tuple[Scalar, Terms, Any]], params: Any, optimiser: optax.GradientTransformation, memory: Any
) -> Descent:
    """One optimiser step on `loss`, which returns its value, terms to log, and other results."""

    def split(params: Any) -> tuple[Scalar, tuple[Terms, Any]]:
        value, terms, besides = loss(params)
        return value, (terms, besides)

    (value, (terms, besides)), gradient = jax.value_and_grad(split, has_aux=True)(params)
    params, memory = follow(gradient, params, optimiser, memory)
    return Descent(params, memory, {"loss": value, **terms, "gradient_norm": optax.tree.norm(gradient)}, besides)


def update_by(loss: Loss) -> Callable[..., tuple[State, Terms]]:
    """The update of a method with one loss of the autoencoder on one batch."""

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
        model, optimiser, terms, statistics = descend(
            lambda model: loss(model, images, for_loss, hyper, setup), state.model, setup.optimiser, state.optimiser
        )
        return state._replace(model=model.after_batch(statistics), optimiser=optimiser), terms

    return update


class Elbo(NamedTuple):
    """The two terms of the evidence lower bound on a batch, and values that further penalties may use."""

    terms: Terms  # `reconstruction` and `kl`
    mean: Float[Array, "B D"]
    logvar: Float[Array, "B D"]
    codes: Float[Array, "B D"]  # one sample of each
    statistics: AutoencoderStatistics  # the nets' statistics of the batch

    @property
    def saw(self) -> AutoencoderStatistics:
        warnings.warn("Elbo.saw is now called statistics", DeprecationWarning, stacklevel=2)
        return self.statistics


def elbo_terms(
    model: Autoencoder,
    images: Images,
    key: Key[Array, ""],
    compute: Compute = FLOAT32,
    hyper: Mapping[str, Any] = BERNOULLI,
) -> Elbo:
    """A pass through both nets in training.

    Reconstruction is the negative log-likelihood that `hyper` names, summed over pixels and channels; KL the divergence
    from N(0, 1), summed over latents. Both are averaged over the batch.
    """
    (mean, logvar), by_encoder = model.encode_batch(images, compute)
    codes = sample(mean, logvar, key)
    logits, by_decoder = model.decode_batch(codes, compute)
    reconstruction = jnp.sum(pixel_loss(logits, images, hyper)) / len(images)
    kl = jnp.sum(kl_per_latent(mean, logvar)) / len(images)
    return Elbo(
        {"reconstruction": reconstruction, "kl": kl}, mean, logvar, codes, AutoencoderStatistics(by_encoder, by_decoder)
    )


def pixel_loss(
    logits: Float[Array, "*n"], target: Float[Array, "*n"], hyper: Mapping[str, Any] = BERNOULLI
) -> Float[Array, "*n"]:
    """-log p(x|z) of each number of a picture under a method's likelihood; Bernoulli if it has no such setting."""
    if hyper.get("likelihood", "bernoulli") == "gaussian":
        return gaussian_loss(logits, target, hyper["variance"])
    return bernoulli_loss(logits, target)


def gaussian_loss(
    logits: Float[Array, "*n"], target: Float[Array, "*n"], variance: float | Scalar
) -> Float[Array, "*n"]:
    """-log N(target; sigmoid(logit), variance) = (x - x̂)² / 2σ² + log(2πσ²) / 2 of each number.

    The squared error of pixels from -1 to 1, X = 2x - 1, is (X - X̂)² = 4 (x - x̂)²: this loss for σ² = 1/8, up to a
    constant. Half of it, a Gaussian of variance 1 on that scale, is this loss for σ² = 1/4. A decoder that ends in tanh
    on that scale, X̂ = tanh(y), is x̂ = sigmoid(2y) here: its logits are twice as large, and nothing else differs.
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
    """Codes drawn from N(mean, exp(logvar)), with gradients to both."""
    return mean + jnp.exp(logvar / 2) * jax.random.normal(key, mean.shape, mean.dtype)


def read_kl(kl: Scalar, latents: int, hyper: Mapping[str, Any]) -> Scalar:
    """A KL summed over latents, as a run's `reading` takes it."""
    return kl / latents if hyper.get("reading") == "as_published" else kl


def kl_per_latent(mean: Float[Array, "B D"], logvar: Float[Array, "B D"]) -> Float[Array, "B D"]:
    """KL(N(mean, exp(logvar)) || N(0, 1)) of each latent, in nats."""
    return 0.5 * (mean**2 + jnp.exp(logvar) - 1 - logvar)
