"""The values that flow through Sober, such as Factor, Codes, Run and Score. Each can be saved and printed."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.errors import RequestError, choices, counted, listed
from sober.short_text import as_call, as_facts

Kind = Literal["ordinal", "cyclic", "categorical", "continuous"]
Precision = Literal["float32", "bfloat16"]
Setting = float | str | bool  # a number varies inside one compiled program; text and true or false select the program


def _number(name: str, value: Any) -> float:
    """`value` as a finite float, so that 1 and 1.0 are one setting."""
    try:
        number = float(value) + 0.0  # turns -0.0 into 0.0
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise RequestError(f"{name}={value} is not a number")
    return number


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise RequestError(f"{name} must be a whole number, got {value!r}") from error
    if number < least:
        raise RequestError(f"{name} must be at least {least}, got {number}")
    return number


VIEW_SEPARATOR = " | "  # before each view in the written form of a world, and in its label


def append_view(world: str, view: str) -> str:
    """The written form, or the label, of a view of a world: `dsprites` and `part train 0.8` give one text."""
    return f"{world}{VIEW_SEPARATOR}{view}"


@dataclasses.dataclass(frozen=True)
class WorldSpec:
    """How to open a world: its name, its options as text, and its views in order.

    The written form is `NAME:OPTION=VALUE,OPTION=VALUE | VIEW | VIEW`. `parse` reads it and `str` writes it. A spec
    whose written form would be read as another spec is refused.
    """

    name: str
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    views: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        options = {name: str(value) for name, value in self.options.items()}
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "views", tuple(view.strip() for view in self.views))
        if self._split(str(self)) != (self.name, options, self.views):
            raise RequestError(
                f"{str(self)!r} cannot be opened again by name: rename it so that no option or view holds ',NAME=', "
                f"{VIEW_SEPARATOR!r} or spaces at its end"
            )

    def __repr__(self) -> str:
        return as_call(self)

    @staticmethod
    def parse(text: str) -> WorldSpec:
        """The spec with this written form. The label of a world is read too: its fingerprint counts as an option."""
        return WorldSpec(*WorldSpec._split(text))

    @staticmethod
    def _split(text: str) -> tuple[str, dict[str, str], tuple[str, ...]]:
        base, *views = text.split(VIEW_SEPARATOR)
        name, _, options = base.strip().partition(":")
        # A comma begins another option only before NAME=, so a path may hold commas.
        pairs = [option.partition("=") for option in re.split(r",(?=\w+=)", options) if option]
        return name, {option: value for option, _, value in pairs}, tuple(view.strip() for view in views)

    def __str__(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        base = f"{self.name}:{options}" if options else self.name
        return functools.reduce(append_view, self.views, base)

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.options.items()), self.views))

    @property
    def base(self) -> WorldSpec:
        """The same world without its views."""
        return dataclasses.replace(self, views=())

    @property
    def view_names(self) -> tuple[str, ...]:
        """The first word of each view, such as `part`."""
        return tuple(view.partition(" ")[0] for view in self.views)


@dataclasses.dataclass(frozen=True)
class Factor:
    """One way in which the pictures of a world vary: `size` values of a `kind`, with `values` where they have a scale.

    A `continuous` factor has size 0 and any real value.
    """

    name: str
    size: int
    kind: Kind = "ordinal"
    values: tuple[float, ...] | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise RequestError(f"factor {self.name!r} has kind {self.kind!r}: choose one of {listed(get_args(Kind))}")
        if (self.size != 0) if self.kind == "continuous" else (self.size < 1):
            raise RequestError(f"factor {self.name!r} is {self.kind} and cannot have size {self.size}")
        if self.values and len(self.values) != self.size:
            raise RequestError(f"factor {self.name!r} has size {self.size} but {len(self.values)} values")

    def __repr__(self) -> str:
        return as_call(self)


@dataclasses.dataclass(frozen=True, eq=False)
class Codes:
    """One model's codes of N pictures, with the factors that made the pictures. A metric sees nothing else.

    Where the label of a factor is unknown (`known` is false), `factors` holds a number without meaning.
    """

    mean: Float[np.ndarray, "N D"]  # or a `scipy.sparse.csr_array` of that shape
    logvar: Float[np.ndarray, "N D"] | None
    factors: Int[np.ndarray, "N K"] | Float[np.ndarray, "N K"]  # classes from 0; real numbers where continuous
    about: tuple[Factor, ...]
    flags: tuple[str, ...] = ()  # reasons not to trust the codes: `diverged`, `not_finite`
    known: Bool[np.ndarray, "N K"] | None = None  # whether each label is known; None where all are
    groups: Int[np.ndarray, " N"] | None = None  # 0 to G - 1: rows of one group stay on one side of every split
    weights: Float[np.ndarray, " N"] | None = None  # how much each row counts, above 0; None where all count the same
    unit: int = 1  # how many consecutive columns of `mean` make one latent

    def __post_init__(self) -> None:
        if self.mean.ndim != 2:
            raise RequestError(f"codes must be an (N, D) array, got shape {self.mean.shape}")
        rows = self.mean.shape[0]
        if self.logvar is not None and self.logvar.shape != self.mean.shape:
            raise RequestError(f"logvar has shape {self.logvar.shape}, the codes {self.mean.shape}: they must agree")
        if self.factors.shape != (rows, len(self.about)):
            raise RequestError(
                f"factors must be ({rows}, {len(self.about)}): a row per code, a column per factor; "
                f"got shape {self.factors.shape}"
            )
        if self.known is not None and self.known.shape != self.factors.shape:
            raise RequestError(f"known has shape {self.known.shape}, factors {self.factors.shape}: they must agree")
        for name in ("groups", "weights"):
            array = getattr(self, name)
            if array is not None and array.shape != (rows,):
                raise RequestError(f"{name} must be an ({rows},) array, one for each row, got shape {array.shape}")
        if self.unit < 1 or self.mean.shape[1] % self.unit:
            raise RequestError(f"{self.mean.shape[1]} columns of codes cannot be shared out to units of {self.unit}")

    def __repr__(self) -> str:
        rows, columns = self.mean.shape
        unknown = 0 if self.known is None else int((~self.known).sum())
        facts = {
            "factors": ", ".join(factor.name for factor in self.about),
            "log-variances": "no" if self.logvar is None else "yes",
            "flags": " ".join(self.flags),
            "unknown labels": unknown or None,
            "groups": None if self.groups is None else len(np.unique(self.groups)),
            "weights": None if self.weights is None else "yes",
            "unit": None if self.unit == 1 else f"{self.unit} columns",
        }
        return as_facts(f"Codes of {counted(rows, 'row')} and {counted(columns, 'column')}", facts)


@dataclasses.dataclass(frozen=True)
class Adam:
    """The optimiser of the papers and its settings (Kingma & Ba 2015); defaults of the Sober Look study, Table 4."""

    learning_rate: float = dataclasses.field(default=1e-4, metadata={"help": "Learning rate of Adam."})
    b1: float = dataclasses.field(default=0.9, metadata={"help": "Adam's decay rate of the mean gradient, per step."})
    b2: float = dataclasses.field(
        default=0.999, metadata={"help": "Adam's decay rate of the mean squared gradient, per step."}
    )
    eps: float = dataclasses.field(
        default=1e-8, metadata={"help": "Adam adds this to the root of the mean squared gradient."}
    )
    clip: float | None = dataclasses.field(
        default=None,
        metadata={"help": "Largest norm of a model's gradient; a longer gradient is cut to it. No limit by default."},
    )

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            object.__setattr__(self, name, value if name == "clip" and value is None else _number(name, value))
        if self.clip is not None and self.clip <= 0:
            raise RequestError(f"clip must be above 0, got {self.clip:g}: leave it out for no limit")

    def __repr__(self) -> str:
        return as_call(self)

    def plain(self) -> dict[str, float]:
        """Its settings as plain values, without `clip` if there is no limit.

        `clip` was added later: earlier runs, which have no `clip`, keep their identities.
        """
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


ADAM = Adam()


@dataclasses.dataclass(frozen=True)
class Training:
    """How models are trained, with any method. Defaults: the Sober Look study, Tables 2 and 4.

    The command line, `grid`, `Product`, `fit` and `tune` take their options from here.
    """

    steps: int = dataclasses.field(default=300_000, metadata={"help": "Optimiser steps per model."})
    batch: int = dataclasses.field(default=64, metadata={"help": "Pictures per step."})
    latents: int = dataclasses.field(default=10, metadata={"help": "Latents per model."})
    nets: str | None = dataclasses.field(
        default=None, metadata={"help": "Encoder and decoder; by default chosen by the size of the pictures."}
    )
    optimiser: Adam = dataclasses.field(default=ADAM, metadata={"help": "The optimiser and its settings."})
    precision: Precision | None = dataclasses.field(
        default=None,
        metadata={
            "help": "Precision of matrix products: bfloat16 by default on a GPU, float32 on a CPU; weights are float32."
        },
    )

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "latents"):
            object.__setattr__(self, name, _whole(name, getattr(self, name), 1))
        if self.precision is not None and self.precision not in get_args(Precision):
            raise RequestError(f"precision {self.precision!r} is unknown: choose one of {listed(get_args(Precision))}")

    def __repr__(self) -> str:
        return as_call(self)

    def but(self, **changes: Any) -> Training:
        """A copy with some options changed, also options of the optimiser: `but(steps=600, learning_rate=1e-3)`."""
        adam_options = {field.name for field in dataclasses.fields(Adam)}
        own_options = {field.name for field in dataclasses.fields(self)}
        if unknown := changes.keys() - adam_options - own_options:
            advice = choices(min(unknown), own_options | adam_options)
            raise RequestError(f"training has no option {listed(unknown)}: {advice}")
        optimiser = changes.get("optimiser", self.optimiser)
        adam_changes = {name: value for name, value in changes.items() if name in adam_options}
        own_changes = {name: value for name, value in changes.items() if name in own_options}
        return dataclasses.replace(self, **own_changes | {"optimiser": dataclasses.replace(optimiser, **adam_changes)})

    @staticmethod
    def options() -> frozenset[str]:
        """Every name that `but` takes."""
        return frozenset(field.name for kind in (Training, Adam) for field in dataclasses.fields(kind))


NO_NETS = "none"  # of a run that stands for a layer of an encoder that Sober did not train


@dataclasses.dataclass(frozen=True)
class Run:
    """Everything that determines one trained model. Defaults: the Sober Look study, Tables 2 and 4."""

    world: str
    method: str
    hyper: Mapping[str, Setting]
    nets: str = "conv"
    latents: int = 10
    optimiser: Adam = Adam()
    steps: int = 300_000
    batch: int = 64
    seed: int = 0
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        for name, least in (("latents", 1), ("steps", 1), ("batch", 1), ("seed", 0)):
            object.__setattr__(self, name, _whole(name, getattr(self, name), least))
        if self.precision not in get_args(Precision):
            raise RequestError(f"precision {self.precision!r} is unknown: choose one of {listed(get_args(Precision))}")
        settings = {k: v if isinstance(v, str | bool) else _number(k, v) for k, v in sorted(self.hyper.items())}
        object.__setattr__(self, "hyper", settings)

    def __repr__(self) -> str:
        return as_call(self)

    def __hash__(self) -> int:
        return hash(self.identity)

    def canonical(self) -> dict[str, Any]:
        """The run as plain values, always in the same form. Files store it; the identity is its hash."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, "hyper": dict(self.hyper), "optimiser": self.optimiser.plain()}

    def flat(self) -> dict[str, Any]:
        """Its own fields and its optimiser's, without the hyperparameters."""
        fields = self.canonical()
        del fields["hyper"], fields["optimiser"]
        return {**dataclasses.asdict(self.optimiser), **fields}

    @staticmethod
    def of(canonical: Mapping[str, Any]) -> Run:
        """The run whose `canonical()` this is."""
        return Run(**{**canonical, "optimiser": Adam(**canonical["optimiser"])})

    @property
    def is_layer(self) -> bool:
        """Whether it stands for a layer of an encoder that Sober did not train."""
        return self.nets == NO_NETS

    @property
    def identity(self) -> str:
        """The run's name everywhere: 16 hexadecimal digits."""
        return self._digest[:8].hex()

    @property
    def seedless(self) -> str:
        """The identity of the run with seed 0: the same for all runs that differ only in the seed."""
        return dataclasses.replace(self, seed=0).identity

    @property
    def entropy(self) -> tuple[int, int]:
        """The 64 bits, as two words, that all randomness of the run comes from; the identity determines them."""
        words = np.frombuffer(self._digest[:8], dtype=">u4")
        return int(words[0]), int(words[1])

    @functools.cached_property
    def _digest(self) -> bytes:
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).digest()


class NamedSettings(NamedTuple):
    """The name of a criterion or a task, with the settings that differ from its defaults."""

    name: str
    settings: Mapping[str, Setting] = {}

    def __repr__(self) -> str:
        return as_call(self)

    @staticmethod
    def parse_all(names: Mapping[str, Mapping[str, Setting]] | Iterable[Any]) -> tuple[NamedSettings, ...]:
        """As people write them: names, a mapping from names to settings, or pairs if a name occurs twice."""
        items = names.items() if isinstance(names, Mapping) else names
        return tuple(NamedSettings(item) if isinstance(item, str) else NamedSettings(*item) for item in items)

    @staticmethod
    def with_settings(
        entries: Iterable[NamedSettings], settings: Mapping[str, Setting], settings_of: Callable[[str], Iterable[str]]
    ) -> tuple[NamedSettings, ...]:
        """Adds each setting to every entry that has a setting of that name; refuses a setting that none has."""
        entries = tuple(entries)
        names = {name: list(settings_of(name)) for name, _ in entries}
        all_names = dict.fromkeys(itertools.chain(*names.values()))
        if unknown := [name for name in settings if name not in all_names]:
            raise RequestError(f"{listed(names)}: no setting {listed(unknown)!r}: {choices(min(unknown), all_names)}")
        return tuple(
            NamedSettings(
                name, {**entry_settings, **{key: value for key, value in settings.items() if key in names[name]}}
            )
            for name, entry_settings in entries
        )

    def plain(self) -> list[Any]:
        return [self.name, dict(self.settings)]


Better = Literal["higher", "lower", "neither"]
ScoreKind = Literal["metric", "criterion", "task", "training"]  # of codes, without labels, in use, or during training


@dataclasses.dataclass(frozen=True)
class Score:
    """One row of results: one number about one run, with everything needed to compute it again."""

    run: str
    metric: str
    value: float
    kind: ScoreKind = "metric"
    preset: str = ""
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    better: Better = "higher"
    supervised: bool = False  # whether it used factors
    matrix: str = ""  # the matrix of a unified score
    rule: str = ""  # the rule that turns that matrix into one number
    samples_of: str = ""  # for a score of sampled codes: the name of the same score of their means
    pictures: int = 0  # how many pictures were encoded
    draw: int = 0  # the seed of everything random
    repeats: int = 1  # how often rows were drawn
    models: int = 1  # how many models were compared with each other, this one included
    flags: tuple[str, ...] = ()
    interval: tuple[float, float] | None = None
    seconds: float = 0.0
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        return as_call(self)
