"""Writes docs/findings.md and its pictures: what the results that come with Sober say about thirty claims.

    python docs/make_findings.py         the page and its pictures
    python docs/make_findings.py 5 22    prints what decides these claims, and writes nothing

A test compares the page with what this would write.
"""

from __future__ import annotations

import functools
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import make_luck
import numpy as np

import sober
from sober.errors import listed
from sober.results.claims import CLAIMS, SETS, Claim, Decision, in_words, paper_of, waits_for
from sober.results.claims import sober_look_numbers as look
from sober.results.claims.correlations import cell, controlled
from sober.results.runs import Runs, score_words
from sober.results.shipped import shipped
from sober.results.stats import Interval
from sober.results.tables.table import SEVEN_SCORES

PAGE = Path(__file__).parent / "findings.md"
PAPERS = {
    "sober_look": "Sober Look",
    "udr": "UDR",
    "dci": "DCI",
    "beta_tcvae": "β-TCVAE",
    "dava": "DAVA",
}
COLUMNS = ("claim", "the paper", "ours, with 95% interval", "verdict", "on what, and the command")
HEAD = """# Do the published findings hold?

![Thirty claims, each with its verdict or with the models that it waits for](pictures/findings.png)

{summary}

The lines that decide were fixed before anybody looked at the numbers. A claim **holds** if every 95% interval lies
wholly on the side of its line that the claim names, and **does not** if it lies wholly on the other side. It holds
**in part** if it says several things, and some hold while others do not. Otherwise these models **cannot tell**. A
claim **waits** if its models are not trained yet.

Models were trained for fewer steps than in the papers, so compare signs, orders and gaps, not levels. `python
docs/make_findings.py` makes this page from [results that come with Sober](results.md).

## All claims

"""
MODELS = """## The models

Each set is an entry of `results/wanted.toml`. `python tools/train_wanted.py OUT --entry NAME` trains it on a GPU, and
`sober merge`, `sober score` and `sober select` measure it on any machine.

| set | what | results | claims |
|---|---|---|---|
"""
DECIDED = """## What decides each claim

Intervals hold 95% of what comes out when settings, and seeds within them, are drawn again 1,000 times. In claims 1, 2
and 24 models are drawn, in claim 22 seeds, in claim 23 settings, in claim 5 runs from normal distributions.
"""
CONTROLS = (
    "Most numbers about models go with their KL, which says how much a model keeps. So the table shows each "
    "correlation also within methods (mean over methods), and after taking out the KL (partial rank correlation)."
)


def page(sets: look.Sets, decisions: Mapping[int, Decision]) -> str:
    """The whole page."""
    lines = [
        *(_row(claim, decisions.get(claim.number)) for claim in CLAIMS.values()),
        "",
        MODELS + "\n".join(_sets()),
        "",
        DECIDED,
        *(line for number in decisions for line in _section(CLAIMS[number], decisions[number], sets)),
    ]
    head = f"| | {' | '.join(COLUMNS)} |\n|---:|{'---|' * len(COLUMNS)}\n"
    return HEAD.format(summary=_filled(_summary(decisions))) + head + "\n".join(lines)


def _filled(text: str) -> str:
    return textwrap.fill(text, 119, break_long_words=False, break_on_hyphens=False)


def states(decisions: Mapping[int, Decision]) -> dict[int, str]:
    """By claim its verdict, or the sets that it waits for."""
    return {
        number: decisions[number].verdict if number in decisions else f"waits for {', '.join(waits_for(claim))}"
        for number, claim in CLAIMS.items()
    }


def _summary(decisions: Mapping[int, Decision]) -> str:
    """Five sentences of what was found."""
    counts = Counter(decision.verdict for decision in decisions.values())
    counts_in_words = ", ".join(
        f"{counts[name]} {words[counts[name] > 1]}" for name, words in COUNTED.items() if counts[name]
    )
    waiting = len(CLAIMS) - len(decisions)
    holding = {number for number, decision in decisions.items() if decision.verdict == "holds"}
    return (
        f"This page puts thirty claims of five papers to the test: {counts_in_words}, and {waiting} wait for "
        f"models. " + " ".join(SENTENCES[number](decisions[number]) for number in SENTENCES if number in holding)
    )


COUNTED = {  # one claim and several
    "holds": ("holds", "hold"),
    "in part": ("holds in part", "hold in part"),
    "does not": ("does not hold", "do not hold"),
    "cannot tell": ("cannot be decided", "cannot be decided"),
}
SENTENCES: dict[int, Callable[[Decision], str]] = {  # about claims, if they hold
    1: lambda _: "Regularisation makes sampled codes independent and their means dependent, as published.",
    3: lambda _: (
        "No number without labels (reconstruction, KL, ELBO, total correlation of samples) goes with all scores, as "
        "published."
    ),
    4: lambda d: (
        "Scores agree with each other (median rank correlation "
        + in_words(d.conditions[0].numbers[0])
        + "), but not with Modularity."
    ),
    7: lambda _: "Scores other than Modularity go with accuracy downstream, as published.",
}


def _row(claim: Claim, decision: Decision | None) -> str:
    place = f"{PAPERS[paper_of(claim)]}, {claim.place}: {claim.printed}"
    if decision is None:
        letters = " and ".join(f"[{letter}](#the-models)" for letter in waits_for(claim))
        cells = [claim.sentence, place, "", f"waits for set {letters}", f"`{claim.command}`"]
    else:
        link = f"[{claim.sentence}](#{_anchor(_heading(claim))})"
        made_of = f"{decision.models}<br>`{claim.command}`"
        cells = [link, place, decision.ours, f"**{decision.verdict}**", made_of]
    return f"| {claim.number} | {' | '.join(cells)} |"


def _sets() -> Iterator[str]:
    for letter, models in SETS.items():
        entries = ", ".join(f"`{entry}`" + ("" if entry in shipped() else " (wanted)") for entry in models.entries)
        claims = ", ".join(str(claim.number) for claim in CLAIMS.values() if letter in claim.sets)
        yield f"| {letter} | {models.words} | {entries} | {claims} |"


def _heading(claim: Claim) -> str:
    return f"{claim.number}. {claim.title[0].upper()}{claim.title[1:]}"


def _anchor(heading: str) -> str:
    """The end of a link to a heading, as GitHub and the site make it."""
    return "".join(letter for letter in heading.lower() if letter.isalnum() or letter in " -_").replace(" ", "-")


def _section(claim: Claim, decision: Decision, sets: look.Sets) -> Iterator[str]:
    yield f"### {_heading(claim)}"
    yield ""
    yield _filled(f"*{claim.sentence}* ({PAPERS[paper_of(claim)]}, {claim.place})")
    yield ""
    yield _filled(f"**Verdict: {decision.verdict}.** {decision.ours}.")
    yield ""
    yield _filled(f"Decided by: {claim.line}")
    yield ""
    if decision.verdict == "cannot tell":
        yield _filled(f"What would decide it: {decision.needs}.")
        yield ""
    yield f"![{claim.title}](pictures/finding_{claim.number:02}.png)"
    yield ""
    if claim.number in NOTES:
        parts = NOTES[claim.number](sets).split("\n\n")
        yield "\n\n".join(paragraph if paragraph.startswith("|") else _filled(paragraph) for paragraph in parts)
        yield ""
    yield f"```\n{claim.command}\n```"
    yield ""


# What was looked at beside the number that decides.


def _note_1(sets: look.Sets) -> str:
    return (
        "Filled points are means, open ones samples; a point is a model, lines join medians of seeds. β-TCVAE's "
        "penalty on the total correlation acts on samples alone, so nothing keeps the means independent."
    )


def _note_2(sets: look.Sets) -> str:
    shares = look.variance_shares(sets["A"].not_diverged())
    values = ", ".join(f"{score_words(name)} {100 * share.seed.value:.0f}%" for name, share in shares.items())
    by_value = sum(share.seed.value > 0.2 for share in shares.values())
    return (
        f"What is left to the seed: {values}. With 36 settings and 174 models, settings explain 20% of anything by "
        "chance, so these shares are rather too low; the column `adjusted` of the table corrects for it. Black "
        "brackets are the intervals of where the seed's share begins. Five seeds of a setting are too few to tell "
        f"where a share is near 20%; by values alone it is above for {by_value} of 7."
    )


def _note_3(sets: look.Sets) -> str:
    correlations = look.label_free_correlations(sets)
    rows = ["| | within methods, median of 7 scores | KL taken out, median of 7 scores |", "|---|---|---|"]
    for place, name in enumerate(look.LABEL_FREE):
        cells = []
        for kind in ("within", "given_kl"):
            medians = [_median(getattr(world, kind).value[place]) for world in correlations.values()]
            cells.append(", ".join(medians))
        rows.append(f"| {name} | {' | '.join(cells)} |")
    rows_in_words, first_correlation = "\n".join(rows), correlations["dsprites"].given_kl.value[0]
    return (
        "Lower is better for all four, so a number that tells has negative correlations. A point is a score on one "
        "of three worlds; dashed lines are at ± 0.5. The decoders of set A were not kept, so its reconstruction "
        "comes from the log of the last steps of training, which ranks the models of set B as their reconstruction "
        "does (ρ above 0.99).\n\n"
        f"{CONTROLS}\n\n{rows_in_words}\n\n*In order: dSprites, with colour, with noise.*\n\n"
        "Among models of one KL on dSprites a better reconstruction goes with better scores (median "
        f"{_median(first_correlation)}), but hardly with colour, and not with noise."
    )


def _median(values: np.ma.MaskedArray) -> str:
    return "–" if not np.ma.count(values) else f"{np.ma.median(values):.2f}".replace("-", "−")


def _note_4(sets: look.Sets) -> str:
    runs = sets["A"].not_diverged()
    scores = runs.number_columns(SEVEN_SCORES)
    correlations = controlled(runs, scores, scores)
    five = [k for k, name in enumerate(SEVEN_SCORES) if name not in ("modularity", "irs")]
    upper = np.triu_indices(5, 1)
    medians = {
        kind: np.ma.median(getattr(correlations, kind).value[np.ix_(five, five)][upper])
        for kind in ("within", "given_kl")
    }
    return (
        f"The median of the five others is {medians['within']:.2f} within methods and {medians['given_kl']:.2f} after "
        "taking out the KL: they agree about more than which models collapsed."
    )


def _note_5(sets: look.Sets) -> str:
    parts, any_two = [], look.luck_of_any_two(sets["A"].not_diverged())
    for (world,), runs in look.three_worlds(sets).grouped_by("world"):
        same, other = look.luck(runs).values, look.luck_of_new_seeds(runs)
        parts.append(f"{np.sum(same > 0.1)} of {same.size} on {world} ({np.sum(other > 0.1)} if other seeds choose)")
    simulations = make_luck.read()
    heads = (
        *("deviations of seeds", "true share"),
        *("counted share, mean", "its interval holds the truth"),
        *("corrected share, mean", "its interval holds the truth"),
    )
    rows = (
        f"| × {luck.scale:g} | {luck.truth:.2f} | {luck.counted:.2f} | {luck.counted_held / luck.draws:.0%} | "
        f"{luck.corrected:.2f} | {luck.corrected_held / luck.draws:.0%} |"
        for luck in simulations
    )
    table = "\n".join([f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1), *rows])
    return (
        "**What was looked at**, because the counted cells seem to contradict the paper. *Who chooses:* best and worst "
        "settings are chosen by the same five runs that then meet (left), which lowers the probability. If two seeds "
        "meet and the others choose (right), more cells are above 0.1. By how much choosing lowers the share is known "
        "where runs are drawn from normal distributions, with the means and deviations of these settings. "
        f"{simulations[0].draws} such simulations, for each row of the table, say what the "
        f"share comes to and how often its 95% interval holds the truth (`python docs/make_luck.py`).\n\n{table}\n\n"
        "The corrected interval holds the truth less often than 95%, so it is too narrow: where it cannot tell, "
        "a wider one cannot either. *Other worlds:* counted cells above 0.1 are "
        f"{', '.join(parts)}; noise makes luck larger. *Other pairs:* between any two strengths of a method on "
        f"dSprites the mean probability is {any_two:.2f}. *The paper's words:* it says “in many cases” of Cars3D, "
        "with 50 seeds and 300,000 steps, and excepts IRS on some data sets. Five seeds of each setting are too few."
    )


def _note_8(sets: look.Sets) -> str:
    return (
        "10,000 pictures were encoded, and half of them are compared with the other half: 5,000 each. From 10,000 a "
        "score repeats itself better still, so what holds from 5,000 pictures holds, and a lower correlation decides "
        "nothing. The models were not kept, so no more pictures can be encoded. `repeats.parquet` in the folder holds "
        "the scores of both halves."
    )


def _note_9(sets: look.Sets) -> str:
    runs = sets["A"].not_diverged()
    compact, others = [], []
    for kind in ("within", "given_kl"):
        least, lonely = [], []
        for matrix in look.MATRICES:
            columns = runs.number_columns([f"{matrix}/{rule}" for rule in look.RULES])
            values = getattr(controlled(runs, columns, columns), kind).value
            least.append(np.ma.min(values[:3, :3][np.triu_indices(3, 1)]))
            lonely.append(values[4, :4])
        compact.append(min(least))
        others.append(np.ma.median(np.ma.stack(lonely)))
    within, given_kl = (
        f"{one:.2f} against {other:.2f}".replace("-", "−") for one, other in zip(compact, others, strict=True)
    )
    return (
        f"The least of the three against the median of Modularity: {within} within methods (mean over methods), "
        f"{given_kl} after taking out the KL."
    )


def _note_22(sets: look.Sets) -> str:
    result = look.transfer_of_settings(look.three_worlds(sets))
    gap, beyond = (
        in_words(Interval(*(100 * end for end in number)), 1) for number in (result.gap, result.beyond_chance)
    )
    return (
        f"The gap is {gap} points. A setting carried to another score on another world comes to {beyond} points above "
        "chance; the claim needs at most 5. The worlds are three variants of dSprites, where the paper has seven "
        "data sets that differ more, so transfer is easier here. AnnealedVAE on noise and a seed of FactorVAE on "
        "dSprites are missing, and models on dSprites were trained for 100,000 steps, the others for 30,000."
    )


def _note_23(sets: look.Sets) -> str:
    pairs = look.agreement_of_worlds(look.three_worlds(sets))
    clearer = [score_words(name) for name, pair in pairs.items() if pair.difference.low > 0]
    high = [score_words(name) for name, pair in pairs.items() if pair.colour.low > 0.6]
    noisy = [score_words(name) for name, pair in pairs.items() if pair.noise.low > 0]
    by_value = sum(pair.colour.value > max(pair.noise.value, 0.6) for pair in pairs.values())
    return (
        f"Colour is clearly above noise for {listed(clearer)}, and clearly above 0.6 for {listed(high)}. {len(noisy)} "
        f"of 7 scores go with themselves on noise too: {listed(noisy)}. With noise there are 30 settings, without "
        "AnnealedVAE. The models on dSprites had 100,000 steps, the others 30,000. By values alone, without "
        f"intervals, it would be {by_value} of 7."
    )


def _note_24(sets: look.Sets) -> str:
    runs = look.three_worlds(sets)
    active = {}
    for (world, method, strength), group in runs.grouped_by("world", "method", "strength"):
        medians = active.setdefault((world, method), [])
        medians.append((strength, float(np.ma.median(group.number_columns(["active_latents"])))))
    ends = {key: (medians[0][1], medians[-1][1]) for key, medians in active.items()}
    beta, dip = ends["noisy_dsprites", "beta_vae"], ends["noisy_dsprites", "dip_vae_ii"]
    return (
        "**What was looked at**, because means contradict the paper in part. The number is a mean over all pairs of "
        f"latents, so latents that die lower it. With noise the median of active latents falls from {beta[0]:g} to "
        f"{beta[1]:g} as the β of β-VAE rises, and from {dip[0]:g} to {dip[1]:g} for DIP-VAE-II: their means lose "
        "information altogether. DIP-VAE-I is left out by the claim; AnnealedVAE's strength is a capacity, and the "
        "paper's Figures 2 and 3 leave it out."
    )


def _note_tasks(sets: look.Sets, columns: Mapping[int, str]) -> str:
    correlations = look.task_correlations(sets["A"])
    rows = [f"| | {' | '.join(f'{words}, {kind}' for words in columns.values() for kind in KINDS.values())} |"]
    rows.append("|---|" + "---|" * (len(columns) * len(KINDS)))
    for k, name in enumerate(SEVEN_SCORES):
        cells = [in_words(cell(getattr(correlations, kind), k, column)) for column in columns for kind in KINDS]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    tried = look.with_tasks(sets["A"])
    return f"{len(tried.run_frame)} models were tried. {CONTROLS}\n\n" + "\n".join(rows)


def _note_6(sets: look.Sets) -> str:
    correlations = look.task_correlations(sets["A"])
    higher, lower = (
        [sum(sign * end > 0 for end in ends.filled(0.0)[:, column]) for column in (1, 2)]
        for sign, ends in ((1, correlations.plain.low), (-1, correlations.plain.high))
    )
    return (
        f"It depends on the predictor. With boosted trees {higher[0]} of 7 scores go with efficiency and {lower[0]} "
        f"against it, with logistic regression {higher[1]} go with it and {lower[1]} against it.\n\n"
        + _note_tasks(sets, {1: "trees", 2: "logistic"})
    )


KINDS = {"plain": "all models", "within": "within methods", "given_kl": "KL taken out"}
NOTES: dict[int, Callable[[look.Sets], str]] = {
    1: _note_1,
    2: _note_2,
    3: _note_3,
    4: _note_4,
    5: _note_5,
    6: _note_6,
    7: lambda sets: _note_tasks(sets, {0: "accuracy"}),
    8: _note_8,
    9: _note_9,
    22: _note_22,
    23: _note_23,
    24: _note_24,
}


@functools.cache
def shipped_sets() -> dict[str, Runs]:
    """The sets of models that come with Sober, by letter."""
    return {
        letter: sober.results(models.entries[0]).numbers()
        for letter, models in SETS.items()
        if models.entries[0] in shipped()
    }


def decide(numbers: Sequence[int] = ()) -> dict[int, Decision]:
    """The decisions of all claims that are ready, or of those with these numbers."""
    ready = {number: claim.decide for number, claim in CLAIMS.items() if claim.decide is not None}
    return {number: ask(shipped_sets()) for number, ask in ready.items() if not numbers or number in numbers}


def show(numbers: Sequence[int]) -> None:
    """Prints what decides claims."""
    for number, decision in decide(numbers).items():
        print(f"{number}. {CLAIMS[number].sentence}\n   {decision.verdict}: {decision.ours}\n   {decision.models}")
        for condition in decision.conditions:
            answer = {True: "yes", False: "no", None: "cannot tell"}[condition.holds]
            print(f"   {answer:11}  {condition.words}", *(in_words(interval) for interval in condition.numbers))


if __name__ == "__main__":
    if claim_numbers := [int(number) for number in sys.argv[1:]]:
        show(claim_numbers)
    else:
        from finding_pictures import draw

        all_decisions = decide()
        PAGE.write_text(page(shipped_sets(), all_decisions), encoding="utf-8")
        print(f"wrote {PAGE}, and {len(draw(states(all_decisions), shipped_sets(), list(all_decisions)))} pictures")
