"""Figures of a report: each cuts the rows of one of the papers' tables into panels, and names the chart to draw."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sober.errors import RequestError, brief
from sober.report import charts
from sober.report.charts import Chart, Row
from sober.report.figure import Figure, Key
from sober.report.people_words import SHIFTED_TERMS, term_words
from sober.report.scatter_figures import pair_figures
from sober.report.task_figures import task_figures
from sober.results import ResultTable, Runs
from sober.results.stats import quartiles
from sober.results.tables.table import run_counts
from sober.results.training_curves import training_curves

if TYPE_CHECKING:
    import polars as pl

DENSITY = 10  # a method with fewer runs gets no outline of their density
DOTS = 600  # with more runs than this in a world, panels show no single runs
SETTINGS = 60  # a panel shows no more settings than this

SHIFTED = (
    "The estimator weighted of β-TCVAE shifts a term of the loss by up to D · log N, for D latents and N pictures. So "
    "the term is not the total correlation or the information of the codes."
)

# Every figure that a report may have, by its name.
FIGURES = (
    *(
        "distributions",
        "settings",
        "settings_in_order",
        "strengths",
        "means",
        "strength_pairs",
        "strength_log_pairs",
        "strength_trends",
    ),
    *(
        "metric_agreement",
        "criteria_against_metrics",
        "criteria_agreement",
        "criteria_within_methods",
        "worlds_agreement",
    ),
    *(
        "unified_agreement",
        "stability",
        "metric_pairs",
        "disputed_pairs",
        "criteria_pairs",
        "unified_pairs",
        "worlds_pairs",
    ),
    *("objective_variance", "means_against_samples", "samples_pairs", "merge_thresholds", "training_curves"),
    *("scores_against_tasks", "scores_against_tasks_within_methods", "task_curves", "tasks_by_group", "task_pairs"),
)


def drawable(runs: Runs, result_tables: Sequence[ResultTable]) -> list[Figure]:
    """Every figure that the tables allow, in the order of a report."""
    tables = {result.table.name: result for result in result_tables}
    figures = [*_score_figures(runs, tables["leaderboard"])] if "leaderboard" in tables else []
    figures += [_correlations(tables[name], heat_map, runs) for name, heat_map in HEAT_MAPS.items() if name in tables]
    if "objective_variance" in tables:
        figures.append(_variance(tables["objective_variance"], runs))
    if "means_against_samples" in tables:
        figures.append(_means_against_samples(tables["means_against_samples"]))
    if "means_by_setting" in tables:
        figures.append(_means(tables["means_by_setting"], runs))
    if "merge_thresholds" in tables:
        figures.append(_thresholds(tables["merge_thresholds"]))
    figures += [*pair_figures(runs, tables), *task_figures(runs, tables), _curves(runs)]
    return [figure for figure in figures if figure.panels]


# Scores of runs.


def _score_figures(runs: Runs, board: ResultTable) -> Iterator[Figure]:
    caption = dataclasses.replace(board.table, title="Scores of runs").caption(runs)
    sound, names = runs.not_diverged(), runs.ordered(runs.main_numbers())
    by = ("world", "metric")
    keys = list(itertools.product(sound.unique("world"), names))
    dots = len(sound.run_frame) <= DOTS * len(runs.unique("world"))
    single_runs = "each dot is a run" if dots else f"there are {len(sound.run_frame):,} runs, too many to show each"
    runs_by_world = dict(sound.grouped_by("world"))
    yield Figure(
        "distributions",
        "How scores spread, by method",
        "All strengths and seeds of a method together. The outline is the density of its runs: it ends at the lowest "
        f"and the highest run, and needs {DENSITY} runs or more. The bar goes from the lower to the upper quartile, "
        f"the outlined dot is the median; {single_runs}.",
        caption,
        charts.distributions,
        by,
        {key: rows for key in keys if (rows := list(_densities(runs_by_world[key[:1]], key[1], dots)))},
    )
    frame = board.frame.drop_nulls("value")
    cut = f" A panel shows its {SETTINGS} best settings." if frame["setting"].n_unique() > SETTINGS else ""
    single_runs = "each thin tick is a run" if dots else "single runs are left out"
    groups = _groups(frame, by)
    yield Figure(
        "settings",
        "How scores spread, by setting",
        "The best first. The wide bar goes from the lower to the upper quartile over seeds; the dot is the median, "
        f"its line the 95% interval of the median; {single_runs}.{cut}",
        caption,
        charts.settings,
        by,
        {key: list(_by_setting(groups[key], runs_by_world[key[:1]], key[1], dots)) for key in keys if key in groups},
    )
    places = _places(runs)
    in_order = _groups(_by_strength(frame, runs), by) if len(places) else {}
    cut = f" A panel shows the first {SETTINGS}." if frame["setting"].n_unique() > SETTINGS else ""
    yield Figure(
        "settings_in_order",
        "How scores spread, by method and strength",
        "The settings of each method in the order of its strengths, the smallest first. The wide bar goes from the "
        "lower to the upper quartile over seeds; the dot is the median, its line the 95% interval of the median; "
        f"{single_runs}.{cut}",
        caption,
        charts.settings,
        by,
        {
            key: list(_by_setting(in_order[key], runs_by_world[key[:1]], key[1], dots))
            for key in keys
            if key in in_order
        },
    )
    panels = {key: _along(groups[key], places) for key in keys if key in groups}
    yield Figure(
        "strengths",
        "Scores against the strength of regularisation",
        "Each method along its own sweep: medians over seeds and their 95% intervals. A larger value is not always a "
        "stronger penalty: a larger C of AnnealedVAE regularises less. Methods differ in shape, dash and colour.",
        caption,
        charts.strengths,
        by,
        {key: rows for key, rows in panels.items() if rows},
    )


def _densities(runs: Runs, name: str, dots: bool) -> Iterator[Row]:
    rng = np.random.default_rng(0)  # the same jitter in every report
    column = runs.number_columns([name])[:, 0]
    methods = runs.run_column("method")
    for method in runs.unique("method"):
        has_value = (methods == method) & ~np.ma.getmaskarray(column)
        values = column.data[has_value]
        if not len(values):
            continue
        lower, median, upper = quartiles(values[None])[:, 0].tolist()
        yield {"part": "summary", "method": method, "lower": lower, "median": median, "upper": upper, "n": len(values)}
        if len(values) >= DENSITY and np.ptp(values) > 1e-9 * np.abs(values).max():
            yield from ({"part": "density", "method": method, **point} for point in _outline(values))
        if dots:
            labels = runs.run_frame.filter(has_value).select("setting", "seed").iter_rows(named=True)
            for row, value, offset in zip(labels, values.tolist(), rng.uniform(-0.35, 0.35, len(values)), strict=True):
                yield {"part": "run", "method": method, **row, "score": value, "offset": round(float(offset), 3)}


def _outline(values: np.ndarray, points: int = 32) -> Iterator[Row]:
    """Points around the density of values: up along one side, and back along the other.

    The density is a sum of Gaussians whose width follows Scott's rule: σ n^(-1/5).
    """
    scores = np.linspace(values.min(), values.max(), points)
    width = values.std(ddof=1) * len(values) ** -0.2
    height = np.exp(-0.5 * ((scores[:, None] - values) / width) ** 2).sum(axis=1)
    height /= height.max()
    outline = [*zip(scores, height, strict=True), *zip(scores[::-1], -height[::-1], strict=True)]
    for order, (score, offset) in enumerate(outline):
        yield {"score": float(score), "offset": round(float(offset), 3), "order": order}


def _by_setting(board: pl.DataFrame, runs: Runs, name: str, dots: bool) -> Iterator[Row]:
    first = board.head(SETTINGS)
    yield from ({"part": "summary", **row} for row in first.drop("world", "metric", "best").iter_rows(named=True))
    if dots:
        shown_runs = runs.where(np.isin(runs.run_column("setting"), first["setting"].to_list()))
        labels = shown_runs.run_frame.select("setting", "seed").iter_rows(named=True)
        for row, value in zip(labels, shown_runs.number_columns([name])[:, 0].tolist(), strict=True):
            if value is not None:
                yield {"part": "run", **row, "score": value}


def _places(runs: Runs) -> pl.DataFrame:
    """Each setting's place in its sweep, from 1. Each sweep of a method has a line of its own, under its own name."""
    import polars as pl  # noqa: PLC0415

    swept = runs.run_frame.select("world", pl.col("sweep").alias("method"), "setting", "strength").unique()
    swept = swept.drop_nulls("strength")
    return swept.with_columns(place=pl.col("strength").rank("dense").over("method"))


def _by_strength(board: pl.DataFrame, runs: Runs) -> pl.DataFrame:
    """The rows of settings by method and sweep, and in each sweep from the smallest strength to the largest."""
    swept = runs.run_frame.select("world", "setting", "sweep", "strength").unique()
    ordered = board.join(swept, on=("world", "setting"), how="left").sort("sweep", "strength", "setting")
    return ordered.select(board.columns)


def _along(board: pl.DataFrame, places: pl.DataFrame) -> list[Row]:
    columns = ("method", "place", "strength", "setting", "value", "low", "high", "n")
    joined = board.join(places, on=("world", "setting")).sort("method", "place", "setting")
    return list(joined.select(columns).iter_rows(named=True))


# Correlations and shares.


class HeatMap(NamedTuple):
    """How a table of correlations becomes a heat map."""

    row: str  # the table's column with the names of rows
    column: str  # the table's column with the names of columns
    symmetric: bool  # whether rows and columns have the same names
    by: Key  # a panel for each value of these columns
    how_to_read: str


HEAT_MAPS = {  # by the name of the table
    "metric_agreement": HeatMap("metric", "other", True, ("world",), "It is 1 if two metrics rank all runs alike."),
    "criteria_against_metrics": HeatMap(
        "criterion",
        "metric",
        False,
        ("world",),
        "It says whether a number that needs no labels ranks runs as a metric does. If a lower number is better, "
        "agreement is negative, as for the negative ELBO.",
    ),
    "criteria_agreement": HeatMap(
        "criterion",
        "other",
        True,
        ("world",),
        "It is 1 if two numbers that need no labels rank all runs alike, and negative if a lower one of the two is "
        "better.",
    ),
    "worlds_agreement": HeatMap(
        "world",
        "other",
        True,
        ("metric",),
        "It is 1 if a metric ranks settings alike in two worlds.",
    ),
    "strength_trends": HeatMap(
        "metric",
        "method",
        False,
        ("world",),
        "It is positive if a number rises with the hyperparameter.",
    ),
    "unified_agreement": HeatMap(
        "score",
        "other",
        True,
        ("world",),
        "Only scores that share a matrix or a rule are compared.",
    ),
    "criteria_within_methods": HeatMap(
        "criterion",
        "metric",
        False,
        ("world", "method"),
        "It compares the runs of one method, which differ only in strength and seed.",
    ),
    "scores_against_tasks": HeatMap(
        "score",
        "task",
        False,
        ("world",),
        "It says whether codes with a high score do well in a task. If a low number is better, for the score or for "
        "the task, agreement is negative.",
    ),
    "scores_against_tasks_within_methods": HeatMap(
        "score",
        "task",
        False,
        ("world", "method"),
        "It compares the runs of one method, which differ only in strength and seed.",
    ),
    "stability": HeatMap(
        "metric",
        "other",
        False,
        ("world", "pictures"),
        "Rows are metrics on one draw of pictures, columns the same metrics on another draw of as many. The diagonal "
        "compares a metric with itself.",
    ),
}
SIGNS = "Blue is positive, orange is negative. A number in brackets has a 95% interval that holds 0. "


def _correlations(result: ResultTable, heat_map: HeatMap, runs: Runs) -> Figure:
    methods = list(dict.fromkeys((*runs.unique("method"), *runs.unique("sweep"))))
    names = {"world": runs.unique("world"), "method": methods}
    row, column = heat_map.row, heat_map.column
    rows, columns = (names.get(field, runs.ordered(result.frame[field].unique())) for field in (row, column))
    if heat_map.symmetric:
        rows = columns = names.get(row, runs.ordered({*result.frame[row], *result.frame[column]}))
    places = {pair: place for place, pair in enumerate(itertools.product(rows, columns))}
    panels: dict[Key, list[Row]] = {}
    for key, frame in _groups(result.frame, heat_map.by).items():
        cells = [_cell(estimate, row, column) for estimate in frame.iter_rows(named=True)]
        cells += [{**cell, "row": cell["column"], "column": cell["row"]} for cell in cells if heat_map.symmetric]
        cells = [{**cell, "at": columns.index(cell["column"])} for cell in cells]
        panels[tuple(map(str, key))] = sorted(cells, key=lambda cell: places[cell["row"], cell["column"]])
    order = names.get(heat_map.by[0], runs.ordered(dict.fromkeys(key[0] for key in panels)))
    return Figure(
        result.table.name,
        result.table.title,
        SIGNS + heat_map.how_to_read,
        result.caption,
        charts.heat,
        heat_map.by,
        {key: panels[key] for key in sorted(panels, key=lambda key: order.index(key[0]))},
    )


def _cell(estimate: Row, row: str, column: str) -> Row:
    """A cell of a heat map: an estimate, and its text, in brackets if the interval holds 0."""
    value, low, high = estimate["value"], estimate["low"], estimate["high"]
    sure = low is not None and (low > 0 or high < 0)
    text = "–" if value is None else f"{value:.2f}".replace("-", "−")
    return {
        **{"row": estimate[row], "column": estimate[column]},
        **{"value": value, "low": low, "high": high, "n": estimate["n"]},
        **{"size": abs(value or 0.0), "text": text if sure or value is None else f"({text})"},
    }


def _variance(result: ResultTable, runs: Runs) -> Figure:
    groups = _groups(result.frame.drop_nulls("value"), ("world",))
    places = {name: place for place, name in enumerate(runs.ordered(runs.metrics()))}
    return Figure(
        "objective_variance",
        result.table.title,
        "Shares of a score's variance. A setting is a method with its hyperparameters; the share that the setting does "
        "not explain is due to the seed. Lines are 95% intervals.",
        result.caption,
        charts.variance,
        ("world",),
        {
            key: sorted(frame.iter_rows(named=True), key=lambda row: places[row["metric"]])
            for key, frame in groups.items()
        },
    )


def _means_against_samples(result: ResultTable) -> Figure:
    groups = _groups(result.frame, ("world", "metric"))
    cut = f" A panel shows its first {SETTINGS} settings." if result.frame["setting"].n_unique() > SETTINGS else ""
    return Figure(
        "means_against_samples",
        "Total correlation and similar scores, of means and of samples",
        "Medians over seeds. Regularisation acts on samples, but people use means. The figure shows whether the scores "
        f"of means follow the scores of samples.{cut}",
        result.caption,
        charts.dumbbells,
        ("world", "metric"),
        {
            key: list(frame.head(SETTINGS).drop("world", "metric").iter_rows(named=True))
            for key, frame in groups.items()
        },
    )


def _means(result: ResultTable, runs: Runs) -> Figure:
    """Chen et al. 2018, Figure 2: means along the strengths, with 90% intervals."""
    board = result.frame.rename({"low": "low_95", "high": "high_95"}).rename({"low_90": "low", "high_90": "high"})
    places = _places(runs)
    by = ("world", "metric")
    panels = {key: _along(frame.drop("method", "strength"), places) for key, frame in _groups(board, by).items()}
    order = {name: place for place, name in enumerate(runs.ordered({key[1] for key in panels}))}
    return Figure(
        "means",
        "Means against the strength of regularisation",
        "Each method along its own sweep: means over seeds, and their 90% intervals, Student's t.",
        f"{result.table.title} ({result.table.paper}). {run_counts(runs)}",
        charts.strengths,
        by,
        {key: panels[key] for key in sorted(panels, key=lambda key: order[key[1]]) if panels[key]},
    )


def _thresholds(result: ResultTable) -> Figure:
    """Locatello et al. 2020, Figures 34 and 35: the threshold at which two factors merge; each pair has two cells."""
    panels: dict[Key, list[Row]] = {}
    for key, frame in _groups(result.frame, ("world", "matrix")).items():
        largest = float(frame["value"].max() or 0.0) or 1.0  # type: ignore[arg-type]
        names = list(dict.fromkeys([*frame["factor"], *frame["other"]]))
        cells = {}
        for row in frame.iter_rows(named=True):
            estimate = {name: row[name] for name in ("value", "low", "high", "n")}
            cell = {**estimate, "size": row["value"] / largest, "text": f"{row['value']:.2f}"}
            for one, other in ((row["factor"], row["other"]), (row["other"], row["factor"])):
                cells[one, other] = {"row": one, "column": other, "at": names.index(other), **cell}
        panels[key] = [cells[pair] for pair in itertools.product(names, repeat=2) if pair in cells]
    return Figure(
        "merge_thresholds",
        result.table.title,
        "Edges between factors and latents are deleted up to a threshold. A cell has the highest threshold that still "
        "joins two factors, a mean over models. In dark cells it is high: strong edges join these factors, so they are "
        "entangled.",
        result.caption,
        charts.heat,
        ("world", "matrix"),
        panels,
    )


def _curves(runs: Runs) -> Figure:
    """Terms of the loss, step by step. Estermann & Wattenhofer 2023, Figure 6, shows the term `capacity` of DAVA."""
    groups = _groups(training_curves(runs), ("method", "term"))
    order = sorted(groups, key=lambda key: (key[0], key[1] != "loss", key[1]))  # the loss before its terms
    caption = "All strengths and seeds of a method in a world together; runs that diverged are left out."
    shifted = f" {SHIFTED}" if any(term in SHIFTED_TERMS for _, term in order) else ""
    return Figure(
        "training_curves",
        "How training went",
        "Lines are means over the runs of a method in a world. Bands are one standard deviation wide on either side."
        f"{shifted}",
        caption,
        charts.curves,
        ("method", "term"),
        {
            (method, term_words(term) if term in SHIFTED_TERMS else term): list(
                groups[method, term].drop("method", "term").iter_rows(named=True)
            )
            for method, term in order
        },
    )


def _groups(frame: pl.DataFrame, by: Sequence[str]) -> dict[Key, pl.DataFrame]:
    return frame.partition_by(by, as_dict=True, maintain_order=True)


# Files.


def save(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Writes every figure as SVG and PDF; a figure with panels by world gets both files for each world."""
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
    """The panels that each file gets: rows by the title of the panel, by the name of the file."""
    worlds = list(dict.fromkeys(key[0] for key in figure.panels)) if figure.by[0] == "world" else []
    names = {world: f"{figure.name}_{_slug(world)}" for world in worlds} if len(worlds) > 1 else {}
    if len(set(names.values())) < len(names):
        names = {world: f"{name}_{number}" for number, (world, name) in enumerate(names.items(), 1)}
    sheets: dict[str, dict[str, list[Row]]] = {}
    for key, rows in figure.panels.items():
        title = " ".join(key[1:] if worlds else key)
        sheets.setdefault(names.get(key[0], figure.name), {})[title] = rows
    return sheets


def _saved(chart: Chart, panels: Mapping[str, list[Row]], folder: Path, name: str) -> list[Path]:
    import vl_convert  # noqa: PLC0415

    paths = [folder / f"{name}.svg", folder / f"{name}.pdf"]
    svg = vl_convert.vegalite_to_svg(charts.paper_figure(chart, panels))
    paths[0].write_text(svg, encoding="utf-8")
    paths[1].write_bytes(vl_convert.svg_to_pdf(svg))
    return paths


def _slug(name: str) -> str:
    """A name in the letters that every system allows in a file's name."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", name).strip("_")[:40] or "world"
