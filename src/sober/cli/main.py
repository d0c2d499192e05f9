"""The command `sober`. Exit status: 0 success, 2 a wrong request, 1 a failure, 130 stopped by Ctrl-C."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
from cyclopts import App, CycloptsError, Parameter
from rich.padding import Padding
from rich.table import Table

from sober.cli.console import (
    bar,
    board_table,
    console,
    counting,
    errors,
    family_scores_table,
    frame_table,
    latents_table,
    method_card,
    models_table,
    plan_table,
    ranking_table,
    rows_table,
    scores_table,
    settings_table,
    status_table,
    worlds_table,
)
from sober.criteria import CRITERIA, rank
from sober.criteria.criterion import PICTURES, UNFIT
from sober.errors import RequestError, counted, listed
from sober.files import read_npz
from sober.methods import METHODS, find_method
from sober.metrics import FLAGS, METRICS, Scores, score, score_many
from sober.models.encode import codes_path, encode
from sober.models.family import Family, grid
from sober.models.model import Model, load
from sober.nets import NETS
from sober.report.explorer import explore
from sober.report.findings import findings
from sober.report.pictures import contact_sheet, traversals
from sober.report.report import report
from sober.results import as_runs, pairs_of
from sober.results import make as make_tables
from sober.results import write as write_table
from sober.results.store import Store
from sober.training.train import Stopped, train
from sober.types import Adam, Precision, Run, Setting, read_setting, written
from sober.workflows import find_study, plan, shipped, status
from sober.workflows import run as run_study
from sober.workflows.fit import CRITERIA as FIT_CRITERIA
from sober.workflows.fit import METHODS as FIT_METHODS
from sober.workflows.fit import MINUTES, fit
from sober.workflows.fit import pictures as pictures_world
from sober.workflows.plan import TOGETHER
from sober.workflows.run import Engine
from sober.workflows.shown import shown_family
from sober.workflows.study import hours
from sober.workflows.tune import SEEDS as TUNED_SEEDS
from sober.workflows.tune import TOGETHER as TUNED_TOGETHER
from sober.workflows.tune import parse_space, tune
from sober.workflows.tune import rows as tuned_rows
from sober.worlds import WORLDS, World, world

app = App(
    name="sober",
    help="Train families of representation models at once, and say which to trust.",
    version=lambda: importlib.metadata.version("sober"),
    help_format="markdown",
    suppress_keyboard_interrupt=False,  # `main` says what was stopped and how to go on
)

_DIR = Parameter(name="DIR", help="A family's folder.")
_OUT = Parameter(help="Folder for the family: new, or one to go on with.")


@app.command(name="demo")
def demo_command(*, out: Path = Path("demo")) -> None:
    """Run a small study end to end: train, score, choose without labels, draw, and write the report. Minutes on a CPU.

    Example: `sober demo --out demo`

    Parameters
    ----------
    out
        Folder for the models, the scores, the picture and the report.
    """
    _study("demo", out)
    traverse(out)


@app.command
def worlds(*, show: str | None = None, out: Path | None = None) -> None:
    """List the worlds, or draw one: random pictures, and a row per factor with only that factor changing.

    Examples: `sober worlds` · `sober worlds --show rooms` · `sober worlds --show "dsprites | keep x y shape=heart"`

    Parameters
    ----------
    show
        The world to draw.
    out
        Where to write the picture; NAME.png in this folder by default.
    """
    if show is not None:
        chosen = world(show)
        path = out or Path(f"{chosen.name}.png")
        contact_sheet(chosen, path)
        console.print(f"wrote [bold]{path}[/]")
        return
    console.print(worlds_table({name: world(name) for name in sorted(WORLDS)}))


@app.command
def methods(names: Annotated[list[str] | None, Parameter(name="NAME")] = None, /) -> None:
    """List the training methods with their hyperparameters and published sweeps, and the nets.

    Examples: `sober methods` · `sober methods beta_tcvae dava`

    Parameters
    ----------
    names
        Only these methods.
    """
    for method in map(find_method, names or METHODS):
        console.print(method_card(method), "")
    if names:
        return
    table = Table(box=None, header_style="dim")
    for column in ("nets", "what they are", "reference"):
        table.add_column(column, overflow="fold")
    for name, nets in NETS.items():
        table.add_row(f"[bold]{name}[/]", nets.summary, nets.reference)
    console.print(table)


@app.command(name="train")
def train_command(
    world_spec: Annotated[str, Parameter(name="WORLD", help="A world, as `sober worlds` lists them.")],
    /,
    *,
    out: Annotated[Path, _OUT],
    method: str = "beta_vae",
    set_: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    sweep: str | None = None,
    seeds: int = 1,
    steps: int = 300_000,
    nets: str | None = None,
    latents: int = 10,
    batch: int = 64,
    learning_rate: float = 1e-4,
    precision: Precision | None = None,
    cohort: int | None = None,
) -> None:
    """Train a family: every combination of the values set, each with every seed.

    Ctrl-C stops at a checkpoint; the same command goes on where it stopped.

    Examples:

    `sober train blocks --set beta=1,2,4 --seeds 4 --steps 6000 --latents 6 --learning-rate 1e-3 --out runs/blocks`

    `sober train dsprites --method beta_tcvae --sweep sober_look --seeds 5 --out runs/dsprites`

    Parameters
    ----------
    method
        A training method, as `sober methods` lists them.
    set_
        Hyperparameters with one or several values, as in beta=1,2,4; may be given more than once.
    sweep
        A published study, as `sober methods` lists them: takes its values for all that is not set.
    seeds
        How many seeds for each combination.
    steps
        Optimiser steps of each model.
    nets
        Which nets; by default those that suit the picture's size.
    latents
        How many latents each model has.
    batch
        Pictures in a step.
    learning_rate
        Of Adam.
    precision
        Of matrix products; bfloat16 on a GPU and float32 on a CPU by default. Weights are float32 always.
    cohort
        How many models train at once; by default as many as fit into memory.
    """
    chosen = world(world_spec)
    values = parse_sweep(set_ or [])
    if sweep is not None:
        values = {name: list(each) for name, each in find_method(method).sweep(sweep).items()} | values
    runs = grid(
        chosen,
        method,
        values,
        seeds=seeds,
        nets=nets,
        latents=latents,
        optimiser=Adam(learning_rate=learning_rate),
        steps=steps,
        batch=batch,
        precision=precision,
    )
    with bar() as watcher:
        family = train(runs, chosen, out, cohort=cohort, watcher=watcher)
    console.print(models_table(family))
    console.print(
        f"\n{counted(len(family.finished), 'model')} in [bold]{out}[/]; look at them with: sober traverse {out}"
    )


@app.command(name="encode")
def encode_command(family_folder: Annotated[Path, _DIR], /, *, sample: int | None = None, seed: int = 0) -> None:
    """Compute and keep the codes of every finished model: for the whole grid, or a random sample of it.

    Examples: `sober encode runs/blocks` · `sober encode runs/dsprites --sample 10000`

    Parameters
    ----------
    sample
        How many pictures, drawn at random; the whole grid without it.
    seed
        Of the sample.
    """
    family = Family.open(family_folder)
    index = _drawn(family, sample, seed)
    runs = family.finished
    with counting("encoding") as progress:
        for done, (run, codes) in enumerate(encode(family, runs, index=index, progress=progress), start=1):
            shape = " × ".join(map(str, codes.mean.shape))
            flags = f"  [yellow]{' '.join(codes.flags)}[/]" if codes.flags else ""
            where = codes_path(family, run, index)
            console.print(f"{done}/{len(runs)}  {run.identity}  {shape}  {where}{flags}", soft_wrap=True)


def _drawn(family: Family, sample: int | None, seed: int = 0) -> np.ndarray | None:
    """Pictures drawn as training draws them; None for all."""
    if sample is None:
        return None
    if sample < 1:
        raise RequestError(f"sample must be at least 1, got {sample}")
    return np.asarray(family.world.index(jax.random.key(seed), sample))


@app.command
def metrics() -> None:
    """List the metrics: what each asks, its scores with their range and direction, its settings and its paper.

    Example: `sober metrics`
    """
    for name, metric in METRICS.items():
        console.print(f"[bold]{name}[/]  {metric.summary}")
        for each, meaning in metric.scores.items():
            _indented(f"[cyan]{each}[/]  {meaning.summary} [dim]({meaning})[/]")
        _indented(f"[dim]settings[/]  {_settings(metric.settings)}")
        for preset, changes in metric.presets.items():
            _indented(f"[dim]preset {preset}[/]  {_settings(changes)}")
        _indented(f"[dim]{metric.reference}[/]\n")


@app.command(name="score")
def score_command(
    source: Annotated[Path, Parameter(name="FILE", help="An npz file, or a family's folder.")],
    /,
    *,
    metrics: str | None = None,
    preset: str = "study",
    sample: int | None = None,
    seed: int = 0,
    repeats: int = 1,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    full: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Measure how disentangled a representation is, from arrays in an npz file or for each model of a family.

    The file has `codes` (N, D) and `factors` (N, K), and if there are any `logvar` (N, D), `names` (K) and `kinds` (K).
    Without factors, what needs no labels is measured.

    Examples: `sober score codes.npz` · `sober score codes.npz --metrics mig,dci --json` · `sober score runs/blocks`

    Parameters
    ----------
    metrics
        Metrics or single scores, separated by commas, as `sober metrics` lists them; all by default.
    preset
        study (Locatello et al. 2020), paper (each metric's own), or another that a metric has.
    sample
        Of a family: how many pictures, those of `sober encode --sample`; the whole grid without it.
    seed
        Of the rows drawn.
    repeats
        How often to draw; more than once gives means and standard errors.
    as_json
        Print one JSON object, score names to numbers; flags go to the error output.
    full
        With --json: an object with scores, flags, standard errors, settings, seconds and the arrays behind them.
    """
    asked = metrics.split(",") if metrics else None
    if source.is_dir():
        family = Family.open(source)
        settings: dict[str, Any] = {"metrics": asked, "preset": preset, "seed": seed, "repeats": repeats}
        runs, found, index = family.finished, {}, _drawn(family, sample)
        with counting("scoring") as progress:
            models = (codes for _, codes in encode(family, runs, index=index))
            for run, scores in zip(runs, score_many(models, **settings), strict=True):
                found[run.identity] = scores
                progress(len(found), len(runs))
        if as_json:
            print(json_text({name: plain(scores, full) for name, scores in found.items()}))
        else:
            console.print(family_scores_table(family, found))
        return
    if sample is not None:
        raise RequestError("--sample is for a family's folder: a file is scored as it is")
    arrays = read_npz(source)
    if "codes" not in arrays:
        raise RequestError(f"{source} has no array 'codes': it has {listed(arrays) or 'none'}")
    about = {name: arrays[name].astype(str).tolist() for name in ("names", "kinds") if name in arrays}
    scores = score(
        arrays["codes"],
        arrays.get("factors"),
        logvar=arrays.get("logvar"),
        metrics=asked,
        preset=preset,
        seed=seed,
        repeats=repeats,
        **about,
    )
    if as_json:
        for name, flags in scores.flags.items() if not full else ():
            for flag in flags:
                errors.print(f"{name}: {flag}: {FLAGS[flag]}", style="yellow", soft_wrap=True, markup=False)
        print(json_text(plain(scores, full)))
    else:
        console.print(scores_table(scores))
        for flag in sorted({flag for flags in scores.flags.values() for flag in flags}):
            console.print(f"[yellow]{flag}[/]  {FLAGS[flag]}", soft_wrap=True)


@app.command
def criteria() -> None:
    """List the criteria that choose without labels: what each asks, sees and cannot see, its settings and its paper.

    Example: `sober criteria`
    """
    for name, criterion in CRITERIA.items():
        console.print(f"[bold]{name}[/]  {criterion.summary} [dim]({criterion.better} is better)[/]")
        _indented(f"{criterion.sees} {criterion.blind}")
        if criterion.settings:
            _indented(f"[dim]settings[/]  {_settings(criterion.settings)}")
        _indented(f"[dim]{criterion.reference}[/]\n")


@app.command
def select(
    family_folder: Annotated[Path, _DIR],
    /,
    *,
    criterion: str = "udr",
    set_: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    pictures: int = PICTURES,
    seed: int = 0,
    top: int = 10,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Rank the models of a family without labels: the model to use, the setting to train with, and how sure that is.

    Several criteria count alike: models are ranked by the mean of their ranks.

    Examples:

    `sober select runs/blocks`

    `sober select runs/blocks --criterion udr,pipe_rec --set mixing=permuted`

    Parameters
    ----------
    criterion
        One or several, separated by commas, as `sober criteria` lists them.
    set_
        Settings of the criteria, as in similarity=spearman; may be given more than once.
    pictures
        How many pictures the models are judged by, at most.
    seed
        Of all that is drawn.
    top
        How many models to list.
    as_json
        Print one JSON object with all models and settings.
    """
    family = Family.open(family_folder)
    settings = {name: value for name, (value,) in parse_sweep(set_ or [], several=False).items()}
    with counting("judging") as progress:
        found = rank(family, criterion.split(","), settings=settings, pictures=pictures, seed=seed, progress=progress)
    if as_json:
        print(json_text(found.plain()))
        return
    console.print(ranking_table(family, found, top), "")
    if len(found.settings) > 1:
        console.print(settings_table(found), "")
    if len(found.by_latents()) > 1:
        console.print(latents_table(family, found), "")
    for sentence in found.sentences():
        console.print(sentence)
    for run in found.left_out:
        console.print(f"[yellow]{run.identity} was left out: {UNFIT['diverged']}[/]")


@app.command(name="fit")
def fit_command(
    pictures: Annotated[str, Parameter(name="PICTURES", help="A folder or zip archive of pictures, or a world.")],
    /,
    *,
    out: Path,
    minutes: float = MINUTES,
    method: str = ",".join(FIT_METHODS),
    set_: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    seeds: int | None = None,
    steps: int | None = None,
    latents: int = 10,
    nets: str | None = None,
    criterion: str = ",".join(FIT_CRITERIA),
    seed: int = 0,
) -> None:
    """Pictures in, one encoder out: train a family within a time budget, choose without labels, export the best model.

    Ctrl-C stops at a checkpoint; the same command goes on where it stopped.

    Examples: `sober fit photos/ --out fitted --minutes 30` · `sober fit blocks --out fitted --minutes 2`

    Parameters
    ----------
    out
        Folder for the model, its codes, the ranking and the pictures: new, or one to go on with.
    minutes
        How long it may take: the number of seeds and steps follows from it and the speed of this machine.
    method
        Training methods, separated by commas.
    set_
        Hyperparameters of the methods, with one or several values, as in beta=2,4; may be given more than once.
    seeds
        How many seeds for each setting.
    steps
        Optimiser steps of each model; then --minutes is not looked at.
    latents
        How many latents each model has.
    nets
        Which nets; by default those that suit the picture's size.
    criterion
        What to choose by, separated by commas, as `sober criteria` lists them.
    seed
        Of all that is drawn in judging.
    """
    with bar() as watcher:
        found = fit(
            pictures,
            out=out,
            method=method.split(","),
            minutes=minutes,
            seeds=seeds,
            steps=steps,
            latents=latents,
            nets=nets,
            criteria=criterion.split(","),
            seed=seed,
            watcher=watcher,
            progress=watcher.counting("judging"),
            **parse_sweep(set_ or []),
        )
    console.print(ranking_table(found.family, found.ranking, 5), "")
    for sentence in found.ranking.sentences():
        console.print(sentence)
    console.print(f"\nthe chosen model, its codes and the ranking are in [bold]{out}[/]; look at {out}/traversals.png")
    console.print(f'[dim]python -c "import sober; print(sober.load({str(out)!r}).run)"[/]')


@app.command(name="tune")
def tune_command(
    world_spec: Annotated[str, Parameter(name="WORLD", help="A world, or a folder or zip archive of pictures.")],
    space: Annotated[
        list[str], Parameter(name="RANGE", help="What to search: beta=1..16, beta=1..16:log, gamma=1,10.")
    ],
    /,
    *,
    out: Path,
    method: str = "beta_vae",
    trials: int = 24,
    steps: int = 5_000,
    together: int = TUNED_TOGETHER,
    seeds: int = TUNED_SEEDS,
    criterion: str = "udr",
    set_: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    informative: int = 1,
    latents: int = 10,
    nets: str | None = None,
    learning_rate: float = 1e-4,
    seed: int = 0,
) -> None:
    """Search hyperparameters without labels: Optuna proposes, families train, a criterion judges.

    Ctrl-C stops at a checkpoint; the same command goes on where it stopped, or further with more --trials.

    Example: `sober tune blocks beta=0.25..16:log --informative 4 --latents 6 --learning-rate 1e-3 --out runs/tuned`

    Parameters
    ----------
    out
        Folder for the search: new, or one to go on with.
    method
        A training method, as `sober methods` lists them.
    trials
        How many settings to try.
    steps
        Optimiser steps of each model.
    together
        How many settings train at once.
    seeds
        How many seeds for each setting; its value is their median.
    criterion
        What to search by, as `sober criteria` lists them.
    set_
        Settings of the criterion, as in similarity=spearman; may be given more than once.
    informative
        How many informative latents a model must have: most criteria are pleased by models that give latents up.
    latents
        How many latents each model has.
    nets
        Which nets; by default those that suit the picture's size.
    learning_rate
        Of Adam.
    seed
        Of the search.
    """
    settings = {name: value for name, (value,) in parse_sweep(set_ or [], several=False).items()}
    with bar() as watcher:
        found = tune(
            pictures_world(world_spec),
            method,
            parse_space(space),
            out=out,
            trials=trials,
            steps=steps,
            together=together,
            seeds=seeds,
            criterion=criterion,
            settings=settings,
            informative=informative,
            latents=latents,
            nets=nets,
            optimiser=Adam(learning_rate),
            seed=seed,
            watcher=watcher,
            progress=watcher.counting("judging"),
        )
    console.print(rows_table(tuned_rows(found)), "")
    for sentence in found.sentences():
        console.print(sentence)


study_app = App(
    name="study",
    help="""Plan a study, run it here or on a cluster, see where it stands, and make its tables.

    Examples: `sober study plan sober_look` · `sober study run demo --out runs/demo` · `sober study status runs/demo`
    """,
)
app.command(study_app)

_STUDY = Parameter(name="STUDY", help="A study that comes with Sober, or a Python file that defines one.")
_STORE = Parameter(name="DIR", help="A study's folder.")


@study_app.command(name="list")
def study_list() -> None:
    """List the studies that come with Sober.

    Example: `sober study list`
    """
    for name in shipped():
        study, _ = find_study(name)
        runs = len(plan(study).runs)
        console.print(f"[bold]{name}[/]  {study.title} [dim]({counted(runs, 'run')})[/]")
        _indented(f"[dim]{study.paper}; scales: {listed(study.scales) or 'none'}[/]")


@study_app.command(name="plan")
def study_plan(study: Annotated[str, _STUDY], /, *, scale: str | None = None, together: int = TOGETHER) -> None:
    """Print what a study will do, and what that costs; run nothing.

    Examples: `sober study plan sober_look` · `sober study plan sober_look --scale small` · `sober study plan mine.py`

    Parameters
    ----------
    scale
        One of the study's scales: fewer seeds or steps.
    together
        How many models train at once, at most.
    """
    found, _ = find_study(study)
    planned = plan(found.scaled(scale), together)
    console.print(plan_table(planned))
    estimate = planned.estimate()
    where = "two CPU cores" if estimate.device == "cpu" else "one H200"
    size = f"{estimate.bytes / 2**30:.1f} GiB" if estimate.bytes > 2**30 else f"{estimate.bytes / 2**20:.0f} MiB"
    console.print(f"\nabout [bold]{hours(estimate.seconds)}[/] on {where} and [bold]{size}[/] of disk")
    if planned.study.scale:
        console.print(f"[yellow]scale: {planned.study.scale}[/]")
    for spec, why in planned.missing.items():
        console.print(f"[yellow]{spec} is not here: {why}[/]", soft_wrap=True)


@study_app.command(name="run")
def study_run(
    study: Annotated[str, _STUDY],
    /,
    *,
    out: Path,
    scale: str | None = None,
    engine: Engine = "local",
    workers: int = 1,
    together: int = TOGETHER,
    address: str | None = None,
) -> None:
    """Run a study: train, score, judge without labels, and write the report. The same command goes on after a stop.

    Several processes, on one machine or on many that share the folder, may run the same command at once.

    Examples:

    `sober study run demo --out runs/demo`

    `sober study run sober_look --scale small --out runs/sober_look`

    `sober study run mine.py --out runs/mine --engine ray --address auto`

    Parameters
    ----------
    out
        Folder for the results: new, or one to go on with.
    scale
        One of the study's scales: fewer seeds or steps.
    engine
        local: this machine; ray: a Ray cluster whose machines share the folder.
    workers
        How many processes on this machine.
    together
        How many models train at once, at most.
    address
        Of the Ray cluster, as `ray status` knows it; a new one on this machine without it.
    """
    _study(study, out, scale=scale, engine=engine, workers=workers, together=together, address=address)


def _study(name: str, out: Path, **settings: Any) -> None:
    """Runs a study and says what was found: a table, three sentences, and where the report is."""
    command = shlex.join(["sober", *sys.argv[1:]])
    with bar() as watcher:
        store, failed = run_study(name, out, command=command, watcher=watcher, **settings)
    table = store.table()
    if table.is_empty():
        raise RequestError(f"{out}: nothing could be trained: see 'sober study status {out}'")
    runs = as_runs(table)
    console.print("", board_table(runs), "")
    for number, sentence in enumerate(findings(runs)[:3], start=1):
        console.print(f"[bold cyan]{number}[/]  {sentence}")
    for failure in failed:
        console.print(f"[red]{failure.task} failed twice: {failure.error}[/]", soft_wrap=True)
    console.print(f"\nthe report, to open in a browser: [bold]{report(store.folder)}[/]", soft_wrap=True)


@study_app.command(name="status")
def study_status(folder: Annotated[Path, _STORE], /) -> None:
    """Show what of a study is done, running and failed, and how long the rest may take.

    Example: `sober study status runs/sober_look`
    """
    console.print(status_table(status(folder)))


@study_app.command(name="tables")
def study_tables(
    folder: Annotated[Path, _STORE], /, *, names: str | None = None, out: Path | None = None, resamples: int = 500
) -> None:
    """Print the papers' tables that a study's results allow, and write them as parquet, Markdown and LaTeX.

    Examples: `sober study tables runs/sober_look` · `sober study tables runs/demo --names leaderboard,transfer`

    Parameters
    ----------
    names
        Which tables, separated by commas; all that can be made by default.
    out
        Folder for the files; DIR/tables by default.
    resamples
        Of the bootstrap intervals.
    """
    runs = as_runs(Store.open(folder).table(), pairs_of(folder))
    made, lacking = make_tables(runs, names.split(",") if names else None, resamples=resamples)
    for each in made:
        write_table(each, out or folder / "tables")
        console.print(frame_table(each.frame, each.table.title), f"[dim]{each.caption}[/]\n")
    for name, why in lacking.items():
        console.print(f"[dim]{name}: {why}[/]")
    if made:
        console.print(f"wrote {counted(len(made), 'table')} to [bold]{out or folder / 'tables'}[/]")


@app.command(name="report")
def report_command(folder: Annotated[Path, _STORE], /, *, out: Path | None = None, figures: Path | None = None) -> None:
    """Write a study's report: one HTML file that opens anywhere, without a network.

    Examples: `sober report runs/demo` · `sober report runs/demo --out demo.html --figures figures/`

    Parameters
    ----------
    out
        Where to write it; DIR/report.html by default.
    figures
        A folder for the figures as PDF and SVG.
    """
    console.print(f"wrote [bold]{report(folder, out, figures)}[/]")


@app.command(name="explore")
def explore_command(
    model: Annotated[Path, Parameter(name="MODEL", help="A model's file, or the folder of a fit.")],
    pictures: Annotated[
        str | None, Parameter(name="PICTURES", help="A folder of pictures, or a world, to start from.")
    ] = None,
    /,
    *,
    out: Path = Path("explorer.html"),
    seed: int = 0,
) -> None:
    """Write a page on which sliders move a model's latents and the picture follows, drawn by the model's own decoder.

    Without PICTURES it starts from those that the model was trained on.

    Examples: `sober explore fitted/` · `sober explore runs/blocks/models/3f2a91c0.safetensors --out blocks.html`

    Parameters
    ----------
    out
        Where to write the page.
    seed
        Of the pictures to start from.
    """
    opened = load(model)
    shown = pictures_world(pictures) if pictures is not None else _trained_on(model, opened)
    console.print(f"wrote [bold]{explore(opened, shown, out, seed=seed)}[/]")


def _trained_on(path: Path, model: Model) -> World:
    """The world of a model: as the family beside it opens it, else by its name."""
    for folder in (path / "family", path.parent.parent):
        if (folder / "family.json").exists():
            return Family.open(folder).world
    try:
        return world(model.run.world)
    except RequestError as error:
        raise RequestError(
            f"{model.run.world} cannot be opened by its name: give the pictures to start from"
        ) from error


def _indented(text: str) -> None:
    console.print(Padding(text, (0, 0, 0, 4)))


def _settings(settings: Mapping[str, Setting]) -> str:
    return " ".join(f"{name}={written(value)}" for name, value in settings.items())


def plain(scores: Scores, full: bool) -> dict[str, Any]:
    """Scores as JSON can hold them."""
    if not full:
        return dict(scores)
    parts = {metric: {name: part.tolist() for name, part in of.items()} for metric, of in scores.parts.items()}
    about = {"flags": scores.flags, "errors": scores.errors, "settings": scores.settings, "seconds": scores.seconds}
    return {"scores": dict(scores), **about, "factors": scores.factors, "parts": parts}


def json_text(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False)


@app.command
def traverse(
    folder: Annotated[Path, Parameter(name="DIR", help="A family's folder, or a study's.")],
    /,
    *,
    runs: str | None = None,
    out: Path | None = None,
    seed: int = 0,
) -> None:
    """Draw what each latent of a model does, and its reconstructions, for several models in one picture.

    Latents that carry nothing are greyed. Without --runs it draws, for each setting, the seed whose training ended
    lowest; of a study, the models that its report shows, the best first. Four models at most, of one world.

    Examples: `sober traverse runs/blocks` · `sober traverse runs/blocks --runs 3f2a,91c0 --out two.png`

    Parameters
    ----------
    runs
        Which models: the beginnings of their identities, separated by commas.
    out
        Where to write the picture; DIR/traversals.png by default.
    seed
        Of the pictures shown.
    """
    of_study = (folder / "study.json").exists()
    family = shown_family(folder) if of_study else Family.open(folder)
    if runs:
        chosen = [_run_named(family, name) for name in runs.split(",")]
    else:
        chosen = (list(family.runs) if of_study else _one_per_setting(family))[:4]
    path = out or folder / "traversals.png"
    traversals([family.model(run) for run in chosen], family.world, path, seed=seed)
    console.print(f"wrote [bold]{path}[/]")


def parse_sweep(texts: Sequence[str], *, several: bool = True) -> dict[str, list[Setting]]:
    """`["beta=1,2,4"]` to `{"beta": [1.0, 2.0, 4.0]}`."""
    sweep: dict[str, list[Setting]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name or not values:
            raise RequestError(f"--set {text} is not of the form NAME=VALUE,VALUE,…")
        if name in sweep:
            raise RequestError(f"--set names {name!r} twice: write {name}=VALUE,VALUE")
        sweep[name] = [read_setting(value) for value in values.split(",")]
        if not several and len(sweep[name]) > 1:
            raise RequestError(f"--set {text}: give {name!r} one value")
    return sweep


def _run_named(family: Family, name: str) -> Run:
    found = [run for run in family.runs if run.identity.startswith(name)]
    if len(found) != 1:
        what = "no run" if not found else f"{len(found)} runs"
        raise RequestError(
            f"{what} of {family.folder} begin with {name!r}: choose from {listed(r.identity for r in family.runs)}"
        )
    return found[0]


def _one_per_setting(family: Family) -> list[Run]:
    best: dict[tuple[object, ...], tuple[float, Run]] = {}
    for run in family.finished:
        model = family.model(run)
        ended = model.ended(METHODS[run.method].objective)
        last = np.inf if model.diverged is not None or np.isnan(ended) else ended
        key = (run.method, *run.hyper.items())
        if key not in best or last < best[key][0]:
            best[key] = (last, run)
    if not best:
        raise RequestError(f"{family.folder} has no finished model: run the same 'sober train' command to go on")
    return [run for _, run in best.values()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line and exits with its status."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn  # put back at the end of the block
            app(arguments, exit_on_error=False, print_error=False, result_action="return_none")
    except (RequestError, CycloptsError) as error:
        errors.print(f"sober: {_one_line(error)}", style="red", soft_wrap=True, markup=False)
        sys.exit(2)
    except Stopped as stopped:
        errors.print(f"sober: {stopped}", style="yellow", soft_wrap=True, markup=False)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor may the last flush complain
        sys.exit(1)
    except KeyboardInterrupt:
        errors.print("sober: interrupted", style="yellow")
        sys.exit(130)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as a person wants to read it, without the line of code it comes from."""
    errors.print(f"sober: {' '.join(str(message).split())}", style="yellow", soft_wrap=True, markup=False)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, RequestError) else f"{text} (see sober --help)"
