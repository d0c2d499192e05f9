"""Every table, figure and algorithm of the papers: what it shows, the runs it needs, and the command that makes it.

The list is in checklist.toml. The page docs/studies/papers.md, `sober study plan`, `sober study tables --paper` and the
tests read it from there.
"""

from __future__ import annotations

import dataclasses
import functools
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sober.errors import RequestError, choices, counted, listed, shell_command, unknown

FILE = Path(__file__).with_name("checklist.toml")

State = Literal["made", "waits", "nothing", "refused"]
SINGLE = {"worlds": "world", "methods": "method", "scores": "score", "criteria": "criterion"}


@dataclasses.dataclass(frozen=True)
class Needs:
    """The runs and measurements that make an item. Names come from the registries.

    If some are missing, the item can be made in part. `least` holds, by kind, how many that takes: one by default.
    """

    worlds: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()  # worlds that make it in part if no world of `worlds` is there
    methods: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    seeds: int = 1
    strengths: int = 1  # of one method
    varied: tuple[str, ...] = ()  # hyperparameters, or fields of a training, that take several values
    views: tuple[str, ...] = ()  # of worlds
    versions: Mapping[str, int] = dataclasses.field(default_factory=dict)  # by criterion, in how many settings
    least: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Item:
    """A table, figure or algorithm of a paper."""

    paper: str
    name: str
    shows: str
    table: str = ""  # its name in `sober tables`
    figure: str = ""  # its name in the report
    section: str = ""  # its section in the report, if it is not a chart
    command: str = ""  # another command that makes it, or shows its subject
    before: str = ""  # a command that has to run first
    waits: str = ""  # what must be added to Sober before it can be made
    nothing: str = ""  # why there is nothing to run
    refused: str = ""  # why it is not made
    differs: str = ""  # how it differs from the paper, and why
    missing: str = ""  # what of it is not made, if the rest is
    needs: Needs = Needs()
    study: str = ""  # the study that makes it; empty if it has the paper's name

    @property
    def made_by(self) -> str:
        """The study that makes it."""
        return self.study or self.paper

    @property
    def state(self) -> State:
        """Whether it is made, waits for a part that Sober lacks, has nothing to run, or is refused."""
        states: tuple[State, ...] = ("waits", "nothing", "refused")
        return next((state for state in states if getattr(self, state)), "made")

    @property
    def why_not(self) -> str:
        return self.waits or self.refused or self.nothing

    def commands(self, folder: str = "DIR") -> list[str]:
        """The commands that make it from a folder with the study's results, in order."""
        if self.state in ("waits", "refused"):
            return []
        commands = [self.before.replace("DIR", shlex.quote(folder))] if self.before else []
        commands += [shell_command("sober", "tables", folder, "--names", self.table)] if self.table else []
        commands += [shell_command("sober", "report", folder)] if self.figure or self.section else []
        return [*commands, self.command] if self.command else commands


@dataclasses.dataclass(frozen=True)
class Offer:
    """The runs and measurements of a study at some scale. An item can be made if they meet its needs."""

    worlds: Mapping[str, str]  # by name, why its files are missing; empty if they are not
    methods: Mapping[str, int]  # by name, at how many strengths
    scores: tuple[str, ...]
    criteria: Mapping[str, int]  # by name, in how many settings
    seeds: int
    varied: frozenset[str] = frozenset()  # hyperparameters of a method, or fields of a training, with several values
    views: frozenset[str] = frozenset()


class Verdict(NamedTuple):
    """Whether an item can be made, wholly or in part, and which of its needs are not met."""

    can: Literal["wholly", "in part", "not"]
    why: str


def verdict(item: Item, offer: Offer) -> Verdict:
    """Whether a study that offers these runs and measurements makes this item."""
    if item.state != "made":
        return Verdict("not", item.why_not)
    needs, why, can_be_made = item.needs, [f"without {item.missing}"] if item.missing else [], True
    worlds_with_files = {name: missing for name, missing in offer.worlds.items() if not missing}
    wanted_worlds, stand_ins = needs.worlds, [name for name in needs.stand_ins if name in worlds_with_files]
    if stand_ins and not worlds_with_files.keys() & set(wanted_worlds):
        wanted_worlds = ()
        why.append(f"{listed(stand_ins)} in place of {listed(needs.worlds)}")
    for kind, wanted, offered in (
        ("worlds", wanted_worlds, worlds_with_files),
        ("methods", needs.methods, offer.methods),
        ("scores", needs.scores, offer.scores),
        ("criteria", needs.criteria, offer.criteria),
    ):
        absent = [name for name in wanted if name not in offered]
        can_be_made &= len(wanted) - len(absent) >= min(needs.least.get(kind, 1), len(wanted))
        without_files = [name for name in absent if name in offer.worlds] if kind == "worlds" else []
        others = [name for name in absent if name not in without_files]
        why += [f"no {kind if len(others) > 1 else SINGLE[kind]} {listed(others)}"] if others else []
        why += [f"no files of {listed(without_files)}"] if without_files else []
    for name, count in needs.versions.items():
        if 0 < offer.criteria.get(name, 0) < count:
            why.append(f"{counted(offer.criteria[name], 'version')} of {name}, and it takes {count}")
    for lack, names, offered_names in (("only one", needs.varied, offer.varied), ("no view", needs.views, offer.views)):
        if absent := [name for name in names if name not in offered_names]:
            can_be_made = False
            why.append(f"{lack} {listed(absent)}")
    if needs.seeds > offer.seeds:
        can_be_made = False
        why.append(f"{counted(offer.seeds, 'seed')}, and it takes {needs.seeds}")
    most = max((offer.methods[name] for name in needs.methods or offer.methods if name in offer.methods), default=0)
    if needs.strengths > most:
        can_be_made = False
        why.append(f"{counted(most, 'strength')} of a method, and it takes {needs.strengths}")
    return Verdict("not" if not can_be_made else "in part" if why else "wholly", "; ".join(why))


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper: its citation, and its items in the order of the paper."""

    name: str
    cite: str
    items: tuple[Item, ...]

    def item(self, name: str) -> Item:
        """The item of this name."""
        for item in self.items:
            if item.name.casefold() == name.strip().casefold():
                return item
        advice = choices(name, [item.name for item in self.items], f"docs/studies/{self.name}.md lists them")
        raise RequestError(f"{self.name} has no {name!r}: {advice}")


@functools.cache
def papers() -> Mapping[str, Paper]:
    """The papers, by the name of their study."""
    return {name: _paper(name, fields) for name, fields in _file()["papers"].items()}


def find_paper(name: str) -> Paper:
    """The paper of this name."""
    if name not in papers():
        raise unknown("paper", papers(), name)
    return papers()[name]


def items() -> Iterator[Item]:
    """Every item of every paper."""
    for paper in papers().values():
        yield from paper.items


@functools.cache
def _file() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def _paper(name: str, paper: Mapping[str, Any]) -> Paper:
    shared_needs = _file()["needs"]
    return Paper(name, paper["cite"], tuple(_item(name, item, shared_needs) for item in paper["items"]))


def _item(paper: str, item: Mapping[str, Any], shared_needs: Mapping[str, Mapping[str, Any]]) -> Item:
    """An item as the file describes it. Its own needs take precedence over the shared needs that it names."""
    fields = {name: value for name, value in item.items() if name not in ("needs", "like")}
    needs = {**shared_needs.get(item.get("like", ""), {}), **item.get("needs", {})}
    needs_fields: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in needs.items()}
    return Item(paper, **fields, needs=Needs(**needs_fields))
