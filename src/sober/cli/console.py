"""What a person sees in a terminal while Sober works: bars, notes and errors."""

from __future__ import annotations

import datetime
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rich.progress
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from sober.errors import counted
from sober.training.progress import TrainingProgress

LOOK_EVERY = 2.0  # seconds between two looks at the folder, or ten times as long as a look takes if that is longer

# What a terminal obeys instead of showing: control characters (but tabs and ends of lines), and marks that turn the
# direction of writing. Bytes of a file's name that are no text cannot be printed at all.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
NO_TEXT = re.compile("[\ud800-\udfff]")


def harmless(text: str) -> str:
    """Text without anything that a terminal would obey: a name from a file cannot clear the screen."""
    return text if text.isprintable() else NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", OBEYED.sub("", text))


class Terminal(Console):
    """Where commands print: all text goes to the terminal through here.

    Text is printed as it is: brackets in it are no markup, and `:name:` is no picture. `line` gives parts of a line a
    style. Whatever a terminal would obey is left out.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


console = Terminal()
errors = Terminal(stderr=True)


def line(*parts: object) -> Text:
    """A line made of parts, each a value or a pair of a value and its style: `line("wrote ", (path, "bold"))`."""
    styled = [value if isinstance(value, tuple) else (value, "") for value in parts]
    return Text.assemble(*((str(value), style) for value, style in styled))


def indented(text: RenderableType) -> None:
    console.print(Padding(text, (0, 0, 0, 4)))


def complain(sentence: str, style: str = "yellow") -> None:
    """Prints a warning or an error, on one line, to the error output."""
    errors.print(sentence, style=style, soft_wrap=True)


class _Speed(ProgressColumn):
    """Model-steps a second and the time left, as the trainer measures them, without compilation."""

    def render(self, task: Task) -> Text:
        rate, left = task.fields.get("rate"), task.fields.get("left", math.nan)
        if rate is None:  # the bar is not for training
            return Text("" if not task.total else f"{task.percentage:.0f}%", style="cyan")
        if not rate:
            return Text("compiling", style="dim")
        clock = "" if math.isnan(left) or not left else f" · {datetime.timedelta(seconds=round(left))} left"
        return Text(f"{rate:,.0f} model-steps/s{clock}", style="cyan", no_wrap=True)


class Bar:
    """A watcher that draws one bar for the whole family."""

    def __init__(self, bar: rich.progress.Progress) -> None:
        self.bar = bar
        self.task: TaskID | None = None
        self.second: TaskID | None = None  # the bar for work after training
        self.next_look = -math.inf

    def progress(self, progress: TrainingProgress) -> None:
        cohort = f"cohort {progress.cohort}/{progress.cohorts} · " if progress.cohorts > 1 else ""
        loss = "" if math.isnan(progress.loss) else f" · loss {progress.loss:.4g}"
        description = f"{cohort}{counted(progress.models, 'model')} · step {progress.step:,}{loss}"
        if self.task is None:  # the first progress adds the bar, so a refused request draws none
            self.task = self._added(description)
        self.bar.update(self.task, total=progress.total, completed=progress.done, description=description)
        self.bar.tasks[self.task].fields.update(rate=progress.rate, left=progress.seconds_left)

    def note(self, text: str) -> None:
        self.bar.console.print(text, style="yellow")

    def stage(self, stage: str, done: int, total: int) -> None:
        """Draws a second bar for work before and after training. Work in one piece has a bar that only moves."""
        if self.second is None:
            self.second = self._added(stage)
        share = {"completed": done, "total": total} if total > 1 else {"total": None}
        self.bar.update(self.second, description=stage, visible=done < total, **share)

    def end(self) -> None:
        """Ends the drawing, without the second bar: nothing else may stand before the JSON of a command."""
        if self.second is not None:
            self.bar.update(self.second, visible=False)
        if not any(task.visible for task in self.bar.tasks):  # no empty line instead of the bars
            self.bar.live.transient = True
            self.bar.live.stop()
        else:
            self.bar.stop()

    def _added(self, description: str) -> TaskID:
        """A new bar. The first one begins the drawing."""
        self.bar.start()
        return self.bar.add_task(description)

    def looked(self, folder: Path) -> None:
        """Draws a bar for the work of other processes on a folder. Looks at the folder now and then."""
        if time.monotonic() < self.next_look:
            return
        from sober.requests.status import status

        started, progress = time.monotonic(), status(folder)
        self.next_look = started + max(LOOK_EVERY, 10 * (time.monotonic() - started))
        if self.task is None:
            self.task = self._added("")
        description = (
            f"{progress.trained:,} of {counted(progress.runs, 'run')} trained · "
            f"{counted(len(progress.claimed), 'worker')} busy"
        )
        rate = sum(note.get("rate") or 0.0 for note in progress.running)
        self.bar.update(self.task, description=description, completed=progress.trained, total=progress.runs)
        left = math.nan if progress.seconds_left is None else progress.seconds_left
        self.bar.tasks[self.task].fields.update(rate=rate or None, left=left)


@contextmanager
def bar() -> Iterator[Bar]:
    """A progress bar on the terminal. A file or a pipe gets only the notes."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(8), _Speed())  # fits into 80 columns
    watcher = Bar(rich.progress.Progress(*columns, console=console, refresh_per_second=4))
    try:
        yield watcher
    finally:
        watcher.end()


@contextmanager
def counting(description: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work that reports (done, total) any number of times."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(16),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with rich.progress.Progress(*columns, console=console, transient=True) as drawn:
        task = drawn.add_task(description, total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=total)
