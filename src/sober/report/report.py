"""The report: all results of a folder, as one HTML file that opens without a network.

Its first page answers the question that the folder was made for. Everything else is folded below it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sober.criteria.verdict import Verdict
from sober.errors import RequestError, counted, shell_command
from sober.report import first_page, page, provenance
from sober.report.agreement_page import section_html
from sober.report.chosen_numbers import few_numbers
from sober.report.component_pictures import FolderAgreement, component_pictures
from sober.report.explorer import explorer_fragment
from sober.report.figure import Figure
from sober.report.figures import drawable, save
from sober.report.findings import findings_if_hardly_trained, findings_of, hardly_trained, verdict_sentences
from sober.report.leaderboard_section import every_run, flags, leaderboard
from sober.report.model_cards import showcase_fragment
from sober.report.page import Section
from sober.report.page_files import write
from sober.report.people_words import PeopleWords
from sober.report.seed_pair_pictures import pair_html
from sober.report.sortable_tables import Cell, Column, short, table
from sober.results import Folder, Request, ResultTable, Runs, as_runs, make_tables
from sober.results.judgement_files import pair_scores
from sober.results.showcase_files import MODELS_SHOWN, showcase_path, showcase_runs
from sober.results.tables.registry import TABLES
from sober.results.training_state_files import load_training_states
from sober.results.verdict_files import load_verdicts

if TYPE_CHECKING:
    import polars as pl

# The figures of each section by name, and in a few words what each compares.
OF_SCORES = {
    "distributions": "by method",
    "settings": "by setting",
    "settings_in_order": "by method and strength",
    "strengths": "medians against strength",
    "means": "means against strength",
    "strength_trends": "correlation with strength",
}
OF_AGREEMENT = {
    "metric_agreement": "metrics with each other",
    "criteria_against_metrics": "criteria with metrics",
    "criteria_agreement": "criteria with each other",
    "criteria_within_methods": "within methods",
    "worlds_agreement": "between worlds",
    "unified_agreement": "by matrix and rule",
    "stability": "on other pictures",
}
OF_POINTS = {
    "metric_pairs": "metrics",
    "criteria_pairs": "criteria and metrics",
    "strength_pairs": "strengths",
    "strength_log_pairs": "strengths, logarithmic",
    "disputed_pairs": "disputed runs",
    "worlds_pairs": "worlds",
    "unified_pairs": "rules",
}
OF_TASKS = {
    "task_curves": "by the number of labels",
    "scores_against_tasks": "with scores",
    "scores_against_tasks_within_methods": "within methods",
    "tasks_by_group": "by group",
    "task_pairs": "point by point",
}
OF_VARIANCE = {"objective_variance": "shares of each score's variance"}
OF_SAMPLES = {"means_against_samples": "medians", "samples_pairs": "point by point"}
OF_FACTORS = {"merge_thresholds": "the thresholds at which factors merge"}
OF_TRAINING = {"training_curves": "terms of the loss, step by step"}
CASES = {"same": "the same", "different": "another"}


def report(
    folder: Path | str,
    out: Path | None = None,
    figures: Path | None = None,
    explorer_entries: Sequence[Mapping[str, Any]] = (),
    verdicts: Mapping[str, Verdict] | None = None,
    agreements: Mapping[str, FolderAgreement] | None = None,
) -> Path:
    """Writes the report of a folder of results, and returns its path.

    It reads only the folder. If `figures` names a folder, it also writes each figure there as SVG and PDF. The explorer
    gets a model with sliders for each of `explorer_entries`. `verdicts` on models by world replace the saved ones.
    `agreements` by world say what recurs among the models.
    """
    opened = Folder.open(folder)
    path, frame = opened.path, opened.store.table()
    if frame.is_empty():
        raise RequestError(
            f"{folder} has no scores yet: run the command that made it, or {shell_command('sober', 'score', folder)}"
        )
    material = _material(opened, frame, load_verdicts(path) if verdicts is None else verdicts)
    text = page.page(
        _title(material),
        _head(material),
        _sections(material, frame, explorer_entries, agreements or {}),
        css=page.style("explorer.css", "report.css", "showcase.css"),
        data=_data(material, explorer_entries),
        scripts=_scripts(explorer_entries),
    )
    if figures is not None:
        save(material.drawings, Path(figures))
    return write(Path(out) if out is not None else opened.beside("report.html"), text)


class Material(NamedTuple):
    """What a report is made of. Runs, tables, drawings and verdicts are under names for people."""

    folder: Path
    request: Request
    named: Runs  # under their names in tables
    words: PeopleWords
    runs: Runs
    tables: Mapping[str, ResultTable]
    lacking: Mapping[str, str]  # tables that cannot be made, each with the reason
    drawings: Sequence[Figure]
    verdicts: Mapping[str, Verdict]
    hardly_trained: bool

    @property
    def is_study(self) -> bool:
        """Whether the folder asks a question about many models, and not which one to use."""
        return self.request.maker == "study" or len(self.verdicts) != 1


def _material(opened: Folder, frame: pl.DataFrame, verdicts: Mapping[str, Verdict]) -> Material:
    named = as_runs(frame, pair_scores(opened.path), opened.path)
    words = PeopleWords.of(named, frame, opened.request.worlds)
    runs = words.in_runs(named)
    result_tables, lacking = make_tables(named)
    paper = opened.request.paper
    tables = {result.table.name: words.in_table(result) for result in result_tables}
    tables = {name: result._replace(caption=own_caption(result.caption, paper)) for name, result in tables.items()}
    drawings = [
        figure._replace(caption=own_caption(figure.caption, paper)) for figure in drawable(runs, list(tables.values()))
    ]
    spoken = {
        words.worlds[world]: dataclasses.replace(verdict, setting=words.models.get(verdict.run, verdict.setting))
        for world, verdict in verdicts.items()
        if world in words.worlds
    }
    return Material(
        opened.path, opened.request, named, words, runs, tables, lacking, drawings, spoken, hardly_trained(named)
    )


def own_caption(caption: str, paper: str) -> str:
    """A caption without the paper that had such a table first, unless the results repeat a study of this `paper`."""
    for table_of_paper in TABLES.values():
        if table_of_paper.paper.split(" ")[0] not in paper:
            caption = caption.replace(f" ({table_of_paper.paper})", "")
    return caption if paper else caption.replace(" Scale: full study.", "")


def _sections(
    material: Material,
    frame: pl.DataFrame,
    explorer_entries: Sequence[Mapping[str, Any]],
    agreements: Mapping[str, FolderAgreement],
) -> list[Section]:
    """The first page, and sections to unfold: each says what is inside."""
    runs, tables = material.runs, material.tables
    explorer = explorer_fragment(explorer_entries) if explorer_entries else None
    board = leaderboard(runs, tables["leaderboard"], material.verdicts) if "leaderboard" in tables else ""
    models = _models(material)
    measured = provenance.measured_numbers(material.named, material.words.numbers)
    recurring = _recurring(material.folder, agreements)
    reproduction = provenance.reproduction(
        material.folder, material.request, frame, list(tables.values()), material.lacking
    )
    return [
        Section("findings", "", _first_page(material)),
        _fold("leaderboard", "All settings and models", _board_note(runs), board + every_run(runs, frame)),
        _fold("models", "Models in pictures", "reconstructions, what each latent does", models),
        _fold(
            "explore",
            "Move the latents yourself",
            f"sliders for {counted(len(explorer_entries), 'model')}",
            explorer.html if explorer else "",
        ),
        _drawn(material, "scores", "How scores spread", OF_SCORES),
        _drawn(material, "tasks", "What are codes good for?", OF_TASKS),
        _drawn(material, "agreement", "Do scores agree?", OF_AGREEMENT),
        _drawn(material, "points", "Point by point", OF_POINTS),
        _drawn(material, "variance", "Method, setting or seed?", OF_VARIANCE),
        _fold(
            "transfer",
            "Does a choice transfer?",
            "to another metric, to another world",
            _transfer(tables["transfer"]) if "transfer" in tables else "",
        ),
        _fold("recurs", "What recurs among the models?", "latents that several models share", recurring),
        _drawn(material, "samples", "Means and samples", OF_SAMPLES),
        _drawn(material, "entangled", "Which factors stay entangled?", OF_FACTORS),
        _drawn(material, "training", "How training went", OF_TRAINING),
        _fold("measured", "What was measured", f"the meaning of {counted(len(runs.names), 'number')}", measured),
        _fold("flags", "Flags", "numbers to read with care", flags(frame)),
        _fold("cite", "How to cite what was used", "papers", provenance.citations(material.named, frame)),
        _fold("reproduce", "How to reproduce it", "commands and versions", reproduction),
    ]


def _recurring(folder: Path, agreements: Mapping[str, FolderAgreement]) -> str:
    """What recurs on each world, from the codes and showcases that the folder keeps."""
    titles = [f"<h3>{escape(world)}</h3>" if len(agreements) > 1 else "" for world in agreements]
    pieces = (
        title + section_html(agreement.analysis, component_pictures(folder, agreement))
        for title, agreement in zip(titles, agreements.values(), strict=True)
    )
    return "".join(pieces)


def _first_page(material: Material) -> str:
    runs, verdicts = material.runs, material.verdicts
    notes = material.request.notes
    if material.is_study and material.hardly_trained:
        sentences = findings_if_hardly_trained(material.named)
    else:
        sentences = findings_of(runs, list(material.tables.values()), verdicts)
    if material.is_study:
        pair = "" if material.hardly_trained else pair_html(material.folder, runs)
        return first_page.study(runs, verdicts, sentences, notes, pair)
    on_verdicts = verdict_sentences(verdicts, runs)  # the page itself says what they say
    sentences = [sentence for sentence in sentences if sentence not in on_verdicts]
    use = f'sober.load("{material.folder.name}").encode(pictures)' if material.request.maker == "fit" else ""
    blank = [
        run
        for world in material.request.worlds
        for run, state in load_training_states(material.folder, world).items()
        if state.is_no_better_than_mean_picture
    ]
    return first_page.answer(material.folder, runs, verdicts, sentences, notes, use, blank)


def _models(material: Material) -> str:
    """The cards of models that have pictures: the best placed model of each verdict first. Empty if none has any."""
    placed = [verdict.run for verdict in material.verdicts.values()]
    placed_with_pictures = [run for run in placed if showcase_path(material.folder, run).exists()]
    with_pictures = [*placed_with_pictures, *showcase_runs(material.folder, material.runs)]
    chosen = list(dict.fromkeys(with_pictures))[:MODELS_SHOWN]
    if not chosen:
        return ""
    remarks = {verdict.run: verdict.sentence() for verdict in material.verdicts.values()}
    scores, words = _scores(material.runs), material.words
    return showcase_fragment(material.folder, chosen, scores, words.models, worlds=words.worlds, remarks=remarks).html


def _fold(name: str, title: str, note: str, html: str) -> Section:
    return Section(name, title, html, note, folded=True)


def _drawn(material: Material, name: str, title: str, figures: Mapping[str, str]) -> Section:
    """A section of these figures, as far as there are any. `figures` says in a few words what each compares."""
    drawings = {figure.name: figure for figure in material.drawings if figure.name in figures}
    ordered = [figure for figure in figures if figure in drawings]
    html = "".join(page.figure_html(drawings[figure]) for figure in ordered)
    return _fold(name, title, ", ".join(figures[figure] for figure in ordered), html)


def _board_note(runs: Runs) -> str:
    counts = [counted(len(runs.unique("setting")), "setting"), counted(len(runs.run_frame), "model")]
    return f"{', '.join(counts)}: every number"


def _data(material: Material, explorer_entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    data = {"report-data": page.figure_data(material.drawings)}
    return data | ({"explorer-data": explorer_fragment(explorer_entries).data} if explorer_entries else {})


def _scripts(explorer_entries: Sequence[Mapping[str, Any]]) -> list[str]:
    scripts = [page.vega(), page.file("report.js")]
    return [*scripts, explorer_fragment(explorer_entries).js] if explorer_entries else scripts


def _title(material: Material) -> str:
    request = material.request
    if request.maker == "fit":
        return f"{counted(len(material.runs.run_frame), 'model')} of {', '.join(material.runs.unique('world'))}"
    return request.title or request.name or f"Models of {', '.join(material.runs.unique('world'))}"


def _head(material: Material) -> str:
    request, runs, title = material.request, material.runs, _title(material)
    counts = [counted(len(runs.run_frame), "run")]
    several = [name for name in ("world", "method", "setting", "seed") if len(runs.unique(name)) > 1]
    counts += [counted(len(runs.unique(name)), name) for name in several]
    scales = [request.scale] if request.scale else [scale or "full study" for scale in runs.scales]
    name = f"{escape(request.name)} · " if request.name and request.name != title else ""
    shared = [
        f"{'All settings' if not method else f'All settings of {method}'} have {', '.join(settings)}."
        for method, settings in runs.shared.items()
    ]
    shared += [
        f"Settings of {method} on {world} have {', '.join(settings)}."
        for (world, method), settings in runs.by_world.items()
    ]
    scale = [f"Scale: {' | '.join(map(str, scales))}."] if request.maker == "study" else []
    sentences = escape(" ".join([*scale, *shared]))
    return f"<h1>{escape(title)}</h1><p class='about'>{name}{' · '.join(counts)}. {sentences}</p>"


def _transfer(transfer: ResultTable) -> str:
    """Sober Look, Table 1: a row for each case, by whether the trial uses another metric or another world."""
    rows = []
    for row in transfer.frame.iter_rows(named=True):
        numbers = [
            Cell("–" if row[name] is None else f"{row[name]:.1%}", value=row[name]) for name in ("value", "chance")
        ]
        interval = "" if row["low"] is None else f"{row['low']:.1%} to {row['high']:.1%}"
        case = f"{CASES[row['metric']]} metric, {CASES[row['world']]} world"
        rows.append([Cell(case), numbers[0]._replace(small=interval), numbers[1]])
    columns = [Column("tried by", number=False), Column("probability", better="higher"), Column("chance")]
    how_to_read = (
        "On one seed, the best setting by a metric in a world is chosen. On another seed it is compared with a setting "
        "drawn at random. If the interval holds chance, no benefit of the choice was found."
    )
    return f'<p class="how-to-read">{how_to_read}</p>{table(transfer.caption, columns, rows, "case")}'


def _scores(runs: Runs) -> dict[str, str]:
    """A line of text for each run: a few numbers and their values."""
    names = few_numbers(runs)
    return {
        run: " · ".join(
            f"{name} {short(value)}" for name, value in zip(names, values, strict=True) if value is not None
        )
        for run, values in zip(runs.run_column("run"), runs.number_columns(names).tolist(), strict=True)
    }
