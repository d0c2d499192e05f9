"""Looks how far the models of a world are trained: at their reconstructions, their latents and how their loss fell."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from sober.contracts import ProgressCallback
from sober.criteria.criterion import Evidence, all_finite, seen_by
from sober.criteria.reconstruction_errors import reconstruction_errors
from sober.criteria.udr import informative_latents
from sober.criteria.verdict import TrainingState
from sober.evaluation.context import Context
from sober.evaluation.mean_picture import MeanPicture, few_rows, mean_picture
from sober.evaluation.pictures_to_encode import judged_pictures
from sober.methods import METHODS, hyper_of
from sober.models.encode import encode, picture_index
from sober.models.family import Family
from sober.models.model import Model, has_weights
from sober.results.training_state_files import load_training_states, save_training_states
from sober.types import Run

RECONSTRUCTION = "reconstruction"  # the curve of -log p(x|z), in nats
TINY = 1e-12


def training_states(
    context: Context, family: Family, runs: Sequence[Run], progress: ProgressCallback
) -> dict[str, TrainingState] | None:
    """How far each run's model is trained. What the folder knows already is not computed again.

    None if the weights of a model that was not looked at are gone.
    """
    states = load_training_states(context.folder.path, family.label)
    missing = [run for run in runs if run.identity not in states]
    if not all(has_weights(context.folder.path, run) for run in missing):
        return None
    if missing:
        new_states = _look(context, family, missing, progress)
        states |= {run.identity: state for run, state in new_states.items()}
        save_training_states(context.folder.path, family.label, states)
    return {run.identity: states[run.identity] for run in runs}


def _look(
    context: Context, family: Family, runs: Sequence[Run], progress: ProgressCallback
) -> dict[Run, TrainingState]:
    """Encodes and reconstructs a few pictures with each model."""
    world, pictures = family.world, judged_pictures(context.measure, family.world)  # they have been encoded
    whole_index = picture_index(world, pictures)
    rows = few_rows(world, len(whole_index))
    index = whole_index[rows]
    of_world = mean_picture(world, index)
    encoded = encode(family, runs, pictures=pictures, progress=progress)
    codes = {run: seen_by(all_codes, rows) for run, all_codes in encoded}
    finite = [run for run in runs if all_finite(codes[run].mean)]
    means = tuple(dataclasses.replace(codes[run], logvar=None) for run in finite)  # so that z is the mean
    errors: dict[Run, float] = {}
    if finite:
        evidence = Evidence(world, tuple(finite), means, index, context.model)
        squared = reconstruction_errors(evidence, context.measure.seed, progress).squared.mean(axis=1)
        errors = dict(zip(finite, squared.tolist(), strict=True))
    states = {}
    for run in runs:
        model = context.model(run)
        explained = 1 - errors.get(run, math.inf) / max(of_world.squared_error, TINY)
        reconstructs = RECONSTRUCTION in model.curves  # else pictures are not what its training compares
        states[run] = TrainingState(
            run.steps if METHODS[run.method].losses else 0,
            explained if reconstructs else math.nan,
            last_fifth(model, of_world),
            int(informative_latents(codes[run]).sum()) if run in errors else 0,
        )
    return states


def last_fifth(model: Model, of_world: MeanPicture) -> float:
    """The share of a model's progress over the mean picture that the last fifth of its training brought.

    1 if it is no better than the mean picture and still improves. NaN if its training has no such curve.
    """
    curve = np.asarray(model.curves.get(RECONSTRUCTION, ()), float)
    fifth = len(curve) // 5
    if not fifth or not np.isfinite(curve[-2 * fifth :]).all():
        return math.nan
    before, last = curve[-2 * fifth : -fifth].mean(), curve[-fifth:].mean()
    reference = of_world.nats(hyper_of(model.run))
    progress = max(reference - last, 0.05 * abs(reference))  # of a model that learned nothing: not noise by noise
    return float(min((before - last) / progress, 1.0))
