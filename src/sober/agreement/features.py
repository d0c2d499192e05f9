"""A model's features: the columns of its codes, the rows of its dictionary, or both."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Num

from sober.agreement.row_names import in_one_order, names_of_rows
from sober.errors import RequestError, counted
from sober.estimators.scaling import LARGEST, SMALLEST
from sober.files.dictionaries import Dictionary
from sober.metrics.common.arrays import as_array, unmasked
from sober.short_text import as_call, encodable
from sober.types import Codes

FEWEST_ROWS = 20  # with fewer, a correlation is mostly chance
CHUNK = 2**22  # numbers that are read at a time from an array that may be on disk
SPARSE = 0.5  # codes without negative values are features that fire if fewer than this share of them is not 0


@dataclasses.dataclass(frozen=True, eq=False)
class Features:
    """The features of one model: codes of rows that all models share, directions in a space that all share, or both."""

    name: str
    codes: Any = None  # (N, D): an array, a memory map, or a `scipy.sparse.csc_array`
    dictionary: Dictionary | None = None  # its `directions` are (D, P)
    informative: Bool[np.ndarray, " D"] | None = None  # latents whose KL says that they carry information

    @property
    def width(self) -> int:
        return self.codes.shape[1] if self.dictionary is None else len(self.dictionary.directions)

    def __repr__(self) -> str:
        rows = "" if self.codes is None else f", codes of {counted(self.codes.shape[0], 'row')}"
        space = "" if self.dictionary is None else f", directions in {self.dictionary.directions.shape[1]:,} dimensions"
        return f"Features({self.name!r}, {counted(self.width, 'feature')}{rows}{space})"


def as_features(codes: Any, dictionaries: Any) -> list[Features]:
    """Checks codes and dictionaries by model, and brings them together. Errors name the model and what to do.

    Where frames name their rows, the rows of all models come in the order of the first one.
    """
    codes_by_name, dictionaries_by_name = by_name(codes, "codes"), by_name(dictionaries, "dictionaries")
    if codes_by_name and dictionaries_by_name and codes_by_name.keys() != dictionaries_by_name.keys():
        name = min(codes_by_name.keys() ^ dictionaries_by_name.keys())
        raise RequestError(f"model {name!r} has codes or a dictionary and not both: give both for every model")
    names = list(codes_by_name or dictionaries_by_name)
    if len(names) < 2:
        raise RequestError(f"what recurs shows only among several models: give at least two, got {len(names)}")
    features = [_checked(name, codes_by_name.get(name), dictionaries_by_name.get(name)) for name in names]
    _check_alike(features)
    order = in_one_order({name: names_of_rows(codes_by_name.get(name)) for name in names})
    return [_in_order(model, order.get(model.name)) for model in features]


def reference_model(models: Any) -> Any:
    """The model whose rows give the order: the first that names its rows, else the first."""
    all_models = list(by_name(models, "codes").values())
    return next((codes for codes in all_models if names_of_rows(codes) is not None), all_models[0])


def _in_order(model: Features, order: np.ndarray | None) -> Features:
    return model if order is None else dataclasses.replace(model, codes=model.codes[order])


def by_name(models: Any, argument: str) -> dict[str, Any]:
    """Models by name; models of a list are numbered."""
    if models is None:
        return {}
    if isinstance(models, Mapping):
        if len({encodable(name) for name in models}) < len(models):
            raise RequestError(f"two models of {argument} have the same name, as text: give each its own")
        return {encodable(name): array for name, array in models.items()}
    if isinstance(models, np.ndarray) and models.ndim != 3:
        raise RequestError(f"{argument} is one array: give one for each model, as in {{'seed 0': a, 'seed 1': b}}")
    if isinstance(models, np.ndarray | Sequence) and not isinstance(models, str):
        return {f"model {number}": array for number, array in enumerate(models)}
    raise RequestError(f"{argument} must hold one array for each model, as in {{'seed 0': a, 'seed 1': b}}")


def _checked(name: str, codes: Any, dictionary: Any) -> Features:
    informative = None
    if any(isinstance(value, str | PathLike) for value in (codes, dictionary)):
        raise RequestError(f"model {name!r} is a path: give its array, or name files as in sober agree FILES")
    if isinstance(codes, Codes):
        informative, codes = _informative(codes), codes.mean
    codes = None if codes is None else checked_codes(name, codes)
    dictionary = None if dictionary is None else checked_dictionary(name, dictionary)
    if codes is not None and dictionary is not None and codes.shape[1] != len(dictionary.directions):
        raise RequestError(
            f"model {name!r} has {counted(codes.shape[1], 'column')} of codes and "
            f"{counted(len(dictionary.directions), 'direction')}: each feature needs one of both"
        )
    return Features(name, codes, dictionary, informative)


def _informative(codes: Codes) -> Bool[np.ndarray, " D"] | None:
    from sober.criteria.udr import informative_latents  # noqa: PLC0415 -- criteria are many modules

    return None if codes.logvar is None else informative_latents(codes)


def checked_codes(name: str, codes: Any) -> Any:
    """Codes as an (N, D) array of finite numbers: sparse ones by columns, memory maps as they are."""
    where = f"model {name!r}"
    codes = codes if isinstance(codes, np.memmap) else unmasked(where, as_array(where, codes))
    codes = np.asarray(codes) if isinstance(codes, np.matrix) else codes
    if codes.ndim != 2 or not all(codes.shape) or codes.dtype.kind not in "fiub":
        raise RequestError(
            f"model {name!r}: codes must be numbers (N, D), a row for each example and a column for each latent; got "
            f"{codes.dtype} {tuple(codes.shape)}"
        )
    if codes.shape[0] < FEWEST_ROWS:
        raise RequestError(f"model {name!r} has codes of {codes.shape[0]} rows: give at least {FEWEST_ROWS}")
    if scipy.sparse.issparse(codes):
        codes = scipy.sparse.csc_array(codes)
        codes.sum_duplicates()
        column = np.repeat(np.arange(codes.shape[1]), np.diff(codes.indptr))
        largest = np.zeros(codes.shape[1])
        np.maximum.at(largest, column, np.abs(codes.data))
    else:
        largest = functools.reduce(np.maximum, (_largest(codes[rows], 0) for rows in row_chunks(codes)))
    _check_sizes(name, "latent", largest)
    return codes


def _largest(array: np.ndarray, axis: int) -> Float[np.ndarray, " D"]:
    """The size of the largest number along an axis; NaN if one is among them."""
    with np.errstate(over="ignore"):
        low, high = (np.asarray(bound, np.float64) for bound in (array.min(axis=axis), array.max(axis=axis)))
    return np.maximum(-low, high)


def _check_sizes(name: str, feature: str, largest: Float[np.ndarray, " D"]) -> None:
    """Refuses features that are not finite, or whose fourth powers do not fit into a float64."""
    if len(bad := np.flatnonzero(~np.isfinite(largest))):
        raise RequestError(f"model {name!r}: {feature} {bad[0]} has values that are not finite: leave this model out")
    if len(far := np.flatnonzero((largest > LARGEST) | ((largest < SMALLEST) & (largest > 0)))):
        raise RequestError(
            f"model {name!r}: the largest value of {feature} {far[0]} is {largest[far[0]]:.1g}, where numbers from "
            f"{SMALLEST:g} to {LARGEST:g} can be compared: multiply it by a number"
        )


def checked_dictionary(name: str, dictionary: Any) -> Dictionary:
    if not isinstance(dictionary, Dictionary):
        where = f"model {name!r}"
        dictionary = Dictionary(np.asarray(unmasked(where, as_array(where, dictionary))))
    directions = dictionary.directions
    if directions.ndim != 2 or not directions.size or directions.dtype.kind not in "fiu":
        raise RequestError(
            f"model {name!r}: a dictionary must be numbers (D, P), a row for each direction; got {directions.dtype} "
            f"{directions.shape}"
        )
    _check_sizes(name, "direction", _largest(directions, 1))
    count, space = directions.shape
    encoded = space if dictionary.encoder is None else len(dictionary.encoder)  # a transcoder reads another space
    shapes = {"encoder": (encoded, count), "encoder_bias": (count,), "decoder_bias": (space,)}
    for name_of_array, shape in shapes.items():
        array = getattr(dictionary, name_of_array)
        if array is not None and (np.shape(array) != shape or not np.isfinite(array).all()):
            raise RequestError(
                f"model {name!r}: the {name_of_array.replace('_', ' ')} must be finite numbers {shape}, as its "
                f"directions are {directions.shape}; got {np.shape(array)}"
            )
    return dictionary


def _check_alike(features: Sequence[Features]) -> None:
    """Refuses models with other rows, or directions in another space, than the first."""
    first = features[0]
    for model in features[1:]:
        for kind in ("codes", "dictionary"):
            missing = [each_model.name for each_model in (first, model) if getattr(each_model, kind) is None]
            if len(missing) == 1:
                raise RequestError(f"model {missing[0]!r} has no {kind}: give every model its own")
        if first.codes is not None and model.codes.shape[0] != first.codes.shape[0]:
            raise RequestError(
                f"model {model.name!r} has codes of {model.codes.shape[0]:,} rows and {first.name!r} of "
                f"{first.codes.shape[0]:,}: encode the same rows, in the same order"
            )
        if first.dictionary is not None and model.dictionary is not None:
            spaces = [each_model.dictionary.directions.shape[1] for each_model in (first, model)]  # type: ignore[union-attr]
            if spaces[0] != spaces[1]:
                raise RequestError(
                    f"directions of {model.name!r} have {spaces[1]:,} numbers and of {first.name!r} {spaces[0]:,}: "
                    "compare dictionaries of one space, or codes of the same rows"
                )


def row_chunks(codes: np.ndarray) -> Iterator[slice]:
    """Slices of rows, each with few enough numbers to read at a time."""
    step = max(1, CHUNK // codes.shape[1])
    for start in range(0, len(codes), step):
        yield slice(start, start + step)


@dataclasses.dataclass(frozen=True, eq=False)
class Statistics:
    """The numbers of each of D features alone."""

    alive: Bool[np.ndarray, " D"]  # not constant, and informative where the KL is known
    constant: Bool[np.ndarray, " D"]
    mean: Float[np.ndarray, " D"]
    variance: Float[np.ndarray, " D"]  # of the codes, times the squared length of the direction if there are both
    firing: Float[np.ndarray, " D"]  # share of rows in which the code is not 0; NaN without codes
    effective: Float[np.ndarray, " D"]  # how many rows carry the variance; NaN without codes
    one_sided: bool  # no code is negative, so features fire and their signs mean something

    def __repr__(self) -> str:
        return as_call(self)


def lengths_of(directions: Num[np.ndarray, "D P"]) -> Float[np.ndarray, " D"]:
    """The length of each direction; squares of large float32 numbers fit."""
    return np.sqrt(np.einsum("dp,dp->d", directions, directions, dtype=np.float64, casting="same_kind"))


def statistics(features: Features) -> Statistics:
    """Two passes over the rows: means first, then powers of the distances from them."""
    lengths = np.ones(features.width)
    if features.dictionary is not None:
        lengths = lengths_of(features.dictionary.directions)
    if features.codes is None:
        unknown = np.full(features.width, np.nan)
        dead = lengths == 0
        one_sided = features.dictionary is not None and features.dictionary.one_sided
        return Statistics(~dead, dead, unknown, lengths**2, unknown, unknown, one_sided)
    if scipy.sparse.issparse(features.codes):
        mean, squares, effective, firing, low, high = _sparse_powers(features.codes)
    else:
        mean, squares, effective, firing, low, high = _dense_powers(features.codes)
    rows = features.codes.shape[0]
    constant = low == high
    squares[constant], effective[constant] = 0, 0
    alive = ~constant & (lengths > 0)
    if features.informative is not None:
        alive &= features.informative
    return Statistics(alive, constant, mean, squares / rows * lengths**2, firing, effective, bool(low.min() >= 0))


def _sparse_powers(codes: Any) -> tuple[np.ndarray, ...]:
    rows, columns = codes.shape
    data = codes.data.astype(float)
    counts = np.diff(codes.indptr)
    column = np.repeat(np.arange(columns), counts)
    mean = np.bincount(column, data, columns) / rows
    distance = data - mean[column]
    second = np.bincount(column, distance**2, columns) + (rows - counts) * mean**2
    fourth = np.bincount(column, distance**4, columns) + (rows - counts) * mean**4
    low, high = (np.where(counts < rows, 0.0, bound) for bound in (np.inf, -np.inf))
    np.minimum.at(low, column, data)
    np.maximum.at(high, column, data)
    firing = np.bincount(column, data != 0, columns) / rows
    return mean, second, _effective(second, fourth), firing, low, high


def _dense_powers(codes: np.ndarray) -> tuple[np.ndarray, ...]:
    columns = codes.shape[1]
    total, firing = np.zeros(columns), np.zeros(columns)
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    for rows in row_chunks(codes):
        chunk = np.asarray(codes[rows], float)
        total += chunk.sum(axis=0)
        firing += (chunk != 0).sum(axis=0)
        low, high = np.minimum(low, chunk.min(axis=0)), np.maximum(high, chunk.max(axis=0))
    mean = total / len(codes)
    size = np.where(high > low, high / 2 - low / 2, 1.0)  # powers of distances in this unit fit
    second, fourth = np.zeros(columns), np.zeros(columns)
    for rows in row_chunks(codes):
        distance = ((np.asarray(codes[rows], float) - mean) / size) ** 2
        second += distance.sum(axis=0)
        fourth += (distance**2).sum(axis=0)
    return mean, second * size**2, _effective(second, fourth), firing / len(codes), low, high


def _effective(second: np.ndarray, fourth: np.ndarray) -> np.ndarray:
    """How many rows carry a variance: n if n rows are equally far from the mean, and the others are not."""
    return np.divide(second**2, fourth, out=np.zeros_like(second), where=fourth > 0)
