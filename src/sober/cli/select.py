"""`sober select`."""

from __future__ import annotations

from collections.abc import Callable

from rich.table import Table

from sober.cli.console import bar, console
from sober.cli.options import Folder, Json, Set
from sober.cli.score import json_text
from sober.criteria import Ranking
from sober.criteria.criterion import UNFIT
from sober.criteria.registry import USUAL
from sober.results.request import JUDGED_BY
from sober.types import Run
from sober.words import parse_settings
from sober.workflows.opened import open_results
from sober.workflows.select import select as select_models


def select(
    folder: Folder,
    /,
    *,
    criterion: str = USUAL,
    set_: Set = None,
    pictures: int = JUDGED_BY,
    seed: int = 0,
    top: int = 10,
    as_json: Json = False,
) -> None:
    """Rank the models in a folder without labels: the model to use, the setting to train with, and how sure that is.

    Several criteria count alike: models are ranked by the mean of their ranks. What they say goes into the folder's
    table; what is there is not computed again.

    Examples:

    `sober select runs/blocks`

    `sober select runs/blocks --criterion udr,pipe_rec --set mixing=permuted`

    Parameters
    ----------
    criterion
        One or several, separated by commas, as `sober criteria` lists them.
    set_
        Settings of the criteria, as in similarity=spearman; may be given more than once.
    pictures
        How many pictures the models are judged by, at most.
    seed
        Of all that is drawn.
    top
        How many models to list.
    as_json
        Print one JSON object with all models and settings, by world where there are several.
    """
    results, names = open_results(folder), list(dict.fromkeys(criterion.split(",")))
    with bar() as watcher:
        rankings = select_models(
            results.opened,
            names,
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
            console.print(f"[bold]{world}[/]\n")
        say_ranking(results.words, ranking, top)


def say_ranking(words: Callable[[Run], str], ranking: Ranking, top: int) -> None:
    """Prints a ranking: models, settings, the best for each number of latents, and what that amounts to."""
    console.print(ranking_table(words, ranking, top), "")
    if len(ranking.settings) > 1:
        console.print(settings_table(ranking), "")
    if len(ranking.by_latents()) > 1:
        console.print(latents_table(words, ranking), "")
    for sentence in ranking.sentences():
        console.print(sentence)
    for run in ranking.left_out:
        console.print(f"[yellow]{run.identity} was left out: {UNFIT['diverged']}[/]")


def ranking_table(words: Callable[[Run], str], ranking: Ranking, top: int) -> Table:
    """The best models: what the criteria say, how often each came first, and its places in nine of ten draws."""
    shown = f"the model to use: {min(top, len(ranking.models))} of {len(ranking.models)}"
    table = _ranked(shown, "run", ranking)
    for name in ("latents", "first", "places"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("setting")
    table.add_column("", style="yellow")
    for model in ranking.models[:top]:
        scores = [f"{model.scores[label]:.3f}" for label in ranking.criteria]
        places = f"{model.places[0]}–{model.places[1]}"
        latents = f"{model.informative} of {model.run.latents}"
        setting = f"{words(model.run)} seed={model.run.seed}"
        known = [str(model.place), model.run.identity[:8], *scores, latents, f"{model.first:.0%}", places]
        table.add_row(*known, setting, " ".join(model.flags))
    return table


def settings_table(ranking: Ranking) -> Table:
    """Settings by the median over their seeds."""
    table = _ranked("the setting to train with: medians over seeds", "setting", ranking)
    for name in ("first", "seeds"):
        table.add_column(name, justify="right", no_wrap=True)
    for setting in ranking.settings:
        scores = [f"{setting.scores[label]:.3f}" for label in ranking.criteria]
        table.add_row(str(setting.place), setting.words, *scores, f"{setting.first:.0%}", str(len(setting.runs)))
    return table


def latents_table(words: Callable[[Run], str], ranking: Ranking) -> Table:
    """The best model for each number of informative latents."""
    table = _ranked("the best for each number of informative latents", "run", ranking)
    table.add_column("latents", justify="right")
    table.add_column("setting")
    for count, model in ranking.by_latents().items():
        scores = [f"{model.scores[label]:.3f}" for label in ranking.criteria]
        setting = f"{words(model.run)} seed={model.run.seed}"
        table.add_row(str(model.place), model.run.identity[:8], *scores, str(count), setting)
    return table


def _ranked(title: str, what: str, ranking: Ranking) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim")
    table.add_column("place", justify="right", no_wrap=True)
    table.add_column(what, style="cyan", no_wrap=True)
    for label, criterion in ranking.criteria.items():
        table.add_column(f"{label} {'↑' if criterion.better == 'higher' else '↓'}", justify="right")
    return table
