"""Turns factors into classes: continuous ones are cut into bins."""

from __future__ import annotations

import dataclasses

import numpy as np

from sober.estimators.discrete import BINS, binned, classes
from sober.types import Codes, Factor, Kind


def discretised(codes: Codes, bins: int = BINS) -> Codes:
    """Codes with factors as classes 0 to C - 1, all present. A continuous factor is cut into bins of equal width.

    Where a factor is not known, its class is 0.
    """
    out, factors = np.zeros(codes.factors.shape, np.int64, order="F"), []
    for k, factor in enumerate(codes.about):
        rows = slice(None) if codes.known is None else codes.known[:, k]
        column = codes.factors[rows, k]
        if factor.kind == "continuous":
            column = binned(column[:, None], bins)[:, 0]
        out[rows, k] = classes(column)
        factors.append(Factor(factor.name, int(out[:, k].max(initial=0)) + 1, _discrete(factor.kind)))
    return dataclasses.replace(codes, factors=out, about=tuple(factors))


def _discrete(kind: Kind) -> Kind:
    return "ordinal" if kind == "continuous" else kind


def has_continuous(codes: Codes) -> bool:
    return any(factor.kind == "continuous" for factor in codes.about)
