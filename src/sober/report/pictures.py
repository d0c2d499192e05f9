"""Pictures to look at: what a world shows, and what each latent of a model does. One PNG each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

from sober.errors import RequestError, brief
from sober.files import replacing
from sober.methods import METHODS
from sober.models.model import Model, latent_kl
from sober.report.start import SPAN, start_of
from sober.types import Factor
from sober.worlds import World

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INFORMATIVE = 0.01  # nats: a latent whose KL from the prior is below this carries nothing (the UDR paper's threshold)
STEPS = 9  # pictures along a traversal
PANELS_ACROSS = 2
GAP = 1.9  # between panels, in pictures: room for the labels
CELL = 0.46  # inches a picture
TITLE_WIDTH = 54  # letters above a panel
PAPER, INK, FADED = "#e6e7eb", "#1b1b1f", "#8d8f99"  # grey paper, so that white pictures keep their edges


def contact_sheet(world: World, path: Path, *, seed: int = 0) -> None:
    """Random pictures on top, then one row per factor in which only that factor changes."""
    columns = 12
    samples = world.sample(seed, 2 * columns).images
    base = int(np.asarray(world.index(jax.random.key(seed), 1))[0])
    rows: list[tuple[str, np.ndarray]] = [("random", samples[:columns]), ("", samples[columns:])]
    for k, factor in enumerate(world.factors):
        if (varied := world.vary(base, k, columns)) is not None:
            rows.append((f"{factor.name}\n{_extent(factor)}", varied))
    figure, axes = _canvas(columns, _height(len(rows)), left=1.4)
    axes.text(0, -0.8, world.name, fontsize=11, color=INK, weight="bold", va="bottom")
    axes.text(columns, -0.8, world.summary, fontsize=8, color=FADED, va="bottom", ha="right")
    for (label, images), y in zip(rows, _row_places(len(rows)), strict=True):
        _strip(axes, images, x=0, y=y, label=label)
    _save(figure, path)


def traversals(models: Sequence[Model], world: World, path: Path, *, seed: int = 0) -> None:
    """What each latent does, for several models side by side.

    On top, pictures and below each its reconstruction. Then a row per latent, the most informative first: all latents
    stay at the code of one picture while this one runs from -2 to 2. Rows whose latent carries nothing are greyed.
    """
    if not models:
        raise RequestError("no model to draw")
    latents = max(model.run.latents for model in models)
    images = world.sample(seed, 512).images
    across = min(PANELS_ACROSS, len(models))
    panel_width, panel_height = STEPS + GAP, _height(latents + 2) + 1.5
    down = -(-len(models) // across)
    figure, axes = _canvas(across * panel_width - GAP, down * panel_height - 0.7, left=1.0)
    for at, model in enumerate(models):
        _panel(axes, model, images, x=at % across * panel_width, top=at // across * panel_height)
    lines = (
        "each row moves one latent from -2 to 2; beside it the latent's KL in nats;",
        "a grey row carries nothing",
    )
    note = ("\n" if across == 1 else " ").join(lines)  # one panel is narrower than the whole line
    axes.text(0, down * panel_height - 1.35, note, fontsize=7.5, color=FADED, va="top")
    _save(figure, path)


def _panel(axes: Axes, model: Model, images: np.ndarray, *, x: float, top: float) -> None:
    """One model: its title, its reconstructions, and a row for each latent."""
    mean, logvar = model.encode(images)
    kl = latent_kl(mean, logvar)  # (D,)
    places = _row_places(model.run.latents + 2) + top
    axes.text(x, places[0] - 0.7, _title(model), fontsize=9, color=INK, va="bottom", weight="bold")
    _strip(axes, images[:STEPS], x=x, y=places[0], label="picture")
    _strip(axes, model.decode(mean[:STEPS]), x=x, y=places[1], label="again")
    start = start_of(model.decode, mean)
    for latent, y in zip(np.argsort(-kl), places[2:], strict=True):
        codes = np.tile(start, (STEPS, 1))
        codes[:, latent] = np.linspace(-SPAN, SPAN, STEPS)
        label = f"$z_{{{latent}}}$  {kl[latent]:.2f}"
        _strip(axes, model.decode(codes), x=x, y=y, label=label, faded=bool(kl[latent] < INFORMATIVE))


def _row_places(rows: int) -> Float[np.ndarray, " rows"]:
    """Heights of rows: the first two belong together, the rest follow after a little air."""
    return np.arange(rows) * 1.06 + 0.3 * (np.arange(rows) > 1)


def _height(rows: int) -> float:
    return float(_row_places(rows)[-1]) + 1


def _canvas(width: float, height: float, *, left: float) -> tuple[Figure, Axes]:
    """An empty page whose unit is one picture, with room for labels on the left and a title on top."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 -- a third of a second for those who draw
    from matplotlib.figure import Figure  # noqa: PLC0415

    right, top, bottom = 0.3, 0.75, 0.3  # inches
    size = (left + width * CELL + right, top + height * CELL + bottom)
    figure = Figure(figsize=size, dpi=150, facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((left / size[0], bottom / size[1], width * CELL / size[0], height * CELL / size[1]))
    axes.set(xlim=(0, width), ylim=(height - 0.5, -0.5))
    axes.axis("off")
    return figure, axes


def _strip(axes: Axes, images: Any, *, x: float, y: float, label: str, faded: bool = False) -> None:
    """Pictures in a row, with a label to their left."""
    for at, image in enumerate(images):
        shown = _displayable(image)
        if faded:
            shown = 0.80 + 0.10 * shown
        extent = (x + at + 0.03, x + at + 0.97, y + 0.47, y - 0.47)
        axes.imshow(shown, extent=extent, interpolation="nearest", vmin=0, vmax=1, aspect="auto")
    axes.text(x - 0.15, y, label, fontsize=7.5, color=FADED if faded else INK, ha="right", va="center")


def _displayable(image: Any) -> Float[np.ndarray, "H W 3"]:
    image = np.asarray(image)
    image = image / 255 if image.dtype == np.uint8 else image
    if image.shape[2] == 3:
        return image
    if image.shape[2] == 1:
        return np.repeat(image, 3, axis=2)
    return np.repeat(image.mean(axis=2, keepdims=True), 3, axis=2)  # other channels have no colours: show their mean


def _title(model: Model) -> str:
    # Of the hyperparameters the first, which is the main one, and those that are not at their defaults.
    known = METHODS[model.run.method].hyper if model.run.method in METHODS else ()
    usual = {each.name: each.default for each in known[1:]}
    settings = [(name, value) for name, value in model.run.hyper.items() if usual.get(name) != value]
    hyper = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in settings
    )
    diverged = "" if model.diverged is None else f" · diverged at step {model.diverged}"
    seed = f"seed {model.run.seed}{diverged}"
    title = f"{model.run.method}{' ' if hyper else ''}{hyper} · {seed}"
    return title if len(title) <= TITLE_WIDTH else f"{model.run.method} · {seed}\n{hyper}"


def _extent(factor: Factor) -> str:
    return f"{factor.size} {factor.kind}" if factor.size else factor.kind


def _save(figure: Figure, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png")
    except OSError as error:
        raise RequestError(f"cannot write {path} ({brief(error)}): choose another --out") from error
