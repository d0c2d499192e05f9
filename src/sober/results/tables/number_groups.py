"""Selections of the numbers about runs, which tables and figures share."""

from __future__ import annotations

from collections.abc import Sequence

from sober.results.runs import Runs


def directed_criteria(runs: Runs) -> list[str]:
    """Numbers of criteria that say which model is better. Numbers of training and label-free metrics are left out."""
    return [name for name in runs.criteria() if runs.numbers[name].kind == "criterion" and runs.numbers[name].sign]


def directed_label_free(runs: Runs) -> list[str]:
    """Numbers of criteria and label-free metrics that say which model is better."""
    return [name for name in evaluated_numbers(runs) if name in runs.criteria() and runs.numbers[name].sign]


def evaluated_numbers(runs: Runs) -> list[str]:
    """The main numbers of metrics, tasks and criteria. Numbers of training are left out."""
    return [name for name in runs.main_numbers() if runs.numbers[name].kind != "training"]


def paper_scores(runs: Runs, scores: Sequence[str]) -> list[str]:
    """The paper's scores that these runs have. If they have fewer than two, every metric that says what is better."""
    scores_of_paper = runs.numbers_of(scores)
    directed_metrics = [name for name in runs.metrics() if runs.numbers[name].sign]
    return scores_of_paper if len(scores_of_paper) > 1 else directed_metrics
