"""The one evaluation: models become rows. Each model is trained, encoded once, and measured by all that was asked for.

Every step leaves its results in the folder and is skipped where they are there, whoever left them. Any number of
processes may work on one folder: each claims a piece of work, and a claim ends with its process. In a study a piece
that fails is tried once more, a cohort one run at a time, and then listed; it never stops the others.

A cohort is trained, encoded, scored by metrics and put to use in tasks; then the models of each world are judged by
criteria, and what the report shows of some of them is kept. All of it looks at one set of pictures, or at a part of
it. So each model is encoded once.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib.metadata
import importlib.util
import itertools
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import threadpoolctl

from sober.criteria import find_criterion
from sober.criteria.criterion import Criterion, Evidence, all_finite, fit_to_judge
from sober.criteria.udr import informative_latents
from sober.device import device_kind, evenly
from sober.errors import FullDiskError, RequestError, brief, counted
from sober.machine import in_order
from sober.metrics.score import resolved, score
from sober.models.encode import HOST_BYTES, encode, forget, index_of
from sober.models.family import Family
from sober.models.model import load
from sober.results.folder import Folder
from sober.results.judged import Judged, Question, load_judged
from sober.results.measured import keep_parts
from sober.results.request import Cohort, Measure
from sober.results.rows import KEY, Key, key_of
from sober.shared import Shared
from sober.tasks import Subjects, as_scores
from sober.training.progress import Progress, Stopped, Watcher
from sober.training.train import train
from sober.types import Asked, Codes, Run, Score
from sober.workflows.desk import Desk, Stages
from sober.workflows.looking import Known, Wanted, judged_by, known, looked_at, measured_by
from sober.workflows.rows import (
    criterion_keys,
    criterion_rows,
    metric_rows,
    task_keys,
    task_rows,
    training_key,
    training_rows,
    unmeasured_rows,
    unperformed_rows,
)

if TYPE_CHECKING:
    import polars as pl

ROWS_AT_ONCE = 8  # models whose scores are written together,
ROWS_SECONDS = 20.0  # or whatever was found in this time: a kill takes no more
WAIT = 1.0  # seconds between looks at what other processes do


class Piece(NamedTuple):
    """A piece of work that is left."""

    name: str
    do: Callable[[], None]
    runs: Sequence[Run]


class Evaluation:
    """One process at work on a folder.

    `trains` says whether models that are not there are trained, or left out. `strict` says whether an error is raised,
    or noted and the piece of work tried again: a person who asked for one thing wants to know, a study goes on.
    """

    def __init__(
        self,
        folder: Folder,
        measure: Measure,
        *,
        trains: bool = True,
        strict: bool = True,
        at_once: int | None = None,
        checkpoint_seconds: float = 60.0,
        watcher: Watcher | None = None,
    ) -> None:
        self.folder, self.measure, self.watcher = folder, measure, watcher
        self.trains, self.strict = trains, strict
        self.at_once, self.checkpoint_seconds = at_once, checkpoint_seconds
        self.desk = Desk(folder.path)
        self._worlds: dict[str, Known] = {}

    def all(self, only: str = "") -> None:
        """Does all that is left and not claimed by others, and waits for what they have claimed.

        `only` limits it to the pieces of work whose names begin so: one cohort, or all judgements.
        """
        self.folder.need_change()
        while True:
            outcomes = [self._attempt(piece) for piece in self.pieces() if piece.name.startswith(only)]
            if "done" in outcomes:
                continue
            if "claimed" not in outcomes:
                return
            time.sleep(WAIT)

    def pieces(self) -> Iterator[Piece]:
        """Pieces of work that are left, those first that others wait for."""
        done = self.folder.store.done()
        for cohort in self.folder.request.cohorts:
            if cohort.world in self.folder.request.missing or self.desk.given_up(cohort.name):
                continue
            if any(self._left(run, done) for run in cohort.runs):
                yield Piece(cohort.name, functools.partial(self.cohort, cohort), cohort.runs)
        for family in self.folder.families.values():
            trained = family.part(family.finished)
            if trained.runs and self._settled(family) and (self.measure.criteria or self.measure.show):
                name = self._judgement(trained)
                if not self._concluded(trained, done) and not self.desk.given_up(name):
                    yield Piece(name, functools.partial(self.conclude, trained), trained.runs)

    # A cohort: train, encode, score, put to use.

    def cohort(self, cohort: Cohort) -> None:
        """Trains what is not trained, scores what is not scored, tries what is not tried, of the runs of a cohort."""
        family = self.folder.families[cohort.world].part(cohort.runs)
        self._check_models(family)
        untrained = [run for run in cohort.runs if not family.model_path(run).exists()]
        if untrained and self.trains:
            alone = self.desk.tries(cohort.name) > 0  # a run that fails takes no other with it the second time
            for runs in [[run] for run in untrained] if alone and len(untrained) > 1 else [untrained]:
                part = Cohort.of(runs)
                with self._noting(part.name, runs) if alone else contextlib.nullcontext():
                    self._train(cohort, part)
        done = self.folder.store.done()
        self._training_rows(family, done)
        self._score(cohort.name, family, done)
        for wanted in self._wanted(cohort.world):
            self._try(cohort.name, family, wanted, done)
        if not (self.measure.keep_codes or self.measure.criteria or self.measure.show):
            forget(family, cohort.runs)

    def _check_models(self, family: Family) -> None:
        """Sets aside models that are damaged, so that they are trained again."""
        for run in family.finished if self.trains else ():
            try:
                load(family.model_path(run))
            except RequestError as error:
                self.folder.store.set_aside(family.model_path(run), f"cannot be used ({brief(error)})")

    def _train(self, cohort: Cohort, part: Cohort) -> None:
        family = self.folder.families[cohort.world].part(part.runs)
        checkpoints = self.folder.checkpoints(part)
        checkpoints.parent.mkdir(exist_ok=True)
        train(
            family,
            checkpoints,
            at_once=self.at_once,
            checkpoint_seconds=self.checkpoint_seconds,
            watcher=_Telling(self, cohort.name),
        )

    def _training_rows(self, family: Family, done: dict[Key, int]) -> None:
        """Where every term of a run's training ended, of runs that the table does not say it of."""
        lacking = [run for run in family.finished if training_key(run) not in done]
        self._write(row for run in lacking for row in training_rows(family.model(run)))

    def _score(self, name: str, family: Family, done: dict[Key, int]) -> None:
        """Every metric of every trained run, as many runs at once as there are cores."""
        wanted = {run: lacking for run in family.finished if (lacking := self._lacking(run, done))}
        if not wanted:
            return
        pictures, whole = (which(self.measure, family.world) for which in (measured_by, looked_at))
        encoded = encode(family, list(wanted), pictures=pictures, within=whole, progress=self._told(name))
        rows: list[Score] = []
        written = time.monotonic()
        with threadpoolctl.threadpool_limits(1):
            for count, scores in enumerate(in_order(functools.partial(self._scores, wanted), encoded), start=1):
                rows += scores
                self._tell(name, "scoring", count, len(wanted))
                late = time.monotonic() - written > ROWS_SECONDS
                if late or count % ROWS_AT_ONCE == 0 or count == len(wanted):
                    self._write(rows)
                    rows, written = [], time.monotonic()

    def _scores(self, wanted: dict[Run, list[str]], encoded: tuple[Run, Codes]) -> list[Score]:
        (run, codes), asked = encoded, self.measure
        with self._noting(f"score-{run.identity}", [run]):
            if not all_finite(codes.mean):
                return unmeasured_rows(run, wanted[run], asked, codes, "not_finite")
            scores = score(codes, metrics=wanted[run], preset=asked.preset, seed=asked.seed, repeats=asked.repeats)
            keep_parts(self.folder.path, run.identity, scores)
            rows = metric_rows(run, scores, asked, len(codes.mean))
            # A row says so where a metric cannot be computed: else it would be tried again and again.
            left_out = list(scores.left_out)
            return rows + (unmeasured_rows(run, left_out, asked, codes, "not_measured") if left_out else [])
        return []

    def _try(self, name: str, family: Family, wanted: Wanted, done: dict[Key, int]) -> None:
        """A task, with every trained run that has no row of it: as many at once as one program takes."""
        runs = [run for run in family.finished if self._untried(run, wanted, done)]
        if not runs:
            return
        if wanted.refused:
            if self.strict:
                raise RequestError(f"{wanted.task.name}: {wanted.refused}")
            return
        pictures, whole = (which(self.measure, family.world) for which in (measured_by, looked_at))
        index = None if pictures is None else index_of(family.world, pictures)
        size = 8 * runs[0].latents * self._known(family.label).measured_by  # bytes of one model's codes
        encoded, count = encode(family, runs, pictures=pictures, within=whole, progress=self._told(name)), 0
        for part in evenly(runs, max(1, min(wanted.task.together, HOST_BYTES // size))):
            subjects = [next(encoded) for _ in part]
            alone = self.desk.tries(_tried(wanted, part)) > 0  # a run that fails takes no other with it the second time
            for some in [[subject] for subject in subjects] if alone else [subjects]:
                self._perform(name, family, wanted, some, index, (count, len(runs)))
                count += len(some)
                self._tell(name, wanted.task.name, count, len(runs))

    def _perform(
        self,
        name: str,
        family: Family,
        wanted: Wanted,
        encoded: Sequence[tuple[Run, Codes]],
        index: np.ndarray | None,
        so_far: tuple[int, int],
    ) -> None:
        """A task with some models at once, whose rows are then written; those whose codes are no numbers say so."""
        asked, task, started = self.measure, wanted.task, time.monotonic()
        fit = [(run, codes) for run, codes in encoded if all_finite(codes.mean)]
        unfit = [(run, codes) for run, codes in encoded if not all_finite(codes.mean)]
        self._write(row for run, codes in unfit for row in unperformed_rows(run, wanted, asked, codes))
        if not fit:
            return
        runs = [run for run, _ in fit]
        subjects = Subjects(tuple(codes for _, codes in fit), tuple(runs), family.world, index, family.model)
        with self._noting(_tried(wanted, runs), runs):
            before, total = so_far

            def told(part: int, whole: int) -> None:
                """In thousandths of a model, so that one task has one bar whatever it counts."""
                self._tell(name, task.name, int(1000 * (before + len(fit) * part / max(whole, 1))), 1000 * total)

            outcomes = task(subjects, wanted.settings, preset=asked.preset, seed=asked.seed, progress=told)
            seconds, rows = (time.monotonic() - started) / len(fit), []
            for (run, codes), outcome in zip(fit, outcomes, strict=True):
                scores = as_scores(task, wanted.settings, outcome, subjects, seconds)
                keep_parts(self.folder.path, run.identity, scores)
                rows += task_rows(run, wanted, scores, asked, len(codes.mean))
            self._write(rows)

    # A world: judge, show.

    def conclude(self, family: Family) -> None:
        """What criteria say of the models of a world, and what the report shows of some of them."""
        name, done = self._judgement(family), self.folder.store.done()
        for runs in self._groups(family):
            if not all(self._answered(question, done) for question in self._questions(family, runs)):
                self._judge(name, family, runs)
        if self.measure.show and _has_polars():
            from sober.workflows.shown import show  # noqa: PLC0415 -- draws, and so needs more than training does

            show(self.folder, family, looked_at(self.measure, family.world))
            if not self.measure.keep_codes:
                forget(family, family.runs)
        elif not self.measure.keep_codes and not self.measure.show:
            forget(family, family.runs)

    def _judge(self, name: str, family: Family, runs: Sequence[Run]) -> None:
        evidence, shared = self._evidence(name, family, runs), Shared()
        identities = tuple(run.identity for run in evidence.runs)
        informative = np.array([int(informative_latents(codes).sum()) for codes in evidence.codes], np.int64)
        for asked in self.measure.criteria:
            question = self._question(family, runs, asked)
            criterion, started = find_criterion(asked.name), time.monotonic()
            if (answer := self.judged(family, runs, asked)) is not None:  # the table may have lost its rows
                self._write(criterion_rows(criterion, answer.question, answer.judgement, 0.0))
                continue
            if len(evidence.runs) < (2 if criterion.compares else 1):
                self._refuse_too_few(criterion, evidence, len(runs))
                Judged.nothing(question._replace(runs=identities), informative).save(self.folder.path, question)
                continue
            judgement = criterion(
                evidence, asked.settings, seed=self.measure.seed, shared=shared, progress=self._told(name, asked.name)
            )
            answer = Judged(question._replace(runs=identities), judgement, informative)
            self._write(criterion_rows(criterion, answer.question, judgement, time.monotonic() - started))
            answer.save(self.folder.path, question)

    def _refuse_too_few(self, criterion: Criterion, evidence: Evidence, asked: int) -> None:
        """An error where a person asked for it; in a study, and in a search, there is simply nothing to say."""
        if not self.strict or self.measure.among != "world":
            return
        if not evidence.runs:
            raise RequestError(f"no model of {self.folder.path} is fit to be chosen: all {asked} diverged")
        raise RequestError(
            f"{criterion.name} compares models with each other, and {self.folder.path} has "
            f"{counted(len(evidence.runs), 'model')} that can be compared: train more seeds"
        )

    def _evidence(self, name: str, family: Family, runs: Sequence[Run]) -> Evidence:
        """What models say of the pictures that criteria look at; those that are no numbers are left out."""
        world, pictures = family.world, judged_by(self.measure, family.world)
        encoded = list(encode(family, runs, pictures=pictures, progress=self._told(name, "encoding")))
        fit = [(run, codes) for run, codes in encoded if fit_to_judge(codes)]
        index = None if pictures is None else index_of(world, pictures)
        codes = tuple(codes for _, codes in fit)
        return Evidence(world, tuple(run for run, _ in fit), codes, index, family.model)

    def judged(self, family: Family, runs: Sequence[Run], asked: Asked) -> Judged | None:
        """What a criterion said of models; None where it has not been asked, or had nothing to compare."""
        path = self._question(family, runs, asked).path(self.folder.path)
        return load_judged(path) if path.exists() else None

    def answers(self, asked: Asked) -> Iterator[Judged]:
        """What a criterion said of all models that it was asked about."""
        for family in self.folder.families.values():
            for runs in self._groups(family.part(family.finished)) if family.finished else ():
                if (answer := self.judged(family, runs, asked)) is not None:
                    yield answer

    def rows(self, runs: Sequence[Run]) -> pl.DataFrame:
        """The rows of the table that this evaluation's metrics and tasks wrote, or found there, about some runs."""
        import polars as pl  # noqa: PLC0415

        keys = [
            {**dict(zip(KEY, key, strict=True)), "score": place}
            for run in runs
            for place, key in enumerate([*itertools.chain(*self._keys(run).values()), *self._task_keys(run)])
        ]
        table = self.folder.store.table()
        if not keys:
            return table.clear()
        wanted = pl.DataFrame(keys, schema={**{name: table.schema[name] for name in KEY}, "score": pl.Int64})
        return wanted.join(table, on=KEY, how="inner", maintain_order="left").select(table.columns)

    # What is there.

    def _left(self, run: Run, done: dict[Key, int]) -> bool:
        """Whether something of a run is left to do in its cohort."""
        if not self.folder.model_path(run).exists():
            return self.trains and not self.desk.given_up(Cohort.of([run]).name)
        if training_key(run) not in done:
            return True
        if self._lacking(run, done) and not self.desk.given_up(f"score-{run.identity}"):
            return True
        tasks = self._wanted(run.world)
        return any(self._untried(run, wanted, done) for wanted in tasks if self.strict or not wanted.refused)

    def _wanted(self, label: str) -> tuple[Wanted, ...]:
        """The tasks that were asked for, as models of a world are asked; where none was, no world is opened."""
        return self._known(label).tasks if self.measure.tasks else ()

    def _untried(self, run: Run, wanted: Wanted, done: dict[Key, int]) -> bool:
        """Whether the table has no row of a task about a run, and a study has not given it up."""
        keys = task_keys(run, wanted, self.measure, self._known(run.world).measured_by)
        if any(key in done for key in keys):
            return False
        return self.strict or not self.desk.given_up(_tried(wanted, [run]))

    def _task_keys(self, run: Run) -> list[Key]:
        return [
            key
            for wanted in self._wanted(run.world)
            for key in task_keys(run, wanted, self.measure, self._known(run.world).measured_by)
        ]

    def _lacking(self, run: Run, done: dict[Key, int]) -> list[str]:
        """Metrics, or single scores, of which the table has no row."""
        return [name for name, keys in self._keys(run).items() if not any(key in done for key in keys)]

    def _keys(self, run: Run) -> dict[str, list[Key]]:
        """The keys of the rows that each metric, or single score, that was asked for may have about a run."""
        if self.measure.metrics == ():
            return {}
        asked, world = self.measure, self._known(run.world)
        keys: dict[str, list[Key]] = {}
        for metric, wanted, changes in resolved(asked.metrics, world.labelled):
            settings = metric.configured(asked.preset, changes)
            for name in metric.scores:
                if wanted is None or name in wanted:
                    row = Score(
                        run.identity, name, 0.0, preset=asked.preset, settings=settings, pictures=world.measured_by,
                        draw=asked.seed, repeats=asked.repeats,
                    )  # fmt: skip
                    keys.setdefault(metric.name if wanted is None else name, []).append(key_of(row))
        return keys

    def _known(self, label: str) -> Known:
        if label not in self._worlds:
            family = self.folder.families[label]
            # Not the folder's own family, which would keep the world open.
            self._worlds[label] = known(self.measure, family.part(family.runs).world)
        return self._worlds[label]

    def _groups(self, family: Family) -> list[tuple[Run, ...]]:
        """Whom criteria compare with each other."""
        if self.measure.among == "world":
            return [family.runs]
        if self.measure.among == "cohort":
            return [cohort.runs for cohort in self.folder.cohorts(family.runs)]
        groups: dict[str, list[Run]] = {}
        for run in family.runs:
            groups.setdefault(run.seedless, []).append(run)
        return [tuple(runs) for runs in groups.values()]

    def _questions(self, family: Family, runs: Sequence[Run]) -> list[Question]:
        return [self._question(family, runs, asked) for asked in self.measure.criteria]

    def _answered(self, question: Question, done: dict[Key, int]) -> bool:
        """Whether a criterion has been asked, and the table says what it said."""
        path = question.path(self.folder.path)
        if not path.exists():
            return False
        if any(key in done for key in criterion_keys(question)):
            return True
        return not load_judged(path).said_something()

    def _question(self, family: Family, runs: Sequence[Run], asked: Asked) -> Question:
        settings = find_criterion(asked.name).configured(asked.settings)
        label, identities = family.label, tuple(run.identity for run in runs)
        count = min(self.measure.judged_by, self._known(label).everything)
        return Question(asked.name, settings, label, identities, count, self.measure.seed)

    def _judgement(self, family: Family) -> str:
        """The name of the work on the models of a world."""
        return f"judge-{Cohort.of(family.runs).name}"

    def _concluded(self, family: Family, done: dict[Key, int]) -> bool:
        questions = [question for runs in self._groups(family) for question in self._questions(family, runs)]
        judged = all(self._answered(question, done) for question in questions)
        if not self.measure.show or not _has_polars():
            return judged
        from sober.workflows.shown import is_shown  # noqa: PLC0415

        return judged and is_shown(self.folder, family)

    def _settled(self, family: Family) -> bool:
        """Whether every run on a world is trained, or given up."""
        return not self.trains or all(
            family.model_path(run).exists()
            or self.desk.given_up(Cohort.of([run]).name)
            or self.desk.given_up(cohort.name)
            for cohort in self.folder.request.cohorts
            if cohort.world == family.label
            for run in cohort.runs
        )

    def _write(self, rows: Iterable[Score]) -> None:
        self.folder.store.write(
            rows,
            self.folder.runs,
            device=device_kind(),
            versions=versions(),
            scale=self.folder.request.scale,
        )

    # What went wrong, and where things stand.

    def _attempt(self, piece: Piece) -> str:
        """`done`, well or noted as a failure, or `claimed` by another."""
        claim = self.folder.store.claim(piece.name)
        if claim is None:
            return "claimed"
        with claim:
            with self._noting(piece.name, piece.runs):
                piece.do()
                self.desk.succeeded(piece.name)
            self.desk.finished(piece.name)
        return "done"

    @contextlib.contextmanager
    def _noting(self, name: str, runs: Sequence[Run]) -> Iterator[None]:
        """In a study, notes what fails in the block and goes on after it; but no room on the disk stops everything."""
        try:
            yield
        except (Stopped, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            if isinstance(error, FullDiskError) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                raise FullDiskError(
                    f"{self.folder.path}: the disk is full ({brief(error)}); make room, and the same command goes on"
                ) from error
            if self.strict:
                raise
            said = self.desk.failed(name, runs, error)
            if self.watcher is not None:
                self.watcher.note(said)

    def _told(self, name: str, what: str = "encoding") -> Callable[[int, int], None]:
        return functools.partial(self._tell, name, what)

    def _tell(self, name: str, what: str, done: int, total: int) -> None:
        self.desk.tell(name, {"what": what, "done": done, "total": total})
        if isinstance(self.watcher, Stages):
            self.watcher.stage(what, done, total)


class _Telling:
    """Training's progress, for those who look at the folder and for whoever watches here."""

    def __init__(self, evaluation: Evaluation, cohort: str) -> None:
        self.evaluation, self.cohort = evaluation, cohort

    def progress(self, progress: Progress) -> None:
        about = {"what": "training", "done": progress.done, "total": progress.total, "rate": progress.rate}
        self.evaluation.desk.tell(self.cohort, {**about, "left": progress.seconds_left})
        if self.evaluation.watcher is not None:
            self.evaluation.watcher.progress(self._among_all(progress))

    def note(self, text: str) -> None:
        if self.evaluation.watcher is not None:
            self.evaluation.watcher.note(text)

    def _among_all(self, progress: Progress) -> Progress:
        """Counted over all cohorts of the folder, where there are several."""
        cohorts = self.evaluation.folder.request.cohorts
        if len(cohorts) < 2:
            return progress
        number = [cohort.name for cohort in cohorts].index(self.cohort)
        before, total = (
            sum(run.steps for cohort in some for run in cohort.runs) for some in (cohorts[:number], cohorts)
        )
        done = before + progress.done
        left = (total - done) / progress.rate if progress.rate else float("nan")
        return progress._replace(done=done, total=total, seconds_left=left, cohort=number + 1, cohorts=len(cohorts))


def _tried(wanted: Wanted, runs: Sequence[Run]) -> str:
    """The name of the work on a task with some runs."""
    return f"{wanted.task.name}-{Cohort.of(runs).name}"


def _has_polars() -> bool:
    return importlib.util.find_spec("polars") is not None


@functools.cache
def versions() -> dict[str, str]:
    """Of what numbers depend on."""
    known = {}
    for name in ("sober", "jax", "numpy", "scikit-learn"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            known[name] = importlib.metadata.version(name)
    checkout = Path(__file__).resolve().parents[3] / "pyproject.toml"
    if "sober" not in known and checkout.exists():  # run from a source tree that is not installed
        known["sober"] = tomllib.loads(checkout.read_text(encoding="utf-8"))["project"]["version"]
    return known
