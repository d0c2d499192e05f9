"""Claims: how a line decides, what the numbers of claims are, and the page that is made of the results."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest

from scripts import load_script
from sober.metrics import as_codes
from sober.results.claims import CLAIMS, SETS, in_words, paper_of, waits_for
from sober.results.claims.claim import Decision, above, at_least, below, verdict, within
from sober.results.claims.more_models import Needed, needed_above, needed_all, needed_at_least, needed_below
from sober.results.claims.more_models import in_words as needed_in_words
from sober.results.claims.sober_look_numbers import (
    chance_of_worst,
    luck,
    normal_settings,
    repeats,
    share_of_cells,
    three_worlds,
    wins_of_worst,
)
from sober.results.repeat_files import save_repeats
from sober.results.runs import joined
from sober.results.stats import Interval, partial_rank_correlations, rank_correlations
from sober.results.tables.table import SEVEN_SCORES
from sober.types import Run

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def make_luck() -> ModuleType:
    return load_script(ROOT / "docs" / "make_luck.py")


@pytest.fixture(scope="module")
def made(make_luck: ModuleType) -> ModuleType:
    load_script(ROOT / "docs" / "make_metric_pictures.py")
    return load_script(ROOT / "docs" / "make_findings.py")


@pytest.fixture(scope="module")
def decisions(made: ModuleType) -> dict[int, Decision]:
    return made.decide()


# How a line decides.


@pytest.mark.parametrize(
    ("low", "high", "is_above", "is_below", "is_within"),
    [
        (0.6, 0.8, True, False, False),
        (0.4, 0.8, None, None, None),
        (0.1, 0.3, False, True, True),
        (-0.9, -0.6, False, True, False),
        (None, None, None, None, None),
    ],
)
def test_a_condition_is_decided_by_where_the_whole_interval_lies(
    low: float | None, high: float | None, is_above: bool | None, is_below: bool | None, is_within: bool | None
) -> None:
    number = Interval(0.5, low, high)
    assert above("", number, 0.5).holds is is_above
    assert below("", number, 0.5).holds is is_below
    assert within("", number, 0.5).holds is is_within


@pytest.mark.parametrize(
    ("cells", "holds"),
    [
        ([True, True, None, False], True),
        ([True, None, False, False], None),
        ([True, False, False, False], False),
        ([None, None, None, None], None),
    ],
)
def test_of_several_cells_at_least_two_must_hold(cells: list[bool | None], holds: bool | None) -> None:
    assert at_least("", 2, cells).holds is holds


@pytest.mark.parametrize(
    ("conditions", "says"),
    [
        ([], "cannot tell"),
        ([True, True], "holds"),
        ([True, None], "cannot tell"),
        ([None], "cannot tell"),
        ([False, None], "does not"),
        ([False, False], "does not"),
        ([True, False, None], "in part"),
    ],
)
def test_a_claim_of_several_things(conditions: list[bool | None], says: str) -> None:
    assert verdict(conditions) == says


@pytest.mark.parametrize(
    ("low", "high", "line", "needed"),
    [
        (0.3, 0.6, 0.4, Needed(True, 4.0)),  # half as wide an interval would begin at the line
        (0.3, 0.6, 0.2, Needed(True, 1.0)),
        (0.3, 0.65, 0.6, Needed(False, 2.25)),
        (0.3, 0.6, 0.5, Needed(False, np.inf)),
        (None, None, 0.4, Needed(True, np.inf)),
    ],
)
def test_as_many_more_models_are_needed_as_make_the_interval_end_at_the_line(
    low: float | None, high: float | None, line: float, needed: Needed
) -> None:
    is_true, times = needed_above(Interval(0.5, low, high), line)
    assert (is_true, times) == (needed.is_true, pytest.approx(needed.times))
    if line != 0.5:
        assert needed_below(Interval(0.5, low, high), line) == Needed(not is_true, times)


def test_the_interval_of_as_many_models_as_needed_ends_at_the_line() -> None:
    rng, line = np.random.default_rng(0), 0.1

    def interval(models: float) -> Interval:
        values = rng.normal(0.2, 1.0, round(models))
        values += 0.2 - values.mean()  # it keeps its value
        reach = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
        return Interval(0.2, 0.2 - reach, 0.2 + reach)

    few = interval(100)
    assert above("", few, line).holds is None
    assert interval(100 * needed_above(few, line).times).low == pytest.approx(line, abs=0.01)


def test_cells_need_as_many_models_as_the_last_one_that_counts() -> None:
    cells = [Needed(True, 1.0), Needed(True, 3.0), Needed(True, 9.0), Needed(False, 2.0), Needed(False, 5.0)]
    assert needed_at_least(2, cells) == Needed(True, 3.0)
    assert needed_at_least(3, cells) == Needed(True, 9.0)
    assert needed_at_least(4, cells) == Needed(False, 5.0)  # two that do not hold are sure then
    assert needed_at_least(5, cells) == Needed(False, 2.0)
    assert needed_all(*cells[:3]) == Needed(True, 9.0)
    holds, fails = Needed(True, 1.5), Needed(False, 1.5)
    assert needed_in_words(holds, "seeds", 5).startswith("about 8 seeds in place of 5. ")
    assert needed_in_words(holds, "seeds", 5).endswith("the claim holds")
    assert needed_in_words(fails, "seeds", 5, ("holds", "fails")).endswith("the claim fails")
    assert "hardly" in needed_in_words(Needed(True, np.inf), "seeds", 5)


def test_numbers_are_written_with_their_interval() -> None:
    assert in_words(Interval(-0.5, -0.61, 0.0)) == "−0.50 (−0.61 to 0.00)"
    assert in_words(Interval(12.34, None, None), 1, "%") == "12.3%"


# Numbers.


def test_a_partial_rank_correlation_is_that_of_what_is_left_of_the_ranks() -> None:
    rng = np.random.default_rng(0)
    given = rng.normal(size=200)
    x, y = rng.normal(size=(200, 2)) + given[:, None], rng.normal(size=(200, 3)) - given[:, None]
    ranks = [np.argsort(np.argsort(columns, axis=0), axis=0).astype(float) for columns in (x, y, given[:, None])]
    line = np.hstack([np.ones((200, 1)), ranks[2]])
    left, right = (columns - line @ np.linalg.lstsq(line, columns, rcond=None)[0] for columns in ranks[:2])
    expected = np.corrcoef(left.T, right.T)[:2, 2:]
    np.testing.assert_allclose(partial_rank_correlations(x, y, given), expected, atol=1e-9)
    assert abs(expected).max() < 0.3 < abs(rank_correlations(x, y)).min()
    counts = np.ones((2, 200), int)
    np.testing.assert_allclose(partial_rank_correlations(x, y, given, counts=counts)[1], expected, atol=1e-9)
    assert np.ma.getmaskarray(partial_rank_correlations(x, given[:, None], given)).all()


def test_runs_of_two_folders_are_joined_by_the_numbers_that_both_have(made: ModuleType) -> None:
    sets = made.shipped_sets()
    runs = joined([sets["A"], sets["B"]])
    assert len(runs.run_frame) == len(sets["A"].run_frame) + len(sets["B"].run_frame)
    assert set(runs.names) == set(sets["A"].names) & set(sets["B"].names)
    for part in (sets["A"], sets["B"]):
        rows = np.isin(runs.run_column("run"), part.run_column("run"))
        np.testing.assert_array_equal(runs.where(rows).number_columns(["mig"]), part.number_columns(["mig"]))
    assert runs.unique("world") == ["dsprites", "color_dsprites", "noisy_dsprites"]


def test_luck_counts_the_pairs_that_the_worse_setting_wins(made: ModuleType) -> None:
    runs = three_worlds(made.shipped_sets())
    runs = runs.where((runs.run_column("world") == "dsprites") & (runs.run_column("method") == "beta_vae"))
    result, k = luck(runs), SEVEN_SCORES.index("mig")
    settings = [group.number_columns(["mig"])[:, 0] for _, group in runs.grouped_by("setting")]
    low, *_, high = sorted(settings, key=np.ma.median)
    assert result.values[0, k] == np.mean([[a > b for b in high] for a in low])


def test_luck_is_not_lowered_by_the_runs_that_choose() -> None:
    """Where settings do not differ, the worst wins half of the time, and five runs that choose and meet hide it."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 6, 5))
    assert np.mean(wins_of_worst(scores)) < 0.3
    assert chance_of_worst(np.zeros(6), np.ones(6)) == 0.5
    means, deviations = normal_settings(rng.normal(np.arange(6.0)[:, None], 0.5, (6, 400)))
    np.testing.assert_allclose(means, np.arange(6.0), atol=0.15)
    np.testing.assert_allclose(deviations, 0.5, atol=0.05)
    assert np.ptp(normal_settings(scores[0])[0]) < np.ptp(scores[0].mean(axis=1))


def test_the_share_of_lucky_cells_is_above_the_counted_one(made: ModuleType) -> None:
    runs = three_worlds(made.shipped_sets())
    runs = runs.where(runs.run_column("world") == "dsprites")
    share = share_of_cells(runs)
    assert np.mean(luck(runs).values > 0.1) < share.low < share.value < share.high


def test_simulations_of_luck_are_of_the_shipped_models(make_luck: ModuleType) -> None:
    simulations = make_luck.read()
    assert [luck.scale for luck in simulations] == list(make_luck.SCALES), "run python docs/make_luck.py"
    for simulation in simulations:
        assert simulation.truth == make_luck.true_share(make_luck.normals(simulation.scale))
        assert simulation.draws == make_luck.DRAWS
        assert abs(simulation.corrected - simulation.truth) < abs(simulation.counted - simulation.truth)


def test_a_simulation_of_luck_counts_too_few_cells_where_the_same_runs_choose(make_luck: ModuleType) -> None:
    simulation = make_luck.simulated(1.0, draws=4)
    assert simulation == make_luck.simulated(1.0, draws=4)
    assert simulation.counted < simulation.corrected < simulation.truth + 0.1
    assert simulation.counted_held <= simulation.corrected_held <= simulation.draws == 4


def test_scores_of_two_parts_share_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = load_script(ROOT / "tools" / "score_parts.py")
    seen: list[np.ndarray] = []

    def measured(codes: np.ndarray, factors: np.ndarray, **_: object) -> dict[str, float]:
        seen.append(codes[:, 0])
        return dict.fromkeys(SEVEN_SCORES, float(codes.mean()))

    monkeypatch.setattr(parts, "score", measured)
    codes = as_codes(np.arange(20.0)[:, None], np.arange(20)[:, None] % 3)
    rows = list(parts.scores_of(Run("blocks", "beta_vae", {}), codes, [5, 10]))
    assert [row[2:4] for row in rows[::7]] == [(5, 0), (5, 1), (10, 0), (10, 1)]
    assert [part.tolist() for part in seen[:2]] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    with pytest.raises(SystemExit, match="two parts of 11 pictures need 22, and 20 are encoded"):
        list(parts.scores_of(Run("blocks", "beta_vae", {}), codes, [11]))


def test_a_score_that_repeats_itself_is_told_from_one_that_does_not(made: ModuleType, tmp_path: Path) -> None:
    rng, rows, runs = np.random.default_rng(0), [], made.shipped_sets()["A"]
    for place, run in enumerate(runs.run_column("run")[:60]):
        for name, noise in zip(SEVEN_SCORES, (0.0, *[3.0] * 6), strict=True):
            rows += [(run, name, 100, part, place / 60 + noise * rng.normal()) for part in (0, 1)]
    save_repeats(tmp_path, pl.DataFrame(rows, ["run", "metric", "pictures", "part", "value"], orient="row"))
    values, draws = repeats(dataclasses.replace(runs, folder=tmp_path))[100]
    assert values[0] == 1
    assert np.abs(values[1:]).max() < 0.5
    assert draws.shape[1:] == (7,)


# The page.


def test_there_are_thirty_claims_and_each_is_decided_or_waits_for_models(decisions: dict[int, Decision]) -> None:
    assert sorted(CLAIMS) == list(range(1, 31))
    for number, claim in CLAIMS.items():
        assert set(claim.sets) <= set(SETS)
        assert bool(waits_for(claim)) != (number in decisions)
        assert paper_of(claim) in ("sober_look", "udr", "dci", "beta_tcvae", "dava")
    assert {1, 2, 4, 5, 9} <= set(decisions)


def test_each_claim_that_cannot_be_told_says_what_would_decide_it(decisions: dict[int, Decision]) -> None:
    page = " ".join((ROOT / "docs" / "findings.md").read_text(encoding="utf-8").split())
    for decision in decisions.values():
        if decision.verdict == "cannot tell":
            assert f"What would decide it: {decision.needs}." in page


def test_the_summary_repeats_only_claims_that_hold(made: ModuleType, decisions: dict[int, Decision]) -> None:
    first = decisions[1]
    assert "as published" in made._summary({1: first})
    failed = first._replace(conditions=tuple(condition._replace(holds=False) for condition in first.conditions))
    assert "as published" not in made._summary({1: failed})


def test_what_claims_wait_for_is_wanted() -> None:
    wanted = {entry.name for entry in load_script(ROOT / "tools" / "wanted.py").read_wanted()}
    assert {entry for models in SETS.values() for entry in models.entries} <= wanted


def test_the_page_is_made_of_the_results(made: ModuleType, decisions: dict[int, Decision]) -> None:
    written = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    assert written == made.page(made.shipped_sets(), decisions), "run python docs/make_findings.py"
    for number in decisions:
        assert (ROOT / "docs" / "pictures" / f"finding_{number:02}.png").exists()
