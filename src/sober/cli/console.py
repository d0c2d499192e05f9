"""What a person sees in a terminal: a bar while a family trains, tables when it is done."""

from __future__ import annotations

import datetime
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from rich.console import Console, Group
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from sober.criteria import Ranking
from sober.errors import counted
from sober.methods import Method
from sober.metrics import METRICS, Scores
from sober.models.family import Family
from sober.models.model import latent_kl
from sober.report.pictures import INFORMATIVE
from sober.results import Runs
from sober.training.train import Progress as TrainingProgress
from sober.types import written
from sober.workflows import Plan, Status, status
from sober.workflows.plan import counts
from sober.worlds import World
from sober.worlds.stored import Stored

if TYPE_CHECKING:
    from polars import DataFrame

LOOK_EVERY = 2.0  # seconds
FACTORS_SHOWN = 8  # of a world in the list

_TITLED: dict[str, Any] = {"title_justify": "left", "title_style": "bold", "box": None, "header_style": "dim"}

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


class _Speed(ProgressColumn):
    """Model-steps a second and the time left, from the trainer's own clock, which leaves compilation out."""

    def render(self, task: Task) -> Text:
        rate, left = task.fields.get("rate"), task.fields.get("left", math.nan)
        if rate is None:  # not a training
            return Text("" if not task.total else f"{task.percentage:.0f}%", style="cyan")
        if not rate:
            return Text("compiling", style="dim")
        clock = "" if math.isnan(left) else f" · {datetime.timedelta(seconds=round(left))} left"
        return Text(f"{rate:,.0f} model-steps/s{clock}", style="cyan", no_wrap=True)


class Bar:
    """A watcher that draws one bar for the whole family."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.task: TaskID | None = None
        self.second: TaskID | None = None
        self.last = -math.inf

    def progress(self, progress: TrainingProgress) -> None:
        cohort = f"cohort {progress.cohort}/{progress.cohorts} · " if progress.cohorts > 1 else ""
        loss = "" if math.isnan(progress.loss) else f" · loss {progress.loss:.4g}"
        what = f"{cohort}{counted(progress.models, 'model')} · step {progress.step:,}{loss}"
        if self.task is None:  # not before there is something to show: a refused request draws no bar
            self.task = self.bar.add_task(what)
        self.bar.update(self.task, total=progress.total, completed=progress.done, description=what)
        self.bar.tasks[self.task].fields.update(rate=progress.rate, left=progress.seconds_left)

    def note(self, text: str) -> None:
        self.bar.console.print(f"[yellow]{text}[/]")

    def stage(self, what: str, done: int, total: int) -> None:
        """A second bar for what comes after training, whatever it is just now."""
        if self.second is None:
            self.second = self.bar.add_task(what)
        self.bar.update(self.second, description=what, completed=done, total=total, visible=done < total)

    def looked(self, folder: Path) -> None:
        """A bar for what others do on a study's store, looked at every other second."""
        if time.monotonic() - self.last < LOOK_EVERY:
            return
        self.last, now = time.monotonic(), status(folder)
        if self.task is None:
            self.task = self.bar.add_task("")
        what = f"{now.trained:,} of {counted(now.runs, 'run')} trained · {counted(len(now.claimed), 'worker')} busy"
        rate = sum(note.get("rate") or 0.0 for note in now.running)
        self.bar.update(self.task, description=what, completed=now.trained, total=now.runs)
        left = math.nan if now.seconds_left is None else now.seconds_left
        self.bar.tasks[self.task].fields.update(rate=rate or None, left=left)

    def counting(self, what: str) -> Callable[[int, int], None]:
        """The second bar, for work after training that reports (done, total)."""
        return functools.partial(self.stage, what)


@contextmanager
def bar() -> Iterator[Bar]:
    """A progress bar on the terminal; on a file or a pipe, nothing but the notes."""
    columns = (TextColumn("{task.description}"), BarColumn(8), _Speed())  # all of it within 80 columns
    with Progress(*columns, console=console, refresh_per_second=4) as drawn:
        yield Bar(drawn)


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work that reports (done, total), as often as it likes and for as many rounds as it has."""
    columns = (TextColumn(what), BarColumn(16), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as drawn:
        task = drawn.add_task(what, total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=total)


def worlds_table(worlds: Mapping[str, World]) -> Table:
    """Every world: how many pictures of which shape, its factors with their sizes, where the pictures come from."""
    table = Table(box=None, header_style="dim")
    table.add_column("world", style="bold", no_wrap=True)
    table.add_column("pictures", justify="right", no_wrap=True)
    table.add_column("image", no_wrap=True)
    table.add_column("factors", overflow="fold")
    table.add_column("from", no_wrap=True)
    for name, each in worlds.items():
        factors = [f"{factor.name} {factor.size or ''}".strip() for factor in each.factors]
        if len(factors) > FACTORS_SHOWN:
            factors = [*factors[: FACTORS_SHOWN - 1], f"and {len(factors) - FACTORS_SHOWN + 1} more"]
        size = "×".join(map(str, each.image_shape))
        origin = "its files" if isinstance(each, Stored) else "drawn"
        known = (f"{each.size:,}", size, ", ".join(factors), origin) if each.size else ("yours", "any", "", "you")
        table.add_row(name, *known)
    return table


def method_card(method: Method) -> Group:
    """One training method: what it does, its hyperparameters, the values studies gave them, where it comes from."""
    knobs = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for style in ("cyan", "", "dim", ""):
        knobs.add_column(style=style)
    for each in method.hyper:
        knobs.add_row(each.name, written(each.default), each.range, each.help)
    sweeps = [
        Text(f"{study}: " + ", ".join(f"{name}={','.join(map(written, values))}" for name, values in sweep.items()))
        for study, sweep in method.sweeps.items()
    ]
    below: list[Table | Text] = [*([knobs] if method.hyper else []), *sweeps, Text(method.reference, style="dim")]
    return Group(Text.assemble((method.name, "bold"), "  ", method.summary), Padding(Group(*below), (0, 0, 0, 4)))


def models_table(family: Family) -> Table:
    """Every finished model: its settings, where its terms ended, how many of its latents carry something."""
    varying = family.varying()
    table = Table(title=family.summary(), title_justify="left", title_style="bold", box=None, header_style="dim")
    table.add_column("run", style="cyan", no_wrap=True)
    for name in (*varying, "seed", "loss", "reconstruction", "kl", "active"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", style="yellow")
    images = family.world.sample(0, 512).images
    for run in family.finished:
        model = family.model(run)
        last = [_last(model.curves.get(term)) for term in ("loss", "reconstruction", "kl")]
        flags = "" if model.diverged is None else f"diverged at step {model.diverged}"
        active = f"{np.sum(latent_kl(*model.encode(images)) > INFORMATIVE)} of {run.latents}"
        settings = [written(run.hyper[name]) if name in run.hyper else "-" for name in varying]
        table.add_row(run.identity[:8], *settings, str(run.seed), *last, active, flags)
    return table


def scores_table(scores: Scores) -> Table:
    """One representation: every score beside its range."""
    table = Table(box=None, header_style="dim")
    for column in ("score", "value", *(["±"] if scores.errors else []), "from", "to", "better", "flags"):
        table.add_column(column, justify="left" if column in ("score", "better", "flags") else "right", no_wrap=True)
    for metric in METRICS.values():
        for name, meaning in metric.scores.items():
            if name in scores:
                error = [f"{scores.errors[name]:.4f}"] if scores.errors else []
                ends = [f"{end:g}" if math.isfinite(end) else "∞" for end in (meaning.low, meaning.high)]
                better = "" if meaning.better == "neither" else meaning.better
                flags = f"[yellow]{' '.join(scores.flags[name])}[/]"
                table.add_row(f"[bold]{name}[/]", f"{scores[name]:.4f}", *error, *ends, better, flags)
    return table


def family_scores_table(family: Family, found: Mapping[str, Scores]) -> Table:
    """Every model of a family in a row, its main scores in columns."""
    shown = [name for metric in METRICS.values() for name in metric.scores if "/" not in name]
    columns = [name for name in shown if any(name in scores for scores in found.values())]
    varying = family.varying()
    table = Table(title=family.summary(), title_justify="left", title_style="bold", box=None, header_style="dim")
    table.add_column("run", style="cyan", no_wrap=True)
    for name in (*varying, "seed"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right", overflow="fold")
    table.add_column("", style="yellow")
    for run in family.runs:
        if run.identity in found:
            scores = found[run.identity]
            settings = [written(run.hyper[name]) if name in run.hyper else "-" for name in varying]
            flags = " ".join(sorted({flag for flags in scores.flags.values() for flag in flags}))
            table.add_row(run.identity[:8], *settings, str(run.seed), *(f"{scores[n]:.3f}" for n in columns), flags)
    return table


def ranking_table(family: Family, ranking: Ranking, top: int) -> Table:
    """The best models: what the criteria say, how often each came first, and its places in nine of ten draws."""
    shown = f"the model to use: {min(top, len(ranking.models))} of {len(ranking.models)}"
    table = _ranked(shown, "run", ranking)
    for name in ("latents", "first", "places"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("setting")
    table.add_column("", style="yellow")
    for model in ranking.models[:top]:
        scores = [f"{model.scores[criterion.name]:.3f}" for criterion in ranking.criteria]
        places = f"{model.places[0]}–{model.places[1]}"
        latents = f"{model.informative} of {model.run.latents}"
        words = f"{family.words(model.run)} seed={model.run.seed}"
        known = [str(model.place), model.run.identity[:8], *scores, latents, f"{model.first:.0%}", places]
        table.add_row(*known, words, " ".join(model.flags))
    return table


def settings_table(ranking: Ranking) -> Table:
    """Settings by the median over their seeds."""
    table = _ranked("the setting to train with: medians over seeds", "setting", ranking)
    for name in ("first", "seeds"):
        table.add_column(name, justify="right", no_wrap=True)
    for setting in ranking.settings:
        scores = [f"{setting.scores[criterion.name]:.3f}" for criterion in ranking.criteria]
        table.add_row(str(setting.place), setting.words, *scores, f"{setting.first:.0%}", str(len(setting.runs)))
    return table


def latents_table(family: Family, ranking: Ranking) -> Table:
    """The best model for each number of informative latents."""
    table = _ranked("the best for each number of informative latents", "run", ranking)
    table.add_column("latents", justify="right")
    table.add_column("setting")
    for count, model in ranking.by_latents().items():
        scores = [f"{model.scores[criterion.name]:.3f}" for criterion in ranking.criteria]
        words = f"{family.words(model.run)} seed={model.run.seed}"
        table.add_row(str(model.place), model.run.identity[:8], *scores, str(count), words)
    return table


def _ranked(title: str, what: str, ranking: Ranking) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim")
    table.add_column("place", justify="right", no_wrap=True)
    table.add_column(what, style="cyan", no_wrap=True)
    for criterion in ranking.criteria:
        table.add_column(f"{criterion.name} {'↑' if criterion.better == 'higher' else '↓'}", justify="right")
    return table


def plan_table(planned: Plan) -> Group:
    """Runs of each method on each world."""
    methods = list(dict.fromkeys(cohort.runs[0].method for cohort in planned.cohorts))
    runs, cohorts = counted(len(planned.runs), "run"), counted(len(planned.cohorts), "cohort")
    title = Text(f"{planned.study.name}: {runs} in {cohorts}", style="bold")  # a table's own is cut to its width
    table = Table(box=None, header_style="dim")
    table.add_column("world", style="cyan", no_wrap=True)
    for name in (*methods, "all"):
        table.add_column(name, justify="right")
    for spec, of in counts(planned).items():
        table.add_row(spec, *(str(of.get(method, "")) for method in methods), f"{sum(of.values()):,}")
    return Group(title, table)


def status_table(now: Status) -> Group:
    """What is done, running and failed."""
    title = Text(f"{now.name}: {now.trained:,} of {counted(now.runs, 'run')} trained", style="bold")
    table = Table(box=None, header_style="dim")
    table.add_column("world", style="cyan", no_wrap=True)
    table.add_column("trained", justify="right")
    table.add_column("of", justify="right")
    for spec, (trained, total) in now.by_world.items():
        table.add_row(spec, f"{trained:,}", f"{total:,}")
    below: list[Table | Text] = [Text(f"{now.rows:,} scores in the store")]
    if now.scale:
        below.append(Text(f"scale: {now.scale}", style="yellow"))
    notes = {note["task"]: note for note in now.running}
    for holder in now.claimed:
        note = notes.get(holder.name)
        what = f"{note['what']} {note['done'] / max(note['total'], 1):.0%}" if note else "at work"
        below.append(Text(f"{holder.name}: {what}, by process {holder.pid} on {holder.host}", style="cyan"))
    if (left := now.seconds_left) is not None:
        below.append(Text(f"about {datetime.timedelta(seconds=round(left))} of training left at this pace"))
    below += [Text(f"{spec} is not here: {why}", style="yellow") for spec, why in now.missing.items()]
    for failure in now.failed:
        of = counted(len(failure.runs), "run")
        below.append(Text(f"{failure.task} ({of}) failed {failure.tries} times: {failure.error}", style="red"))
    return Group(title, table, Text(""), *below)


def frame_table(frame: DataFrame, title: str, most: int = 40) -> Table:
    """A table of results, its first rows."""
    table = Table(title=title, **_TITLED)
    for name, kind in frame.schema.items():
        table.add_column(name, justify="right" if kind.is_numeric() else "left", overflow="fold")
    for row in frame.head(most).iter_rows():
        table.add_row(
            *("" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row)
        )
    if len(frame) > most:
        table.caption = f"and {len(frame) - most:,} more rows"
    return table


def rows_table(rows: Sequence[Mapping[str, str]]) -> Table:
    """Rows that are already text, each key a column."""
    table = Table(box=None, header_style="dim")
    for name in rows[0] if rows else ():
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*row.values())
    return table


def board_table(runs: Runs, most: int = 12) -> Group:
    """Settings in rows, the median of each main score over seeds in columns; those first that no label chose."""
    shown = [name for name in ("udr", "pipe", "mig", "dci_disentanglement", "factor_vae", "sap") if name in runs.names]
    sound = runs.sound()
    rows = []
    for world, setting in dict.fromkeys(zip(sound.about["world"], sound.about["setting"], strict=True)):
        at = ((sound.about["world"] == world) & (sound.about["setting"] == setting)).to_numpy()
        rows.append((world, setting, int(at.sum()), np.ma.median(sound.columns(shown)[at], axis=0)))
    rows.sort(key=lambda row: -float(np.ma.filled(row[3][:1], -np.inf)[0]) if shown else 0.0)
    table = Table(box=None, header_style="dim")
    table.add_column("world", style="dim")
    table.add_column("setting", style="cyan", no_wrap=True)
    for name in ("seeds", *shown):
        table.add_column(name.replace("_", " "), justify="right")
    for world, setting, seeds, medians in rows[:most]:
        cells = ("-" if value is np.ma.masked else f"{value:.2f}" for value in medians)
        table.add_row(world, setting, str(seeds), *cells)
    more = [Text(f"and {len(rows) - most} more settings, in the report", style="dim")] if len(rows) > most else []
    return Group(Text("medians over seeds", style="bold"), table, *more)


def _last(curve: Float[np.ndarray, " T"] | None) -> str:
    finite = [value for value in (() if curve is None else curve) if math.isfinite(value)]
    return f"{finite[-1]:.2f}" if finite else "-"
