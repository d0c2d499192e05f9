"""part: a fixed random split into pictures for training and pictures for testing."""

from __future__ import annotations

import numpy as np

from sober.errors import RequestError
from sober.worlds.views.base import View
from sober.worlds.world import World


class Part(View):
    """`train` is a fixed random share of the pictures, `test` has the others."""

    def __init__(self, base: World, name: str, share: float) -> None:
        if name not in ("train", "test") or not 0 < share < 1:
            raise RequestError(f"a part is train or test and a share between 0 and 1, got {name} {share:g}")
        order = np.random.default_rng(0).permutation(base.size)
        cut = round(share * base.size)
        super().__init__(base, f"part {name} {share:g}", np.sort(order[:cut] if name == "train" else order[cut:]))

    @staticmethod
    def read(base: World, text: str) -> Part:
        """`train 0.8`"""
        words = text.split()
        return Part(base, words[0], float(words[1]))
