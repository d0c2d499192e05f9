"""The values that flow through Sober: Factor, Codes, Run and Score. Each can be saved and looked at."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import operator
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int

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
    """What one model says about N pictures, beside the factors that made them: all that a metric sees."""

    mean: Float[np.ndarray, "N D"]
    logvar: Float[np.ndarray, "N D"] | None
    factors: Int[np.ndarray, "N K"] | Float[np.ndarray, "N K"]  # classes from 0; real numbers where continuous
    about: tuple[Factor, ...]
    flags: tuple[str, ...] = ()  # what to know before trusting them: `diverged`, `not_finite`

    def __post_init__(self) -> None:
        if self.mean.ndim != 2:
            raise RequestError(f"codes must be an (N, D) array, got shape {self.mean.shape}")
        if self.logvar is not None and self.logvar.shape != self.mean.shape:
            raise RequestError(f"logvar has shape {self.logvar.shape}, the codes {self.mean.shape}: they must agree")
        if self.factors.shape != (len(self.mean), len(self.about)):
            raise RequestError(
                f"factors must be ({len(self.mean)}, {len(self.about)}): a row per code, a column per factor; "
                f"got shape {self.factors.shape}"
            )


def written(value: Setting) -> str:
    """A setting as a person writes it: `4`, `0.5`, `weighted`."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def read_setting(text: str) -> Setting:
    """What `written` wrote, or a person typed."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


@dataclasses.dataclass(frozen=True)
class Adam:
    """The optimiser of the papers and its settings (Kingma & Ba 2015); defaults of the Sober Look study, Table 4."""

    learning_rate: float = 1e-4
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            object.__setattr__(self, name, _number(name, value))


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
        return {**fields, "hyper": dict(self.hyper), "optimiser": dataclasses.asdict(self.optimiser)}

    @staticmethod
    def of(canonical: Mapping[str, Any]) -> Run:
        """The run whose `canonical()` this is."""
        return Run(**{**canonical, "optimiser": Adam(**canonical["optimiser"])})

    @property
    def identity(self) -> str:
        """16 hexadecimal digits that name this run everywhere."""
        return self._digest[:8].hex()

    @property
    def entropy(self) -> tuple[int, int]:
        """64 bits from which all randomness of the run is drawn, as two words: a function of the identity alone."""
        words = np.frombuffer(self._digest[:8], dtype=">u4")
        return int(words[0]), int(words[1])

    @functools.cached_property
    def _digest(self) -> bytes:
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).digest()


@dataclasses.dataclass(frozen=True)
class Score:
    """One row of results: one number about one run, with all that is needed to compute it again."""

    run: str
    metric: str
    value: float
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    flags: tuple[str, ...] = ()
    interval: tuple[float, float] | None = None
    seconds: float = 0.0
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
