"""The context that every step of an evaluation shares: the folder, the measurements, notes of progress and failures."""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator

from sober.device import device_kind
from sober.errors import FullDiskError, brief
from sober.evaluation.failures import Failures
from sober.evaluation.families import families_of
from sober.evaluation.jobs import Job
from sober.evaluation.pictures_to_encode import WorldFacts, world_facts
from sober.evaluation.progress_notes import ProgressNotes, StageWatcher
from sober.files.model_files import finished_runs
from sober.installation import version
from sober.methods.settings import setting
from sober.models.model import Model, TrainingRecord, model_of, record_of
from sober.results.folder import Folder
from sober.results.request import Measure
from sober.training.progress import Stopped, Watcher
from sober.types import Run, Score


class Context:
    """One process at work on a folder.

    If `strict`, an error is raised, for a person who asked for one result. If not, it is noted, the job is tried again
    later, and the process goes on, as in a study.
    """

    def __init__(self, folder: Folder, measure: Measure, *, strict: bool, watcher: Watcher | None) -> None:
        self.folder, self.measure, self.strict, self.watcher = folder, measure, strict, watcher
        self.families = families_of(folder)
        self.progress = ProgressNotes(folder.path)
        self.failures = Failures(folder.path)
        self._worlds: dict[str, WorldFacts] = {}  # one for each world of the folder

    def world(self, label: str) -> WorldFacts:
        """The facts about a world that the steps need."""
        if label not in self._worlds:
            family = self.families[label]
            opened = family.part(family.runs).world  # of a copy: the family itself would keep its world open
            self._worlds[label] = world_facts(self.measure, opened)
        return self._worlds[label]

    def finished(self, runs: Iterable[Run]) -> tuple[Run, ...]:
        """The runs whose models are finished."""
        return finished_runs(self.folder.path, runs)

    def model(self, run: Run) -> Model:
        """A finished model."""
        return model_of(self.folder.path, run)

    def record(self, run: Run) -> TrainingRecord:
        """How the training of a finished model went. Its weights may not have been kept."""
        return record_of(self.folder.path, run)

    def write(self, rows: Iterable[Score]) -> None:
        """Adds rows to the folder's table."""
        self.folder.store.write(
            rows,
            self.folder.request.runs,
            in_words=setting,
            device=device_kind(),
            versions=versions(),
            scale=self.folder.request.scale,
        )

    def tell(self, job: Job, stage: str, done: int, total: int) -> None:
        """Notes and shows how much of a stage of a job is done."""
        self.progress.write(job, {"what": stage, "done": done, "total": total})
        if isinstance(self.watcher, StageWatcher):
            self.watcher.stage(stage, done, total)

    def teller(self, job: Job, stage: str = "encoding") -> Callable[[int, int], None]:
        """`tell` for one stage of one job: a function of (done, total)."""
        return functools.partial(self.tell, job, stage)

    @contextlib.contextmanager
    def noting_failures(self, job: Job) -> Iterator[None]:
        """Unless strict, notes an error in the block and goes on after the block. A full disk stops everything."""
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
            message = self.failures.add(job, error)
            if self.watcher is not None:
                self.watcher.note(message)


@functools.cache
def versions() -> dict[str, str]:
    """The versions of Sober and of the packages on which its numbers depend."""
    by_package = {"sober": version()}
    for name in ("jax", "numpy", "scikit-learn"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            by_package[name] = importlib.metadata.version(name)
    return by_package
