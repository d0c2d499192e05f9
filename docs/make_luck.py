"""Simulates how well the interval of claim 5 holds the truth, for the page of findings.

    python docs/make_luck.py    some minutes on one core

Runs are drawn from normal distributions with the means and deviations of the settings of set A, so the true share of
lucky cells is known. All draws have fixed seeds. The numbers go to docs/luck.json, from where docs/make_findings.py
reads them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

import sober
from sober.results.claims.registry import SETS
from sober.results.claims.sober_look_numbers import (
    LUCKY,
    cells_of,
    chance_of_worst,
    corrected_share,
    estimate,
    normal_settings,
    wins_of_worst,
)
from sober.results.stats import Interval

NUMBERS = Path(__file__).parent / "luck.json"
SCALES = (0.6, 1.0, 1.5)  # deviations of seeds, by those of the settings of set A
DRAWS, RESAMPLES = 200, 300
Cells = Sequence[Float[np.ndarray, "_ _"]]


class Normal(NamedTuple):
    """A method and score whose settings are normal distributions."""

    means: Float[np.ndarray, " K"]
    deviations: Float[np.ndarray, " K"]
    seeds: int

    @property
    def lucky(self) -> bool:
        return chance_of_worst(self.means, self.deviations) > LUCKY

    def scores(self, rng: np.random.Generator) -> Float[np.ndarray, "K S"]:
        return rng.normal(self.means[:, None], self.deviations[:, None], (len(self.means), self.seeds))


class Luck(NamedTuple):
    """How often two intervals of the share of lucky cells hold the truth, which is known."""

    scale: float
    truth: float
    counted: float  # the mean over the draws
    corrected: float
    counted_held: int  # in how many draws the interval held the truth
    corrected_held: int
    draws: int


def normals(scale: float) -> list[Normal]:
    """The methods and scores of set A, with deviations times `scale`."""
    runs = sober.results(SETS["A"].entries[0]).numbers().not_diverged()
    fits = [(*normal_settings(scores), scores.shape[1]) for scores in cells_of(runs)]
    return [Normal(means, scale * deviations, seeds) for means, deviations, seeds in fits]


def true_share(cells: Sequence[Normal]) -> float:
    return float(np.mean([cell.lucky for cell in cells]))


def counted_share(cells: Cells, rng: np.random.Generator) -> Interval:
    """The share that is counted. Its interval draws the runs of the two chosen settings again."""
    counted, draws = [], []
    for scores in cells:
        medians = np.median(scores, axis=1)
        worst, best = scores[medians.argmin()], scores[medians.argmax()]
        again = [setting[rng.integers(len(setting), size=(RESAMPLES, len(setting)))] for setting in (worst, best)]
        draws.append(np.mean(again[0][:, :, None] > again[1][:, None], axis=(1, 2)) > LUCKY)
        counted.append(wins_of_worst(scores[None])[0] > LUCKY)
    return estimate(float(np.mean(counted)), np.ma.asarray(np.mean(draws, axis=0)), centred=True)


def holds(share: Interval, truth: float) -> bool:
    return bool(share.low - 1e-9 <= truth <= share.high + 1e-9)


def simulated(scale: float, draws: int = DRAWS) -> Luck:
    cells = normals(scale)
    truth, shares = true_share(cells), []
    for draw in range(draws):
        rng = np.random.default_rng([draw, round(10 * scale)])
        scores = [cell.scores(rng) for cell in cells]
        shares.append((counted_share(scores, rng), corrected_share(scores, resamples=RESAMPLES)))
    counted, corrected = zip(*shares, strict=True)
    return Luck(
        scale,
        truth,
        float(np.mean([share.value for share in counted])),
        float(np.mean([share.value for share in corrected])),
        sum(holds(share, truth) for share in counted),
        sum(holds(share, truth) for share in corrected),
        draws,
    )


def read() -> list[Luck]:
    rows: list[dict[str, Any]] = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return [Luck(**row) for row in rows]


def main() -> None:
    rows = []
    for scale in SCALES:
        rows.append(simulated(scale)._asdict())
        print(rows[-1], flush=True)
    NUMBERS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
