"""The trials of a search: each tried setting with its scores, and the best of them."""

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
from sober.requests.results import Results, open_results
from sober.settings_text import assignments, text_of
from sober.short_text import as_call, as_table
from sober.types import Run, Setting


class SeedScore(NamedTuple):
    """A criterion's score of one seed's model, or None and flags that say why there is no score."""

    score: float | None
    flags: Sequence[str] = ()
    informative: int = 0  # number of informative latents


class Trial(NamedTuple):
    """One setting that was tried, with every seed."""

    number: int
    generation: int
    hyper: Mapping[str, Setting]  # the hyperparameters that are searched
    state: Literal["asked", "judged", "failed"] = "asked"
    value: float | None = None  # the median of the scores; None if half of the seeds or more have no score
    scores: tuple[float | None, ...] = ()  # by seed; None for a model that is unfit to be judged
    flags: tuple[str, ...] = ()  # why models are unfit
    informative: tuple[int, ...] = ()  # number of informative latents, by seed

    def __repr__(self) -> str:
        return as_call(self)

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Trial:
        """Reads a trial from JSON."""
        lists = {name: tuple(plain[name]) for name in ("scores", "flags", "informative")}
        return Trial(plain["number"], plain["generation"], plain["hyper"], plain["state"], plain["value"], **lists)

    @property
    def latents(self) -> int:
        """How many latents are informative: the median over seeds."""
        return int(np.median(self.informative)) if self.informative else 0

    @property
    def words(self) -> str:
        return assignments(self.hyper)


@dataclasses.dataclass(frozen=True, eq=False)
class Tuned:
    """A search with all of its trials."""

    folder: Path
    criterion: Criterion
    trials: tuple[Trial, ...]

    def __repr__(self) -> str:
        return as_table(f"Tuned in {self.folder}: {self.so_far(len(self.trials))}", rows(self))

    @property
    def waiting(self) -> tuple[Trial, ...]:
        """The trials that are not yet judged. They are all of one generation."""
        return tuple(trial for trial in self.trials if trial.state == "asked")

    @property
    def ranked(self) -> tuple[Trial, ...]:
        """The trials that have a value, best first."""
        sign = -1 if self.criterion.better == "higher" else 1
        losses = {trial.number: sign * trial.value for trial in self.trials if trial.value is not None}
        with_value = [trial for trial in self.trials if trial.number in losses]
        return tuple(sorted(with_value, key=lambda trial: (losses[trial.number], trial.number)))

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
        """The value of the best hyperparameters: the median of the criterion's scores over seeds."""
        assert self.best.value is not None
        return self.best.value

    @functools.cached_property
    def results(self) -> Results:
        """The models of all trials, with their scores."""
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
        """One line that says how many trials are done, and which is the best."""
        trials_done = f"{len(self.trials)} of {max(trials, len(self.trials))} trials"
        if not self.ranked:
            return f"{trials_done}: none could be judged yet"
        return f"{trials_done}: best so far {self.best.words}, {self.criterion.name} {self.value:.3f}"

    def sentences(self) -> list[str]:
        """Sentences about the best settings, the failed trials, and what the criterion can and cannot see."""
        best, name = self.best, self.criterion.name
        scores = [score for score in best.scores if score is not None]
        sentences = [
            f"The best of {counted(len(self.ranked), 'setting')} is {best.words}: {name} {self.value:.3f}, the median "
            f"over {counted(len(best.scores), 'seed')}, which go from {min(scores):.3f} to {max(scores):.3f}."
        ]
        if len(self.by_latents()) > 1:
            best_ones = (f"{count}: {trial.words} ({trial.value:.3f})" for count, trial in self.by_latents().items())
            sentences.append(f"The best for each number of informative latents: {'; '.join(best_ones)}.")
        if failed := [trial for trial in self.trials if trial.state == "failed"]:
            flags = listed({flag for trial in failed for flag in trial.flags})
            sentences.append(
                f"{counted(len(failed), 'trial')} failed: half of the models or more were flagged {flags}."
            )
        return [*sentences, f"{name}: {self.criterion.sees} {self.criterion.blind}"]


def rows(tuned: Tuned) -> list[dict[str, str]]:
    """A table with a row for each trial, best first and failed trials last. The keys of a row are its columns."""
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


def seed_score(score: float, flags: Sequence[str], informative: int, least: int) -> SeedScore:
    """The score of a seed's model, or None with flags if the model is unfit to be judged.

    A model with fewer than `least` informative latents is unfit.
    """
    few = () if informative >= least else ("few_latents",) if informative else ("collapsed",)
    unfit = sorted({*(set(flags) & UNFIT.keys()), *few, *(() if math.isfinite(score) else ("not_finite",))})
    return SeedScore(None if unfit else score, unfit, informative)


def valued(trial: Trial, seed_scores: Sequence[SeedScore], better: str) -> Trial:
    """A trial with its value, the median of its scores.

    A seed without a score counts as worse than all others. If that makes the median infinite, the trial has failed.
    """
    worst = -math.inf if better == "higher" else math.inf
    median = float(np.median([worst if seed.score is None else seed.score for seed in seed_scores]))
    return trial._replace(
        state="judged" if math.isfinite(median) else "failed",
        value=median if math.isfinite(median) else None,
        scores=tuple(seed.score for seed in seed_scores),
        flags=tuple(sorted({flag for seed in seed_scores for flag in seed.flags})),
        informative=tuple(seed.informative for seed in seed_scores),
    )
