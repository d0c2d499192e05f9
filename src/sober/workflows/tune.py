"""A search for good hyperparameters without labels: Optuna proposes, families train, a criterion judges.

Beside what every folder of results has:

trials.json   every trial with its hyperparameters, its value and the scores of its seeds

A generation of trials is a function of the request and of the trials before it, and of nothing else: Optuna's study is
made anew from `trials.json` each time. So a search that was killed anywhere goes on as if it had not been, and no file
of Optuna's own is needed. Its journal would not do: after a kill within a line it can be read, but not continued.
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
from sober.criteria.registry import USUAL
from sober.errors import RequestError
from sober.files import locked, read_json, write_json
from sober.methods import find_method
from sober.models.grid import grid
from sober.results.folder import Folder
from sober.results.request import Cohort, Measure, Request, cohorts_of
from sober.training.progress import Watcher
from sober.types import Asked, Run, Setting, Training
from sober.workflows.evaluate import Evaluation
from sober.workflows.space import FORM, Range
from sober.workflows.trials import Seen, Trial, Tuned, seen, valued
from sober.worlds import World

TOGETHER, SEEDS = 6, 4
AT_RANDOM = 6  # trials before the sampler trusts what it has seen, or the first generation where that is larger
ASKS = 50  # how often to ask for each new trial before there are none left
STEPS = 5_000


def tune(
    world: World,
    method: str,
    space: Mapping[str, Range],
    *,
    out: str | Path,
    trials: int,
    together: int = TOGETHER,
    seeds: int = SEEDS,
    criterion: str = USUAL,
    settings: Mapping[str, Setting] | None = None,
    informative: int = 1,
    seed: int = 0,
    training: Training = Training(steps=STEPS),  # noqa: B008 (frozen)
    command: str = "",
    watcher: Watcher | None = None,
    **options: Any,
) -> Tuned:
    """Searches `space` for the hyperparameters of a method that a label-free criterion likes best.

    `together` trials at a time, each with every seed, are trained as one family. A trial's value is the median of the
    criterion over its seeds; criteria that compare models compare the seeds of one trial, so what a trial is worth does
    not depend on its company. A model with fewer than `informative` informative latents is unfit to be judged: the
    cheapest way to please most criteria is to give latents up. `options` change single fields of `training`. Called
    again with the same `out` it goes on where it was stopped, or further with more `trials`.

    >>> found = sober.tune(blocks, "beta_vae", parse_space(["beta=0.5..16:log"]), out="tuned", trials=24, steps=5000)
    >>> found.hyper, found.value, found.results
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
    first = make({})[0]  # with every check of a run, before anything is written
    asked = {
        **{name: value for name, value in first.canonical().items() if name not in ("hyper", "seed")},
        **{"space": {name: str(space[name]) for name in sorted(space)}, "together": together, "seeds": seeds},
        **{"criterion": chosen.name, "settings": changes, "informative": informative, "seed": seed},
    }
    ask = functools.partial(_asked, space=space, trials=trials, together=together, seed=seed)
    folder = _begun(Path(out), asked, world, chosen, changes, seed, command)
    with locked(folder.path):
        found = Tuned(folder.path, chosen, _read(folder.path / "trials.json"))
        while (found := ask(found)).waiting:
            runs = {trial.number: make(trial.hyper) for trial in found.waiting}
            folder = _joined_by(folder, [run for of_trial in runs.values() for run in of_trial])
            evaluation = Evaluation(folder, folder.request.measure, watcher=watcher)
            evaluation.all()
            found = _told(found, _judged(evaluation, runs, informative))
            if watcher is not None:
                watcher.note(found.so_far(trials))
    return found


def _check(
    method: str,
    space: Mapping[str, Range],
    criterion: Criterion,
    changes: Mapping[str, Setting],
    *,
    seed: int,
    **counts: int,
) -> None:
    """Refuses what could only fail after an hour of training."""
    for name, count in counts.items():
        if count < 1:
            raise RequestError(f"{name} must be at least 1, got {count}")
    if seed < 0:
        raise RequestError(f"seed must be at least 0, got {seed}")
    if not space:
        raise RequestError(f"name at least one hyperparameter to search, as {FORM}")
    for name, of in space.items():
        for value in of.ends:
            find_method(method).settings({name: value})
    criterion.configured(changes)
    if criterion.compares and counts["seeds"] < 2:
        raise RequestError(f"{criterion.name} compares the seeds of a trial with each other: give at least 2 seeds")
    if criterion.relative:
        raise RequestError(f"{criterion.name} measures from the best model of a family, and here are several: use pipe")


def _begun(
    path: Path,
    asked: Mapping[str, Any],
    world: World,
    criterion: Criterion,
    changes: Mapping[str, Setting],
    seed: int,
    command: str,
) -> Folder:
    """The folder with what was asked for; the runs are those of the generations that an earlier call began."""
    measure = Measure(
        criteria=(Asked(criterion.name, changes),), among="setting" if criterion.compares else "cohort", seed=seed
    )
    request = Request("tune", asked, {world.label: world.spec}, measure=measure, command=command)
    if (path / "request.json").exists():
        request = dataclasses.replace(request, cohorts=Folder.open(path).request.cohorts)
    return Folder.begin(path, request)


def _joined_by(folder: Folder, runs: Sequence[Run]) -> Folder:
    """The folder with a generation's runs beside those of the generations before."""
    new = [run for run in runs if run.identity not in folder.runs]
    if not new:
        return folder
    cohorts: tuple[Cohort, ...] = (*folder.request.cohorts, *cohorts_of(new))
    return Folder.begin(folder.path, dataclasses.replace(folder.request, cohorts=cohorts))


def _judged(evaluation: Evaluation, by_trial: Mapping[int, Sequence[Run]], least: int) -> dict[int, list[Seen]]:
    """What the criterion said of each seed of each trial."""
    (asked,) = evaluation.measure.criteria
    known: dict[str, Seen] = {}
    for answer in evaluation.answers(asked):
        judgement = answer.judgement
        for run, score, flags, count in zip(
            answer.question.runs, judgement.scores.tolist(), judgement.flags, answer.informative.tolist(), strict=True
        ):
            alone = math.isnan(score)  # one model has nobody to be compared with
            known[run] = Seen(None, (), count) if alone else seen(score, flags, count, least)
    diverged = Seen(None, ("diverged",))  # and was left out of what was judged
    return {number: [known.get(run.identity, diverged) for run in runs] for number, runs in by_trial.items()}


def _read(path: Path) -> tuple[Trial, ...]:
    if not path.exists():
        return ()
    try:
        return tuple(map(Trial.of, read_json(path)["trials"]))
    except (KeyError, TypeError) as error:
        raise RequestError(f"{path} does not hold trials ({error!r}): restore it, or choose another --out") from error


def kept(found: Tuned, trials: Iterable[Trial]) -> Tuned:
    """The search with these trials, on disk."""
    found = dataclasses.replace(found, trials=tuple(trials))
    plain = [trial._asdict() for trial in found.trials]
    about = {"criterion": found.criterion.name, "better": found.criterion.better, "trials": plain}
    write_json(found.folder / "trials.json", about)
    return found


def _asked(found: Tuned, *, space: Mapping[str, Range], trials: int, together: int, seed: int) -> Tuned:
    """The search with a generation that waits to be trained: one from before a stop, else a new one if there is any."""
    count = min(together, trials - len(found.trials))
    if found.waiting or count < 1:
        return found
    number = found.trials[-1].generation + 1 if found.trials else 0
    entropy = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    with _study(found, space, seed=entropy, start=max(together, AT_RANDOM)) as propose:
        new = _distinct(propose, [trial.hyper for trial in found.trials], count)
    begun = (Trial(len(found.trials) + at, number, hyper) for at, hyper in enumerate(new))
    return kept(found, (*found.trials, *begun))


def _told(found: Tuned, judged: Mapping[int, Sequence[Seen]]) -> Tuned:
    """The search with what the criterion said of the trials that waited for it."""
    better = found.criterion.better
    before = [trial for trial in found.trials if trial.number not in judged]
    return kept(found, [*before, *(valued(trial, judged[trial.number], better) for trial in found.waiting)])


def _distinct(
    propose: Callable[[], dict[str, Setting]], tried: Sequence[Mapping[str, Setting]], count: int
) -> list[dict[str, Setting]]:
    """At most so many settings that were not tried; fewer where no others are proposed, as in a small space."""
    found: list[dict[str, Setting]] = []
    for _ in range(ASKS * count):
        if len(found) == count:
            break
        if (hyper := propose()) not in tried and hyper not in found:
            found.append(hyper)
    return found


# Optuna: what it is given, and asked.


def _optuna() -> Any:
    try:
        return importlib.import_module("optuna")  # here, because it is an extra
    except ImportError as error:
        raise RequestError("Optuna is not installed: pip install 'sober[optuna]'") from error


@contextlib.contextmanager
def _study(
    found: Tuned, space: Mapping[str, Range], *, seed: int, start: int
) -> Iterator[Callable[[], dict[str, Setting]]]:
    """A study in memory that knows all trials so far, as a function that proposes the next setting.

    The sampler is the tree-structured Parzen estimator (Bergstra et al. 2011). It looks at the order of values alone.
    What it has proposed and does not know the value of counts as bad, so that the trials of a generation keep apart.
    """
    optuna = _optuna()
    spread = {name: _distribution(optuna.distributions, each) for name, each in sorted(space.items())}
    states = {"judged": optuna.trial.TrialState.COMPLETE, "failed": optuna.trial.TrialState.PRUNED}
    with _silent(optuna):
        study = optuna.create_study(
            sampler=optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=start, multivariate=True, constant_liar=True
            ),
            direction="maximize" if found.criterion.better == "higher" else "minimize",
        )
        for trial in found.trials:  # one that failed is worse than all others to the sampler; a FAIL it would forget
            study.add_trial(
                optuna.trial.create_trial(
                    state=states[trial.state], value=trial.value, params=dict(trial.hyper), distributions=spread
                )
            )
        yield lambda: {name: space[name].tidy(value) for name, value in study.ask(spread).params.items()}


def _distribution(of: Any, values: Range) -> Any:
    if values.choices:
        return of.CategoricalDistribution(values.choices)
    return of.FloatDistribution(values.low, values.high, log=values.log)


@contextlib.contextmanager
def _silent(optuna: Any) -> Iterator[None]:
    """Without Optuna's messages and its warnings that something is new, which are for people who call it themselves."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
