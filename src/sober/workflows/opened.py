"""A folder of results, opened: what a person can ask of it, whoever made it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sober.criteria import Ranking
from sober.criteria.registry import USUAL
from sober.errors import RequestError, listed
from sober.models.encode import Pictures, Progress, encode, enough
from sober.models.model import Model
from sober.results.folder import Folder
from sober.results.judged import pairs_of
from sober.results.papers import Made, make
from sober.results.request import JUDGED_BY, Measure, Request
from sober.results.runs import Runs, as_runs
from sober.results.shipped import find_shipped
from sober.training.progress import Watcher
from sober.types import Asked, Codes, Run, Setting
from sober.workflows.evaluate import Evaluation
from sober.workflows.score import score_models
from sober.workflows.select import select
from sober.worlds import World

if TYPE_CHECKING:
    import polars as pl


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
    """Runs, their models, codes and scores, in one folder. What was computed is kept there and not computed again.

    >>> results = sober.open("runs/blocks")
    >>> results.score(metrics=["mig"]); results.select().best; results.report()
    """

    opened: Folder

    @property
    def folder(self) -> Path:
        return self.opened.path

    @property
    def request(self) -> Request:
        """What was asked of the folder."""
        return self.opened.request

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(self.opened.runs.values())

    @property
    def finished(self) -> tuple[Run, ...]:
        """The runs whose models are there."""
        return self.opened.finished

    @property
    def world(self) -> World:
        """The world of its runs; refused where there are several."""
        return self.opened.family().world

    @property
    def words(self) -> Callable[[Run], str]:
        """A run's setting in words, as far as it differs from that of the others."""
        return self.opened.words

    def run(self, name: str) -> Run:
        """The run whose identity begins so."""
        return self.opened.run(name)

    def model(self, run: Run) -> Model:
        """A finished model."""
        return self.opened.model(run)

    def model_path(self, run: Run) -> Path:
        return self.opened.model_path(run)

    def codes(self, run: Run, *, sample: int | None = None, seed: int = 0) -> Codes:
        """The codes of every picture under one model, or of a random sample: computed once, and kept."""
        return next(iter(self.encode([run], sample=sample, seed=seed)))[1]

    def encode(
        self,
        runs: Sequence[Run] | None = None,
        *,
        sample: int | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[tuple[Run, Codes]]:
        """Codes of finished runs, one after the other: all, or the given ones."""
        wanted = self.opened.need_models() if runs is None else tuple(runs)
        self.opened.need_change()
        for family in self.opened.families.values():
            part = family.part([run for run in wanted if run.world == family.label])
            if part.runs:
                yield from encode(part, part.runs, pictures=self._pictures(part.world, sample, seed), progress=progress)

    def _pictures(self, world: World, sample: int | None, seed: int) -> Pictures:
        return None if sample is None else enough(world, sample, seed)

    def table(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Every number about every model, whichever command computed it."""
        return self.opened.store.table(columns)

    def score(
        self,
        metrics: str | Sequence[str] | None = None,
        *,
        tasks: str | Mapping[str, Mapping[str, Setting]] | Sequence[str | Asked] = (),
        preset: str = "study",
        sample: int | None = None,
        seed: int = 0,
        repeats: int = 1,
        watcher: Watcher | None = None,
    ) -> pl.DataFrame:
        """Measures every finished model, as `sober.score` does arrays, and returns the rows that say so.

        `tasks` are performed with their codes; with settings as `{"downstream": {"folds": 3}}`. `metrics=()` leaves
        the metrics out.
        """
        names = [metrics] if isinstance(metrics, str) else metrics
        return score_models(
            self.opened,
            names,
            tasks=Asked.all([tasks] if isinstance(tasks, str) else tasks),
            preset=preset,
            sample=sample,
            seed=seed,
            repeats=repeats,
            watcher=watcher,
        )

    def select(
        self,
        criteria: str | Sequence[str | Asked] = (USUAL,),
        *,
        world: str | None = None,
        settings: Mapping[str, Setting] | None = None,
        pictures: int = JUDGED_BY,
        seed: int = 0,
        watcher: Watcher | None = None,
    ) -> Ranking:
        """Ranks the finished models of a world without labels: the model to use, and how sure that is."""
        names = [criteria] if isinstance(criteria, str) else criteria
        rankings = select(self.opened, names, settings=settings, pictures=pictures, seed=seed, watcher=watcher)
        if world is None and len(rankings) > 1:
            raise RequestError(f"{self.folder} has models of several worlds: give world, one of {listed(rankings)}")
        if world is not None and world not in rankings:
            raise RequestError(f"{self.folder} has no models of {world!r}: choose one of {listed(rankings)}")
        return next(iter(rankings.values())) if world is None else rankings[world]

    def show(self, watcher: Watcher | None = None) -> None:
        """Keeps what the report shows of chosen models of each world, where it is not there yet."""
        if self.finished and not self.opened.fixed and not self.table(["run"]).is_empty():
            Evaluation(self.opened, Measure(show=True), trains=False, watcher=watcher).all()

    def report(
        self, out: str | Path | None = None, figures: str | Path | None = None, watcher: Watcher | None = None
    ) -> Path:
        """Writes everything that the folder has to say as one HTML file, and returns its path."""
        from sober.report.report import report  # noqa: PLC0415 -- draws, and so takes long to import

        self.show(watcher)
        return report(self.folder, None if out is None else Path(out), None if figures is None else Path(figures))

    def tables(self, names: Sequence[str] | None = None, *, resamples: int = 500) -> tuple[list[Made], dict[str, str]]:
        """The papers' tables that the results allow, or those asked for; and for the others why not."""
        return make(self.numbers(), names, resamples=resamples)

    def numbers(self) -> Runs:
        """The table with a row for each run, and what the folder keeps beside it: what tables are made of."""
        return as_runs(self.table(), pairs_of(self.folder), self.folder)

    def summary(self) -> str:
        """What is in it, in a few words."""
        return self.opened.summary()


def open_results(folder: str | Path) -> Results:
    """The results in a folder that `train`, `fit`, `tune` or a study made, or those of a name that come with Sober.

    >>> results = sober.open("runs/blocks")
    >>> results.runs, results.table()
    """
    return Results(Folder.open(folder))


def shipped_results(name: str) -> Results:
    """Results that come with Sober, as `sober results` lists them. They are only read: a report goes elsewhere.

    >>> results = sober.results("sober_look_dsprites")
    >>> results.table(), results.report("sober_look.html")
    """
    return Results(Folder.open(find_shipped(name)))


def encode_results(
    results: Results, runs: Sequence[Run] | None = None, *, sample: int | None = None, seed: int = 0
) -> Iterator[tuple[Run, Codes]]:
    """Codes of the finished runs of some results, one after the other: of every picture, or of a random sample."""
    return results.encode(runs, sample=sample, seed=seed)
