"""The first picture of a report: one of the best models, and beside it the lowest of the same setting.

The two models differ only in their seed, so the picture shows what a seed can change. `seed_pair` chooses the setting:
its best model is about as good as the best of all, and its seeds differ most. Each row moves one latent, the most
informative first, and names the factors that it represents.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from sober.criteria.udr import INFORMATIVE
from sober.report.model_cards import addresses
from sober.report.sortable_tables import short
from sober.results import Runs
from sober.results.latent_names import row_names
from sober.results.seed_pair import seed_pair
from sober.results.showcase_files import STEPS, load_showcase, showcase_path

ROWS = 6  # a model shows at most as many latents
PLACES = np.linspace(0, STEPS - 1, 5).round().astype(int)  # the steps of a traversal that a row shows
BYTES = 300_000  # a model's pictures should not be larger


def pair_html(folder: Path, runs: Runs) -> str:
    """Pictures of the two models beside each other; empty if the folder has no pictures of models."""
    has_pictures = np.array([showcase_path(folder, run).exists() for run in runs.run_column("run")], bool)
    pair = seed_pair(runs.where(has_pictures)) if has_pictures.any() else ()
    if not pair:
        return ""
    name = runs.headline()
    numbers = dict(zip(runs.run_column("run"), runs.number_columns([name])[:, 0].tolist(), strict=True))
    settings = dict(zip(runs.run_column("run"), runs.run_column("setting"), strict=True))
    models = [_model(folder, run, f"{name} {short(numbers[run])}") for run in pair]
    world = dict(zip(runs.run_column("run"), runs.run_column("world"), strict=True))[pair[0]]
    setting = f"{settings[pair[0]]} on {world}"
    caption = (
        f"Two seeds of {setting}: one of the best models, and the lowest with the same settings."
        if len(pair) > 1
        else f"One of the best models: {setting}."
    )
    return (
        f'<div class="pair" style="--models: {len(pair)}">{"".join(models)}'
        f"<p>{escape(caption)} Each row moves one latent, and names the factors that it represents.</p></div>"
    )


def _model(folder: Path, run: str, number: str) -> str:
    arrays, description = load_showcase(showcase_path(folder, run))
    height, width = arrays["pictures"].shape[1:3]
    order = np.argsort(-arrays["kl"], kind="stable")
    used = [int(latent) for latent in order if arrays["kl"][latent] >= INFORMATIVE]
    sheets = addresses([arrays["traversals"][latent][PLACES] for latent in used[:ROWS]], BYTES)
    names = row_names(arrays, description)
    rows = "".join(
        f'<li><span><img src="{sheet}" alt="latent {latent}, {escape(names[latent])}: {len(PLACES)} pictures"></span>'
        f"{escape(names[latent])}</li>"
        for sheet, latent in zip(sheets, used, strict=False)
    )
    more = f"<p>{len(used) - ROWS} more below</p>" if len(used) > ROWS else ""
    none = "<p>No latent carries anything.</p>" if not used else ""
    head = f"seed {description['seed']} <small>{escape(number)}</small>"
    return (
        f'<figure style="--aspect: {len(PLACES) * width / height:.4g}"><h3>{head}</h3>'
        f"<ul>{rows}</ul>{more}{none}</figure>"
    )
