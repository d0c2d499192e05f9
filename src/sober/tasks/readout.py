"""How well readouts tell the factors from codes, also those of unseen combinations.

A score is the mean over factors. R² counts as it is; an accuracy counts as the share of the way from what shuffled
factors give to 1. `sober.probing` says how each number is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from sober.contracts import Cost, ProgressCallback
from sober.estimators.scaling import as_float32
from sober.metrics.metric import Meaning, Measured
from sober.parallel import one_thread
from sober.probing.combinations import unseen_combinations
from sober.probing.knowledge import LABELS, Number, Rows, knowledge, standardised_factors
from sober.probing.label_free import ranks
from sober.shared import Shared
from sober.tasks.task import Subjects, Task, enough_rows
from sober.types import Codes, Setting

if TYPE_CHECKING:  # it needs JAX
    from sober.worlds import World

LEAST = 40  # rows: ten to learn from would leave too few to test on
SECONDS = 6.0  # per model: 384 features, 10,000 rows, 6 factors
FEW = 100


def perform(subjects: Subjects, *, seed: int, progress: ProgressCallback, shared: Shared, rows: int) -> list[Measured]:
    outcomes = []
    for done, codes in enumerate(subjects.codes):
        progress(done, len(subjects.codes))
        enough_rows("readout", codes, LEAST)
        numbers = list(numbers_of(codes, rows, seed))
        outcomes.append(Measured(scores_of(numbers), parts=parts_of(numbers, codes)))
    progress(len(subjects.codes), len(subjects.codes))
    return outcomes


def numbers_of(codes: Codes, rows: int, seed: int) -> Iterable[Number]:
    """Every number about one model's codes that arrays alone give."""
    factors = standardised_factors(codes.factors[:rows], codes.about)
    used_rows = Rows(as_float32(codes.mean[:rows]), factors, codes.about)
    with one_thread():
        result = knowledge(used_rows, seed=seed)
        yield from result.numbers
        yield from unseen_combinations(used_rows, result)
        yield from ranks(used_rows.features)


def scores_of(numbers: Iterable[Number]) -> dict[str, float]:
    """The scores: means over factors, with the largest number of labels."""
    numbers = list(numbers)
    most = max((number.labels for number in numbers), default=0)
    wanted = {
        "readout_linear": ("linear readout", most),
        f"readout_linear_{FEW}": ("linear readout", FEW),
        "readout_nonlinear": ("nonlinear readout", most),
        "readout_unit": ("best unit", most),
        "readout_eight_units": ("best eight units", most),
    }
    scores = {}
    for score, kind in wanted.items():
        if chosen := [number.share for number in numbers if (number.name, number.labels) == kind]:
            scores[score] = float(np.mean(chosen))
    by_name = {(number.name, number.factor): number for number in numbers}
    pairs = [(number, by_name["seen", number.factor]) for number in numbers if number.name == "unseen"]
    if pairs:
        scores["readout_unseen"] = float(np.mean([number.value for number, _ in pairs]))
        scores["readout_lost_on_unseen"] = float(
            np.mean([max(0.0, easier.value - number.value) for number, easier in pairs])
        )
    of_layer = {f"readout_{number.name.replace(' ', '_')}": number.value for number in numbers if not number.factor}
    return scores | {name: value for name, value in of_layer.items() if name in readout.scores}


def parts_of(numbers: Iterable[Number], codes: Codes) -> dict[str, np.ndarray]:
    """Every number about factors, as arrays by factor."""
    places = {factor.name: k for k, factor in enumerate(codes.about)}
    parts: dict[str, np.ndarray] = {}
    for number in numbers:
        if number.factor:
            name = f"{number.name}_{number.labels}_per_factor".replace(" ", "_")
            parts.setdefault(name, np.zeros(len(places)))[places[number.factor]] = number.value
    return parts


def _why_not(settings: Mapping[str, Setting], world: World | None) -> str:
    """Why this number of rows is refused; empty if it is not."""
    return "" if float(settings["rows"]) >= LEAST else f"rows must be a whole number from {LEAST} on"


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    return Cost(seconds=models * SECONDS * float(settings["rows"]) / 10_000)


readout = Task(
    name="readout",
    summary="what can be read from codes: linearly or not, from few labels, for unseen combinations?",
    reference="Alain & Bengio (2017): Understanding intermediate layers using linear classifier probes",
    scores={
        "readout_linear": Meaning(
            "how well a linear readout tells the factors, mean over factors", title="linear readout", headline=True
        ),
        f"readout_linear_{FEW}": Meaning(
            f"the same after learning from {FEW} rows", title=f"linear readout, {FEW} labels"
        ),
        "readout_nonlinear": Meaning("how well a nonlinear readout tells the factors", title="nonlinear readout"),
        "readout_unit": Meaning("how well one unit tells a factor", title="best unit"),
        "readout_eight_units": Meaning("how well eight units tell a factor", title="best eight units"),
        "readout_unseen": Meaning(
            "how well readouts tell the factors of combinations they never saw", title="unseen combinations"
        ),
        "readout_lost_on_unseen": Meaning(
            "what readouts lose on combinations they never saw", better="lower", title="lost on unseen combinations"
        ),
        "readout_effective_rank": Meaning(
            "the effective number of axes that features use: RankMe", 0, math.inf, "neither", title="effective rank"
        ),
        "readout_participation": Meaning(
            "the participation ratio of the variances along axes", 0, math.inf, "neither", title="participation ratio"
        ),
    },
    perform=perform,
    settings={"rows": LABELS[-1]},
    quick={"rows": 400},
    refuses=_why_not,
    cost=cost,
)
