"""Draws docs/pictures/two_seeds.png: two models of one setting, from results that come with Sober.

python docs/make_first_picture.py [NAME]

One of the best models, and beside it the lowest of the same setting, as the report begins. Each row moves one latent
and is named after the factors that it tells of.
"""

from __future__ import annotations

import sys

import numpy as np
from make_metric_pictures import FADED, FOLDER, INK, STYLE
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import sober
from sober.report.pair import QUIET, pair_of, row_names
from sober.report.showcase import STEPS, load_showcase, shown_path
from sober.results.runs import as_runs
from sober.results.shipped import find_shipped

NAME = "rooms_on_a_cpu"
PLACES = np.linspace(0, STEPS - 1, 7).round().astype(int)  # pictures of a row
GAP = 0.06  # between pictures, in pictures
LABEL, EDGE, CELL = 1.9, 0.15, 0.56  # room for names and at the other edge, in pictures; and inches a picture


def main(name: str) -> None:
    folder, runs = find_shipped(name), as_runs(sober.results(name).table())
    models = [load_showcase(shown_path(folder, run)) for run in pair_of(runs)]
    numbers = dict(zip(runs.labels("run"), runs.columns([runs.leading()])[:, 0].tolist(), strict=True))
    rows = max(int((arrays["kl"] >= QUIET).sum()) for arrays, _ in models)
    width, height = LABEL + len(PLACES) + EDGE, rows + 1.1
    with rc_context(STYLE):
        figure = Figure(figsize=(len(models) * width * CELL, height * CELL), dpi=150)
        FigureCanvasAgg(figure)
        for place, (arrays, about) in enumerate(models):
            axes = figure.add_axes((place / len(models), 0, 1 / len(models), 1))
            axes.set(xlim=(-LABEL, len(PLACES) + EDGE), ylim=(height - 1, -1))
            axes.axis("off")
            said = f"{runs.leading()} {numbers[about['run']]:.2f}"
            axes.text(0, -0.25, f"seed {about['seed']}", fontsize=11, weight="bold", color=INK, va="bottom")
            axes.text(len(PLACES), -0.25, said, fontsize=9, color=FADED, va="bottom", ha="right")
            draw(axes, arrays, row_names(arrays, about))
        figure.savefig(FOLDER / "two_seeds.png", metadata={"Software": None})


def draw(axes: Axes, arrays: dict[str, np.ndarray], names: list[str]) -> None:
    """A row for each latent that is not quiet, the most informative first."""
    used = [latent for latent in np.argsort(-arrays["kl"], kind="stable") if arrays["kl"][latent] >= QUIET]
    for row, latent in enumerate(used):
        for column, picture in enumerate(arrays["traversals"][latent][PLACES]):
            extent = (column + GAP / 2, column + 1 - GAP / 2, row + 1 - GAP / 2, row + GAP / 2)
            colours = np.broadcast_to(picture, (*picture.shape[:2], 3))  # grey has one channel
            axes.imshow(colours, extent=extent, interpolation="bilinear", aspect="auto")
        label = names[latent].replace(" + ", "\n+ ").replace("_", " ")
        axes.text(-0.15, row + 0.5, label, fontsize=8, color=INK, ha="right", va="center")


if __name__ == "__main__":
    main(*sys.argv[1:] or [NAME])
