"""Which of a paper's tables and figures a plan can make, and why not the others."""

from __future__ import annotations

from sober.metrics.score import resolved
from sober.results.checklist import Item, Offer, Verdict, papers, verdict
from sober.results.compare import base_name
from sober.workflows.plan import Plan


def makeable(planned: Plan) -> list[tuple[Item, Verdict]]:
    """For each table and figure of the study's paper whether this plan can make it; nothing without a paper."""
    paper = papers().get(planned.study.name)
    offer = offered(planned)
    return [(item, verdict(item, offer)) for item in paper.items] if paper else []


def offered(planned: Plan) -> Offer:
    """What a plan will have trained and measured."""
    runs = planned.runs.values()
    settings: dict[str, set[str]] = {}
    for run in runs:
        settings.setdefault(run.method, set()).add(repr(sorted(run.hyper.items())))
    scores = [
        name
        for metric, wanted, _ in resolved(planned.study.metrics, True)
        for name in metric.scores
        if wanted is None or name in wanted
    ]
    return Offer(
        worlds={base_name(label): planned.missing.get(label, "") for label in planned.request.worlds},
        methods={method: len(each) for method, each in settings.items()},
        scores=tuple(scores),
        criteria=tuple(dict.fromkeys(name for name, _ in planned.study.asked)),
        seeds=len({run.seed for run in runs}),
    )
