"""A call of the queue: piece by piece it trains and measures for a given time, and packs what came of it.

A piece is worked on in a folder of results of its own, by the one evaluation. A thread packs what is there every half
minute; when the time is up it packs once more and ends the process. So whatever ends a call, and whenever, at most the
last minute of a piece is lost, on a machine that keeps nothing too.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sober.device import device_kind
from sober.errors import RequestError, brief, counted
from sober.files import replacing
from sober.files.packs import Pack, pack_bytes, pieces, read_packs
from sober.results.folder import Folder
from sober.results.request import Cohort
from sober.training.progress import Progress, Stopped
from sober.workflows.carried import Carried, as_pack, begin, begun_in, carried_in, finished_files, restore, unfinished
from sober.workflows.desk import TRIES, Desk
from sober.workflows.evaluate import Evaluation, versions
from sober.workflows.looking import looked_at
from sober.workflows.plan import hours
from sober.workflows.queue import ROOM, Piece, Queue, Say
from sober.workflows.shown import keep_pair

SAVED, PACKED = 25.0, 30.0  # seconds between checkpoints, and between packs
LOOK, DROP = 15.0, 90.0  # seconds of training after which its rate is believed, and after which it is not given up


class TooSlow(Stopped):
    """Training that was seen to take longer than there is time for, and cannot be carried."""


class Call:
    """Work on a queue, in a folder, for a time; packs are left in the folder `out`."""

    def __init__(
        self,
        queue: Queue,
        work: Path,
        out: Path,
        *,
        command: str = "",
        say: Say = print,
        clock: Callable[[], float] = time.monotonic,
        end: Callable[[int], Any] = os._exit,
    ) -> None:
        self.queue, self.work, self.out = queue, work, out
        self.command, self.say, self.clock, self.end = command, say, clock, end
        self.began = clock()
        self.finished: list[Carried] = []
        self.packed = (0, 0)  # how many of these are in packs, and the bytes of those
        self.folder: Folder | None = None  # of the piece that is worked on
        self.lock = threading.Lock()  # of what is packed
        for folder in (work, out):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def left(self) -> float:
        """Seconds to work in: the last of all are for packing."""
        return self.queue.limit - (self.clock() - self.began)

    def bring(self, packs: Iterable[Pack]) -> None:
        """Takes packs up: what is finished in them is done, what is begun goes on from where it was."""
        begun: list[Carried] = []
        for pack in packs:
            done = carried_in(pack, "done")
            self.queue.done |= {run for piece in done for run in piece.runs}
            if pack.paths and pack.paths[0].parent.resolve() == self.out.resolve():
                self.finished += done  # they are written again, with what comes
            begun += carried_in(pack, "begun")
        for piece in sorted(
            begun, key=lambda piece: piece.about.get("at", 0.0), reverse=True
        ):  # the latest goes furthest
            there = {run for _, folder in begun_in(self.work, self.queue.entries) for run in folder.runs}
            if not there & set(piece.runs) and not self.queue.done & set(piece.runs):
                try:
                    restore(self.work, self.queue.entries, piece, self.command)
                except RequestError as error:
                    self.say(f"left out: what was begun of {piece.entry}: {error}")

    def all(self) -> None:
        """Piece by piece, until the time is up or nothing is left to do."""
        with self._packing():
            while (piece := self._next()) is not None:
                self.say(f"next: {piece.words()}{'' if self.left > 1e9 else f', of {hours(self.left)} left'}")
                try:
                    self._do(piece)
                except TooSlow as slow:
                    self.say(str(slow))
                    self._leave()
                except Stopped:
                    self.pack()
                    break
        self.say(self._said())

    def _next(self) -> Piece | None:
        """What was begun, then what the list has next."""
        for entry, folder in begun_in(self.work, self.queue.entries):
            if set(folder.runs) & self.queue.done:
                shutil.rmtree(folder.path)
            elif not set(folder.runs) & self.queue.left_out:
                runs = tuple(folder.runs.values())
                return (
                    Piece(entry, runs, self.queue.seconds(entry, runs), True)
                    if self.left > self.queue.shortest / 2
                    else None
                )
        return self.queue.next(self.left, self.say)

    def _do(self, piece: Piece) -> None:
        """Trains, measures, judges and shows; what is there of it is not done again."""
        entry = piece.entry
        folder = begin(self.work, entry, piece.runs, self.command)
        watch = _Watch(self, piece)
        with self.lock:
            self.folder = folder
        for measure in entry.measures:
            Evaluation(folder, measure, strict=False, checkpoint_seconds=SAVED, watcher=watch).all()
        failures = [failure for failure in Desk(folder.path).failures() if failure.tries >= TRIES]
        for failure in failures:
            self.say(f"failed: {failure.error}")
        trained = folder.finished
        if not trained:
            self.queue.left_out |= set(folder.runs)
            return self._leave()
        watch.measured()
        family = folder.family().part(trained)
        pair = keep_pair(folder, family, looked_at(entry.measures[0], family.world))
        about = {
            "entry": entry.name,
            "runs": [run.identity for run in trained],
            "when": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "device": device_kind(),
            "command": self.command,
            "versions": dict(versions()),
            "pace": self.queue.pace.seen,
            "failed": [failure.error for failure in failures],
        }
        done = Carried(Cohort.of(trained).name, about, finished_files(folder.path, pair if entry.models else ()))
        with self.lock:
            self.finished.append(done)
            self.folder = None
        self.queue.done |= set(done.runs)
        self.queue.left_out |= set(folder.runs) - set(done.runs)  # those that failed twice
        self.pack()
        shutil.rmtree(folder.path)  # last: killed before this, the next call finds it done, or does it in a moment
        self.say(f"done: {entry.name}, {counted(len(done.runs), 'model')}")

    def _leave(self) -> None:
        """Gives the piece up that is worked on."""
        with self.lock:
            if self.folder is not None:
                shutil.rmtree(self.folder.path)
            self.folder = None

    def _said(self) -> str:
        models = sum(len(piece.runs) for piece in self.finished)
        names = ", ".join(path.name for path in sorted(self.out.glob("*.pack"))) or "nothing"
        return f"{counted(models, 'model')} finished; in {self.out}: {names}"

    # Packs.

    @contextlib.contextmanager
    def _packing(self) -> Iterator[None]:
        """A thread that packs now and then, and ends the process when the time is up."""
        over = threading.Event()

        def thread() -> None:
            late = self.queue.late / 2
            while not over.wait(max(0.0, min(PACKED, self.left + late))):
                try:
                    self.pack()
                except Exception as error:  # whatever it is, the time must be kept
                    self.say(f"not packed: {type(error).__name__}: {brief(error)}")
                if self.left <= -late:
                    self.say(f"the time is up. {self._said()}")
                    sys.stdout.flush()
                    self.end(0)
                    return

        packing = threading.Thread(target=thread, daemon=True)
        packing.start()
        try:
            yield
        finally:
            over.set()
            packing.join()

    def pack(self) -> None:
        """Writes what is finished, and what is begun as far as there is room for it."""
        with self.lock:
            if len(self.finished) > self.packed[0]:
                self.packed = (len(self.finished), self._write("done", self.finished))
            begun = None if self.folder is None else unfinished(self.folder.path, ROOM - self.packed[1])
            if begun is not None:
                about = {**begun.about, "pace": self.queue.pace.seen, "at": time.time()}
                self._write("begun", [begun._replace(about=about)])
            else:
                self._clear("begun")

    def _write(self, kind: str, carried: Sequence[Carried]) -> int:
        """Puts the packs of a kind in the place of those before; returns their bytes."""
        files = pieces(kind, pack_bytes(*as_pack(kind, carried)))
        for name, data in files.items():
            if not (self.out / name).exists():
                staged = self.work / f".{name}"
                staged.write_bytes(data)
                _move(staged, self.out / name)
        self._clear(kind, files)
        return sum(map(len, files.values()))

    def _clear(self, kind: str, but: Iterable[str] = ()) -> None:
        for path in self.out.glob(f"{kind}-*.pack"):
            if path.name not in but:
                path.unlink()


def _move(staged: Path, path: Path) -> None:
    """Into place, whole or not at all, also where that is on another disk."""
    try:
        os.replace(staged, path)
    except OSError:
        with replacing(path) as temporary:
            shutil.copyfile(staged, temporary)
        staged.unlink()


class _Watch:
    """Looks at the clock while a piece is worked on, and notes how fast that goes."""

    def __init__(self, call: Call, piece: Piece) -> None:
        self.call, self.piece = call, piece
        self.training: float | None = None  # when it began, and
        self.trained: float | None = None  # when it had ended
        self.asked = False

    def progress(self, progress: Progress) -> None:
        now, call, piece = time.monotonic(), self.call, self.piece
        self.training = self.training or now
        self.trained = now
        if progress.rate and now - self.training > LOOK:
            call.queue.pace.trained(piece.entry.plan, piece.runs, progress.rate)
            needed = (progress.total - progress.done) / progress.rate + call.queue.pace.measuring(
                piece.entry, piece.runs
            )
            if needed > call.left and now - self.training < DROP and not call.queue.can_carry(piece.entry, piece.runs):
                raise TooSlow(
                    f"{piece.entry.name}: seen to take {hours(needed)} more at {progress.rate:,.0f} model-steps a "
                    "second, which there is not, and too large to be carried: begun again with fewer models"
                )
        if call.left <= 0 and not self.asked:
            self.asked = True
            signal.raise_signal(signal.SIGINT)  # training stops at a checkpoint

    def stage(self, what: str, done: int, total: int) -> None:
        if self.call.left <= 0:
            raise Stopped("the time is up")

    def measured(self) -> None:
        """Notes what came after training, where all of it was seen."""
        if self.trained is not None:
            self.call.queue.pace.measured(self.piece.entry, self.piece.runs, time.monotonic() - self.trained)

    def note(self, text: str) -> None:
        self.call.say(text)


def brought(paths: Sequence[Path], say: Say = print) -> list[Pack]:
    """The packs in some files and folders; what cannot be read is said, and left out."""
    packs, wrong = read_packs(paths)
    sound = []
    for pack in packs:
        try:
            carried_in(pack, "done")
            sound.append(pack)
        except RequestError as error:
            wrong.append(str(error))
    for line in wrong:
        say(f"left out: {line}")
    return sound
