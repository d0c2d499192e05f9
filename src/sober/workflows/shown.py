"""Which models of a study the report shows, and what is kept of them for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy

from sober.criteria import CRITERIA
from sober.errors import RequestError
from sober.files import read_json
from sober.models.encode import codes_path, encode
from sober.models.family import Family
from sober.models.model import load
from sober.report.report import shown_runs
from sober.report.showcase import keep_showcase, shown_path
from sober.results import as_runs
from sober.results.runs import metrics
from sober.results.store import Store
from sober.types import Run
from sober.workflows.evaluate import pictures_of
from sober.workflows.plan import Plan
from sober.worlds import world

if TYPE_CHECKING:
    import polars as pl

BEST = 3  # models of each world that criteria without labels put first
MOST = 12  # in all


def show(store: Store, plan: Plan) -> list[str]:
    """Keeps what the report shows of chosen models, where it is not there yet, and returns their identities."""
    chosen = chosen_models(store.table(), plan)
    for identity, spec in chosen.items():
        if not shown_path(store.folder, identity).exists():
            _keep(store, spec, plan.runs[identity], plan.study.pictures)
    return list(chosen)


def shown_family(folder: Path) -> Family:
    """The models that a study's report shows, the best first, those of the world of the first."""
    store, study = Store.open(folder), read_json(folder / "study.json")
    if not isinstance(study, dict) or "cohorts" not in study:
        raise RequestError(
            f"{folder / 'study.json'} does not say which models are of which world: give a family's folder"
        )
    spec_of = {run: each["world"] for each in study["cohorts"] for run in each["runs"]}
    table = store.table()
    shown = [] if table.is_empty() else [run for run in shown_runs(store, as_runs(table)) if run in spec_of]
    if not shown:
        raise RequestError(f"{folder} has no models to show yet: run the study to its end")
    paths = [folder / "models" / f"{run}.safetensors" for run in shown if spec_of[run] == spec_of[shown[0]]]
    return Family(folder, spec_of[shown[0]], tuple(load(path).run for path in paths))


def chosen_models(table: pl.DataFrame, plan: Plan) -> dict[str, str]:
    """By world: those that come first without labels, the best with labels, and the worst, with their worlds."""
    spec_of = {run.identity: each.world for each in plan.cohorts for run in each.runs}
    found: dict[str, str] = {}
    for (_,), part in table.group_by(["world"], maintain_order=True):
        runs = as_runs(part).sound()
        names = runs.about["run"].to_list()
        columns = {name: runs.columns([name])[:, 0] for name in runs.names}
        order = _order(columns)
        picks = [names[m] for m in order[:BEST]]
        if supervised := [name for name in ("mig", "dci_disentanglement", *metrics(runs)) if name in columns][:1]:
            by_label = np.ma.argsort(columns[supervised[0]], fill_value=-np.inf)
            picks += [names[by_label[-1]], names[by_label[0]]]
        found |= {name: spec_of[name] for name in picks if name in spec_of}
    return dict(list(found.items())[:MOST])


def _order(columns: Mapping[str, np.ma.MaskedArray]) -> list[int]:
    """Models by the mean of their ranks under udr and pipe where they are there, else under any criterion."""
    there = [name for name in ("udr", "pipe") if name in columns] or [name for name in CRITERIA if name in columns][:1]
    if not there:
        return list(range(len(next(iter(columns.values())))))
    sign = {name: -1.0 if CRITERIA[name].better == "higher" else 1.0 for name in there}
    ranks = [scipy.stats.rankdata(np.ma.filled(sign[name] * columns[name], np.inf)) for name in there]
    return np.argsort(np.mean(ranks, axis=0), kind="stable").tolist()


def _keep(store: Store, spec: str, run: Run, pictures: int) -> None:
    opened = world(spec)
    family, index = Family(store.folder, spec, (run,)), pictures_of(opened, pictures)
    _, codes = next(iter(encode(family, [run], index=index)))
    keep_showcase(store.folder, family.model(run), codes, opened)
    codes_path(family, run, index).unlink(missing_ok=True)
