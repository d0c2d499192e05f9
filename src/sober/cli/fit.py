"""`sober fit`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sober.cli.console import bar, console
from sober.cli.main import command_line
from sober.cli.options import Out, Set, given, training_options
from sober.cli.select import ranking_table
from sober.words import parse_assignments
from sober.workflows.fit import CRITERIA, METHODS, MINUTES
from sober.workflows.fit import fit as fit_pictures

Options = training_options(None)


def fit(
    pictures: Annotated[str, Parameter(name="PICTURES", help="A folder or zip archive of pictures, or a world.")],
    /,
    *,
    out: Out,
    minutes: float = MINUTES,
    method: str = ",".join(METHODS),
    set_: Set = None,
    seeds: int | None = None,
    training: Annotated[Options, Parameter(name="*")] = Options(),  # noqa: B008 (frozen)
    criterion: str = ",".join(CRITERIA),
    seed: int = 0,
) -> None:
    """Pictures in, one encoder out: train a family within a time budget, choose without labels, export the best model.

    Ctrl-C stops at a checkpoint; the same command goes on where it stopped. With --steps, --minutes is not looked at.

    Examples: `sober fit photos/ --out fitted --minutes 30` · `sober fit blocks --out fitted --minutes 2`

    Parameters
    ----------
    minutes
        How long it may take: the number of seeds and steps follows from it and the speed of this machine.
    method
        Training methods, separated by commas.
    set_
        Hyperparameters of the methods, with one or several values, as in beta=2,4; may be given more than once.
    seeds
        How many seeds for each setting.
    criterion
        What to choose by, separated by commas, as `sober criteria` lists them.
    seed
        Of all that is drawn in judging.
    """
    with bar() as watcher:
        chosen = fit_pictures(
            pictures,
            out=out,
            method=method.split(","),
            minutes=minutes,
            seeds=seeds,
            criteria=criterion.split(","),
            seed=seed,
            command=command_line(),
            watcher=watcher,
            **given(training),
            **parse_assignments(set_ or []),
        )
    console.print(ranking_table(chosen.results.words, chosen.ranking, 5), "")
    for sentence in chosen.ranking.sentences():
        console.print(sentence)
    console.print(f"\nthe chosen model, its codes and the ranking are in [bold]{out}[/]; look at {out}/traversals.png")
    console.print(f'[dim]python -c "import sober; print(sober.load({str(out)!r}).run)"[/]')
