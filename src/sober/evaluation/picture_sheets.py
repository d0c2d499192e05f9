"""Sheets of pictures, one PNG each: a world's pictures, and the effect of each latent of a model."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from sober.errors import RequestError, brief, counted
from sober.evaluation.showcase import sampled_showcases
from sober.files import replacing
from sober.models.model import Model
from sober.results.latent_names import QUIET, factors_of_latents, latent_words
from sober.results.showcase_files import SPAN, STEPS, load_showcase, showcase_path
from sober.setting_words import words_for_people
from sober.types import Factor, Run
from sober.worlds import World

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = np.linspace(0, STEPS - 1, 7).round().astype(int)  # the steps of a traversal that a row shows
ROWS = 16  # latents of a model that are drawn, at most
PANELS_ACROSS = 2
CELL = 0.56  # inches a picture
LABEL, EDGE = 2.15, 0.15  # room for words on the left, and on the right, in pictures
HEAD, ORIGINALS, FOOT = 1.05, 2.35, 0.75  # above the pictures, for originals and their reconstructions, and below
GAP = 0.03  # at each side of a picture, in pictures
LINE_HEIGHT = 0.235  # of small text, in pictures
WORDS_WIDTH, TITLE_WIDTH = 17, 44  # letters in a line
COARSE = 32  # pixels: pictures with a shorter side are drawn with sharp pixels
PAPER, INK, FADED, LINE = "#ffffff", "#1b1b1f", "#6b6d76", "#d5d6db"


class ModelPictures(NamedTuple):
    """What a sheet draws about one model: its showcase, in numbers and words."""

    title: str
    note: str  # below the title
    arrays: Mapping[str, np.ndarray]  # of `sober.evaluation.showcase`; empty if the model has none
    words: Sequence[str] = ()  # for each latent; empty where nothing can be told
    knows_factors: bool = False  # whether the words are names of factors
    span: float = SPAN  # how far a row moves its latent, either way

    @property
    def informative(self) -> list[int]:
        """The latents that carry something, the most first."""
        if not self.arrays:
            return []
        order = np.argsort(-self.arrays["kl"], kind="stable")
        return [int(latent) for latent in order if self.arrays["kl"][latent] >= QUIET]

    @property
    def remark(self) -> str:
        """What a panel says below its rows."""
        if not self.arrays:
            return "Its codes are not finite: there is nothing to draw."
        too_many = len(self.informative) - ROWS
        quiet = [str(latent) for latent in range(len(self.arrays["kl"])) if latent not in self.informative]
        parts = [f"{counted(too_many, 'more latent')} not drawn."] if too_many > 0 else []
        if len(quiet) == 1:
            parts.append(f"Latent {quiet[0]} carries little and is not drawn.")
        elif quiet:
            parts.append(f"Latents {', '.join(quiet)} carry little and are not drawn.")
        return " ".join(parts)


def contact_sheet(world: World, path: Path, *, seed: int = 0) -> None:
    """Random pictures on top, then one row per factor in which only that factor changes."""
    columns = 12
    samples = world.sample(seed, 2 * columns).images
    base = int(np.asarray(world.index(jax.random.key(seed), 1))[0])
    rows: list[tuple[str, np.ndarray]] = [("random", samples[:columns]), ("", samples[columns:])]
    for k, factor in enumerate(world.factors):
        if (varied := world.vary(base, k, columns)) is not None:
            rows.append((f"{factor.name}\n{_extent(factor)}", varied))
    left, top = 2.6, 1.3
    figure, axes = _page(left + columns + EDGE, top + len(rows) + 0.3 + EDGE)
    axes.text(left, top - 0.3, world.name, fontsize=11, color=INK, weight="bold", va="bottom")
    axes.text(left + columns, top - 0.3, world.summary, fontsize=8, color=FADED, va="bottom", ha="right")
    for row, (label, images) in enumerate(rows):
        y = top + row + 0.3 * (row > 1)
        _strip(axes, images, x=left, y=y)
        axes.text(left - 0.15, y + 0.5, label, fontsize=7.5, color=INK, ha="right", va="center")
    _save(figure, path)


def traversals(
    models: Sequence[Model],
    world: World,
    path: Path,
    *,
    seed: int = 0,
    saved: Path | None = None,
    words: Callable[[Run], str] | None = None,
    span: float = SPAN,
) -> None:
    """Draws what each latent does, for several models side by side.

    On top are pictures, and below each picture what the model makes of it. Then comes a row for each latent that
    carries something, the most informative first: this latent runs from -span to span, and the others stay as they are.
    Words beside it name the factors that it represents, or what it does to the picture. If all models have a showcase
    in the folder of results `saved`, and `seed` and `span` are the usual ones, the sheet draws those. `words` says the
    setting of a run; by default it names the settings in which these models differ.
    """
    if not models:
        raise RequestError("no model to draw")
    usual = (seed, span) == (0, SPAN)
    paths = [showcase_path(saved, model.run.identity) for model in models] if saved and usual else []
    words = words or words_for_people([model.run for model in models])
    is_saved = bool(paths) and all(path.exists() for path in paths)
    if is_saved:
        showcases = [load_showcase(path) for path in paths]
    else:
        showcases = sampled_showcases(models, world, seed=seed, span=span)
    panels = [
        _model_pictures(model, words(model.run), *described)._replace(span=span)
        for model, described in zip(models, showcases, strict=True)
    ]
    _save(sheet(panels), path)


def sheet(models: Sequence[ModelPictures], *, foot: bool = True) -> Figure:
    """Models side by side, two in a row, and below them how to read the rows."""
    across = min(PANELS_ACROSS, len(models))
    width = LABEL + len(SHOWN) + EDGE
    bands = [models[start : start + across] for start in range(0, len(models), across)]
    heights = [max(_height(model) for model in band) for band in bands]
    foot_lines = textwrap.wrap(_how_to_read(models), int(across * width * 7.6)) if foot else []
    figure, axes = _page(across * width, sum(heights) + (0.2 + LINE_HEIGHT * len(foot_lines) if foot else 0))
    top = 0.0
    for band, height in zip(bands, heights, strict=True):
        for place, model in enumerate(band):
            _panel(axes, model, x=place * width + LABEL, top=top)
        top += height
    axes.text(LABEL, top + 0.1, "\n".join(foot_lines), fontsize=8, color=FADED, va="top", linespacing=1.35)
    return figure


def _model_pictures(
    model: Model, setting: str, arrays: Mapping[str, np.ndarray], description: Mapping[str, Any]
) -> ModelPictures:
    title = f"{setting}, seed {model.run.seed}"
    diverged = "" if model.diverged is None else f" · diverged at step {model.diverged}"
    note = f"run {model.run.identity[:8]}{diverged}"
    if not arrays:
        return ModelPictures(title, note, arrays)
    knows_factors = bool(factors_of_latents(arrays, description))
    return ModelPictures(title, note, arrays, latent_words(arrays, description), knows_factors)


def _height(model: ModelPictures) -> float:
    rows = min(len(model.informative), ROWS) + ORIGINALS + 0.15 if model.arrays else 0
    return HEAD + rows + FOOT


def _panel(axes: Axes, model: ModelPictures, *, x: float, top: float) -> None:
    """One model: its title, its reconstructions, and a row for each latent that carries something."""
    title = textwrap.shorten(model.title, TITLE_WIDTH, placeholder=" …")
    axes.text(x, top + HEAD - 0.45, title, fontsize=11, weight="bold", color=INK, va="bottom")
    axes.text(x, top + HEAD - 0.12, model.note, fontsize=8, color=FADED, va="bottom")
    y = top + HEAD
    if model.arrays:
        for label, name in (("original", "pictures"), ("reconstruction", "reconstructions")):
            _strip(axes, model.arrays[name][: len(SHOWN)], x=x, y=y)
            _label(axes, [label], "", x=x, y=y)
            y += 1
        y += ORIGINALS - 2
    for latent in model.informative[:ROWS]:
        _strip(axes, model.arrays["traversals"][latent][SHOWN], x=x, y=y)
        _label(axes, _lines(model.words[latent]), f"latent {latent}", x=x, y=y)
        y += 1
    if model.informative:
        for column, code in ((0, -model.span), (len(SHOWN) // 2, 0), (len(SHOWN) - 1, model.span)):
            value = f"{code:+g}".replace("-", "\u2212") if code else "0"
            axes.text(x + column + 0.5, y + 0.03, value, fontsize=6.5, color=FADED, ha="center", va="top")
        y += 0.25
    remark = "\n".join(textwrap.wrap(model.remark, int(len(SHOWN) * 8.5))[:2])
    axes.text(x, y + 0.05, remark, fontsize=7.5, color=FADED, va="top", linespacing=1.3)


def _lines(words: str) -> list[str]:
    """The words for a latent in short lines, broken between factors or effects if that is enough."""
    lines: list[str] = []
    for name in words.replace(", ", ",\n").replace(" + ", "\n+ ").split("\n"):
        joined = f"{lines[-1]} {name}" if lines else name
        lines = [*lines[:-1], joined] if len(joined) <= WORDS_WIDTH else [*lines, *textwrap.wrap(name, WORDS_WIDTH)]
    return [line for line in lines if line]


def _label(axes: Axes, lines: Sequence[str], below: str, *, x: float, y: float) -> None:
    """Words to the left of a row; `below` them, smaller, which latent it is."""
    small = 1 if below else 0
    start = y + 0.5 - LINE_HEIGHT * (len(lines) + small) / 2
    for line, text in enumerate([*lines, *[below] * small]):
        is_small = line == len(lines)
        size, colour = (6.5, FADED) if is_small else (8, INK)
        place = start + LINE_HEIGHT * (line + 0.5)
        axes.text(x - 0.15, place, text, fontsize=size, color=colour, ha="right", va="center")


def _how_to_read(models: Sequence[ModelPictures]) -> str:
    """The lines below all models."""
    if not any(model.informative for model in models):
        return "No latent carries anything: each model makes the same picture of everything."
    words = (
        "Words name the factors that a latent represents."
        if any(model.knows_factors for model in models)
        else "Words say what was measured to change from left to right. Where no word fits, there is none."
    )
    span = f"{models[0].span:g}"
    rows = f"Each row moves one latent from \u2212{span} to {span}, and the others stay as they are."
    return f"{rows} The most informative latent comes first. {words}"


def _page(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty page whose unit is one picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 -- its import takes a third of a second
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width * CELL, height * CELL), dpi=150, facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


def _strip(axes: Axes, images: np.ndarray, *, x: float, y: float) -> None:
    """Pictures in a row, each with a thin frame, so that white pictures keep their edges."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    side = 1 - 2 * GAP
    for column, image in enumerate(images):
        left, top = x + column + GAP, y + GAP
        sampling = "nearest" if min(image.shape[:2]) < COARSE else "bilinear"
        extent = (left, left + side, top + side, top)
        axes.imshow(_displayable(image), extent=extent, interpolation=sampling, vmin=0, vmax=1, aspect="auto")
        axes.add_patch(Rectangle((left, top), side, side, fill=False, edgecolor=LINE, linewidth=0.5))


def _displayable(image: Any) -> Float[np.ndarray, "H W 3"]:
    image = np.asarray(image)
    image = image / 255 if image.dtype == np.uint8 else image
    if image.shape[2] == 3:
        return image
    if image.shape[2] == 1:
        return np.repeat(image, 3, axis=2)
    return np.repeat(image.mean(axis=2, keepdims=True), 3, axis=2)  # other channels have no colours: show their mean


def _extent(factor: Factor) -> str:
    return f"{factor.size} {factor.kind}" if factor.size else factor.kind


def _save(figure: Figure, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png")
    except OSError as error:
        raise RequestError(f"cannot write {path} ({brief(error)}): choose another --out") from error
