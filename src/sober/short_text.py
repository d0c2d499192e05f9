"""Short texts of objects, for `print`, prompts and notebooks: at most `LINES` lines of `COLUMNS` characters.

An array inside an object is shown by its type and shape, and another object by its name or in one short call.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

LINES, COLUMNS = 25, 100
WORDS = 40  # characters of a value inside an object
NARROWEST = 20  # columns that the last column of a table needs
MOST = 30  # values of a collection that are looked at
INDENT = "    "
DIGITS = 8  # of a run's identity


def as_call(value: Any) -> str:
    """A dataclass or a named tuple as a call that makes it, without arguments that have their default.

    >>> as_call(Training(steps=600))
    'Training(steps=600)'
    """
    lines = [f"{type(value).__name__}("]
    room = COLUMNS - len(INDENT) - 1  # 1 for a comma or the closing bracket
    names = _changed_fields(value)
    arguments = [f"{name}={in_words(getattr(value, name), room - len(name) - 1)}" for name in names]
    for argument in (cut(argument, room) for argument in arguments):  # escaped characters make a text longer
        if len(lines[-1]) + len(argument) + 1 > COLUMNS:
            lines.append(INDENT)
        lines[-1] += f"{argument}, "
    lines = list(_few_lines([line.rstrip() for line in lines]))
    return "\n".join([*lines[:-1], lines[-1].removesuffix(",")]) + ")"


def as_facts(heading: str, facts: Mapping[str, object]) -> str:
    """A heading, and a line for each fact; facts without content are left out."""
    facts = {name: fact for name, fact in facts.items() if not _is_empty(fact)}
    width = max(map(len, facts), default=0)
    lines = [f"{name:{width}}  {fact if isinstance(fact, str) else in_words(fact)}" for name, fact in facts.items()]
    return "\n".join(_few_lines([cut(heading), *map(_cut_line, lines)]))


def as_table(heading: str, rows: Sequence[Mapping[str, object]]) -> str:
    """A heading, the names of columns and the first rows. A column in which all rows are empty is left out."""
    if not rows:
        return cut(heading)
    first_rows = rows if len(rows) <= LINES - 2 else rows[: LINES - 3]
    columns = [_column(name, [row.get(name) for row in first_rows]) for name in dict.fromkeys(_names(first_rows))]
    columns = [column for column in columns if any(cell.strip() for cell in column[1:])]
    starts = itertools.accumulate((len(column[0]) + 2 for column in columns[:-1]), initial=0)
    fitting = [column for column, start in zip(columns, starts, strict=False) if start <= COLUMNS - NARROWEST]
    fitting += [["…"] * (len(first_rows) + 1)] if len(fitting) < len(columns) else []
    table = ["  ".join(cells).rstrip() for cells in zip(*fitting, strict=True)]
    more = [f"… and {len(rows) - len(first_rows):,} more"] if len(first_rows) < len(rows) else []
    return "\n".join([cut(heading), *map(_cut_line, table), *more])


def in_words(value: object, width: int = WORDS) -> str:
    """A value inside an object, in at most `width` characters."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        return repr(cut(value, width - 2))
    if isinstance(value, float):
        return f"{value:.6g}"
    if hasattr(value, "shape"):
        return cut(f"{getattr(value, 'dtype', type(value).__name__)} {tuple(value.shape)}", width)
    if isinstance(value, Mapping | tuple | list | set | frozenset) and not hasattr(value, "_fields"):
        return _several(value, width)
    return cut(value if value is None or isinstance(value, int | Path) else _named(value), width)


def encodable(text: object) -> str:
    """A text that any file can hold: bytes of a file's name that are no text stand in it as `\\udce9`."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str) -> str:
    """A text as one line; characters that cannot be printed, such as ends of lines in a name, become spaces."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def cut(text: object, width: int = COLUMNS) -> str:
    """A text as one line, with `…` in place of what is too long."""
    line = " ".join(str(text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _cut_line(line: str) -> str:
    """Like `cut`, for a line whose spaces matter."""
    return line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"


def _few_lines(lines: Sequence[str]) -> Sequence[str]:
    return lines if len(lines) <= LINES else [*lines[: LINES - 1], "…"]


def _is_empty(fact: object) -> bool:
    return fact is None or (isinstance(fact, str | tuple) and not fact)


def _several(values: Collection[Any], width: int) -> str:
    """The first values of a collection, as many as there is room for, and how many there are if some are left out."""
    if isinstance(values, Mapping):
        start, end = "{", "}"
        words = [f"{in_words(name)}: {in_words(value)}" for name, value in itertools.islice(values.items(), MOST)]
    else:
        start, end = ("[", "]") if isinstance(values, list) else ("(", ",)" if len(values) == 1 else ")")
        words = [in_words(value) for value in itertools.islice(values, MOST)]
    for count in range(len(words), 0, -1):
        left_out = [] if count == len(values) else [f"… {len(values):,} in all"]
        text = f"{start}{', '.join([*words[:count], *left_out])}{end}"
        if len(text) <= width:
            return text
    return f"{start}{len(values):,} values{end}" if values else f"{start}{end}"


def _named(value: object) -> str:
    """An object by a run's identity, its name, or in one short call."""
    name = type(value).__name__
    if isinstance(value, type) or (callable(value) and hasattr(value, "__name__")):
        return str(getattr(value, "__name__", name))
    if isinstance(identity := getattr(value, "identity", None), str):
        return f"{name} {identity[:DIGITS]}"
    if isinstance(own_name := getattr(value, "name", None), str):
        return f"{name} {own_name!r}"
    if not (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
        return name
    call = as_call(value)
    return call if len(call) <= WORDS and "\n" not in call else f"{name}(…)"


def _changed_fields(value: Any) -> Iterator[str]:
    """The names of fields without a default, and of fields that differ from it."""
    if dataclasses.is_dataclass(value):
        fields = [field for field in dataclasses.fields(value) if field.repr and not field.name.startswith("_")]
        defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
        for field in fields:
            if field.default_factory is not dataclasses.MISSING:
                defaults[field.name] = field.default_factory()
        names = [field.name for field in fields]
    else:
        names, defaults = list(value._fields), value._field_defaults
    for name in names:
        if name not in defaults or not _same(getattr(value, name), defaults[name]):
            yield name


def _same(value: object, default: object) -> bool:
    return value is default or (not hasattr(value, "shape") and type(value) is type(default) and value == default)


def _names(rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    for row in rows:
        yield from row


def _column(name: str, values: Sequence[object]) -> list[str]:
    """A column with its name, all cells equally wide; numbers are on the right."""
    name, cells = cut(name, WORDS), [_cell(value) for value in values]
    width = max(map(len, (name, *cells)))
    numbers = all(isinstance(value, int | float | None) and not isinstance(value, bool) for value in values)
    return [cell.rjust(width) if numbers else cell.ljust(width) for cell in (name, *cells)]


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return cut(value, WORDS)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else in_words(value)
