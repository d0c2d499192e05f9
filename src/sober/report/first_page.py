"""The first page of a report. It answers: which model to use, how sure that is, what it does, how it compares.

The first page of a study answers what was found: sentences, the best settings, and one picture.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from sober.criteria.choice_rule import LOSS
from sober.criteria.verdict import DECIDED, Verdict
from sober.errors import counted
from sober.report.chosen_model import chosen_model_html
from sober.report.chosen_numbers import few_numbers
from sober.report.findings import labels_sentence
from sober.report.frontier import frontier_html
from sober.report.leaderboard_section import meaning
from sober.report.sortable_tables import MARKS, short
from sober.results import Runs

SENTENCES = 4  # that stand on the first page; the others are folded below them
OPEN = 3  # further findings that are not folded, at most
SETTINGS = 5  # in the small table

HEADINGS = {
    "this one": "Use {model}",
    "undecided": "No model stands out",
    "not trained far enough": "No model to use yet",
}
PICTURED = {"this one": "What it does", "undecided": "The best placed model"}


def answer(
    folder: Path,
    runs: Runs,
    verdicts: Mapping[str, Verdict],
    sentences: Sequence[str],
    notes: Sequence[str],
    use: str,
    blank: Collection[str] = (),
) -> str:
    """The first page of models to choose from: one model, why it is this one, how sure that is, and what labels say.

    `sentences` are further findings. `use` is how to load the exported model; empty if none was exported. `blank` has
    the runs whose reconstructions are no better than the mean picture.
    """
    world, verdict = next(iter(verdicts.items()))
    heading = HEADINGS[verdict.kind].format(model=f"{verdict.setting}, seed {verdict.seed}")
    pictured = PICTURED.get(verdict.kind, "The best placed model so far")
    title = f"{pictured}: {verdict.setting}, seed {verdict.seed}"
    picture = chosen_model_html(folder, verdict.run, title, is_blank=verdict.run in blank)
    usable = f'<p class="use">In Python: <code>{escape(use)}</code></p>' if use and verdict.kind == "this one" else ""
    by_labels = labels_sentence(runs, world, verdict)
    parts = [
        f'<h2 class="kind">{_unbroken(heading, verdict)}</h2>',
        f'<p class="why">{_unbroken(verdict.why(), verdict)}</p>',
        _certainty(verdict),
        f'<p class="labels">{escape(by_labels)}</p>' if by_labels else "",
        usable,
        _notes(notes),
        compared(runs, world, verdict) if verdict.kind != "not trained far enough" else "",
        _more(sentences, count=0),
    ]
    weighed = frontier_html(runs, world, verdict) if verdict.kind != "not trained far enough" else ""
    kind = verdict.kind.replace(" ", "-")
    return f'<div class="first {kind}"><div class="answer">{"".join(parts)}</div>{_beside(picture + weighed)}</div>'


def study(
    runs: Runs, verdicts: Mapping[str, Verdict], sentences: Sequence[str], notes: Sequence[str], pair: str
) -> str:
    """The first page of a study, or of models that no criterion has judged."""
    world = _main_world(runs)
    parts = [
        _sentences(sentences, count=SENTENCES),
        _more(sentences, count=SENTENCES),
        _notes(notes),
        compared(runs, world, verdicts.get(world)),
    ]
    weighed = frontier_html(runs, world, verdicts[world]) if world in verdicts else ""
    return f'<div class="first"><div class="answer">{"".join(parts)}</div>{_beside(pair + weighed)}</div>'


def _beside(pictures: str) -> str:
    """The pictures beside the answer; empty if there are none."""
    return f'<div class="beside">{pictures}</div>' if pictures else ""


def _unbroken(sentence: str, verdict: Verdict) -> str:
    """A sentence as HTML. The names of models and settings in it stay on one line where they fit."""
    html = escape(sentence)
    for name in dict.fromkeys(filter(None, (verdict.best_setting, f"{verdict.setting}, seed {verdict.seed}"))):
        html = html.replace(escape(name), f'<span class="name">{escape(name)}</span>')
    return html


def _main_world(runs: Runs) -> str:
    """The world with the most runs that did not diverge."""
    labels = list(runs.not_diverged().run_column("world"))
    return max(runs.unique("world"), key=labels.count)


def _sentences(sentences: Sequence[str], *, count: int) -> str:
    """The first sentences, the very first in larger letters."""
    return f'<ol class="findings">{"".join(f"<li>{escape(sentence)}</li>" for sentence in sentences[:count])}</ol>'


def _more(sentences: Sequence[str], *, count: int) -> str:
    """The sentences after the first ones, folded if they are many or follow others; empty if there are none."""
    more = sentences[count:]
    if not more:
        return ""
    listed = "".join(f"<li>{escape(sentence)}</li>" for sentence in more)
    return (
        f"<details{'' if count or len(more) > OPEN else ' open'}>"
        f"<summary>{counted(len(more), 'more finding' if count else 'further finding')}</summary>"
        f'<ol class="findings" style="counter-reset: finding {count}">{listed}</ol></details>'
    )


def _certainty(verdict: Verdict) -> str:
    """A bar for how often the model came first; empty if models are not trained far enough."""
    if verdict.certainty is None:
        return ""
    share = f"{verdict.certainty:.0%}"
    sentences = [
        f"How sure: first in {share} of {verdict.draws} draws of pictures and partners. A model needs {DECIDED:.0%}, "
        "the mark, to be named.",
        verdict.how_often_right(),
        *verdict.unchecked(),
    ]
    return (
        f'<div class="sure"><b>{share}</b><div class="bar" role="img" aria-label="first in {share} of draws" '
        f'style="--share: {share}; --decided: {DECIDED:.0%}"></div>'
        f"<p>{escape(' '.join(filter(None, sentences)))}</p></div>"
    )


def _notes(notes: Sequence[str]) -> str:
    """The decisions that Sober made for the person who asked; empty if there are none."""
    if not notes:
        return ""
    lines = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<div class="notes"><h3>Decided for you</h3><ul>{lines}</ul></div>'


def compared(runs: Runs, world: str, verdict: Verdict | None) -> str:
    """A small table of the best settings of a world; the best placed model stands first."""
    names = few_numbers(runs)
    if verdict is not None and verdict.prefer:  # the rule weighs the loss
        names += [name for name in runs.numbers_of([LOSS]) if name not in names]
    of_world = runs.not_diverged()
    of_world = of_world.where(of_world.run_column("world") == world)
    if not names or not len(of_world.run_frame):
        return ""
    heads = "".join(_head(name, runs) for name in names)
    rows = []
    placed = np.flatnonzero(of_world.run_column("run") == (verdict.run if verdict is not None else ""))
    if verdict is not None and len(placed):
        values = of_world.number_columns(names)[placed[0]].tolist()
        rows.append(_row(f"{verdict.setting}, seed {verdict.seed}", "the best placed model", values, "chosen-row"))
    medians = {
        setting: np.ma.median(seeds.number_columns(names), axis=0).tolist()
        for (setting,), seeds in of_world.grouped_by("setting")
    }
    order, by = _order(medians, names, runs, verdict)
    seeds = {setting: len(group.run_frame) for (setting,), group in of_world.grouped_by("setting")}
    rows += [
        _row(setting, f"median of {counted(seeds[setting], 'seed')}",
             medians[setting])
        for setting in order[:SETTINGS]
    ]  # fmt: skip
    left_out = len(order) - SETTINGS
    verb = "is" if left_out == 1 else "are"
    more = f" {counted(left_out, 'more setting')} {verb} in “All settings and models”." if left_out > 0 else ""
    where = f" on {world}" if len(runs.unique("world")) > 1 else ""
    return (
        f'<div class="comparing"><h3>How it compares{escape(where)}</h3><div class="scroll" tabindex="0" role="region" '
        f'aria-label="How it compares"><table class="compared">'
        f"<caption><span>{escape(by)}{more}</span></caption>"
        f"<thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def _order(
    medians: Mapping[str, Sequence[float | None]], names: Sequence[str], runs: Runs, verdict: Verdict | None
) -> tuple[list[str], str]:
    """The settings, the best first, and in a sentence by what: by labels, else the verdict's best setting is first."""
    sign = runs.numbers[names[0]].sign
    best = "" if verdict is None or runs.headline_metric() else verdict.best_setting or verdict.setting
    order = sorted(medians, key=lambda setting: (setting != best, *_place(medians[setting][0], sign)))
    if best in medians:
        return order, f"The setting that is best by the median over seeds comes first, then the others by {names[0]}."
    return order, f"Settings with the best median {names[0]} come first."


def _place(value: float | None, sign: int) -> tuple[bool, float]:
    return (value is None, 0.0 if value is None else -(sign or 1) * value)


def _head(name: str, runs: Runs) -> str:
    number = runs.numbers[name]
    note = f"{number.metric}: {meaning(number.metric)}"
    mark = MARKS[number.better]
    arrow = f'&nbsp;<span aria-label="{number.better} is better">{mark}</span>' if mark else ""
    return f'<th scope="col" title="{escape(note)}">{escape(name)}{arrow}</th>'


def _row(name: str, small: str, values: Sequence[float | None], kind: str = "") -> str:
    cells = "".join(f"<td>{'–' if value is None else short(value)}</td>" for value in values)
    return f'<tr class="{kind}"><th scope="row">{escape(name)}<small>{escape(small)}</small></th>{cells}</tr>'
