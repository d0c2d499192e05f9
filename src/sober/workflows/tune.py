"""A search for good hyperparameters without labels: Optuna proposes, families train, a criterion judges.

tune.json         what was asked: written first
trials.json       every trial with its hyperparameters, its value and the scores of its seeds
generations/NNN   the family of the trials that were asked together

A generation is a function of the request and of the trials before it, and of nothing else: Optuna's study is made anew
from `trials.json` each time. So a search that was killed anywhere goes on as if it had not been, and no file of
Optuna's own is needed. Its journal would not do: after a kill within a line it can be read, but not continued.
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
from typing import Any, Literal, NamedTuple

import numpy as np

from sober.criteria import Criterion, Evidence, find_criterion
from sober.criteria.criterion import UNFIT
from sober.criteria.udr import informative_latents
from sober.errors import RequestError, counted, listed
from sober.files import locked, read_json, writable_folder, write_json
from sober.methods import find_method
from sober.models.encode import Progress
from sober.models.family import Family, grid
from sober.training.train import Watcher, train
from sober.types import Adam, Precision, Run, Setting, read_setting, written
from sober.worlds import World

FORMAT = 1
TOGETHER, SEEDS = 6, 4
AT_RANDOM = 6  # trials before the sampler trusts what it has seen, or the first generation where that is larger
ASKS = 50  # how often to ask for each new trial before there are none left
DIGITS = 4  # of the numbers tried: a setting that is printed can be typed, and is then the same run
RELATIVE = ("pipe_rec",)  # criteria that measure from the best of a family: no measure between families

FORM = "NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=VALUE,VALUE,…"


@dataclasses.dataclass(frozen=True)
class Range:
    """Which values to try: numbers from `low` to `high`, evenly or in their logarithm, or one of `choices`."""

    low: float = math.nan
    high: float = math.nan
    log: bool = False
    choices: tuple[Setting, ...] = ()

    def __post_init__(self) -> None:
        if self.choices:
            plain = tuple(each if isinstance(each, str | bool) else float(each) for each in self.choices)
            if len(set(plain)) < len(plain):
                raise RequestError(f"{self} names a value twice")
            object.__setattr__(self, "choices", plain)
        elif not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise RequestError(f"{self} is not a range: give two numbers, as in 1..16, or values, as in 1,4,16")
        elif not self.low < self.high:
            raise RequestError(f"{self} is not a range: its first number must be the smaller one")
        elif self.log and self.low <= 0:
            raise RequestError(f"{self} has no logarithm: begin above 0, or leave :log out")

    def __str__(self) -> str:
        if self.choices:
            return ",".join(map(_text, self.choices))
        return f"{_text(float(self.low))}..{_text(float(self.high))}{':log' * self.log}"

    @property
    def ends(self) -> tuple[Setting, ...]:
        """The values that a method must allow for all of the range to be allowed."""
        return self.choices or (float(self.low), float(self.high))

    def tidy(self, value: Setting) -> Setting:
        """A value of the range as it is tried: a number has few digits, and does not leave the range by losing some."""
        if self.choices or not isinstance(value, float):
            return value
        return min(max(float(f"{value:.{DIGITS}g}"), float(self.low)), float(self.high))


def parse_space(texts: Sequence[str]) -> dict[str, Range]:
    """`["beta=1..16:log", "estimator=weighted,stratified"]` as ranges by name."""
    space: dict[str, Range] = {}
    for text in texts:
        name, _, values = text.partition("=")
        if not name or not values:
            raise RequestError(f"{text!r} is not of the form {FORM}")
        if name in space:
            raise RequestError(f"{name!r} is given twice: write {name}={space[name]} or {text}")
        space[name] = parse_range(values, text)
    return space


def parse_range(values: str, text: str) -> Range:
    """`1..16`, `1..16:log` or `1,4,16`; `text` is what errors call it."""
    low, dots, rest = values.partition("..")
    if not dots:
        return Range(choices=tuple(map(read_setting, values.split(","))))
    high, colon, scale = rest.partition(":")
    try:
        ends = float(low), float(high)
    except ValueError as error:
        raise RequestError(f"{text!r} is not of the form {FORM}") from error
    if colon and scale != "log":
        raise RequestError(f"{text!r} ends in :{scale}: a range ends in :log or in a number")
    return Range(*ends, log=bool(colon))


def _text(value: Setting) -> str:
    """As it is typed, with every digit."""
    return f"{value:.15g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else value


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
    def family(self) -> str:
        """The folder of its models, within the search's."""
        return f"generations/{self.generation:03}"

    @property
    def words(self) -> str:
        return " ".join(f"{name}={written(value)}" for name, value in self.hyper.items())


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
    def family(self) -> Family:
        """The family in which the best setting was trained, beside the others of its generation."""
        return Family.open(self.folder / self.best.family)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The best setting's runs, one for each seed."""
        hyper = self.hyper.items()
        return tuple(run for run in self.family.runs if hyper <= run.hyper.items())

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
                **{name: written(value) for name, value in trial.hyper.items()},
                f"{tuned.criterion.name} {arrow}": "-" if trial.value is None else f"{trial.value:.3f}",
                "seeds": f"{min(scores):.3f}–{max(scores):.3f}" if scores else "-",
                "fit": f"{len(scores)} of {len(trial.scores)}",
                "latents": str(trial.latents),
                "family": trial.family,
                "flags": " ".join(trial.flags),
            }
        )
    return table


def tune(
    world: World,
    method: str,
    space: Mapping[str, Range],
    *,
    out: str | Path,
    trials: int,
    steps: int,
    together: int = TOGETHER,
    seeds: int = SEEDS,
    criterion: str = "udr",
    settings: Mapping[str, Setting] | None = None,
    informative: int = 1,
    latents: int = 10,
    nets: str | None = None,
    optimiser: Adam = Adam(),  # noqa: B008 (frozen)
    batch: int = 64,
    precision: Precision | None = None,
    seed: int = 0,
    watcher: Watcher | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Searches `space` for the hyperparameters of a method that a label-free criterion likes best.

    `together` trials at a time, each with every seed, are trained as one family. A trial's value is the median of the
    criterion over its seeds; criteria that compare models compare the seeds of one trial, so what a trial is worth does
    not depend on its company. A model with fewer than `informative` informative latents is unfit to be judged: the
    cheapest way to please most criteria is to give latents up. Called again with the same `out` it goes on where it was
    stopped, or further with more `trials`.

    >>> found = sober.tune(blocks, "beta_vae", parse_space(["beta=0.5..16:log"]), out="tuned", trials=24, steps=5000)
    >>> found.hyper, found.value, found.family.folder
    """
    _optuna()
    chosen, changes = find_criterion(criterion), dict(settings or {})
    _check(method, space, chosen, changes, trials=trials, together=together, seeds=seeds, seed=seed)
    if not 1 <= informative <= latents:
        raise RequestError(f"informative must be from 1 to {latents}, the number of latents, got {informative}")
    make = functools.partial(
        grid,
        world,
        method,
        seeds=seeds,
        nets=nets,
        latents=latents,
        optimiser=optimiser,
        steps=steps,
        batch=batch,
        precision=precision,
    )
    first = make({})[0]  # with every check of a run, before anything is written
    of_runs = {name: value for name, value in first.canonical().items() if name not in ("hyper", "seed")}
    asked = {
        **{"format": FORMAT, **of_runs, "seeds": seeds, "together": together},
        **{"criterion": criterion, "settings": changes, "informative": informative, "seed": seed},
        "space": {name: str(space[name]) for name in sorted(space)},
    }
    ask = functools.partial(_asked, space=space, trials=trials, together=together, seed=seed)
    judge = functools.partial(
        _judge, criterion=chosen, changes=changes, informative=informative, seed=seed, progress=progress
    )
    folder = writable_folder(Path(out))
    with locked(folder):
        found = _begin(folder, chosen, asked)
        while (found := ask(found)).waiting:
            runs = {trial.number: make(trial.hyper) for trial in found.waiting}
            everyone = [run for of_trial in runs.values() for run in of_trial]
            family = train(everyone, world, folder / found.waiting[0].family, watcher=watcher)
            found = _told(found, judge(family, runs))
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
    if unknown := changes.keys() - criterion.settings.keys():
        has = listed(criterion.settings) or "none"
        raise RequestError(f"{criterion.name} has no setting {listed(unknown)!r}: it has {has}")
    if criterion.compares and counts["seeds"] < 2:
        raise RequestError(f"{criterion.name} compares the seeds of a trial with each other: give at least 2 seeds")
    if criterion.name in RELATIVE:
        raise RequestError(f"{criterion.name} measures from the best model of a family, and here are several: use pipe")


def _begin(folder: Path, criterion: Criterion, asked: Mapping[str, Any]) -> Tuned:
    """The trials that are there already; none, and the request written, in a new folder."""
    request = folder / "tune.json"
    if not request.exists():
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            raise RequestError(f"{folder} is not empty and holds no search: choose another --out")
        write_json(request, asked)
    about = read_json(request)
    if not isinstance(about, dict) or asked.keys() - about.keys():
        raise RequestError(f"{request} is not the request of a search: delete it, or choose another --out")
    for name, value in asked.items():
        if about[name] != value:
            raise RequestError(f"{folder} holds a search with {name} {about[name]}, not {value}: choose another --out")
    return Tuned(folder, criterion, _read(folder / "trials.json"))


def _read(path: Path) -> tuple[Trial, ...]:
    if not path.exists():
        return ()
    try:
        return tuple(map(Trial.of, read_json(path)["trials"]))
    except (KeyError, TypeError) as error:
        raise RequestError(f"{path} does not hold trials ({error!r}): restore it, or choose another --out") from error


def _kept(found: Tuned, trials: Iterable[Trial]) -> Tuned:
    """The search with these trials, on disk."""
    found = dataclasses.replace(found, trials=tuple(trials))
    plain = [{**trial._asdict(), "family": trial.family} for trial in found.trials]
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
    return _kept(found, (*found.trials, *begun))


def _told(found: Tuned, judged: Mapping[int, Sequence[Seen]]) -> Tuned:
    """The search with what the criterion said of the trials that waited for it."""
    better = found.criterion.better
    before = [trial for trial in found.trials if trial.number not in judged]
    return _kept(found, [*before, *(_valued(trial, judged[trial.number], better) for trial in found.waiting)])


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


# What trials are worth.


def _judge(
    family: Family,
    by_trial: Mapping[int, Sequence[Run]],
    *,
    criterion: Criterion,
    changes: Mapping[str, Setting],
    informative: int,
    seed: int,
    progress: Progress | None,
) -> dict[int, list[Seen]]:
    """What the criterion says of each seed of each trial."""
    evidence = _evidence(family, seed, progress)
    found: dict[Run, Seen] = {}
    groups = by_trial.values() if criterion.compares else [family.runs]  # all at once where company does not matter
    for part in (_part(evidence, group) for group in groups) if evidence is not None else ():
        if len(part.runs) <= criterion.compares:  # one model has nobody to be compared with
            found |= dict.fromkeys(part.runs, Seen(None))
            continue
        judged = criterion(part, changes, seed=seed, progress=progress)
        for run, codes, score, flags in zip(part.runs, part.codes, judged.scores, judged.flags, strict=True):
            found[run] = _seen(float(score), flags, int(informative_latents(codes).sum()), informative)
    return {number: [found.get(run, Seen(None, ("diverged",))) for run in runs] for number, runs in by_trial.items()}


def _seen(score: float, flags: Sequence[str], informative: int, least: int) -> Seen:
    """A score that counts, if the model is fit for it."""
    few = () if informative >= least else ("few_latents",) if informative else ("collapsed",)
    unfit = sorted({*(set(flags) & UNFIT.keys()), *few, *(() if math.isfinite(score) else ("not_finite",))})
    return Seen(None if unfit else score, unfit, informative)


def _evidence(family: Family, seed: int, progress: Progress | None) -> Evidence | None:
    """What can be looked at of a family; None where every model diverged."""
    try:
        return Evidence.of(family, seed=seed, progress=progress)[0]
    except RequestError:
        if any(family.model(run).diverged is None for run in family.runs):
            raise
        return None


def _part(evidence: Evidence, runs: Sequence[Run]) -> Evidence:
    wanted = set(runs)
    kept = [(run, codes) for run, codes in zip(evidence.runs, evidence.codes, strict=True) if run in wanted]
    return dataclasses.replace(evidence, runs=tuple(run for run, _ in kept), codes=tuple(codes for _, codes in kept))


def _valued(trial: Trial, seeds: Sequence[Seen], better: str) -> Trial:
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
