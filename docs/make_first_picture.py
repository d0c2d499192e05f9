"""Draws docs/pictures/two_seeds.png: two models of one setting, from results that come with Sober.

python docs/make_first_picture.py [NAME]

As at the beginning of the report, the picture shows one of the best models, and beside it the lowest model of the same
setting. It is drawn as `sober traverse` draws models.
"""

from __future__ import annotations

import sys
from pathlib import Path

import sober
from sober.evaluation.picture_sheets import ModelPictures, sheet
from sober.metrics.registry import METRICS
from sober.results.latent_names import latent_words
from sober.results.runs import as_runs
from sober.results.seed_pair import seed_pair
from sober.results.shipped import find_shipped
from sober.results.showcase_files import load_showcase, showcase_path

NAME = "rooms_on_a_cpu"
PICTURE = Path(__file__).parent / "pictures" / "two_seeds.png"


def main(name: str) -> None:
    folder, runs = find_shipped(name), as_runs(sober.results(name).table())
    numbers = dict(zip(runs.run_column("run"), runs.number_columns([runs.headline()])[:, 0].tolist(), strict=True))
    titles = {score: meaning.title for metric in METRICS.values() for score, meaning in metric.scores.items()}
    models = []
    for run in seed_pair(runs):
        arrays, description = load_showcase(showcase_path(folder, run))
        note = f"{titles[runs.headline()]} {numbers[run]:.2f}"
        words = latent_words(arrays, description)
        models.append(ModelPictures(f"seed {description['seed']}", note, arrays, words, knows_factors=True))
    sheet(models, foot=False).savefig(PICTURE, metadata={"Software": None}, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main(*sys.argv[1:] or [NAME])
