"""What a criterion said of models, on disk: the scores, what they might have been by chance, what they were made of.

judged/DIGEST.safetensors   one criterion with its settings, on one set of models; the digest is of all that decides it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.criteria.criterion import Judgement
from sober.errors import RequestError
from sober.files import load_arrays, save_arrays
from sober.results.rows import settings_text
from sober.types import Setting

PART = "part."


class Question(NamedTuple):
    """All that decides what a criterion says."""

    criterion: str
    settings: Mapping[str, Setting]  # all of them
    world: str
    runs: tuple[str, ...]  # identities, in order
    pictures: int
    seed: int

    def path(self, folder: Path) -> Path:
        said = [self.criterion, settings_text(self.settings), self.world, self.runs, self.pictures, self.seed]
        digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
        return folder / "judged" / f"{digest}.safetensors"


class Judged(NamedTuple):
    """A question and its answer."""

    question: Question
    judgement: Judgement
    informative: Int[np.ndarray, " M"]  # latents of each model

    @staticmethod
    def nothing(question: Question, informative: Int[np.ndarray, " M"]) -> Judged:
        """The answer where there are too few models to be compared: no number for any of them."""
        scores = np.full(len(question.runs), np.nan)
        return Judged(question, Judgement(scores, scores[None], ((),) * len(scores)), informative)

    def of(self, runs: Container[str]) -> Judged:
        """What it says of some of the models, in the order of their identities."""
        places = sorted((run, m) for m, run in enumerate(self.question.runs) if run in runs)
        kept = [m for _, m in places]
        judgement = Judgement(
            self.judgement.scores[kept],
            self.judgement.replicates[:, kept],
            tuple(self.judgement.flags[m] for m in kept),
        )
        question = self.question._replace(runs=tuple(run for run, _ in places))
        return Judged(question, judgement, self.informative[kept])

    def said_something(self) -> bool:
        return not bool(np.isnan(self.judgement.scores).all())

    def save(self, folder: Path, question: Question | None = None) -> None:
        """Where `question` is asked: it may name runs that were left out of the answer."""
        path = (question or self.question).path(folder)
        path.parent.mkdir(exist_ok=True)
        arrays = {
            "scores": np.asarray(self.judgement.scores, float),
            "replicates": np.asarray(self.judgement.replicates, float),
            "informative": np.asarray(self.informative, np.int64),
            **{f"{PART}{name}": np.asarray(part) for name, part in self.judgement.parts.items()},
        }
        asked = {**self.question._asdict(), "settings": dict(self.question.settings)}
        about = {"kind": "sober.judgement", "question": json.dumps(asked), "flags": json.dumps(self.judgement.flags)}
        save_arrays(path, arrays, about)


def as_judged(folder: Path, world: str, criterion: str, settings: Mapping[str, Setting]) -> Judged:
    """What a folder keeps of a criterion's word on a world's models, all its answers joined: for where models are gone.

    With these settings, or, where it was asked in one way only, as it was.
    """
    ways: dict[str, list[Judged]] = {}
    for judged in map(load_judged, sorted((folder / "judged").glob("*.safetensors"))):
        question = judged.question
        if (question.criterion, question.world) == (criterion, world) and judged.said_something():
            ways.setdefault(settings_text(question.settings), []).append(judged)
    if not ways:
        raise RequestError(f"{folder} keeps no models of {world}, and {criterion} did not judge them: try another")
    answers = ways.get(settings_text(settings)) or next(iter(ways.values()))
    if settings_text(settings) not in ways and len(ways) > 1:
        raise RequestError(f"{folder} keeps what {criterion} said with {' or '.join(ways)}: choose one with --set")
    return _together(answers)


def _together(answers: Sequence[Judged]) -> Judged:
    """Answers about different models as one: of each the same number of draws."""
    draws = min(len(answer.judgement.replicates) for answer in answers)
    judgement = Judgement(
        np.concatenate([answer.judgement.scores for answer in answers]),
        np.concatenate([answer.judgement.replicates[:draws] for answer in answers], axis=1),
        tuple(flags for answer in answers for flags in answer.judgement.flags),
    )
    runs = tuple(run for answer in answers for run in answer.question.runs)
    informative = np.concatenate([answer.informative for answer in answers])
    return Judged(answers[0].question._replace(runs=runs), judgement, informative)


def load_judged(path: Path) -> Judged:
    """What was saved in a file."""
    arrays, about = load_arrays(path)
    if about.get("kind") != "sober.judgement":
        raise RequestError(f"{path} is not a judgement saved by Sober: move it elsewhere")
    asked = json.loads(about["question"])
    question = Question(**{**asked, "runs": tuple(asked["runs"])})
    parts = {name.removeprefix(PART): array for name, array in arrays.items() if name.startswith(PART)}
    flags = tuple(map(tuple, json.loads(about["flags"])))
    return Judged(question, Judgement(arrays["scores"], arrays["replicates"], flags, parts), arrays["informative"])


class Pairs(NamedTuple):
    """How well models line up with their partners, as UDR found: rows of model, partner and score, models by place."""

    world: str
    runs: tuple[str, ...]
    scores: Float[np.ndarray, "P 3"]
    criterion: str = ""
    settings: str = "{}"  # as the rows of the table have them


def pairs_of(folder: Path) -> tuple[Pairs, ...]:
    """The pair scores that a folder keeps: for each world and each way to find them those among the most models."""
    best: dict[tuple[str, ...], Pairs] = {}
    for judged in map(load_judged, sorted((folder / "judged").glob("*.safetensors"))):
        if "pairs" in judged.judgement.parts:
            question, scores = judged.question, judged.judgement.parts["pairs"]
            said = settings_text(question.settings)
            key = (question.world, question.criterion, said)
            if key not in best or len(best[key].runs) < len(question.runs):
                best[key] = Pairs(question.world, question.runs, scores, question.criterion, said)
    return tuple(best.values())
