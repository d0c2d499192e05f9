"""The demonstration: a small family on a small world, trained, listed and drawn."""

from __future__ import annotations

from pathlib import Path

from sober.family import Family, grid
from sober.pictures import traversals
from sober.train import Watcher, train
from sober.types import Adam
from sober.worlds import world

BETAS = [1.0, 2.0, 4.0]
SEEDS = 4
STEPS = 6000


def demo(out: Path, watcher: Watcher | None = None) -> tuple[Family, Path]:
    """Trains β-VAEs on `blocks`, three strengths with four seeds each, and draws the strongest four.

    The four differ in nothing but their seed, yet not all give each block a latent of its own: which one to trust is
    the question Sober is about.
    """
    blocks = world("blocks")
    settings = {"steps": STEPS, "latents": 6, "optimiser": Adam(learning_rate=1e-3)}
    runs = grid(blocks, "beta_vae", {"beta": BETAS}, seeds=SEEDS, **settings)  # type: ignore[arg-type]
    family = train(runs, blocks, out, watcher=watcher)
    picture = out / "traversals.png"
    traversals([family.model(run) for run in family.finished if run.hyper["beta"] == BETAS[-1]], blocks, picture)
    return family, picture
