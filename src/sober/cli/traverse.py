"""`sober traverse`."""

from __future__ import annotations

from pathlib import Path

from sober.cli.console import console
from sober.cli.options import Folder
from sober.report.pictures import traversals
from sober.results.folder import Folder as Results
from sober.workflows.shown import worth_drawing

MOST = 4  # models in a picture


def traverse(folder: Folder, /, *, runs: str | None = None, out: Path | None = None, seed: int = 0) -> None:
    """Draw what each latent of a model does, and its reconstructions, for several models in one picture.

    Latents that carry nothing are greyed. Without --runs it draws the models that the report shows, the best first, or
    before there is anything to choose by, for each setting the seed whose training ended lowest. Four models at most,
    of one world.

    Examples: `sober traverse runs/blocks` · `sober traverse runs/blocks --runs 3f2a,91c0 --out two.png`

    Parameters
    ----------
    runs
        Which models: the beginnings of their identities, separated by commas.
    out
        Where to write the picture; DIR/traversals.png by default.
    seed
        Of the pictures shown.
    """
    results = Results.open(folder)
    results.need_models()
    chosen = [results.run(name) for name in runs.split(",")] if runs else worth_drawing(results, MOST)
    path = out or results.beside("traversals.png")
    family = results.family_of(chosen[0])
    traversals(
        [results.model(run) for run in chosen[:MOST] if run.world == family.label], family.world, path, seed=seed
    )
    console.print(f"wrote [bold]{path}[/]")
