"""A search for good hyperparameters without labels: Optuna proposes, families train, a criterion judges.

Beside what every folder of results has:

trials.json   every trial with its hyperparameters, its value and the scores of its seeds

A generation of trials follows from the request and the earlier trials alone: for each generation, a new Optuna study is
made from `trials.json`. So a search that was killed anywhere goes on as if it had not been killed, and Optuna needs no
file. Optuna's journal would not work: if a kill leaves half a line in it, Optuna can read it but not continue it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sober.criteria import Criterion, find_criterion
from sober.defaults import TUNE_SEEDS, TUNE_STEPS, TUNE_TOGETHER, USUAL_CRITERION
from sober.errors import RequestError
from sober.evaluation.cohorts import cohorts_of
from sober.evaluation.engine import Evaluation
from sober.files import locked, read_json, write_json
from sober.installation import needing_extra
from sober.methods import find_method
from sober.models.grid import grid
from sober.requests.tune.search_space import FORM, Range
from sober.requests.tune.trials import SeedScore, Trial, Tuned, seed_score, valued
from sober.results.folder import Folder
from sober.results.request import Cohort, Measure, Request
from sober.training.progress import Watcher
from sober.types import NamedSettings, Run, Setting, Training
from sober.worlds import World

AT_RANDOM = 6  # trials drawn at random before the sampler learns from them; the first generation, if that is larger
ASKS = 50  # how often to ask for each new trial before the space counts as used up


def tune(
    world: World,
    method: str,
    space: Mapping[str, Range],
    *,
    out: str | Path,
    trials: int,
    together: int = TUNE_TOGETHER,
    seeds: int = TUNE_SEEDS,
    criterion: str = USUAL_CRITERION,
    settings: Mapping[str, Setting] | None = None,
    informative: int = 1,
    seed: int = 0,
    training: Training = Training(steps=TUNE_STEPS),  # noqa: B008 (frozen)
    command: str = "",
    watcher: Watcher | None = None,
    **options: Any,
) -> Tuned:
    """Searches `space` for the hyperparameters of a method that a label-free criterion likes best.

    `together` trials, each with every seed, are trained as one family. A trial's value is the median of the criterion's
    scores over its seeds. A criterion that compares models compares only the seeds of one trial, so a trial's value
    does not depend on other trials. A model with fewer than `informative` informative latents is unfit to be judged:
    most criteria prefer models that use few latents. `options` change single fields of `training`. Call `tune` again
    with the same `out` to go on after a stop, or with more `trials` to search further.

    >>> tuned = sober.tune(blocks, "beta_vae", parse_space(["beta=0.5..16:log"]), out="tuned", trials=24, steps=5000)
    >>> tuned.hyper, tuned.value, tuned.results
    """
    _optuna()
    chosen, changes = find_criterion(criterion), dict(settings or {})
    _check(method, space, chosen, changes, trials=trials, together=together, seeds=seeds, seed=seed)
    training = training.but(**options)
    if not 1 <= informative <= training.latents:
        raise RequestError(
            f"informative must be from 1 to {training.latents}, the number of latents, got {informative}"
        )
    make = functools.partial(grid, world, method, seeds=seeds, training=training)
    example = make({})[0]  # making a run checks the settings, before anything is written
    arguments = {
        **{name: value for name, value in example.canonical().items() if name not in ("hyper", "seed")},
        **{"space": {name: str(space[name]) for name in sorted(space)}, "together": together, "seeds": seeds},
        **{"criterion": chosen.name, "settings": changes, "informative": informative, "seed": seed},
    }
    with_next = functools.partial(_with_next_generation, space=space, trials=trials, together=together, seed=seed)
    folder = _begun(Path(out), arguments, world, chosen, changes, seed, command)
    with locked(folder.path):
        tuned = Tuned(folder.path, chosen, _read(folder.path / "trials.json"))
        while (tuned := with_next(tuned)).waiting:
            runs_by_trial = {trial.number: make(trial.hyper) for trial in tuned.waiting}
            folder = _with_runs(folder, [run for runs in runs_by_trial.values() for run in runs])
            evaluation = Evaluation(folder, folder.request.measure, watcher=watcher)
            evaluation.all()
            tuned = _with_scores(tuned, _scores_by_trial(evaluation, runs_by_trial, informative))
            if watcher is not None:
                watcher.note(tuned.so_far(trials))
    return tuned


def _check(
    method: str,
    space: Mapping[str, Range],
    criterion: Criterion,
    changes: Mapping[str, Setting],
    *,
    seed: int,
    **counts: int,
) -> None:
    """Refuses wrong arguments now that would otherwise fail only after an hour of training."""
    for name, count in counts.items():
        if count < 1:
            raise RequestError(f"{name} must be at least 1, got {count}")
    if seed < 0:
        raise RequestError(f"seed must be at least 0, got {seed}")
    if not space:
        raise RequestError(f"name at least one hyperparameter to search, as {FORM}")
    for name, values in space.items():
        for value in values.ends:
            find_method(method).settings({name: value})
    criterion.configured(changes)
    if criterion.compares and counts["seeds"] < 2:
        raise RequestError(f"{criterion.name} compares the seeds of a trial with each other: give at least 2 seeds")
    if criterion.relative:
        raise RequestError(
            f"{criterion.name} measures from the best model of a family, and a search has several families: use pipe"
        )


def _begun(
    path: Path,
    arguments: Mapping[str, Any],
    world: World,
    criterion: Criterion,
    changes: Mapping[str, Setting],
    seed: int,
    command: str,
) -> Folder:
    """Begins or reopens the folder of a search. Its runs are the runs of the generations that earlier calls began."""
    measure = Measure(
        criteria=(NamedSettings(criterion.name, changes),),
        among="setting" if criterion.compares else "cohort",
        seed=seed,
    )
    request = Request("tune", arguments, {world.label: world.spec}, measure=measure, command=command)
    if (path / "request.json").exists():
        request = dataclasses.replace(request, cohorts=Folder.open(path).request.cohorts)
    return Folder.begin(path, request)


def _with_runs(folder: Folder, runs: Sequence[Run]) -> Folder:
    """Adds the runs of a generation to the folder's request."""
    new_runs = [run for run in runs if run.identity not in folder.request.runs]
    if not new_runs:
        return folder
    cohorts: tuple[Cohort, ...] = (*folder.request.cohorts, *cohorts_of(new_runs))
    return Folder.begin(folder.path, dataclasses.replace(folder.request, cohorts=cohorts))


def _scores_by_trial(
    evaluation: Evaluation, runs_by_trial: Mapping[int, Sequence[Run]], least: int
) -> dict[int, list[SeedScore]]:
    """The criterion's scores of each trial's seeds, by the trial's number."""
    (criterion,) = evaluation.measure.criteria
    scores_by_run: dict[str, SeedScore] = {}
    for answer in evaluation.answers(criterion):
        judgement = answer.judgement
        for run, score, flags, count in zip(
            answer.question.runs, judgement.scores.tolist(), judgement.flags, answer.informative.tolist(), strict=True
        ):
            alone = math.isnan(score)  # a model without others to compare it with
            scores_by_run[run] = SeedScore(None, (), count) if alone else seed_score(score, flags, count, least)
    diverged = SeedScore(None, ("diverged",))  # criteria do not judge models that diverged
    return {
        number: [scores_by_run.get(run.identity, diverged) for run in runs] for number, runs in runs_by_trial.items()
    }


def _read(path: Path) -> tuple[Trial, ...]:
    if not path.exists():
        return ()
    try:
        return tuple(map(Trial.of, read_json(path)["trials"]))
    except (KeyError, TypeError) as error:
        raise RequestError(f"{path} does not hold trials ({error!r}): restore it, or choose another --out") from error


def save_trials(tuned: Tuned, trials: Iterable[Trial]) -> Tuned:
    """Replaces the trials of a search, also on disk."""
    tuned = dataclasses.replace(tuned, trials=tuple(trials))
    plain = [trial._asdict() for trial in tuned.trials]
    contents = {"criterion": tuned.criterion.name, "better": tuned.criterion.better, "trials": plain}
    write_json(tuned.folder / "trials.json", contents)
    return tuned


def _with_next_generation(tuned: Tuned, *, space: Mapping[str, Range], trials: int, together: int, seed: int) -> Tuned:
    """Adds a new generation of trials, unless one already waits to be trained or there are enough trials."""
    count = min(together, trials - len(tuned.trials))
    if tuned.waiting or count < 1:
        return tuned
    generation = tuned.trials[-1].generation + 1 if tuned.trials else 0
    entropy = int(np.random.SeedSequence([seed, generation]).generate_state(1)[0])
    with _proposer(tuned, space, seed=entropy, start=max(together, AT_RANDOM)) as propose:
        settings = _untried(propose, [trial.hyper for trial in tuned.trials], count)
    new_trials = (Trial(number, generation, hyper) for number, hyper in enumerate(settings, start=len(tuned.trials)))
    return save_trials(tuned, (*tuned.trials, *new_trials))


def _with_scores(tuned: Tuned, scores_by_trial: Mapping[int, Sequence[SeedScore]]) -> Tuned:
    """Gives the waiting trials their scores."""
    better = tuned.criterion.better
    before = [trial for trial in tuned.trials if trial.number not in scores_by_trial]
    judged = [valued(trial, scores_by_trial[trial.number], better) for trial in tuned.waiting]
    return save_trials(tuned, [*before, *judged])


def _untried(
    propose: Callable[[], dict[str, Setting]], tried: Sequence[Mapping[str, Setting]], count: int
) -> list[dict[str, Setting]]:
    """Up to `count` settings that were not tried. Fewer if `propose` repeats itself, as it does in a small space."""
    settings: list[dict[str, Setting]] = []
    for _ in range(ASKS * count):
        if len(settings) == count:
            break
        if (hyper := propose()) not in tried and hyper not in settings:
            settings.append(hyper)
    return settings


# Optuna.


def _optuna() -> Any:
    with needing_extra("a search"):
        return importlib.import_module("optuna")


@contextlib.contextmanager
def _proposer(
    tuned: Tuned, space: Mapping[str, Range], *, seed: int, start: int
) -> Iterator[Callable[[], dict[str, Setting]]]:
    """A function that proposes the next setting, from an Optuna study in memory with all trials so far.

    The sampler is the tree-structured Parzen estimator (Bergstra et al. 2011). It uses only the order of values. A
    proposal without a value counts as bad, so that the trials of one generation differ from each other.
    """
    optuna = _optuna()
    distributions = {name: _distribution(optuna.distributions, values) for name, values in sorted(space.items())}
    states = {"judged": optuna.trial.TrialState.COMPLETE, "failed": optuna.trial.TrialState.PRUNED}
    with _silent(optuna):
        study = optuna.create_study(
            sampler=optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=start, multivariate=True, constant_liar=True
            ),
            direction="maximize" if tuned.criterion.better == "higher" else "minimize",
        )
        for trial in tuned.trials:  # the sampler ranks PRUNED trials last; it would ignore FAIL
            study.add_trial(
                optuna.trial.create_trial(
                    state=states[trial.state], value=trial.value, params=dict(trial.hyper), distributions=distributions
                )
            )
        yield lambda: {name: space[name].tidy(value) for name, value in study.ask(distributions).params.items()}


def _distribution(distributions: Any, values: Range) -> Any:
    if values.choices:
        return distributions.CategoricalDistribution(values.choices)
    return distributions.FloatDistribution(values.low, values.high, log=values.log)


@contextlib.contextmanager
def _silent(optuna: Any) -> Iterator[None]:
    """Hides Optuna's messages and its warnings about experimental features."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
