"""Odd arrays and odd arguments, for tests that nothing but numbers, flags or one line of an error comes of them."""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy
from hypothesis import strategies as st

from sober.cli.score import json_text, plain
from sober.errors import RequestError
from sober.metrics import FLAGS, Scores

LONGEST = 600  # letters of a message
Table = np.ndarray


def _one(value: float) -> Callable[[Table], Table]:
    """Puts `value` into the middle of a table."""

    def put(x: Table) -> Table:
        x.flat[x.size // 2 : x.size // 2 + 1] = value
        return x

    return put


# What a table holds, made from normal numbers.
VALUES: dict[str, Callable[[Table], Table]] = {
    "normal": lambda x: x,
    "zero": np.zeros_like,
    "negative zero": lambda x: -np.zeros_like(x),
    "constant": lambda x: np.full_like(x, 3.7),
    "huge constant": lambda x: np.full_like(x, 1e308),
    "partly dead": lambda x: x * (np.arange(x.shape[1]) % 2),
    "equal columns": lambda x: np.repeat(x[:, :1], x.shape[1], axis=1),
    "equal rows": lambda x: np.repeat(x[: 1 + len(x) // 9], 9, axis=0)[: len(x)],
    "huge": lambda x: x * 1e200,
    "the largest": lambda x: np.sign(x) * 1.7e308,
    "tiny": lambda x: x * 1e-200,
    "denormal": lambda x: x * 1e-310,
    "of many sizes": lambda x: x * 10.0 ** np.arange(-300, -300 + 120 * x.shape[1], 120)[: x.shape[1]],
    "far from 0": lambda x: x * 1e-3 + 1e6,
    "rounded off": lambda x: x * 1e-3 + 1e15,
    "float32's largest": lambda x: np.clip(x, -1, 1) * 3e38,
    "whole numbers": lambda x: np.rint(2 * x),
    "few values": lambda x: np.rint(x).clip(0, 2),
    "two values": lambda x: x > 0,
    "positive": np.abs,
    "rising": lambda x: np.sort(x, axis=0),
    "all different": lambda x: np.argsort(np.argsort(x, axis=0), axis=0),
    "an outlier": _one(1e300),
}
CLASSES = ["few values", "few values", "two values", "whole numbers", "zero"]
NOT_FINITE: dict[str, Callable[[Table], Table]] = {
    "a NaN": _one(np.nan),
    "an infinity": _one(np.inf),
    "all NaN": lambda x: np.full_like(x, np.nan),
    "a column of NaN": lambda x: np.where(np.arange(x.shape[1]) == 0, np.nan, x),
}


def _records(x: Table) -> Any:
    return np.rec.fromarrays(list(x.T)) if x.shape[1] else np.zeros(len(x), "V4")


def _with_none(x: Table) -> Table:
    out = x.astype(object)
    out[: 1 + len(x) // 3, :1] = None
    return out


def _mixed(x: Table) -> Table:
    out = x.astype(object)
    out[::2] = "text"
    return out


def _read_only(x: Table) -> Table:
    x = x.copy()
    x.setflags(write=False)
    return x


def _mapped(x: Table) -> Any:
    if not x.size:
        return x
    with tempfile.TemporaryFile() as file:
        file.write(np.ascontiguousarray(x).tobytes())
        file.flush()
        return np.memmap(file, x.dtype, "r", shape=x.shape)


def _frame_with_missing(x: Table) -> Any:
    return pd.DataFrame(x).astype("Float64").mask(pd.DataFrame(x) > 1)


def _kind(name: str) -> Callable[[Table], Any]:
    return lambda x: x.astype(name)


# What a table comes as. Most can be scored.
DRESSES: dict[str, Callable[[Table], Any]] = {
    **{name: _kind(name) for name in ("f8", "f4", "f2", ">f8", "g", "i1", "i2", "i8", "u1", "u8", ">i4", "?")},
    "Fortran order": np.asfortranarray,
    "read-only": _read_only,
    "memory map": _mapped,
    "backwards": lambda x: x[::-1, ::-1],
    "every second": lambda x: np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)[::2, ::2],
    "not masked": np.ma.asarray,
    "matrix": np.asmatrix,
    "list": lambda x: x.tolist(),
    "tuple of arrays": tuple,
    "pandas": pd.DataFrame,
    "polars": lambda x: pl.DataFrame(x, schema=[f"c{j}" for j in range(x.shape[1])], orient="row"),
    "sparse": scipy.sparse.csr_array,
    "sparse matrix": scipy.sparse.coo_matrix,
}
ODD_DRESSES: dict[str, Callable[[Table], Any]] = {
    **{name: _kind(name) for name in ("c8", "c16", "O", "U", "S", "M8[s]", "m8[D]")},
    "text of any length": lambda x: x.astype(np.dtypes.StringDType()),
    "with None": _with_none,
    "mixed": _mixed,
    "masked": lambda x: np.ma.array(x, mask=x > 1),
    "all masked": lambda x: np.ma.array(x, mask=True),
    "records": _records,
    "table of records": lambda x: x.astype([("a", "f4"), ("b", "i4")]),
    "void": lambda x: np.zeros(x.shape, "V4"),
    "lists in lists": lambda x: [[[value, value] for value in row] for row in x.tolist()],
    "ragged": lambda x: [row[: 1 + n % 2] for n, row in enumerate(x.tolist())],
    "objects": lambda x: np.full(x.shape, object(), object),
    "lists in objects": lambda x: np.array([[[1, 2]] * (x.shape[1] + 1)] * len(x) + [[0]], object)[:-1],
    "frame with missing": _frame_with_missing,
    "polars with text": lambda x: pl.DataFrame({"a": ["x"] * len(x), "b": [None] * len(x)}),
    "series": lambda x: pd.Series(x[:, 0] if x.size else []),
    "one column": lambda x: x[:, 0] if x.size else x,
    "three axes": lambda x: x[:, :, None],
    "four axes": lambda x: x[None, :, :, None],
    "no rows": lambda x: x[:0],
    "no columns": lambda x: x[:, :0],
    "fewer rows": lambda x: x[:-1],
    "turned": lambda x: x.T,
    "sparse and complex": lambda x: scipy.sparse.csr_array(x.astype(complex)),
    "a number": lambda x: 3.0,
    "None": lambda x: None,
    "a word": lambda x: "codes",
    "bytes": lambda x: b"codes",
    "a dictionary": lambda x: {"codes": x},
    "a set": lambda x: {1, 2},
    "a generator": lambda x: (row for row in x),
    "a function": lambda x: len,
    "an empty list": lambda x: [],
}


@st.composite
def tables(draw: st.DrawFn, rows: int, odd: bool, columns: int | None = None, classes: bool = False) -> Any:
    """A table of `rows` rows, of finite numbers or of classes; an odd one may be anything."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    x = rng.normal(size=(rows, draw(st.integers(1, 5)) if columns is None else columns))
    every_value = {**VALUES, **NOT_FINITE}
    values = draw(st.sampled_from(CLASSES if classes and not odd else sorted(every_value if odd else VALUES)))
    dress = draw(st.sampled_from(sorted({**DRESSES, **ODD_DRESSES} if odd else DRESSES)))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        x = np.asarray(every_value[values](x), float)
        try:
            return {**DRESSES, **ODD_DRESSES}[dress](x)
        except (ValueError, TypeError, OverflowError):  # such as NaN as a date
            return x


SEEDS = st.sampled_from([0, 1, 3.0, True, np.int64(3), 2**70]) | st.just(0)
ODD_NUMBERS = st.sampled_from([-1, 0, 1, 2, 0.5, 1.5, -0.1, 1e-9, math.nan, math.inf, -math.inf]) | st.sampled_from(
    [10**400, 1j, np.float32(3), np.bool_(True), np.zeros(2), "x", "", "2", b"1", None, True, (1,), [], {}]
)
KINDS = st.sampled_from(["ordinal", "cyclic", "categorical", "continuous"])
ODD_KINDS = KINDS | st.sampled_from(["", 3, [], ["ordinal"], {"factor_0": "cyclic"}, {"x": "cyclic"}, {0: 1}, [None]])
ODD_NAMES = st.sampled_from(["ab", [], ["a"], ["a", "a"], [1, 2], 3, [None, math.nan], ["", "\n"], {"a": 1, "b": 2}])


def whole(odd: bool, plain: list[int]) -> st.SearchStrategy[Any]:
    """A number for an option that counts."""
    return ODD_NUMBERS if odd else st.sampled_from(plain)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or None if it is refused in one line. A warning is an error here, like any other error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return call()
        except RequestError as refused:
            message = str(refused)
            assert message
            assert message.isprintable(), message
            assert len(message) < LONGEST, message
            return None


def check_scores(scores: Scores) -> None:
    """Scores, and all that comes with them, are finite numbers that can be printed and written as JSON."""
    for name, value in {**scores, **scores.errors, **scores.corrected}.items():
        assert math.isfinite(value), name
    for name, chance in scores.chance.items():
        assert all(math.isfinite(number) for number in chance), name
    for name, flags in scores.flags.items():
        assert set(flags) <= set(FLAGS), name
    for metric, parts in scores.parts.items():
        for name, array in parts.items():
            assert array.dtype.kind in "biuf", (metric, name)
            assert np.isfinite(array).all(), (metric, name)
    assert repr(scores)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        json.loads(json_text(plain(scores, full=True)))


def check_frame(frame: pl.DataFrame) -> None:
    """All numbers of a table, also those in lists, are finite; missing ones are null."""
    for column in frame:
        numbers = column.explode() if column.dtype == pl.List else column
        if numbers.dtype.is_float():
            assert numbers.drop_nulls().is_finite().all(), column.name


def numbers_in(value: Any) -> Iterator[float]:
    """All numbers in tuples, lists and mappings."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for member in value:
            yield from numbers_in(member)
    elif isinstance(value, float | int):
        yield float(value)


def scratch() -> Path:
    """A folder of its own for files."""
    return Path(tempfile.mkdtemp())
