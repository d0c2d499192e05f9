"""Synthetic dictionaries whose true features are known, to see whether true features recur.

Rows are x = Σ_g a_g · direction_g. There are more features than dimensions (superposition). Feature g fires with a rate
that falls as a power of g. Features of one family fire together more often than chance, and a child fires only in rows
in which its parent fires.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.special
from jaxtyping import Float, Int

from sober.short_text import as_call


class Planted(NamedTuple):
    """Rows made of G true features."""

    codes: Float[np.ndarray, "N G"]  # how strongly each feature fires in each row, 0 where it does not
    directions: Float[np.ndarray, "G P"]  # of length 1
    rates: Float[np.ndarray, " G"]  # the share of rows in which each feature was meant to fire, without its parent
    parent: Int[np.ndarray, " G"]  # the feature without which each cannot fire; -1 for features without a parent

    @property
    def inputs(self) -> Float[np.ndarray, "N P"]:
        return self.codes @ self.directions

    def __repr__(self) -> str:
        return as_call(self)


class PlantedModel(NamedTuple):
    """A dictionary as if it was learned: some true features, in another order and with noise, and some of its own."""

    codes: scipy.sparse.csc_array  # (N, D)
    directions: Float[np.ndarray, "D P"]
    truth: Int[np.ndarray, " D"]  # the true feature behind each; -1 for features of its own

    def __repr__(self) -> str:
        return as_call(self)


def planted(
    features: int = 128,
    dimensions: int = 64,
    rows: int = 4_000,
    *,
    active: float = 8.0,
    power: float = 0.5,
    correlation: float = 0.3,
    family: int = 4,
    children: float = 0.2,
    seed: int = 0,
) -> Planted:
    """True features and rows made of them; about `active` features fire in a row.

    Rates fall with the feature's number to this `power`. Each `family` of features is driven by one hidden number, with
    this `correlation`. A share of the features are `children` of another feature.
    """
    rng = np.random.default_rng(seed)
    rates = np.arange(1, features + 1.0) ** -power
    rates = np.minimum(rates * active / rates.sum(), 0.5)
    shared = np.repeat(rng.standard_normal((rows, -(-features // family))), family, axis=1)[:, :features]
    drive = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.standard_normal((rows, features))
    fires = drive > -scipy.special.ndtri(rates)
    parent = np.full(features, -1)
    for child in rng.permutation(np.arange(1, features))[: int(children * features)]:
        parent[child] = rng.integers(child)  # an earlier feature, which fires more often
    for child in np.flatnonzero(parent >= 0):
        fires[:, child] = (drive[:, child] > 0) & fires[:, parent[child]]
    strength = fires * rng.gamma(2.0, 0.5, (rows, features))
    directions = rng.standard_normal((features, dimensions))
    return Planted(strength, directions / np.linalg.norm(directions, axis=1, keepdims=True), rates, parent)


def planted_model(
    truth: Planted, *, learned: float = 0.8, junk: int = 16, noise: float = 0.3, seed: int = 0
) -> PlantedModel:
    """A model that learned a share of the true features, the frequent ones more likely, and `junk` random ones.

    `noise` is the length of the noise in a direction, and the share of rows in which a code is missed.
    """
    rng = np.random.default_rng([seed, 1])
    count, space = truth.directions.shape
    ease = np.log(truth.codes.astype(bool).mean(axis=0) + 1e-4) + rng.gumbel(size=count)
    chosen = rng.permutation(np.argsort(-ease)[: round(learned * count)])
    directions = truth.directions[chosen] + noise * rng.standard_normal((len(chosen), space)) / np.sqrt(space)
    heard = rng.random((len(truth.codes), len(chosen))) >= noise / 2
    codes = truth.codes[:, chosen] * heard * rng.gamma(20, 1 / 20, heard.shape)
    random = rng.standard_normal((junk, space))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    activity = truth.inputs @ random.T
    fired = np.maximum(activity - np.quantile(activity, 0.95, axis=0), 0)
    order = rng.permutation(len(chosen) + junk)
    return PlantedModel(
        scipy.sparse.csc_array(np.concatenate([codes, fired], axis=1)[:, order]),
        np.concatenate([directions, random])[order],
        np.concatenate([chosen, np.full(junk, -1)])[order],
    )
