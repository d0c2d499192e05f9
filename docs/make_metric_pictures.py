"""Draws the pictures of docs/metrics: what each metric sees on codes that are easy to understand.

python docs/make_metric_pictures.py            all of them, into docs/pictures
python docs/make_metric_pictures.py mig dci    some of them

Codes are drawn with fixed seeds and every number in a picture is measured, so that the same package draws the same
picture. The scores are also printed, for whoever checks the text of a page.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from sober.estimators.discrete import BINS, binned
from sober.metrics import Scores, as_codes, score
from sober.metrics.common.aggregation import merges
from sober.metrics.common.interventions import differences, draw_pairs, sharing
from sober.metrics.common.metric_rows import TEST, TRAIN, split
from sober.metrics.explicitness import class_areas

FOLDER = Path(__file__).parent / "pictures"
INK, FADED, LINE = "#1b1b1f", "#6b6d76", "#c9cad1"
BLUE, ORANGE, GREEN, PINK = "#0072b2", "#e69f00", "#009e73", "#cc79a7"  # Okabe & Ito: told apart by colour-blind eyes
SHADES = LinearSegmentedColormap.from_list("shades", ["#ffffff", "#cfe3f1", "#5fa4d0", "#0072b2", "#00385a"])
STYLE: Any = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.titlepad": 8,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": FADED,
    "ytick.color": FADED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
}
WIDTH, DPI = 10.0, 120  # inches and dots: 1,200 pixels across
ROWS = 6_400
BLUR = 0.1  # standard deviation of the noise in every toy code, whose latents have a standard deviation of about 1


class Toy(NamedTuple):
    """Codes made on purpose, and the factors they were made from."""

    title: str
    codes: np.ndarray  # (N, D)
    factors: np.ndarray  # (N, K)
    names: tuple[str, ...] = ("x", "y")

    def score(self, *metrics: str, **more: Any) -> Scores:
        scores = score(self.codes, self.factors, metrics=list(metrics) or None, names=self.names, **more)
        print(f"  {self.title.splitlines()[0]}: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))
        return scores


def grid(*sizes: int) -> np.ndarray:
    """Every combination of the factors' values, equally often, some 6,400 rows."""
    cells = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    return np.repeat(cells, max(1, ROWS // len(cells)), axis=0)


def drawn(*sizes: int, rows: int = 10_000) -> np.ndarray:
    """Factors with values at random."""
    return np.stack([np.random.default_rng([7, k]).integers(0, size, rows) for k, size in enumerate(sizes)], axis=1)


def standardised(factors: np.ndarray) -> np.ndarray:
    return (factors - factors.mean(axis=0)) / factors.std(axis=0)


def blurred(codes: np.ndarray, seed: int = 0) -> np.ndarray:
    return codes + BLUR * np.random.default_rng(seed).normal(size=codes.shape)


def gaussian(rows: int, latents: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, latents))


def aligned(*sizes: int) -> Toy:
    factors = grid(*sizes)
    return Toy("aligned\none latent each", blurred(standardised(factors)), factors)


def turned(degrees: float, *sizes: int) -> Toy:
    factors, angle = grid(*sizes), np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return Toy(f"turned by {degrees:g}°\nboth in both", blurred(standardised(factors)) @ turn, factors)


def circle(*sizes: int) -> Toy:
    factors = grid(*sizes)
    angle = 2 * np.pi * factors[:, 0] / sizes[0]
    codes = np.stack([np.cos(angle), np.sin(angle), standardised(factors)[:, 1]], axis=1) * [2**0.5, 2**0.5, 1]
    return Toy("circle\ncos x, sin x, y", blurred(codes), factors)


def shared(*sizes: int) -> Toy:
    """Both factors in the first latent, as two digits of one number; the second is noise."""
    factors = grid(*sizes)
    number = standardised(factors[:, [0]] * sizes[1] + factors[:, [1]])
    first = number + BLUR / sizes[1] * gaussian(len(factors), 1, 3)
    return Toy("shared\nboth in one latent", np.concatenate([first, gaussian(len(factors), 1, 2)], axis=1), factors)


def noise(*sizes: int, latents: int = 2, names: tuple[str, ...] = ("x", "y")) -> Toy:
    factors = grid(*sizes)
    return Toy("noise\nnothing in any", gaussian(len(factors), latents), factors, names)


# The pieces that pictures are made of.


def canvas(across: int, height: float, **ratios: Any) -> tuple[Figure, list[Axes]]:
    """An empty picture with panels side by side."""
    figure = paper(height)
    return figure, list(figure.subplots(1, across, squeeze=False, **ratios)[0])


def paper(height: float) -> Figure:
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / f"metrics_{name}.png", metadata={"Software": None})


def titled(axes: Axes, title: str, *results: str) -> None:
    """The name of the code in bold, what it is below, and what the metric says about it."""
    name, *notes = title.splitlines()
    lines = [(line, FADED, "normal") for line in notes] + [(line, BLUE, "bold") for line in results]
    axes.set_title(name, weight="bold", loc="left", pad=9 + 16 * len(lines))
    for i, (line, colour, weight) in enumerate(reversed(lines)):
        above: Any = {"xycoords": "axes fraction", "xytext": (0, 9 + 16 * i), "textcoords": "offset points"}
        axes.annotate(line, (0, 1), color=colour, weight=weight, **above)


def table(axes: Axes, values: np.ndarray, columns: Sequence[str], top: float = 1.0, rows: Sequence[str] = ()) -> None:
    """A matrix of latents by factors with its numbers in it."""
    axes.imshow(values, cmap=SHADES, vmin=0, vmax=top, aspect="auto")
    for (j, k), value in np.ndenumerate(values):
        text = f"{value:.2f}" if np.issubdtype(values.dtype, np.floating) else f"{value:,}"
        axes.text(k, j, text, ha="center", va="center", color="white" if value > 0.55 * top else INK)
    axes.set_xticks(range(values.shape[1]), columns)
    axes.set_yticks(range(values.shape[0]), rows or [f"z{j + 1}" for j in range(values.shape[0])])
    axes.set_xticks(np.arange(1, values.shape[1]) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, values.shape[0]) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=2)
    axes.tick_params(which="both", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def bars(axes: Axes, heights: np.ndarray, colour: str = BLUE, labels: Sequence[str] = (), width: float = 0.7) -> None:
    axes.bar(np.arange(len(heights)), heights, width, color=colour)
    axes.set_xticks(np.arange(len(heights)), labels or [str(i) for i in range(len(heights))])


# A picture for each page.


def overview() -> None:
    """What every supervised score says about the same five codes."""
    toys = [aligned(4, 4), circle(4, 4), shared(4, 4), turned(45, 4, 4), noise(4, 4)]
    metrics = ["beta_vae", "factor_vae", "mig", "modularity", "explicitness", "dci", "sap", "irs"]
    scores_of_toys = [toy.score(*metrics) for toy in toys]
    names = [name for name in scores_of_toys[0] if name != "dci_nrmse"]
    figure, (axes,) = canvas(1, 5.2)
    table(
        axes,
        np.array([[scores[name] for scores in scores_of_toys] for name in names]),
        [toy.title for toy in toys],
        rows=names,
    )
    axes.xaxis.tick_top()
    axes.tick_params(colors=INK)
    save(figure, "overview")


def beta_vae() -> None:
    toys = [aligned(8, 8), turned(30, 8, 8), turned(45, 8, 8), noise(8, 8)]
    figure, panels = canvas(4, 3.35)
    for axes, toy in zip(panels, toys, strict=True):
        scores = toy.score("beta_vae")
        codes = as_codes(toy.codes, toy.factors)
        points, mates = draw_pairs(codes, sharing(codes), 300, 64, np.random.default_rng(5))
        features = differences(codes.mean, points.rows, mates)
        for k, (colour, mark) in enumerate([(BLUE, "o"), (ORANGE, "^")]):
            rows = features[points.factor == k]
            axes.scatter(
                rows[:, 0],
                rows[:, 1],
                s=14,
                color=colour,
                marker=mark,
                alpha=0.8,
                linewidth=0,
                label=f"{toy.names[k]} fixed",
            )
        titled(axes, toy.title, f"beta_vae {scores['beta_vae']:.2f}")
        axes.set(xlim=(0, 1.65), ylim=(0, 1.65), xlabel="difference in z1", xticks=[0, 0.5, 1, 1.5])
        axes.set(yticks=[0, 0.5, 1, 1.5], aspect="equal")
    panels[0].set_ylabel("difference in z2")
    panels[-1].legend(loc="lower left", handletextpad=0.1, borderpad=0.1, markerscale=1.6)
    save(figure, "beta_vae")


def factor_vae() -> None:
    factors = grid(8, 8, 8)
    missing = Toy("incomplete\ny in none, z2 noise", blurred(standardised(factors)), factors, ("x", "y", "w"))
    missing.codes[:, 1] = gaussian(len(factors), 1)[:, 0]
    toys = [aligned(8, 8), turned(30, 8, 8), turned(45, 8, 8), missing]
    figure, panels = canvas(4, 3.3, width_ratios=[2, 2, 2, 3])
    for axes, toy in zip(panels, toys, strict=True):
        scores = toy.score("factor_vae")
        votes = scores.parts["factor_vae"]["votes"]
        table(axes, votes, [f"{name} fixed" for name in toy.names], top=TRAIN / len(toy.names))
        titled(axes, toy.title, f"factor_vae {scores['factor_vae']:.2f}")
    save(figure, "factor_vae")


def mig() -> None:
    toys = [aligned(4, 4), circle(4, 4), shared(4, 4), turned(45, 4, 4)]
    figure, panels = canvas(4, 3.3)
    for axes, toy in zip(panels, toys, strict=True):
        scores = toy.score("mig")
        parts = scores.parts["mig"]
        table(axes, parts["mutual_information"] / parts["entropy"], toy.names)
        titled(axes, toy.title, f"mig {scores['mig']:.2f}")
    save(figure, "mig")


def modularity() -> None:
    factors = drawn(3, 6, 40)
    silent = Toy("noise\n3, 6 and 40 values", gaussian(len(factors), 3), factors, ("x", "y", "w"))
    toys = [aligned(4, 4), circle(4, 4), shared(4, 4), silent]
    figure, panels = canvas(4, 3.3, width_ratios=[2, 2, 2, 3])
    for axes, toy in zip(panels, toys, strict=True):
        scores = toy.score("modularity")
        information = scores.parts["modularity"]["mutual_information"]
        table(axes, information / information.max(axis=1, keepdims=True), toy.names)
        titled(axes, toy.title, f"modularity {scores['modularity']:.2f}")
    save(figure, "modularity")


def explicitness() -> None:
    values = 8
    label = grid(values)
    angle = 2 * np.pi * label / values
    toys = [
        Toy("one-hot\na latent for each value", blurred(np.eye(values)[label[:, 0]]), label, ("x",)),
        Toy("circle\ncos x, sin x", blurred(2**0.5 * np.concatenate([np.cos(angle), np.sin(angle)], 1)), label, ("x",)),
        Toy("one latent\nx itself", blurred(standardised(label)), label, ("x",)),
        Toy("noise\ntwo latents", gaussian(len(label), 2), label, ("x",)),
    ]
    figure, panels = canvas(4, 3.3, sharey=True)
    for axes, toy in zip(panels, toys, strict=True):
        scores = toy.score("explicitness")
        learn, check = split(as_codes(toy.codes, toy.factors), TRAIN, TEST, 0)
        areas, _ = class_areas(
            learn.mean, learn.factors[:, 0], check.mean, check.factors[:, 0], values, classifier="one_vs_rest"
        )
        bars(axes, areas)
        axes.axhline(0.5, color=FADED, linewidth=1, linestyle=(0, (4, 3)))
        axes.set(ylim=(0, 1.02), xlabel="value of x", yticks=[0, 0.25, 0.5, 0.75, 1])
        titled(axes, toy.title, f"explicitness {scores['explicitness']:.2f}")
    panels[0].set_ylabel("area under the ROC curve")
    panels[-1].text(-0.5, 0.56, "chance", color=FADED)
    save(figure, "explicitness")


def dci() -> None:
    toys = [aligned(4, 4), circle(4, 4), shared(4, 4), turned(45, 4, 4)]
    figure, panels = canvas(4, 3.8)
    for axes, toy in zip(panels, toys, strict=True):
        scores = toy.score("dci")
        table(axes, scores.parts["dci"]["importance"], toy.names)
        lines = [
            f"{score_name} {scores[f'dci_{score_name}']:.2f}"
            for score_name in ("disentanglement", "completeness", "informativeness")
        ]
        titled(axes, toy.title, *lines)
    save(figure, "dci")


def dci_rows() -> None:
    """The same code, measured on fewer and more rows."""
    everyone = drawn(4, 4, 8, rows=60_000)
    codes = np.concatenate([standardised(everyone) + 0.3 * gaussian(60_000, 3, 8), gaussian(60_000, 3, 9)], axis=1)
    counts, rounds = (100, 300, 1_000, 3_000, 15_000), 4
    lines = {
        "dci_disentanglement": (BLUE, "o"),
        "dci_completeness": (ORANGE, "^"),
        "dci_informativeness": (GREEN, "s"),
        "mig": (PINK, "D"),
    }
    rounds_by_count = []
    for rows in counts:
        starts = [rows * turn for turn in range(rounds)]
        toys = [
            Toy(f"{rows} rows", codes[start : start + rows], everyone[start : start + rows], ("x", "y", "w"))
            for start in starts
        ]
        rounds_by_count.append([toy.score("dci", "mig") for toy in toys])
    figure, (axes,) = canvas(1, 3.3)
    for name, (colour, mark) in lines.items():
        values = np.array(
            [[scores[name] for scores in scores_of_count] for scores_of_count in rounds_by_count]
        )  # (counts, rounds)
        axes.plot(counts, values, color=colour, marker=mark, linewidth=0, alpha=0.35)
        axes.plot(counts, values.mean(axis=1), color=colour, marker=mark, label=name)
    axes.set(xscale="log", ylim=(0, 1.02), xlabel="rows")
    axes.set_xticks(counts, [f"{rows:,}" for rows in counts])
    axes.minorticks_off()
    axes.legend(loc="lower right", ncols=2)
    titled(axes, "the same code, more and more rows\nfour samples each, and their mean")
    save(figure, "dci_rows")


def sap() -> None:
    """Perfect codes of factors with more and more values; and codes turned step by step."""
    figure, (left, right) = canvas(2, 3.7)
    counts = (2, 4, 8, 16, 32)
    scores_by_count = [aligned(count, count).score("sap") for count in counts]
    regressed = [aligned(count, count).score("sap", kinds="continuous") for count in counts]
    predicted = np.array([scores.parts["sap"]["predictability"][:, 0] for scores in scores_by_count])  # (counts, D)
    place = np.arange(len(counts))
    left.bar(place - 0.2, predicted[:, 0], 0.36, color=BLUE, label="latent z1, which holds x")
    left.bar(place + 0.2, predicted[:, 1], 0.36, color=LINE, label="latent z2, which does not")
    for number, scores in enumerate(scores_by_count):
        left.text(number, predicted[number, 0] + 0.03, f"{scores['sap']:.2f}", ha="center", color=BLUE, weight="bold")
    left.set_xticks(place, [str(count) for count in counts])
    left.set(ylim=(0, 1.3), yticks=[0, 0.5, 1], xlabel="values of x and of y", ylabel="accuracy for x")
    left.legend(loc="upper right", fontsize=10)
    titled(left, "aligned codes\nabove the bars: sap")
    degrees = range(0, 46, 5)
    for values, colour, mark in ((4, BLUE, "o"), (8, ORANGE, "^"), (32, GREEN, "s")):
        line = [turned(angle, values, values).score("sap")["sap"] for angle in degrees]
        right.plot(degrees, line, color=colour, marker=mark, label=f"{values} values")
    smooth = [turned(angle, 8, 8).score("sap", kinds="continuous")["sap"] for angle in degrees]
    right.plot(degrees, smooth, color=PINK, marker="D", label="8 values, as continuous")
    right.set(
        ylim=(0, 1.3),
        yticks=[0, 0.5, 1],
        xticks=list(degrees[::3]),
        xlabel="rotation of the codes, in degrees",
        ylabel="sap",
    )
    right.legend(fontsize=10, loc="upper right", ncols=2)
    titled(right, "turned codes\n0°: aligned, 45°: both factors in both latents")
    print("  as continuous: " + ", ".join(f"{scores['sap']:.3f}" for scores in regressed))
    save(figure, "sap")


def irs() -> None:
    factors = grid(8, 8)
    flat = Toy("noise, uniform\nnothing in any", np.random.default_rng(4).uniform(-1.7, 1.7, factors.shape), factors)
    toys = [aligned(8, 8), turned(45, 8, 8), noise(8, 8)._replace(title="noise, Gaussian\nnothing in any"), flat]
    figure, panels = canvas(4, 3.6, sharey=True)
    for axes, toy in zip(panels, toys, strict=True):
        scores = toy.score("irs")
        x, z = toy.factors[:, 0], toy.codes[:, 0]
        shaken = np.random.default_rng(0).uniform(-0.16, 0.16, len(x))
        axes.scatter(x + shaken, z, s=3, color=LINE, linewidth=0, rasterized=True)
        for value in range(8):
            own_codes = z[x == value]
            reach = np.quantile(np.abs(own_codes - own_codes.mean()), 0.99)
            axes.plot([value, value], [own_codes.mean() - reach, own_codes.mean() + reach], color=BLUE, linewidth=4)
        far = np.abs(z - z.mean()).max()
        for end in (z.mean() - far, z.mean() + far):
            axes.axhline(end, color=ORANGE, linewidth=1.5, linestyle=(0, (4, 3)))
        axes.set(xticks=range(8), xlabel="x, held fixed", ylim=(-4.4, 4.4))
        titled(axes, toy.title, f"irs {scores['irs']:.2f}")
    panels[0].set_ylabel("latent z1")
    save(figure, "irs")


def pairs() -> dict[str, np.ndarray]:
    """Two latents that are independent, correlated, or dependent without correlation."""
    angle = np.random.default_rng(2).uniform(0, 2 * np.pi, 10_000)
    straight = gaussian(10_000, 2)
    return {
        "independent\nno relation": straight,
        "correlated\ncorrelation 0.9": straight @ np.linalg.cholesky(np.array([[1, 0.9], [0.9, 1]])).T,
        "circle\ncos and sin": 2**0.5 * blurred(np.stack([np.cos(angle), np.sin(angle)], axis=1)),
    }


def label_free(title: str, codes: np.ndarray, *metrics: str, **more: Any) -> Scores:
    scores = score(codes, metrics=list(metrics), **more)
    print(f"  {title.splitlines()[0]}: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))
    return scores


def cloud(axes: Axes, codes: np.ndarray, colour: str, label: str = "") -> None:
    axes.scatter(codes[:1500, 0], codes[:1500, 1], s=5, color=colour, linewidth=0, alpha=0.6, label=label)
    axes.set(xlim=(-4, 4), ylim=(-4, 4), aspect="equal", xticks=[-3, 0, 3], yticks=[-3, 0, 3], xlabel="z1")


def gaussian_total_correlation() -> None:
    name = "gaussian_total_correlation"
    figure, panels = canvas(4, 3.45)
    for axes, (title, codes) in zip(panels, pairs().items(), strict=False):
        scores = label_free(title, codes, name)
        cloud(axes, codes, BLUE)
        titled(axes, title, f"{scores[name]:.2f} nats", "")
    weak = gaussian(10_000, 1) * [1, 0.05]
    logvar = np.log([[0.02, 1.0]]) + np.zeros_like(weak)
    scores = label_free("faint copy", weak + 1e-4 * gaussian(10_000, 2, 5), name, logvar=logvar)
    cloud(panels[3], weak + np.exp(0.5 * logvar) * gaussian(10_000, 2, 6), LINE, "samples")
    cloud(panels[3], weak, BLUE, "means")
    panels[3].legend(loc="upper right", markerscale=3, handletextpad=0, borderpad=0, labelspacing=0.2)
    titled(
        panels[3],
        "faint copy\nz2 repeats z1, weakly",
        f"means {scores[name]:.2f} nats",
        f"samples {scores[f'{name}_sampled']:.3f}",
    )
    panels[0].set_ylabel("z2")
    save(figure, "gaussian_total_correlation")


def wasserstein_correlation() -> None:
    metrics = ("gaussian_total_correlation", "wasserstein_correlation")
    marks = {
        "gaussian_total_correlation": (ORANGE, "^", "gaussian_total_correlation"),
        "wasserstein_correlation": (BLUE, "o", "wasserstein_correlation"),
        "wasserstein_correlation_norm": (GREEN, "s", "… _norm"),
    }
    figure, panels = canvas(2, 3.7, sharey=True)
    straight = gaussian(10_000, 2)
    strengths = np.array([0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99])
    scales = np.array([1, 0.5, 0.25, 0.1, 0.05])

    def related(strength: float, scale: float) -> np.ndarray:
        second = strength * straight[:, 0] + np.sqrt(1 - strength**2) * straight[:, 1]
        return np.stack([straight[:, 0], scale * second], axis=1)

    by_strength = [label_free(f"correlation {value}", related(value, 1), *metrics) for value in strengths]
    by_scale = [label_free(f"scale {value}", related(0.9, value), *metrics) for value in scales]
    for name, (colour, mark, label) in marks.items():
        panels[0].plot(strengths, [scores[name] for scores in by_strength], color=colour, marker=mark, label=label)
        panels[1].plot(np.arange(len(scales)), [scores[name] for scores in by_scale], color=colour, marker=mark)
    panels[0].set(xlabel="correlation of two latents of variance 1", ylim=(-0.03, 2.05))
    panels[0].legend(loc="upper left")
    panels[1].set_xticks(np.arange(len(scales)), [f"{value:g}" for value in scales])
    panels[1].set(xlabel="standard deviation of the second latent")
    titled(panels[0], "stronger and stronger correlation")
    titled(panels[1], "correlation 0.9, the second latent made smaller")
    save(figure, "wasserstein_correlation")


def mutual_information() -> None:
    few = gaussian(200, 2)
    toys = {**pairs(), "independent\nonly 200 rows": few}
    figure, panels = canvas(4, 3.4)
    for axes, (title, codes) in zip(panels, toys.items(), strict=True):
        scores = label_free(title, codes, "mutual_information")
        bins = binned(codes, BINS)
        count = np.zeros((BINS, BINS))
        np.add.at(count, (bins[:, 1], bins[:, 0]), 1)
        axes.imshow(np.sqrt(count), cmap=SHADES, origin="lower")
        axes.set(xticks=[], yticks=[], xlabel="z1 in 20 bins")
        for spine in axes.spines.values():
            spine.set_visible(True)
        titled(axes, title, f"{scores['mutual_information']:.2f} nats")
    panels[0].set_ylabel("z2 in 20 bins")
    save(figure, "mutual_information")


def active_latents() -> None:
    """Six latents of an encoder: three in use, one faint, one dead, and a last one always at 0.5."""
    shares = np.array([1.0, 0.9, 0.6, 0.05, 0.0, 0.0])  # of each latent's variance that its mean carries
    mean = gaussian(10_000, 6) * np.sqrt(shares)
    mean[:, 5] += 0.5
    logvar = np.log(np.maximum(1 - shares, 0.02)) + np.zeros_like(mean)
    cases = [
        ("means and log-variances\nas the encoder gives them", mean, logvar, "kl"),
        ("means alone\nthe same codes", mean, None, "variance"),
        ("means alone\nthe same codes, divided by 20", mean / 20, None, "variance"),
    ]
    figure, panels = canvas(3, 3.6, sharey=True)
    for axes, (title, codes, spread, array_name) in zip(panels, cases, strict=True):
        scores = label_free(title, codes, "active_latents", logvar=spread)
        bars, active = scores.parts["active_latents"][array_name], scores.parts["active_latents"]["active"]
        floor = 1e-4
        for j, value in enumerate(bars):
            axes.bar(j, max(value, 1.3 * floor), 0.7, bottom=0, color=BLUE if active[j] else LINE)
        axes.axhline(0.01, color=ORANGE, linewidth=1.5, linestyle=(0, (4, 3)))
        axes.set(yscale="log", ylim=(floor, 10), xticks=range(6), xticklabels=[f"z{j + 1}" for j in range(6)])
        axes.set_xlabel({"kl": "KL divergence, nats", "variance": "variance of the mean"}[array_name])
        axes.minorticks_off()
        titled(axes, title, f"active_latents {scores['active_latents']:.0f}")
    panels[-1].text(5.5, 0.0125, "threshold", color=FADED, ha="right")
    save(figure, "active_latents")


def unified() -> None:
    """One code under three matrices: the matrix, its independent groups, and how its factors merge."""
    factors = grid(4, 4, 4, 4)
    straight = standardised(factors)
    mixed = straight.copy()
    mixed[:, 1] += 0.35 * straight[:, 2]
    mixed[:, 2] -= 0.35 * straight[:, 1]
    mixed[:, 3] += 0.15 * straight[:, 0]
    toy = Toy("four factors", mixed + 0.3 * gaussian(len(factors), 4), factors, ("a", "b", "c", "d"))
    scores = toy.score("mi", "gbt", "svm")
    figure = paper(8.6)
    panels = figure.subplots(3, 3, height_ratios=[1.15, 1, 1])
    words = {"mi": "mutual information, nats", "gbt": "importance in boosted trees", "svm": "accuracy of one latent"}
    for column, (name, title) in enumerate(words.items()):
        parts, axes = scores.parts[name], panels[:, column]
        matrix = parts["matrix"]
        table(axes[0], matrix, toy.names, top=float(matrix.max()))
        rules = ("mig", "dci_disentanglement", "dci_completeness")
        lines = [f"{rule} {scores[f'{name}/{rule}']:.2f}" for rule in rules]
        titled(axes[0], f"{name}\n{title}", *lines)
        groups(axes[1], parts)
        axes[1].set(ylim=(0, 4.3), yticks=range(5), xlim=(0, None), xlabel="threshold")
        tree(axes[2], matrix, toy.names)
    panels[1, 0].set_ylabel("independent groups")
    panels[1, 0].legend(loc="lower left", fontsize=10, borderpad=0.8)
    panels[2, 0].set_ylabel("threshold")
    save(figure, "unified")


def groups(axes: Axes, parts: Mapping[str, np.ndarray]) -> None:
    """How many factors are still joined to a latent above each threshold, and in how many groups."""
    edges = np.concatenate([[0], parts["thresholds"], parts["thresholds"][-1:]])
    for array_name, label, colour, width in (
        ("connected_factors", "factors", ORANGE, 5),
        ("independent_groups", "groups", BLUE, 2),
    ):
        count = np.concatenate([parts[array_name][:1], parts[array_name], [0]])
        axes.step(edges, count, where="pre", color=colour, linewidth=width, label=label)


def tree(axes: Axes, matrix: np.ndarray, names: Sequence[str]) -> None:
    """The dendrogram: from the threshold where a factor has no latent left, down to where it joins others."""
    tops = matrix.max(axis=0)
    steps = merges(matrix)
    members = {k: [k] for k in range(len(names))}
    for _, a, b in steps:
        joined = members[a] + members[b]
        members.update(dict.fromkeys(joined, joined))
    order = list(dict.fromkeys(k for group in members.values() for k in group))
    stem = {k: (float(order.index(k)), float(tops[k])) for k in range(len(names))}
    root = {k: k for k in range(len(names))}
    for level, a, b in steps:
        (x1, y1), (x2, y2) = stem[root[a]], stem[root[b]]
        axes.plot([x1, x1, x2, x2], [y1, level, level, y2], color=BLUE, linewidth=2, solid_joinstyle="miter")
        root_kept, gone = root[a], root[b]
        stem[root_kept] = ((x1 + x2) / 2, level)
        root = {k: root_kept if r == gone else r for k, r in root.items()}
    for r in set(root.values()):
        axes.plot([stem[r][0]] * 2, [stem[r][1], 0], color=BLUE, linewidth=2)
    axes.set_xticks(range(len(names)), [names[k] for k in order])
    axes.set(ylim=(0, float(tops.max()) * 1.08), xlim=(-0.6, len(names) - 0.4))


PICTURES: Mapping[str, Callable[[], None]] = {
    "overview": overview,
    "beta_vae": beta_vae,
    "factor_vae": factor_vae,
    "mig": mig,
    "modularity": modularity,
    "explicitness": explicitness,
    "dci": dci,
    "dci_rows": dci_rows,
    "sap": sap,
    "irs": irs,
    "gaussian_total_correlation": gaussian_total_correlation,
    "wasserstein_correlation": wasserstein_correlation,
    "mutual_information": mutual_information,
    "active_latents": active_latents,
    "unified": unified,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"which pictures: {', '.join(PICTURES)}; all of them if none is named")
    names = parser.parse_args().names or list(PICTURES)
    if unknown := set(names) - set(PICTURES):
        parser.error(f"no picture for {', '.join(sorted(unknown))}")
    with rc_context(STYLE):
        for name in names:
            print(name)
            PICTURES[name]()


if __name__ == "__main__":
    main()
