"""Every table, figure and algorithm of the papers: what it shows, what makes it here, and what that needs.

checklist.toml is the one source: the page docs/studies/papers.md, `sober study plan`, `sober study tables --paper` and
the tests read it.
"""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sober.errors import RequestError, counted, listed

FILE = Path(__file__).with_name("checklist.toml")

State = Literal["made", "waits", "nothing", "refused"]
SINGLE = {"worlds": "world", "methods": "method", "scores": "score", "criteria": "criterion"}


@dataclasses.dataclass(frozen=True)
class Needs:
    """What runs and measurements an item is made of. Names are those of the registries.

    Of each kind some are enough to make it in part: `least`, by kind, one where nothing is said.
    """

    worlds: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    seeds: int = 1
    strengths: int = 1  # of a method
    varied: tuple[str, ...] = ()  # hyperparameters, or fields of a training, that take several values
    views: tuple[str, ...] = ()  # of worlds
    versions: Mapping[str, int] = dataclasses.field(default_factory=dict)  # of a criterion, with other settings each
    least: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Item:
    """A table, figure or algorithm of a paper."""

    paper: str
    name: str
    shows: str
    table: str = ""  # of `sober tables`
    figure: str = ""  # of the report
    section: str = ""  # of the report, where it is not a chart
    command: str = ""  # another one that makes it, or shows what it is about
    before: str = ""  # a command that has to run first
    waits: str = ""  # for what, where it cannot be made yet
    nothing: str = ""  # why there is nothing to run
    refused: str = ""  # why it is not made
    differs: str = ""  # from the paper, and why
    needs: Needs = Needs()
    study: str = ""  # that makes it, where that has another name than the paper

    @property
    def made_by(self) -> str:
        """The study that makes it."""
        return self.study or self.paper

    @property
    def state(self) -> State:
        """Whether it is made, waits for something that is not there yet, has nothing to run, or is not made."""
        states: tuple[State, ...] = ("waits", "nothing", "refused")
        return next((state for state in states if getattr(self, state)), "made")

    @property
    def why_not(self) -> str:
        return self.waits or self.refused or self.nothing

    def commands(self, folder: str = "DIR") -> list[str]:
        """What makes it, in order, from a folder with the study's results."""
        if self.state in ("waits", "refused"):
            return []
        made = [self.before.replace("DIR", folder)] if self.before else []
        made += [f"sober tables {folder} --names {self.table}"] if self.table else []
        made += [f"sober report {folder}"] if self.figure or self.section else []
        return [*made, self.command] if self.command else made


@dataclasses.dataclass(frozen=True)
class Offer:
    """What a study at some scale has: what items' needs are held against."""

    worlds: Mapping[str, str]  # by name, why its files are missing; empty where they are here
    methods: Mapping[str, int]  # by name, at how many strengths
    scores: tuple[str, ...]
    criteria: Mapping[str, int]  # by name, with how many different settings
    seeds: int
    varied: frozenset[str] = frozenset()  # hyperparameters of a method, or fields of a training, with several values
    views: frozenset[str] = frozenset()


class Verdict(NamedTuple):
    """Whether an item can be made, wholly or in part, and what is missing."""

    can: Literal["wholly", "in part", "not"]
    why: str


def verdict(item: Item, offer: Offer) -> Verdict:
    """Whether this item can be made of what is offered."""
    if item.state != "made":
        return Verdict("not", item.why_not)
    needs, why, enough = item.needs, [], True
    here = {name: missing for name, missing in offer.worlds.items() if not missing}
    for what, wanted, there in (
        ("worlds", needs.worlds, here),
        ("methods", needs.methods, offer.methods),
        ("scores", needs.scores, offer.scores),
        ("criteria", needs.criteria, offer.criteria),
    ):
        absent = [name for name in wanted if name not in there]
        enough &= len(wanted) - len(absent) >= min(needs.least.get(what, 1), len(wanted))
        without_files = [name for name in absent if name in offer.worlds] if what == "worlds" else []
        others = [name for name in absent if name not in without_files]
        why += [f"no {what if len(others) > 1 else SINGLE[what]} {listed(others)}"] if others else []
        why += [f"no files of {listed(without_files)}"] if without_files else []
    for name, count in needs.versions.items():
        if 0 < offer.criteria.get(name, 0) < count:
            why.append(f"{counted(offer.criteria[name], 'version')} of {name}, and it is about {count}")
    for what, names, has in (("only one", needs.varied, offer.varied), ("no view", needs.views, offer.views)):
        if absent := [name for name in names if name not in has]:
            enough = False
            why.append(f"{what} {listed(absent)}")
    if needs.seeds > offer.seeds:
        enough = False
        why.append(f"{counted(offer.seeds, 'seed')}, and it takes {needs.seeds}")
    most = max((offer.methods[name] for name in needs.methods or offer.methods if name in offer.methods), default=0)
    if needs.strengths > most:
        enough = False
        why.append(f"{counted(most, 'strength')} of a method, and it takes {needs.strengths}")
    return Verdict("not" if not enough else "in part" if why else "wholly", "; ".join(why))


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper: whose it is, and its items in the order of the paper."""

    name: str
    cite: str
    items: tuple[Item, ...]

    def item(self, name: str) -> Item:
        """The item of this name."""
        for item in self.items:
            if item.name.casefold() == name.strip().casefold():
                return item
        raise RequestError(f"{self.name} has no {name!r}: choose from {listed(item.name for item in self.items)}")


@functools.cache
def papers() -> Mapping[str, Paper]:
    """The papers, by the name of their study."""
    return {name: _paper(name, entry) for name, entry in _file()["papers"].items()}


def find_paper(name: str) -> Paper:
    """The paper of this name."""
    if name not in papers():
        raise RequestError(f"there is no paper {name!r}: choose from {listed(papers())}")
    return papers()[name]


def items() -> Iterator[Item]:
    """Every item of every paper."""
    for paper in papers().values():
        yield from paper.items


def scores_of(table: str) -> Sequence[str]:
    """The scores that a paper's table is about, by the name of our table; none where it is about all there are."""
    return tuple(_file()["scores"].get(table, ()))


@functools.cache
def _file() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def _paper(name: str, entry: Mapping[str, Any]) -> Paper:
    known = _file()["needs"]
    return Paper(name, entry["cite"], tuple(_item(name, each, known) for each in entry["items"]))


def _item(paper: str, entry: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> Item:
    """An item, with its needs: those that it shares with others under a name, and its own."""
    fields = {name: value for name, value in entry.items() if name not in ("needs", "like")}
    needs = {**known.get(entry.get("like", ""), {}), **entry.get("needs", {})}
    whole: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in needs.items()}
    return Item(paper, **fields, needs=Needs(**whole))
