"""What metrics, criteria and tasks have in common: settings and their validation, cost, progress, lookup by name."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sober.errors import RequestError, choices, shown, unknown
from sober.short_text import as_call
from sober.types import Setting

T = TypeVar("T")
ProgressCallback = Callable[[int, int], None]  # called with the amount done and the total
SEEDS = 2**32  # scikit-learn takes seeds below it; larger ones count modulo it
MOST_REPEATS = 1_000_000  # of draws, shuffles or halves: more would not end
MOST = 10**18  # larger counts do not fit into the integers of arrays


class Cost(NamedTuple):
    """The computing time of a criterion or a task, as an order of magnitude, for plans."""

    seconds: float = 0.0  # on two cores, for all models together
    steps: float = 0.0  # training or decoding, in training steps of a β-VAE, for each model

    def __repr__(self) -> str:
        return as_call(self)


def no_cost(settings: Mapping[str, Setting], models: int) -> Cost:
    """The cost of a quick computation."""
    return Cost()


def no_progress(done: int, total: int) -> None:
    """The progress callback for when nobody watches."""


def configured(
    owner: str,
    settings: Mapping[str, Setting],
    changes: Mapping[str, Setting] | None = None,
    presets: Mapping[str, Mapping[str, Setting]] | None = None,
    preset: str = "",
) -> dict[str, Setting]:
    """Every setting: the defaults, changed first by a preset, then by the user. Refuses wrong changes."""
    presets, changes = presets or {}, {} if changes is None else changes
    if not isinstance(preset, str):
        raise RequestError(f"preset must be a name, such as 'study', not {shown(preset)}")
    refuse_unknown(owner, settings, changes, presets)
    return {**settings, **presets.get(preset, {}), **{name: _plain(value) for name, value in changes.items()}}


def _plain(value: Setting) -> Setting:
    """A number of NumPy as one of Python, which JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value


def counting(settings: Mapping[str, Setting], defaults: Mapping[str, Setting]) -> dict[str, Setting]:
    """Settings for a function. A setting with an integer as its default becomes an integer."""
    return {
        name: int(value) if type(defaults[name]) is int and not isinstance(value, str) else value
        for name, value in settings.items()
    }


def without_later(
    settings: Mapping[str, Setting], defaults: Mapping[str, Setting], later: Container[str]
) -> dict[str, Setting]:
    """Leaves out settings that were added later and have their defaults, so that older rows keep their keys."""
    return {name: value for name, value in settings.items() if name not in later or value != defaults[name]}


def refuse_unknown(
    owner: str,
    settings: Mapping[str, Setting],
    changes: Mapping[str, Setting],
    presets: Mapping[str, Mapping[str, Setting]],
) -> None:
    """Refuses a setting that `owner` does not have, a word where a number is needed or the reverse, and odd numbers.

    A setting whose default is a whole number counts something. It takes whole numbers from 1 on, and from 0 on if its
    default or its value in a preset is 0.
    """
    if not isinstance(changes, Mapping):
        raise RequestError(f"{owner}: settings are names with values, such as {dict(settings)}, not {shown(changes)}")
    for name, value in changes.items():
        if name not in settings:
            raise RequestError(f"{owner} has no setting {shown(name)}: {choices(str(name), settings)}")
        default = settings[name]
        if isinstance(value, str) != isinstance(default, str):
            kind = "a word" if isinstance(default, str) else "a number"
            such_as = "" if default == "" else f", such as {default}"
            raise RequestError(f"{owner}: {name} must be {kind}{such_as}, not {shown(value)}")
        if isinstance(default, bool):
            if not isinstance(value, bool | np.bool_ | numbers.Real) or value not in (True, False):
                raise RequestError(f"{owner}: {name} must be True or False, not {shown(value)}")
        elif isinstance(default, int):
            least = min(1, default, *(int(preset.get(name, 1)) for preset in presets.values()))
            if whole_number(f"{owner}: {name}", value, least=least, example=default) > MOST:
                raise RequestError(f"{owner}: {name} must be at most 10^18, such as {default}, not {shown(value)}")
        elif isinstance(default, float):
            number_between(f"{owner}: {name}", value)


def whole_number(name: str, value: Any, *, least: int = 0, most: float = math.inf, example: int | None = None) -> int:
    """`value` as an integer. Refuses anything but a whole number from `least` to `most`."""
    is_whole = isinstance(value, numbers.Integral) or (is_real(value) and float(value).is_integer())
    if not is_whole or not least <= value <= most:
        ends = f"from {least} on" if math.isinf(most) else f"from {least} to {most:,.0f}"
        such_as = "" if example is None else f", such as {example}"
        raise RequestError(f"{name} must be a whole number {ends}{such_as}, not {shown(value)}")
    return int(value)


def number_between(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """`value` as a float. Refuses anything but a finite number from `low` to `high`."""
    if not is_real(value) or not low <= value <= high:
        ends = f" from {low:g} to {high:g}" if math.isfinite(high) else f" from {low:g} on"
        raise RequestError(f"{name} must be a finite number{ends if math.isfinite(low) else ''}, not {shown(value)}")
    return float(value)


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Refuses anything but one of these words."""
    if not isinstance(value, str) or value not in allowed:
        raise RequestError(f"{name} {shown(value)} is not known: {choices(str(value), allowed)}")


def is_real(value: Any) -> bool:
    """Whether it is a finite real number that a float can hold."""
    try:
        return isinstance(value, numbers.Real) and math.isfinite(value)
    except OverflowError:
        return False


def find(kind: str, registry: Mapping[str, T], name: str, where: str = "") -> T:
    """The entry of a registry. An unknown name is refused with the names that are most like it."""
    if not isinstance(name, str) or name not in registry:
        raise unknown(kind, registry, name, where)
    return registry[name]
