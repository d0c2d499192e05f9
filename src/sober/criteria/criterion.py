"""What a label-free criterion is: a function of a family's codes and models that gives each model a number."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sober.device import evenly
from sober.errors import RequestError, counted, listed
from sober.models.encode import Progress, encode
from sober.models.family import Family
from sober.models.model import Model
from sober.types import Codes, Run, Setting

PICTURES = 10_000  # that criteria look at, as in the UDR paper
HALVES = 8  # how often half of the pictures are drawn
REPLICATES = 200

# Models that no criterion can recommend, and why.
UNFIT: Mapping[str, str] = {
    "collapsed": "no latent carries anything",
    "diverged": "training had stopped: the numbers were no longer finite",
    "ignores_codes": "the decoder makes nearly the same picture whatever the codes",
    "not_finite": "some codes were not finite",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
    """All that a criterion may look at: models trained on one world, and their codes of the same pictures."""

    family: Family
    runs: tuple[Run, ...]
    codes: tuple[Codes, ...]
    index: Int[np.ndarray, " N"] | None  # which pictures; None for all there are

    @staticmethod
    def of(
        family: Family, *, pictures: int = PICTURES, seed: int = 0, progress: Progress | None = None
    ) -> tuple[Evidence, tuple[Run, ...]]:
        """What the finished models of a family say of so many pictures, and the runs left out as no numbers."""
        import jax  # noqa: PLC0415

        world = family.world
        if pictures < 10:
            raise RequestError(f"models are judged by the pictures they encode: give at least 10, not {pictures}")
        everything = world.size <= pictures and not world.stochastic
        index = None if everything else np.asarray(world.index(jax.random.key(seed), pictures))
        found = list(encode(family, index=index, progress=progress))
        good = [(run, codes) for run, codes in found if not {"diverged", "not_finite"} & set(codes.flags)]
        left_out = tuple(run for run, codes in found if {"diverged", "not_finite"} & set(codes.flags))
        if not good:
            raise RequestError(f"no model of {family.folder} is fit to be chosen: all {len(found)} diverged")
        runs, codes = zip(*good, strict=True)
        return Evidence(family, runs, codes, index), left_out

    @functools.cached_property
    def models(self) -> tuple[Model, ...]:
        return tuple(self.family.model(run) for run in self.runs)


class Judgement(NamedTuple):
    """What a criterion says of M models, and what it might have said by chance."""

    scores: Float[np.ndarray, " M"]
    replicates: Float[np.ndarray, "R M"]  # the scores again, with pictures and partners drawn anew
    flags: tuple[tuple[str, ...], ...]
    parts: Mapping[str, np.ndarray] = {}  # what the scores were made of, where that is worth keeping


@dataclasses.dataclass(frozen=True)
class Criterion:
    """A criterion by name: `judge(evidence, seed=, progress=, **settings)`, and what a reader needs to know of it."""

    name: str
    summary: str
    sees: str  # one sentence
    blind: str  # one sentence
    reference: str
    judge: Callable[..., Judgement]
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    better: Literal["higher", "lower"] = "higher"
    compares: bool = False  # whether it needs more models than one

    def __call__(
        self,
        evidence: Evidence,
        changes: Mapping[str, Setting] | None = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Judgement:
        """Judges the models of a family. A number for each, always."""
        for name in changes or {}:
            if name not in self.settings:
                raise RequestError(f"{self.name} has no setting {name!r}: it has {listed(self.settings) or 'none'}")
        if self.compares and len(evidence.runs) < 2:
            raise RequestError(
                f"{self.name} compares models with each other, and {evidence.family.folder} has "
                f"{counted(len(evidence.runs), 'model')} that can be compared: train more seeds"
            )
        chosen = {**self.settings, **(changes or {})}
        return self.judge(evidence, seed=seed, progress=progress or (lambda done, total: None), **chosen)


def halves(pictures: int, seed: int, count: int = HALVES) -> list[Int[np.ndarray, " n"]]:
    """Half of the pictures, drawn without replacement, so often.

    A mean over half of them varies from draw to draw as much as one over all varies from sample to sample, and no
    picture comes twice, which would leak from one fold of a cross-validation to another.
    """
    rng = np.random.default_rng([seed, 1])
    return [rng.permutation(pictures)[: max(pictures // 2, 10)] for _ in range(count)]


def alike(models: Sequence[Model], at_once: int) -> list[list[int]]:
    """Places of models that one program serves side by side, at most so many together."""
    kinds: dict[Any, list[int]] = {}
    for at, model in enumerate(models):
        kind = (model.run.nets, model.run.latents, model.run.precision, type(model.autoencoder))
        kinds.setdefault(kind, []).append(at)
    return [part for group in kinds.values() for part in evenly(group, at_once)]


def seen_by(codes: Codes, rows: Int[np.ndarray, " n"]) -> Codes:
    """Codes of some of the pictures, without their factors, which no criterion may look at."""
    logvar = None if codes.logvar is None else codes.logvar[rows]
    return Codes(codes.mean[rows], logvar, np.zeros((len(rows), 0)), (), codes.flags)
