"""Which pictures each model encodes: one set. Metrics, tasks and criteria each use the set or a part of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sober.criteria.criterion import FEWEST_PICTURES
from sober.errors import RequestError
from sober.models.encode import Pictures, codes_follow_index, picture_index, sample_of
from sober.results.request import Measure
from sober.tasks import Task, find_task
from sober.types import NamedSettings, Setting
from sober.worlds import World


class RequestedTask(NamedTuple):
    """A task with all its settings on a world."""

    task: Task
    settings: Mapping[str, Setting]
    refused: str  # why the task cannot be performed with models of this world; empty if it can


class WorldFacts(NamedTuple):
    """The facts about a world that an evaluation needs, without its pictures, which would fill the memory."""

    labelled: bool
    pictures: int  # how many the world has
    scored_pictures: int  # how many metrics and tasks use
    tasks: tuple[RequestedTask, ...]


def pictures_to_encode(measure: Measure, world: World) -> Pictures:
    """The pictures that each model of a world encodes, once: enough for metrics, tasks and criteria."""
    counts = [measure.judged_by] if measure.criteria else []
    if measure.metrics != () or measure.tasks or not counts:
        if measure.pictures is None:
            return None
        counts.append(measure.pictures)
    return sample_of(world, max(counts), measure.seed)


def scored_pictures(measure: Measure, world: World) -> Pictures:
    """The part of the encoded pictures that metrics and tasks use."""
    return None if measure.pictures is None else _first(measure, world, measure.pictures)


def judged_pictures(measure: Measure, world: World) -> Pictures:
    """The part of the encoded pictures that criteria use."""
    if measure.judged_by < FEWEST_PICTURES:
        raise RequestError(
            f"models are judged by the pictures they encode: give at least {FEWEST_PICTURES}, not {measure.judged_by}"
        )
    return _first(measure, world, measure.judged_by)


def _first(measure: Measure, world: World, count: int) -> Pictures:
    """The first `count` of the encoded pictures, which are in random order.

    If every picture of a world is encoded and the world's own order is random, the first `count` in that order.
    """
    pictures = sample_of(world, count, measure.seed)
    if pictures is not None and pictures_to_encode(measure, world) is None and not codes_follow_index(world):
        return world.everything()[:count]
    return pictures


def world_facts(measure: Measure, world: World) -> WorldFacts:
    """The facts about a world that an evaluation with these measurements needs."""
    pictures, scored = len(world.everything()), scored_pictures(measure, world)
    count = pictures if scored is None else len(picture_index(world, scored))
    tasks = tuple(requested_task(named, measure.preset, world) for named in measure.tasks)
    return WorldFacts(bool(world.factors), pictures, count, tasks)


def requested_task(named: NamedSettings, preset: str, world: World) -> RequestedTask:
    """A task with the settings that it has on a world."""
    task = find_task(named.name)
    settings = task.configured(preset, named.settings, world)
    return RequestedTask(task, settings, task.refuses(settings, world))
