"""Draws docs/pictures/abstract_reasoning.png: questions of abstract reasoning, as nets and people see them.

python docs/make_questions.py

The first matrices with one, two and three relations, by a fixed seed, with easy answers and then with hard ones: none
is picked because it is pretty.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt8
from make_metric_pictures import FADED, FOLDER, INK, LINE, STYLE
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sober.tasks.matrices import ANSWERS, RELATIONS, SIDE, Kind, Questions, draw_questions
from sober.tasks.panels import Panels, panels_of
from sober.worlds import world

WORLD, SEED = "abstract_dsprites", 0
KINDS: tuple[Kind, Kind] = ("easy", "hard")
LETTERS = "ABCDEF"
GAP = 0.07  # between pictures, in pictures


def main() -> None:
    panels = panels_of(world(WORLD))
    with rc_context(STYLE):
        figure = Figure(figsize=(8.7, 10.8), dpi=120)
        FigureCanvasAgg(figure)
        for row, kind in enumerate(KINDS):
            rng = np.random.default_rng(SEED)
            questions = draw_questions(rng, panels.sizes, 50, kind)
            pictures = shown(panels, questions, rng)
            for column in range(RELATIONS):
                number = int(np.argmax(questions.related.sum(axis=1) == column + 1))
                place = ((column + 0.05) / RELATIONS, (1 - row) / len(KINDS), 0.9 / RELATIONS, 1 / len(KINDS))
                names = [panels.factors[factor].name for factor in np.flatnonzero(questions.related[number])]
                draw(figure.add_axes(place), pictures[number], int(questions.right[number]), kind, names)
        figure.savefig(FOLDER / "abstract_reasoning.png", metadata={"Software": None})


def shown(panels: Panels, questions: Questions, rng: np.random.Generator) -> UInt8[np.ndarray, "n 14 H W C"]:
    """The pictures of questions: eight of the context, six answers."""
    numbers = panels.numbers(np.concatenate([questions.context, questions.answers], axis=1), rng)
    return panels.render(numbers.ravel()).reshape(*numbers.shape, *panels.image_shape)


def draw(axes: Axes, pictures: UInt8[np.ndarray, "14 H W C"], right: int, kind: Kind, names: list[str]) -> None:
    """A matrix with its last picture missing, and the answers below."""
    spots = [(number % SIDE, number // SIDE) for number in range(SIDE**2)]
    below = SIDE + 0.35
    spots[-1:] = [(number % SIDE, below + number // SIDE * 1.2) for number in range(ANSWERS)]
    for picture, (x, y) in zip(pictures, spots, strict=True):
        left, top = x * (1 + GAP), y * (1 + GAP)
        axes.imshow(picture, extent=(left, left + 1, top + 1, top), interpolation="bilinear")
        axes.add_patch(Rectangle((left, top), 1, 1, fill=False, edgecolor=LINE, linewidth=0.8))
    last = (SIDE - 1) * (1 + GAP)
    axes.add_patch(Rectangle((last, last), 1, 1, fill=False, edgecolor=LINE, linewidth=0.8, linestyle=(0, (3, 3))))
    axes.text(last + 0.5, last + 0.5, "?", ha="center", va="center", fontsize=22, color=FADED)
    for number, (x, y) in enumerate(spots[-ANSWERS:]):
        axes.text(
            x * (1 + GAP) + 0.5, y * (1 + GAP) + 1.03, LETTERS[number], ha="center", va="top", fontsize=9, color=FADED
        )
    end = (spots[-1][1] + 1) * (1 + GAP)
    axes.text(0, -0.12, kind, weight="bold", color=INK, va="bottom")
    constant = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    axes.text(0, end + 0.28, f"{LETTERS[right]}: rows share {constant}", fontsize=8, color=FADED, va="top")
    axes.set(xlim=(-GAP, SIDE * (1 + GAP)), ylim=(end + 0.55, -0.5), aspect="equal")
    axes.set_axis_off()


if __name__ == "__main__":
    main()
