"""Rows drawn with one factor held fixed, for metrics that ask which latents such an intervention leaves unchanged.

A complete grid is not needed: rows that share a factor's value are found in the data. On a grid this is the papers' own
draw; on a labelled sample the other factors vary as they do in the data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.estimators.discrete import classes
from sober.metrics.common.metric_rows import Groups
from sober.metrics.common.shapes import unit_lengths, unit_sums
from sober.types import Codes

CHUNK = 2**15  # rows looked up at once: a few megabytes, which fit into the processor's cache
FEW = 32  # with more latents, fewer rows are looked up at once


class Drawn(NamedTuple):
    """The factor held fixed for each of P points, and its rows."""

    factor: Int[np.ndarray, " P"]
    rows: Int[np.ndarray, "P B"]


def sharing(codes: Codes) -> tuple[Groups, ...]:
    """For each factor, the rows that share a value, among rows in which it is known. Factors must be classes."""
    if codes.known is None:
        return tuple(Groups.of(column) for column in codes.factors.T)
    out = []
    for column, is_known in zip(codes.factors.T, codes.known.T, strict=True):
        rows = np.flatnonzero(is_known)
        group = Groups.of(column[rows])
        out.append(group._replace(order=rows[group.order]))
    return tuple(out)


def draw_rows(
    codes: Codes, factor: Int[np.ndarray, " P"], batch: int, rng: np.random.Generator
) -> Int[np.ndarray, "P B"]:
    """Draws rows for each point, uniformly from the rows in which the point's factor is known."""
    rows = rng.integers(codes.mean.shape[0], size=(len(factor), batch))
    if codes.known is not None:
        for k, is_known in enumerate(codes.known.T):
            known_rows, places = np.flatnonzero(is_known), factor == k
            rows[places] = known_rows[rng.integers(len(known_rows), size=(int(places.sum()), batch))]
    return rows


def draw_factors(codes: Codes, points: int, rng: np.random.Generator) -> Int[np.ndarray, " P"]:
    """Draws the factor to hold fixed for each point, uniformly."""
    return rng.integers(len(codes.about), size=points)


def draw_fixed(codes: Codes, groups: tuple[Groups, ...], points: int, batch: int, rng: np.random.Generator) -> Drawn:
    """Batches of rows that share the value of one factor. A value is drawn as often as rows have it."""
    factor = draw_factors(codes, points, rng)
    start = draw_rows(codes, factor, 1, rng)[:, 0]
    rows = np.empty((points, batch), np.int64)
    for k, group in enumerate(groups):
        places = np.flatnonzero(factor == k)
        label = codes.factors[start[places], k]
        rows[places] = group.draw(
            np.broadcast_to(label[:, None], (len(places), batch)), rng.random((len(places), batch))
        )
    return Drawn(factor, rows)


def draw_pairs(
    codes: Codes, groups: tuple[Groups, ...], points: int, batch: int, rng: np.random.Generator
) -> tuple[Drawn, Int[np.ndarray, "P B"]]:
    """Batches of rows, and for each row a partner with the same value of the point's factor."""
    factor = draw_factors(codes, points, rng)
    first = draw_rows(codes, factor, batch, rng)
    second = np.empty_like(first)
    for k, group in enumerate(groups):
        places = np.flatnonzero(factor == k)
        second[places] = group.draw(codes.factors[first[places], k], rng.random((len(places), batch)))
    return Drawn(factor, first), second


def variances(mean: Float[np.ndarray, "N D"], rows: Int[np.ndarray, "P B"], unit: int = 1) -> Float[np.ndarray, "P U"]:
    """The variance of each latent within each batch of rows; for a vector unit, the trace of its covariance."""
    out = np.empty((len(rows), mean.shape[1] // unit))
    for chunk in _chunks(rows, mean.shape[1]):
        values = mean.take(rows[chunk].T, axis=0).astype(float)  # (B, P, D): sums over the first axis add whole slabs
        values -= values.mean(axis=0)
        out[chunk] = unit_sums(np.einsum("bpd,bpd->pd", values, values), unit) / max(rows.shape[1] - 1, 1)
    return out


def differences(
    mean: Float[np.ndarray, "N D"], first: Int[np.ndarray, "P B"], second: Int[np.ndarray, "P B"], unit: int = 1
) -> Float[np.ndarray, "P U"]:
    """The mean |difference| of each latent over a batch of pairs; for a vector unit, the length of the difference."""
    out = np.empty((len(first), mean.shape[1] // unit))
    for chunk in _chunks(first, mean.shape[1]):
        values = mean.take(first[chunk].T, axis=0).astype(float)
        values -= mean.take(second[chunk].T, axis=0)
        unit_lengths(values, unit).mean(axis=0, out=out[chunk])
    return out


def _chunks(rows: Int[np.ndarray, "P B"], latents: int) -> list[slice]:
    points = max(1, CHUNK // rows.shape[1] * FEW // max(latents, FEW))
    return [slice(first, first + points) for first in range(0, len(rows), points)]


def fewer_than(rows: int, groups: tuple[Groups, ...]) -> bool:
    """Whether some value of a factor has fewer than `rows` rows."""
    return any(bool(((group.size > 0) & (group.size < rows)).any()) for group in groups)


def agreeing_but(codes: Codes, factor: int) -> Int[np.ndarray, " N"]:
    """Labels rows so that two rows share a label if they agree in all factors but `factor`. Factors must be classes."""
    label = np.zeros(len(codes.mean), np.int64)
    for k in range(len(codes.about)):
        if k != factor:
            label = classes(label * (int(codes.factors[:, k].max(initial=0)) + 1) + codes.factors[:, k])
    return label
