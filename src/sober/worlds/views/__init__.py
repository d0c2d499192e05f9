"""Views of a world: the same pictures, some of them, or all of them drawn with other probabilities.

    heads | joint azimuth elevation D             two factors sampled together (Chen et al. 2018, A to D)
    heads | joint azimuth elevation table.csv     the same with your own table: a row for each class of the first
    teapots | without red > green + 0.15 and elevation > pi / 4       a region held out; `only` shows that region
    teapots | without gap                         a region that has a name in this world
    dsprites | keep x y shape=heart scale=5       factors that vary; the others stay at a class, by default the first
    dsprites | keep shape=heart                   one factor stays at a class; all others vary
    dsprites | hide shape                         a nuisance: it varies, but is not among the labels
    dsprites | part train 0.8                     a fixed split: `part test 0.8` has the other pictures

A view is a world, so a view of a view is possible. To add a view: its file here, one line in `VIEWS`, its test.
"""

from __future__ import annotations

from collections.abc import Callable

from sober.errors import RequestError, brief, choices
from sober.worlds.views.base import View
from sober.worlds.views.hide import Hide
from sober.worlds.views.joint import Joint
from sober.worlds.views.keep import Keep
from sober.worlds.views.part import Part
from sober.worlds.views.without import Only, Without
from sober.worlds.world import World

# By the first word of a view: a function of the world and of the text after that word.
VIEWS: dict[str, Callable[[World, str], World]] = {
    "hide": Hide.read,
    "joint": Joint.read,
    "keep": Keep.read,
    "only": Only,
    "part": Part.read,
    "without": Without,
}


def view(base: World, text: str) -> World:
    """The view of a world that one of `WorldSpec.views` describes, such as `part train 0.8`."""
    word, _, arguments = text.strip().partition(" ")
    if word not in VIEWS:
        raise RequestError(f"unknown view {word!r} of {base.spec}: {choices(word, VIEWS)}")
    try:
        return VIEWS[word](base, arguments.strip())
    except RequestError:
        raise
    except (ValueError, IndexError) as error:
        raise RequestError(f"{text!r} cannot be read ({brief(error)}): see the page on views for examples") from error


__all__ = ["VIEWS", "Hide", "Joint", "Keep", "Only", "Part", "View", "Without", "view"]
