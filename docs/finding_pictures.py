"""Pictures of docs/findings.md, which `make_findings.py` draws: the board of all claims, and one of each decided claim.

Each is readable in grey: what a colour says, a shape or a shade says too. Each is narrow enough to be read on a phone,
so panels stand below each other.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from make_metric_pictures import BLUE, DPI, FADED, FOLDER, INK, LINE, ORANGE, SHADES, STYLE
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from sober.results.claims import CLAIMS
from sober.results.claims import sober_look_numbers as look
from sober.results.claims.correlations import Controlled, cell
from sober.results.runs import Runs
from sober.results.stats import Interval, interval
from sober.results.tables.table import SEVEN_SCORES

SHORT = {"beta_vae": "BetaVAE", "factor_vae": "FactorVAE", "mig": "MIG", "modularity": "Modularity"}
SHORT |= {"dci_disentanglement": "DCI", "sap": "SAP", "irs": "IRS"}
METHOD = {"beta_vae": "β-VAE", "factor_vae": "FactorVAE", "beta_tcvae": "β-TCVAE", "dip_vae_i": "DIP-VAE-I"}
METHOD |= {"dip_vae_ii": "DIP-VAE-II", "annealed_vae": "AnnealedVAE"}
WORLD = {"dsprites": "dSprites", "color_dsprites": "with colour", "noisy_dsprites": "with noise"}
WIDTH = 5.6  # inches: on a phone, which shows 3.2 of them, letters are still 5 points high
HALVES = (-1, -0.5, 0, 0.5, 1)  # ticks of correlations
COLUMNS = 4  # tiles of the board in a row
TILES = {  # face, edge, text
    "holds": ("#1f4e79", "#1f4e79", "#ffffff"),
    "in part": ("#b8cfe3", "#1f4e79", INK),
    "does not": ("#ffffff", "#b23a00", INK),
    "cannot tell": ("#e6e7ea", "#e6e7ea", INK),
    "waits": ("#ffffff", LINE, FADED),
}


def board(states: Mapping[int, str]) -> Figure:
    """A tile for each claim with its verdict, or the sets of models that it waits for."""
    rows = -(-len(states) // COLUMNS)
    figure = Figure(figsize=(WIDTH, 0.86 * rows), dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    for place, (number, state) in enumerate(states.items()):
        x, y = place % COLUMNS, rows - 1 - place // COLUMNS
        kind = state if state in TILES else "waits"
        face, edge, ink = TILES[kind]
        style = {"linestyle": (0, (4, 3))} if kind == "waits" else {}
        width = 3.0 if kind == "does not" else 1.2
        shape = "round,pad=0,rounding_size=0.05"
        box = FancyBboxPatch((x + 0.05, y + 0.06), 0.9, 0.88, boxstyle=shape, fc=face, ec=edge)
        box.set(linewidth=width, **style)
        axes.add_patch(box)
        axes.text(x + 0.11, y + 0.83, f"{number}", fontsize=11, weight="bold", color=ink, va="top")
        axes.text(x + 0.89, y + 0.82, state, fontsize=9, style="italic", color=ink, va="top", ha="right")
        axes.text(x + 0.11, y + 0.6, textwrap.fill(CLAIMS[number].title, 16), fontsize=9, color=ink, va="top")
    axes.set(xlim=(0, COLUMNS), ylim=(0, rows))
    axes.set_axis_off()
    return figure


def total_correlation(sets: look.Sets) -> Figure:
    return by_strength(sets["A"], "gaussian_total_correlation", "total correlation", ("beta_vae", "beta_tcvae"))


def mutual_information(sets: look.Sets) -> Figure:
    """Claim 24: correlations with the strength, by method and world."""
    correlations = look.trends(look.three_worlds(sets), "mutual_information")
    figure = new_figure(4.2)
    panels = figure.subplots(1, 2, sharey=True)
    rows = [(method, world) for method in look.BY_PENALTY for world in WORLD]
    for axes, ending, title in zip(panels, ("_sampled", ""), ("of samples: falls", "of means: rises"), strict=True):
        numbers = [correlations[world, method, f"mutual_information{ending}"] for method, world in rows]
        labels = [f"{METHOD[method]}  {WORLD[world]}" for method, world in rows]
        forest(axes, labels, {"": numbers})
        axes.set(title=title, xlim=(-1.02, 1.02), xticks=(-1, 0, 1))
    figure.supxlabel("rank correlation with the strength", fontsize=10)
    return figure


def by_strength(runs: Runs, number: str, title: str, methods: Sequence[str]) -> Figure:
    """A number of means and of samples by strength: each run, and medians."""
    figure = new_figure(2.3 * len(methods))
    for axes, method in zip(figure.subplots(len(methods), 1, sharey=True), methods, strict=True):
        for name, words, color, face, marker in (
            (number, "means", BLUE, BLUE, "o"),
            (f"{number}_sampled", "samples", ORANGE, "white", "s"),
        ):
            medians, strengths = [], []
            groups = [g for (m, _), g in runs.grouped_by("method", "strength") if m == method]
            for place, group in enumerate(groups):
                values = group.number_columns([name])[:, 0]
                axes.plot(np.full(len(values), place), values, marker, ms=4.5, mfc=face, mec=color, alpha=0.8)
                medians.append(np.ma.median(values))
                strengths.append(group.run_column("strength")[0])
            axes.plot(range(len(medians)), medians, color=color, lw=1.6, ls="-" if face == color else "--")
            axes.text(len(medians) - 0.8, medians[-1], words, color=INK, va="center")
        axes.set(title=METHOD[method], yscale="log", xticks=range(len(strengths)), xlabel="β", xlim=(-0.3, 6.1))
        axes.set_xticklabels([f"{strength:g}" for strength in strengths])
    figure.supylabel(f"{title}, log scale", fontsize=10)
    return figure


def variance(sets: look.Sets) -> Figure:
    """Claim 2: bars of shares, the paper's below ours."""
    shares = look.variance_shares(sets["A"].not_diverged())
    printed = {"beta_vae": (31, 64), "dci_disentanglement": (43, 77), "factor_vae": (49, 55), "irs": (71, 90)}
    printed |= {"mig": (27, 71), "modularity": (30, 38), "sap": (33, 57)}
    figure = new_figure(4.2)
    axes = figure.subplots()
    styles = (("#1f4e79", ""), ("#9dc0dc", "///"), ("#eceef2", ""))
    for y, (name, share) in enumerate(shares.items()):
        method, setting = printed[name]
        ours = [100 * segment.value for segment in share]
        for left_parts, place, height in (
            (ours, y - 0.16, 0.42),
            ([method, setting - method, 100 - setting], y + 0.24, 0.2),
        ):
            left = 0.0
            for segment, (color, hatch) in zip(left_parts, styles, strict=True):
                axes.barh(place, segment, height, left, color=color, hatch=hatch, edgecolor="white", linewidth=0.6)
                left += segment
        low, high = 100 - 100 * share.seed.high, 100 - 100 * share.seed.low
        axes.plot([low, high], [y - 0.16] * 2, color=INK, lw=1.4)
        for end in (low, high):
            axes.plot([end] * 2, [y - 0.24, y - 0.08], color=INK, lw=1.4)
    axes.axvline(80, color=INK, lw=1, ls=(0, (4, 3)))
    axes.text(80, -0.62, "seed above 20% left of here", ha="center", va="bottom", fontsize=9.5)
    axes.set(yticks=range(7), xlim=(0, 100), ylim=(6.6, -0.55), xlabel="share of the variance, %")
    axes.set_yticklabels([SHORT[name] for name in shares])
    handles = [
        axes.barh(0, 0, color=color, hatch=hatch, edgecolor="white", label=label)
        for (color, hatch), label in zip(styles, ("method", "strength", "seed"), strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, title="thick bars: ours; thin bars: the paper")
    return figure


def label_free(sets: look.Sets) -> Figure:
    """Claim 3: correlations of four label-free numbers with seven scores on three worlds."""
    correlations = look.label_free_correlations(sets)
    figure = new_figure(6.2)
    panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    marks = (("o", BLUE, BLUE), ("s", ORANGE, "white"), ("D", FADED, "#d7d9de"))
    for place, (axes, name) in enumerate(zip(panels, look.LABEL_FREE, strict=True)):
        series = {
            WORLD[world]: [cell(number.plain, place, k) for k in range(7)] for world, number in correlations.items()
        }
        forest(axes, [SHORT[score] for score in SEVEN_SCORES], series, marks=marks)
        for line in (-0.5, 0.5):
            axes.axvline(line, color=LINE, lw=1, ls=(0, (4, 3)))
        axes.set(title=name, xlim=(-1.02, 1.02), xticks=HALVES)
    for axes in panels[2:]:
        axes.set_xlabel("rank correlation")
    legend_below(figure, panels[0])
    return figure


def agreement(sets: look.Sets) -> Figure:
    """Claim 4: rank correlations of scores with each other."""
    values, _ = look.score_agreement(sets["A"].not_diverged())
    figure = new_figure(4.0)
    names = [SHORT[name] for name in SEVEN_SCORES]
    matrix(figure.subplots(), np.ma.filled(values, np.nan), names, names, low=-1.0)
    return figure


def luck(sets: look.Sets) -> Figure:
    """Claim 5: probabilities that a run of the worst setting wins."""
    runs = sets["A"].not_diverged()
    result = look.luck(runs)
    figure = new_figure(5.8)
    panels = figure.subplots(2, 1, sharex=True)
    titles = ("settings chosen by the same five seeds", "settings chosen by other seeds")
    for axes, values, title in zip(panels, (result.values, look.luck_of_new_seeds(runs)), titles, strict=True):
        matrix(axes, values, [METHOD[m] for m in result.methods], [SHORT[s] for s in SEVEN_SCORES], bold_above=0.1)
        axes.set_title(title)
    return figure


def rules(sets: look.Sets) -> Figure:
    """Claim 9: agreement of rules on one matrix."""
    _, values, _ = look.unified_correlations(sets["A"].not_diverged())
    labels = ["MIG", "SAP", "Completeness", "DCI-D", "Modularity"]
    titles = ("mutual information", "boosted trees", "linear SVMs")
    figure = new_figure(6.2)
    for place, (axes, title) in enumerate(zip(figure.subplots(3, 1, sharex=True), titles, strict=True)):
        bars = slice(5 * place, 5 * place + 5)
        matrix(axes, np.ma.filled(values[bars, bars], np.nan), labels, labels, low=-1.0)
        axes.set_title(title)
    return figure


def tasks(sets: look.Sets, place: int, line: float) -> Figure:
    """Claims 6 and 7: correlations with numbers downstream, with two controls."""
    correlations = look.task_correlations(sets["A"])
    columns = (
        ((0, "accuracy, boosted trees"),)
        if not place
        else ((1, "efficiency, boosted trees"), (2, "efficiency, logistic"))
    )
    figure = new_figure(3.9)
    panels = np.atleast_1d(figure.subplots(1, len(columns), sharey=True))
    for axes, (column, title) in zip(panels, columns, strict=True):
        controls(axes, correlations, column)
        if line:
            axes.axvline(line, color=INK, lw=1, ls=(0, (4, 3)))
        ticks = HALVES if len(panels) == 1 else (-1, 0, 1)
        axes.set(title=title, xlim=(-1.02, 1.02), xticks=ticks, xlabel="rank correlation")
    legend_below(figure, panels[0])
    return figure


def controls(axes: Axes, correlations: Controlled, column: int) -> None:
    """Each score's correlation, that within methods, and that after taking out the KL."""
    named = {
        "all models": correlations.plain,
        "within methods": correlations.within,
        "KL taken out": correlations.given_kl,
    }
    series = {name: [cell(numbers, k, column) for k in range(7)] for name, numbers in named.items()}
    marks = (("o", BLUE, BLUE), ("s", ORANGE, "white"), ("D", FADED, "#d7d9de"))
    forest(axes, [SHORT[score] for score in SEVEN_SCORES], series, marks=marks)


def repeated(sets: look.Sets) -> Figure:
    """Claim 8: each score's correlation with itself on other pictures."""
    correlations = look.repeats(sets["A"])
    figure = new_figure(3.5)
    axes = figure.subplots()
    series = {
        f"{pictures:,} pictures": [cell(interval(*correlations[pictures]), k) for k in range(7)]
        for pictures in sorted(correlations, reverse=True)
    }
    forest(axes, [SHORT[name] for name in SEVEN_SCORES], series, marks=(("o", BLUE, BLUE), ("s", ORANGE, "white")))
    axes.axvline(0.9, color=INK, lw=1, ls=(0, (4, 3)))
    axes.set(xlim=(-0.5, 1.02), xlabel="rank correlation with itself on other pictures")
    legend_below(figure, axes)
    return figure


def transfer(sets: look.Sets) -> Figure:
    """Claim 22: how often a chosen setting does as well as a random one."""
    result = look.transfer_of_settings(look.three_worlds(sets))
    figure = new_figure(2.6)
    axes = figure.subplots()
    rows = (
        ("same score, same data", (0, 0), 81.9),
        ("other score, same data", (1, 0), 62.1),
        ("same score, other data", (0, 1), 59.6),
        ("other score, other data", (1, 1), 52.7),
    )
    numbers = [Interval(*(100 * end for end in cell(result.probability, *place))) for _, place, _ in rows]
    forest(axes, [label for label, _, _ in rows], {"ours": numbers})
    axes.plot([paper for _, _, paper in rows], range(4), "x", color=INK, ms=8, mew=2, label="the paper")
    chance = 100 * result.chance[1, 1]
    axes.axvspan(chance - 5, chance + 5, color="#eceef2", zorder=0)
    axes.axvline(chance, color=INK, lw=1, ls=(0, (4, 3)))
    axes.text(chance, -0.75, "chance ± 5", ha="center", fontsize=9.5)
    axes.set(xlim=(40, 100), xlabel="as good as a random setting, on another seed, %")
    axes.legend(loc="lower right")
    return figure


def worlds(sets: look.Sets) -> Figure:
    """Claim 23: agreement of scores over settings between worlds."""
    pairs = look.agreement_of_worlds(look.three_worlds(sets))
    figure = new_figure(3.5)
    axes = figure.subplots()
    series = {
        "dSprites and colour": [p.colour for p in pairs.values()],
        "dSprites and noise": [p.noise for p in pairs.values()],
    }
    forest(axes, [SHORT[name] for name in pairs], series, marks=(("o", BLUE, BLUE), ("s", ORANGE, "white")))
    axes.axvline(0.6, color=INK, lw=1, ls=(0, (4, 3)))
    axes.set(xlim=(-1.02, 1.02), xticks=HALVES, xlabel="rank correlation over medians of settings")
    legend_below(figure, axes)
    return figure


def forest(
    axes: Axes,
    labels: Sequence[str],
    series: Mapping[str, Sequence[Interval]],
    marks: Sequence[tuple[str, str, str]] = (("o", BLUE, BLUE),),
) -> None:
    """Numbers with intervals, a row for each label, the series one below the other in a row."""
    for place, ((name, numbers), (marker, color, face)) in enumerate(zip(series.items(), marks, strict=False)):
        shift = 0.24 * (place - (len(series) - 1) / 2)
        for row, number in enumerate(numbers):
            if number.low is not None:
                axes.plot([number.low, number.high], [row + shift] * 2, color=color, lw=1.6, zorder=1)
        y = np.arange(len(numbers)) + shift
        values = [np.nan if number.value is None else number.value for number in numbers]
        axes.plot(values, y, marker, mfc=face, mec=color, mew=1.4, ms=5.5, label=name, zorder=2)
    axes.axvline(0, color=LINE, lw=1, zorder=0)
    axes.set(yticks=range(len(labels)), ylim=(len(labels) - 0.5, -0.5))
    axes.set_yticklabels(labels)


def matrix(
    axes: Axes,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    low: float = 0.0,
    bold_above: float = np.inf,
) -> None:
    """Numbers in shaded cells. Cells on a diagonal of ones, or without a number, are empty."""
    shaded = np.clip(values, 0, 1) if low == 0 else np.clip(np.abs(values), 0, 1)
    axes.imshow(shaded, cmap=SHADES, vmin=0, vmax=1.15, aspect="auto")
    for i in range(len(rows)):
        for j in range(len(columns)):
            if np.isfinite(values[i, j]) and not (rows is columns and i == j):
                text = f"{values[i, j]:.2f}".replace("-", "−")
                weight = "bold" if values[i, j] > bold_above else "normal"
                ink = "white" if shaded[i, j] > 0.7 else INK
                axes.text(j, i, text, ha="center", va="center", fontsize=8.5, color=ink, weight=weight)
    axes.set(xticks=range(len(columns)), yticks=range(len(rows)))
    axes.set_xticklabels(columns, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticklabels(rows)
    axes.spines[:].set_visible(False)


def new_figure(height: float) -> Figure:
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def legend_below(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


PICTURES: dict[int, Callable[[look.Sets], Figure]] = {
    1: total_correlation,
    2: variance,
    3: label_free,
    4: agreement,
    5: luck,
    6: lambda sets: tasks(sets, 1, 0.0),
    7: lambda sets: tasks(sets, 0, 0.2),
    8: repeated,
    9: rules,
    22: transfer,
    23: worlds,
    24: mutual_information,
}


def draw(states: Mapping[int, str], sets: look.Sets, decided: Sequence[int]) -> list[Path]:
    """Writes the board and a picture for each decided claim."""
    paths = []
    with rc_context(STYLE):
        pictures = {"findings": board(states)}
        pictures |= {f"finding_{number:02}": PICTURES[number](sets) for number in decided if number in PICTURES}
        for name, figure in pictures.items():
            paths.append(FOLDER / f"{name}.png")
            figure.savefig(paths[-1], metadata={"Software": None}, pil_kwargs={"optimize": True})
    return paths
