"""What a latent does to a picture, in words measured from pictures: "moves right", "gets larger", "changes colour".

`effect_words` compares a traversal (the same picture decoded while one latent rises) with how much pictures differ from
each other. Position, size, width, slant and brightness are measured on the figure, where pictures have one: an even
ground around it. An effect that is small, or that goes back and forth, gets no word. Where no measure tells what
changes, the words say only where in the picture it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

EVEN = 0.06  # how far pixels at the border of a picture with an even ground are from the ground, in the mean
CLEAR = 0.3  # contrast with the ground that the figure of such a picture has
MOST = 0.7  # share of such pictures; if there are fewer, figures are not measured
FIGURE = 0.25  # times the strongest contrast with the ground: pixels beyond it belong to the figure
FAINT = 0.1  # contrast below which a picture has no figure
CHANGED = 0.01  # share of the variance among pictures that a traversal must have
LARGE = 1.0  # spreads among pictures: an effect that is smaller gets no word
STEADY = 0.6  # share of a measure's changes along the traversal that a straight line explains
EDGE = 0.05  # share of a figure beyond its edge
VARIES = 0.01  # spread among pictures below which a measure is the same for all
ALIKE = 0.5  # times the largest change: measures that change at least this much change alike
SECOND = 0.6  # times the largest effect: another effect as large as this gets a word, too
WHOLE = 4.0  # spreads: an effect across the whole range; larger ones count the same
SEEN = 0.6  # share of a traversal's pictures that must have a figure
OF_BRIGHTNESS = 0.5  # share of all change that more or less light everywhere must explain to be called brightness
OF_COLOUR = 0.25  # share of all change that must be in colours, apart from how bright they are, to be called colour
COLOURED = 1.5  # spreads among pictures: the same for colour, whose changes need no direction
CELLS = 4  # rows and columns of cells whose colours are compared, in pictures without an even ground
WORDS = 2  # effects named at most

Pictures = Float[np.ndarray, "n H W C"]


class Effect(NamedTuple):
    """What a latent does that raises or lowers measures of pictures; it has to change all of them alike."""

    rises: str
    falls: str
    measures: tuple[str, ...]


EFFECTS: Mapping[str, Effect] = {
    "x": Effect("moves right", "moves left", ("left", "right")),
    "y": Effect("moves down", "moves up", ("top", "bottom")),
    "size": Effect("gets larger", "gets smaller", ("width", "height")),
    "width": Effect("gets wider", "gets narrower", ("width",)),
    "height": Effect("gets taller", "gets flatter", ("height",)),
    "slant": Effect("leans left", "leans right", ("slant",)),
    "brightness": Effect("gets brighter", "gets darker", ("brightness",)),
}


class Place(NamedTuple):
    """A part of the picture, from 0 to 1 in height and width."""

    rows: tuple[float, float]
    columns: tuple[float, float]
    least: float  # share of all change that must lie in it


PLACES: Mapping[str, Place] = {
    "the middle": Place((0.25, 0.75), (0.25, 0.75), 0.7),
    "the upper half": Place((0, 0.5), (0, 1), 0.8),
    "the lower half": Place((0.5, 1), (0, 1), 0.8),
    "the left half": Place((0, 1), (0, 0.5), 0.8),
    "the right half": Place((0, 1), (0.5, 1), 0.8),
}


def effect_words(arrays: Mapping[str, Any]) -> list[str]:
    """For each latent of a showcase, what it does in words; empty where that cannot be told."""
    typical = _values(arrays["reconstructions"])
    has_ground = has_even_ground(typical)
    return [effect_of(_values(traversal), typical, has_ground=has_ground) for traversal in arrays["traversals"]]


def effect_of(traversal: Pictures, typical: Pictures, *, has_ground: bool) -> str:
    """What changes from the first picture of a traversal to the last, in words."""
    change = traversal.var(axis=0).sum(axis=-1)  # (H, W)
    if not change.sum() > CHANGED * typical.var(axis=0).sum():
        return ""
    has_ground = has_ground and has_even_ground(traversal)
    effects = _effects(_steady_changes(measures(traversal, has_ground), measures(typical, has_ground)))
    if _share_of_brightness(traversal) < OF_BRIGHTNESS:
        effects.pop("brightness", None)
    named = sorted(effects, key=lambda name: (-abs(effects[name]), list(EFFECTS).index(name)))
    named = [name for name in named if abs(effects[name]) >= SECOND * abs(effects[named[0]])][:WORDS]
    words = [EFFECTS[name].rises if effects[name] > 0 else EFFECTS[name].falls for name in named]
    place = _place(change)
    where = "" if has_ground else place
    if _changes_colour(_part(traversal, where), _part(typical, where), has_ground):
        words = [f"changes colour in {where}" if where else "changes colour", *words][:WORDS]
    return ", ".join(words) or (f"changes {place}" if place else "")


def has_even_ground(pictures: Pictures) -> bool:
    """Whether most pictures show something in front of an even ground that reaches all around it."""
    border = _border(pictures)  # (n, pixels, C)
    ground = np.median(border, axis=1, keepdims=True)
    is_even = np.abs(border - ground).mean(axis=(1, 2)) < EVEN
    stands_out = np.abs(pictures - ground[:, None]).max(axis=(1, 2, 3)) > CLEAR
    return bool((is_even & stands_out).mean() >= MOST)


def measures(pictures: Pictures, has_ground: bool) -> dict[str, Float[np.ndarray, " n"]]:
    """Numbers about each picture; NaN where a picture has no figure.

    Edges are in widths or heights of the picture, width and height are logarithms of the figure's spread, and slant is
    the correlation of x and y, which points down.
    """
    light = pictures.mean(axis=-1)  # (n, H, W)
    if not has_ground:
        return {"brightness": light.mean(axis=(1, 2))}
    figures = _figures(pictures).astype(float)
    height, width = figures.shape[1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = figures / figures.sum(axis=(1, 2), keepdims=True)
        across, down = weights.sum(axis=1), weights.sum(axis=2)  # (n, W), (n, H)
        far_x = np.arange(width) - (across @ np.arange(width))[:, None]
        far_y = np.arange(height) - (down @ np.arange(height))[:, None]
        spread_x, spread_y = np.sqrt((across * far_x**2).sum(axis=1)), np.sqrt((down * far_y**2).sum(axis=1))
        slant = np.einsum("nhw,nh,nw->n", weights, far_y, far_x) / (spread_x * spread_y)
        brightness = (weights * light).sum(axis=(1, 2))
        spread = {"width": np.log(spread_x), "height": np.log(spread_y)}
    (left, right), (top, bottom) = _edges(across), _edges(down)
    return {
        "left": left,
        "right": right,
        "top": top,
        "bottom": bottom,
        **spread,
        "slant": slant,
        "brightness": brightness,
    }


def _edges(shares: Float[np.ndarray, "n side"]) -> Float[np.ndarray, "2 n"]:
    """Where a figure begins and ends along one side, from 0 to 1; the share `EDGE` of it lies outside either."""
    ends = np.arange(1, shares.shape[1] + 1) / shares.shape[1]
    return np.array([np.interp([EDGE, 1 - EDGE], np.cumsum(row), ends) for row in shares]).T


def _steady_changes(
    along: Mapping[str, Float[np.ndarray, " n"]], typical: Mapping[str, Float[np.ndarray, " n"]]
) -> dict[str, float]:
    """How far each measure rises or falls along a traversal, in spreads among pictures; only large, steady changes."""
    changes = {}
    for name, values in along.items():
        spread, is_seen = np.nanstd(typical[name]), np.isfinite(values)
        if is_seen.mean() < SEEN or not spread > VARIES:
            continue
        steps = _centred(np.linspace(0, 1, len(values))[is_seen])
        heights = _centred(values[is_seen])
        slope = steps @ heights / (steps @ steps)  # the change along the whole traversal
        explained = slope**2 * (steps @ steps) / max(heights @ heights, 1e-12)
        if abs(slope) >= LARGE * spread and explained >= STEADY:
            changes[name] = float(np.clip(slope / spread, -WHOLE, WHOLE))
    return changes


def _centred(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return values - values.mean()


def _effects(changes: Mapping[str, float]) -> dict[str, float]:
    """The effects whose measures all change alike; the size instead of width and height.

    Figures of different shapes also differ in slant, so slant counts only where nothing else changes.
    """
    effects = {}
    for name, effect in EFFECTS.items():
        rises = [changes.get(measure, 0.0) for measure in effect.measures]
        if min(rises) * max(rises) > 0 and min(map(abs, rises)) >= ALIKE * max(map(abs, rises)):
            effects[name] = float(np.mean(rises))
    said_by_size = EFFECTS["size"].measures if "size" in effects else ()
    effects = {name: change for name, change in effects.items() if name not in said_by_size}
    return effects if effects.keys() == {"slant"} else {n: c for n, c in effects.items() if n != "slant"}


def _share_of_brightness(traversal: Pictures) -> float:
    """The share of a traversal's changes that scaling its mean picture, or adding the same everywhere, explains."""
    rows = traversal.mean(axis=-1).reshape(len(traversal), -1)  # (n, pixels)
    mean = rows.mean(axis=0)
    changes = rows - mean
    basis = np.linalg.qr(np.stack([mean, np.ones_like(mean)], axis=1))[0]
    return float(np.sum((changes @ basis) ** 2) / max(np.sum(changes**2), 1e-12))


def _changes_colour(traversal: Pictures, typical: Pictures, has_ground: bool) -> bool:
    """Whether colours, apart from how bright they are, change more than they differ among pictures."""
    if traversal.shape[-1] != 3:
        return False
    hues = traversal - traversal.mean(axis=-1, keepdims=True)
    if hues.var(axis=0).sum() < OF_COLOUR * traversal.var(axis=0).sum():
        return False
    along, among = _hues(traversal, has_ground), _hues(typical, has_ground)  # (n, values)
    spread = np.sqrt(np.nanvar(among, axis=0).mean())
    distances = np.sqrt(((along[:, None] - along) ** 2).mean(axis=-1))  # (n, n)
    is_smooth = np.diagonal(distances, offset=1).mean() < distances.max() / 2
    return bool(np.isfinite(along).all() and is_smooth and spread > VARIES and distances.max() >= COLOURED * spread)


def _hues(pictures: Pictures, has_ground: bool) -> Float[np.ndarray, "n values"]:
    """The mean colour of the figure, less its brightness; without a ground, of each cell of the picture."""
    hues = pictures - pictures.mean(axis=-1, keepdims=True)
    if not has_ground:
        rows = [band.mean(axis=1) for band in np.array_split(hues, min(CELLS, hues.shape[1]), axis=1)]
        cells = [cell.mean(axis=1) for row in rows for cell in np.array_split(row, min(CELLS, row.shape[1]), axis=1)]
        return np.concatenate(cells, axis=1)
    figures = _figures(pictures)[..., None]
    with np.errstate(invalid="ignore"):
        return (hues * figures).sum(axis=(1, 2)) / figures.sum(axis=(1, 2))


def _place(change: Float[np.ndarray, "H W"]) -> str:
    """The half or the middle of the picture with nearly all of the change; empty if it is spread wider."""
    shares = {place: _part(change[None, ..., None], place).sum() / change.sum() for place in PLACES}
    place = max(shares, key=lambda place: shares[place] - PLACES[place].least)
    return place if shares[place] >= PLACES[place].least else ""


def _part(pictures: Pictures, place: str) -> Pictures:
    """This part of each picture; all of it if `place` is empty."""
    if not place:
        return pictures
    (top, bottom), (left, right) = PLACES[place].rows, PLACES[place].columns
    height, width = pictures.shape[1:3]
    return pictures[:, round(top * height) : round(bottom * height), round(left * width) : round(right * width)]


def _figures(pictures: Pictures) -> Bool[np.ndarray, "n H W"]:
    """The pixels that stand out from the ground."""
    ground = np.median(_border(pictures), axis=1)[:, None, None]
    contrast = np.abs(pictures - ground).max(axis=-1)  # (n, H, W)
    strongest = contrast.max(axis=(1, 2), keepdims=True)
    return (contrast > FIGURE * strongest) & (strongest > FAINT)


def _border(pictures: Pictures) -> Float[np.ndarray, "n pixels C"]:
    inner = np.zeros(pictures.shape[1:3], bool)
    inner[1:-1, 1:-1] = True
    return pictures[:, ~inner]


def _values(pictures: np.ndarray) -> Pictures:
    return pictures / 255 if pictures.dtype == np.uint8 else np.asarray(pictures, float)
