"""The origin of a report's numbers: what each measures, whom to cite, and how to compute everything again."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sober.criteria.registry import CRITERIA
from sober.errors import counted
from sober.methods import METHODS
from sober.metrics.registry import METRICS
from sober.nets import NETS
from sober.report.leaderboard_section import meaning
from sober.results import Request, ResultTable, Runs
from sober.results.table_rows import run_from_row
from sober.settings_text import text_of
from sober.tasks import TASKS
from sober.types import ADAM, WorldSpec
from sober.worlds import WORLDS

if TYPE_CHECKING:
    import polars as pl

STUDY = "Locatello et al. (2020) A Sober Look at the Unsupervised Learning of Disentangled Representations"
FROM_TRAINING = "a term of the loss, or a number beside it, when training ended"
UNKNOWN = "not one of Sober’s own numbers"
COMMANDS = 100  # a report lists no more commands than this


def measured_numbers(runs: Runs, titles: Mapping[str, str]) -> str:
    """The meaning of each number; for a criterion, also what it sees and what it cannot see.

    `titles` are the names of numbers for people.
    """
    items = []
    for name in runs.ordered(runs.names):
        number = runs.numbers[name]
        criterion = CRITERIA.get(number.metric)
        summary = f"{criterion.summary}: {criterion.sees} {criterion.blind}" if criterion else meaning(number.metric)
        text = summary.replace("?:", "?") or (FROM_TRAINING if number.kind == "training" else UNKNOWN)
        items.append(f"<dt>{escape(titles[name])} <code>{escape(name)}</code></dt><dd>{escape(text)}</dd>")
    return f"<dl>{''.join(items)}</dl>"


def citations(runs: Runs, frame: pl.DataFrame) -> str:
    """The works to cite, each with the methods, metrics, tasks, criteria, nets and worlds that come from it."""
    uses_by_reference: dict[str, list[str]] = {}
    for references, use in _uses(runs, frame):
        for reference in references.replace("): ", ") ").split("; "):
            uses = uses_by_reference.setdefault(reference, [])
            uses += [use] if use not in uses else []
    items = [
        f"<li>{escape(reference)} <small>{escape(', '.join(uses))}</small></li>"
        for reference, uses in sorted(uses_by_reference.items())
    ]
    return (
        f'<ul class="works">{"".join(items)}</ul><p>Sober’s documentation has the BibTeX on the page of each method, '
        "metric, criterion or task.</p>"
    )


def _uses(runs: Runs, frame: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """References, each with a method, metric, task, criterion, net or world that the results used."""
    yield STUDY, "the tables of this report"
    for name in runs.unique("method"):
        if name in METHODS:
            yield METHODS[name].reference, f"method {METHODS[name].title or name}"
    for name in dict.fromkeys(runs.numbers[name].metric for name in runs.ordered(runs.names)):
        for metric in METRICS.values():
            if name in metric.scores:
                yield metric.reference, f"metric {metric.name}"
        for task in TASKS.values():
            if name in task.scores:
                yield task.reference, f"task {task.name}"
        if name in CRITERIA:
            yield CRITERIA[name].reference, f"criterion {CRITERIA[name].title or name}"
    for name in sorted(frame["nets"].unique()):
        if name in NETS and NETS[name].reference != "Sober":
            yield NETS[name].reference, f"nets {name}"
    for name in runs.unique("world"):
        world = WORLDS.get(WorldSpec.parse(name).name)
        if isinstance(reference := getattr(world, "reference", None), str) and reference not in ("Sober", "yours"):
            yield reference, f"world {name}"


def reproduction(
    folder: Path, request: Request, frame: pl.DataFrame, tables: Sequence[ResultTable], lacking: Mapping[str, str]
) -> str:
    """Commands for the study, its tables, this report, and the training of each setting."""
    paragraphs = []
    if request.command:
        paragraphs.append(f"<p>The command that made the models:</p>{_code(request.command)}")
    paragraphs.append(f"<p>This report, from the folder alone:</p>{_code(f'sober report {shlex.quote(str(folder))}')}")
    names = ", ".join(result.table.name for result in tables)
    paragraphs.append(
        f"<p>The tables behind its numbers ({escape(names)}), as Markdown, LaTeX and parquet:</p>"
        + _code(f"sober tables {shlex.quote(str(folder))}")
    )
    paragraphs.append(_training(frame, request.worlds))
    paragraphs.append(f"<p>{escape(_versions(frame))}</p>")
    if lacking:
        items = "".join(f"<li><code>{escape(name)}</code> {escape(why)}</li>" for name, why in lacking.items())
        paragraphs.append(f"<p>Tables that this report lacks, and what they need:</p><ul>{items}</ul>")
    return "".join(paragraphs)


def _training(frame: pl.DataFrame, worlds: Mapping[str, str]) -> str:
    """For each setting in each world, the command that trains its models. `worlds` says how each world is opened."""
    import polars as pl  # noqa: PLC0415

    settings = frame.unique(["world", "setting"], maintain_order=True).drop("seed")
    seeds = frame.group_by("world", "setting").agg(pl.col("seed").max())
    rows = settings.join(seeds, on=["world", "setting"]).sort("world", "setting").head(COMMANDS).iter_rows(named=True)
    commands = "\n".join(_command(row, worlds) for row in rows)
    cut = f", the first {COMMANDS}" if len(settings) > COMMANDS else ""
    return f"<details><summary>Training, {counted(len(settings), 'setting')}{cut}</summary>{_code(commands)}</details>"


def _command(row: Mapping[str, Any], worlds: Mapping[str, str]) -> str:
    """The command that trains the runs of a row's setting."""
    run = run_from_row(row)
    defaults = dataclasses.asdict(ADAM)
    adam = {name: value for name, value in dataclasses.asdict(run.optimiser).items() if value != defaults[name]}
    options = {"nets": run.nets, "steps": run.steps, "latents": run.latents, "batch": run.batch}
    options |= {"learning_rate": run.optimiser.learning_rate, **adam, "precision": run.precision, "seeds": run.seed + 1}
    sets = [f"--set {shlex.quote(f'{name}={text_of(value)}')}" for name, value in run.hyper.items()]
    others = [f"--{name.replace('_', '-')} {shlex.quote(text_of(value))}" for name, value in options.items()]
    start = f"sober train {shlex.quote(worlds.get(run.world, run.world))} --method {shlex.quote(run.method)}"
    return " ".join([start, *sets, *others, "--out FOLDER"])


def _versions(frame: pl.DataFrame) -> str:
    """The versions and devices that computed the scores."""
    versions_by_name: dict[str, set[str]] = {}
    for versions in map(json.loads, frame["versions"].unique()):
        for name, version in versions.items():
            versions_by_name.setdefault(name, set()).add(str(version))
    libraries = [f"{name} {' and '.join(sorted(versions))}" for name, versions in sorted(versions_by_name.items())]
    devices = ", ".join(sorted(set(frame["device"].unique()) - {""}))
    device_text = f"on {devices}" if devices else "on a device that is not recorded"
    return f"Scores were computed {device_text}, with {', '.join(libraries) or 'versions that are not recorded'}."


def _code(text: str) -> str:
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
