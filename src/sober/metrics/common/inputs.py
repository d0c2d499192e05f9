"""Checks plain arrays from any framework and makes them Codes. Errors name the argument and the column."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, get_args

import numpy as np

from sober.errors import RequestError, choices, counted, listed, shown
from sober.estimators.densities import NARROWEST, WIDEST
from sober.estimators.discrete import classes
from sober.estimators.scaling import columns_in_range
from sober.metrics.common.arrays import as_array, as_columns, check_real, unmasked
from sober.metrics.common.metric_rows import take
from sober.metrics.common.shapes import flattened, is_large, tabled
from sober.types import Codes, Factor, Kind

LARGEST_FLOAT32 = 1e15  # larger codes become float64, in which their squares and sums fit
FEW_GROUPS = 10  # with fewer, a score depends on which groups are held out


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
    """Checks plain arrays and makes them Codes, with factors as classes. Errors name the argument and the column.

    Rows in which no factor is known, and rows of weight 0, are left out.
    """
    if isinstance(codes, Codes):
        if any(argument is not None for argument in (factors, logvar, names, kinds, groups, weights)):
            raise RequestError("codes is a Codes, which has its own factors and logvar: pass nothing beside it")
        mean, log_variances = _numbers("codes", codes.mean), _log_variances(codes.logvar)
        codes = codes if mean is codes.mean else dataclasses.replace(codes, mean=mean, logvar=log_variances)
        return _bounded(_capped(_grouped(_labelled(_counted(codes)))))
    codes = unmasked("codes", as_array("codes", codes))
    logvar = None if logvar is None else unmasked("logvar", as_array("logvar", logvar))
    factors, names, kinds = as_columns(factors, names, kinds)
    codes, unit = flattened(codes)
    mean = _numbers("codes", codes)
    log_variances = None if logvar is None else _log_variances(flattened(logvar)[0])
    if log_variances is not None and log_variances.shape != mean.shape:
        raise RequestError(f"logvar has shape {log_variances.shape}, codes {mean.shape}: they must agree")
    columns, described, is_known = _factors(factors, mean.shape[0], names, kinds)
    plain = Codes(mean, log_variances, columns, described, known=is_known,
                  groups=_one_per_row("groups", groups, mean.shape[0]),
                  weights=_one_per_row("weights", weights, mean.shape[0]), unit=unit)  # fmt: skip
    return _bounded(_capped(_grouped(_labelled(_counted(plain)))))


def _one_per_row(name: str, array: Any, rows: int) -> np.ndarray | None:
    """Checks an array that must have one number for each row."""
    if array is None:
        return None
    array = unmasked(name, as_array(name, array))
    if array.shape != (rows,):
        raise RequestError(f"{name} must be an ({rows},) array, one for each row of codes, got shape {array.shape}")
    return array


def _labelled(codes: Codes) -> Codes:
    """Keeps the rows in which some factor is known. Sets `known` if labels are missing, which means not finite."""
    if not codes.about:
        return codes
    is_known = np.isfinite(codes.factors) if codes.known is None else codes.known & np.isfinite(codes.factors)
    if is_known.all():
        return codes if codes.known is None else dataclasses.replace(codes, known=None)
    if not is_known.any():
        raise RequestError("no label is known in any row: pass factors, or leave them out")
    flags = tuple(sorted({*codes.flags, "missing_labels"}))
    codes = dataclasses.replace(codes, factors=np.where(is_known, codes.factors, 0), known=is_known, flags=flags)
    labelled = is_known.any(axis=1)
    if not labelled.all():
        codes = take(codes, np.flatnonzero(labelled))
        is_known = is_known[labelled]
    return dataclasses.replace(codes, known=None) if is_known.all() else codes


def _grouped(codes: Codes) -> Codes:
    """Numbers groups from 0. Drops groups if every row is a group of its own."""
    if codes.groups is None:
        return codes
    if (missing := ~_has_group(codes.groups)).any():
        row = int(np.flatnonzero(missing)[0])
        raise RequestError(
            f"groups has no group in row {row} (the first row is 0): give every row one, if need be of its own"
        )
    label = classes(codes.groups if codes.groups.dtype.kind != "O" else as_text("groups", codes.groups))
    count = int(label.max(initial=0)) + 1
    if count < 2:
        raise RequestError("groups has one group only: a split into rows to learn from and rows to test on needs two")
    if count == len(label):
        return dataclasses.replace(codes, groups=None)
    flags = {*codes.flags, "few_groups"} if count < FEW_GROUPS else codes.flags
    return dataclasses.replace(codes, groups=label, flags=tuple(sorted(flags)))


def _has_group(groups: np.ndarray) -> np.ndarray:
    """Which rows have a group: not NaN, None, or a missing date."""
    return np.isfinite(groups) if groups.dtype.kind in "fcmM" else ~_missing(groups)


def _counted(codes: Codes) -> Codes:
    """Keeps rows of weight above 0. Drops weights if all are the same."""
    if codes.weights is None:
        return codes
    check_real("weights", codes.weights)
    with np.errstate(over="ignore"):  # infinities are refused
        weights = codes.weights.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(bad):
        raise RequestError(
            f"weights must be 0 or more and finite: row {bad[0]} (the first row is 0) has {weights[bad[0]]}"
        )
    weights = columns_in_range(weights)
    positive = weights > 0
    if not positive.any():
        raise RequestError("weights are all 0: no row counts")
    codes = dataclasses.replace(codes, weights=weights)
    codes = codes if positive.all() else take(codes, np.flatnonzero(positive))
    assert codes.weights is not None
    return dataclasses.replace(codes, weights=None) if np.ptp(codes.weights) == 0 else codes


def _numbers(name: str, array: Any) -> np.ndarray:
    array = tabled(name, array)
    if is_large(array):
        return array
    array = np.asarray(array)
    check_real(name, array)
    if array.ndim != 2 or not array.size:
        hint = f": for one latent pass {name}[:, None]" if array.ndim == 1 and array.size else ""
        raise RequestError(f"{name} must be an (N, D) array with rows and columns, got shape {array.shape}{hint}")
    if array.dtype.kind != "f" or array.dtype.itemsize not in (4, 8):
        with np.errstate(over="ignore"):  # of numbers with more digits, infinities are refused
            array = array.astype(np.float64)
    _check_finite(name, array)
    return array


def _log_variances(array: Any) -> np.ndarray | None:
    return None if array is None else _numbers("logvar", array)


def _bounded(codes: Codes) -> Codes:
    """Takes log-variances outside `NARROWEST` to `WIDEST` at that end, and flags it."""
    if codes.logvar is None or not isinstance(codes.logvar, np.ndarray):
        return codes
    if codes.logvar.min() >= NARROWEST and codes.logvar.max() <= WIDEST:
        return codes
    flags = tuple(sorted({*codes.flags, "cut_logvar"}))
    return dataclasses.replace(codes, logvar=np.clip(codes.logvar, NARROWEST, WIDEST), flags=flags)


def _check_finite(name: str, array: np.ndarray) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        column = int(np.flatnonzero(bad.any(axis=0))[0])
        rows = np.flatnonzero(bad[:, column])
        raise RequestError(
            f"{name} has {_not_finite(len(rows))} in column {column}, the first in row {rows[0]} "
            f"(both count from 0), {array[rows[0], column]}: a metric of such numbers would mean nothing; leave those "
            "rows out"
        )


def _not_finite(count: int) -> str:
    return f"{counted(count, 'value')} that {'is' if count == 1 else 'are'} not finite"


def _capped(codes: Codes) -> Codes:
    """Scales codes and continuous factors whose powers would not fit into a float64, and flags it."""
    mean, factors = codes.mean, codes.factors
    if isinstance(mean, np.ndarray):  # `tabled` has checked the size of others
        mean = columns_in_range(_widened(mean), smallest=0.0)
    continuous = [k for k, factor in enumerate(codes.about) if factor.kind == "continuous"]
    if continuous:
        columns = factors[:, continuous]
        if (scaled := columns_in_range(columns)) is not columns:
            factors = factors.copy(order="K")
            factors[:, continuous] = scaled
    if mean is codes.mean and factors is codes.factors:
        return codes
    is_scaled = factors is not codes.factors or (mean is not codes.mean and not np.array_equal(mean, codes.mean))
    flags = tuple(sorted({*codes.flags, "rescaled"})) if is_scaled else codes.flags
    return dataclasses.replace(codes, mean=mean, factors=factors, flags=flags)


def _widened(mean: np.ndarray) -> np.ndarray:
    """Codes of float32 whose squares would not fit into a float32, as float64."""
    return mean.astype(np.float64) if mean.dtype == np.float32 and np.abs(mean).max() > LARGEST_FLOAT32 else mean


def _factors(
    factors: Any, rows: int, names: Sequence[str] | None, kinds: str | Sequence[str] | Mapping[str, str] | None
) -> tuple[np.ndarray, tuple[Factor, ...], np.ndarray | None]:
    """Factor columns, as class numbers unless continuous; a Factor for each column; and which labels are known.

    A label that is NaN, None or masked is not known. If all are known, the third result is None.
    """
    if factors is None:
        if names or kinds:
            raise RequestError("names and kinds describe factors, and none were passed")
        return np.zeros((rows, 0), np.int64), (), None
    array, masked = np.asarray(factors), np.ma.getmaskarray(factors) if np.ma.isMaskedArray(factors) else None
    if array.dtype.kind in "cV":
        _refuse_column("factors", array)
    if array.ndim != 2:
        hint = ": for one factor pass factors[:, None]" if array.ndim == 1 else ""
        raise RequestError(f"factors must be an (N, K) array, got shape {array.shape}{hint}")
    if len(array) != rows:
        raise RequestError(f"codes has {rows:,} rows and factors {len(array):,}: they must agree, row by row")
    count = array.shape[1]
    names = [f"factor_{k}" for k in range(count)] if names is None else [str(name) for name in names]
    if len(names) != count or len(set(names)) != count:
        raise RequestError(f"names must name each of the {counted(count, 'factor')} once, got {shown(names)}")
    is_known = ~_missing(array) if masked is None else ~(_missing(array) | masked)
    columns, described = [], []
    for k, kind in enumerate(_kinds(kinds, names, array)):
        column, factor = _factor(names[k], array[is_known[:, k], k], kind)
        columns.append(_for_all_rows(column, is_known[:, k]))
        described.append(factor)
    table = np.stack(columns).T if columns else np.zeros((rows, 0), np.int64)  # contiguous by column
    return table, tuple(described), None if is_known.all() else is_known


def _missing(array: np.ndarray) -> np.ndarray:
    """Which labels are missing: NaN, None, a missing date, or a data frame's missing value."""
    if array.dtype.kind in "fmM":
        return np.isnan(array)
    if array.dtype.kind != "O":
        return np.zeros(array.shape, bool)
    return np.frompyfunc(_is_missing, 1, 1)(array).astype(bool)


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 -- only NaN differs from itself
    except TypeError:  # pandas' NA cannot be compared
        return True
    except ValueError:  # an array inside an array, which is refused later
        return False


def _for_all_rows(column: np.ndarray, is_known: np.ndarray) -> np.ndarray:
    """Lays the known labels of a column over all rows, with 0 where the label is not known."""
    if len(column) == len(is_known):
        return column
    out = np.zeros(len(is_known), column.dtype)
    out[is_known] = column
    return out


def _kinds(
    kinds: str | Sequence[str] | Mapping[str, str] | None, names: Sequence[str], array: np.ndarray
) -> list[Kind]:
    """The kind of each factor: as given, or by its values. No factor is taken as continuous unless asked."""
    default: Kind = "categorical" if array.dtype.kind in "USTO" else "ordinal"
    if kinds is None:
        return [default] * len(names)
    if isinstance(kinds, str):
        kinds = [kinds] * len(names)
    if isinstance(kinds, Mapping):
        unknown = [name for name in kinds if name not in names]
        if unknown:
            raise RequestError(
                f"kinds names {listed(unknown)}, which is not a factor: {choices(str(unknown[0]), names)}"
            )
        kinds = [kinds.get(name, default) for name in names]
    if len(kinds) != len(names):
        raise RequestError(f"kinds has {len(kinds)} entries for {counted(len(names), 'factor')}")
    for kind in kinds:
        if not isinstance(kind, str) or kind not in get_args(Kind):
            raise RequestError(f"kinds has {shown(kind)}: choose among {listed(get_args(Kind))}")
    return list(kinds)  # type: ignore[arg-type]


def _factor(name: str, column: np.ndarray, kind: Kind) -> tuple[np.ndarray, Factor]:
    """A column as numbers, and its Factor."""
    column = _plain_values(name, column)
    if column.dtype.kind == "f" or kind == "continuous":
        try:
            with np.errstate(over="ignore"):  # infinities are refused
                column = column.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise RequestError(
                f"factor {name!r} is continuous and must hold numbers, got {shown(column[0])}"
            ) from error
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise RequestError(
                f"factors has {_not_finite(len(bad))} in column {name!r}, the first in row {bad[0]} (the first row is "
                "0): leave those rows out"
            )
    if kind == "continuous":
        return column, Factor(name, 0, kind)
    label = classes(column)
    size = int(label.max(initial=0)) + 1
    fractional = column.dtype.kind == "f" and bool((column != np.round(column)).any())
    if size > len(column) / 2 and size > (20 if fractional else 1000):
        raise RequestError(
            f"factor {name!r} has {size:,} different values in {len(column):,} rows: if it is continuous, say so with "
            f"kinds={{{name!r}: 'continuous'}}, or with --kinds {name}=continuous; else leave it out"
        )
    return label, Factor(name, size, kind, _values(column, label, size))


def _plain_values(name: str, column: np.ndarray) -> np.ndarray:
    """Known labels as an array of numbers or of text. Dates become text, which has the same order."""
    if column.dtype.kind == "O":
        column = _of_objects(name, column)
    if column.dtype.kind == "m":
        return column.astype(np.int64)
    if column.dtype.kind == "M":
        return np.datetime_as_string(column)
    if column.ndim != 1 or column.dtype.kind not in "biufUST":
        _refuse_column(f"factor {name!r}", column)
    return column


def _of_objects(name: str, column: np.ndarray) -> np.ndarray:
    """A column of objects as an array of the type that they share: of numbers if they are any, else of text."""
    if not len(column):
        return np.zeros(0)
    try:
        column = np.array(column.tolist())
        if column.dtype.kind != "O":
            return column
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return column.astype(np.float64)
        return as_text(f"factor {name!r}", column)
    except RequestError:
        raise
    except Exception as error:  # the text of an object is made by its own code
        raise RequestError(f"factor {name!r} holds objects: pass numbers or text") from error


def as_text(name: str, column: np.ndarray) -> np.ndarray:
    """A column of objects as text."""
    try:
        return np.array([str(value) for value in column])
    except Exception as error:  # the text of an object is made by its own code
        raise RequestError(f"{name} holds objects: pass numbers or text") from error


def _refuse_column(name: str, column: np.ndarray) -> NoReturn:
    kind = "complex numbers" if column.dtype.kind == "c" else "records" if column.dtype.kind == "V" else "lists"
    raise RequestError(f"{name} holds {kind}: pass numbers or text, in a column for each factor")


def _values(column: np.ndarray, label: np.ndarray, size: int) -> tuple[Any, ...]:
    """The value that each class stands for; empty if each class is its own value."""
    values = np.zeros(size, column.dtype)
    values[label] = column
    return () if column.dtype.kind != "U" and np.array_equal(values, np.arange(size)) else tuple(values.tolist())
