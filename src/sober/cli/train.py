"""`sober train`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sober.cli.console import bar, console, line
from sober.cli.main import command_line
from sober.cli.options import Out, Set, given, training_options
from sober.cli.printed import Column, FittedTable
from sober.errors import counted, shell_command
from sober.settings_text import parse_assignments, text_of
from sober.types import Training

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float

    from sober.requests.results import Results

DEFAULTS = Training()
Options = training_options(DEFAULTS)


def train(
    world_spec: Annotated[str, Parameter(name="WORLD", help="A world; `sober worlds` lists them.")],
    /,
    *,
    out: Out,
    method: str = "beta_vae",
    set_: Set = None,
    sweep: str | None = None,
    seeds: int = 1,
    training: Annotated[Options, Parameter(name="*")] = Options(),  # noqa: B008 (frozen)
    cohort: int | None = None,
) -> None:
    """Train a family of models: every combination of the given hyperparameter values, each with every seed.

    Ctrl-C stops at a checkpoint; the same command goes on where it stopped.

    For example:

    - `sober train blocks --set beta=1,2,4 --seeds 4 --steps 6000 --latents 6 --learning-rate 1e-3 --out runs/blocks`
    - `sober train dsprites --method beta_tcvae --sweep sober_look --seeds 5 --out runs/dsprites`

    Parameters
    ----------
    method
        A training method; `sober methods` lists them.
    set_
        Hyperparameters with one or several values, as in beta=1,2,4; may be given more than once.
    sweep
        A published study; `sober methods` lists them. Hyperparameters without --set take the values of this study.
    seeds
        How many seeds for each combination.
    cohort
        How many models train at once; by default as many as fit into memory.
    """
    from sober.methods import find_method
    from sober.models.grid import grid
    from sober.requests.train import train as train_runs
    from sober.worlds import world

    opened = world(world_spec)
    values = parse_assignments(set_ or [])
    if sweep is not None:
        values = {name: list(axis) for name, axis in find_method(method).sweep(sweep).items()} | values
    runs = grid(opened, method, values, seeds=seeds, training=DEFAULTS.but(**given(training)))
    with bar() as watcher:
        results = train_runs(runs, opened, out, cohort=cohort, command=command_line(), watcher=watcher)
    console.print(models_table(results))
    look = f"; look at them with: {shell_command('sober', 'traverse', out)}"
    models = counted(len(results.finished), "model")
    console.print(line(f"\n{models} in ", (out, "bold"), look), soft_wrap=True)


def models_table(results: Results) -> FittedTable:
    """Every finished model: its settings, the last values of its loss terms, and its number of active latents."""
    import numpy as np

    from sober.criteria.udr import INFORMATIVE
    from sober.methods import hyper_of
    from sober.methods.settings import varying_hyper
    from sober.models.model import latent_kl

    names = varying_hyper(results.runs)
    numbers = [Column(name, "right") for name in (*names, "seed", "loss", "reconstruction", "kl", "active")]
    columns = [Column("run", style="cyan"), *numbers, Column("flags", style="yellow", wraps=True)]
    images = results.world.sample(0, 512).images
    rows = []
    for run in results.finished:
        model = results.model(run)
        last = [_last(model.curves.get(term)) for term in ("loss", "reconstruction", "kl")]
        flags = "" if model.diverged is None else f"diverged at step {model.diverged}"
        active = f"{np.sum(latent_kl(*model.encode(images)) > INFORMATIVE)} of {run.latents}"
        hyper = hyper_of(run)
        settings = [text_of(hyper[name]) if name in hyper else "-" for name in names]
        rows.append([run.identity[:8], *settings, str(run.seed), *last, active, flags])
    return FittedTable(columns, rows, results.summary())


def _last(curve: Float[np.ndarray, " T"] | None) -> str:
    finite = [value for value in (() if curve is None else curve) if math.isfinite(value)]
    return f"{finite[-1]:.2f}" if finite else "-"
