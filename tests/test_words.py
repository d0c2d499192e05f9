"""No sentence must be read twice, and no local name says nothing.

A room is a folder or a file of `src/sober`, or a folder of scripts. `docs` are the pages and their scripts.
`python tests/test_words.py ROOM` lists findings.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sober"

# Names that callers and saved scores know: a setting of EDI, and an argument of Collector.
PUBLIC = {("metrics/edi.py", "whole"), ("metrics/scoring/collector.py", "part")}

RIDDLES = {
    "that which, those which": r"\b(?:that|those) which\b",
    "so many, so few": r"\bso (?:many|few)\b(?!(?: \w+)? that\b)",
    "those of them": r"\bthose of (?:them|these|it)\b",
    "those that": r"\bthose (?:that|who)\b",
    "is that of": r"\b(?:is|are) (?:that|those) of\b",
    "of each … that": r"\bof (?:each|every) \w+(?: \w+)? that\b",
    "a sentence that starts with Of": r"\bOf\b(?! course\b)",
    "; of each": r"[;:] of (?:a|an|the|all|each|every|several|two)\b",
    "with which": r"\b(?:with|by|into|from|to|of) which\b",
    "what is … of": r"\bwhat (?:is|are|was|were) \w+ of\b",
    "says of": r"\b(?:says?|said|knows?|known|tells?|told|shown|kept) of\b",
    "is what": r"\b(?:is|are) what\b",
    "all that": r"\ball that\b",
    "one that": r"\b(?:one that|the one (?:whose|who|of))\b",
    ", as are": r", as (?:is|are)\b(?! usual)",
    "where there are none": r"\bwhere there (?:is|are) (?:one|none|some)\b",
    "as far as": r"\b(?:as|so) far as (?:it|they|he|one)\b",
}
EMPTY_NAMES = {
    *("about", "asked", "at", "become", "both", "each", "enough", "found", "given", "good", "has", "held", "here"),
    *("how", "kept", "known", "like", "made", "met", "mine", "now", "of", "own", "part", "rest", "said", "saw", "says"),
    *("seen", "shown", "some", "such", "taken", "theirs", "there", "told", "what", "which", "whole"),
}
PATTERNS = {habit: re.compile(pattern.replace(" ", r"\s+")) for habit, pattern in RIDDLES.items()}  # over line ends


class Finding(NamedTuple):
    """Words to replace, and their place."""

    path: Path
    line: int
    words: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.words!r}: {self.advice}"


class Text(NamedTuple):
    """Prose that begins on a line of a file."""

    line: int
    words: str


def comments(source: str) -> Iterator[Text]:
    """The comments of a module; comments on consecutive lines are one text."""
    first, lines = 0, []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            alone = token.line.lstrip().startswith("#")
            if lines and not (alone and token.start[0] == first + len(lines)):
                yield Text(first, "\n".join(lines))
                lines = []
            first = first if lines else token.start[0]
            lines.append(token.string.lstrip("# "))
    if lines:
        yield Text(first, "\n".join(lines))


def strings(source: str) -> Iterator[Text]:
    """The docstrings and messages of a module; a value inside a message is written {}."""
    inside = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            pieces = [piece.value if isinstance(piece, ast.Constant) else "{}" for piece in node.values]
            inside |= {id(piece) for piece in node.values}
            yield Text(node.lineno, "".join(map(str, pieces)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield Text(node.lineno, node.value)


def page_text(source: str) -> Iterator[Text]:
    """A page without its blocks of code."""
    prose = re.sub(
        r"^( *)```.*?^\1```$", lambda code: "\n" * code[0].count("\n"), source, flags=re.DOTALL | re.MULTILINE
    )
    yield Text(1, prose)


def riddles(path: Path, source: str) -> Iterator[Finding]:
    """Phrases that hide who does what to what."""
    for text in page_text(source) if path.suffix == ".md" else (*comments(source), *strings(source)):
        for habit, pattern in PATTERNS.items():
            for match in pattern.finditer(text.words):
                line = text.line + text.words.count("\n", 0, match.start())
                yield Finding(path, line, " ".join(match[0].split()), f"({habit}) say who does what to what")


def empty_names(path: Path, source: str) -> Iterator[Finding]:
    """Local names and arguments that say nothing about what they hold; fields of classes do not count."""
    tree, place = ast.parse(source), path.relative_to(SOURCE).as_posix() if path.is_relative_to(SOURCE) else ""
    fields = {
        statement.target
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        else:
            continue
        if name in EMPTY_NAMES and (place, name) not in PUBLIC:
            yield Finding(path, node.lineno, name, "name the local by what it holds, such as run, row or path")


def rooms() -> dict[str, list[Path]]:
    """The files of each room."""
    files: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        files.setdefault(path.relative_to(SOURCE).parts[0], []).append(path)
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    pages += [path for path in sorted((ROOT / "docs").rglob("*")) if path.suffix in (".md", ".py")]
    scripts = {name: sorted((ROOT / name).glob("*.py")) for name in ("tools", "benchmarks", "studies")}
    return {**files, **scripts, "docs": pages}


def findings(room: str) -> list[Finding]:
    """The riddles and the empty names in a room."""
    sources = {path: path.read_text(encoding="utf-8") for path in rooms()[room]}
    modules = {path: source for path, source in sources.items() if path.suffix == ".py"}
    return [
        *(finding for path, source in sources.items() for finding in riddles(path, source)),
        *(finding for path, source in modules.items() for finding in empty_names(path, source)),
    ]


@pytest.mark.parametrize("room", rooms())
def test_a_room_says_who_does_what(room: str) -> None:
    left = findings(room)
    assert not left, "\n".join(map(str, left))


def test_every_public_name_is_still_there() -> None:
    for place, name in PUBLIC:
        assert any(name in line for line in (SOURCE / place).read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""Of settings, the best."""', 1),
        ('"""The value.\n\nIt is that\nof the mean."""', 3),
        ("x = 1\n# Keeps those\n# that are left.", 2),
        ('raise ValueError(f"{name} has so many rows")', 1),
    ],
)
def test_a_riddle_is_found(source: str, line: int) -> None:
    assert [finding.line for finding in riddles(ROOT / "a.py", source)] == [line]


def test_code_on_a_page_is_not_prose() -> None:
    page = "One\n\n```\nall that\n```\n\nall that is"
    assert [finding.line for finding in riddles(ROOT / "a.md", page)] == [7]


@pytest.mark.parametrize("source", ["found = 1", "for each in x: pass", "def f(part): pass", "with x as kept: pass"])
def test_an_empty_name_is_found(source: str) -> None:
    assert [finding.line for finding in empty_names(ROOT / "a.py", source)] == [1]


def test_a_field_may_have_any_name() -> None:
    assert not [*empty_names(ROOT / "a.py", "class Codes:\n    known: int = 0")]


def main(names: list[str]) -> None:
    """Prints what is left in rooms."""
    for room in names or rooms():
        for finding in findings(room):
            print(finding)


if __name__ == "__main__":
    main(sys.argv[1:])
