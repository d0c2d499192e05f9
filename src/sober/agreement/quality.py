"""How good a model is, to be read beside its recurrence: what has not learned yet does not recur either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float

from sober.agreement.features import Features
from sober.errors import RequestError
from sober.estimators.scaling import LARGEST
from sober.metrics.common.arrays import as_array, check_real, unmasked

CHUNK = 4_096  # rows that are reconstructed at a time


def explained_shares(features: Sequence[Features], inputs: Any) -> Float[np.ndarray, " M"]:
    """The share of the variance of the inputs that each model's codes times its directions explain.

    1 - sum |r - mean of r|^2 / sum |x - mean of x|^2 with r = x - codes · directions: an offset does not matter.
    """
    array = unmasked("inputs", as_array("inputs", inputs))
    array = array.toarray() if scipy.sparse.issparse(array) else np.asarray(array)
    check_real("inputs", array)
    largest = max(float(array.max(initial=0)), -float(array.min(initial=0)))
    if not largest <= LARGEST:
        raise RequestError(f"inputs must be finite numbers of at most {LARGEST:g}: the largest is {largest:.1g}")
    shares = []
    for model in features:
        if model.codes is None or model.dictionary is None:
            raise RequestError("inputs are for codes and dictionaries together: give both, or leave inputs out")
        directions = np.asarray(model.dictionary.directions)
        if array.shape != (model.codes.shape[0], directions.shape[1]):
            raise RequestError(
                f"inputs have shape {array.shape}, and the codes and directions of {model.name!r} are for "
                f"({model.codes.shape[0]}, {directions.shape[1]}): give the rows that were encoded"
            )
        by_row = model.codes.tocsr() if hasattr(model.codes, "tocsr") else model.codes
        sums = np.zeros((2, array.shape[1]))
        squares = np.zeros(2)
        for start in range(0, len(array), CHUNK):
            rows = np.asarray(array[start : start + CHUNK], float)
            residual = rows - by_row[start : start + CHUNK] @ directions
            for place, block in enumerate((rows, residual)):
                sums[place] += block.sum(axis=0)
                squares[place] += (block**2).sum()
        total, left = squares - (sums**2).sum(axis=1) / len(array)
        shares.append(1 - left / total if total > 0 else 0.0)
    return np.array(shares)
