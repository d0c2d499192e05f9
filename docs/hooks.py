"""What the site adds to the pages in this folder: a menu made from the registries, and in each page what they say.

A registry entry that no page is about stops the build. The project's own pages at the root of the repository become
part of the site, and links to them are turned.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import posixpath
import re
import sys
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
from sober.requests.study.study import Scale, find_study, shipped
from sober.results.folder import Folder
from sober.results.shipped import Note
from sober.results.shipped import shipped as shipped_results
from sober.settings_text import text_of
from sober.tasks import TASKS, Task
from sober.types import Setting
from sober.worlds import WORLDS, World

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "readme.md"}
NAMED = [{path.removesuffix(".md").capitalize(): site} for path, site in ROOT_PAGES.items()]
RESULTS = "results.md"
QUESTIONS = "questions.md"
FINDINGS = "findings.md"
STARTING = ("first_ten_minutes.md", "install.md", "score_my_representation.md", "fit_my_pictures.md")
USING = (
    "from_elsewhere.md", "compare.md", "agree.md", "probe.md", "encoders.md", "cli.md", "training.md", "codes.md",
    "explorer.md", "interop.md", "store.md", "statistics.md", "how_sure.md", "results.md", "leaderboard.md",
    "add_results.md", "cluster.md", "speed.md",
)  # fmt: skip
CHANGING = (
    "adding.md", "add_metric.md", "add_criterion.md", "add_task.md", "add_method.md", "add_world.md", "design.md",
    "api.md",
)  # fmt: skip


class Section(NamedTuple):
    """A registry and the folder with its pages; `card` says what the registry knows about an entry."""

    title: str
    registry: Mapping[str, Any]
    card: Callable[[Any], Iterator[str]]


def _metric(metric: Metric | Task) -> Iterator[str]:
    yield from _table(
        "score", ((f"`{name}`", f"{meaning.summary} ({meaning})") for name, meaning in metric.scores.items())
    )
    yield from _table("setting", ((f"`{name}`", f"`{text_of(value)}`") for name, value in metric.settings.items()))
    yield from _table("preset", ((f"`{name}`", _pairs(changes)) for name, changes in metric.presets.items()))


def _method(method: Method) -> Iterator[str]:
    rows = (
        (f"`{hyper.name}`", f"{hyper.help} ({hyper.range}; else `{text_of(hyper.default)}`)") for hyper in method.hyper
    )
    yield from _table("hyperparameter", rows)
    sweeps = ((f"`{study}`", _pairs(values)) for study, values in method.sweeps.items())
    yield from _table("sweep", sweeps)


def _world(world: type[World]) -> Iterator[str]:
    factors = getattr(world, "factors", ())
    if isinstance(factors, tuple):  # else they depend on the file that is read
        rows = (
            (f"`{factor.name}`", f"{factor.size} values, {factor.kind}" if factor.size else factor.kind)
            for factor in factors
        )
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
    changed = ((field.name, getattr(scale, field.name)) for field in dataclasses.fields(scale))
    return ", ".join(f"`{name}={value}`" for name, value in changed if value is not None)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith("?") else ".")


def _table(heading: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    lines = [f"| {name} | {words.replace('|', chr(92) + '|')} |" for name, words in rows]
    if lines:
        yield from (f"| {heading} | |", "|---|---|", *lines, "")


def _pairs(settings: Mapping[str, Setting | Sequence[Setting]]) -> str:
    values = {name: value if isinstance(value, tuple | list) else (value,) for name, value in settings.items()}
    return ", ".join(f"`{name}={','.join(text_of(number) for number in value)}`" for name, value in values.items())


SECTIONS = {
    "methods": Section("Methods", METHODS, _method),
    "metrics": Section("Metrics", METRICS, _metric),
    "criteria": Section("Choosing without labels", CRITERIA, _criterion),
    "tasks": Section("What codes are good for", TASKS, _metric),
    "worlds": Section("Worlds", WORLDS, _world),
    "studies": Section("Studies", shipped(), _study),
}


def page_of(folder: str, name: str) -> str:
    """The page about a registry entry: its own, or the page that the folder's index links to."""
    if (DOCS / folder / f"{name}.md").exists():
        return f"{folder}/{name}.md"
    for row in re.findall(r"^\|.+\|$", (DOCS / folder / "index.md").read_text(encoding="utf-8"), flags=re.MULTILINE):
        linked = re.findall(r"\]\((\w+\.md)\)", row)
        if linked and re.search(rf"[`\[]{name}[`\]/]", row.split("|")[1]):
            return f"{folder}/{linked[-1]}"
    raise LookupError(f"{name} has no page: write docs/{folder}/{name}.md, and list it in docs/{folder}/index.md")


def navigation() -> list[Any]:
    """The menu: one group for each registry, in its order, then what else its folder holds."""
    menu: list[Any] = [{"Home": "index.md"}, {"Which question do you have?": QUESTIONS}]
    menu += [{"Start here": list(STARTING)}, {"Do the published findings hold?": FINDINGS}]
    menu.append(
        {"Using it": _and_others(USING, "", without=("index.md", QUESTIONS, FINDINGS, "nets.md", *STARTING, *CHANGING))}
    )
    for folder, section in SECTIONS.items():
        pages = [f"{folder}/index.md", *(page_of(folder, name) for name in section.registry)]
        menu.append({section.title: _and_others(pages, folder)})
    return [*menu, {"Nets": ["nets.md"]}, {"Changing it": [*CHANGING, *NAMED]}]


def _and_others(pages: Sequence[str], folder: str, without: Sequence[str] = ()) -> list[str]:
    """Pages, each once, and then all others of a folder: so that none is left out of the menu."""
    files = sorted(posixpath.join(folder, path.name) for path in (DOCS / folder).glob("*.md"))
    return [page for page in dict.fromkeys([*pages, *files]) if page not in without]


def cards(uri: str) -> str:
    """What the registries say about the entries of a page."""
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
        note, runs = Note.read(path), Folder.open(path).runs
        worlds = listed({run.world for run in runs})
        lines += [
            f"- **`{name}`**: {note.what}. {counted(len(runs), 'model')} on {worlds}; {note.when}, {note.device}."
        ]
    if not shipped_results():
        lines += ["Nothing is there yet."]
    lines += ["", "## What is wanted", "", "| results | what | models | done | GPU hours left, about |"]
    lines += ["|---|---|---:|---:|---:|"]
    for entry in _read_wanted():
        counts = f"{len(entry.plan.runs):,} | {len(entry.done()):,} | {entry.gpu_hours_left():.1f}"
        lines += [f"| `{entry.name}` | {entry.what} | {counts} |"]
    return "\n".join(lines)


def _read_wanted() -> tuple[Any, ...]:
    """The list of wanted results, by the reader in tools/."""
    spec = importlib.util.spec_from_file_location("wanted", DOCS.parent / "tools" / "wanted.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["wanted"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module.read_wanted()


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
    return "".join(piece if piece.startswith("```") else re.sub(r"\]\(([^)\s]+)\)", turn, piece) for piece in parts)


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
