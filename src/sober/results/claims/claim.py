"""A claim of a paper: what it says, the line that decides it, and the verdict that results give.

A condition is a number of ours with its 95% interval, and a line. It holds if the interval lies wholly on the right
side of the line, it does not if the interval lies wholly on the other side, else nobody can tell. The lines were fixed
before anybody looked at the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from sober.results.runs import Runs
from sober.results.stats import Interval
from sober.short_text import as_call

Verdict = Literal["holds", "in part", "does not", "cannot tell"]


class Condition(NamedTuple):
    """What must be true of a number, and whether it is: True, False, or None if nobody can tell."""

    words: str  # "rank correlation of sampled TC with β of beta_vae is below 0"
    holds: bool | None
    numbers: tuple[Interval, ...] = ()  # they decide it

    def __repr__(self) -> str:
        return as_call(self)


def above(words: str, number: Interval, line: float) -> Condition:
    """The number is above the line."""
    return Condition(words, _side(number, line), (number,))


def below(words: str, number: Interval, line: float) -> Condition:
    """The number is below the line."""
    side = _side(number, line)
    return Condition(words, None if side is None else not side, (number,))


def within(words: str, number: Interval, reach: float) -> Condition:
    """The number is at most `reach` from 0."""
    if number.low is None or number.high is None:
        return Condition(words, None, (number,))
    inside, outside = -reach < number.low <= number.high < reach, number.low > reach or number.high < -reach
    return Condition(words, True if inside else False if outside else None, (number,))


def _side(number: Interval, line: float) -> bool | None:
    """True if the interval lies above the line, False if below, None if the line is in it or there is no interval."""
    if number.low is None or number.high is None:
        return None
    return True if number.low > line else False if number.high < line else None


def at_least(words: str, least: int, cells: Sequence[bool | None], numbers: Sequence[Interval] = ()) -> Condition:
    """At least `least` cells hold: false if too many do not, None if it depends on cells that nobody can tell."""
    surely, perhaps = sum(cell is True for cell in cells), sum(cell is not False for cell in cells)
    holds = True if surely >= least else False if perhaps < least else None
    return Condition(words, holds, tuple(numbers))


class Decision(NamedTuple):
    """The verdict that results give, and the numbers behind it."""

    conditions: tuple[Condition, ...]
    ours: str  # our numbers in words, with intervals
    models: str  # on what: worlds, models, steps
    needs: str = ""  # what would decide it, if nobody can tell

    @property
    def verdict(self) -> Verdict:
        return verdict([condition.holds for condition in self.conditions])

    def __repr__(self) -> str:
        return as_call(self)


def verdict(conditions: Sequence[bool | None]) -> Verdict:
    """A claim that says several things holds if all do, and in part if some do and some do not.

    Without any condition, as where all its models are missing, nobody can tell.
    """
    if conditions and all(conditions):
        return "holds"
    if any(condition is False for condition in conditions):
        return "in part" if any(conditions) else "does not"
    return "cannot tell"


class Claim(NamedTuple):
    """A finding of a paper that results can decide. `decide` takes the runs of its sets of models by their letters."""

    number: int
    title: str  # a few words
    sentence: str
    place: str  # in the paper
    printed: str  # the paper's number, or what it says instead
    sets: str  # letters of the sets of models that it needs, such as AB
    line: str  # how it is decided, in words
    command: str  # that shows the numbers, or makes the models
    decide: Callable[[Mapping[str, Runs]], Decision] | None = None  # None if no models are there to decide it

    def __repr__(self) -> str:
        return as_call(self)


def in_words(number: Interval, digits: int = 2, unit: str = "") -> str:
    """A number with its interval: 0.43 (0.31 to 0.55)."""
    value, low, high = ("none" if end is None else f"{end:.{digits}f}".replace("-", "−") + unit for end in number)
    return value if number.low is None else f"{value} ({low} to {high})"
