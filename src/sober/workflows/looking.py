"""Which pictures models are measured by: one pass for all, of which some see a part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sober.errors import RequestError
from sober.models.encode import Pictures, by_index, enough, index_of
from sober.results.request import Measure
from sober.tasks import Task, find_task
from sober.types import Asked, Setting
from sober.worlds import World


class Wanted(NamedTuple):
    """A task that was asked for, with all its settings on a world; and why its models cannot be asked, if so."""

    task: Task
    settings: Mapping[str, Setting]
    refused: str


class Known(NamedTuple):
    """What is to be known of a world without holding on to its pictures."""

    labelled: bool
    everything: int  # pictures, where all are encoded
    measured_by: int  # pictures that metrics and tasks look at
    tasks: tuple[Wanted, ...]


def looked_at(measure: Measure, world: World) -> Pictures:
    """The pictures that each model of a world encodes, once: all that somebody will look at."""
    counts = [measure.judged_by] if measure.criteria else []
    if measure.metrics != () or measure.tasks or not counts:
        if measure.pictures is None:
            return None
        counts.append(measure.pictures)
    return enough(world, max(counts), measure.seed)


def measured_by(measure: Measure, world: World) -> Pictures:
    """Those of them that metrics and tasks look at."""
    return None if measure.pictures is None else _part(measure, world, measure.pictures)


def judged_by(measure: Measure, world: World) -> Pictures:
    """Those of them that criteria look at."""
    if measure.judged_by < 10:
        raise RequestError(f"models are judged by the pictures they encode: give at least 10, not {measure.judged_by}")
    return _part(measure, world, measure.judged_by)


def _part(measure: Measure, world: World, count: int) -> Pictures:
    """So many of the pictures that are encoded: of a draw, and of a world that stands for itself as one, the first."""
    pictures = enough(world, count, measure.seed)
    if pictures is not None and looked_at(measure, world) is None and not by_index(world):
        return world.everything()[:count]
    return pictures


def known(measure: Measure, world: World) -> Known:
    everything, pictures = len(world.everything()), measured_by(measure, world)
    count = everything if pictures is None else len(index_of(world, pictures))
    tasks = tuple(wanted(asked, measure.preset, world) for asked in measure.tasks)
    return Known(bool(world.factors), everything, count, tasks)


def wanted(asked: Asked, preset: str, world: World) -> Wanted:
    """A task as it would be performed with models of a world."""
    task = find_task(asked.name)
    settings = task.configured(preset, asked.settings, world)
    return Wanted(task, settings, task.refuses(settings, world))
