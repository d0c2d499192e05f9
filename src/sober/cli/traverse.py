"""`sober traverse`."""

from __future__ import annotations

import math
from pathlib import Path

from sober.cli.console import console, line
from sober.cli.options import Folder
from sober.defaults import TRAVERSAL_SPAN
from sober.errors import RequestError

MOST = 4  # models in a picture


def traverse(
    folder: Folder, /, *, runs: str | None = None, out: Path | None = None, seed: int = 0, span: float = TRAVERSAL_SPAN
) -> None:
    """Draw one picture of how each latent changes a model's output, and of reconstructions, for up to four models.

    On top are pictures and their reconstructions. Each row below moves one latent; words beside it name the factors
    that it represents, or what it does to the picture. Latents that carry little are left out. Without --runs, Sober
    draws the models that the report shows, the best first; before a report is made, for each setting the seed with the
    lowest final loss. All models in the picture are of one world.

    For example:

    - `sober traverse runs/blocks`
    - `sober traverse runs/blocks --runs 3f2a,91c0 --out two.png`

    Parameters
    ----------
    runs
        The models to draw, by the beginnings of their identities, separated by commas.
    out
        Where to write the picture; DIR/traversals.png by default.
    seed
        Seed of the random pictures that models reconstruct.
    span
        How far a row moves its latent, either way: 2 standard deviations of a VAE's prior by default.
    """
    from sober.evaluation.picture_sheets import traversals
    from sober.evaluation.showcase_choice import worth_drawing
    from sober.requests.results import open_results

    if not 0 < span < math.inf:
        raise RequestError(f"--span must be a number above 0, such as 3, not {span:g}")
    results = open_results(folder)
    results.need_models()
    if any(run.is_layer for run in results.runs):
        raise RequestError(f"{folder} holds layers of encoders, which have no decoder to draw with: see its probe.html")
    chosen = [results.run(name) for name in runs.split(",")] if runs else worth_drawing(results, MOST)
    path = out or results.beside("traversals.png")
    family = results.families[chosen[0].world]
    models = [results.model(run) for run in chosen[:MOST] if run.world == family.label]
    traversals(models, family.world, path, seed=seed, saved=results.path, words=results.words, span=span)
    console.print(line("wrote ", (path, "bold")))
