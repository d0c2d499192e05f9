"""What the queue does next: so many runs of a list as can be finished in a time, or else be carried on elsewhere.

Runs are taken in groups, the seeds of a setting, because criteria compare those with each other. Groups that share a
program are trained together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from sober.errors import counted
from sober.files.packs import LARGEST
from sober.results.folder import Folder
from sober.results.shipped import Note, shipped
from sober.training.cohort import program, signature
from sober.types import Run
from sober.workflows.carried import Carried
from sober.workflows.pace import Pace, gpu_hours
from sober.workflows.plan import TOGETHER, hours
from sober.workflows.wanted import Entry, Group
from sober.worlds import world

ROOM = LARGEST - 2**20  # bytes of all packs of a call
SPARE = 1.15  # what an estimate is multiplied by
# Seconds, and of a short call this part: in which a piece's programs are compiled; with which nothing is begun that
# cannot be finished; which are left at the end for packing.
START, SHORTEST, LATE = (60.0, 1 / 6), (90.0, 1 / 4), (20.0, 1 / 6)

Say = Callable[[str], None]


class Piece(NamedTuple):
    """What is done next: runs that train together, about how long that takes, and whether there is time for it."""

    entry: Entry
    runs: Group
    seconds: float
    finishes: bool

    def words(self) -> str:
        first, settings = self.runs[0], len({run.seedless for run in self.runs})
        models = f"{counted(len(self.runs), 'model')} of {counted(settings, 'setting')}"
        what = f"{self.entry.name}: {models}, {first.method} on {first.world}, {first.steps:,} steps"
        end = "" if self.finishes else "; it will be packed as it is then, to go on elsewhere"
        return f"{what}: about {hours(self.seconds)}{end}"


class Line(NamedTuple):
    """A line of the list, as far as it has come."""

    entry: Entry
    done: int
    models: int
    gpu_hours: float  # of what is left
    missing: tuple[str, ...]  # worlds that are not here


class Queue:
    """A list, what of it is done, how fast this machine is, and for how many seconds it is there."""

    def __init__(
        self,
        entries: Sequence[Entry],
        done: Container[str] = (),
        pace: Pace | None = None,
        *,
        limit: float = float("inf"),
        room: int = ROOM,
    ) -> None:
        self.entries, self.pace, self.room = entries, pace or Pace(), room
        self.start, self.shortest, self.late = (min(most, limit * part) for most, part in (START, SHORTEST, LATE))
        self.limit = limit - self.late  # in which something can be done
        self.done = {run for entry in entries for run in entry.plan.runs if run in done}
        self.left_out: set[str] = set()  # runs that cannot be done here

    def lines(self) -> Iterator[Line]:
        """The list with what is done, and what the rest costs; runs of two entries are counted with the first."""
        seen: set[str] = set()
        for entry in self.entries:
            runs = [run for run in entry.plan.runs.values() if run.identity not in seen]
            seen |= entry.plan.runs.keys()
            left = [run for run in runs if run.identity not in self.done]
            yield Line(entry, len(runs) - len(left), len(runs), gpu_hours(entry, left), tuple(entry.plan.missing))

    def next(self, left: float, say: Say = print) -> Piece | None:
        """What to do in the seconds that are left; None where nothing more can be done in them."""
        for entry in self.entries:
            for groups in self.undone(entry):
                piece, why = self._sized(entry, groups, left)
                if piece is not None or not why:
                    return piece
                say(f"{entry.name}: {groups[0][0].method} on {groups[0][0].world} is left out here: {why}")
                self.left_out |= {run.identity for run in _flat(groups)}
        return None

    def undone(self, entry: Entry) -> Iterator[list[Group]]:
        """Groups that share a world and a program, without what is done or left out."""
        alike: dict[Any, list[Group]] = {}
        for group in entry.groups:
            runs = tuple(run for run in group if run.identity not in self.done | self.left_out)
            if runs:
                alike.setdefault((runs[0].world, signature(runs[0])), []).append(runs)
        yield from alike.values()

    def seconds(self, entry: Entry, runs: Group) -> float:
        """From the beginning of a piece to its end, rather too much than too little."""
        return self.start + SPARE * (self.pace.training(entry.plan, runs) + self.pace.measuring(entry, runs))

    def can_carry(self, entry: Entry, runs: Group) -> bool:
        """Whether runs in training fit into the packs."""
        spec = entry.plan.request.worlds[runs[0].world]
        return len(runs) * _state_bytes(spec, runs[0]) <= self.room

    def _sized(self, entry: Entry, groups: list[Group], left: float) -> tuple[Piece | None, str]:
        """A piece of these groups; or None and why there never is one here, or nothing where time alone is short.

        Whole groups that are finished in the time come first, then those that can be carried, then parts of a group.
        """
        one = groups[0]
        if why := entry.plan.missing.get(one[0].world):
            return None, why
        several = [_flat(groups[:count]) for count in range(min(TOGETHER // len(one) or 1, len(groups)), 0, -1)]
        if (piece := self._first(entry, several, left)) is not None:
            return piece, ""
        if left < self.limit / 2 or self.seconds(entry, one) <= self.limit:
            return None, ""
        if not self.pace.knows(entry.plan, one[0]):  # what was estimated may be wrong: a look will tell
            return Piece(entry, one, self.seconds(entry, one), False), ""
        if (piece := self._first(entry, [one[:count] for count in range(len(one) - 1, 0, -1)], left)) is not None:
            return piece, ""
        needs = hours(self.seconds(entry, one[:1]))
        return None, f"one model needs about {needs} in one go, and is too large to be carried: give more --minutes"

    def _first(self, entry: Entry, sizes: Sequence[Group], left: float) -> Piece | None:
        """The first, and so the largest, that is finished in the time; else the first that can be carried."""
        for runs in sizes:
            if (seconds := self.seconds(entry, runs)) <= left:
                return Piece(entry, runs, seconds, True)
        for runs in sizes if left > self.shortest else ():
            if self.can_carry(entry, runs):
                return Piece(entry, runs, self.seconds(entry, runs), False)
        return None


def _flat(groups: Sequence[Group]) -> Group:
    return tuple(run for group in groups for run in group)


@functools.lru_cache(maxsize=64)
def _state_bytes(spec: str, run: Run) -> int:
    """Of one model in training."""
    opened = world(spec)
    compiled = program(opened, signature(run))
    shapes = compiled.shapes(compiled.inputs([run]), opened.example)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))


def runs_in(results: Path) -> set[str]:
    """Identities of the runs whose results are in: those of the requests, which can be read without Polars."""
    return {run for path in shipped(results).values() for run in Folder.open(path).runs}


def pace_seen(results: Path, pieces: Sequence[Carried]) -> Pace:
    """What was seen before of how long work takes: as the notes of results say, and pieces that are here."""
    notes = [Note.read(path) for path in shipped(results).values()]
    seen = [made.get("pace", {}) for note in notes for made in note.made]
    seen += [piece.about.get("pace", {}) for piece in pieces]
    return Pace({str(name): float(value) for each in seen for name, value in each.items()})
