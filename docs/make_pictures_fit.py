"""Draws docs/pictures/pictures_fit.png: one wide picture, and what crop, pad and stretch make of it.

python docs/make_pictures_fit.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageDraw

from sober.worlds.pictures.frame import Frame

HERE = Path(__file__).parent
PAPER, INK = "#e6e7eb", "#1b1b1f"
SIDE = 64


def landscape() -> Image.Image:
    """A tree, a round sun, a house: with a circle to see its shape by, and something at either edge to lose."""
    large = Image.new("RGB", (1440, 960), "#9cc9ea")
    draw = ImageDraw.Draw(large)
    draw.rectangle((0, 640, 1440, 960), fill="#7fae58")
    draw.ellipse((560, 110, 860, 410), fill="#f6c945")
    draw.rectangle((190, 470, 240, 760), fill="#6b4a2f")
    draw.ellipse((50, 230, 380, 560), fill="#3f7a3c")
    draw.rectangle((1010, 480, 1350, 780), fill="#d9694f")
    draw.polygon([(960, 490), (1400, 490), (1180, 300)], fill="#7c3b35")
    draw.rectangle((1130, 620, 1230, 780), fill="#4c2b27")
    return large.resize((360, 240), Image.Resampling.LANCZOS)


def main() -> None:
    picture = landscape()
    pictures_by_title = [(f"a file, {picture.width} x {picture.height}", np.asarray(picture))]
    pictures_by_title += [
        (f"fit={fit}, {SIDE} x {SIDE}", Frame.of(SIDE, fit, "rgb").fitted(picture))  # what `pictures:folder=…` does
        for fit in ("crop", "pad", "stretch")
    ]
    figure = Figure(figsize=(8.2, 2.1), dpi=150, facecolor=PAPER)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 4, width_ratios=[1.5, 1, 1, 1])
    figure.subplots_adjust(left=0.02, right=0.98, bottom=0.04, top=0.82, wspace=0.08)
    for axes, (title, image) in zip(panels, pictures_by_title, strict=True):
        axes.imshow(image, interpolation="nearest")
        axes.set_title(title, fontsize=9, color=INK, loc="left")
        axes.axis("off")
    figure.savefig(HERE / "pictures" / "pictures_fit.png")


if __name__ == "__main__":
    main()
