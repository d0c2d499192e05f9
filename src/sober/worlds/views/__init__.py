"""Views of a world: the same pictures, fewer of them or drawn otherwise.

    heads | joint azimuth elevation D             two factors sampled together (Chen et al. 2018, A to D)
    heads | joint azimuth elevation table.csv     likewise, by a table of one's own: a row for each class of the first
    teapots | without red > green + 0.15 and elevation > pi / 4       a region held out; `only` shows that region
    teapots | without gap                         a region that the world has a name for
    dsprites | keep x y shape=heart scale=5       factors that vary; the others stay at a class, by default the first
    dsprites | keep shape=heart                   one factor stays at a class; all others vary
    dsprites | hide shape                         a factor that varies and that nobody asks about
    dsprites | part train 0.8                     a fixed split: `part test 0.8` are the others

A view is a world like any other, so views can follow each other. What a model was trained on is part of its run. To add
one: its file here, one line in `VIEWS`, its test.
"""

from __future__ import annotations

from collections.abc import Callable

from sober.errors import RequestError, brief, listed
from sober.worlds.views.base import View
from sober.worlds.views.hide import Hide
from sober.worlds.views.joint import Joint
from sober.worlds.views.keep import Keep
from sober.worlds.views.part import Part
from sober.worlds.views.without import Only, Without
from sober.worlds.world import World

# By the word that a spec has for each: a function of a world and of what follows that word.
VIEWS: dict[str, Callable[[World, str], World]] = {
    "hide": Hide.read,
    "joint": Joint.read,
    "keep": Keep.read,
    "only": Only,
    "part": Part.read,
    "without": Without,
}


def view(base: World, text: str) -> World:
    """The view that a piece of a world's spec asks for, such as `part train 0.8`."""
    word, _, rest = text.strip().partition(" ")
    if word not in VIEWS:
        raise RequestError(f"unknown view {word!r} of {base.spec}: choose one of {listed(VIEWS)}")
    try:
        return VIEWS[word](base, rest.strip())
    except RequestError:
        raise
    except (ValueError, IndexError) as error:
        raise RequestError(f"{text!r} cannot be read ({brief(error)}): see the page on views for examples") from error


__all__ = ["VIEWS", "Hide", "Joint", "Keep", "Only", "Part", "View", "Without", "view"]
