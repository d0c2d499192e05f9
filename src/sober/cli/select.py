"""`sober select`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from sober.cli.console import bar, console
from sober.cli.options import Folder, Json, Preference, Set
from sober.cli.printed import Column, FittedTable
from sober.cli.score import json_text
from sober.defaults import JUDGED_BY
from sober.settings_text import parse_settings
from sober.types import Run

if TYPE_CHECKING:
    from sober.criteria import Ranking
    from sober.criteria.ranked_models import RankedModel, RankedSetting

# The columns that name a model in a ranking.
MODEL = (Column("#"), Column("model", style="cyan", wraps=True), Column("seed", "right"), Column("run"))


def select(
    folder: Folder,
    /,
    *,
    prefer: Preference = None,
    criterion: str | None = None,
    set_: Set = None,
    pictures: int = JUDGED_BY,
    seed: int = 0,
    top: int = 10,
    as_json: Json = False,
) -> None:
    """Rank the models in a folder without labels: the model to use, the setting to train with, and how sure that is.

    Sober weighs agreement with the other models (UDR) against how well a model explains the pictures (ELBO), by what
    you prefer. With --criterion, models go by their mean rank under these criteria instead. The criteria's scores go
    into the folder's table; scores that are already there are not computed again.

    For example:

    - `sober select runs/blocks`
    - `sober select runs/blocks --prefer complete`
    - `sober select runs/blocks --criterion udr,pipe_rec --set mixing=permuted`

    Parameters
    ----------
    criterion
        Instead of --prefer: one or several criteria, separated by commas; `sober criteria` lists them.
    set_
        Settings of the criteria, as in similarity=spearman; may be given more than once.
    pictures
        How many pictures the criteria use, at most.
    seed
        Seed of everything random.
    top
        How many models and settings to list.
    as_json
        Print one JSON object with all models and settings; with several worlds, one object for each world in it.
    """
    from sober.requests.results import open_results
    from sober.requests.select import select as select_models

    results, names = open_results(folder), list(dict.fromkeys(criterion.split(","))) if criterion else None
    with bar() as watcher:
        rankings = select_models(
            results,
            names,
            prefer=prefer,
            settings=parse_settings(set_ or []),
            pictures=pictures,
            seed=seed,
            watcher=watcher,
        )
    if as_json:
        plain = {world: ranking.plain() for world, ranking in rankings.items()}
        print(json_text(plain if len(plain) > 1 else next(iter(plain.values()))))
        return
    for world, ranking in rankings.items():
        if len(rankings) > 1:
            console.print(f"{world}\n", style="bold")
        say_ranking(results.words, ranking, top)


def say_ranking(words: Callable[[Run], str], ranking: Ranking, top: int) -> None:
    """Prints a ranking: models, settings, the best model for each number of latents, and conclusions in sentences."""
    from sober.criteria.criterion import UNFIT

    console.print(ranking_table(words, ranking, top), "")
    if len(ranking.settings) > 1:
        console.print(settings_table(ranking, top), "")
    if len(ranking.by_latents()) > 1:
        console.print(latents_table(words, ranking), "")
    for run in ranking.left_out:
        console.print(f"{run.identity} was left out: {UNFIT['diverged']}", style="yellow")
    verdict, *limits = ranking.sentences()
    for sentence in limits:
        console.print(sentence, style="dim")
    console.print(f"\n{verdict}", style="bold")


def ranking_table(words: Callable[[Run], str], ranking: Ranking, top: int) -> FittedTable:
    """The best models: their scores, how often each came first, and its places in nine of ten draws.

    If no model is trained far enough, how often a model came first means nothing and is left out.
    """
    models, is_certain = ranking.models[:top], ranking.verdict.certainty is not None
    facts = [Column("latents", "right"), Column("first", "right"), Column("places", "right", optional=True)]
    flags = Column("flags", style="yellow", wraps=True)
    rows = []
    for model in models:
        first = [f"{model.first:.0%}", f"{model.places[0]}–{model.places[1]}"] if is_certain else ["", ""]
        latents = f"{model.informative} of {model.run.latents}"
        rows.append([*_names(words, model), *_scores(model, ranking), latents, *first, " ".join(model.flags)])
    title = f"models: the first {len(models)} of {len(ranking.models)}"
    return FittedTable([*MODEL, *_criteria(ranking), *facts, flags], rows, title)


def settings_table(ranking: Ranking, top: int) -> FittedTable:
    """The best settings, ranked by the median over their seeds."""
    is_certain = ranking.verdict.certainty is not None
    rows = []
    for setting in ranking.settings[:top]:
        first = f"{setting.first:.0%}" if is_certain else ""
        rows.append([str(setting.place), setting.words, *_scores(setting, ranking), first, str(len(setting.runs))])
    names = [Column("#"), Column("setting", style="cyan", wraps=True)]
    columns = [*names, *_criteria(ranking), Column("first", "right"), Column("seeds", "right")]
    first_of = f", the first {top} of {len(ranking.settings)}" if len(ranking.settings) > top else ""
    return FittedTable(columns, rows, f"settings: medians over seeds{first_of}")


def latents_table(words: Callable[[Run], str], ranking: Ranking) -> FittedTable:
    """The best model for each number of informative latents."""
    rows = [
        [*_names(words, model), *_scores(model, ranking), str(count)] for count, model in ranking.by_latents().items()
    ]
    columns = [*MODEL, *_criteria(ranking), Column("latents", "right")]
    return FittedTable(columns, rows, "the best for each number of informative latents")


def _names(words: Callable[[Run], str], model: RankedModel) -> list[str]:
    return [str(model.place), words(model.run), str(model.run.seed), model.run.identity[:8]]


def _criteria(ranking: Ranking) -> list[Column]:
    from sober.criteria.registry import criterion_words

    arrows = {"higher": "↑", "lower": "↓"}
    return [
        Column(f"{criterion_words(label)} {arrows[criterion.better]}", "right")
        for label, criterion in ranking.criteria.items()
    ]


def _scores(ranked: RankedModel | RankedSetting, ranking: Ranking) -> list[str]:
    """The scores, with as many digits as the largest of a column needs to be read."""
    largest = {
        label: max(
            (abs(model.scores[label]) for model in ranking.models if math.isfinite(model.scores[label])), default=0
        )
        for label in ranking.criteria
    }
    return [
        f"{ranked.scores[label]:.{3 - sum(largest[label] >= ten for ten in (10, 100, 1000))}f}" for label in largest
    ]
