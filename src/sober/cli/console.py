"""What a person sees in a terminal while Sober works: bars, notes and errors."""

from __future__ import annotations

import datetime
import functools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import rich.progress
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from sober.errors import counted
from sober.training.progress import Progress

LOOK_EVERY = 2.0  # seconds between looks at what others do, or ten times as long as a look takes

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def indented(text: str) -> None:
    console.print(Padding(text, (0, 0, 0, 4)))


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

    def __init__(self, bar: rich.progress.Progress) -> None:
        self.bar = bar
        self.task: TaskID | None = None
        self.second: TaskID | None = None
        self.next_look = -math.inf

    def progress(self, progress: Progress) -> None:
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
        """A bar for what others do on a folder, looked at now and then."""
        if time.monotonic() < self.next_look:
            return
        from sober.workflows.status import status  # noqa: PLC0415 -- for those who wait for others

        started, now = time.monotonic(), status(folder)
        self.next_look = started + max(LOOK_EVERY, 10 * (time.monotonic() - started))
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
    with rich.progress.Progress(*columns, console=console, refresh_per_second=4) as drawn:
        yield Bar(drawn)


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work that reports (done, total), as often as it likes and for as many rounds as it has."""
    columns = (TextColumn(what), BarColumn(16), TaskProgressColumn(), TimeRemainingColumn())
    with rich.progress.Progress(*columns, console=console, transient=True) as drawn:
        task = drawn.add_task(what, total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=total)
