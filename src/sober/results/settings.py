"""What runs share that differ only in seed or world: as values, and in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sober.methods import METHODS
from sober.types import Run
from sober.words import assignments


def flat(run: Run) -> dict[str, Any]:
    """A run's own fields and its optimiser's, without the hyperparameters."""
    fields = run.canonical()
    del fields["hyper"], fields["optimiser"]
    return {**dataclasses.asdict(run.optimiser), **fields}


def settings_of(run: Run) -> dict[str, Any]:
    """What a reader must be told of a run: its method's first hyperparameter and whatever is not at its default."""
    known = {hyper.name: hyper.default for hyper in METHODS[run.method].hyper} if run.method in METHODS else {}
    main = next(iter(known), None)
    ordered = sorted(run.hyper.items(), key=lambda item: (item[0] != main, item[0]))
    hyper = {name: value for name, value in ordered if name == main or value != known.get(name)}
    usual = flat(Run("", run.method, {}))
    others = {n: v for n, v in flat(run).items() if n not in ("world", "seed", "method") and v != usual[n]}
    return {**hyper, **others}


def setting(run: Run) -> str:
    """In words: `beta_vae beta=4 latents=6`."""
    return f"{run.method} {assignments(settings_of(run))}".rstrip()


def short_settings(runs: Mapping[str, Run]) -> tuple[dict[str, str], dict[str, Mapping[str, Any]]]:
    """The setting of each run, by identity, without the values that all of them have, or all of one method.

    And those values, to be said once: those of all runs under "", the others under their method.
    """
    settings = {identity: settings_of(run) for identity, run in runs.items()}
    by_method: dict[str, list[dict[str, Any]]] = {}
    for identity, run in runs.items():
        by_method.setdefault(run.method, []).append(settings[identity])
    told_apart = [{"method": run.method, **settings[identity]} for identity, run in runs.items()]
    of_all = {name: value for name, value in _shared(told_apart).items() if name != "method"}
    shared: dict[str, Mapping[str, Any]] = {"": of_all}
    for method, group in by_method.items():
        shared[method] = {name: value for name, value in _shared(group).items() if name not in of_all}
    names = {}
    for identity, run in runs.items():
        said_once = {**of_all, **shared[run.method]}
        own = {name: value for name, value in settings[identity].items() if name not in said_once}
        names[identity] = f"{run.method} {assignments(own)}".rstrip()
    return names, {whose: values for whose, values in shared.items() if values}


def _shared(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Values that all of several different settings have."""
    if all(each == settings[0] for each in settings):
        return {}
    first, *others = settings
    return {name: value for name, value in first.items() if all(each.get(name) == value for each in others)}
