"""`sober criteria`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Group

from sober.cli.console import console
from sober.cli.name_lists import Entry, Facts, NameList, card, page_of
from sober.settings_text import assignments

if TYPE_CHECKING:
    from sober.criteria import Criterion

END = """↑ higher is better, ↓ lower is better. sober criteria NAME: what it sees and cannot see, settings and paper.
sober select runs/blocks --criterion udr,pipe ranks the models of a folder by two of them."""


def criteria(names: Annotated[list[str] | None, Parameter(name="NAME")] = None, /) -> None:
    """List the criteria that choose without labels on one screen, or say all about the criteria that you name.

    For example:

    - `sober criteria`
    - `sober criteria udr`

    Parameters
    ----------
    names
        Criteria: print what each asks, what it sees and cannot see, its settings and its paper.
    """
    from sober.criteria import CRITERIA, find_criterion

    if names:
        for criterion in map(find_criterion, names):
            console.print(criterion_card(criterion))
    else:
        groups: dict[str, list[Entry]] = {
            "They compare models, so they need several": [],
            "They judge each model alone": [],
        }
        for name, criterion in CRITERIA.items():
            direction = "↑" if criterion.better == "higher" else "↓"
            groups[next(iter(groups)) if criterion.compares else [*groups][1]].append(
                Entry(name, direction, criterion.summary)
            )
        console.print(NameList(groups, END))


def criterion_card(criterion: Criterion) -> Group:
    """All about one criterion."""
    facts: Facts = {
        "better": criterion.better,
        "sees": criterion.sees,
        "blind": criterion.blind,
        "settings": assignments(criterion.settings),
        "needs": "at least two models" if criterion.compares else "one model or more",
        "paper": criterion.reference,
        "page": page_of("criteria", criterion.judge),
    }
    return card(criterion.name, criterion.summary, facts)
