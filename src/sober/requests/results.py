"""An opened folder of results: a person can score, rank, encode and report its models, whichever command made it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sober.criteria import Ranking
from sober.defaults import JUDGED_BY
from sober.errors import RequestError, choices, listed
from sober.installation import needing_extra
from sober.renamed import renamed
from sober.results.folder import Folder
from sober.results.judgement_files import pair_scores
from sober.results.request import Measure
from sober.results.runs import Runs, as_runs
from sober.results.shipped import find_shipped
from sober.results.tables.registry import make_tables
from sober.results.tables.table import ResultTable
from sober.setting_words import words_for_people
from sober.types import Codes, NamedSettings, Run, Setting

if TYPE_CHECKING:
    import polars as pl

    from sober.models.encode import EncodingProgress
    from sober.models.family import Family
    from sober.models.model import Model
    from sober.training.progress import Watcher
    from sober.worlds import World

# Reading a folder needs no JAX. Methods that work with models import what they need.


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Results(Folder):
    """A folder of results, with its models, codes and scores. The folder keeps every result; none is computed twice.

    >>> results = sober.open("runs/blocks")
    >>> results.score(metrics=["mig"]); results.select().best; results.report()
    """

    @staticmethod
    def of(folder: Folder) -> Results:
        """The results in a folder that is open."""
        return Results(folder.path, folder.request)

    @property
    def folder(self) -> Path:
        """The same as `path`."""
        return self.path

    @functools.cached_property
    def families(self) -> dict[str, Family]:
        """The runs on each world, by its label."""
        with needing_extra("opening worlds"):
            from sober.evaluation.families import families_of
        return families_of(self)

    @property
    def world(self) -> World:
        """The world of its runs. An error if its runs have several worlds."""
        with needing_extra("opening worlds"):
            from sober.evaluation.families import only_family
        return only_family(self).world

    @functools.cached_property
    def words(self) -> Callable[[Run], str]:
        """Says a run's setting in words for people: its method, and the settings in which the method's runs differ."""
        return words_for_people(self.runs)

    def model(self, run: Run) -> Model:
        """A finished model."""
        with needing_extra("loading models"):
            from sober.models.model import model_of
        return model_of(self.path, run)

    @renamed(sample="pictures")
    def codes(self, run: Run, *, pictures: int | None = None, seed: int = 0) -> Codes:
        """One model's codes of every picture, or of as many random ones as `pictures` says. Computed once, and kept."""
        return next(iter(self.encode([run], pictures=pictures, seed=seed)))[1]

    @renamed(sample="pictures")
    def encode(
        self,
        runs: Sequence[Run] | None = None,
        *,
        pictures: int | None = None,
        seed: int = 0,
        progress: EncodingProgress | None = None,
    ) -> Iterator[tuple[Run, Codes]]:
        """Encodes pictures with finished models one by one, and yields each run with its codes.

        `runs` limits it to some runs. `pictures` is how many random pictures to encode; None is all of them.
        """
        with needing_extra("encoding"):
            from sober.models.encode import encode, sample_of
        wanted = self.need_models() if runs is None else tuple(runs)
        self.need_change()
        for family in self.families.values():
            subset = family.part([run for run in wanted if run.world == family.label])
            if subset.runs:
                sample = None if pictures is None else sample_of(subset.world, pictures, seed)
                yield from encode(subset, subset.runs, pictures=sample, progress=progress)

    def table(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Every number about every model, whichever command computed it."""
        return self.store.table(columns)

    @renamed(sample="pictures")
    def score(
        self,
        metrics: str | Sequence[str] | None = None,
        *,
        tasks: str | Mapping[str, Mapping[str, Setting]] | Sequence[str | NamedSettings] = (),
        preset: str = "study",
        pictures: int | None = None,
        seed: int = 0,
        repeats: int = 1,
        watcher: Watcher | None = None,
    ) -> pl.DataFrame:
        """Measures every finished model as `sober.score` measures arrays, and returns the table's rows of its scores.

        `tasks` names tasks to perform with the codes. A task's settings are given as `{"downstream": {"folds": 3}}`.
        `metrics=()` leaves the metrics out.
        """
        with needing_extra("encoding"):
            from sober.requests.score import score_models
        names = [metrics] if isinstance(metrics, str) else metrics
        return score_models(
            self,
            names,
            tasks=NamedSettings.parse_all([tasks] if isinstance(tasks, str) else tasks),
            preset=preset,
            pictures=pictures,
            seed=seed,
            repeats=repeats,
            watcher=watcher,
        )

    def select(
        self,
        criteria: str | Sequence[str | NamedSettings] | None = None,
        *,
        prefer: str | None = None,
        world: str | None = None,
        settings: Mapping[str, Setting] | None = None,
        pictures: int = JUDGED_BY,
        seed: int = 0,
        watcher: Watcher | None = None,
    ) -> Ranking:
        """Ranks the finished models of a world without labels: the model to use, and how sure that is.

        `prefer` is few, balanced or complete: how much the codes must keep. With `criteria` instead, models go by
        their mean rank.
        """
        with needing_extra("judging models"):
            from sober.requests.select import select
        names = [criteria] if isinstance(criteria, str) else criteria
        rankings = select(self, names, prefer=prefer, settings=settings, pictures=pictures, seed=seed, watcher=watcher)
        if world is None and len(rankings) > 1:
            raise RequestError(f"{self.folder} has models of several worlds: give world, one of {listed(rankings)}")
        if world is not None and world not in rankings:
            raise RequestError(f"{self.folder} has no models of {world!r}: {choices(world, rankings)}")
        return next(iter(rankings.values())) if world is None else rankings[world]

    def show(self, watcher: Watcher | None = None) -> None:
        """Computes what the report shows of chosen models of each world, unless the folder already has it."""
        if not self.finished or self.fixed or self.table(["run"]).is_empty():
            return
        with needing_extra("decoding"):
            from sober.evaluation.engine import Evaluation
            from sober.evaluation.families import finished_families
            from sober.evaluation.pictures_to_encode import pictures_to_encode
            from sober.evaluation.showcase_choice import show_models
            from sober.requests.select import verdicts
        measure = Measure(show=True)
        Evaluation(self, measure, trains=False, watcher=watcher).all()
        placed = verdicts(self)  # by a rule that may choose none of the models that are best by a criterion
        for label, family in finished_families(self).items():
            if label in placed:
                runs = [run for run in family.runs if run.identity == placed[label].run]
                show_models(self, family, runs, pictures_to_encode(measure, family.world))

    def report(
        self, out: str | Path | None = None, figures: str | Path | None = None, watcher: Watcher | None = None
    ) -> Path:
        """Writes the report of the folder's results as one HTML file, and returns its path."""
        with needing_extra("a report"):
            from sober.evaluation.explorer_entries import entries_of_folder
            from sober.report.people_words import PeopleWords
            from sober.report.report import report
            from sober.requests.agree_folder import agreements
            from sober.requests.select import verdicts

        self.show(watcher)
        runs = None if (rows := self.table()).is_empty() else self.numbers()
        entries = [] if runs is None else entries_of_folder(self, PeopleWords.of(runs, rows).in_runs(runs))
        out, figures = (None if path is None else Path(path) for path in (out, figures))
        return report(self.path, out, figures, entries, verdicts(self), agreements(self))

    def tables(
        self, names: Sequence[str] | None = None, *, resamples: int = 500
    ) -> tuple[list[ResultTable], dict[str, str]]:
        """The papers' tables that can be made of these results, and for each other table the reason why not.

        `names` limits both to some tables.
        """
        return make_tables(self.numbers(), names, resamples=resamples)

    def numbers(self) -> Runs:
        """The numbers that the papers' tables are made of: a row for each run, and what the folder keeps beside it."""
        return as_runs(self.table(), pair_scores(self.folder), self.folder)


def open_results(folder: str | Path) -> Results:
    """Opens a folder of results that `train`, `fit`, `tune` or a study made, or shipped results by their name.

    >>> results = sober.open("runs/blocks")
    >>> results.runs, results.table()
    """
    return Results.of(Folder.open(folder))


def shipped_results(name: str) -> Results:
    """Opens results that come with Sober; `sober results` lists their names. A report goes into the current folder.

    >>> results = sober.results("sober_look_dsprites")
    >>> results.table(), results.report("sober_look.html")
    """
    return Results.of(Folder.open(find_shipped(name)))


@renamed(sample="pictures")
def encode_results(
    results: Results, runs: Sequence[Run] | None = None, *, pictures: int | None = None, seed: int = 0
) -> Iterator[tuple[Run, Codes]]:
    """Encodes pictures with finished models one by one, and yields each run with its codes.

    `runs` limits it to some runs. `pictures` is how many random pictures to encode; None is all of them.
    """
    return results.encode(runs, pictures=pictures, seed=seed)
