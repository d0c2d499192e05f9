"""The report: everything that a folder of results has to say, as one HTML file that opens without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sober.errors import RequestError, counted
from sober.models.model import Model, load
from sober.report import page, sources
from sober.report.cards import showcase_part
from sober.report.explorer import HtmlPart, Start, explorer_part
from sober.report.figure import Figure
from sober.report.figures import drawable, save
from sober.report.findings import findings, only_a_look
from sober.report.frame import write
from sober.report.leaderboard import every_run, flags, leaderboard
from sober.report.page import Section
from sober.report.pair import factors_told, pair_html
from sober.report.showcase import load_showcase, shown_path
from sober.report.sortable import Cell, Column, short, table
from sober.results import Folder, Made, Request, Runs, as_runs, make
from sober.results.judged import pairs_of
from sober.words import assignments

if TYPE_CHECKING:
    import polars as pl

SHOWN = 6  # models that a page shows
EXPLORED, LARGEST = 3, 8_000_000  # models with sliders, and bytes of one at most
OF_SCORES = ("distributions", "settings", "strengths", "means", "strength_trends")
OF_AGREEMENT = (
    *("metric_agreement", "criteria_against_metrics", "criteria_within_methods", "worlds_agreement"),
    *("unified_agreement", "stability"),
)
OF_POINTS = ("metric_pairs", "criteria_pairs", "strength_pairs", "worlds_pairs", "unified_pairs")
OF_TASKS = (
    "task_curves", "scores_against_tasks", "scores_against_tasks_within_methods", "tasks_by_group", "task_pairs",
)  # fmt: skip
OF_SAMPLES = ("means_against_samples", "samples_pairs")
CASES = {"same": "the same", "different": "another"}


def report(folder: Path | str, out: Path | None = None, figures: Path | None = None) -> Path:
    """Writes the report of a folder of results, and its figures as SVG and PDF where asked for; returns its path.

    It reads nothing but the folder's results.
    """
    opened = Folder.open(folder)
    path, frame = opened.path, opened.store.table()
    if frame.is_empty():
        raise RequestError(f"{folder} has no scores yet: run the command that made it, or sober score {folder}")
    runs = as_runs(frame, pairs_of(path), path)
    made, lacking = make(runs)
    drawings = drawable(runs, made)
    chosen = shown_runs(path, runs)
    settings = dict(zip(runs.labels("run"), runs.labels("setting"), strict=True))
    pair = "" if only_a_look(runs) else pair_html(path, runs)
    models = showcase_part(path, chosen, _scores(runs), settings) if chosen else None
    explorer = _explorer(path, chosen, settings)
    request = opened.request
    title = request.title or request.name or opened.summary()
    sections = [
        *_sections(runs, frame, made, drawings, pair, models, explorer),
        Section("cite", "How to cite what was used", sources.citations(runs, frame)),
        Section("reproduce", "How to reproduce it", sources.reproduction(path, request, frame, made, lacking)),
    ]
    text = page.page(
        title,
        _head(title, request, runs),
        sections,
        css=page.style("explorer.css", "report.css") + (models.css if models else ""),
        data={"report-data": page.figure_data(drawings)} | ({"explorer-data": explorer.data} if explorer else {}),
        scripts=[page.vega(), page.file("report.js"), *([explorer.js] if explorer else [])],
    )
    if figures is not None:
        save(drawings, Path(figures))
    return write(Path(out) if out is not None else opened.beside("report.html"), text)


def _sections(
    runs: Runs,
    frame: pl.DataFrame,
    made: Sequence[Made],
    drawings: Sequence[Figure],
    pair: str,
    models: HtmlPart | None,
    explorer: HtmlPart | None,
) -> list[Section]:
    tables = {each.table.name: each for each in made}
    html = {figure.name: page.figure_html(figure) for figure in drawings}
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in findings(runs, made))
    board = leaderboard(runs, tables["leaderboard"]) if "leaderboard" in tables else ""
    transferred = _transfer(tables["transfer"]) if "transfer" in tables else ""
    return [
        Section("findings", "What was found", f'<div class="first"><ol class="findings">{sentences}</ol>{pair}</div>'),
        Section("leaderboard", "Leaderboard", board + every_run(runs, frame)),
        Section("scores", "Scores", "".join(html.get(name, "") for name in OF_SCORES)),
        Section("agreement", "Do they agree?", "".join(html.get(name, "") for name in OF_AGREEMENT)),
        Section("tasks", "What are codes good for?", "".join(html.get(name, "") for name in OF_TASKS)),
        Section("points", "Point by point", "".join(html.get(name, "") for name in OF_POINTS)),
        Section("variance", "Method, setting or seed?", html.get("objective_variance", "")),
        Section("transfer", "Does a choice transfer?", transferred),
        Section("samples", "Means and samples", "".join(html.get(name, "") for name in OF_SAMPLES)),
        Section("entangled", "Which factors stay entangled?", html.get("merge_thresholds", "")),
        Section("training", "Training", html.get("training_curves", "")),
        Section("models", "Models", models.html if models else ""),
        Section("explore", "Move the latents yourself", explorer.html if explorer else ""),
        Section("measured", "What was measured", sources.measured(runs)),
        Section("flags", "Flags", flags(frame)),
    ]


def _head(title: str, request: Request, runs: Runs) -> str:
    counts = [counted(len(runs.about), "run")]
    counts += [counted(len(runs.different(name)), name) for name in ("world", "method", "setting", "seed")]
    scales = [request.scale] if request.scale else [each or "full study" for each in runs.scales]
    name = f"<p>{escape(request.name)}</p>" if request.name and request.name != title else ""
    return (
        f"<h1>{escape(title)}</h1>{name}<p class='about'>{' · '.join(counts)}</p>"
        + (f"<p class='about'>Scale: {escape(' | '.join(map(str, scales)))}</p>" if request.maker == "study" else "")
        + "".join(
            f"<p class='about'>All {escape(f'settings of {method}' if method else 'settings')} have "
            f"{escape(assignments(values).replace(' ', ', '))}.</p>"
            for method, values in runs.shared.items()
        )
    )


def _transfer(made: Made) -> str:
    """Sober Look, Table 1: one row for each of what may change between choice and trial."""
    rows = []
    for row in made.frame.iter_rows(named=True):
        numbers = [
            Cell("–" if row[name] is None else f"{row[name]:.1%}", value=row[name]) for name in ("value", "chance")
        ]
        between = "" if row["low"] is None else f"{row['low']:.1%} to {row['high']:.1%}"
        where = f"{CASES[row['metric']]} metric, {CASES[row['world']]} world"
        rows.append([Cell(where), numbers[0]._replace(small=between), numbers[1]])
    columns = [Column("tried by", number=False), Column("probability", better="higher"), Column("chance")]
    says = (
        "On one seed, the best setting by a metric in a world is chosen. On another seed it is compared with a setting "
        "drawn at random. Where the interval holds chance, choosing did not help."
    )
    return f'<p class="says">{says}</p>{table(made.caption, columns, rows, "case")}'


def shown_runs(folder: Path, runs: Runs) -> list[str]:
    """The runs that the folder has something to show of, the best by the leading number first."""
    shown = {path.stem for path in (folder / "shown").glob("*.safetensors")}
    order = np.ma.argsort(-runs.turned(runs.leading()))  # those without the number come last
    return [run for run in runs.labels("run")[order].tolist() if run in shown][:SHOWN]


def _explorer(folder: Path, chosen: Sequence[str], settings: Mapping[str, str]) -> HtmlPart | None:
    """The explorer of the best models whose weights are in the folder, and small enough for a page."""
    models: list[Model] = []
    starts, kl, titles, told = [], [], [], []
    for run in chosen:
        path = folder / "models" / f"{run}.safetensors"
        if len(models) < EXPLORED and path.exists() and path.stat().st_size < LARGEST:
            arrays, about = load_showcase(shown_path(folder, run))
            pictures = zip(arrays["codes"], arrays["pictures"], strict=True)
            models.append(load(path))
            starts.append(
                [Start(f"picture {at}", code, picture) for at, (code, picture) in enumerate(pictures, start=1)]
            )
            kl.append(arrays["kl"])
            told.append(factors_told(arrays, about))
            titles.append(f"{settings[run]}, seed {about['seed']}, on {about['world']}")
    return explorer_part(models, starts, kl, titles, told) if models else None


def _scores(runs: Runs) -> dict[str, str]:
    """A line with the metrics of each run."""
    names = runs.ordered(runs.metrics())
    return {
        run: " · ".join(
            f"{name} {short(value)}" for name, value in zip(names, values, strict=True) if value is not None
        )
        for run, values in zip(runs.labels("run"), runs.columns(names).tolist(), strict=True)
    }
