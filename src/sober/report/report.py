"""The report of a study: everything that its store has to say, as one HTML file that opens without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sober.errors import RequestError, counted
from sober.files import read_json
from sober.models.model import Model, load
from sober.report import page, sources
from sober.report.explorer import HtmlPart, Start, explorer_part, write
from sober.report.figures import Figure, drawable, save
from sober.report.findings import findings, leading, ordered
from sober.report.leaderboard import every_run, flags, leaderboard, short
from sober.report.page import Section
from sober.report.showcase import load_showcase, showcase_part, shown_path
from sober.report.sortable import Cell, Column, table
from sober.results import Made, Runs, as_runs, make, pairs_of
from sober.results.runs import metrics, short_settings, which_is_better
from sober.results.store import Store

if TYPE_CHECKING:
    import polars as pl

SHOWN = 6  # models that a page shows
EXPLORED, LARGEST = 3, 8_000_000  # models with sliders, and bytes of one at most
OF_SCORES = ("distributions", "settings", "strengths", "strength_trends")
OF_AGREEMENT = ("metric_agreement", "criteria_against_metrics", "worlds_agreement", "unified_agreement")
CASES = {"same": "the same", "different": "another"}


def report(folder: Path | str, out: Path | None = None, figures: Path | None = None) -> Path:
    """Writes the report of a store's folder, and its figures as SVG and PDF where asked for; returns the report's path.

    It reads nothing but the store. `study.json` beside it may hold the study's name, title, scale and command.
    """
    store = Store.open(folder)
    frame, shared = short_settings(store.table())
    if frame.is_empty():
        raise RequestError(f"{folder} has no scores yet: run the study first")
    runs = as_runs(frame, pairs_of(store.folder))
    made, lacking = make(runs)
    drawings = drawable(runs, made)
    chosen = shown_runs(store, runs)
    settings = dict(zip(runs.labels("run"), runs.labels("setting"), strict=True))
    models = showcase_part(store, chosen, _scores(runs), settings) if chosen else None
    explorer = _explorer(store, chosen, settings)
    study = _study(store.folder)
    title = str(study.get("title") or study.get("name") or store.folder.resolve().name)
    sections = [
        *_sections(runs, frame, made, drawings, models, explorer),
        Section("cite", "How to cite what was used", sources.citations(runs)),
        Section("reproduce", "How to reproduce it", sources.reproduction(store.folder, study, frame, made, lacking)),
    ]
    text = page.page(
        title,
        _head(title, study, runs, shared),
        sections,
        css=page.style("explorer.css", "report.css") + (models.css if models else ""),
        data={"report-data": page.figure_data(drawings)} | ({"explorer-data": explorer.data} if explorer else {}),
        scripts=[page.vega(), page.file("report.js"), *([explorer.js] if explorer else [])],
    )
    if figures is not None:
        save(drawings, Path(figures))
    return write(Path(out) if out is not None else store.folder / "report.html", text)


def _sections(
    runs: Runs,
    frame: pl.DataFrame,
    made: Sequence[Made],
    drawings: Sequence[Figure],
    models: HtmlPart | None,
    explorer: HtmlPart | None,
) -> list[Section]:
    tables = {each.table.name: each for each in made}
    html = {figure.name: page.figure_html(figure) for figure in drawings}
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in findings(runs, made))
    board = leaderboard(runs, tables["leaderboard"]) if "leaderboard" in tables else ""
    transferred = _transfer(tables["transfer"]) if "transfer" in tables else ""
    return [
        Section("findings", "What was found", f'<ol class="findings">{sentences}</ol>'),
        Section("leaderboard", "Leaderboard", board + every_run(runs, frame)),
        Section("scores", "Scores", "".join(html.get(name, "") for name in OF_SCORES)),
        Section("agreement", "Do they agree?", "".join(html.get(name, "") for name in OF_AGREEMENT)),
        Section("variance", "Method, setting or seed?", html.get("objective_variance", "")),
        Section("transfer", "Does a choice transfer?", transferred),
        Section("samples", "Means and samples", html.get("means_against_samples", "")),
        Section("models", "Models", models.html if models else ""),
        Section("explore", "Move the latents yourself", explorer.html if explorer else ""),
        Section("measured", "What was measured", sources.measured(runs)),
        Section("flags", "Flags", flags(frame)),
    ]


def _head(title: str, study: Mapping[str, Any], runs: Runs, shared: Mapping[str, Sequence[str]]) -> str:
    counts = [counted(len(runs.about), "run")]
    counts += [counted(len(runs.different(name)), name) for name in ("world", "method", "setting", "seed")]
    scales = [study["scale"]] if study.get("scale") else [each or "full study" for each in runs.scales]
    name = f"<p>{escape(str(study['name']))}</p>" if study.get("name") and study["name"] != title else ""
    return (
        f"<h1>{escape(title)}</h1>{name}<p class='about'>{' · '.join(counts)}</p>"
        f"<p class='about'>Scale: {escape(' | '.join(map(str, scales)))}</p>"
        + "".join(
            f"<p class='about'>All {escape(f'settings of {method}' if method else 'settings')} have "
            f"{escape(', '.join(words))}.</p>"
            for method, words in shared.items()
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


def _study(folder: Path) -> Mapping[str, Any]:
    path = folder / "study.json"
    if not path.exists():
        return {}
    study = read_json(path)
    if not isinstance(study, dict):
        raise RequestError(f"{path} does not describe a study: restore it, or delete it")
    return study


def shown_runs(store: Store, runs: Runs) -> list[str]:
    """The runs that the store has something to show of, the best by the leading number first."""
    shown = {path.stem for path in (store.folder / "shown").glob("*.safetensors")}
    name = leading(runs)
    sign = 1 if which_is_better(name, runs.kinds[name]) == "lower" else -1
    order = np.ma.argsort(sign * runs.columns([name])[:, 0])  # those without the number come last
    return [run for run in runs.labels("run")[order].tolist() if run in shown][:SHOWN]


def _explorer(store: Store, chosen: Sequence[str], settings: Mapping[str, str]) -> HtmlPart | None:
    """The explorer of the best models whose weights are in the store, and small enough for a page."""
    models: list[Model] = []
    starts, kl, titles = [], [], []
    for run in chosen:
        path = store.folder / "models" / f"{run}.safetensors"
        if len(models) < EXPLORED and path.exists() and path.stat().st_size < LARGEST:
            arrays, about = load_showcase(shown_path(store.folder, run))
            pictures = zip(arrays["codes"], arrays["pictures"], strict=True)
            models.append(load(path))
            starts.append(
                [Start(f"picture {at}", code, picture) for at, (code, picture) in enumerate(pictures, start=1)]
            )
            kl.append(arrays["kl"])
            titles.append(f"{settings[run]}, seed {about['seed']}, on {about['world']}")
    return explorer_part(models, starts, kl, titles) if models else None


def _scores(runs: Runs) -> dict[str, str]:
    """A line with the metrics of each run."""
    names = ordered(metrics(runs))
    return {
        run: " · ".join(
            f"{name} {short(value)}" for name, value in zip(names, values, strict=True) if value is not None
        )
        for run, values in zip(runs.labels("run"), runs.columns(names).tolist(), strict=True)
    }
