"""Which models of a folder the report shows. Their showcases are saved for the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy

from sober.criteria.criterion import fit_to_judge
from sober.evaluation.families import finished_families
from sober.evaluation.showcase import keep_showcase
from sober.files import read_json, write_json
from sober.methods import find_method
from sober.models.encode import Pictures, encode, picture_index
from sober.models.family import Family
from sober.models.model import has_weights, model_of, record_of
from sober.results.folder import Folder
from sober.results.request import Cohort
from sober.results.runs import Runs, as_runs
from sober.results.seed_pair import seed_pair
from sober.results.showcase_files import showcase_path, showcase_runs
from sober.types import Run

if TYPE_CHECKING:
    import polars as pl

BEST = 3  # models of a world that are best by criteria, without labels


def show(folder: Folder, family: Family, pictures: Pictures) -> None:
    """Saves the showcases that chosen models of a world lack."""
    by_identity = {run.identity: run for run in family.runs}
    chosen = [by_identity[identity] for identity in chosen_models(folder.store.table(), family)]
    show_models(folder, family, chosen, pictures)
    with_showcase = [run.identity for run in chosen if showcase_path(folder.path, run.identity).exists()]
    write_json(_marker(folder, family), {"world": family.label, "runs": with_showcase})


def show_models(folder: Folder, family: Family, runs: Sequence[Run], pictures: Pictures) -> None:
    """Saves the showcases that these models of a world lack."""
    lacking = [
        run for run in runs if not showcase_path(folder.path, run.identity).exists() and has_weights(folder.path, run)
    ]
    for run, codes in encode(family, lacking, pictures=pictures) if lacking else ():
        if fit_to_judge(codes):  # a model that diverged has nothing to show
            index = picture_index(family.world, pictures)
            keep_showcase(folder.path, model_of(folder.path, run), codes, family.world, index)


def is_shown(folder: Folder, family: Family) -> bool:
    """Whether the showcases of these models are saved."""
    marker = _marker(folder, family)
    return marker.exists() and all(showcase_path(folder.path, run).exists() for run in read_json(marker)["runs"])


def worth_drawing(folder: Folder, most: int) -> list[Run]:
    """Models of one world to look at, the best first: the models with a showcase.

    If no model has a showcase, each setting's seed with the lowest last loss.
    """
    folder.need_models()
    table = folder.store.table()
    with_showcase = [] if table.is_empty() else showcase_runs(folder.path, as_runs(table))
    by_identity = folder.request.runs
    runs = [by_identity[identity] for identity in with_showcase if identity in by_identity]
    if not runs:
        family = next(iter(finished_families(folder).values()))
        runs = one_per_setting(family, most)
    return [run for run in runs if run.world == runs[0].world][:most]


def best_run(folder: Folder) -> Run:
    """The best model by the headline number of the folder; without such a number, the first that is worth drawing."""
    folder.need_models()
    table = folder.store.table()
    runs = None if table.is_empty() else as_runs(table).not_diverged()
    if runs is None or not len(runs.run_frame) or not runs.numbers[runs.headline()].sign:
        return worth_drawing(folder, 1)[0]
    return folder.request.runs[runs.run_column("run")[int(np.ma.argmax(runs.oriented(runs.headline())))]]


def chosen_models(table: pl.DataFrame, family: Family) -> list[str]:
    """Models of a world: the best without labels, the best and the worst with labels, and two seeds of one setting."""
    identities = [run.identity for run in family.runs]
    rows = table.filter(table["run"].is_in(identities))
    if rows.is_empty():
        return []
    runs = as_runs(rows).not_diverged()
    names = runs.run_frame["run"].to_list()
    if not names:
        return []
    chosen = [names[m] for m in _best_first(runs)[:BEST]]
    if leading := runs.headline_metric():
        by_label = runs.oriented(leading)
        if by_label.count():  # models without this number are neither the best nor the worst
            chosen += [names[int(np.ma.argmax(by_label))], names[int(np.ma.argmin(by_label))]]
    chosen += seed_pair(runs)
    return list(dict.fromkeys(chosen))


def _best_first(runs: Runs) -> list[int]:
    """Models by their mean rank under the headline criteria, the best first; without criteria, in their own order."""
    names = runs.headline_criteria()
    if not names:
        return list(range(len(runs.run_frame)))
    ranks = [scipy.stats.rankdata(np.ma.filled(-runs.oriented(name), np.inf)) for name in names]
    return np.argsort(np.mean(ranks, axis=0), kind="stable").tolist()


def _marker(folder: Folder, family: Family) -> Path:
    path = folder.path / "shown" / f"{Cohort.of(family.runs).name}.json"
    path.parent.mkdir(exist_ok=True)
    return path


def one_per_setting(family: Family, most: int) -> list[Run]:
    """The seed with the lowest last loss, for each of the first settings. All models are finished."""
    groups: dict[str, list[Run]] = {}
    for run in family.runs:
        groups.setdefault(run.seedless, []).append(run)
    return [min(runs, key=lambda run: _last_loss(family, run)) for runs in list(groups.values())[:most]]


def _last_loss(family: Family, run: Run) -> float:
    """The last value of a model's objective; infinite if the model diverged."""
    model = record_of(family.folder, run)
    loss = model.ended(find_method(run.method).objective)
    return np.inf if model.diverged is not None or np.isnan(loss) else loss
