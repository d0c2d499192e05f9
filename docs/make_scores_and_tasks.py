"""Writes docs/tasks/do_scores_tell.md: how scores correlate with tasks, in every folder of results/ that has tasks.

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
from sober.results.tables.tasks import scores_against_tasks, scores_against_tasks_within_methods

PAGE = Path(__file__).parent / "tasks" / "do_scores_tell.md"
SCORES = (
    *("beta_vae", "factor_vae", "mig", "modularity", "dci_disentanglement", "sap", "irs"),  # those of Figure 23
    *("dci_informativeness", "udr", "elbo", "reconstruction", "kl", "total_correlation"),
)
TASKS = {
    "Accuracy of downstream predictors": (
        *("downstream_boosted_100", "downstream_boosted_5000", "downstream_boosted_10000"),
        *("downstream_logistic_100", "downstream_logistic_5000", "downstream_logistic_10000"),
    ),
    "Statistical efficiency: accuracy from 100 labels divided by accuracy from 10,000, or from 5,000": (
        *("downstream_boosted_efficiency", "downstream_boosted_efficiency_5000"),
        *("downstream_logistic_efficiency", "downstream_logistic_efficiency_5000"),
    ),
    "Error on unseen combinations, and its ratio to the error elsewhere (lower is better)": (
        *("zero_shot_lasso_inside", "zero_shot_forest_inside", "zero_shot_lasso_ratio", "zero_shot_forest_ratio"),
    ),
    "Abstract reasoning": ("abstract_reasoning_early", "abstract_reasoning", "abstract_reasoning_best"),
}
DELETED = "benchmarks/results_queue.py"  # made the first results and is no longer part of Sober
WITHIN = ("mig", "dci_disentanglement", "udr")
HEAD = """# Do scores tell what codes are good for?

This page compares scores with [tasks](index.md): does a model with a better score also do better in a task? It has a
section for each folder of [results](../results.md) with tasks. Each entry is a rank correlation over the models of the
folder, with its 95% interval in brackets (settings, and then seeds within them, drawn again 500 times). Entries in
**bold** exclude 0.
`sober tables NAME --names scores_against_tasks` shows all scores. `python docs/make_scores_and_tasks.py` makes it.

How to read it:

- For `elbo`, `reconstruction`, `kl`, `total_correlation` and errors, lower is better. If such a score predicts a high
  accuracy, its correlation is negative.
- Most models are small and were trained for a short time on a CPU, so their codes hold little information. A score that
  rises with accuracy may only measure how much a model learned. Compare it with `dci_informativeness`, which measures
  the information in a code, whatever its shape. The models of `sober_look_dsprites_100k` were trained on a GPU for
  longer; [claims 6 and 7](../findings.md#6-no-higher-efficiency) rest on them.
- A correlation over all models can come from differences between methods. The last table of each folder looks inside
  methods.
- The page has hundreds of intervals, without a correction for their number: one in twenty excludes 0 by chance.
  Models of one setting resemble each other; the intervals allow for that.
"""


def page() -> str:
    """The whole page."""
    with_tasks = {name: sober.results(name).table() for name in shipped()}
    sections = (
        "\n".join(_section(name, table)) for name, table in with_tasks.items() if "task" in table["kind"].to_list()
    )
    return "\n".join((HEAD, *sections))


def _section(name: str, table: pl.DataFrame) -> Iterator[str]:
    note, models = Note.read(shipped()[name]), counted(table.filter(kind="task")["run"].n_unique(), "model")
    yield f"## {name}"
    yield ""
    made_by = "made by an earlier script" if DELETED in note.command else f"`{note.command}`"
    yield f"{note.what}: {models} with tasks, {note.when}, {made_by}."
    yield ""
    correlations = scores_against_tasks(table)
    for title, numbers in TASKS.items():
        measured_numbers = [number for number in numbers if number in correlations["task"].to_list()]
        if measured_numbers:
            yield f"**{title}**"
            yield ""
            yield from _range(table, measured_numbers)
            yield ""
            yield from _table(correlations, measured_numbers)
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
            if not values:  # a criterion with several settings has no name of its own
                break
            mean = sum(values) / len(values)
            cells.append(f"{_signed(mean)} ({_signed(min(values))} to {_signed(max(values))})")
        if cells:
            yield f"| {score} | {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
