"""Defaults that the help of commands states. Help is quick because they are here, where nothing computes."""

from __future__ import annotations

from typing import Literal

USUAL_CRITERION = "udr"  # judges models if only one criterion may
Prefer = Literal["few", "balanced", "complete"]  # what codes should keep: docs/criteria/choosing.md
USUAL_WISH: Prefer = "balanced"
JUDGED_BY = 10_000  # pictures that criteria look at, as in the UDR paper
COMPARED_HALVES = 20  # halves of the rows that comparisons of codes draw: ten pairs

FIT_METHODS = ("dava", "beta_tcvae", "beta_vae")
FIT_MINUTES = 10.0

TUNE_TOGETHER, TUNE_SEEDS = 6, 4  # settings that train at once, and seeds of each
TUNE_STEPS = 5_000

STUDY_TOGETHER = 64  # models in a cohort, at most: larger cohorts are little faster
Engine = Literal["local", "ray"]  # what carries out a study

PROBED_WORLD, PROBED_PICTURES = "rooms", 10_000  # what an encoder sees where nobody says what
PROBED_LABELS = (10, 100, 1_000, 10_000)  # from how many rows readouts learn, where there are as many

TRAVERSAL_SPAN = 2.0  # standard deviations of the prior either way: how far a traversal moves a latent
