"""Which models of a folder the report shows, and what is kept of them for it."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy

from sober.criteria.criterion import fit_to_judge
from sober.files import read_json, write_json
from sober.methods import find_method
from sober.models.encode import Pictures, encode, index_of
from sober.models.family import Family
from sober.report.pair import best_and_muddled, pair_of
from sober.report.report import shown_runs
from sober.report.showcase import keep_showcase, shown_path
from sober.results.folder import Folder
from sober.results.request import Cohort
from sober.results.runs import USUAL_PRESET, Runs, as_runs, reading_order
from sober.types import Run

if TYPE_CHECKING:
    import polars as pl

BEST = 3  # models of each world that criteria without labels put first


def show(folder: Folder, family: Family, pictures: Pictures) -> None:
    """Keeps what the report shows of chosen models of a world, where it is not there yet."""
    by_identity = {run.identity: run for run in family.runs}
    chosen = [by_identity[identity] for identity in chosen_models(folder.store.table(), family)]
    lacking = [run for run in chosen if not shown_path(folder.path, run.identity).exists()]
    for run, codes in encode(family, lacking, pictures=pictures) if lacking else ():
        if fit_to_judge(codes):  # there is nothing to see of others
            keep_showcase(folder.path, family.model(run), codes, family.world, index_of(family.world, pictures))
    shown = [run.identity for run in chosen if shown_path(folder.path, run.identity).exists()]
    write_json(_marker(folder, family), {"world": family.label, "runs": shown})


def keep_pair(folder: Folder, family: Family, pictures: Pictures) -> tuple[str, ...]:
    """Keeps what a report shows first of models of a world: of the best, and of the lowest of the same setting.

    By the rows as they are written, so that a machine without Polars can do it; returns the identities.
    """
    numbers = leading_numbers(folder, {run.identity for run in family.runs})
    pair = best_and_muddled(numbers, {run.identity: run.seedless for run in family.runs})
    runs = [run for run in family.runs if run.identity in pair]
    lacking = [run for run in runs if not shown_path(folder.path, run.identity).exists()]
    for run, codes in encode(family, lacking, pictures=pictures) if lacking else ():
        if fit_to_judge(codes):
            keep_showcase(folder.path, family.model(run), codes, family.world, index_of(family.world, pictures))
    return pair


def leading_numbers(folder: Folder, runs: Container[str]) -> dict[str, float]:
    """The number that speaks for the others, of each of some runs, turned so that more is better."""
    turned: dict[str, dict[str, float]] = {}
    signs = {"higher": 1.0, "lower": -1.0}
    for row in folder.store.rows():
        sound = row.get("value") is not None and "diverged" not in row["flags"]
        if row["run"] in runs and row["better"] in signs and sound and not row["matrix"]:
            of_name = turned.setdefault(row["metric"], {})
            if row["preset"] == USUAL_PRESET or row["run"] not in of_name:
                of_name[row["run"]] = signs[row["better"]] * row["value"]
    return next((turned[name] for name in reading_order() if name in turned), {})


def is_shown(folder: Folder, family: Family) -> bool:
    """Whether what is shown of these models is there."""
    marker = _marker(folder, family)
    return marker.exists() and all(shown_path(folder.path, run).exists() for run in read_json(marker)["runs"])


def worth_drawing(folder: Folder, most: int) -> list[Run]:
    """Models to look at, the best first, all of one world: those that the report shows, else the best of each setting.

    Without a report, for each setting the seed whose training ended lowest.
    """
    folder.need_models()
    table = folder.store.table()
    shown = [] if table.is_empty() else shown_runs(folder.path, as_runs(table))
    runs = [folder.runs[identity] for identity in shown if identity in folder.runs]
    if not runs:
        family = next(family for family in folder.families.values() if family.finished)
        runs = one_per_setting(family, most)
    return [run for run in runs if run.world == runs[0].world][:most]


def best_run(folder: Folder) -> Run:
    """The model that comes first by what was measured: by the number that speaks for the others."""
    folder.need_models()
    table = folder.store.table()
    runs = None if table.is_empty() else as_runs(table).sound()
    if runs is None or not len(runs.about) or not runs.numbers[runs.leading()].sign:
        return worth_drawing(folder, 1)[0]
    return folder.runs[runs.labels("run")[int(np.ma.argmax(runs.turned(runs.leading())))]]


def chosen_models(table: pl.DataFrame, family: Family) -> list[str]:
    """Of a world those that come first without labels, the best and the worst with them, and two seeds of a setting."""
    identities = [run.identity for run in family.runs]
    part = table.filter(table["run"].is_in(identities))
    if part.is_empty():
        return []
    runs = as_runs(part).sound()
    names = runs.about["run"].to_list()
    if not names:
        return []
    chosen = [names[m] for m in _order(runs)[:BEST]]
    if leading := runs.leading_metric():
        by_label = runs.turned(leading)
        if by_label.count():  # those without the number are neither
            chosen += [names[int(np.ma.argmax(by_label))], names[int(np.ma.argmin(by_label))]]
    chosen += pair_of(runs)
    return list(dict.fromkeys(chosen))


def _order(runs: Runs) -> list[int]:
    """Models by the mean of their ranks under the criteria that may speak for the others; as they come without any."""
    names = runs.leading_criteria()
    if not names:
        return list(range(len(runs.about)))
    ranks = [scipy.stats.rankdata(np.ma.filled(-runs.turned(name), np.inf)) for name in names]
    return np.argsort(np.mean(ranks, axis=0), kind="stable").tolist()


def _marker(folder: Folder, family: Family) -> Path:
    path = folder.path / "shown" / f"{Cohort.of(family.runs).name}.json"
    path.parent.mkdir(exist_ok=True)
    return path


def one_per_setting(family: Family, most: int) -> list[Run]:
    """For each of the first settings the seed whose training ended lowest."""
    groups: dict[str, list[Run]] = {}
    for run in family.finished:
        groups.setdefault(run.seedless, []).append(run)
    return [min(runs, key=lambda run: _ended(family, run)) for runs in list(groups.values())[:most]]


def _ended(family: Family, run: Run) -> float:
    model = family.model(run)
    loss = model.ended(find_method(run.method).objective)
    return np.inf if model.diverged is not None or np.isnan(loss) else loss
