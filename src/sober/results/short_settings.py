"""Short names for settings: the labels in the table, without the parts that all labels share.

This works on the labels alone, because a reader may not have the method that made them, nor its defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sober.results.table_rows import TRAINING_COLUMNS
from sober.short_text import as_call

MOST = 4  # settings in the name of a method that has one setting: with more, only the first is named
PAIRS = re.compile(r" (?=\w+=)")  # between two settings


class ShortSettings(NamedTuple):
    """The short names of settings, and what they leave out."""

    names: dict[str, str]  # by run
    shared: dict[str, tuple[str, ...]]  # settings of all runs of a method; under "", of all runs
    by_world: dict[tuple[str, str], tuple[str, ...]]  # by world and method, settings that go with the world

    def __repr__(self) -> str:
        return as_call(self)


def short_settings(labels: Mapping[str, str], worlds: Mapping[str, str] | None = None) -> ShortSettings:
    """The label of each run without the settings that all runs share, or all runs of its method.

    `labels` are by run, such as `beta_vae beta=4 latents=6`; `worlds` are the worlds of the runs. An option of training
    that goes with the world is left out too: in every world all runs of the method share its value, such as the nets
    for each world's pictures. A method that has one setting beside other methods needs none to be told apart: if it
    would be named by more than MOST settings, it is named by the first.
    """
    full_labels = {run: PAIRS.split(label) for run, label in labels.items()}
    worlds = worlds or dict.fromkeys(labels, "")
    by_world = _with_the_world(full_labels, worlds)
    split = {
        run: [method, *(setting for setting in settings if setting not in by_world.get((worlds[run], method), ()))]
        for run, (method, *settings) in full_labels.items()
    }
    by_method: dict[str, list[list[str]]] = {}
    for method, *settings in split.values():
        by_method.setdefault(method, []).append(settings)
    of_all = _shared(list(split.values()), [settings for _, *settings in split.values()])
    shared = {"": of_all}
    for method, group in by_method.items():
        common = _shared(group, group) if len(by_method) == 1 else _of_method(group, of_all)
        shared[method] = tuple(setting for setting in common if setting not in of_all)
    names = {}
    for run, (method, *settings) in split.items():
        left_out = {*of_all, *shared[method]}
        names[run] = " ".join([method, *(setting for setting in settings if setting not in left_out)])
    return ShortSettings(names, {method: settings for method, settings in shared.items() if settings}, by_world)


def _with_the_world(
    labels: Mapping[str, Sequence[str]], worlds: Mapping[str, str]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """By world and method, the options of training that all runs of the method in a world share, and not in all worlds.

    `labels` are by run: the method, and its settings.
    """
    values: dict[tuple[str, str], dict[str, set[str]]] = {}  # by method and option, the settings by world
    for run, (method, *settings) in labels.items():
        by_name = {setting.partition("=")[0]: setting for setting in settings}
        for name in TRAINING_COLUMNS:
            values.setdefault((method, name), {}).setdefault(worlds[run], set()).add(by_name.get(name, ""))
    by_world: dict[tuple[str, str], tuple[str, ...]] = {}
    for (method, _), settings_by_world in values.items():
        differ = len(set.union(*settings_by_world.values())) > 1
        if differ and all(len(texts) == 1 for texts in settings_by_world.values()):
            for world, texts in settings_by_world.items():
                by_world[world, method] = (*by_world.get((world, method), ()), *filter(None, texts))
    return {key: left_out for key, left_out in by_world.items() if left_out}


def _of_method(group: Sequence[Sequence[str]], of_all: Sequence[str]) -> tuple[str, ...]:
    """The settings that the runs of a method share and that its name leaves out."""
    settings_in_name = tuple(setting for setting in group[0] if setting not in of_all)
    if len(settings_in_name) > MOST and all(settings == group[0] for settings in group):
        return settings_in_name[1:]
    return _shared(group, group)


def _shared(labels: Sequence[Sequence[str]], settings: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The settings that all labels have; none if all labels are equal, so that a name keeps its settings."""
    if all(label == labels[0] for label in labels):
        return ()
    first, *others = settings
    return tuple(setting for setting in first if all(setting in other for other in others))
