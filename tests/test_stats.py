"""Statistics: closed forms, brute force, and what must always hold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sober.errors import RequestError
from sober.results.stats import (
    Unified,
    adjusted_share,
    beats_random,
    bootstrap,
    interval,
    median_intervals,
    paired,
    probability_best,
    quartiles,
    rank_correlation,
    rank_correlations,
    resampled,
    sample_efficiency,
    settings_then_seeds,
    statistical_efficiency,
    tournament,
    udr_by_partners,
    unified_pairs,
    variance_explained,
)

TIED = st.integers(-3, 3).map(float)
COLUMN = arrays(float, 12, elements=TIED)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# Rank correlations.


@given(COLUMN, COLUMN)
def test_rank_correlation_is_that_of_scipy_and_none_where_scipy_has_nan(x: np.ndarray, y: np.ndarray) -> None:
    found = rank_correlation(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert found is None
    else:
        assert found == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-12)


@given(COLUMN, COLUMN)
def test_rank_correlation_is_symmetric_and_sees_only_the_order(x: np.ndarray, y: np.ndarray) -> None:
    found = rank_correlation(x, y)
    assert found == rank_correlation(y, x) == rank_correlation(np.exp(x), y**3)
    if found is not None:
        assert rank_correlation(x, -y) == -found
        assert rank_correlation(x, x) == 1.0


def test_the_matrix_holds_the_pairs_each_on_the_rows_that_both_have(rng: np.random.Generator) -> None:
    x = np.ma.array(rng.integers(0, 5, (30, 5)).astype(float), mask=rng.random((30, 5)) < 0.3)
    x.mask[:, 4] = False
    x[:, 4] = 2.0
    found = rank_correlations(x)
    assert found.mask[4].all()
    assert found.mask[:, 4].all()
    assert found.mask.sum() == 9
    for a, b in itertools.product(range(4), repeat=2):
        both = ~(x.mask[:, a] | x.mask[:, b])
        assert found[a, b] == pytest.approx(rank_correlation(x.data[both, a], x.data[both, b]))


def test_columns_without_a_common_row_have_no_correlation() -> None:
    x = np.ma.array([[1.0, 2.0], [2.0, 1.0]], mask=[[False, True], [True, False]])
    assert rank_correlations(x).mask.all()


def test_counts_of_rows_are_as_good_as_repeated_rows(rng: np.random.Generator) -> None:
    x, y = rng.integers(0, 6, (20, 3)).astype(float), np.ma.array(rng.normal(size=(20, 2)), mask=False)
    y[3, 0] = np.ma.masked
    counts = resampled(20, resamples=15)
    found = rank_correlations(x, y, counts=counts)
    assert found.shape == (15, 3, 2)
    for each, drawn in zip(found, counts, strict=True):
        repeated = rank_correlations(np.repeat(x, drawn, axis=0), np.ma.repeat(y, drawn, axis=0))
        np.testing.assert_allclose(each, repeated, atol=1e-12)


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        ([1.0, np.nan], [1.0, 2.0], r"x\[1\] is nan"),
        ([1.0, 2.0], [1.0, np.inf], r"y\[1\] is inf"),
        ([1.0, 2.0], [1.0], "2 of them and y 1"),
        ([], [], "shape"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), [1.0, 2.0], r"x\[1\] is missing"),
    ],
)
def test_what_cannot_be_ranked_is_an_error_that_says_where(x: list, y: list, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        rank_correlation(np.ma.asarray(x), np.ma.asarray(y))


# Intervals.


def test_a_resample_draws_as_many_rows_as_there_are_each_equally_often() -> None:
    counts = resampled(10, resamples=4000)
    assert (counts.sum(axis=1) == 10).all()
    np.testing.assert_allclose(counts.mean(axis=0), 1.0, atol=0.1)
    np.testing.assert_allclose(counts.var(axis=0), 0.9, atol=0.1)  # of a binomial of 10 with 1/10
    assert not np.array_equal(counts, resampled(10, resamples=4000, seed=1))
    np.testing.assert_array_equal(counts, resampled(10, resamples=4000))


def test_rows_of_a_cluster_are_drawn_together_and_groups_keep_their_sizes() -> None:
    clusters, within = list("aabbccdd"), [0, 0, 0, 0, 1, 1, 1, 1]
    counts = resampled(8, clusters=clusters, within=within, resamples=200)
    np.testing.assert_array_equal(counts[:, ::2], counts[:, 1::2])
    assert (counts[:, :4].sum(axis=1) == 4).all()
    assert counts.std(axis=0).min() > 0
    assert resampled(8, clusters=clusters, resamples=200)[:, :4].sum(axis=1).std() > 0


def test_settings_are_drawn_and_then_their_runs() -> None:
    labels = ["b", "a", "b", "a", "b", "c"]
    counts = settings_then_seeds(labels, resamples=4000)
    by_setting = {name: counts[:, [label == name for label in labels]] for name in "abc"}
    times = {name: runs.sum(axis=1) / runs.shape[1] for name, runs in by_setting.items()}
    assert all((times[name] == times[name].astype(int)).all() for name in "abc")  # whole settings
    np.testing.assert_array_equal(sum(times.values()), 3)
    once = by_setting["b"][times["b"] == 1]
    assert len(np.unique(once, axis=0)) == 10  # the ways to draw three runs of three, in any order
    np.testing.assert_allclose(counts.mean(axis=0), 1, atol=0.06)
    np.testing.assert_array_equal(counts, settings_then_seeds(labels, resamples=4000))
    np.testing.assert_array_equal(settings_then_seeds([*"abcd"], resamples=50), resampled(4, resamples=50))


def test_intervals_of_correlations_cover_what_other_settings_would_give() -> None:
    """Twelve settings, whose two scores correlate, with ten alike seeds each."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 10)
    truth = 6 / np.pi * np.arcsin(0.5 / 2)  # Spearman's correlation of two normal numbers with Pearson's 0.5
    held = dict.fromkeys(("runs", "settings"), 0)
    for trial in range(60):
        parts = [rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], n).T for n in (12, len(labels))]
        x, y = (0.8**0.5 * setting[labels] + 0.2**0.5 * seed for setting, seed in zip(*parts, strict=True))
        for how, counts in (
            ("runs", resampled(len(labels), resamples=200, seed=trial)),
            ("settings", settings_then_seeds(labels, resamples=200, seed=trial)),
        ):
            draws = rank_correlations(x[:, None], y[:, None], counts=counts).compressed()
            low, high = np.quantile(draws, [0.025, 0.975])
            held[how] += low <= truth <= high
    assert held["settings"] >= 52
    assert held["runs"] <= 42  # what it was before


def test_the_interval_of_a_mean_has_the_width_that_theory_gives(rng: np.random.Generator) -> None:
    data = rng.normal(size=400)
    found = bootstrap(np.mean, data, resamples=4000)
    width = 2 * 1.96 * data.std() / 20
    assert found.value == pytest.approx(data.mean())
    assert found.high - found.low == pytest.approx(width, rel=0.06)
    assert found.low < found.value < found.high


def test_copies_of_a_run_narrow_the_interval_only_if_they_are_not_clusters(rng: np.random.Generator) -> None:
    data = np.repeat(rng.normal(size=50), 4)
    plain, whole = bootstrap(np.mean, data), bootstrap(np.mean, data, clusters=np.repeat(np.arange(50), 4))
    assert (whole.high - whole.low) / (plain.high - plain.low) == pytest.approx(2.0, rel=0.15)


def test_drawing_within_groups_leaves_out_what_differs_between_them(rng: np.random.Generator) -> None:
    groups = np.repeat([0, 1], 30)
    found = bootstrap(np.mean, 100.0 * groups + rng.normal(size=60), within=groups)
    assert found.high - found.low < 1.0


def test_intervals_cover_the_truth_about_as_often_as_they_say(rng: np.random.Generator) -> None:
    hits = 0
    for seed in range(100):
        pairs = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 60)
        found = bootstrap(
            lambda data, counts=None: rank_correlations(data[:, :1], data[:, 1:], counts=counts)[..., 0, 0],
            pairs,
            weighted=True,
            resamples=200,
            level=0.9,
            seed=seed,
        )
        hits += found.low <= 6 / np.pi * np.arcsin(0.25) <= found.high  # of a normal pair (Pearson 1907)
    assert 82 <= hits <= 97


def test_a_weighted_statistic_gives_the_interval_of_the_plain_one(rng: np.random.Generator) -> None:
    data, groups = rng.normal(size=40), np.arange(40) % 3
    table = np.column_stack([data, groups])

    def share(rows: np.ndarray, counts: np.ndarray | None = None) -> object:
        return variance_explained(rows[:, 0], rows[:, 1], counts=counts)

    plain, weighted = (bootstrap(share, table, weighted=way, resamples=50) for way in (False, True))
    np.testing.assert_allclose(plain, weighted, atol=1e-12)


def test_resamples_in_which_nothing_is_defined_are_left_out_and_too_many_leave_no_interval() -> None:
    def of_pairs(rows: np.ndarray) -> float | None:
        return rank_correlation(rows[:, 0], rows[:, 1])

    some = bootstrap(of_pairs, np.array([[1.0, 1.0], [2.0, 2.0], [2.0, 2.0]]), resamples=100)
    assert some == (1.0, 1.0, 1.0)
    assert bootstrap(of_pairs, np.array([[1.0, 1.0]]), resamples=10) == (None, None, None)
    rarely = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, True])
    assert interval(np.ma.asarray(1.0), rarely) == (1.0, None, None)


def test_a_centred_interval_holds_the_value_that_repeated_rows_push_away(rng: np.random.Generator) -> None:
    table = np.column_stack([rng.normal(size=120), np.arange(120) % 40])

    def share(rows: np.ndarray) -> object:
        return variance_explained(rows[:, 0], rows[:, 1])

    plain, centred = (bootstrap(share, table, centred=way, resamples=300) for way in (False, True))
    assert plain.value < plain.low
    assert centred.low < centred.value < centred.high
    assert centred.high - centred.low == pytest.approx(plain.high - plain.low)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_medians_of_many_rows_have_the_intervals_that_each_would_have(n: int, rng: np.random.Generator) -> None:
    values = rng.normal(size=(6, n))
    found = median_intervals(values, resamples=200)
    alone = [bootstrap(np.median, np.sort(row), resamples=200) for row in values]
    np.testing.assert_allclose(np.array(found).T, np.array(alone))


def test_rows_with_missing_numbers_have_the_medians_and_quartiles_of_the_rest(rng: np.random.Generator) -> None:
    values = np.ma.array(rng.normal(size=(5, 7)), mask=rng.random((5, 7)) < 0.4)
    values[2] = np.ma.masked
    found, quarters = median_intervals(values, resamples=50), quartiles(values)
    for at in (0, 1, 3, 4):
        rest = np.sort(values[at].compressed())
        np.testing.assert_allclose([part[at] for part in found], bootstrap(np.median, rest, resamples=50))
        np.testing.assert_allclose(quarters[:, at], np.quantile(rest, [0.25, 0.5, 0.75]))
    assert found.low.mask.tolist() == found.value.mask.tolist() == [False, False, True, False, False]
    assert quarters[:, 2].mask.all()


def test_a_bootstrap_of_nothing_or_of_clusters_across_groups_is_refused() -> None:
    with pytest.raises(RequestError, match="0 rows"):
        bootstrap(np.mean, np.zeros(0))
    with pytest.raises(RequestError, match="two groups"):
        resampled(4, clusters=[0, 0, 1, 1], within=[0, 1, 1, 1])
    with pytest.raises(RequestError, match="4 rows and 3 labels"):
        resampled(4, clusters=[0, 0, 1])
    with pytest.raises(RequestError, match=r"level=1\.5"):
        bootstrap(np.mean, np.ones(3), level=1.5)


# What explains a score.


@given(COLUMN, arrays(int, 12, elements=st.integers(0, 3)))
def test_variance_explained_is_that_of_least_squares_on_indicators(values: np.ndarray, groups: np.ndarray) -> None:
    found = variance_explained(values, groups)
    if np.ptp(values) == 0:
        assert found is None
        return
    indicators = (groups[:, None] == np.unique(groups)).astype(float)
    fitted = indicators @ np.linalg.lstsq(indicators, values, rcond=None)[0]
    assert found == pytest.approx(1 - np.sum((values - fitted) ** 2) / np.sum((values - values.mean()) ** 2), abs=1e-9)
    assert variance_explained(values, np.arange(12)) == pytest.approx(1.0)
    assert variance_explained(values, np.zeros(12)) == 0.0
    finer = [f"{group} {at % 2}" for at, group in enumerate(groups)]
    assert variance_explained(values, finer) >= found - 1e-9


def test_variance_explained_is_not_defined_for_constants_however_they_round() -> None:
    assert variance_explained(np.full(3, 0.1), [0, 1, 1]) is None
    shares = variance_explained(np.array([0.1, 0.1, 0.7]), [0, 1, 1], counts=np.array([[1, 2, 0], [1, 1, 1]]))
    assert shares.tolist() == [None, pytest.approx(0.25)]


def test_the_adjusted_share_is_zero_on_average_where_groups_make_no_difference(rng: np.random.Generator) -> None:
    groups = np.arange(60) % 20
    found = [variance_explained(rng.normal(size=60), groups) for _ in range(300)]
    assert np.mean(found) > 0.25
    assert abs(np.mean([adjusted_share(each, 60, 20) for each in found])) < 0.03
    assert adjusted_share(1.0, 20, 20) is None
    assert adjusted_share(None, 60, 20) is None


# How well a choice transfers.


def by_hand(scores: np.ma.MaskedArray, same_metric: bool, same_world: bool) -> float | None:
    """Table 1 by going through every draw."""
    W, K, S, R = scores.shape
    wins, trials = 0.0, 0.0
    pairs = itertools.product(range(W), range(K), range(R), range(W), range(K), range(R))
    for w, k, seed, w_other, k_other, seed_other in pairs:
        if (k == k_other) != same_metric or (w == w_other) != same_world or seed == seed_other:
            continue
        column, target = scores[w, k, :, seed], scores[w_other, k_other, :, seed_other]
        best = [s for s in range(S) if column[s] is not np.ma.masked and column[s] == column.max()]
        rivals = target.compressed()
        for s in best:
            if target[s] is not np.ma.masked:
                wins += np.mean(target[s] >= rivals) / len(best)
                trials += 1 / len(best)
    return wins / trials if trials else None


@settings(max_examples=20, deadline=None)
@given(
    arrays(float, (2, 3, 3, 3), elements=TIED),
    arrays(bool, (2, 3, 3, 3), elements=st.sampled_from([False, False, False, True])),
)
def test_beats_random_is_the_share_of_all_draws_of_table_1(scores: np.ndarray, missing: np.ndarray) -> None:
    masked = np.ma.array(scores, mask=missing)
    found = beats_random(tournament(masked)).tolist()
    for metric, world in itertools.product([0, 1], repeat=2):
        expected = by_hand(masked, metric == 0, world == 0)
        assert found[metric][world] == (None if expected is None else pytest.approx(expected))


def test_the_same_ranking_everywhere_always_wins_and_none_wins_as_often_as_chance(rng: np.random.Generator) -> None:
    order = np.arange(5.0)[None, None, :, None] + np.zeros((3, 4, 5, 6))
    np.testing.assert_allclose(beats_random(tournament(order)), 1.0)
    noise = rng.normal(size=(4, 5, 10, 20))
    np.testing.assert_allclose(beats_random(tournament(noise)), 0.55, atol=0.03)  # it may draw itself: (10 + 1) / 20


def test_a_blind_choice_wins_by_chance_only() -> None:
    scores = np.random.default_rng(0).permutation(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    np.testing.assert_allclose(beats_random(tournament(scores, blind=True)), 5 / 8)
    np.testing.assert_allclose(beats_random(tournament(np.zeros((2, 3, 4, 5)), blind=True)), 1.0)


def test_one_world_has_no_other_to_transfer_to_and_one_seed_no_other_at_all(rng: np.random.Generator) -> None:
    found = beats_random(tournament(rng.normal(size=(1, 3, 4, 5))))
    assert found.mask.tolist() == [[False, True], [False, True]]
    assert beats_random(tournament(rng.normal(size=(2, 3, 4, 1)))).mask.all()


def test_a_seed_that_is_drawn_twice_is_not_another_seed(rng: np.random.Generator) -> None:
    played = tournament(rng.normal(size=(2, 3, 4, 3)))
    plain, left_out, doubled, single = beats_random(
        played, counts=np.array([[1, 1, 1], [1, 1, 0], [2, 2, 0], [3, 0, 0]])
    )
    np.testing.assert_allclose(plain, beats_random(played))
    np.testing.assert_allclose(doubled, left_out)
    assert np.ma.getmaskarray(single).all()


def test_scores_of_another_shape_are_refused() -> None:
    with pytest.raises(RequestError, match="worlds × metrics × settings × seeds"):
        tournament(np.zeros((2, 3)))
    with pytest.raises(RequestError, match=r"shape \(2, 3, 0, 4\)"):
        tournament(np.zeros((2, 3, 0, 4)))


@given(st.lists(arrays(float, st.integers(1, 4), elements=TIED), min_size=1, max_size=4))
def test_the_probability_of_being_best_is_the_share_of_all_draws(replicates: list[np.ndarray]) -> None:
    expected = np.zeros(len(replicates))
    draws = list(itertools.product(*replicates))
    for draw in draws:
        winners = np.flatnonzero(np.array(draw) == max(draw))
        expected[winners] += 1 / len(winners) / len(draws)
    np.testing.assert_allclose(probability_best(replicates), expected, atol=1e-12)
    assert probability_best(replicates).sum() == pytest.approx(1.0)


# Numbers of rows.


def test_statistical_efficiency_is_a_ratio_and_masked_where_nothing_was_learnt() -> None:
    assert statistical_efficiency(np.array([0.4, 0.5, 0.0]), np.array([0.8, 0.5, 0.0])).tolist() == [0.5, 1.0, None]


def test_a_ranking_holds_better_with_more_samples(rng: np.random.Generator) -> None:
    truth = rng.normal(size=500)
    scores = {n: truth + rng.normal(size=500) * 10 / n**0.5 for n in (10_000, 100, 1_000)}
    found = sample_efficiency(scores)
    assert list(found) == [100, 1_000]
    assert 0.6 < found[100] < found[1_000] < 1
    with pytest.raises(RequestError, match="two numbers of samples"):
        sample_efficiency({100: truth})


def pair_scores(models: int, noise: float, rng: np.random.Generator) -> list[tuple[int, int, float]]:
    every = itertools.permutations(range(models), 2)
    return [(i, j, i / models + noise * rng.normal()) for i, j in every]


def test_more_partners_make_udr_agree_better_and_vary_less(rng: np.random.Generator) -> None:
    found = udr_by_partners(pair_scores(30, 0.5, rng), np.arange(30.0), [1, 5, 20, 29])
    means, stds = np.array([each.mean for each in found]), np.array([each.std for each in found])
    assert (np.diff(means) > 0).all()
    assert (np.diff(stds) < 0).all()
    assert stds[-1] < 1e-12  # all partners: there is one draw only
    assert [each.partners for each in found] == [1, 5, 20, 29]


def test_with_all_partners_udr_is_the_median_of_all_pairs(rng: np.random.Generator) -> None:
    pairs, truth = pair_scores(9, 0.3, rng), rng.normal(size=9)
    medians = [np.median([score for model, _, score in pairs if model == m]) for m in range(9)]
    (found,) = udr_by_partners(pairs, truth, [8], draws=3)
    assert found.mean == pytest.approx(rank_correlation(np.array(medians), truth))
    assert found.draws == 3


@pytest.mark.parametrize("partners", [[], [0], [5]])
def test_partners_that_a_model_does_not_have_are_refused(partners: list[int], rng: np.random.Generator) -> None:
    with pytest.raises(RequestError, match="from 1 to 4"):
        udr_by_partners(pair_scores(5, 0.1, rng), np.arange(5.0), partners)


def test_udr_that_is_the_same_for_all_models_has_nothing_to_rank() -> None:
    with pytest.raises(RequestError, match="nothing to rank"):
        udr_by_partners([(0, 1, 0.5), (1, 0, 0.5)], np.arange(2.0), [1])


# Pairs of scores.


def test_paired_numbers_by_hand() -> None:
    found = paired(np.array([1.0, 5.0, 3.0, 2.0]), np.array([1.0, 1.0, 2.0, 4.0]))
    assert found == (2.5, 1.5, 0.5, 0.625, 4)
    with pytest.raises(RequestError, match="4 and 3"):
        paired(np.arange(4.0), np.arange(3.0))


def test_unified_scores_are_paired_by_matrix_or_by_rule() -> None:
    scores = [
        *(Unified("mig", "", "mig"), Unified("sap", "", "sap"), Unified("gbt/mig", "gbt", "mig")),
        *(Unified("gbt/sap", "gbt", "sap"), Unified("mi/mig", "mi", "mig"), Unified("irs", "", "irs")),
    ]
    assert unified_pairs(scores) == [
        ("mig", "gbt/mig", "rule mig"),
        ("mig", "mi/mig", "rule mig"),
        ("sap", "gbt/sap", "rule sap"),
        ("gbt/mig", "gbt/sap", "matrix gbt"),
        ("gbt/mig", "mi/mig", "rule mig"),
    ]


def test_what_unified_scores_share_is_read_from_their_parts_and_not_from_their_names() -> None:
    scores = [Unified("one", "trees", "gap"), Unified("two [paper]", "trees", "share"), Unified("three", "", "gap")]
    assert unified_pairs(scores) == [("one", "two [paper]", "matrix trees"), ("one", "three", "rule gap")]
