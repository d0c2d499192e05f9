"""Plain arrays as Codes, from any framework: checked, and what is wrong with them said by argument and column."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from sober.errors import RequestError, counted, listed
from sober.estimators.discrete import classes
from sober.types import Codes, Factor, Kind

LARGEST = 1e50  # larger codes are scaled down, so that squares of squares fit into a float64


def as_codes(
    codes: Any,
    factors: Any = None,
    *,
    logvar: Any = None,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
) -> Codes:
    """Plain arrays as Codes: checked, factors as classes. What is wrong with them is said by argument and column."""
    if isinstance(codes, Codes):
        if factors is not None or logvar is not None or names is not None or kinds is not None:
            raise RequestError("codes is a Codes, which has its own factors and logvar: pass nothing beside it")
        codes = _labelled(codes)
        mean, spread = _numbers("codes", codes.mean), _log_variances(codes.logvar)
        return _capped(codes if mean is codes.mean else dataclasses.replace(codes, mean=mean, logvar=spread))
    mean = _numbers("codes", codes)
    spread = None if logvar is None else _log_variances(logvar)
    if spread is not None and spread.shape != mean.shape:
        raise RequestError(f"logvar has shape {spread.shape}, codes {mean.shape}: they must agree")
    columns, about = _factors(factors, len(mean), names, kinds)
    return _capped(Codes(mean, spread, columns, about))


def _labelled(codes: Codes) -> Codes:
    """The rows for which every factor is known."""
    known = np.isfinite(codes.factors).all(axis=1)
    if known.all():
        return codes
    if not known.any():
        raise RequestError("no row has a value for every factor: leave out the factors that are seldom known")
    logvar = None if codes.logvar is None else codes.logvar[known]
    flags = tuple(sorted({*codes.flags, "missing_labels"}))
    return Codes(codes.mean[known], logvar, codes.factors[known], codes.about, flags)


def _numbers(name: str, array: Any) -> np.ndarray:
    array = np.asarray(array)
    if array.ndim != 2 or not array.size:
        hint = f": for one latent pass {name}[:, None]" if array.ndim == 1 and array.size else ""
        raise RequestError(f"{name} must be an (N, D) array with rows and columns, got shape {array.shape}{hint}")
    if array.dtype.kind not in "fiub":
        raise RequestError(f"{name} must hold real numbers, got an array of {array.dtype}")
    if array.dtype.kind != "f" or array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float64)
    _check_finite(name, array)
    return array


def _log_variances(array: Any) -> np.ndarray | None:
    return None if array is None else _numbers("logvar", array)


def _check_finite(name: str, array: np.ndarray) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        column = int(np.flatnonzero(bad.any(axis=0))[0])
        rows = np.flatnonzero(bad[:, column])
        raise RequestError(
            f"{name} has {counted(len(rows), 'value')} that are not finite in column {column}, the first in row "
            f"{rows[0]} ({array[rows[0], column]}): a metric of such numbers would mean nothing; leave those rows out"
        )


def _capped(codes: Codes) -> Codes:
    if codes.mean.dtype != np.float64 or np.abs(codes.mean).max() <= LARGEST:
        return codes
    largest = np.abs(codes.mean).max(axis=0)
    down = np.where(largest > LARGEST, np.frexp(largest)[1] - np.frexp(LARGEST)[1] + 1, 0)
    flags = tuple(sorted({*codes.flags, "rescaled"}))
    return dataclasses.replace(codes, mean=np.ldexp(codes.mean, -down), flags=flags)


def _factors(
    factors: Any, rows: int, names: Sequence[str] | None, kinds: str | Sequence[str] | Mapping[str, str] | None
) -> tuple[np.ndarray, tuple[Factor, ...]]:
    """Columns of factors as class numbers or, where continuous, as they are; and what each is."""
    if factors is None:
        if names or kinds:
            raise RequestError("names and kinds describe factors, and none were passed")
        return np.zeros((rows, 0), np.int64), ()
    if names is None and hasattr(factors, "columns"):  # a data frame
        names = [str(name) for name in factors.columns]
    array = np.asarray(factors)
    if array.ndim != 2:
        hint = ": for one factor pass factors[:, None]" if array.ndim == 1 else ""
        raise RequestError(f"factors must be an (N, K) array, got shape {array.shape}{hint}")
    if len(array) != rows:
        raise RequestError(f"codes has {rows:,} rows and factors {len(array):,}: they must agree, row by row")
    count = array.shape[1]
    names = [f"factor_{k}" for k in range(count)] if names is None else [str(name) for name in names]
    if len(names) != count or len(set(names)) != count:
        raise RequestError(f"names must name each of the {counted(count, 'factor')} once, got {listed(names)}")
    columns, about = [], []
    for k, kind in enumerate(_kinds(kinds, names, array)):
        column, factor = _factor(names[k], array[:, k], kind)
        columns.append(column)
        about.append(factor)
    return np.stack(columns).T if columns else np.zeros((rows, 0), np.int64), tuple(about)  # contiguous by column


def _kinds(
    kinds: str | Sequence[str] | Mapping[str, str] | None, names: Sequence[str], array: np.ndarray
) -> list[Kind]:
    """The kind of each factor: as given, else by what its values are. Nothing is taken for continuous unasked."""
    default: Kind = "categorical" if array.dtype.kind in "USO" else "ordinal"
    if kinds is None:
        return [default] * len(names)
    if isinstance(kinds, str):
        kinds = [kinds] * len(names)
    if isinstance(kinds, Mapping):
        unknown = [name for name in kinds if name not in names]
        if unknown:
            raise RequestError(f"kinds names {listed(unknown)}, which is not a factor: there are {listed(names)}")
        kinds = [kinds.get(name, default) for name in names]
    if len(kinds) != len(names):
        raise RequestError(f"kinds has {len(kinds)} entries for {counted(len(names), 'factor')}")
    for kind in kinds:
        if kind not in get_args(Kind):
            raise RequestError(f"kinds has {kind!r}: choose among {listed(get_args(Kind))}")
    return list(kinds)  # type: ignore[arg-type]


def _factor(name: str, column: np.ndarray, kind: Kind) -> tuple[np.ndarray, Factor]:
    """A column as numbers, and its Factor."""
    if column.dtype.kind == "O":
        column = np.array(column.tolist())  # of the type that its entries have, or text where they differ
    if column.dtype.kind == "f" or kind == "continuous":
        try:
            column = column.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise RequestError(f"factor {name!r} is continuous and must hold numbers, got {column[:1]}") from error
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise RequestError(
                f"factors has {counted(len(bad), 'value')} that are not finite in column {name!r}, the first in row "
                f"{bad[0]}: leave those rows out"
            )
    if kind == "continuous":
        return column, Factor(name, 0, kind)
    label = classes(column)
    size = int(label.max(initial=0)) + 1
    fractional = column.dtype.kind == "f" and bool((column != np.round(column)).any())
    if size > len(column) / 2 and size > (20 if fractional else 1000):
        raise RequestError(
            f"factor {name!r} has {size:,} different values in {len(column):,} rows: pass kinds with 'continuous' for "
            "it, or leave it out"
        )
    return label, Factor(name, size, kind)
