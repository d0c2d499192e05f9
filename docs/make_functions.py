"""Writes src/sober/metrics/scoring/functions.pyi, which declares the metrics as plain functions for type checkers.

    python docs/make_functions.py

A test compares the file with what this would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path

from sober.metrics import METRICS
from sober.metrics.metric import Metric
from sober.metrics.scoring.metric_functions import signature_of

FILE = Path(__file__).parent.parent / "src" / "sober" / "metrics" / "scoring" / "functions.pyi"
HEAD = '''"""Metrics as plain functions, for type checkers: made of the registry by `python docs/make_functions.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sober.metrics.scoring.score import Scores

'''


def stub() -> str:
    """The whole file."""
    return HEAD + "\n".join("\n".join(_function(metric)) for metric in METRICS.values())


def _function(metric: Metric) -> Iterator[str]:
    yield f"def {metric.name}("
    by_name = False
    for parameter in signature_of(metric).parameters.values():
        if parameter.kind is Parameter.KEYWORD_ONLY and not by_name:
            by_name = True
            yield "    *,"
        default = "" if parameter.default is Parameter.empty else f" = {_literal(parameter.default)}"
        yield f"    {parameter.name}: {parameter.annotation}{default},"
    yield ") -> Scores:"
    yield f'    """{metric.summary[0].upper()}{metric.summary[1:]}"""'
    yield ""


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    FILE.write_text(stub(), encoding="utf-8")
    print(f"wrote {FILE}")
