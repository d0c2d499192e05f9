"""Plain arrays as Codes, from any framework: checked, and what is wrong with them said by argument and column."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from sober.errors import RequestError, counted, listed
from sober.estimators.discrete import classes
from sober.metrics.arrays import as_array, as_columns
from sober.metrics.rows import take
from sober.metrics.shapes import flattened, is_large, tabled
from sober.types import Codes, Factor, Kind

FEW_GROUPS = 10  # below which a score depends on which of them were held out
LARGEST = 1e50  # larger codes are scaled down, so that squares of squares fit into a float64


def as_codes(
    codes: Any,
    factors: Any = None,
    *,
    logvar: Any = None,
    names: Sequence[str] | None = None,
    kinds: str | Sequence[str] | Mapping[str, str] | None = None,
    groups: Any = None,
    weights: Any = None,
) -> Codes:
    """Plain arrays as Codes: checked, factors as classes. What is wrong with them is said by argument and column.

    Rows in which no factor is known, and rows of weight 0, are left out.
    """
    if isinstance(codes, Codes):
        if any(beside is not None for beside in (factors, logvar, names, kinds, groups, weights)):
            raise RequestError("codes is a Codes, which has its own factors and logvar: pass nothing beside it")
        mean, spread = _numbers("codes", codes.mean), _log_variances(codes.logvar)
        codes = codes if mean is codes.mean else dataclasses.replace(codes, mean=mean, logvar=spread)
        return _capped(_grouped(_labelled(_counted(codes))))
    codes, logvar = as_array("codes", codes), None if logvar is None else as_array("logvar", logvar)
    factors, names, kinds = as_columns(factors, names, kinds)
    codes, unit = flattened(codes)
    mean = _numbers("codes", codes)
    spread = None if logvar is None else _log_variances(flattened(logvar)[0])
    if spread is not None and spread.shape != mean.shape:
        raise RequestError(f"logvar has shape {spread.shape}, codes {mean.shape}: they must agree")
    columns, about, known = _factors(factors, mean.shape[0], names, kinds)
    plain = Codes(mean, spread, columns, about, known=known, groups=_one_each("groups", groups, mean.shape[0]),
                  weights=_one_each("weights", weights, mean.shape[0]), unit=unit)  # fmt: skip
    return _capped(_grouped(_labelled(_counted(plain))))


def _one_each(name: str, array: Any, rows: int) -> np.ndarray | None:
    """An array with an entry for each row."""
    if array is None:
        return None
    array = as_array(name, array)
    if array.shape != (rows,):
        raise RequestError(f"{name} must be an ({rows},) array, one for each row of codes, got shape {array.shape}")
    return array


def _labelled(codes: Codes) -> Codes:
    """The rows in which some factor is known, with `known` where there are holes: what is not finite is not known."""
    if not codes.about:
        return codes
    known = np.isfinite(codes.factors) if codes.known is None else codes.known & np.isfinite(codes.factors)
    if known.all():
        return codes if codes.known is None else dataclasses.replace(codes, known=None)
    if not known.any():
        raise RequestError("no label is known in any row: pass factors, or leave them out")
    flags = tuple(sorted({*codes.flags, "missing_labels"}))
    codes = dataclasses.replace(codes, factors=np.where(known, codes.factors, 0), known=known, flags=flags)
    some = known.any(axis=1)
    if not some.all():
        codes = take(codes, np.flatnonzero(some))
        known = known[some]
    return dataclasses.replace(codes, known=None) if known.all() else codes


def _grouped(codes: Codes) -> Codes:
    """Groups as numbers from 0; none where every row is a group of its own."""
    if codes.groups is None:
        return codes
    if codes.groups.dtype.kind == "f" and not np.isfinite(codes.groups).all():
        row = int(np.flatnonzero(~np.isfinite(codes.groups))[0])
        raise RequestError(f"groups has no group in row {row}: give every row one, if need be of its own")
    label = classes(codes.groups if codes.groups.dtype.kind != "O" else codes.groups.astype(str))
    count = int(label.max(initial=0)) + 1
    if count < 2:
        raise RequestError("groups has one group only: a split into rows to learn from and rows to test on needs two")
    if count == len(label):
        return dataclasses.replace(codes, groups=None)
    flags = {*codes.flags, "few_groups"} if count < FEW_GROUPS else codes.flags
    return dataclasses.replace(codes, groups=label, flags=tuple(sorted(flags)))


def _counted(codes: Codes) -> Codes:
    """Rows of weight above 0; no weights where all rows have the same."""
    if codes.weights is None:
        return codes
    if codes.weights.dtype.kind not in "fiub":
        raise RequestError(f"weights must hold numbers, got an array of {codes.weights.dtype}")
    weights = codes.weights.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(bad):
        raise RequestError(f"weights must be 0 or more and finite: row {bad[0]} has {weights[bad[0]]}")
    there = weights > 0
    if not there.any():
        raise RequestError("weights are all 0: no row counts")
    codes = dataclasses.replace(codes, weights=weights)
    codes = codes if there.all() else take(codes, np.flatnonzero(there))
    assert codes.weights is not None
    return dataclasses.replace(codes, weights=None) if np.ptp(codes.weights) == 0 else codes


def _numbers(name: str, array: Any) -> np.ndarray:
    array = tabled(name, array)
    if is_large(array):
        return array
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
    if not isinstance(codes.mean, np.ndarray):
        return codes  # which were found to be no larger
    if codes.mean.dtype != np.float64 or np.abs(codes.mean).max() <= LARGEST:
        return codes
    largest = np.abs(codes.mean).max(axis=0)
    down = np.where(largest > LARGEST, np.frexp(largest)[1] - np.frexp(LARGEST)[1] + 1, 0)
    flags = tuple(sorted({*codes.flags, "rescaled"}))
    return dataclasses.replace(codes, mean=np.ldexp(codes.mean, -down), flags=flags)


def _factors(
    factors: Any, rows: int, names: Sequence[str] | None, kinds: str | Sequence[str] | Mapping[str, str] | None
) -> tuple[np.ndarray, tuple[Factor, ...], np.ndarray | None]:
    """Columns of factors as class numbers or, where continuous, as they are; what each is; and which labels are known.

    A label is not known where it is NaN or None, or masked; None is returned where all are known.
    """
    if factors is None:
        if names or kinds:
            raise RequestError("names and kinds describe factors, and none were passed")
        return np.zeros((rows, 0), np.int64), (), None
    array, masked = np.asarray(factors), np.ma.getmaskarray(factors) if np.ma.isMaskedArray(factors) else None
    if array.ndim != 2:
        hint = ": for one factor pass factors[:, None]" if array.ndim == 1 else ""
        raise RequestError(f"factors must be an (N, K) array, got shape {array.shape}{hint}")
    if len(array) != rows:
        raise RequestError(f"codes has {rows:,} rows and factors {len(array):,}: they must agree, row by row")
    count = array.shape[1]
    names = [f"factor_{k}" for k in range(count)] if names is None else [str(name) for name in names]
    if len(names) != count or len(set(names)) != count:
        raise RequestError(f"names must name each of the {counted(count, 'factor')} once, got {listed(names)}")
    known = ~_missing(array) if masked is None else ~(_missing(array) | masked)
    columns, about = [], []
    for k, kind in enumerate(_kinds(kinds, names, array)):
        column, factor = _factor(names[k], array[known[:, k], k], kind)
        columns.append(_spread_out(column, known[:, k]))
        about.append(factor)
    table = np.stack(columns).T if columns else np.zeros((rows, 0), np.int64)  # contiguous by column
    return table, tuple(about), None if known.all() else known


def _missing(array: np.ndarray) -> np.ndarray:
    """Where there is no label: NaN, None, or what a data frame has in their place."""
    if array.dtype.kind == "f":
        return np.isnan(array)
    if array.dtype.kind != "O":
        return np.zeros(array.shape, bool)
    return np.frompyfunc(_nothing, 1, 1)(array).astype(bool)


def _nothing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 -- NaN is what differs from itself
    except TypeError:  # pandas' NA does not say even that
        return True


def _spread_out(column: np.ndarray, known: np.ndarray) -> np.ndarray:
    """A column of all rows, with 0 where nothing is known."""
    if len(column) == len(known):
        return column
    out = np.zeros(len(known), column.dtype)
    out[known] = column
    return out


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
        column = (
            np.array(column.tolist()) if len(column) else np.zeros(0)
        )  # of the type that its entries have, or text where they differ
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
    return label, Factor(name, size, kind, _values(column, label, size))


def _values(column: np.ndarray, label: np.ndarray, size: int) -> tuple[Any, ...]:
    """The value that each class stands for; none where classes are their own values."""
    values = np.zeros(size, column.dtype)
    values[label] = column
    return () if column.dtype.kind != "U" and np.array_equal(values, np.arange(size)) else tuple(values.tolist())
