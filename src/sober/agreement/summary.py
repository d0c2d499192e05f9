"""An analysis in few words: a table of components, and sentences about what was found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sober.agreement.analysis import Analysis
from sober.agreement.recurrence import MOST_OFTEN
from sober.errors import counted

if TYPE_CHECKING:
    import polars as pl

HALF = 0.5  # live latents, and explained variance, below which a model may be hardly trained


def component_table(analysis: Analysis) -> pl.DataFrame:
    """One row for each component: in how many models it is, how alike its latents are, and how sure that is."""
    import polars as pl  # noqa: PLC0415 -- takes long to import

    recurs = analysis.recurrence
    grouped = np.flatnonzero(analysis.group >= 0)
    model = analysis.partners.model[grouped]
    frame = pl.DataFrame(
        {
            "group": analysis.group[grouped],
            "model": np.array(analysis.names, dtype=object)[model].tolist(),
            "latent": grouped - analysis.partners.start[model],
            "recurs": recurs.recurs[grouped],
            "recurrence": recurs.share[grouped],
            "low": recurs.low[grouped],
            "high": recurs.high[grouped],
            "chance": recurs.chance[grouped],
            "similarity": recurs.similarity[grouped],
            "q": recurs.q[grouped],
        },
        schema_overrides={"model": pl.String},
    )
    return (
        frame.group_by("group", maintain_order=True)
        .agg(
            pl.len().alias("models"),
            pl.col("recurs").sum().alias("recurring"),
            pl.col("recurrence", "low", "high", "chance", "similarity", "q").median(),
            pl.struct("model", "latent").alias("members"),
        )
        .sort("group")
    )


def findings(analysis: Analysis) -> Iterator[str]:
    """What was found, in sentences."""
    recurs, live = analysis.recurrence, analysis.alive
    names = analysis.names
    count = int(recurs.recurs.sum())
    share = count / max(1, int(live.sum()))
    chance = float(recurs.chance[live].mean()) if live.any() else 0.0
    of_live = f"of {counted(int(live.sum()), 'live latent')}"
    if count:
        yield (
            f"{count:,} {of_live} ({share:.0%}) recur in at least half of the other models, beyond chance: at most "
            f"{analysis.level:.0%} of them are expected to be false."
        )
    else:
        yield f"None {of_live} recurs in at least half of the other models beyond chance."
    mean = float(recurs.share[live].mean()) if live.any() else 0.0
    yield (
        f"A latent recurs in {mean:.0%} of the other models on average. By the same rule, features that cannot recur "
        f"would in {chance:.0%}."
    )
    models_of_group = np.bincount(analysis.group[analysis.group >= 0], minlength=1)
    if everywhere := int((models_of_group == len(names)).sum()):
        yield f"In all {len(names)} models: {counted(everywhere, 'component')}."
    ranking = analysis.ranking()
    best = ranking.row(0, named=True)
    if best["recurrence"] > ranking["recurrence"].min():
        yield f"The latents of {best['model']} recur most: in {best['recurrence']:.0%} of the other models on average."
    yield from _too_few_draws(analysis)
    yield from _warnings(analysis)
    dead = len(live) - int(live.sum())
    if dead:
        yield f"{counted(dead, 'latent')} of {len(live):,} took no part: constant, or without information."


def _too_few_draws(analysis: Analysis) -> Iterator[str]:
    """Kinds of chance with so few features that no q can reach the level, whatever the latents are."""
    recurs, live = analysis.recurrence, int(analysis.alive.sum())
    candidates = int((analysis.alive & (recurs.share >= MOST_OFTEN)).sum())
    if not candidates:
        return
    needed = math.ceil(live / (analysis.level * candidates)) - 1  # q of all candidates is then at most the level
    for chance in analysis.chances:
        if len(chance.model) < needed:
            advice = "more untrained models" if chance.kind == "untrained" else "more draws"
            yield (
                f"{len(chance.model):,} {chance.kind} features are too few for q to reach {analysis.level:g}, which "
                f"takes {needed:,}: give {advice}."
            )


def _warnings(analysis: Analysis) -> Iterator[str]:
    """Traps that concern many latents, or a whole model."""
    recurs = analysis.recurrence.recurs
    words = {
        "duplicate": "are duplicates within their model",
        "tie": "have two equally good partners in some model",
        "trivial": "follow the mean or the length of a row, or the mean direction",
        "few_rows": "rest on fewer than 30 rows",
    }
    for name, clause in words.items():
        if count := int((analysis.flags[name] & recurs).sum()):
            yield f"{counted(count, 'latent')} among those {clause}: see the column flags."
    table = analysis.ranking()
    for row in table.iter_rows(named=True):
        reasons = []
        if row["live"] < HALF * row["latents"]:
            reasons.append(f"only {row['live']:,} of its {row['latents']:,} latents live")
        if row.get("explained") is not None and row["explained"] < HALF:
            reasons.append(f"it explains {row['explained']:.0%} of its inputs")
        if reasons:
            yield f"{row['model']} may be hardly trained ({', '.join(reasons)}): such models look irreproducible."
