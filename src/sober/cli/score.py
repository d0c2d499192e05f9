"""`sober score`. Arrays in a file are scored without importing JAX."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from sober.cli.console import console, errors
from sober.cli.options import Json, Set
from sober.errors import RequestError, counted, listed
from sober.files import read_npz
from sober.metrics import FLAGS, METRICS, Metric, Scores
from sober.metrics import score as score_arrays
from sober.metrics.comparison import HALVES
from sober.tasks import TASKS, Task, find_task, joined, perform
from sober.types import Asked
from sober.words import parse_settings

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from sober.workflows.opened import Results


def score(
    source: Annotated[Path, Parameter(name="FILE", help="An npz file, or a folder of results.")],
    /,
    *others: Annotated[Path, Parameter(name="FILES", help="More npz files, of the same rows, to compare it with.")],
    metrics: str | None = None,
    tasks: str | None = None,
    set_: Set = None,
    preset: str = "study",
    sample: int | None = None,
    seed: int = 0,
    repeats: int = 1,
    chance: int = 0,
    halves: int = HALVES,
    out: Path | None = None,
    as_json: Json = False,
    full: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Measure how disentangled a representation is, from arrays in an npz file or for each model in a folder.

    The file has `codes` (N, D) and `factors` (N, K), and if there are any `logvar` (N, D), `names` (K), `kinds` (K),
    `groups` (N) and `weights` (N). A factor that is NaN is not known.
    Without factors, what needs no labels is measured. Scores of a folder's models go into its table; those that are
    there are not computed again. Several files of the same rows, with the same factors, are compared: one table, and
    which differences are real.

    Examples: `sober score codes.npz` · `sober score codes.npz --metrics mig,dci --json` · `sober score runs/blocks` ·
    `sober score runs/blocks --tasks downstream` · `sober score layer1.npz layer2.npz --out compare.html`

    Parameters
    ----------
    metrics
        Metrics or single scores, separated by commas, as `sober metrics` lists them, or all; without it
        those that `sober metrics` does not say to ask for, or none where --tasks are given.
    tasks
        Tasks to perform with the codes, separated by commas, as `sober tasks` lists them.
    set_
        Settings of the tasks, as in folds=3; may be given more than once.
    preset
        study (Locatello et al. 2020), paper (each metric's own), or another that a metric has.
    sample
        Of a folder: how many pictures, those of `sober encode --sample`; every picture without it.
    seed
        Of the rows drawn.
    repeats
        How often to draw; more than once gives means and standard errors.
    chance
        Of a file: how often to shuffle the rows of the factors, to see what each score is by chance; 20 will do.
    halves
        Of several files: how many random halves of the rows tell how much a difference varies.
    out
        Of several files: where to write what was found as one HTML file.
    as_json
        Print one JSON object, score names to numbers; flags go to the error output.
    full
        With --json: an object with scores, flags, standard errors, what chance gives, what was left out and why,
        settings, seconds and the arrays behind them.
    """
    asked = metrics.split(",") if metrics else () if tasks else None
    performed = _tasks(tasks, set_ or [])
    if others:
        _refuse(tasks=tasks is not None, sample=sample is not None, repeats=repeats != 1, chance=chance != 0, full=full)
        _compare([source, *others], metrics, preset, seed, halves, out, as_json)
        return
    if out is not None:
        raise RequestError("--out is for several files, which are compared: sober report writes that of a folder")
    if source.is_dir():
        if chance:
            raise RequestError(
                "--chance is for a file of arrays: for a model in a folder, sober.score(results.codes(run), chance=20)"
            )
        _score_folder(source, asked, performed, preset, sample, seed, repeats, as_json, full)
        return
    if sample is not None:
        raise RequestError("--sample is for a folder of results: a file is scored as it is")
    arrays = _arrays(source)
    about: dict[str, Any] = {name: arrays[name].astype(str).tolist() for name in ("names", "kinds") if name in arrays}
    scores = score_arrays(
        arrays["codes"],
        arrays.get("factors"),
        logvar=arrays.get("logvar"),
        metrics=asked,
        preset=preset,
        seed=seed,
        groups=arrays.get("groups"),
        weights=arrays.get("weights"),
        repeats=repeats,
        chance=chance,
        **about,
    )
    if performed and (grouped := [name for name in ("groups", "weights") if name in arrays]):
        raise RequestError(f"{source} has {listed(grouped)}, which tasks do not take: leave --tasks out, or the array")
    for task, settings in performed:
        options: dict[str, Any] = {**about, **settings}
        joined(scores, perform(task, arrays["codes"], arrays.get("factors"), preset=preset, seed=seed, **options))
    _say(scores, as_json, full)


def _say(scores: Scores, as_json: bool, full: bool) -> None:
    """Prints scores, and what to know about them."""
    if as_json:
        for name, flags in scores.flags.items() if not full else ():
            for flag in flags:
                errors.print(f"{name}: {flag}: {FLAGS[flag]}", style="yellow", soft_wrap=True, markup=False)
        for name, reason in scores.left_out.items() if not full else ():
            errors.print(f"{name} was left out: {reason}", style="yellow", soft_wrap=True, markup=False)
        print(json_text(plain(scores, full)))
    else:
        console.print(scores_table(scores))
        for flag in sorted({flag for flags in scores.flags.values() for flag in flags}):
            console.print(f"[yellow]{flag}[/]  {FLAGS[flag]}", soft_wrap=True)
        for line in remarks(scores):
            console.print(line, soft_wrap=True)


def remarks(scores: Scores) -> list[str]:
    """What to know beside flags: factors that depend on each other, corrected scores, and what was left out."""
    lines = []
    if scores.dependence and scores.dependence.real:
        first, second = scores.dependence.pair
        lines.append(f"[bold]{first}[/] and [bold]{second}[/] depend: they share {scores.dependence.largest:.2f}")
    lines += [f"[bold]{name}[/] corrected: {value:.4f}" for name, value in scores.corrected.items()]
    return lines + [f"[bold]{name}[/] was left out: {reason}" for name, reason in scores.left_out.items()]


def _tasks(tasks: str | None, settings: Sequence[str]) -> tuple[Asked, ...]:
    """The tasks that a person named, each with those of the settings that it has."""
    names = list(dict.fromkeys(tasks.split(","))) if tasks else []
    if settings and not names:
        raise RequestError("--set changes settings of tasks: name some with --tasks")
    return Asked.each_with(Asked.all(names), parse_settings(settings), lambda name: find_task(name).settings)


def _arrays(source: Path) -> dict[str, np.ndarray]:
    arrays = read_npz(source)
    if "codes" not in arrays:
        raise RequestError(f"{source} has no array 'codes': it has {listed(arrays) or 'none'}")
    return arrays


def _refuse(**given: bool) -> None:
    for name, is_given in given.items():
        if is_given:
            raise RequestError(
                f"--{name} is for one file or folder: several files are compared on halves of their rows"
            )


def _compare(
    sources: list[Path], metrics: str | None, preset: str, seed: int, halves: int, out: Path | None, as_json: bool
) -> None:
    from sober.cli.compare import compare_files, plain_comparison, print_comparison  # noqa: PLC0415

    for source in sources:
        if source.is_dir():
            raise RequestError(f"{source} is a folder: compare files of codes, as `sober encode` writes them")
    if len(set(sources)) < len(sources):
        raise RequestError("a file is named twice: compare different ones")
    files = {source: _arrays(source) for source in sources}
    asked = metrics.split(",") if metrics else None
    found = compare_files(files, asked, preset=preset, seed=seed, halves=halves, out=out)
    if as_json:
        print(json_text(plain_comparison(found)))
    else:
        print_comparison(found)
        if out is not None:
            console.print(f"wrote [bold]{out}[/]", soft_wrap=True)


def _score_folder(
    source: Path,
    asked: Sequence[str] | None,
    tasks: tuple[Asked, ...],
    preset: str,
    sample: int | None,
    seed: int,
    repeats: int,
    as_json: bool,
    full: bool,
) -> None:
    from sober.cli.console import bar  # noqa: PLC0415
    from sober.workflows.opened import open_results  # noqa: PLC0415 -- models need JAX, arrays do not

    results = open_results(source)
    with bar() as watcher:
        rows = results.score(
            asked, tasks=tasks, preset=preset, sample=sample, seed=seed, repeats=repeats, watcher=watcher
        )
    if as_json:
        print(json_text(_plain_rows(rows, full)))
    else:
        console.print(models_table(results, rows))


def _plain_rows(rows: pl.DataFrame, full: bool) -> dict[str, Any]:
    """Rows of the table as JSON, by run and score; with `full` all that a row says of a score."""
    said = ("value", "low", "high", "flags", "settings", "preset", "pictures", "repeats", "seconds")
    plain: dict[str, Any] = {}
    for row in rows.iter_rows(named=True):
        about = {**{name: row[name] for name in said}, "settings": json.loads(row["settings"])}
        plain.setdefault(row["run"], {})[row["metric"]] = about if full else row["value"]
    return plain


def plain(scores: Scores, full: bool) -> dict[str, Any]:
    """Scores as JSON can hold them."""
    if not full:
        return dict(scores)
    parts = {metric: {name: part.tolist() for name, part in of.items()} for metric, of in scores.parts.items()}
    about = {"flags": scores.flags, "errors": scores.errors, "settings": scores.settings, "seconds": scores.seconds}
    about |= {"chance": {name: one._asdict() for name, one in scores.chance.items()}, "left_out": scores.left_out}
    about |= {"corrected": scores.corrected, "dependence": _plain_dependence(scores)}
    return {"scores": dict(scores), **about, "factors": scores.factors, "known": scores.known, "parts": parts}


def _plain_dependence(scores: Scores) -> dict[str, Any] | None:
    if scores.dependence is None:
        return None
    return {**scores.dependence._asdict(), "shares": scores.dependence.shares.tolist()}


def json_text(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False)


def scores_table(scores: Scores) -> Table:
    """One representation: every score beside its range."""
    table = Table(box=None, header_style="dim")
    beside = (["±"] if scores.errors else []) + (["chance", "p"] if scores.chance else [])
    for column in ("score", "value", *beside, "from", "to", "better", "flags"):
        table.add_column(column, justify="left" if column in ("score", "better", "flags") else "right", no_wrap=True)
    measures: list[Metric | Task] = [*METRICS.values(), *TASKS.values()]
    for measure in measures:
        for name, meaning in measure.scores.items():
            if name in scores:
                error = [f"{scores.errors[name]:.4f}" if name in scores.errors else ""] if scores.errors else []
                if scores.chance:
                    by_chance = scores.chance.get(name)
                    error += [f"{by_chance.mean:.4f}", f"{by_chance.p:.3f}"] if by_chance else ["", ""]
                ends = [
                    f"{end:g}" if math.isfinite(end) else "∞" if end > 0 else "-∞"
                    for end in (meaning.low, meaning.high)
                ]
                better = "" if meaning.better == "neither" else meaning.better
                flags = f"[yellow]{' '.join(scores.flags[name])}[/]"
                table.add_row(f"[bold]{name}[/]", f"{scores[name]:.4f}", *error, *ends, better, flags)
    return table


def models_table(results: Results, rows: pl.DataFrame) -> Table:
    """Every model in a row, its main scores in columns, as many as the terminal has room for and 4 at least."""
    main = rows.filter(rows["matrix"] == "")
    every = main["metric"].unique(maintain_order=True).to_list()
    settings = {run: results.words(run) for run in results.finished}
    room = console.width - 20 - max(map(len, settings.values()), default=0)
    columns = every[: max(4, room // 10)]
    values = {(run, metric): value for run, metric, value in main.select("run", "metric", "value").iter_rows()}
    flags: dict[str, set[str]] = {}
    for run, some in main.select("run", "flags").iter_rows():
        flags.setdefault(run, set()).update(some)
    table = Table(title=results.summary(), title_justify="left", title_style="bold", box=None, header_style="dim")
    table.add_column("run", style="cyan", no_wrap=True)
    table.add_column("setting")
    table.add_column("seed", justify="right", no_wrap=True)
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right", overflow="fold")
    table.add_column("", style="yellow")
    for run, setting in settings.items():
        cells = [values.get((run.identity, name)) for name in columns]
        shown = ["-" if cell is None else f"{cell:.3f}" for cell in cells]
        table.add_row(run.identity[:8], setting, str(run.seed), *shown, " ".join(sorted(flags.get(run.identity, ()))))
    if hidden := len(every) - len(columns):
        table.caption = f"{counted(hidden, 'more score')} in the table: --json, or sober.open(...).table()"
        table.caption_justify = "left"
    return table
