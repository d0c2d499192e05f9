"""The first picture of a report: one of the best models, and beside it the lowest of the same setting.

They differ in their seed alone. Of settings whose best model is about as good as the best of all, it is the one whose
seeds differ most: the picture shows what a seed can do. Each row moves one latent, the most informative first, and
names the factors that it tells of.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sober.criteria.udr import INFORMATIVE
from sober.metrics.registry import METRICS
from sober.report.cards import addresses
from sober.report.showcase import STEPS, load_showcase, shown_path
from sober.report.sortable import short
from sober.results import Runs

ROWS = 6  # latents of a model, at most
PLACES = np.linspace(0, STEPS - 1, 5).round().astype(int)  # pictures of a row
BYTES = 300_000  # of the pictures of a model
NEAR = 0.1  # of the range of all numbers: what a model may lack to be one of the best
LITTLE = 0.05  # of what the best latent knows: what knows less tells of hardly anything
QUIET = 0.1  # nats that a latent carries: with less it tells of hardly anything, however well its means fit a factor
ALSO = 0.5  # of what a latent knows most of: from this share on, it tells of another factor, too
NAMES = 3  # of factors beside a row


def best_and_muddled(numbers: Mapping[str, float], settings: Mapping[str, str]) -> tuple[str, ...]:
    """One of the best runs, each having a number of which more is better, and the lowest of its setting, if others are.

    Of settings whose best comes within a tenth of the whole range of the best of all, that whose seeds differ most.
    """
    if not numbers:
        return ()
    by_setting: dict[str, list[str]] = {}
    for run in sorted(numbers, key=lambda run: (-numbers[run], run)):
        by_setting.setdefault(settings[run], []).append(run)
    most, least = max(numbers.values()), min(numbers.values())
    good = [runs for runs in by_setting.values() if numbers[runs[0]] >= most - NEAR * (most - least)]
    runs = max(good, key=lambda runs: numbers[runs[0]] - numbers[runs[-1]])
    return (runs[0], runs[-1]) if len(runs) > 1 else (runs[0],)


def pair_of(runs: Runs) -> tuple[str, ...]:
    """`best_and_muddled` of some runs, by the number that speaks for the others."""
    sound = runs.sound()
    if not len(sound.about) or not sound.numbers[sound.leading()].sign:
        return ()
    about = list(sound.about.select("run", "world", "setting").iter_rows())
    turned = sound.turned(sound.leading()).tolist()
    numbers = {run: number for (run, _, _), number in zip(about, turned, strict=True) if number is not None}
    return best_and_muddled(numbers, {run: f"{world} {setting}" for run, world, setting in about})


def pair_html(folder: Path, runs: Runs) -> str:
    """Two models as pictures beside each other; nothing where the folder keeps none of them."""
    there = np.array([shown_path(folder, run).exists() for run in runs.labels("run")], bool)
    pair = pair_of(runs.where(there)) if there.any() else ()
    if not pair:
        return ""
    name = runs.leading()
    numbers = dict(zip(runs.labels("run"), runs.columns([name])[:, 0].tolist(), strict=True))
    settings = dict(zip(runs.labels("run"), runs.labels("setting"), strict=True))
    models = [_model(folder, run, f"{name} {short(numbers[run])}") for run in pair]
    world = dict(zip(runs.labels("run"), runs.labels("world"), strict=True))[pair[0]]
    said = f"{settings[pair[0]]} on {world}"
    words = (
        f"Two seeds of {said}: one of the best models, and the lowest with the same settings."
        if len(pair) > 1
        else f"One of the best models: {said}."
    )
    return (
        f'<div class="pair" style="--models: {len(pair)}">{"".join(models)}'
        f"<p>{escape(words)} Each row moves one latent, and names the factors that it tells of.</p></div>"
    )


def _model(folder: Path, run: str, number: str) -> str:
    arrays, about = load_showcase(shown_path(folder, run))
    height, width = arrays["pictures"].shape[1:3]
    order = np.argsort(-arrays["kl"], kind="stable")
    used = [int(latent) for latent in order if arrays["kl"][latent] >= INFORMATIVE]
    sheets = addresses([arrays["traversals"][latent][PLACES] for latent in used[:ROWS]], BYTES)
    names = row_names(arrays, about)
    rows = "".join(
        f'<li><span><img src="{sheet}" alt="latent {latent}, {escape(names[latent])}: {len(PLACES)} pictures"></span>'
        f"{escape(names[latent])}</li>"
        for sheet, latent in zip(sheets, used, strict=False)
    )
    more = f"<p>{len(used) - ROWS} more below</p>" if len(used) > ROWS else ""
    none = "<p>No latent carries anything.</p>" if not used else ""
    head = f"seed {about['seed']} <small>{escape(number)}</small>"
    return (
        f'<figure style="--aspect: {len(PLACES) * width / height:.4g}"><h3>{head}</h3>'
        f"<ul>{rows}</ul>{more}{none}</figure>"
    )


def row_names(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> list[str]:
    """Of each latent the factors that it tells of; its number where there are none."""
    told = factors_told(arrays, about)
    return [text or "hardly anything" for text in told] or [f"latent {k}" for k in range(len(arrays["kl"]))]


def factors_told(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> list[str]:
    """Of each latent the factors that it knows most of, in words; no list where a world has none."""
    factors = [factor["name"] for factor in about["factors"]]
    drawn = next((name for name, metric in METRICS.items() if metric.matrix and f"{name}.matrix" in arrays), None)
    if not factors or drawn is None:
        return []
    matrix = np.where(arrays["kl"][:, None] < QUIET, 0.0, arrays[f"{drawn}.matrix"])  # (D, K)
    return [_named(row, factors, LITTLE * matrix.max()) for row in matrix]


def _named(knows: Float[np.ndarray, " K"], factors: list[str], least: float) -> str:
    if knows.max() <= least:
        return ""
    known = [k for k in np.argsort(-knows, kind="stable") if knows[k] >= ALSO * knows.max()]
    return " + ".join(factors[k] for k in known[:NAMES]) + (" + …" if len(known) > NAMES else "")
