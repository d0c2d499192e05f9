"""Writes src/sober/metrics/functions.pyi, which tells type checkers of the metrics as plain functions.

    python docs/make_functions.py

A test compares the file with what this would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path

from sober.metrics import METRICS
from sober.metrics.function import signature_of
from sober.metrics.metric import Metric

FILE = Path(__file__).parent.parent / "src" / "sober" / "metrics" / "functions.pyi"
HEAD = '''"""Metrics as plain functions, for type checkers: made of the registry by `python docs/make_functions.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sober.metrics.score import Scores

'''


def stub() -> str:
    """The whole file."""
    return HEAD + "\n".join("\n".join(_function(metric)) for metric in METRICS.values())


def _function(metric: Metric) -> Iterator[str]:
    yield f"def {metric.name}("
    by_name = False
    for each in signature_of(metric).parameters.values():
        if each.kind is Parameter.KEYWORD_ONLY and not by_name:
            by_name = True
            yield "    *,"
        default = "" if each.default is Parameter.empty else f" = {_literal(each.default)}"
        yield f"    {each.name}: {each.annotation}{default},"
    yield ") -> Scores:"
    yield f'    """{metric.summary[0].upper()}{metric.summary[1:]}"""'
    yield ""


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    FILE.write_text(stub(), encoding="utf-8")
    print(f"wrote {FILE}")
