"""What is known about pictures: factors, and a row of values for each picture."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sober.types import Factor


class Labelled(NamedTuple):
    """Factors, and a row of values for each picture; classes from 0, NaN where not known."""

    factors: tuple[Factor, ...]
    values: Float[np.ndarray, "N K"]


UNLABELLED = Labelled((), np.empty((0, 0)))
