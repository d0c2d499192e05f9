"""`sober tune`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sober.cli.console import bar, console
from sober.cli.main import command_line
from sober.cli.options import Out, Set, given, training_options
from sober.cli.printed import rows_table
from sober.criteria.registry import USUAL
from sober.types import Training
from sober.words import parse_settings
from sober.workflows.fit import pictures
from sober.workflows.space import parse_space
from sober.workflows.trials import rows
from sober.workflows.tune import SEEDS, STEPS, TOGETHER
from sober.workflows.tune import tune as search

DEFAULTS = Training(steps=STEPS)
Options = training_options(DEFAULTS)


def tune(
    world_spec: Annotated[str, Parameter(name="WORLD", help="A world, or a folder or zip archive of pictures.")],
    space: Annotated[
        list[str], Parameter(name="RANGE", help="What to search: beta=1..16, beta=1..16:log, gamma=1,10.")
    ],
    /,
    *,
    out: Out,
    method: str = "beta_vae",
    trials: int = 24,
    together: int = TOGETHER,
    seeds: int = SEEDS,
    criterion: str = USUAL,
    set_: Set = None,
    informative: int = 1,
    training: Annotated[Options, Parameter(name="*")] = Options(),  # noqa: B008 (frozen)
    seed: int = 0,
) -> None:
    """Search hyperparameters without labels: Optuna proposes, families train, a criterion judges.

    Ctrl-C stops at a checkpoint; the same command goes on where it stopped, or further with more --trials.

    Example: `sober tune blocks beta=0.25..16:log --informative 4 --latents 6 --learning-rate 1e-3 --out runs/tuned`

    Parameters
    ----------
    method
        A training method, as `sober methods` lists them.
    trials
        How many settings to try.
    together
        How many settings train at once.
    seeds
        How many seeds for each setting; its value is their median.
    criterion
        What to search by, as `sober criteria` lists them.
    set_
        Settings of the criterion, as in similarity=spearman; may be given more than once.
    informative
        How many informative latents a model must have: most criteria are pleased by models that give latents up.
    seed
        Of the search.
    """
    with bar() as watcher:
        found = search(
            pictures(world_spec),
            method,
            parse_space(space),
            out=out,
            trials=trials,
            together=together,
            seeds=seeds,
            criterion=criterion,
            settings=parse_settings(set_ or []),
            informative=informative,
            training=DEFAULTS.but(**given(training)),
            seed=seed,
            command=command_line(),
            watcher=watcher,
        )
    console.print(rows_table(rows(found)), "")
    for sentence in found.sentences():
        console.print(sentence)
