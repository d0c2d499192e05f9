"""Groups of models that one compiled program serves side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sober.device import equal_chunks
from sober.methods import hyper_of, structure
from sober.models.model import Model


def same_program_groups(models: Sequence[Model], at_once: int) -> list[list[int]]:
    """Indices of models with the same nets and the same pixel likelihood, in groups of at most `at_once`."""
    indices_by_program: dict[Any, list[int]] = {}
    for index, model in enumerate(models):
        program = structure(model.run), model.run.precision, hyper_of(model.run).get("likelihood")
        indices_by_program.setdefault(program, []).append(index)
    return [group for indices in indices_by_program.values() for group in equal_chunks(indices, at_once)]
