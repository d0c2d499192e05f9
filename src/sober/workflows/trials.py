"""The trials of a search: settings that were tried, what they are worth, and what that amounts to."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from sober.criteria import Criterion
from sober.criteria.criterion import UNFIT
from sober.errors import RequestError, counted, listed
from sober.methods import hyper_of
from sober.types import Run, Setting
from sober.words import assignments, text_of
from sober.workflows.opened import Results, open_results


class Seen(NamedTuple):
    """What a criterion said of one model: a score, or None and why there is none."""

    score: float | None
    flags: Sequence[str] = ()
    informative: int = 0  # latents


class Trial(NamedTuple):
    """One setting that was tried, with every seed."""

    number: int
    generation: int
    hyper: Mapping[str, Setting]  # those that are searched
    state: Literal["asked", "judged", "failed"] = "asked"
    value: float | None = None  # the median of the scores, where most seeds have one
    scores: tuple[float | None, ...] = ()  # by seed; None for a model that is unfit to be judged
    flags: tuple[str, ...] = ()  # why
    informative: tuple[int, ...] = ()  # latents, by seed

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Trial:
        """The trial that was written as this."""
        lists = {name: tuple(plain[name]) for name in ("scores", "flags", "informative")}
        return Trial(plain["number"], plain["generation"], plain["hyper"], plain["state"], plain["value"], **lists)

    @property
    def latents(self) -> int:
        """How many of them are informative: the median over seeds."""
        return int(np.median(self.informative)) if self.informative else 0

    @property
    def words(self) -> str:
        return assignments(self.hyper)


@dataclasses.dataclass(frozen=True, eq=False)
class Tuned:
    """What a search found."""

    folder: Path
    criterion: Criterion
    trials: tuple[Trial, ...]

    @property
    def waiting(self) -> tuple[Trial, ...]:
        """The trials that were asked for and not yet judged: all of one generation."""
        return tuple(trial for trial in self.trials if trial.state == "asked")

    @property
    def ranked(self) -> tuple[Trial, ...]:
        """The trials that have a value, best first."""
        sign = -1 if self.criterion.better == "higher" else 1
        valued = [(sign * trial.value, trial.number, trial) for trial in self.trials if trial.value is not None]
        return tuple(trial for *_, trial in sorted(valued, key=lambda each: each[:2]))

    @property
    def best(self) -> Trial:
        if not self.ranked:
            flags = listed({flag for trial in self.trials for flag in trial.flags})
            raise RequestError(
                f"none of {counted(len(self.trials), 'trial')} in {self.folder} could be judged ({flags}): "
                "search other values, or train for more --steps"
            )
        return self.ranked[0]

    @property
    def hyper(self) -> Mapping[str, Setting]:
        """The best hyperparameters found."""
        return self.best.hyper

    @property
    def value(self) -> float:
        """What the criterion says of them: the median over seeds."""
        assert self.best.value is not None
        return self.best.value

    @functools.cached_property
    def results(self) -> Results:
        """The models of all trials, and what was measured of them."""
        return open_results(self.folder)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The best setting's runs, one for each seed."""
        hyper = self.hyper.items()
        return tuple(run for run in self.results.runs if hyper <= hyper_of(run).items())

    def by_latents(self) -> dict[int, Trial]:
        """The best trial for each number of informative latents: UDR prefers few, so compare like with like."""
        best: dict[int, Trial] = {}
        for trial in self.ranked:
            best.setdefault(trial.latents, trial)
        return dict(sorted(best.items()))

    def so_far(self, trials: int) -> str:
        """Where the search stands, in a line."""
        done = f"{len(self.trials)} of {max(trials, len(self.trials))} trials"
        if not self.ranked:
            return f"{done}: none could be judged yet"
        return f"{done}: best so far {self.best.words}, {self.criterion.name} {self.value:.3f}"

    def sentences(self) -> list[str]:
        """What was found, and what the criterion can and cannot see."""
        best, name = self.best, self.criterion.name
        scores = [score for score in best.scores if score is not None]
        found = [
            f"The best of {counted(len(self.ranked), 'setting')} is {best.words}: {name} {self.value:.3f}, the median "
            f"over {counted(len(best.scores), 'seed')}, which go from {min(scores):.3f} to {max(scores):.3f}."
        ]
        if len(self.by_latents()) > 1:
            each = (f"{count}: {trial.words} ({trial.value:.3f})" for count, trial in self.by_latents().items())
            found.append(f"The best for each number of informative latents: {'; '.join(each)}.")
        if failed := [trial for trial in self.trials if trial.state == "failed"]:
            flags = listed({flag for trial in failed for flag in trial.flags})
            found.append(f"{counted(len(failed), 'trial')} failed, half of the models or more being {flags}.")
        return [*found, f"{name}: {self.criterion.sees} {self.criterion.blind}"]


def rows(tuned: Tuned) -> list[dict[str, str]]:
    """Every trial as the row of a table, best first, failed ones last; each key is a column."""
    failed = [trial for trial in tuned.trials if trial.value is None]
    arrow = "↑" if tuned.criterion.better == "higher" else "↓"
    table = []
    for place, trial in enumerate([*tuned.ranked, *failed], start=1):
        scores = [score for score in trial.scores if score is not None]
        table.append(
            {
                "place": "-" if trial.value is None else str(place),
                "trial": str(trial.number),
                **{name: text_of(value) for name, value in trial.hyper.items()},
                f"{tuned.criterion.name} {arrow}": "-" if trial.value is None else f"{trial.value:.3f}",
                "seeds": f"{min(scores):.3f}–{max(scores):.3f}" if scores else "-",
                "fit": f"{len(scores)} of {len(trial.scores)}",
                "latents": str(trial.latents),
                "flags": " ".join(trial.flags),
            }
        )
    return table


def seen(score: float, flags: Sequence[str], informative: int, least: int) -> Seen:
    """A score that counts, if the model is fit for it."""
    few = () if informative >= least else ("few_latents",) if informative else ("collapsed",)
    unfit = sorted({*(set(flags) & UNFIT.keys()), *few, *(() if math.isfinite(score) else ("not_finite",))})
    return Seen(None if unfit else score, unfit, informative)


def valued(trial: Trial, seeds: Sequence[Seen], better: str) -> Trial:
    """A trial with the median of its scores. A seed without one is worse than any; where the median is, it failed."""
    worst = -math.inf if better == "higher" else math.inf
    median = float(np.median([worst if seen.score is None else seen.score for seen in seeds]))
    return trial._replace(
        state="judged" if math.isfinite(median) else "failed",
        value=median if math.isfinite(median) else None,
        scores=tuple(seen.score for seen in seeds),
        flags=tuple(sorted({flag for seen in seeds for flag in seen.flags})),
        informative=tuple(seen.informative for seen in seeds),
    )
