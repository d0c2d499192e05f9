"""`sober score`. It scores arrays in a file without importing JAX."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sober.cli.console import complain, console, line
from sober.cli.options import Json, OldPictures, Set, number_of_pictures
from sober.cli.score_tables import model_lines, score_lines
from sober.defaults import COMPARED_HALVES
from sober.errors import RequestError, counted, listed
from sober.settings_text import parse_settings
from sober.types import Codes, NamedSettings

if TYPE_CHECKING:
    import polars as pl

    from sober.metrics import Scores

NAMED = 8  # factors that the title of a table names at most


def score(
    source: Annotated[Path, Parameter(name="FILE", help="A file with codes, or a folder of results.")],
    /,
    *others: Annotated[Path, Parameter(name="FILES", help="More files with the same rows, to compare with FILE.")],
    factors: str | None = None,
    codes: str | None = None,
    kinds: str | None = None,
    metrics: str | None = None,
    tasks: str | None = None,
    set_: Set = None,
    preset: str = "study",
    pictures: int | None = None,
    seed: int = 0,
    repeats: int = 1,
    chance: int = 0,
    halves: int = COMPARED_HALVES,
    out: Path | None = None,
    as_json: Json = False,
    full: Annotated[bool, Parameter(negative=())] = False,
    sample: OldPictures = None,
) -> None:
    """Measure how disentangled a representation is, from codes in a file or for each model in a folder.

    A file is a table (csv, tsv, txt, parquet) with a column for each latent, or an array (npy), or several (npz). Names
    of columns become names of factors, and text becomes classes. An npz file holds `codes` (N, D) and `factors` (N, K).
    It may also hold `logvar` (N, D), `names` (K), `kinds` (K), `groups` (N) and `weights` (N). An empty cell or NaN in
    a factor counts as unknown. Without factors, Sober computes only the metrics that need no labels.

    The scores of a folder's models go into its table; scores that are already there are not computed again.

    With several files, Sober compares their codes: it prints all scores, and which differences are real. The files must
    have the same rows and factors.

    For example:

    - `sober score codes.csv --factors labels.csv`
    - `sober score all.csv --factors shape,colour`
    - `sober score codes.npz`
    - `sober score codes.npz --metrics mig,dci --json`
    - `sober score runs/blocks`
    - `sober score runs/blocks --tasks downstream`
    - `sober score layer1.npz layer2.npz --out compare.html`

    Parameters
    ----------
    factors
        For files: where the factors are. A file with the same rows, or columns of FILE, separated by commas, or the
        name of an array; labels.csv:shape,colour takes some columns of another file.
    codes
        For files: the columns or the array with the codes. By default every column that is no factor, and the array
        codes.
    kinds
        For files: what kind a factor is, as in angle=cyclic,depth=continuous, or one kind for all: ordinal, cyclic,
        categorical or continuous.
    metrics
        Metrics or single scores, separated by commas, or all; `sober metrics` lists them. By default, every metric
        that this list calls "measured by default"; with --tasks, none.
    tasks
        Tasks to perform with the codes, separated by commas; `sober tasks` lists them.
    set_
        Settings of the tasks, as in folds=3; may be given more than once.
    preset
        Settings of the metrics and tasks: study (Locatello et al. 2020), paper (as in each metric's paper), or another
        preset of a metric.
    pictures
        For a folder: how many random pictures each model encodes, the same pictures as `sober encode` draws with the
        same --seed; every picture by default.
    seed
        Seed of everything random.
    repeats
        How often to repeat all random draws. If more than once, scores are means and have standard errors.
    chance
        For a file: how often to shuffle the rows of the factors, to estimate each score by chance. 20 is enough.
    halves
        For several files: how many random halves of the rows to draw, in pairs, to estimate how much differences vary.
    out
        For several files: where to write the comparison as one HTML file.
    as_json
        Print scores as one JSON object. Flags go to the error output.
    full
        With --json, also print flags, settings and seconds. For a file, also standard errors, scores by chance, the
        metrics that were left out and why, and the arrays that scores are made from.
    """
    from sober.metrics import score as score_codes
    from sober.tasks import joined, perform

    pictures = number_of_pictures(pictures, sample)
    metric_names = metrics.split(",") if metrics else () if tasks else None
    tasks_with_settings = _tasks(tasks, set_ or [])
    if others:
        _refuse(
            tasks=tasks is not None, pictures=pictures is not None, repeats=repeats != 1, chance=chance != 0, full=full
        )
        read = reader(codes, factors, kinds, warns=metrics is None)
        _compare([source, *others], read, metrics, preset, seed, halves, out, as_json)
        return
    if out is not None:
        raise RequestError("--out is for several files, to write their comparison; for a folder, use sober report")
    if source.is_dir():
        for name, value in (("codes", codes), ("factors", factors), ("kinds", kinds)):
            if value is not None:
                raise RequestError(f"--{name} is for files: the models of a folder are scored on its own pictures")
        if chance:
            raise RequestError(
                "--chance is for a file of arrays: for a model in a folder, sober.score(results.codes(run), chance=20)"
            )
        _score_folder(source, metric_names, tasks_with_settings, preset, pictures, seed, repeats, as_json, full)
        return
    if pictures is not None:
        raise RequestError("--pictures is for a folder of results: a file is scored as it is")
    prepared = reader(codes, factors, kinds, warns=metrics is None)(source)
    scores = score_codes(prepared, metrics=metric_names, preset=preset, seed=seed, repeats=repeats, chance=chance)
    refused = [name for name in ("groups", "weights") if getattr(prepared, name) is not None]
    if tasks_with_settings and refused:
        raise RequestError(f"{source} has {listed(refused)}, which tasks do not take: leave --tasks out, or the array")
    for task, settings in tasks_with_settings:
        options: dict[str, Any] = dict(settings)
        joined(scores, perform(task, prepared, preset=preset, seed=seed, **options))
    _print_scores(scores, _title(source, prepared), as_json, full)


def reader(codes: str | None, factors: str | None, kinds: str | None, warns: bool) -> Callable[[Path], Codes]:
    """A function that reads the codes of a file with these options, and prints notes about how it was read.

    It also `warns` of a file without factors.
    """
    from sober.requests.code_files import read_codes

    kinds_by_name = dict(_kind_of(pair) for pair in kinds.split(",")) if kinds and set("=,") & set(kinds) else kinds

    def read(path: Path) -> Codes:
        code_file = read_codes(path, codes=codes, factors=factors, kinds=kinds_by_name)
        for note in code_file.notes:
            complain(note)
        if not code_file.codes.about and warns:
            advice = "--factors FILE, or --factors NAME,NAME for columns of the file"
            complain(f"{path} has no factors, so Sober computes only scores that need none: {advice}")
        return code_file.codes

    return read


def _kind_of(pair: str) -> tuple[str, str]:
    name, equals, kind = pair.rpartition("=")
    if not equals:
        raise RequestError(f"--kinds {pair} is not of the form NAME=KIND,NAME=KIND, or one kind for all factors")
    return name.strip(), kind.strip()


def _title(source: Path, codes: Codes) -> str:
    """What a file holds: its rows, its latents and its factors by name."""
    rows, columns = codes.mean.shape
    names = [factor.name for factor in codes.about]
    named = f" ({', '.join(names)})" if 0 < len(names) <= NAMED else ""
    counts = [counted(rows, "row"), counted(columns // codes.unit, "latent"), counted(len(names), "factor") + named]
    return f"{source.name}: {', '.join(counts)}"


def _print_scores(scores: Scores, title: str, as_json: bool, full: bool) -> None:
    """Prints scores with their flags and remarks."""
    from sober.metrics import FLAGS

    if as_json:
        for name, flags in scores.flags.items() if not full else ():
            for flag in flags:
                complain(f"{name}: {flag}: {FLAGS[flag]}")
        for name, reason in scores.left_out.items() if not full else ():
            complain(f"{name} was left out: {reason}")
        print(json_text(plain(scores, full)))
    else:
        for table_or_text in score_lines(scores, title, console.width):
            console.print(table_or_text)


def _tasks(tasks: str | None, settings: Sequence[str]) -> tuple[NamedSettings, ...]:
    """The tasks that a person named. Each setting goes to the tasks that have it."""
    from sober.tasks import find_task

    names = list(dict.fromkeys(tasks.split(","))) if tasks else []
    if settings and not names:
        raise RequestError("--set changes settings of tasks: name tasks with --tasks")
    return NamedSettings.with_settings(
        NamedSettings.parse_all(names), parse_settings(settings), lambda name: find_task(name).settings
    )


def _refuse(**is_given: bool) -> None:
    """Refuses the first of these options that is given."""
    for name, refused in is_given.items():
        if refused:
            raise RequestError(
                f"--{name} is for one file or folder: several files are compared on halves of their rows"
            )


def _compare(
    sources: list[Path],
    reader: Callable[[Path], Codes],
    metrics: str | None,
    preset: str,
    seed: int,
    halves: int,
    out: Path | None,
    as_json: bool,
) -> None:
    from sober.cli.compare import compare_files, plain_comparison, print_comparison

    for source in sources:
        if source.is_dir():
            raise RequestError(f"{source} is a folder: compare files with codes, such as `sober encode` writes")
    if len(set(sources)) < len(sources):
        raise RequestError("a file is named twice: compare different ones")
    files = {source: reader(source) for source in sources}
    metric_names = metrics.split(",") if metrics else None
    comparison = compare_files(files, metric_names, preset=preset, seed=seed, halves=halves, out=out)
    if as_json:
        print(json_text(plain_comparison(comparison)))
    else:
        print_comparison(comparison)
        if out is not None:
            console.print(line("wrote ", (out, "bold")), soft_wrap=True)


def _score_folder(
    source: Path,
    metric_names: Sequence[str] | None,
    tasks: tuple[NamedSettings, ...],
    preset: str,
    pictures: int | None,
    seed: int,
    repeats: int,
    as_json: bool,
    full: bool,
) -> None:
    from sober.cli.console import bar
    from sober.requests.results import open_results

    results = open_results(source)
    with bar() as watcher:
        rows = results.score(
            metric_names, tasks=tasks, preset=preset, pictures=pictures, seed=seed, repeats=repeats, watcher=watcher
        )
    if as_json:
        print(json_text(_plain_rows(rows, full)))
    else:
        for table_or_text in model_lines(results, rows):
            console.print(table_or_text)


def _plain_rows(rows: pl.DataFrame, full: bool) -> dict[str, Any]:
    """The table's rows as JSON, by run and score: the value, or with `full` also its interval, flags and settings."""
    columns = ("value", "low", "high", "flags", "settings", "preset", "pictures", "repeats", "seconds")
    plain: dict[str, Any] = {}
    for row in rows.iter_rows(named=True):
        full_score = {**{name: row[name] for name in columns}, "settings": json.loads(row["settings"])}
        plain.setdefault(row["run"], {})[row["metric"]] = full_score if full else row["value"]
    return plain


def plain(scores: Scores, full: bool) -> dict[str, Any]:
    """Scores as JSON can hold them."""
    if not full:
        return dict(scores)
    return {
        "scores": dict(scores),
        "flags": scores.flags,
        "errors": scores.errors,
        "settings": scores.settings,
        "seconds": scores.seconds,
        "chance": {name: by_chance._asdict() for name, by_chance in scores.chance.items()},
        "left_out": scores.left_out,
        "corrected": scores.corrected,
        "dependence": _plain_dependence(scores),
        "factors": scores.factors,
        "known": scores.known,
        "parts": {
            metric: {name: array.tolist() for name, array in arrays.items()} for metric, arrays in scores.parts.items()
        },
    }


def _plain_dependence(scores: Scores) -> dict[str, Any] | None:
    if scores.dependence is None:
        return None
    return {**scores.dependence._asdict(), "shares": scores.dependence.shares.tolist()}


def json_text(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False)
