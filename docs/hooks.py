"""What the site adds to the pages in this folder: a menu made from the registries, and in each page what they say.

A registry entry that no page is about stops the build. The project's own pages at the root of the repository become
part of the site, and links to them are turned.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sober.criteria import CRITERIA
from sober.criteria.criterion import Criterion
from sober.errors import counted, listed
from sober.methods import METHODS
from sober.methods.method import Method
from sober.metrics import METRICS
from sober.metrics.metric import Metric
from sober.results.folder import Folder
from sober.results.shipped import Note, home
from sober.results.shipped import shipped as shipped_results
from sober.tasks import TASKS, Task
from sober.types import Setting
from sober.words import text_of
from sober.workflows.queue import Queue, runs_in
from sober.workflows.study import Scale, find_study, shipped
from sober.workflows.wanted import read_wanted
from sober.worlds import WORLDS, World

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "readme.md"}
NAMED = [{path.removesuffix(".md").capitalize(): site} for path, site in ROOT_PAGES.items()]
RESULTS = "results.md"
STARTING = ("first_ten_minutes.md", "score_my_representation.md", "fit_my_pictures.md")
USING = (
    "from_elsewhere.md", "compare.md", "cli.md", "training.md", "codes.md", "explorer.md", "interop.md", "store.md",
    "statistics.md", "results.md", "cluster.md", "speed.md",
)  # fmt: skip
CHANGING = (
    "adding.md", "add_metric.md", "add_criterion.md", "add_task.md", "add_method.md", "add_world.md", "design.md",
    "api.md",
)  # fmt: skip


class Section(NamedTuple):
    """A registry and the folder with its pages; `card` says what the registry knows of an entry."""

    title: str
    registry: Mapping[str, Any]
    card: Callable[[Any], Iterator[str]]


def _metric(metric: Metric | Task) -> Iterator[str]:
    yield from _table("score", ((f"`{name}`", f"{of.summary} ({of})") for name, of in metric.scores.items()))
    yield from _table("setting", ((f"`{name}`", f"`{text_of(value)}`") for name, value in metric.settings.items()))
    yield from _table("preset", ((f"`{name}`", _pairs(changes)) for name, changes in metric.presets.items()))


def _method(method: Method) -> Iterator[str]:
    rows = ((f"`{each.name}`", f"{each.help} ({each.range}; else `{text_of(each.default)}`)") for each in method.hyper)
    yield from _table("hyperparameter", rows)
    sweeps = ((f"`{study}`", _pairs(values)) for study, values in method.sweeps.items())
    yield from _table("sweep", sweeps)


def _world(world: type[World]) -> Iterator[str]:
    factors = getattr(world, "factors", ())
    if isinstance(factors, tuple):  # else they depend on the file that is read
        rows = ((f"`{each.name}`", f"{each.size} values, {each.kind}" if each.size else each.kind) for each in factors)
        yield from _table("factor", rows)


def _criterion(criterion: Criterion) -> Iterator[str]:
    yield f"{criterion.sees} {criterion.blind} {criterion.better.capitalize()} is better."
    yield ""
    yield from _table("setting", ((f"`{name}`", f"`{text_of(value)}`") for name, value in criterion.settings.items()))


def _study(path: Path) -> Iterator[str]:
    study, source = find_study(path)
    yield from _table("scale", ((f"`{name}`", _pairs_of(scale)) for name, scale in study.scales.items()))
    yield from ("```python", source.strip(), "```", "")


def _pairs_of(scale: Scale) -> str:
    changed = ((each.name, getattr(scale, each.name)) for each in dataclasses.fields(scale))
    return ", ".join(f"`{name}={value}`" for name, value in changed if value is not None)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith("?") else ".")


def _table(what: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    lines = [f"| {name} | {about.replace('|', chr(92) + '|')} |" for name, about in rows]
    if lines:
        yield from (f"| {what} | |", "|---|---|", *lines, "")


def _pairs(settings: Mapping[str, Setting | Sequence[Setting]]) -> str:
    values = {name: value if isinstance(value, tuple | list) else (value,) for name, value in settings.items()}
    return ", ".join(f"`{name}={','.join(text_of(each) for each in value)}`" for name, value in values.items())


SECTIONS = {
    "methods": Section("Methods", METHODS, _method),
    "metrics": Section("Metrics", METRICS, _metric),
    "criteria": Section("Choosing without labels", CRITERIA, _criterion),
    "tasks": Section("What codes are good for", TASKS, _metric),
    "worlds": Section("Worlds", WORLDS, _world),
    "studies": Section("Studies", shipped(), _study),
}


def page_of(folder: str, name: str) -> str:
    """The page about a registry entry: its own, or the one that the folder's index links to where it lists it."""
    if (DOCS / folder / f"{name}.md").exists():
        return f"{folder}/{name}.md"
    for row in re.findall(r"^\|.+\|$", (DOCS / folder / "index.md").read_text(encoding="utf-8"), flags=re.MULTILINE):
        linked = re.findall(r"\]\((\w+\.md)\)", row)
        if linked and re.search(rf"[`\[]{name}[`\]/]", row.split("|")[1]):
            return f"{folder}/{linked[-1]}"
    raise LookupError(f"{name} has no page: write docs/{folder}/{name}.md, and list it in docs/{folder}/index.md")


def navigation() -> list[Any]:
    """The menu: one group for each registry, in its order, then what else its folder holds."""
    menu: list[Any] = [{"Home": "index.md"}, {"Start here": list(STARTING)}]
    menu.append({"Using it": _and_others(USING, "", without=("index.md", "nets.md", *STARTING, *CHANGING))})
    for folder, section in SECTIONS.items():
        pages = [f"{folder}/index.md", *(page_of(folder, name) for name in section.registry)]
        menu.append({section.title: _and_others(pages, folder)})
    return [*menu, {"Nets": ["nets.md"]}, {"Changing it": [*CHANGING, *NAMED]}]


def _and_others(pages: Sequence[str], folder: str, without: Sequence[str] = ()) -> list[str]:
    """Pages, each once, and then all others of a folder: so that none is left out of the menu."""
    found = sorted(posixpath.join(folder, path.name) for path in (DOCS / folder).glob("*.md"))
    return [page for page in dict.fromkeys([*pages, *found]) if page not in without]


def cards(uri: str) -> str:
    """What the registries say of the entries that a page is about."""
    folder = uri.partition("/")[0]
    section = SECTIONS.get(folder)
    names = [name for name in section.registry if page_of(folder, name) == uri] if section else []
    lines: list[str] = []
    for name in names:
        assert section is not None
        entry = section.registry[name]
        summary = find_study(entry)[0].title if isinstance(entry, Path) else entry.summary
        lines += ["", f"## `{name}` in the registry", "", _sentence(summary), "", *section.card(entry)]
        lines += [f"*{find_study(entry)[0].paper if isinstance(entry, Path) else entry.reference}*"]
    return "\n".join(lines)


def results_there() -> str:
    """What the page about results shows of the folder: what is in, and what is wanted."""
    lines = ["", "## What is there", ""]
    for name, path in shipped_results().items():
        note, runs = Note.read(path), Folder.open(path).runs.values()
        worlds = listed({run.world for run in runs})
        lines += [
            f"- **`{name}`**: {note.what}. {counted(len(runs), 'model')} on {worlds}; {note.when}, {note.device}."
        ]
    if not shipped_results():
        lines += ["Nothing is in yet: the queue waits for its first hours on a GPU."]
    lines += ["", "## What is wanted", "", "| results | what | models | done | GPU hours left, about |"]
    lines += ["|---|---|---:|---:|---:|"]
    for line in Queue(read_wanted(), runs_in(home())).lines():
        counts = f"{line.models:,} | {line.done:,} | {line.gpu_hours:.1f}"
        lines += [f"| `{line.entry.name}` | {line.entry.what} | {counts} |"]
    return "\n".join(lines)


def turned(markdown: str, uri: str) -> str:
    """A page's text with links between `docs/` and the root of the repository made links within the site."""
    home = {site: repository for repository, site in ROOT_PAGES.items()}.get(uri, f"docs/{uri}")

    def turn(match: re.Match[str]) -> str:
        path, hash_, anchor = match[1].partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(home), path))
        inside = ROOT_PAGES.get(target) or target.removeprefix("docs/")
        return f"]({posixpath.relpath(inside, posixpath.dirname(uri) or '.')}{hash_}{anchor})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)  # code is left as it is
    return "".join(part if part.startswith("```") else re.sub(r"\]\(([^)\s]+)\)", turn, part) for part in parts)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Gives the site its menu; a registry entry without a page ends the build."""
    from mkdocs.exceptions import Abort  # noqa: PLC0415 -- tests read this file where mkdocs is not installed

    try:
        config.nav = navigation()
    except LookupError as error:
        raise Abort(str(error)) from error
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages at the root of the repository."""
    from mkdocs.structure.files import File  # noqa: PLC0415

    for source, uri in ROOT_PAGES.items():
        files.append(File.generated(config, uri, content=(DOCS.parent / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "LICENSE", content=(DOCS.parent / "LICENSE").read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns the links of a page, and adds what the registries say."""
    added = results_there() if page.file.src_uri == RESULTS else cards(page.file.src_uri)
    return turned(markdown, page.file.src_uri) + "\n" + added
