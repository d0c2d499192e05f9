"""A run's setting in words: its method and the settings that a reader needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sober.methods import METHODS, hyper_of
from sober.settings_text import assignments
from sober.types import Run


def settings_of(run: Run) -> dict[str, Any]:
    """The method's first hyperparameter, and every other setting that is not at its default."""
    defaults = {hyper.name: hyper.default for hyper in METHODS[run.method].hyper} if run.method in METHODS else {}
    main = next(iter(defaults), None)
    main_first = sorted(run.hyper.items(), key=lambda item: (item[0] != main, item[0]))
    hyper = {name: value for name, value in main_first if name == main or value != defaults.get(name)}
    usual = Run("", run.method, {}).flat()
    fields = run.flat()
    changed = {n: v for n, v in fields.items() if n not in ("world", "seed", "method") and v != usual[n]}
    return {**hyper, **changed}


def setting(run: Run) -> str:
    """In words: `beta_vae beta=4 latents=6`."""
    return f"{run.method} {assignments(settings_of(run))}".rstrip()


def varying_hyper(runs: Sequence[Run]) -> tuple[str, ...]:
    """The hyperparameters in which runs differ."""
    settings = [hyper_of(run) for run in runs]
    names = sorted({name for hyper in settings for name in hyper})
    return tuple(name for name in names if len({hyper.get(name) for hyper in settings}) > 1)
