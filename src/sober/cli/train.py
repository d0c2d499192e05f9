"""`sober train`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import numpy as np
from cyclopts import Parameter
from rich.table import Table

from sober.cli.console import bar, console
from sober.cli.main import command_line
from sober.cli.options import Out, Set, given, training_options
from sober.errors import counted
from sober.methods import find_method, hyper_of
from sober.models.family import varying
from sober.models.grid import grid
from sober.models.model import latent_kl
from sober.report.pictures import INFORMATIVE
from sober.types import Training
from sober.words import parse_assignments, text_of
from sober.workflows.opened import Results
from sober.workflows.train import train as train_runs
from sober.worlds import world

if TYPE_CHECKING:
    from jaxtyping import Float

DEFAULTS = Training()
Options = training_options(DEFAULTS)


def train(
    world_spec: Annotated[str, Parameter(name="WORLD", help="A world, as `sober worlds` lists them.")],
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
    """Train a family: every combination of the values set, each with every seed.

    Ctrl-C stops at a checkpoint; the same command goes on where it stopped.

    Examples:

    `sober train blocks --set beta=1,2,4 --seeds 4 --steps 6000 --latents 6 --learning-rate 1e-3 --out runs/blocks`

    `sober train dsprites --method beta_tcvae --sweep sober_look --seeds 5 --out runs/dsprites`

    Parameters
    ----------
    method
        A training method, as `sober methods` lists them.
    set_
        Hyperparameters with one or several values, as in beta=1,2,4; may be given more than once.
    sweep
        A published study, as `sober methods` lists them: takes its values for all that is not set.
    seeds
        How many seeds for each combination.
    cohort
        How many models train at once; by default as many as fit into memory.
    """
    chosen = world(world_spec)
    values = parse_assignments(set_ or [])
    if sweep is not None:
        values = {name: list(axis) for name, axis in find_method(method).sweep(sweep).items()} | values
    runs = grid(chosen, method, values, seeds=seeds, training=DEFAULTS.but(**given(training)))
    with bar() as watcher:
        results = train_runs(runs, chosen, out, cohort=cohort, command=command_line(), watcher=watcher)
    console.print(models_table(results))
    console.print(
        f"\n{counted(len(results.finished), 'model')} in [bold]{out}[/]; look at them with: sober traverse {out}"
    )


def models_table(results: Results) -> Table:
    """Every finished model: its settings, where its terms ended, how many of its latents carry something."""
    names = varying(results.runs)
    table = Table(title=results.summary(), title_justify="left", title_style="bold", box=None, header_style="dim")
    table.add_column("run", style="cyan", no_wrap=True)
    for name in (*names, "seed", "loss", "reconstruction", "kl", "active"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", style="yellow")
    images = results.world.sample(0, 512).images
    for run in results.finished:
        model = results.model(run)
        last = [_last(model.curves.get(term)) for term in ("loss", "reconstruction", "kl")]
        flags = "" if model.diverged is None else f"diverged at step {model.diverged}"
        active = f"{np.sum(latent_kl(*model.encode(images)) > INFORMATIVE)} of {run.latents}"
        hyper = hyper_of(run)
        settings = [text_of(hyper[name]) if name in hyper else "-" for name in names]
        table.add_row(run.identity[:8], *settings, str(run.seed), *last, active, flags)
    return table


def _last(curve: Float[np.ndarray, " T"] | None) -> str:
    finite = [value for value in (() if curve is None else curve) if math.isfinite(value)]
    return f"{finite[-1]:.2f}" if finite else "-"
