"""The search space: ranges of hyperparameters, as a person types them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from sober.errors import RequestError
from sober.settings_text import text_of, value_of
from sober.short_text import as_call
from sober.types import Setting

DIGITS = 4  # of each number tried, so that a person who types a printed setting gets the same run
FORM = "NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=VALUE,VALUE,…"


@dataclasses.dataclass(frozen=True)
class Range:
    """The values to try: `choices`, or numbers from `low` to `high`, spread evenly or (with `log`) by logarithm."""

    low: float = math.nan
    high: float = math.nan
    log: bool = False
    choices: tuple[Setting, ...] = ()

    def __post_init__(self) -> None:
        if self.choices:
            choices = tuple(choice if isinstance(choice, str | bool) else float(choice) for choice in self.choices)
            if len(set(choices)) < len(choices):
                raise RequestError(f"{self} names a value twice")
            object.__setattr__(self, "choices", choices)
        elif not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise RequestError(f"{self} is not a range: give two numbers, as in 1..16, or values, as in 1,4,16")
        elif not self.low < self.high:
            raise RequestError(f"{self} is not a range: its first number must be the smaller one")
        elif self.log and self.low <= 0:
            raise RequestError(f"{self} has no logarithm: begin above 0, or leave :log out")

    def __repr__(self) -> str:
        return as_call(self)

    def __str__(self) -> str:
        if self.choices:
            return ",".join(map(text_of, self.choices))
        return f"{text_of(float(self.low))}..{text_of(float(self.high))}{':log' * self.log}"

    @property
    def ends(self) -> tuple[Setting, ...]:
        """A method that allows these values allows the whole range."""
        return self.choices or (float(self.low), float(self.high))

    def tidy(self, value: Setting) -> Setting:
        """Rounds a number to few digits, but not out of the range. Other values stay as they are."""
        if self.choices or not isinstance(value, float):
            return value
        return min(max(float(f"{value:.{DIGITS}g}"), float(self.low)), float(self.high))


def parse_space(texts: Sequence[str]) -> dict[str, Range]:
    """Reads `["beta=1..16:log", "estimator=weighted,stratified"]` as ranges by name."""
    space: dict[str, Range] = {}
    for text in texts:
        name, _, values = text.partition("=")
        if not name or not values:
            raise RequestError(f"{text!r} is not of the form {FORM}")
        if name in space:
            raise RequestError(f"{name!r} is given twice: write {name}={space[name]} or {text}")
        space[name] = parse_range(values, text)
    return space


def parse_range(values: str, text: str) -> Range:
    """Reads `1..16`, `1..16:log` or `1,4,16`. Errors quote `text`."""
    low, dots, high_and_scale = values.partition("..")
    if not dots:
        return Range(choices=tuple(map(value_of, values.split(","))))
    high, colon, scale = high_and_scale.partition(":")
    try:
        ends = float(low), float(high)
    except ValueError as error:
        raise RequestError(f"{text!r} is not of the form {FORM}") from error
    if colon and scale != "log":
        raise RequestError(f"{text!r} ends in :{scale}: a range ends in :log or in a number")
    return Range(*ends, log=bool(colon))
