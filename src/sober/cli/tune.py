"""`sober tune`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sober.cli.console import bar, console
from sober.cli.main import command_line
from sober.cli.options import Out, Set, given, training_options
from sober.cli.printed import rows_table
from sober.defaults import TUNE_SEEDS, TUNE_STEPS, TUNE_TOGETHER, USUAL_CRITERION
from sober.settings_text import parse_settings
from sober.types import Training

DEFAULTS = Training(steps=TUNE_STEPS)
Options = training_options(DEFAULTS)


def tune(
    world_spec: Annotated[str, Parameter(name="WORLD", help="A world, or a folder or zip archive of pictures.")],
    space: Annotated[
        list[str], Parameter(name="RANGE", help="Values to search: beta=1..16, beta=1..16:log, gamma=1,10.")
    ],
    /,
    *,
    out: Out,
    method: str = "beta_vae",
    trials: int = 24,
    together: int = TUNE_TOGETHER,
    seeds: int = TUNE_SEEDS,
    criterion: str = USUAL_CRITERION,
    set_: Set = None,
    informative: int = 1,
    training: Annotated[Options, Parameter(name="*")] = Options(),  # noqa: B008 (frozen)
    seed: int = 0,
) -> None:
    """Search hyperparameters without labels: Optuna proposes, families train, a criterion judges.

    Ctrl-C stops at a checkpoint; the same command goes on where it stopped. With more --trials, it searches further.

    Example: `sober tune blocks beta=0.25..16:log --informative 4 --latents 6 --learning-rate 1e-3 --out runs/tuned`

    Parameters
    ----------
    method
        A training method; `sober methods` lists them.
    trials
        How many settings to try.
    together
        How many settings train at once.
    seeds
        How many seeds for each setting. A setting's value is the median over its seeds.
    criterion
        The criterion to search by; `sober criteria` lists them.
    set_
        Settings of the criterion, as in similarity=spearman; may be given more than once.
    informative
        How many informative latents a model must have. Most criteria prefer models that use few latents.
    seed
        Seed of the search.
    """
    from sober.requests.fit.given_pictures import opened_pictures
    from sober.requests.tune.search_space import parse_space
    from sober.requests.tune.trials import rows
    from sober.requests.tune.tune import tune as search

    with bar() as watcher:
        tuned = search(
            opened_pictures(world_spec, given(training).get("nets")),
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
    console.print(rows_table(rows(tuned)), "")
    for sentence in tuned.sentences():
        console.print(sentence)
