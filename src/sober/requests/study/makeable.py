"""Which of a paper's tables and figures a plan can make, and why it cannot make the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sober.metrics.scoring.score import resolved
from sober.requests.study.plan import Plan
from sober.results.paper_check.checklist import Item, Offer, Verdict, papers, verdict
from sober.tasks import find_task
from sober.types import WorldSpec


def makeable(planned: Plan) -> list[tuple[Item, Verdict]]:
    """The study's tables and figures of its paper, each with the verdict whether this plan can make it.

    The list is empty if the study has no paper.
    """
    offer, name = offered(planned), planned.study.items_of or planned.study.name
    items = [item for paper in papers().values() for item in paper.items if item.made_by == name]
    return [(item, verdict(item, offer)) for item in items]


def offered(planned: Plan) -> Offer:
    """What a plan will have trained and measured."""
    runs = planned.runs.values()
    hyper: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        hyper.setdefault(run.method, []).append(run.hyper)
    scores = [
        name
        for metric, wanted, _ in resolved(planned.study.metrics, True)
        for name in metric.scores
        if wanted is None or name in wanted
    ]
    scores += [name for task, _ in planned.study.asked_tasks for name in find_task(task).scores]
    trainings = [(product.training.batch, product.training.steps) for product in planned.study.products]
    varied = {name for settings in hyper.values() for name in _varied(settings)}
    varied |= {
        name
        for name, values in zip(("batch", "steps"), zip(*trainings, strict=True), strict=True)
        if len({*values}) > 1
    }
    specs = planned.request.worlds.values()
    return Offer(
        worlds={WorldSpec.parse(label).name: planned.missing.get(label, "") for label in planned.request.worlds},
        methods={
            method: len({repr(sorted(values.items())) for values in settings}) for method, settings in hyper.items()
        },
        scores=tuple(scores),
        criteria=Counter(name for name, _ in planned.study.asked),
        seeds=len({run.seed for run in runs}),
        varied=frozenset(varied),
        views=frozenset(name for spec in specs for name in WorldSpec.parse(spec).view_names),
    )


def _varied(settings: Sequence[Mapping[str, Any]]) -> set[str]:
    """The names of hyperparameters that take several values among the settings of a method's runs."""
    return {name for name in settings[0] if len({values.get(name) for values in settings}) > 1}
