"""Claims of A Sober Look (Locatello et al. 2020), decided by models of its six methods on dSprites and its variants."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.ma import MaskedArray

from sober.results.claims.claim import Claim, Condition, Decision, above, at_least, below, in_words, within
from sober.results.claims.correlations import RESAMPLES, cell
from sober.results.claims.more_models import in_words as needed_in_words
from sober.results.claims.more_models import needed_above, needed_all, needed_at_least, needed_below
from sober.results.claims.sober_look_numbers import (
    BY_PENALTY,
    COMPACTNESS,
    EFFICIENCIES,
    LABEL_FREE,
    MATRICES,
    RULES,
    Sets,
    agreement_of_worlds,
    estimate,
    label_free_correlations,
    luck,
    repeated_runs,
    repeats,
    score_agreement,
    share_higher,
    share_of_cells,
    task_correlations,
    three_worlds,
    trained,
    transfer_of_settings,
    trends,
    unified_correlations,
    variance_shares,
    with_tasks,
)
from sober.results.runs import joined, score_words
from sober.results.stats import (
    Interval,
    interval,
)
from sober.results.tables.table import SEVEN_SCORES
from sober.results.tables.tasks import scores_against_tasks
from sober.setting_words import method_title

SEEDS, SEEDS_NUMBER = "seeds of each setting", 5  # of the sets A and B
AS_IN_TABLE_5 = ("beta_vae", "dci_disentanglement", "factor_vae", "irs", "mig", "modularity", "sap")


def total_correlation(sets: Sets) -> Decision:
    """1: sampled codes lose total correlation with the strength, means gain it."""
    runs, name = sets["A"], "gaussian_total_correlation"
    correlations, higher = trends(runs, name), share_higher(runs, name)
    conditions = list(_falls_and_rises(correlations, name, ("beta_vae", "beta_tcvae")))
    conditions.append(above("most models have more total correlation in means", higher, 0.5))
    ours = "; ".join(
        f"{method_title(method)}: samples {in_words(correlations['dsprites', method, f'{name}_sampled'])}, means "
        f"{in_words(correlations['dsprites', method, name])}"
        for method in ("beta_vae", "beta_tcvae")
    )
    share = Interval(*(100 * end for end in higher))
    return Decision(tuple(conditions), f"{ours}; means higher in {in_words(share, 0, '%')} of models", trained(runs))


def mutual_information(sets: Sets) -> Decision:
    """24: the same with the average mutual information of latents, on three worlds."""
    runs, name = three_worlds(sets), "mutual_information"
    correlations = trends(runs, name)
    conditions = tuple(_falls_and_rises(correlations, name, BY_PENALTY))
    counts = []
    for words, ending, whose in (("falls", "_sampled", "of samples"), ("rises", "", "of means")):
        cells = [condition.holds for condition in conditions if f"{name}{ending} {words}" in condition.words]
        doubt = sum(holds is None for holds in cells)
        counts.append(f"{whose} {words} in {sum(map(bool, cells))} of {len(cells)}")
        counts[-1] += f" ({doubt} unclear)" * bool(doubt)
    ours = f"4 methods × 3 worlds: {counts[0]}, {counts[1]}"
    return Decision(conditions, ours, trained(runs))


def _falls_and_rises(
    correlations: Mapping[tuple[str, str, str], Interval], name: str, methods: Sequence[str]
) -> Iterator[Condition]:
    for (world, method, metric), number in correlations.items():
        if method in methods and metric == f"{name}_sampled":
            yield below(f"{metric} falls with the strength of {method} on {world}", number, 0.0)
        elif method in methods:
            yield above(f"{metric} rises with the strength of {method} on {world}", number, 0.0)


def variance(sets: Sets) -> Decision:
    """2: the strength adds to what the method explains, and the seed remains."""
    runs = sets["A"].not_diverged()
    shares = variance_shares(runs)
    added = [above(name, share.strength, 0.0).holds for name, share in shares.items()]
    left = [above(name, share.seed, 0.2).holds for name, share in shares.items()]
    conditions = (
        at_least("the setting explains more than the method, for 6 of 7 scores", 6, added),
        at_least("the seed is left more than 20%, for 5 of 7 scores", 5, left),
    )
    in_order = [shares[name] for name in AS_IN_TABLE_5]
    method = " ".join(f"{100 * share.method.value:.0f}" for share in in_order)
    setting = " ".join(f"{100 * (share.method.value + share.strength.value):.0f}" for share in in_order)
    seeds = f"seed above 20% for {sum(map(bool, left))} of 7"
    needed = needed_at_least(5, [needed_above(share.seed, 0.2) for share in shares.values()])
    needs = needed_in_words(needed, SEEDS, SEEDS_NUMBER)
    return Decision(conditions, f"method {method} %, method × strength {setting} %; {seeds}", trained(runs), needs)


def no_label_free_number(sets: Sets) -> Decision:
    """3: none of four label-free numbers goes with six of seven scores, in one direction, on all worlds."""
    correlations = label_free_correlations(sets)
    useful: list[bool | None] = []
    for place, sign in itertools.product(range(len(LABEL_FREE)), (1, -1)):
        by_world = [_goes_with_scores(number.plain, place, sign) for number in correlations.values()]
        useful.append(False if False in by_world else True if by_world and all(by_world) else None)
    holds = False if True in useful else None if None in useful else True
    words = []
    for place, name in enumerate(LABEL_FREE):
        reached = [
            max(sum(map(bool, _reached(number.plain, place, sign))) for sign in (1, -1))
            for number in correlations.values()
        ]
        words.append(f"{name} {', '.join(map(str, reached))}")
    ours = f"scores of 7 that reach the line, by world: {'; '.join(words)}"
    condition = Condition("no label-free number goes with 6 of 7 scores on every world", holds)
    return Decision((condition,), ours, trained(joined([sets["A"], sets["B"]])))


def _reached(numbers: Interval, place: int, sign: int) -> list[bool | None]:
    """For each score: whether the correlation has this sign, is beyond 0.5 and has its interval beyond 0.3."""
    cells: list[bool | None] = []
    for k in range(len(SEVEN_SCORES)):
        value, low, high = (sign * end for end in cell(numbers, place, k))
        low, high = min(low, high), max(low, high)
        cells.append(True if value > 0.5 and low > 0.3 else False if high < 0.5 else None)
    return cells


def _goes_with_scores(numbers: Interval, place: int, sign: int) -> bool | None:
    return at_least("", 6, _reached(numbers, place, sign)).holds


def scores_agree(sets: Sets) -> Decision:
    """4: all scores but Modularity and IRS agree; MIG and DCI are among the closest pairs."""
    runs = sets["A"].not_diverged()
    values, draws = score_agreement(runs)
    five = [name for name in SEVEN_SCORES if name not in ("modularity", "irs")]
    pairs = list(itertools.combinations(five, 2))
    lonely = [("modularity", name) for name in SEVEN_SCORES if name != "modularity"]
    among, modularity = (_median_of(values, draws, chosen) for chosen in (pairs, lonely))
    place = _place_of(values, draws, ("mig", "dci_disentanglement"))
    conditions = (
        above("the median correlation among the five others is above 0.5", among, 0.5),
        below("the median correlation of Modularity is below 0.3", modularity, 0.3),
        below("MIG and DCI are among the 3 closest of 21 pairs", place, 3.5),
    )
    ours = (
        f"median among five {in_words(among)}, of Modularity {in_words(modularity)}; MIG and DCI: place "
        f"{in_words(place, 0)} of 21"
    )
    return Decision(conditions, ours, trained(runs))


def _places(pairs: Sequence[tuple[str, str]], names: Sequence[str] = SEVEN_SCORES) -> tuple[np.ndarray, ...]:
    return tuple(np.array([[names.index(name) for name in pair] for pair in pairs]).T)


def _median_of(values: MaskedArray, draws: MaskedArray, pairs: Sequence[tuple[str, str]]) -> Interval:
    i, j = _places(pairs)
    return estimate(np.ma.median(values[i, j]), np.ma.median(draws[:, i, j], axis=1))


def _place_of(values: MaskedArray, draws: MaskedArray, pair: tuple[str, str]) -> Interval:
    """The place of a pair among all pairs, the closest first."""
    pairs = list(itertools.combinations(SEVEN_SCORES, 2))
    i, j = _places(pairs)
    place = pairs.index(pair)
    number, drawn = values[i, j], draws[:, i, j]
    return estimate(1.0 + (number > number[place]).sum(), 1.0 + (drawn > drawn[:, place, None]).sum(axis=1))


def rules_agree(sets: Sets) -> Decision:
    """9: on one matrix MIG, SAP and Completeness always agree, Modularity depends on the matrix."""
    runs = sets["A"].not_diverged()
    names, values, draws = unified_correlations(runs)
    compact = [(f"{m}/{a}", f"{m}/{b}") for m in MATRICES for a, b in itertools.combinations(COMPACTNESS, 2)]
    lonely = [(f"{m}/modularity", f"{m}/{rule}") for m in MATRICES for rule in RULES if rule != "modularity"]
    same, other = _places(compact, names), _places(lonely, names)
    least, drawn_least = np.ma.min(values[same]), np.ma.min(np.moveaxis(draws, 0, -1)[same].T, axis=1)
    median, drawn_median = np.ma.median(values[other]), np.ma.median(np.moveaxis(draws, 0, -1)[other].T, axis=1)
    number = estimate(least - median, drawn_least - drawn_median)
    condition = above("the least agreement of MIG, SAP and Completeness is above Modularity's median", number, 0.0)
    spreads = []
    for rule in RULES:
        pairs = [(f"{a}/{rule}", f"{b}/{rule}") for a, b in itertools.combinations(MATRICES, 2)]
        across = values[_places(pairs, names)]
        spreads.append(f"{score_words(rule)} {across.min():.2f} to {across.max():.2f}".replace(" -", " −"))
    ours = (
        f"least of the three {in_words(estimate(least, drawn_least))}, median of Modularity "
        f"{in_words(estimate(median, drawn_median))}, difference {in_words(number)}; one rule across matrices: "
        f"{', '.join(spreads)}"
    )
    return Decision((condition,), ours, trained(runs))


def luck_beats_strength(sets: Sets) -> Decision:
    """5: a lucky run of a poor strength beats an unlucky run of a good one."""
    runs = sets["A"].not_diverged()
    result = luck(runs)
    share = share_of_cells(runs)
    condition = above("more than half of the methods and scores have a probability above 0.1", share, 0.5)
    middle = np.median(result.values)
    ours = (
        f"{np.sum(result.values > 0.1)} of {result.values.size} cells above 0.1, which the choice of settings by the "
        f"same runs lowers; the share without that {in_words(share)}; median probability {middle:.2f}"
    )
    needs = needed_in_words(needed_above(share, 0.5), SEEDS, SEEDS_NUMBER)
    return Decision((condition,), ours, trained(runs), needs)


def efficiency(sets: Sets) -> Decision:
    """6: higher scores bring no higher statistical efficiency."""
    rows = scores_against_tasks(sets["A"], resamples=RESAMPLES).iter_rows(named=True)
    cells = [row for row in rows if row["score"] in SEVEN_SCORES and row["task"] in EFFICIENCIES]
    positive = [row for row in cells if row["low"] is not None and row["low"] > 0]
    negative = [row for row in cells if row["high"] is not None and row["high"] < 0]
    holds = True if len(positive) <= 3 else False if len(positive) >= 9 else None
    condition = Condition("at most 3 of 14 correlations with efficiency are above 0", holds)
    ours = f"{len(positive)} of {len(cells)} correlations above 0, {len(negative)} below 0"
    return Decision((condition,), ours, trained(with_tasks(sets["A"])), _needs_of_efficiency(cells))


def _needs_of_efficiency(cells: Sequence[Mapping[str, Any]]) -> str:
    """The line leaves 4 to 8 correlations undecided, however sure each of them is."""
    by_value = sum(row["value"] is not None and row["value"] > 0 for row in cells)
    if 3 < by_value < 9:
        return (
            f"more models of this kind will not do: by value alone {by_value} of {len(cells)} correlations are above "
            "0, between the two lines. Other worlds or predictors could"
        )
    outcome = "does not hold" if by_value >= 9 else "holds"
    return f"more models. If the values stay where they are, these would show that the claim {outcome}"


def accuracy(sets: Sets) -> Decision:
    """7: scores other than Modularity go with accuracy."""
    correlations = task_correlations(sets["A"])
    cells: list[bool | None] = []
    words = []
    for k, name in enumerate(SEVEN_SCORES):
        number = cell(correlations.plain, k, 0)
        words.append(f"{score_words(name)} {in_words(number)}")
        if name != "modularity":
            reached = number.value > 0.2 and number.low > 0
            cells.append(True if reached else False if number.high < 0.2 else None)
    condition = at_least("5 of 6 scores have a correlation above 0.2, interval above 0", 5, cells)
    return Decision((condition,), "; ".join(words), trained(with_tasks(sets["A"])))


def scores_repeat(sets: Sets) -> Decision:
    """8: scores repeat themselves from many pictures, less from 100, where FactorVAE and IRS do best.

    The many pictures are half of 10,000, so that two parts share none. From 10,000 a score repeats itself better: so
    what holds from half holds from all, and a lower correlation cannot tell.
    """
    correlations = repeats(sets["A"])
    few, many = min(correlations), max(correlations)
    (low, low_draws), (high, high_draws) = correlations[few], correlations[many]
    repeated = [cell(interval(high, high_draws), k) for k in range(len(SEVEN_SCORES))]
    lost = [cell(interval(low - high, low_draws - high_draws), k) for k in range(len(SEVEN_SCORES))]
    conditions = [
        at_least(
            "all 7 scores repeat themselves with a correlation above 0.9",
            7,
            [above("", number, 0.9).holds or None for number in repeated],
        ),
        at_least("all 7 scores do worse from 100 pictures", 7, [below("", number, 0.0).holds for number in lost]),
    ]
    places = []
    for name in ("factor_vae", "irs"):
        k = SEVEN_SCORES.index(name)
        place = estimate(1.0 + (low > low[k]).sum(), 1.0 + (low_draws > low_draws[:, k, None]).sum(axis=1))
        places.append(place)
        conditions.append(below(f"{name} is among the 3 best from 100 pictures", place, 3.5))
    words = [
        f"{score_words(name)} {first:.2f}, {second:.2f}"
        for name, first, second in zip(SEVEN_SCORES, low, high, strict=True)
    ]
    ours = f"from {few} and from {many:,} pictures: {'; '.join(words)}"
    measured = sets["A"].where(np.isin(sets["A"].run_column("run"), repeated_runs(sets["A"])))
    needed = needed_all(
        *(needed_above(number, 0.9) for number in repeated),
        *(needed_below(number, 0.0) for number in lost),
        *(needed_below(place, 3.5) for place in places),
    )
    needs = needed_in_words(needed, "models", len(measured.run_frame))
    return Decision(tuple(conditions), ours.replace(" -", " −"), trained(measured), needs)


def transfer(sets: Sets) -> Decision:
    """22: a setting that was chosen by one score on one world does no better than chance by another on another."""
    runs = three_worlds(sets)
    result = transfer_of_settings(runs)
    conditions = (
        above("same score and world beat another score on another world by more than 10 points", result.gap, 0.1),
        within("another score on another world is within 5 points of chance", result.beyond_chance, 0.05),
    )
    cells = {"same/same": (0, 0), "other score": (1, 0), "other data": (0, 1), "both": (1, 1)}
    words = [
        f"{name} {in_words(Interval(*(100 * end for end in cell(result.probability, *place))), 1, '%')}"
        for name, place in cells.items()
    ]
    ours = f"{'; '.join(words)}; chance {100 * result.chance[1, 1]:.1f}%"
    needed = needed_all(needed_above(result.gap, 0.1), needed_below(result.beyond_chance, 0.05))
    needs = needed_in_words(needed, SEEDS, SEEDS_NUMBER, ("holds", "holds in part"))
    return Decision(conditions, ours, trained(runs), needs)


def worlds(sets: Sets) -> Decision:
    """23: settings transfer between dSprites and Color-dSprites, and not to Noisy-dSprites."""
    runs = three_worlds(sets)
    pairs = agreement_of_worlds(runs)
    cells: list[bool | None] = []
    for name, pair in pairs.items():
        conditions = above(name, pair.difference, 0.0).holds, above(name, pair.colour, 0.6).holds
        cells.append(False if False in conditions else True if all(conditions) else None)
    words = [f"{score_words(name)} {pair.colour.value:.2f} and {pair.noise.value:.2f}" for name, pair in pairs.items()]
    condition = at_least("for 5 of 7 scores colour is above noise and above 0.6", 5, cells)
    ours = f"{sum(map(bool, cells))} of 7 scores; with colour and with noise: {', '.join(words)}".replace(" -", " −")
    needed = needed_at_least(
        5, [needed_all(needed_above(pair.difference, 0.0), needed_above(pair.colour, 0.6)) for pair in pairs.values()]
    )
    needs = needed_in_words(needed, "settings", len(runs.unique("setting")))
    return Decision((condition,), ours, trained(runs), needs)


CLAIMS = (
    Claim(
        1,
        "TC falls in samples, rises in means",
        "The stronger β-VAE and β-TCVAE are regularised, the less total correlation (TC) sampled codes have and the "
        "more their means have; in most models means have more than samples.",
        "Figures 2 to 4",
        "falls, rises; means higher in “a large number of models”",
        "A",
        "Rank correlation with the strength below 0 for samples and above 0 for means, for both methods; means "
        "higher in more than half of the models.",
        "sober tables sober_look_dsprites_100k --names strength_trends,means_against_samples",
        total_correlation,
    ),
    Claim(
        2,
        "seed and strength matter more than method",
        "A score depends on the method, more on method and strength together, and much of it is left to the seed.",
        "Table 5, dSprites",
        "method 31 43 49 71 27 30 33 %, method × strength 64 77 55 90 71 38 57 %",
        "A",
        "Share explained by setting above that by method for at least 6 of 7 scores, and more than 20% left for at "
        "least 5 of 7.",
        "sober tables sober_look_dsprites_100k --names objective_variance",
        variance,
    ),
    Claim(
        3,
        "no label-free number tells",
        "No number without labels goes with all scores: not reconstruction, KL, ELBO or the TC of samples.",
        "Figure 8",
        "“no clear pattern”",
        "AB",
        "Does not hold if one of the four has ρ beyond 0.5, its interval beyond 0.3 and one sign for at least 6 of 7 "
        "scores on every world.",
        "sober tables sober_look_colour_30k --names criteria_against_metrics",
        no_label_free_number,
    ),
    Claim(
        4,
        "scores agree, but for Modularity",
        "On dSprites scores agree with each other except Modularity, and IRS in part; MIG and DCI are among the "
        "closest pairs.",
        "Figure 13",
        "“strongly correlated” except Modularity",
        "A",
        "Median correlation among the five others above 0.5, median of Modularity below 0.3, MIG and DCI among the 3 "
        "closest of 21 pairs.",
        "sober tables sober_look_dsprites_100k --names metric_agreement",
        scores_agree,
    ),
    Claim(
        5,
        "luck beats strength",
        "A lucky run of a poor strength beats an unlucky run of a good strength in many cases.",
        "Figures 5 and 6",
        "“in many cases”, on Cars3D",
        "A",
        "The probability that a run of the setting with the lowest median beats one of the setting with the highest "
        "is above 0.1 in more than half of the methods and scores.",
        "python docs/make_findings.py 5",
        luck_beats_strength,
    ),
    Claim(
        6,
        "no higher efficiency",
        "Higher scores bring no higher statistical efficiency: accuracy from 100 labels divided by accuracy from many.",
        "Figures 24 and 25",
        "not “reliably”",
        "A",
        "Holds if at most 3 of 14 correlations (7 scores, 2 predictors) have an interval above 0, does not if at "
        "least 9. Many labels are 5,000 here, 10,000 in the paper.",
        "sober tables sober_look_dsprites_100k --names scores_against_tasks",
        efficiency,
    ),
    Claim(
        7,
        "scores go with accuracy",
        "On dSprites scores other than Modularity go with accuracy downstream.",
        "Figure 23",
        "“correlated”, on some data sets",
        "A",
        "Correlation with the accuracy of boosted trees above 0.2, interval above 0, for at least 5 of the 6 scores. "
        "From 5,000 labels here, 10,000 in the paper.",
        "sober tables sober_look_dsprites_100k --names scores_against_tasks",
        accuracy,
    ),
    Claim(
        8,
        "scores repeat themselves",
        "From 10,000 pictures scores repeat themselves on other pictures, from 100 they do not; FactorVAE and IRS "
        "need the fewest.",
        "Figures 21 and 22",
        "read from pictures",
        "A",
        "Rank correlation of a score with itself above 0.9 from 10,000 pictures for all 7; lower from 100 for all 7; "
        "FactorVAE and IRS among the 3 highest from 100.",
        "python docs/make_findings.py 8",
        scores_repeat,
    ),
    Claim(
        9,
        "MIG, SAP and Completeness agree",
        "On one matrix MIG, SAP and DCI Completeness always agree, DCI Disentanglement less, and Modularity depends "
        "on the matrix.",
        "Figures 16 and 20",
        "“always strongly correlated”; Modularity “varies dramatically”",
        "A",
        "The least correlation among MIG, SAP and Completeness, over three matrices, is above the median of "
        "Modularity with the other rules.",
        "sober tables sober_look_dsprites_100k --names unified_agreement",
        rules_agree,
    ),
    Claim(
        22,
        "chosen settings do not transfer",
        "A setting chosen by one score on one data set does no better than a random one by another score on another.",
        "Table 1",
        "81.9% same score and data, 62.1% other score, 59.6% other data, 52.7% both other",
        "AB",
        "Same score and data above both other by more than 10 points, and both other within 5 points of chance.",
        "python docs/make_findings.py 22",
        transfer,
    ),
    Claim(
        23,
        "colour transfers, noise does not",
        "Good settings transfer between dSprites and Color-dSprites, and not to Noisy-dSprites.",
        "Figures 9 and 10",
        "read from pictures",
        "AB",
        "Over settings, a score on dSprites goes with the same score on colour more than on noise, and above 0.6, "
        "for at least 5 of 7 scores.",
        "python docs/make_findings.py 23",
        worlds,
    ),
    Claim(
        24,
        "the same with mutual information",
        "The average mutual information of sampled latents falls with the strength, except for DIP-VAE-I, and that "
        "of means rises.",
        "Figures 31 and 32",
        "“generally decrease”, “generally increase”",
        "AB",
        "As claim 1, for the methods whose strength is a weight, except DIP-VAE-I, on three worlds.",
        "python docs/make_findings.py 24",
        mutual_information,
    ),
)
