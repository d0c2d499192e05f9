"""`sober leaderboard`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sober.cli.console import console
from sober.cli.options import Json
from sober.cli.printed import Column, FittedTable
from sober.cli.score import json_text
from sober.errors import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sober.report.people_words import PeopleWords
    from sober.results.method_board import Comparison


def leaderboard(
    *folders: Annotated[Path, Parameter(name="DIR", help="Folders of results, or names that sober results lists.")],
    score: str | None = None,
    world: str | None = None,
    as_json: Json = False,
) -> None:
    """Compare methods in each world: mean scores over all models of a method, and over the seeds of its best setting.

    Intervals are 95%. The interval over all models draws settings and their seeds again, so it says what other
    strengths would give. With one score, the table also has the best setting of each method; the same score chose it,
    which flatters it a little. Without DIR, the results that come with Sober are compared.

    For example:

    - `sober leaderboard`
    - `sober leaderboard runs/mine --score mig,udr --world dsprites`

    Parameters
    ----------
    score
        One or several scores, separated by commas; by default mig, dci_disentanglement and factor_vae, if they
        were measured.
    world
        Only this world.
    as_json
        Print one JSON object with a list for each score.
    """
    from sober.report.people_words import PeopleWords
    from sober.requests.results import open_results
    from sober.results.method_board import boards, comparisons
    from sober.results.runs import as_runs
    from sober.results.shipped import shipped

    opened = {path.name: open_results(path) for path in folders or shipped().values()}
    tables = {name: results.table() for name, results in opened.items()}
    score_boards = boards(tables, None if score is None else tuple(dict.fromkeys(score.split(","))), world)
    if as_json:
        print(json_text({board.score: board.plain() for board in score_boards}))
        return
    for comparison in comparisons(score_boards):
        words = PeopleWords.of(as_runs(tables[comparison.source]), tables[comparison.source])
        console.print(_table(comparison, {board.score: board.better for board in score_boards}, words), "")
    console.print("Compare methods within a table: other folders have other steps and nets.", style="dim")
    if len(score_boards) > 1:
        console.print("--score NAME, with one score, also names the best setting of each method.", style="dim")


def _table(comparison: Comparison, better: Mapping[str, str], words: PeopleWords) -> FittedTable:
    """The methods of one folder in one world, the best by the first score first."""
    from sober.results.method_board import in_words
    from sober.results.runs import score_words

    arrows = {"higher": " ↑", "lower": " ↓"}
    heads = [f"{score_words(score)}{arrows.get(better[score], '')}" for score in comparison.standings]
    columns = [Column("method", style="cyan"), Column("models", "right")]
    columns += [Column(head, "right", optional=True) for head in heads]
    alone = len(heads) == 1
    if alone:
        columns += [Column("best setting", wraps=True), Column("its seeds", "right")]
    rows = []
    for method, standing in comparison.first.items():
        scores = [standings.get(method) for standings in comparison.standings.values()]
        cells = ["–" if score is None else in_words(score.mean) for score in scores]
        if alone:
            setting = words.settings[standing.best_setting].removeprefix(f"{words.methods[method]}, ")
            cells += [setting, in_words(standing.best)]
        rows.append([words.methods[method], str(standing.models), *cells])
    steps = listed({f"{count:,}" for count in comparison.steps})
    title = f"{words.worlds[comparison.world]}: {comparison.source}, {steps} steps"
    return FittedTable(columns, rows, title, rest="--score NAME shows one")
