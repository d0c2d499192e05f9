"""Compares several codes of the same rows, and writes what it finds as a page where asked to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sober.errors import RequestError, listed
from sober.metrics.arrays import Kinds
from sober.metrics.comparison import HALVES, Comparison, compared
from sober.metrics.inputs import as_codes
from sober.metrics.score import Chosen
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
    halves: int = HALVES,
    level: float = 0.95,
    out: str | Path | None = None,
) -> Comparison:
    """Scores of several codes of the same rows, with the difference of each two, its interval, and whether it is real.

    `codes` are by name, (N, D) each, with any D; `factors` (N, K) are those of all. `logvar` has, by name, the
    log-variances of those that have some. `halves` says how many random halves of the rows, or of the `groups` where
    given, tell how much a difference varies; `level` how sure an interval is. `out` is where to write a page. All else
    is as for `sober.score`.

    >>> comparison = sober.compare({"layer 1": first, "layer 2": second}, factors, out="compare.html")
    >>> [(each.score, each.value) for each in comparison.real()]
    """
    spread = dict(logvar or {})
    if unknown := spread.keys() - codes.keys():
        raise RequestError(f"logvar names {listed(unknown)}, which is not among the codes: there are {listed(codes)}")
    shared = {"names": names, "kinds": kinds, "groups": groups, "weights": weights}
    prepared = {}
    for name, each in codes.items():
        prepared[str(name)] = _prepared(str(name), each, factors, spread.get(name), shared)
    if len(prepared) < len(codes):
        raise RequestError("two codes have the same name, as text: give each its own")
    found = compared(prepared, metrics, preset=preset, seed=seed, halves=halves, level=level)
    if out is not None:
        from sober.report.comparison import write_comparison  # noqa: PLC0415 -- only who asks for a page waits for it

        write_comparison(found, Path(out))
    return found


def _prepared(name: str, codes: Any, factors: Any, logvar: Any, shared: Mapping[str, Any]) -> Codes:
    try:
        if isinstance(codes, Codes):
            return as_codes(codes, factors, logvar=logvar)
        return as_codes(codes, factors, logvar=logvar, **shared)
    except RequestError as error:
        raise RequestError(f"{name!r}: {error}") from error
