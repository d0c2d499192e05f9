"""Writes docs/tasks/do_scores_tell.md: what scores tell of tasks, in every folder of results/ that has tasks.

    python docs/make_scores_and_tasks.py

A test compares the page with what this would write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

import sober
from sober.errors import counted
from sober.results.shipped import Note, shipped
from sober.results.tasks import scores_against_tasks, scores_against_tasks_within_methods

PAGE = Path(__file__).parent / "tasks" / "do_scores_tell.md"
SCORES = (
    *("beta_vae", "factor_vae", "mig", "modularity", "dci_disentanglement", "sap", "irs"),  # those of Figure 23
    *("dci_informativeness", "udr", "elbo", "reconstruction", "kl", "total_correlation"),
)
TASKS = {
    "Accuracy of downstream predictors": (
        *("downstream_boosted_100", "downstream_boosted_10000", "downstream_logistic_100"),
        "downstream_logistic_10000",
    ),
    "Statistical efficiency: accuracy from 100 labels over that from 10,000": (
        "downstream_boosted_efficiency",
        "downstream_logistic_efficiency",
    ),
    "Error on combinations that regressors have not seen, and over that elsewhere (lower is better)": (
        *("zero_shot_lasso_inside", "zero_shot_forest_inside", "zero_shot_lasso_ratio", "zero_shot_forest_ratio"),
    ),
    "Abstract reasoning": ("abstract_reasoning_early", "abstract_reasoning", "abstract_reasoning_best"),
}
WITHIN = ("mig", "dci_disentanglement", "udr")
HEAD = """# Do scores tell what codes are good for?

Rank correlations of scores with [tasks](index.md), over the models of each folder of [results](../results.md) that has
tasks. In brackets the 95% interval, models drawn again 500 times; **bold** where it does not hold 0. This page is made
of the folders by `python docs/make_scores_and_tasks.py`; `sober tables NAME --names scores_against_tasks` has all.

Read it with care. The models so far are small and were trained for a short time on a CPU, so most of them hold little:
a score that rises with accuracy may only tell how much was learned. `dci_informativeness` stands among the scores for
that reason: it measures what is in a code, whatever its shape. A correlation over all models can come from differences
between methods; the last table of each folder looks inside methods. `elbo`, `reconstruction`, `kl`, `total_correlation`
and errors are better when lower: where such a score tells of accuracy, its correlation is negative.

There are hundreds of intervals on this page, and none is corrected for that: one in twenty leaves out 0 by chance.
Models of one setting resemble each other, which makes intervals somewhat too narrow.
"""


def page() -> str:
    """The whole page."""
    with_tasks = {name: sober.results(name).table() for name in shipped()}
    sections = (
        "\n".join(_section(name, table)) for name, table in with_tasks.items() if "task" in table["kind"].to_list()
    )
    return "\n".join((HEAD, *sections))


def _section(name: str, table: pl.DataFrame) -> Iterator[str]:
    note, models = Note.read(shipped()[name]), counted(table["run"].n_unique(), "model")
    yield f"## {name}"
    yield ""
    yield f"{note.what}: {models}, {note.when}, `{note.command}`."
    yield ""
    correlations = scores_against_tasks(table)
    for title, numbers in TASKS.items():
        here = [number for number in numbers if number in correlations["task"].to_list()]
        if here:
            yield f"**{title}**"
            yield ""
            yield from _range(table, here)
            yield ""
            yield from _table(correlations, here)
            yield ""
    yield "**Inside methods**: mean of the rank correlations over the models of one method (least to largest)"
    yield ""
    yield from _within(
        table, [numbers[0] for numbers in TASKS.values() if numbers[0] in correlations["task"].to_list()]
    )
    yield ""


def _range(table: pl.DataFrame, numbers: Sequence[str]) -> Iterator[str]:
    """What the numbers themselves are: a correlation of numbers that hardly differ says little."""
    parts = []
    for number in numbers:
        values = table.filter(metric=number)["value"]
        low, middle, high = (values.quantile(share, "linear") for share in (0.0, 0.5, 1.0))
        parts.append(f"`{number}` {low:.2f} to {high:.2f}, median {middle:.2f}")
    yield "; ".join(parts) + "."


def _table(correlations: pl.DataFrame, numbers: Sequence[str]) -> Iterator[str]:
    yield f"| | {' | '.join(numbers)} |"
    yield "|---|" + "---|" * len(numbers)
    rows = {(row["score"], row["task"]): row for row in correlations.iter_rows(named=True)}
    for score in SCORES:
        if (score, numbers[0]) in rows:
            yield f"| {score} | {' | '.join(_cell(**rows[score, number]) for number in numbers)} |"


def _cell(*, value: float | None, low: float | None, high: float | None, **_: object) -> str:
    if value is None or low is None or high is None:
        return "none"
    text = f"{_signed(value)} ({_signed(low)} to {_signed(high)})"
    return f"**{text}**" if low > 0 or high < 0 else text


def _signed(value: float) -> str:
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", "−")


def _within(table: pl.DataFrame, numbers: Sequence[str]) -> Iterator[str]:
    rows = scores_against_tasks_within_methods(table)
    yield f"| | {' | '.join(numbers)} |"
    yield "|---|" + "---|" * len(numbers)
    for score in WITHIN:
        cells = []
        for number in numbers:
            values = rows.filter(score=score, task=number)["value"].drop_nulls().to_list()
            mean = sum(values) / len(values)
            cells.append(f"{_signed(mean)} ({_signed(min(values))} to {_signed(max(values))})")
        yield f"| {score} | {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
