"""The values that flow through Sober: Factor, Codes, Training, Run, Asked, Score. Each can be saved and looked at."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.errors import RequestError, listed

Kind = Literal["ordinal", "cyclic", "categorical", "continuous"]
Precision = Literal["float32", "bfloat16"]
Setting = float | str | bool  # a hyperparameter: a number varies inside one compiled program, the rest selects one


def _number(name: str, value: Any) -> float:
    """`value` as a finite float, so that 1 and 1.0 are one setting."""
    try:
        number = float(value) + 0.0  # which makes 0.0 of -0.0
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


@dataclasses.dataclass(frozen=True, eq=False)
class Codes:
    """What one model says about N pictures, beside the factors that made them: all that a metric sees.

    Where a factor is not known in some rows (`known`), its column holds a number without meaning there.
    """

    mean: Float[np.ndarray, "N D"]  # or a `scipy.sparse.csr_array` of that shape
    logvar: Float[np.ndarray, "N D"] | None
    factors: Int[np.ndarray, "N K"] | Float[np.ndarray, "N K"]  # classes from 0; real numbers where continuous
    about: tuple[Factor, ...]
    flags: tuple[str, ...] = ()  # what to know before trusting them: `diverged`, `not_finite`
    known: Bool[np.ndarray, "N K"] | None = None  # whether each label is known; None where all are
    groups: Int[np.ndarray, " N"] | None = None  # 0 to G - 1: rows of one group stay on one side of every split
    weights: Float[np.ndarray, " N"] | None = None  # how much each row counts, above 0; None where all count the same
    unit: int = 1  # so many consecutive columns of `mean` make one latent

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


@dataclasses.dataclass(frozen=True)
class Adam:
    """The optimiser of the papers and its settings (Kingma & Ba 2015); defaults of the Sober Look study, Table 4."""

    learning_rate: float = dataclasses.field(default=1e-4, metadata={"help": "Of Adam."})
    b1: float = dataclasses.field(
        default=0.9, metadata={"help": "Of Adam: what it keeps of the mean gradient at each step."}
    )
    b2: float = dataclasses.field(
        default=0.999, metadata={"help": "Of Adam: what it keeps of the mean squared gradient at each step."}
    )
    eps: float = dataclasses.field(
        default=1e-8, metadata={"help": "Of Adam: what is added to the root of the mean square."}
    )
    clip: float | None = dataclasses.field(
        default=None,
        metadata={"help": "The largest norm of the model's gradient: a longer one is cut to it. No limit by default."},
    )

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            object.__setattr__(self, name, value if name == "clip" and value is None else _number(name, value))
        if self.clip is not None and self.clip <= 0:
            raise RequestError(f"clip must be above 0, got {self.clip:g}: leave it out for no limit")

    def plain(self) -> dict[str, float]:
        """Its settings as plain values. `clip` came later than runs that did without: it is left out where there is no
        limit, so that those keep their identities."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


ADAM = Adam()


@dataclasses.dataclass(frozen=True)
class Training:
    """How models are trained, whatever their method. Defaults: the Sober Look study, Tables 2 and 4.

    The command line, `grid`, `Product`, `fit` and `tune` take their options from here.
    """

    steps: int = dataclasses.field(default=300_000, metadata={"help": "Optimiser steps of each model."})
    batch: int = dataclasses.field(default=64, metadata={"help": "Pictures in a step."})
    latents: int = dataclasses.field(default=10, metadata={"help": "How many latents each model has."})
    nets: str | None = dataclasses.field(
        default=None, metadata={"help": "Which nets; by default those that suit the picture's size."}
    )
    optimiser: Adam = dataclasses.field(default=ADAM, metadata={"help": "The optimiser and its settings."})
    precision: Precision | None = dataclasses.field(
        default=None,
        metadata={
            "help": "Of matrix products; bfloat16 on a GPU and float32 on a CPU by default; weights are float32."
        },
    )

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "latents"):
            object.__setattr__(self, name, _whole(name, getattr(self, name), 1))
        if self.precision is not None and self.precision not in get_args(Precision):
            raise RequestError(f"precision {self.precision!r} is unknown: choose one of {listed(get_args(Precision))}")

    def but(self, **changes: Any) -> Training:
        """The same with some options changed, also those of the optimiser: `but(steps=600, learning_rate=1e-3)`."""
        of_adam = {field.name for field in dataclasses.fields(Adam)}
        own = {field.name for field in dataclasses.fields(self)}
        if unknown := changes.keys() - of_adam - own:
            raise RequestError(f"training has no option {listed(unknown)}: it has {listed(own | of_adam)}")
        optimiser = changes.get("optimiser", self.optimiser)
        inner = {name: value for name, value in changes.items() if name in of_adam}
        outer = {name: value for name, value in changes.items() if name in own}
        return dataclasses.replace(self, **outer | {"optimiser": dataclasses.replace(optimiser, **inner)})

    @staticmethod
    def options() -> frozenset[str]:
        """Every name that `but` takes."""
        return frozenset(field.name for kind in (Training, Adam) for field in dataclasses.fields(kind))


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

    def __hash__(self) -> int:
        return hash(self.identity)

    def canonical(self) -> dict[str, Any]:
        """The run as plain values, always in the same form: what is stored, and what the identity is a hash of."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, "hyper": dict(self.hyper), "optimiser": self.optimiser.plain()}

    @staticmethod
    def of(canonical: Mapping[str, Any]) -> Run:
        """The run whose `canonical()` this is."""
        return Run(**{**canonical, "optimiser": Adam(**canonical["optimiser"])})

    @property
    def identity(self) -> str:
        """16 hexadecimal digits that name this run everywhere."""
        return self._digest[:8].hex()

    @property
    def seedless(self) -> str:
        """The identity of what it shares with runs that differ from it in nothing but the seed."""
        return dataclasses.replace(self, seed=0).identity

    @property
    def entropy(self) -> tuple[int, int]:
        """64 bits from which all randomness of the run is drawn, as two words: a function of the identity alone."""
        words = np.frombuffer(self._digest[:8], dtype=">u4")
        return int(words[0]), int(words[1])

    @functools.cached_property
    def _digest(self) -> bytes:
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).digest()


class Asked(NamedTuple):
    """A criterion or a task by name, with those of its settings that differ from its own."""

    name: str
    settings: Mapping[str, Setting] = {}

    @staticmethod
    def all(asked: Mapping[str, Mapping[str, Setting]] | Iterable[Any]) -> tuple[Asked, ...]:
        """What was asked as people write it: names, names with settings, or several of one name as pairs."""
        if isinstance(asked, Mapping):
            asked = asked.items()
        return tuple(Asked(named) if isinstance(named, str) else Asked(*named) for named in asked)

    @staticmethod
    def each_with(
        asked: Iterable[Asked], settings: Mapping[str, Setting], settings_of: Callable[[str], Iterable[str]]
    ) -> tuple[Asked, ...]:
        """Settings go to each that has one of that name; one that none has is refused."""
        asked = tuple(asked)
        known = {name: list(settings_of(name)) for name, _ in asked}
        every = dict.fromkeys(itertools.chain(*known.values()))
        if unknown := [name for name in settings if name not in every]:
            raise RequestError(f"no setting {listed(unknown)!r}: {listed(known)} have {listed(every) or 'none'}")
        return tuple(
            Asked(name, {**own, **{setting: value for setting, value in settings.items() if setting in known[name]}})
            for name, own in asked
        )

    def plain(self) -> list[Any]:
        return [self.name, dict(self.settings)]


Better = Literal["higher", "lower", "neither"]
ScoreKind = Literal["metric", "criterion", "task", "training"]  # on codes, without labels, in use, or while it trained


@dataclasses.dataclass(frozen=True)
class Score:
    """One row of results: one number about one run, with all that is needed to read it and to compute it again."""

    run: str
    metric: str
    value: float
    kind: ScoreKind = "metric"
    preset: str = ""
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    better: Better = "higher"
    supervised: bool = False  # whether it looked at factors
    matrix: str = ""  # of a unified score: what was estimated,
    rule: str = ""  # and what made one number of it
    samples_of: str = ""  # of a score of sampled codes: the same score of their means
    pictures: int = 0  # whose codes it is a number about
    draw: int = 0  # the seed of all that was drawn
    repeats: int = 1  # how often rows were drawn
    models: int = 1  # that were compared with each other, itself among them
    flags: tuple[str, ...] = ()
    interval: tuple[float, float] | None = None
    seconds: float = 0.0
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
