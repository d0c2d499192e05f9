"""Measures the numbers of docs/impossibility.md and draws its picture.

python docs/make_impossibility.py    fills in the tables of the page, and draws docs/pictures/impossibility.png

The factors of `teapots` are taken as a perfect representation, and entangled by the construction of Locatello et al.
(2020), appendix A. All draws have fixed seeds, so the same version of Sober makes the same page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from make_metric_pictures import BLUE, FADED, FOLDER, INK, LINE, ORANGE, STYLE, paper
from matplotlib import rc_context
from matplotlib.axes import Axes
from scipy.stats import norm, ortho_group, uniform

from sober.criteria.model_centrality import model_centrality
from sober.criteria.udr import udr
from sober.metrics import score
from sober.models.model import latent_kl
from sober.types import Codes
from sober.worlds import world

PAGE = Path(__file__).parent / "impossibility.md"
SQUARE = uniform(-(3**0.5), 2 * 3**0.5)  # of mean 0 and variance 1
NOISE = 0.01  # variance of q(z|x), the same for all codes
ROWS, MODELS, DRAWS = 10_000, 8, 20

LABELLED = (
    *("beta_vae", "factor_vae", "mig", "modularity", "dci_disentanglement", "dci_completeness", "sap", "irs"),
    *("explicitness", "dci_informativeness"),
)
ALONE = ("gaussian_total_correlation", "wasserstein_correlation", "mutual_information", "active_latents")


def reflection(d: int, alpha: float = 0.2) -> Float[np.ndarray, "d d"]:
    """The orthogonal matrix of the proof, without a single 0: I − 2vvᵀ with |v| = 1 and v₁² = alpha, below a half."""
    v = np.full(d, ((1 - alpha) / (d - 1)) ** 0.5)
    v[0] = alpha**0.5
    return np.eye(d) - 2 * np.outer(v, v)


def entangled(
    z: Float[np.ndarray, "N d"], mixing: Float[np.ndarray, "d d"], prior: Any = SQUARE
) -> Float[np.ndarray, "N d"]:
    """f(z) of the theorem: distributed as z, whose parts are independent draws of `prior`; all of it depends on all."""
    normal = norm.ppf(prior.cdf(z))
    return prior.ppf(norm.cdf(normal @ mixing.T))


def factors(rows: int, seed: int = 0) -> Float[np.ndarray, "N 5"]:
    """Those of teapots, drawn as the world draws them, each brought to mean 0 and variance 1."""
    low, high = (np.array(end) for end in (world("teapots").low, world("teapots").high))
    drawn = np.random.default_rng(seed).uniform(low, high, (rows, len(low)))
    return SQUARE.ppf((drawn - low) / (high - low))


def model(z: Float[np.ndarray, "N d"], seed: int) -> Codes:
    """A model that has learned z, with its latents in an order and with signs of its own."""
    rng = np.random.default_rng(seed)
    mean = z[:, rng.permutation(z.shape[1])] * rng.choice([-1, 1], z.shape[1])
    return Codes(mean, np.full(mean.shape, np.log(NOISE)), np.zeros((len(z), 0), int), ())


def families(z: Float[np.ndarray, "N d"]) -> dict[str, list[tuple[str, Codes]]]:
    """Families of eight, with what each model has learned: the truth, an f that others share, or one of its own."""
    shared = entangled(z, reflection(z.shape[1]))
    mixtures = [entangled(z, ortho_group.rvs(z.shape[1], random_state=seed)) for seed in range(MODELS)]
    learned = {
        "all learn z": [("z", z)] * MODELS,
        "all learn the same f(z)": [("f(z)", shared)] * MODELS,
        "each learns an f(z) of its own": [("its own f(z)", codes) for codes in mixtures],
        "five learn z, three an f(z) of their own": [("z", z)] * 5
        + [("its own f(z)", codes) for codes in mixtures[:3]],
        "three learn z, five the same f(z)": [("z", z)] * 3 + [("f(z)", shared)] * 5,
    }
    return {
        name: [(kind, model(codes, seed)) for seed, (kind, codes) in enumerate(members)]
        for name, members in learned.items()
    }


def alone(z: Float[np.ndarray, "N d"]) -> dict[str, float]:
    """What can be said about one model without labels."""
    logvar = np.full(z.shape, np.log(NOISE))
    return {**score(z, metrics=list(ALONE)), "KL": float(latent_kl(z, logvar).sum())}


def together(members: Sequence[tuple[str, Codes]]) -> dict[str, dict[str, float]]:
    """By what was learned, the mean score of the models that did, under each criterion that compares models."""
    codes = [model_codes for _, model_codes in members]
    scores = {
        "udr": udr(codes).scores,
        "udr, spearman": udr(codes, similarity="spearman").scores,
        "model_centrality": model_centrality(codes).scores,
    }
    kinds = list(dict.fromkeys(member_kind for member_kind, _ in members))
    chosen = {kind: [place for place, (member_kind, _) in enumerate(members) if member_kind == kind] for kind in kinds}
    return {
        kind: {name: float(np.mean(values[places])) for name, values in scores.items()}
        for kind, places in chosen.items()
    }


# The page.


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---:" if re.match(r"[±\d]", cell) else "---" for cell in rows[0]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def put(page: str, name: str, text: str) -> str:
    """The page with the text between the marks of this name."""
    marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
    if not marks.search(page):
        raise SystemExit(f"{PAGE.name} has no place for {name!r}: write <!-- {name} --> and <!-- end --> where it goes")
    return marks.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page)


def spread(measure: Callable[[np.ndarray], Mapping[str, float]], mixing: np.ndarray) -> dict[str, tuple[float, ...]]:
    """For each score, its mean over draws for z and for f(z), and how far one draw lies from another."""
    drawn = [factors(ROWS, seed) for seed in range(DRAWS)]
    plain, mixed = ([measure(draw) for draw in side] for side in (drawn, [entangled(z, mixing) for z in drawn]))
    return {
        name: (
            float(np.mean([draw[name] for draw in plain])),
            float(np.mean([draw[name] for draw in mixed])),
            float(np.std([draw[name] for draw in plain], ddof=1)),
        )
        for name in plain[0]
    }


def main() -> None:
    z = factors(ROWS)
    mixing = reflection(z.shape[1])
    labelled = [score(codes, z, metrics=list(LABELLED), kinds="continuous") for codes in (z, entangled(z, mixing))]
    one = spread(alone, mixing)
    many = {name: together(members) for name, members in families(z).items()}
    page = PAGE.read_text()
    page = put(
        page,
        "with labels",
        table(
            ["score", "z", "f(z)"],
            [[f"`{name}`", *(f"{scores[name]:.2f}" for scores in labelled)] for name in LABELLED],
        ),
    )
    page = put(
        page,
        "one model",
        table(
            ["of one model", "z", "f(z)", "from draw to draw"],
            [
                [name if name == "KL" else f"`{name}`", f"{a:.4f}", f"{b:.4f}", f"± {c:.4f}"]
                for name, (a, b, c) in one.items()
            ],
        ),
    )
    rows = [
        [family, kind, *(f"{value:.2f}" for value in means.values())]
        for family, kinds in many.items()
        for kind, means in kinds.items()
    ]
    criteria = next(iter(many["all learn z"].values()))
    page = put(page, "many models", table(["eight models", "score of", *(f"`{name}`" for name in criteria)], rows))
    PAGE.write_text(page)
    print(page)
    with rc_context(STYLE):
        draw(labelled, one, many)


# The picture.


class Line(NamedTuple):
    """One score, of z and of f(z). A score that compares models has a third value: each model has an f of its own."""

    name: str
    plain: float
    mixed: float
    own: float | None = None


def draw(
    labelled: Sequence[Mapping[str, float]],
    one: Mapping[str, tuple[float, ...]],
    many: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> None:
    """A grid before and after f, and what each score makes of both."""
    figure = paper(4.5)
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 0.8])
    square(left, "z\nwhat made the pictures", lambda points: points)
    square(middle, "f(z)\njust as likely, entangled", lambda points: entangled(points, reflection(2)))
    truth, alike, apart = (next(iter(kinds.values())) for kinds in list(many.values())[:3])
    dumbbells(
        right,
        {
            "with labels": [Line(name, *(scores[name] for scores in labelled)) for name in LABELLED[:8]],
            "one model, no labels": [Line(name, *one[name][:2]) for name in ALONE[:3]],
            "eight models, no labels": [
                Line(name, truth[name], alike[name], apart[name]) for name in ("udr", "model_centrality")
            ],
        },
    )
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / "impossibility.png", metadata={"Software": None})


def square(axes: Axes, title: str, f: Callable[[np.ndarray], np.ndarray]) -> None:
    """Lines along which one of two factors stays the same, and how often each value of each latent occurs."""
    along = SQUARE.ppf(np.linspace(1e-5, 1 - 1e-5, 1000))
    for value in SQUARE.ppf(np.linspace(0.05, 0.95, 10)):
        constant = np.full_like(along, value)
        axes.plot(*f(np.stack([constant, along], axis=1)).T, color=BLUE, linewidth=1.6)
        axes.plot(*f(np.stack([along, constant], axis=1)).T, color=ORANGE, linewidth=1.6, linestyle=(0, (4, 2)))
    ends = SQUARE.support()
    axes.set(xlim=ends, ylim=ends, xticks=[], yticks=[], aspect="equal", xlabel="first latent", ylabel="second latent")
    drawn = f(SQUARE.rvs((20_000, 2), random_state=0))
    for number, (place, way) in enumerate((((0, 1.02, 1, 0.15), "vertical"), ((1.02, 0, 0.15, 1), "horizontal"))):
        side = axes.inset_axes(place)
        side.hist(drawn[:, number], bins=24, range=ends, color=LINE, orientation=way)
        side.set(**{"xlim" if number == 0 else "ylim": ends})
        side.set_axis_off()
    name, note = title.splitlines()
    axes.set_title(f"{name}\n", weight="bold", loc="left", y=1.17)
    axes.text(0, 1.19, note, transform=axes.transAxes, color=FADED)


def dumbbells(axes: Axes, groups: Mapping[str, Sequence[Line]]) -> None:
    """A row for each score, with marks that can be seen where they coincide."""
    rows: list[Line | str] = [row for group, lines in groups.items() for row in (group, *lines)]
    for place, row in enumerate(rows):
        if isinstance(row, Line):
            axes.plot([row.plain, row.mixed], [place, place], color=LINE, linewidth=3, zorder=1)
            axes.plot(row.mixed, place, "s", color="white", markersize=10, markeredgecolor=ORANGE, markeredgewidth=2)
            axes.plot(row.plain, place, "o", color=BLUE, markersize=5)
            if row.own is not None:
                axes.plot(row.own, place, "x", color=INK, markersize=7, markeredgewidth=2)
    axes.plot([], [], "o", color=BLUE, markersize=5, label="z")
    axes.plot([], [], "s", color="white", markersize=10, markeredgecolor=ORANGE, markeredgewidth=2, label="f(z)")
    axes.plot([], [], "x", color=INK, markersize=7, markeredgewidth=2, label="each its own f(z)")
    axes.legend(loc="lower right", ncols=3, bbox_to_anchor=(1.05, 1.0), handletextpad=0.1, columnspacing=1)
    axes.set_yticks(range(len(rows)), [row.name if isinstance(row, Line) else row for row in rows])
    for row, label in zip(rows, axes.get_yticklabels(), strict=True):
        label.set(color=INK, weight="normal" if isinstance(row, Line) else "bold")
    axes.set(xlim=(-0.07, 1.07), xticks=[0, 0.5, 1], ylim=(len(rows) - 0.4, -0.6))


if __name__ == "__main__":
    main()
