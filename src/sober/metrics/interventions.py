"""Rows drawn with one factor held fixed, for metrics that ask what such an intervention leaves alone.

A complete grid is not needed: rows with the same value of a factor are found among those there are. On a grid this is
the papers' own draw; on a labelled sample the other factors vary as they do in the data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.estimators.discrete import classes
from sober.metrics.rows import Groups
from sober.metrics.shapes import unit_lengths, unit_sums
from sober.types import Codes

CHUNK = 2**15  # rows looked up at once: some megabytes, which stay in the cache
FEW = 32  # latents; of more, fewer rows are looked up at once


class Drawn(NamedTuple):
    """For each of P points the factor held fixed, and the rows."""

    factor: Int[np.ndarray, " P"]
    rows: Int[np.ndarray, "P B"]


def sharing(codes: Codes) -> tuple[Groups, ...]:
    """Rows that share a value, for each factor, among those that know it; factors are classes."""
    if codes.known is None:
        return tuple(Groups.of(column) for column in codes.factors.T)
    out = []
    for column, known in zip(codes.factors.T, codes.known.T, strict=True):
        rows = np.flatnonzero(known)
        group = Groups.of(column[rows])
        out.append(group._replace(order=rows[group.order]))
    return tuple(out)


def draw_rows(
    codes: Codes, factor: Int[np.ndarray, " P"], batch: int, rng: np.random.Generator
) -> Int[np.ndarray, "P B"]:
    """Rows for each point, each as likely among those that know the point's factor."""
    rows = rng.integers(codes.mean.shape[0], size=(len(factor), batch))
    if codes.known is not None:
        for k, known in enumerate(codes.known.T):
            there, at = np.flatnonzero(known), factor == k
            rows[at] = there[rng.integers(len(there), size=(int(at.sum()), batch))]
    return rows


def draw_factors(codes: Codes, points: int, rng: np.random.Generator) -> Int[np.ndarray, " P"]:
    """The factor to hold fixed for each point, each as likely."""
    return rng.integers(len(codes.about), size=points)


def draw_fixed(codes: Codes, groups: tuple[Groups, ...], points: int, batch: int, rng: np.random.Generator) -> Drawn:
    """Batches of rows that share the value of one factor, a value being as likely as it is among the rows."""
    factor = draw_factors(codes, points, rng)
    start = draw_rows(codes, factor, 1, rng)[:, 0]
    rows = np.empty((points, batch), np.int64)
    for k, group in enumerate(groups):
        at = np.flatnonzero(factor == k)
        label = codes.factors[start[at], k]
        rows[at] = group.draw(np.broadcast_to(label[:, None], (len(at), batch)), rng.random((len(at), batch)))
    return Drawn(factor, rows)


def draw_pairs(
    codes: Codes, groups: tuple[Groups, ...], points: int, batch: int, rng: np.random.Generator
) -> tuple[Drawn, Int[np.ndarray, "P B"]]:
    """Batches of rows, and for each row another that shares the value of the point's factor."""
    factor = draw_factors(codes, points, rng)
    first = draw_rows(codes, factor, batch, rng)
    second = np.empty_like(first)
    for k, group in enumerate(groups):
        at = np.flatnonzero(factor == k)
        second[at] = group.draw(codes.factors[first[at], k], rng.random((len(at), batch)))
    return Drawn(factor, first), second


def variances(mean: Float[np.ndarray, "N D"], rows: Int[np.ndarray, "P B"], unit: int = 1) -> Float[np.ndarray, "P U"]:
    """The variance of each latent within each batch of rows; of a vector unit the trace of its covariance."""
    out = np.empty((len(rows), mean.shape[1] // unit))
    for at in _chunks(rows, mean.shape[1]):
        values = mean.take(rows[at].T, axis=0).astype(float)  # (B, P, D): sums over the first axis add whole slabs
        values -= values.mean(axis=0)
        out[at] = unit_sums(np.einsum("bpd,bpd->pd", values, values), unit) / max(rows.shape[1] - 1, 1)
    return out


def differences(
    mean: Float[np.ndarray, "N D"], first: Int[np.ndarray, "P B"], second: Int[np.ndarray, "P B"], unit: int = 1
) -> Float[np.ndarray, "P U"]:
    """The mean over a batch of pairs of |difference| in each latent; of a vector unit, of its length."""
    out = np.empty((len(first), mean.shape[1] // unit))
    for at in _chunks(first, mean.shape[1]):
        values = mean.take(first[at].T, axis=0).astype(float)
        values -= mean.take(second[at].T, axis=0)
        unit_lengths(values, unit).mean(axis=0, out=out[at])
    return out


def _chunks(rows: Int[np.ndarray, "P B"], latents: int) -> list[slice]:
    points = max(1, CHUNK // rows.shape[1] * FEW // max(latents, FEW))
    return [slice(at, at + points) for at in range(0, len(rows), points)]


def fewer_than(rows: int, groups: tuple[Groups, ...]) -> bool:
    """Whether some value of a factor is shared by fewer rows."""
    return any(bool(((group.size > 0) & (group.size < rows)).any()) for group in groups)


def agreeing_but(codes: Codes, factor: int) -> Int[np.ndarray, " N"]:
    """A label for each row that rows share if they agree in all factors but one; factors are classes."""
    label = np.zeros(len(codes.mean), np.int64)
    for k in range(len(codes.about)):
        if k != factor:
            label = classes(label * (int(codes.factors[:, k].max(initial=0)) + 1) + codes.factors[:, k])
    return label
