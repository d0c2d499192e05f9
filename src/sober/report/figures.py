"""Figures of a report: the rows of the papers' tables, cut into panels, and the chart that draws each panel."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy

from sober.errors import RequestError, brief
from sober.report import charts
from sober.report.charts import Chart, Row
from sober.report.figure import Figure, Key
from sober.report.pairs import pair_figures
from sober.report.task_figures import task_figures
from sober.results import Made, Runs
from sober.results.curves import training_curves
from sober.results.papers import held
from sober.results.stats import quartiles

if TYPE_CHECKING:
    import polars as pl

DENSITY = 10  # runs below which an outline of their density would be drawn from too little
DOTS = 600  # runs above which a panel no longer shows each of them
SETTINGS = 60  # that a panel has room for

# Every figure that a report may have, by its name.
FIGURES = (
    *("distributions", "settings", "strengths", "means", "strength_pairs", "strength_trends"),
    *("metric_agreement", "criteria_against_metrics", "criteria_within_methods", "worlds_agreement"),
    *("unified_agreement", "stability", "metric_pairs", "criteria_pairs", "unified_pairs", "worlds_pairs"),
    *("objective_variance", "means_against_samples", "samples_pairs", "merge_thresholds", "training_curves"),
    *("scores_against_tasks", "scores_against_tasks_within_methods", "task_curves", "tasks_by_group", "task_pairs"),
)


def drawable(runs: Runs, made: Sequence[Made]) -> list[Figure]:
    """Every figure that the tables allow, in the order of a report."""
    tables = {each.table.name: each for each in made}
    found = [*_of_scores(runs, tables)] if "leaderboard" in tables else []
    found += [_correlations(tables[name], *how, runs) for name, how in HEAT.items() if name in tables]
    if "objective_variance" in tables:
        found.append(_variance(tables["objective_variance"], runs))
    if "means_against_samples" in tables:
        found.append(_means_against_samples(tables["means_against_samples"]))
    if "means_by_setting" in tables:
        found.append(_means(tables["means_by_setting"], runs))
    if "merge_thresholds" in tables:
        found.append(_thresholds(tables["merge_thresholds"]))
    found += [*pair_figures(runs, tables), *task_figures(runs, tables), _curves(runs)]
    return [figure for figure in found if figure.panels]


# Scores of runs.


def _of_scores(runs: Runs, tables: Mapping[str, Made]) -> Iterator[Figure]:
    board = tables["leaderboard"]
    caption = dataclasses.replace(board.table, title="Scores of runs").caption(runs)
    sound, names = runs.sound(), runs.ordered(runs.whole())
    by = ("world", "metric")
    keys = list(itertools.product(sound.different("world"), names))
    dots = len(sound.about) <= DOTS * len(runs.different("world"))
    few = "each dot is a run" if dots else f"single runs are left out, as there are {len(sound.about):,}"
    parts = dict(sound.by("world"))
    yield Figure(
        "distributions",
        "How scores spread, by method",
        "All strengths and seeds of a method together. The outline is the density of its runs, cut at the lowest and "
        f"the highest and drawn for {DENSITY} runs or more; the bar goes from the lower to the upper quartile, the "
        f"outlined dot is the median; {few}.",
        caption,
        charts.distributions,
        by,
        {key: rows for key in keys if (rows := list(_densities(parts[key[:1]], key[1], dots)))},
    )
    frame = board.frame.drop_nulls("value")
    shown = f"The {SETTINGS} best of each panel are shown. " if frame["setting"].n_unique() > SETTINGS else ""
    few = "each thin tick is a run" if dots else "single runs are left out"
    groups = _groups(frame, by)
    yield Figure(
        "settings",
        "How scores spread, by setting",
        "The best first. The wide bar goes from the lower to the upper quartile over seeds; the dot is the median, "
        f"its line the 95% interval of the median; {few}. {shown}",
        caption,
        charts.settings,
        by,
        {key: list(_by_setting(groups[key], parts[key[:1]], key[1], dots)) for key in keys if key in groups},
    )
    places = _places(runs)
    panels = {key: _along(groups[key], places) for key in keys if key in groups}
    yield Figure(
        "strengths",
        "Scores against the strength of regularisation",
        "Each method along its own sweep: medians over seeds and their 95% intervals. A larger value is not always a "
        "stronger penalty: a larger c_max regularises less. Shape, dash and colour tell methods apart.",
        caption,
        charts.strengths,
        by,
        {key: rows for key, rows in panels.items() if rows},
    )


def _densities(part: Runs, name: str, dots: bool) -> Iterator[Row]:
    rng = np.random.default_rng(0)  # for a jitter that is the same in every report
    column = part.columns([name])[:, 0]
    methods = part.labels("method")
    for method in part.different("method"):
        here = (methods == method) & ~np.ma.getmaskarray(column)
        values = column.data[here]
        if not len(values):
            continue
        lower, median, upper = quartiles(values[None])[:, 0].tolist()
        yield {"part": "summary", "method": method, "lower": lower, "median": median, "upper": upper, "n": len(values)}
        if len(values) >= DENSITY and np.ptp(values) > 1e-9 * np.abs(values).max():
            yield from ({"part": "density", "method": method, **point} for point in _outline(values))
        if dots:
            about = part.about.filter(here).select("setting", "seed").iter_rows(named=True)
            for row, value, offset in zip(about, values.tolist(), rng.uniform(-0.35, 0.35, len(values)), strict=True):
                yield {"part": "run", "method": method, **row, "score": value, "offset": round(float(offset), 3)}


def _outline(values: np.ndarray, points: int = 32) -> Iterator[Row]:
    """The density of values, once around: out along one side, back along the other."""
    at = np.linspace(values.min(), values.max(), points)
    height = scipy.stats.gaussian_kde(values)(at)
    height /= height.max()
    around = [*zip(at, height, strict=True), *zip(at[::-1], -height[::-1], strict=True)]
    for order, (score, offset) in enumerate(around):
        yield {"score": float(score), "offset": round(float(offset), 3), "order": order}


def _by_setting(board: pl.DataFrame, part: Runs, name: str, dots: bool) -> Iterator[Row]:
    shown = board.head(SETTINGS)
    yield from ({"part": "summary", **row} for row in shown.drop("world", "metric", "best").iter_rows(named=True))
    if dots:
        kept = part.where(np.isin(part.labels("setting"), shown["setting"].to_list()))
        about = kept.about.select("setting", "seed").iter_rows(named=True)
        for row, value in zip(about, kept.columns([name])[:, 0].tolist(), strict=True):
            if value is not None:
                yield {"part": "run", **row, "score": value}


def _places(runs: Runs) -> pl.DataFrame:
    """Each setting's place in the sweep of its method, from 1."""
    import polars as pl  # noqa: PLC0415

    swept = runs.about.select("method", "setting", "strength").unique().drop_nulls("strength")
    return swept.with_columns(place=pl.col("strength").rank("dense").over("method"))


def _along(board: pl.DataFrame, places: pl.DataFrame) -> list[Row]:
    columns = ("method", "place", "strength", "setting", "value", "low", "high", "n")
    joined = board.join(places, on="setting").sort("method", "place", "setting")
    return list(joined.select(columns).iter_rows(named=True))


# Correlations and shares.

# By table: rows and columns of its heat map, whether it is symmetric, what its panels differ in, how to read it.
HEAT: dict[str, tuple[str, str, bool, Key, str]] = {
    "metric_agreement": ("metric", "other", True, ("world",), "It is 1 where two metrics rank all runs alike."),
    "criteria_against_metrics": (
        "criterion",
        "metric",
        False,
        ("world",),
        "What a number that needs no labels says about one that does. Where lower is better, as for elbo, which is a "
        "loss here, agreement is negative.",
    ),
    "worlds_agreement": (
        "world",
        "other",
        True,
        ("metric",),
        "It is 1 where a metric ranks settings alike in two worlds.",
    ),
    "strength_trends": (
        "metric",
        "method",
        False,
        ("world",),
        "It is positive where a number rises with the hyperparameter.",
    ),
    "unified_agreement": (
        "score",
        "other",
        True,
        ("world",),
        "Only scores that share a matrix or a rule are compared.",
    ),
    "criteria_within_methods": (
        "criterion",
        "metric",
        False,
        ("world", "method"),
        "Over the runs of one method, where only strengths and seeds differ.",
    ),
    "scores_against_tasks": (
        "score",
        "task",
        False,
        ("world",),
        "What a score says about the use of a code. Where lower is better, of a score or of a task, agreement is "
        "negative.",
    ),
    "scores_against_tasks_within_methods": (
        "score",
        "task",
        False,
        ("world", "method"),
        "Over the runs of one method, where only strengths and seeds differ.",
    ),
    "stability": (
        "metric",
        "other",
        False,
        ("world", "pictures"),
        "Rows are metrics on one draw of so many pictures, columns the same on another draw. On the diagonal a metric "
        "meets itself.",
    ),
}
SIGNS = "Blue is positive, orange negative, and a number in brackets has a 95% interval that holds 0. "


def _correlations(made: Made, row: str, column: str, symmetric: bool, by: Key, says: str, runs: Runs) -> Figure:
    names = {"world": runs.different("world"), "method": runs.different("method")}
    rows, columns = (names.get(each, runs.ordered(made.frame[each].unique())) for each in (row, column))
    if symmetric:
        rows = columns = names.get(row, runs.ordered({*made.frame[row], *made.frame[column]}))
    panels: dict[Key, list[Row]] = {}
    for key, frame in _groups(made.frame, by).items():
        cells = [_cell(each, row, column) for each in frame.iter_rows(named=True)]
        cells += [{**cell, "row": cell["column"], "column": cell["row"]} for cell in cells if symmetric]
        place = {pair: at for at, pair in enumerate(itertools.product(rows, columns))}
        cells = [{**cell, "at": columns.index(cell["column"])} for cell in cells]
        panels[tuple(map(str, key))] = sorted(cells, key=lambda cell: place[cell["row"], cell["column"]])
    order = names.get(by[0], runs.ordered(dict.fromkeys(key[0] for key in panels)))
    return Figure(
        made.table.name,
        made.table.title,
        SIGNS + says,
        made.caption,
        charts.heat,
        by,
        {key: panels[key] for key in sorted(panels, key=lambda key: order.index(key[0]))},
    )


def _cell(row: Row, one: str, other: str) -> Row:
    value, low, high = row["value"], row["low"], row["high"]
    sure = low is not None and (low > 0 or high < 0)
    text = "–" if value is None else f"{value:.2f}".replace("-", "−")
    kept = {"row": row[one], "column": row[other], "value": value, "low": low, "high": high, "n": row["n"]}
    return {**kept, "size": abs(value or 0.0), "text": text if sure or value is None else f"({text})"}


def _variance(made: Made, runs: Runs) -> Figure:
    groups = _groups(made.frame.drop_nulls("value"), ("world",))
    place = {name: at for at, name in enumerate(runs.ordered(runs.metrics()))}
    return Figure(
        "objective_variance",
        made.table.title,
        "What the method leaves open, its hyperparameters may settle; what the setting leaves open is the seed. Lines "
        "are 95% intervals.",
        made.caption,
        charts.variance,
        ("world",),
        {
            key: sorted(frame.iter_rows(named=True), key=lambda row: place[row["metric"]])
            for key, frame in groups.items()
        },
    )


def _means_against_samples(made: Made) -> Figure:
    groups = _groups(made.frame, ("world", "metric"))
    shown = f" The first {SETTINGS} settings are shown." if made.frame["setting"].n_unique() > SETTINGS else ""
    return Figure(
        "means_against_samples",
        "Total correlation and its kin: of means, and of samples",
        "Medians over seeds. Regularisation acts on samples; whether the means, which people use, follow is the "
        f"question.{shown}",
        made.caption,
        charts.dumbbells,
        ("world", "metric"),
        {
            key: list(frame.head(SETTINGS).drop("world", "metric").iter_rows(named=True))
            for key, frame in groups.items()
        },
    )


def _means(made: Made, runs: Runs) -> Figure:
    """Chen et al. 2018, Figure 2: means along the strengths, with 90% intervals."""
    board = made.frame.rename({"low": "low_95", "high": "high_95"}).rename({"low_90": "low", "high_90": "high"})
    places = _places(runs)
    by = ("world", "metric")
    panels = {key: _along(frame.drop("method", "strength"), places) for key, frame in _groups(board, by).items()}
    order = {name: at for at, name in enumerate(runs.ordered({key[1] for key in panels}))}
    return Figure(
        "means",
        "Means against the strength of regularisation",
        "Each method along its own sweep: means over seeds, and their 90% intervals, Student's t.",
        f"{made.table.title} ({made.table.paper}). {held(runs)}",
        charts.strengths,
        by,
        {key: panels[key] for key in sorted(panels, key=lambda key: order[key[1]]) if panels[key]},
    )


def _thresholds(made: Made) -> Figure:
    """Locatello et al. 2020, Figures 34 and 35: where factors merge, both ways round."""
    panels: dict[Key, list[Row]] = {}
    for key, frame in _groups(made.frame, ("world", "matrix")).items():
        largest = float(frame["value"].max() or 0.0) or 1.0  # type: ignore[arg-type]
        names = list(dict.fromkeys([*frame["factor"], *frame["other"]]))
        cells = {}
        for row in frame.iter_rows(named=True):
            known = {name: row[name] for name in ("value", "low", "high", "n")}
            cell = {**known, "size": row["value"] / largest, "text": f"{row['value']:.2f}"}
            for one, other in ((row["factor"], row["other"]), (row["other"], row["factor"])):
                cells[one, other] = {"row": one, "column": other, "at": names.index(other), **cell}
        panels[key] = [cells[pair] for pair in itertools.product(names, repeat=2) if pair in cells]
    return Figure(
        "merge_thresholds",
        made.table.title,
        "Edges between factors and latents are deleted up to a threshold. A high number, in a dark cell, says that two "
        "factors are joined by strong edges, and so are entangled. Means over models.",
        made.caption,
        charts.heat,
        ("world", "matrix"),
        panels,
    )


def _curves(runs: Runs) -> Figure:
    """Terms of training step by step: Estermann & Wattenhofer 2023, Figure 6, is the term `capacity` of its method."""
    groups = _groups(training_curves(runs), ("method", "term"))
    order = sorted(groups, key=lambda key: (key[0], key[1] != "loss", key[1]))  # what was minimised first
    caption = "All strengths and seeds of a method in a world together; runs that diverged are left out."
    return Figure(
        "training_curves",
        "How training went",
        "Lines are means over the runs of a method in a world, bands one standard deviation either way.",
        caption,
        charts.curves,
        ("method", "term"),
        {key: list(groups[key].drop("method", "term").iter_rows(named=True)) for key in order},
    )


def _groups(frame: pl.DataFrame, by: Sequence[str]) -> dict[Key, pl.DataFrame]:
    return frame.partition_by(by, as_dict=True, maintain_order=True)


# Files.


def save(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Every figure as SVG and PDF, one of each for each world where it has panels by world."""
    paths: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            for name, panels in _sheets(figure).items():
                paths += _saved(figure.chart, panels, folder, name)
    except OSError as error:
        raise RequestError(f"cannot write figures to {folder} ({brief(error)}): choose another folder") from error
    return paths


def _sheets(figure: Figure) -> dict[str, dict[str, list[Row]]]:
    """Panels by title, by the name of the file they go to."""
    worlds = list(dict.fromkeys(key[0] for key in figure.panels)) if figure.by[0] == "world" else []
    names = {world: f"{figure.name}_{_slug(world)}" for world in worlds} if len(worlds) > 1 else {}
    if len(set(names.values())) < len(names):
        names = {world: f"{name}_{at}" for at, (world, name) in enumerate(names.items(), 1)}
    sheets: dict[str, dict[str, list[Row]]] = {}
    for key, rows in figure.panels.items():
        title = " ".join(key[1:] if worlds else key)
        sheets.setdefault(names.get(key[0], figure.name), {})[title] = rows
    return sheets


def _saved(chart: Chart, panels: Mapping[str, list[Row]], folder: Path, name: str) -> list[Path]:
    import vl_convert  # noqa: PLC0415

    paths = [folder / f"{name}.svg", folder / f"{name}.pdf"]
    svg = vl_convert.vegalite_to_svg(charts.drawn(chart, panels))
    paths[0].write_text(svg, encoding="utf-8")
    paths[1].write_bytes(vl_convert.svg_to_pdf(svg))
    return paths


def _slug(name: str) -> str:
    """A name as part of a file's name on any system."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", name).strip("_")[:40] or "world"
