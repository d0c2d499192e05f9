"""The engine: it turns models into rows. Each model is trained, encoded once, and measured as requested.

Every step saves its results in the folder. A step whose results are in the folder is skipped, whichever process saved
them. Any number of processes may work on one folder: each claims a job, and a claim ends with its process. In a study,
a job that fails is tried once more, a cohort one run at a time, and then listed as failed. It never stops other jobs.

A cohort is trained, encoded, scored by metrics and used in tasks. Then criteria judge the models of each world, and
showcases are saved for the models that the report shows. All steps use one set of pictures, or a part of it, so each
model is encoded once.
"""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sober.evaluation.context import Context
from sober.evaluation.families import finished_families
from sober.evaluation.jobs import Job, JobKind
from sober.evaluation.judge_step import all_answered, answer_about, answers, judge_missing
from sober.evaluation.pictures_to_encode import pictures_to_encode
from sober.evaluation.score_rows import training_key
from sober.evaluation.score_step import metric_keys, missing_metrics, score_missing
from sober.evaluation.task_step import all_task_keys, not_performed, perform_missing, requested_tasks
from sober.evaluation.train_step import train_missing, write_training_rows
from sober.evaluation.training_states import training_states
from sober.models.encode import remove_codes
from sober.models.family import Family
from sober.results.folder import Folder
from sober.results.judgement_files import SavedJudgement
from sober.results.request import Measure
from sober.results.table_rows import KEY, Key
from sober.training.progress import Watcher
from sober.types import NamedSettings, Run

if TYPE_CHECKING:
    import polars as pl

SECONDS_BETWEEN = 1.0  # two looks for jobs that other processes have finished


class Evaluation:
    """One process at work on a folder.

    If `trains`, missing models are trained; if not, they are left out. If `strict`, an error is raised; if not, it is
    noted, and the job is tried again.
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
        self.folder, self.measure, self.trains = folder, measure, trains
        self.at_once, self.checkpoint_seconds = at_once, checkpoint_seconds
        self.context = Context(folder, measure, strict=strict, watcher=watcher)

    def all(self, kind: JobKind | None = None, cohort: str | None = None) -> None:
        """Does every job that is left and not claimed, and waits for jobs that other processes have claimed.

        `kind` limits this to jobs of one kind, `cohort` to the job of the cohort with that name.
        """
        self.folder.need_change()
        while True:
            jobs = (job for job in self.jobs() if kind in (None, job.kind) and cohort in (None, job.name))
            outcomes = [self._attempt(job) for job in jobs]
            if "done" in outcomes:
                continue
            if "claimed" not in outcomes:
                return
            time.sleep(SECONDS_BETWEEN)

    def jobs(self) -> Iterator[Job]:
        """The jobs that are left. Cohorts come first, since a world is judged when its cohorts are trained."""
        done, failures = self.folder.store.done(), self.context.failures
        for cohort in self.folder.request.cohorts:
            job = Job("cohort", cohort.runs)
            if cohort.world in self.folder.request.missing or failures.given_up(job):
                continue
            if any(self._is_left(run, done) for run in cohort.runs):
                yield job
        for label, finished in finished_families(self.folder).items():
            if self._is_settled(label) and (self.measure.criteria or self.measure.show):
                job = Job("judge", finished.runs)
                if not self._is_judged_and_shown(finished, done) and not failures.given_up(job):
                    yield job

    def answer(self, family: Family, runs: Sequence[Run], criterion: NamedSettings) -> SavedJudgement | None:
        """A criterion's judgement of these models; None if it was not asked about them."""
        return answer_about(self.context, family, runs, criterion)

    def answers(self, criterion: NamedSettings) -> Iterator[SavedJudgement]:
        """A criterion's judgement of every group of finished models."""
        return answers(self.context, criterion)

    def rows(self, runs: Sequence[Run]) -> pl.DataFrame:
        """The rows of the table about some runs, from the metrics and tasks that this evaluation requests."""
        import polars as pl  # noqa: PLC0415

        context = self.context
        keys = [
            {**dict(zip(KEY, key, strict=True)), "score": place}
            for run in runs
            for place, key in enumerate(
                [*itertools.chain(*metric_keys(context, run).values()), *all_task_keys(context, run)]
            )
        ]
        table = self.folder.store.table()
        if not keys:
            return table.clear()
        wanted = pl.DataFrame(keys, schema={**{name: table.schema[name] for name in KEY}, "score": pl.Int64})
        return wanted.join(table, on=KEY, how="inner", maintain_order="left").select(table.columns)

    # Doing a job.

    def _attempt(self, job: Job) -> str:
        """Does a job or notes its failure, and returns `done`; or `claimed`, if another process is doing the job."""
        claim = self.folder.store.claim(job.name)
        if claim is None:
            return "claimed"
        with claim:
            with self.context.noting_failures(job):
                (self._train_and_score if job.kind == "cohort" else self._judge_and_show)(job)
                self.context.failures.clear(job)
            self.context.progress.remove(job)
        return "done"

    def _train_and_score(self, job: Job) -> None:
        """Trains the runs of a cohort, scores them, and performs tasks with them."""
        context = self.context
        family = context.families[job.runs[0].world].part(job.runs)
        if self.trains:
            train_missing(context, job, family, at_once=self.at_once, checkpoint_seconds=self.checkpoint_seconds)
        done = self.folder.store.done()
        write_training_rows(context, family, done)
        score_missing(context, job, family, done)
        for requested in requested_tasks(context, family.label):
            perform_missing(context, job, family, requested, done)
        if not (self.measure.keep_codes or self.measure.criteria or self.measure.show):
            remove_codes(family, job.runs)

    def _judge_and_show(self, job: Job) -> None:
        """Asks criteria about the models of a world, and saves showcases for the models that the report shows."""
        context = self.context
        family = context.families[job.runs[0].world].part(job.runs)
        judge_missing(context, job, family, self.folder.store.done())
        if self.measure.show and self.measure.criteria:  # the report says whether they can be chosen from
            training_states(context, family, family.runs, context.teller(job, "how far models are trained"))
        if self.measure.show and _has_polars():
            from sober.evaluation.showcase_choice import show  # noqa: PLC0415 -- needs more than training does

            show(self.folder, family, pictures_to_encode(self.measure, family.world))
            if not self.measure.keep_codes:
                remove_codes(family, family.runs)
        elif not self.measure.keep_codes and not self.measure.show:
            remove_codes(family, family.runs)

    # Which jobs are left.

    def _is_left(self, run: Run, done: dict[Key, int]) -> bool:
        """Whether a run has a step left to do in its cohort."""
        context = self.context
        if not self.folder.model_path(run).exists():
            return self.trains and not context.failures.given_up(Job("cohort", (run,)))
        if training_key(run) not in done and not run.is_layer:
            return True
        if missing_metrics(context, run, done) and not context.failures.given_up(Job("score", (run,))):
            return True
        tasks = [task for task in requested_tasks(context, run.world) if context.strict or not task.refused]
        return any(not_performed(context, run, task, done) for task in tasks)

    def _is_settled(self, label: str) -> bool:
        """Whether every run on a world is trained or given up."""
        given_up, finished = self.context.failures.given_up, set(self.folder.finished)
        return not self.trains or all(
            run in finished or given_up(Job("cohort", (run,))) or given_up(Job("cohort", cohort.runs))
            for cohort in self.folder.request.cohorts
            if cohort.world == label
            for run in cohort.runs
        )

    def _is_judged_and_shown(self, family: Family, done: dict[Key, int]) -> bool:
        """Whether every criterion has judged a world's models, and the showcases for the report are saved."""
        judged = all_answered(self.context, family, done)
        if not self.measure.show or not _has_polars():
            return judged
        from sober.evaluation.showcase_choice import is_shown  # noqa: PLC0415

        return judged and is_shown(self.folder, family)


def _has_polars() -> bool:
    return importlib.util.find_spec("polars") is not None
