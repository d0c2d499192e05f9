"""Compares several codes of the same rows, and can write the comparison as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sober.contracts import MOST_REPEATS, number_between, whole_number
from sober.defaults import COMPARED_HALVES
from sober.errors import RequestError, choices, listed, shown
from sober.metrics.common.arrays import Kinds
from sober.metrics.common.inputs import as_codes
from sober.metrics.scoring.comparison import Comparison, compared
from sober.metrics.scoring.score import Chosen
from sober.types import Codes


def compare(
    codes: Mapping[str, Any],
    factors: Any = None,
    *,
    logvar: Mapping[str, Any] | None = None,
    metrics: str | Chosen | None = None,
    preset: str = "study",
    seed: int = 0,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    groups: Any = None,
    weights: Any = None,
    halves: int = COMPARED_HALVES,
    level: float = 0.95,
    out: str | Path | None = None,
) -> Comparison:
    """Scores several codes of the same rows: each two codes' difference, its interval, and whether it is real.

    `codes` holds arrays (N, D) by name; D may differ. All codes share the `factors` (N, K). `logvar` holds the
    log-variances of some or all codes, by name. `halves` random halves of the rows, or of the `groups` if given, are
    drawn in pairs to estimate how much a difference varies. `level` is the confidence of an interval.
    `out` is where to write a page. `sober.score` explains the other arguments.

    >>> comparison = sober.compare({"layer 1": first, "layer 2": second}, factors, out="compare.html")
    >>> [(difference.score, difference.value) for difference in comparison.real()]
    """
    _check(codes, logvar, level, out)
    seed, halves = whole_number("seed", seed), whole_number("halves", halves, least=2, most=MOST_REPEATS)
    logvars = dict(logvar or {})
    if unknown := logvars.keys() - codes.keys():
        advice = choices(str(min(unknown, key=str)), map(str, codes))
        raise RequestError(f"logvar names {listed(unknown)}, which is not among the codes: {advice}")
    shared = {"names": names, "kinds": kinds, "groups": groups, "weights": weights}
    prepared = {}
    for name, array in codes.items():
        prepared[str(name)] = _prepared(str(name), array, factors, logvars.get(name), shared)
    if len(prepared) < len(codes):
        raise RequestError("two codes have the same name, as text: give each its own")
    comparison = compared(prepared, metrics, preset=preset, seed=seed, halves=halves, level=level)
    if out is not None:
        from sober.report.comparison_page import write_comparison  # noqa: PLC0415 -- takes long to import

        write_comparison(comparison, Path(out))
    return comparison


def _check(codes: Any, logvar: Any, level: Any, out: Any) -> None:
    """Refuses arguments of another kind than `compare` takes."""
    for name, value in (("codes", codes), ("logvar", {} if logvar is None else logvar)):
        if not isinstance(value, Mapping):
            raise RequestError(f"{name} must be arrays by name, as in {{'layer 1': array}}, not {shown(value)}")
    number_between("level, the share of intervals that hold the truth,", level)
    if out is not None and not isinstance(out, str | Path):
        raise RequestError(f"out must be the name of a file, not {shown(out)}")


def _prepared(name: str, codes: Any, factors: Any, logvar: Any, shared: Mapping[str, Any]) -> Codes:
    try:
        if isinstance(codes, Codes):
            return as_codes(codes, factors, logvar=logvar)
        return as_codes(codes, factors, logvar=logvar, **shared)
    except RequestError as error:
        raise RequestError(f"{name!r}: {error}") from error
