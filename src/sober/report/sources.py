"""Where the numbers of a report come from: what was measured, whom to cite, and how to compute everything again."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sober.criteria.registry import CRITERIA
from sober.errors import counted
from sober.methods import METHODS
from sober.metrics.registry import METRICS
from sober.nets import NETS
from sober.report.leaderboard import meaning
from sober.results import Made, Request, Runs
from sober.results.rows import run_of
from sober.tasks import TASKS
from sober.types import ADAM
from sober.words import text_of
from sober.worlds import WORLDS

if TYPE_CHECKING:
    import polars as pl

STUDY = "Locatello et al. (2020) A Sober Look at the Unsupervised Learning of Disentangled Representations"
COMMANDS = 100


def measured(runs: Runs) -> str:
    """What each number says; of criteria, also what they see and what they cannot."""
    items = []
    for name in runs.ordered(runs.names):
        number = runs.numbers[name]
        criterion = CRITERIA.get(number.metric)
        says = f"{criterion.summary}: {criterion.sees} {criterion.blind}" if criterion else meaning(number.metric)
        samples = f"; {number.samples_of} of samples" if number.samples_of else ""
        text = (says.replace("?:", "?") or "a number of training, or of others") + samples
        items.append(f"<dt><code>{escape(name)}</code></dt><dd>{escape(text)}</dd>")
    return f"<dl>{''.join(items)}</dl>"


def citations(runs: Runs, frame: pl.DataFrame) -> str:
    """The works that what was used comes from, each with what was used of it."""
    used: dict[str, list[str]] = {}
    for references, what in _used(runs, frame):
        for reference in references.replace("): ", ") ").split("; "):
            uses = used.setdefault(reference, [])
            uses += [what] if what not in uses else []
    items = [
        f"<li>{escape(reference)} <small>{escape(', '.join(what))}</small></li>"
        for reference, what in sorted(used.items())
    ]
    return (
        f'<ul class="works">{"".join(items)}</ul><p>BibTeX for each stands on the page of the method, metric, '
        "criterion or task in Sober’s documentation.</p>"
    )


def _used(runs: Runs, frame: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """References, and what was used of them."""
    yield STUDY, "the tables of this report"
    for name in runs.different("method"):
        if name in METHODS:
            yield METHODS[name].reference, f"method {name}"
    for name in dict.fromkeys(runs.numbers[name].metric for name in runs.ordered(runs.names)):
        for metric in METRICS.values():
            if name in metric.scores:
                yield metric.reference, f"metric {metric.name}"
        for task in TASKS.values():
            if name in task.scores:
                yield task.reference, f"task {task.name}"
        if name in CRITERIA:
            yield CRITERIA[name].reference, f"criterion {name}"
    for name in sorted(frame["nets"].unique()):
        if name in NETS and NETS[name].reference != "Sober":
            yield NETS[name].reference, f"nets {name}"
    for name in runs.different("world"):
        world = WORLDS.get(name.split(" | ")[0].partition(":")[0])
        if isinstance(reference := getattr(world, "reference", None), str) and reference != "Sober":
            yield reference, f"world {name}"


def reproduction(
    folder: Path, request: Request, frame: pl.DataFrame, made: list[Made], lacking: Mapping[str, str]
) -> str:
    """Commands for the study, its tables, this report, and the training of each setting."""
    parts = []
    if request.command:
        parts.append(f"<p>What made the models:</p>{_code(request.command)}")
    parts.append(f"<p>This report, from the folder alone:</p>{_code(f'sober report {shlex.quote(str(folder))}')}")
    names = ", ".join(each.table.name for each in made)
    parts.append(
        f"<p>The tables behind its numbers ({escape(names)}), as Markdown, LaTeX and parquet:</p>"
        + _code(f"sober tables {shlex.quote(str(folder))}")
    )
    parts.append(_training(frame))
    parts.append(f"<p>{escape(_versions(frame))}</p>")
    if lacking:
        items = "".join(f"<li><code>{escape(name)}</code> {escape(why)}</li>" for name, why in lacking.items())
        parts.append(f"<p>Not in this report, as the data do not allow it:</p><ul>{items}</ul>")
    return "".join(parts)


def _training(frame: pl.DataFrame) -> str:
    """For each setting in each world, the command that trains its models."""
    import polars as pl  # noqa: PLC0415

    settings = frame.unique(["world", "setting"], maintain_order=True).drop("seed")
    seeds = frame.group_by("world", "setting").agg(pl.col("seed").max())
    rows = settings.join(seeds, on=["world", "setting"]).sort("world", "setting").head(COMMANDS).iter_rows(named=True)
    commands = "\n".join(map(_command, rows))
    cut = f", the first {COMMANDS} of them" if len(settings) > COMMANDS else ""
    return f"<details><summary>Training, {counted(len(settings), 'setting')}{cut}</summary>{_code(commands)}</details>"


def _command(row: Mapping[str, Any]) -> str:
    """The command that trains the runs of a row's setting."""
    run = run_of(row)
    usual = dataclasses.asdict(ADAM)
    adam = {name: value for name, value in dataclasses.asdict(run.optimiser).items() if value != usual[name]}
    options = {"nets": run.nets, "steps": run.steps, "latents": run.latents, "batch": run.batch}
    options |= {"learning_rate": run.optimiser.learning_rate, **adam, "precision": run.precision, "seeds": run.seed + 1}
    sets = [f"--set {shlex.quote(f'{name}={text_of(value)}')}" for name, value in run.hyper.items()]
    others = [f"--{name.replace('_', '-')} {shlex.quote(text_of(value))}" for name, value in options.items()]
    start = f"sober train {shlex.quote(run.world)} --method {shlex.quote(run.method)}"
    return " ".join([start, *sets, *others, "--out FOLDER"])


def _versions(frame: pl.DataFrame) -> str:
    """What the scores were computed with and on."""
    found: dict[str, set[str]] = {}
    for each in map(json.loads, frame["versions"].unique()):
        for name, version in each.items():
            found.setdefault(name, set()).add(str(version))
    words = [f"{name} {' and '.join(sorted(versions))}" for name, versions in sorted(found.items())]
    devices = sorted(set(frame["device"].unique()) - {""})
    on = f"on {', '.join(devices)}" if devices else "on a device that is not named"
    return f"Scores were computed {on}, with {', '.join(words) or 'versions that are not named'}."


def _code(text: str) -> str:
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
