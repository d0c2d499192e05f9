"""How many more models would decide a claim.

The width of an interval falls with the root of the number of models. So if a number keeps its value, this many times as
many models bring its line to the end of its interval:

    times = (distance from the value to the interval's end / distance from the value to the line)²
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from sober.results.stats import Interval
from sober.short_text import as_call

MANY = 20.0  # times: beyond it, nobody will train the models


class Needed(NamedTuple):
    """What the value of a number says, and how many times as many models would make it sure."""

    is_true: bool
    times: float

    def __repr__(self) -> str:
        return as_call(self)


def needed_above(number: Interval, line: float) -> Needed:
    """Whether the value is above the line."""
    distance = number.value - line
    if number.low is None or not distance:
        return Needed(distance > 0, math.inf)
    end = number.low if distance > 0 else number.high
    return Needed(distance > 0, max(1.0, ((number.value - end) / distance) ** 2))


def needed_below(number: Interval, line: float) -> Needed:
    """Whether the value is below the line."""
    is_above, times = needed_above(number, line)
    return Needed(not is_above, times)


def needed_at_least(least: int, cells: Sequence[Needed]) -> Needed:
    """Whether at least `least` of the cells are true. It is sure once enough of them are."""
    true = sorted(cell.times for cell in cells if cell.is_true)
    if len(true) >= least:
        return Needed(True, true[least - 1] if least else 1.0)
    false = sorted(cell.times for cell in cells if not cell.is_true)
    return Needed(False, false[len(cells) - least])


def needed_all(*cells: Needed) -> Needed:
    """Whether all are true."""
    return needed_at_least(len(cells), cells)


def in_words(needed: Needed, unit: str, number: int, outcomes: tuple[str, str] = ("holds", "does not hold")) -> str:
    """What would decide a claim, with the number that is there: 8 seeds of each setting in place of 5."""
    if needed.times > MANY:
        return (
            f"more {unit} will hardly do: the value is so close to the line that it would take more than {MANY:.0f} "
            "times as many"
        )
    outcome = outcomes[0 if needed.is_true else 1]
    return (
        f"about {math.ceil(needed.times * number):,} {unit} in place of {number:,}. If the values stay where they are, "
        f"these would show that the claim {outcome}"
    )
