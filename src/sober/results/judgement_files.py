"""A criterion's scores of models, on disk, with resampled scores and the numbers behind them.

judged/DIGEST.safetensors   one criterion with its settings, on one set of models; DIGEST is a hash of the question
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.criteria.criterion import Judgement
from sober.errors import RequestError
from sober.files import expecting, folder_names, load_arrays, parse_json, save_arrays
from sober.results.table_rows import settings_text
from sober.short_text import as_call
from sober.types import Setting

PART = "part."


class JudgementKey(NamedTuple):
    """The question to a criterion: everything that its scores depend on."""

    criterion: str
    settings: Mapping[str, Setting]  # defaults included
    world: str
    runs: tuple[str, ...]  # identities, in order
    pictures: int
    seed: int

    def path(self, folder: Path) -> Path:
        fields = [self.criterion, settings_text(self.settings), self.world, self.runs, self.pictures, self.seed]
        digest = hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]
        return folder / "judged" / f"{digest}.safetensors"


class SavedJudgement(NamedTuple):
    """A question and its answer."""

    question: JudgementKey
    judgement: Judgement
    informative: Int[np.ndarray, " M"]  # how many latents of each model carry information

    @staticmethod
    def without_scores(question: JudgementKey, informative: Int[np.ndarray, " M"]) -> SavedJudgement:
        """The answer if there are too few models to compare: every score is NaN."""
        scores = np.full(len(question.runs), np.nan)
        return SavedJudgement(question, Judgement(scores, scores[None], ((),) * len(scores)), informative)

    def for_runs(self, runs: Container[str]) -> SavedJudgement:
        """The answer for some of the models, in the order of their identities."""
        places = sorted((run, m) for m, run in enumerate(self.question.runs) if run in runs)
        columns = [m for _, m in places]
        judgement = Judgement(
            self.judgement.scores[columns],
            self.judgement.replicates[:, columns],
            tuple(self.judgement.flags[m] for m in columns),
        )
        question = self.question._replace(runs=tuple(run for run, _ in places))
        return SavedJudgement(question, judgement, self.informative[columns])

    def has_scores(self) -> bool:
        return not bool(np.isnan(self.judgement.scores).all())

    def save(self, folder: Path, question: JudgementKey | None = None) -> None:
        """Saves the answer under `question`, which may name runs that the answer leaves out."""
        path = (question or self.question).path(folder)
        path.parent.mkdir(exist_ok=True)
        arrays = {
            "scores": np.asarray(self.judgement.scores, float),
            "replicates": np.asarray(self.judgement.replicates, float),
            "informative": np.asarray(self.informative, np.int64),
            **{f"{PART}{name}": np.asarray(array) for name, array in self.judgement.parts.items()},
        }
        fields = {**self.question._asdict(), "settings": dict(self.question.settings)}
        flags = json.dumps(self.judgement.flags)
        save_arrays(path, arrays, {"kind": "sober.judgement", "question": json.dumps(fields), "flags": flags})


def joined_judgement(folder: Path, world: str, criterion: str, settings: Mapping[str, Setting]) -> SavedJudgement:
    """All saved answers of a criterion about a world's models, joined: for a folder that no longer has the models.

    Uses the answers with these settings. If there are none, and all have the same other settings, it uses those.
    """
    by_settings: dict[str, list[SavedJudgement]] = {}
    for answer in _judgements(folder):
        question = answer.question
        if (question.criterion, question.world) == (criterion, world) and answer.has_scores():
            by_settings.setdefault(settings_text(question.settings), []).append(answer)
    if not by_settings:
        raise RequestError(
            f"{folder} keeps no models of {world} and no scores of them by {criterion}: choose another criterion"
        )
    answers = by_settings.get(settings_text(settings)) or next(iter(by_settings.values()))
    if settings_text(settings) not in by_settings and len(by_settings) > 1:
        choices = " or ".join(by_settings)
        raise RequestError(f"{folder} has scores by {criterion} with {choices}: choose one with --set")
    return _together(answers)


def _together(answers: Sequence[SavedJudgement]) -> SavedJudgement:
    """Joins answers about different models. Each gives as many draws as the answer with the fewest."""
    draws = min(len(answer.judgement.replicates) for answer in answers)
    judgement = Judgement(
        np.concatenate([answer.judgement.scores for answer in answers]),
        np.concatenate([answer.judgement.replicates[:draws] for answer in answers], axis=1),
        tuple(flags for answer in answers for flags in answer.judgement.flags),
    )
    runs = tuple(run for answer in answers for run in answer.question.runs)
    informative = np.concatenate([answer.informative for answer in answers])
    return SavedJudgement(answers[0].question._replace(runs=runs), judgement, informative)


def _judgements(folder: Path) -> Iterator[SavedJudgement]:
    """All answers of criteria in a folder of results."""
    for name in folder_names(folder / "judged", ".safetensors"):
        yield load_judgement(folder / "judged" / name)


def load_judgement(path: Path) -> SavedJudgement:
    """Reads a file that `SavedJudgement.save` wrote."""
    arrays, metadata = load_arrays(path)
    if metadata.get("kind") != "sober.judgement":
        raise RequestError(f"{path} is not a judgement saved by Sober: move it elsewhere")
    with expecting(path, "a judgement saved by Sober"):
        fields = parse_json(metadata["question"])
        question = JudgementKey(**{**fields, "runs": tuple(fields["runs"])})
        parts = {name.removeprefix(PART): array for name, array in arrays.items() if name.startswith(PART)}
        flags = tuple(map(tuple, parse_json(metadata["flags"])))
        scores, replicates, informative = (arrays[name] for name in ("scores", "replicates", "informative"))
        models = len(question.runs)
        if scores.shape != (models,) or replicates.shape[1:] != (models,) or {models} != {len(flags), len(informative)}:
            raise ValueError(f"its arrays are not about its {models} models")
    return SavedJudgement(question, Judgement(scores, replicates, flags, parts), informative)


class PairScores(NamedTuple):
    """How well models line up with their partners, by UDR."""

    world: str
    runs: tuple[str, ...]
    scores: Float[np.ndarray, "P 3"]  # model, partner, score; a model and a partner are places in `runs`
    criterion: str = ""
    settings: str = "{}"  # the column `settings` of the table

    def __repr__(self) -> str:
        return as_call(self)


def pair_scores(folder: Path) -> tuple[PairScores, ...]:
    """The pair scores in a folder: for each world, criterion and settings, the answer about the most models."""
    largest: dict[tuple[str, ...], PairScores] = {}
    for answer in _judgements(folder):
        if "pairs" in answer.judgement.parts:
            question, scores = answer.question, answer.judgement.parts["pairs"]
            settings = settings_text(question.settings)
            key = (question.world, question.criterion, settings)
            if key not in largest or len(largest[key].runs) < len(question.runs):
                largest[key] = PairScores(question.world, question.runs, scores, question.criterion, settings)
    return tuple(largest.values())
