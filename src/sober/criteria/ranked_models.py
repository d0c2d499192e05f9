"""Models and settings with their places in a ranking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sober.short_text import as_call
from sober.types import Run


class RankedModel(NamedTuple):
    """A model and its place."""

    run: Run
    place: int  # 1 is best
    scores: Mapping[str, float]  # by criterion label
    rank: float  # by the rule, or the mean rank under the criteria; the lowest is the best
    first: float  # the share of replicates that put it first
    places: tuple[int, int]  # the range of its places in nine of ten replicates
    informative: int  # number of informative latents
    flags: tuple[str, ...]

    def __repr__(self) -> str:
        return as_call(self)


class RankedSetting(NamedTuple):
    """A setting and its place. Runs of one setting differ only in their seed."""

    words: str
    runs: tuple[Run, ...]
    place: int
    scores: Mapping[str, float]  # medians over seeds
    rank: float
    first: float

    def __repr__(self) -> str:
        return as_call(self)
