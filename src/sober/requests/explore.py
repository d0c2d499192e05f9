"""Writes the latent explorer of one model as a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sober.evaluation.explorer_entries import entry_from_pictures
from sober.models.model import Model
from sober.setting_words import words_for_people
from sober.worlds import World


def explore(model: Model, pictures: World | np.ndarray, path: str | Path, *, seed: int = 0) -> Path:
    """Writes one HTML file with a slider for each latent of a model, and returns its path. The file needs no network.

    `pictures` is an array of pictures, or a world to draw a random sample from. The page starts from the first few of
    these pictures. All of them are encoded to tell which latents are informative.

    >>> sober.explore(model, sober.world("blocks"), "explorer.html")
    """
    from sober.report.explorer import explorer_page  # noqa: PLC0415 -- takes long to import
    from sober.report.people_words import world_words  # noqa: PLC0415 -- takes long to import

    run = model.run
    entry = entry_from_pictures(model, pictures, seed=seed)
    place = run.world.partition(":")[0]
    if isinstance(pictures, World) and pictures.label == run.world:
        place = world_words(run.world, pictures.spec)
    return explorer_page(f"{words_for_people([run])(run)}, seed {run.seed}, on {place}", [entry], Path(path))
