"""What scores are by chance, what the mere number of latents and rows adds to them, and factors that depend."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.cluster import expected_mutual_information

from sober.cli import main
from sober.errors import RequestError
from sober.estimators.discrete import expected_information, information
from sober.metrics import METRICS, as_codes, score
from sober.metrics.common.dependence import dependence
from sober.metrics.common.intervals import MANY
from sober.metrics.gaussian_total_correlation import by_chance
from sober.metrics.scoring.chance import Chance, shuffled_factors, weight_places

Weighted = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray]]  # codes, factors, weights

CHEAP = ["mig", "sap", "explicitness", "irs", "factor_vae", "gaussian_total_correlation"]


def good_codes(rows: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    factors = rng.integers(0, [3, 4, 5], (rows, 3))
    return factors + 0.3 * rng.normal(size=(rows, 3)), factors


def test_good_codes_are_above_chance_and_noise_is_not() -> None:
    codes, factors = good_codes()
    scores = score(codes, factors, metrics=CHEAP, chance=20)
    assert set(scores.chance) == {"mig", "sap", "explicitness", "irs", "factor_vae"}  # the others see no factors
    for name, found in scores.chance.items():
        assert found.p == pytest.approx(1 / 21), name
        assert found.low <= found.mean <= found.high < scores[name]
        assert "not_above_chance" not in scores.flags[name]
    assert scores.chance["explicitness"].mean == pytest.approx(0.5, abs=0.03)  # exactly 0.5 over all orders
    noise = score(np.random.default_rng(1).normal(size=(600, 3)), factors, metrics=CHEAP, chance=20)
    assert all(found.p > 0.05 for found in noise.chance.values())
    assert all("not_above_chance" in noise.flags[name] for name in noise.chance)
    assert dict(score(codes, factors, metrics=CHEAP)) == dict(scores)


def test_the_smallest_p_that_so_many_shuffles_can_give_is_named(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    values = np.arange(20.0)
    assert Chance.of(30.0, values, "higher").p_text == "≤ 1/21"
    assert Chance.of(18.5, values, "higher").p_text == "0.095"
    codes, factors = good_codes(200)
    assert " ≤ 1/4 " in repr(score(codes, factors, metrics="mig", chance=3))
    np.savez(tmp_path / "codes.npz", codes=codes, factors=factors)
    main(["score", str(tmp_path / "codes.npz"), "--metrics", "mig", "--chance", "3"])
    shown = capsys.readouterr().out
    assert "≤ 1/4" in shown
    assert "the smallest that 3 shuffles can give" in shown


def test_lower_is_better_where_it_is() -> None:
    values = np.array([1.0, 2.0, 3.0])
    assert Chance.of(0.5, values, "lower").p == 0.25
    assert Chance.of(2.0, values, "lower").p == 0.75
    assert Chance.of(2.0, values, "higher").p == 0.75
    assert Chance.of(9.0, values, "neither").p == 0.25
    assert Chance.of(4.0, values, "higher").beaten  # better than all three, which is all that three can say
    assert not Chance.of(3.0, values, "higher").beaten


def test_rows_of_the_factors_stay_whole_and_groups_stay_together() -> None:
    codes, factors = good_codes(60)
    factors[:, 0] = np.arange(60) // 20
    factors[:, 1] = np.arange(60) // 10  # constant in each group
    prepared = as_codes(codes, factors, groups=np.arange(60) // 10)
    for one in shuffled_factors(prepared, 5, seed=0):
        assert one.mean is prepared.mean
        assert sorted(map(tuple, one.factors)) == sorted(map(tuple, prepared.factors))
        assert all(len(set(one.factors[start : start + 10, 1])) == 1 for start in range(0, 60, 10))


def test_p_values_of_noise_are_uniform() -> None:
    rng = np.random.default_rng(0)
    found = [
        score(rng.normal(size=(60, 2)), rng.integers(0, 3, (60, 2)), metrics="mig", chance=9).chance["mig"].p
        for _ in range(100)
    ]
    assert abs(np.mean(found) - 0.55) < 0.09  # the mean of 0.1, 0.2, … 1.0, within three standard errors


def balanced(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes that know nothing, factors of which one is mostly one value, and weights that make its values equal."""
    factors = np.stack([rng.choice(5, rows, p=[0.8, *[0.05] * 4]), *rng.integers(0, [[4], [3]], (2, rows))], axis=1)
    return rng.normal(size=(rows, 4)), factors, 1 / np.bincount(factors[:, 0])[factors[:, 0]]


def growing(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights that grow with a factor."""
    factors = rng.integers(0, [5, 4, 3], (rows, 3))
    return rng.normal(size=(rows, 4)), factors, np.exp(1.5 * factors[:, 0] - 3)


def by_codes(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights that grow with two latents."""
    codes = rng.normal(size=(rows, 4))
    return codes, rng.integers(0, [5, 4, 3], (rows, 3)), np.exp(codes[:, 0] + codes[:, 1])


def false_alarms(weighted: Weighted, draws: int, metrics: list[str], rows: int) -> dict[str, float]:
    """How often codes that know nothing are above chance."""
    rng = np.random.default_rng(0)
    chances = []
    for draw in range(draws):
        codes, factors, weights = weighted(rows, rng)
        chances.append(score(codes, factors, weights=weights, metrics=metrics, chance=19, seed=draw).chance)
    return {name: float(np.mean([chance[name].p <= 0.05 for chance in chances])) for name in chances[0]}


def test_weights_that_balance_a_factor_do_not_lift_noise_above_chance() -> None:
    """With weights that stay with the codes it was 80% of draws."""
    assert false_alarms(balanced, 60, ["modularity"], 400)["modularity"] < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [balanced, growing, by_codes])
def test_noise_is_above_chance_in_one_draw_of_twenty_with_any_weights(weighted: Weighted) -> None:
    shares = false_alarms(weighted, 400, ["modularity", "dcimig", "mig_sup", "mig"], 300)
    assert max(shares.values()) < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 400), shares


def test_good_codes_are_above_chance_with_any_weights() -> None:
    codes, factors = good_codes(300)
    for weights in (1 / np.bincount(factors[:, 0])[factors[:, 0]], np.exp(codes[:, 0])):
        scores = score(codes, factors, weights=weights, metrics=["mig", "modularity"], chance=19)
        assert {chance.p for chance in scores.chance.values()} == {0.05}


def test_weights_stay_with_the_codes_or_move_with_the_factors() -> None:
    codes, factors = good_codes(60)
    prepared = as_codes(codes, factors, weights=1.0 + factors[:, 0])
    assert weight_places(prepared) == (True, False)
    assert weight_places(as_codes(codes, factors)) == (False,)
    (moved,) = shuffled_factors(prepared, 1, seed=0, weights_move=True)
    (stayed,) = shuffled_factors(prepared, 1, seed=0)
    assert moved.weights is not None
    assert prepared.weights is not None
    scale = prepared.weights[0] / (1 + prepared.factors[0, 0])
    np.testing.assert_allclose(moved.weights, scale * (1 + moved.factors[:, 0]))
    assert stayed.weights is prepared.weights
    np.testing.assert_array_equal(moved.factors, stayed.factors)


@pytest.mark.parametrize("shuffles", [10, 20, 39, 100])
def test_low_and_high_hold_a_further_shuffle_in_95_of_100_cases(shuffles: int) -> None:
    rng = np.random.default_rng(shuffles)
    for draw in (rng.normal, rng.exponential, rng.random):
        scores = draw(size=(4_000, shuffles + 1))
        chances = [Chance.of(0.0, row[:-1], "higher") for row in scores]
        held = np.mean([chance.low <= row[-1] <= chance.high for chance, row in zip(chances, scores, strict=True)])
        assert held > 0.92
        assert shuffles < MANY or held < 0.97
    assert Chance.of(0.0, rng.random(5), "higher", (0.0, 1.0)).low >= 0
    assert Chance.of(0.0, rng.random(5), "higher", (0.0, 1.0)).high <= 1
    assert Chance.of(0.0, np.array([0.3]), "higher")[1:3] == (0.3, 0.3)


def test_p_of_a_score_without_a_better_end_is_exact() -> None:
    """The real score and the shuffled ones are drawn alike: each is the furthest as often as any other."""
    scores = np.random.default_rng(0).normal(size=(4_000, 20))
    alarms = np.mean([Chance.of(row[0], row[1:], "neither").p <= 0.05 for row in scores])
    assert alarms == pytest.approx(0.05, abs=0.011)


def test_a_negative_number_of_shuffles_is_refused() -> None:
    with pytest.raises(RequestError, match="number of shuffles"):
        score(*good_codes(), chance=-1)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(0, 2**32))
def test_expected_information_is_that_of_all_orders(counts: list[int], seed: int) -> None:
    total = sum(counts)
    first = np.array(counts)
    second = np.bincount(np.random.default_rng(seed).integers(0, 3, total), minlength=1) if total else np.zeros(1, int)
    if not total:
        return
    table = np.zeros((len(first), len(second)), np.int64)  # any table with these margins
    np.add.at(table, (np.repeat(np.arange(len(first)), first), np.repeat(np.arange(len(second)), second)), 1)
    table = table[first > 0][:, second > 0]
    assert expected_information(first, second) == pytest.approx(expected_mutual_information(table, total), abs=1e-9)


def test_expected_information_of_two_by_two_by_hand() -> None:
    """Two rows of each class: a third of the orders agree, a third are opposite... of six, two have all of it."""
    pairs = np.array([2, 2])
    assert expected_information(pairs, pairs) == pytest.approx(math.log(2) * 2 / 6)
    orders = [[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 1, 0], [1, 1, 0, 0]]
    found = [information(np.array([[0, 0, 1, 1]]).T, np.array([order]).T)[0, 0] for order in orders]
    assert expected_information(pairs, pairs) == pytest.approx(np.mean(found))


def test_total_correlation_without_what_few_rows_add() -> None:
    rng = np.random.default_rng(0)
    draws = [score(rng.normal(size=(60, 12)), metrics="gaussian_total_correlation") for _ in range(200)]
    values = np.array([draw["gaussian_total_correlation"] for draw in draws])
    assert values.mean() == pytest.approx(by_chance(60, 12), abs=4 * values.std() / math.sqrt(200))
    assert all("moved_by_size" in draw.flags["gaussian_total_correlation"] for draw in draws)
    assert by_chance(5_000, 1_000) == pytest.approx(53, abs=1)
    mixing = rng.normal(size=(6, 6))
    correlation = mixing @ mixing.T
    correlation /= np.sqrt(np.outer(np.diag(correlation), np.diag(correlation)))
    truth = -0.5 * np.linalg.slogdet(correlation)[1]
    many = [
        score(rng.normal(size=(40, 6)) @ mixing.T, metrics="gaussian_total_correlation").corrected for _ in range(300)
    ]
    corrected = np.array([one["gaussian_total_correlation"] for one in many])
    assert corrected.mean() == pytest.approx(truth, abs=4 * corrected.std() / math.sqrt(300))


def test_noise_latents_do_not_move_the_corrected_scores() -> None:
    codes, factors = good_codes(3_000)
    names = ["modularity", "mi", "mig_sup", "med", "edi"]
    few = score(codes, factors, metrics=names)
    noise = np.random.default_rng(2).normal(size=(3_000, 60))
    many = score(np.concatenate([codes, noise], axis=1), factors, metrics=names)
    assert few["modularity"] > 0.95
    assert many["modularity"] < 0.7
    assert "moved_by_size" in many.flags["modularity"]
    assert "modularity" not in few.corrected
    for name in ("modularity", "mi/modularity", "mig_sup", "edi_informativeness", "mi/dci_disentanglement"):
        assert many.corrected[name] == pytest.approx(few.corrected.get(name, few[name]), abs=0.05), name
    assert "moved_by_size" not in many.flags["mi/mig"]  # it is not moved


def test_information_between_latents_without_what_few_rows_add() -> None:
    rng = np.random.default_rng(0)
    found = score(rng.uniform(size=(1_000, 4)), metrics="mutual_information")
    assert found["mutual_information"] > 19 * 19 / 2_000  # the first term of what chance gives
    assert found.corrected["mutual_information"] < 0.02


def dependent(rows: int = 4_000, share: float = 0.7) -> np.ndarray:
    """The second factor is the first in a share of the rows; the third is independent."""
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (rows, 3))
    factors[:, 1] = np.where(rng.random(rows) < share, factors[:, 0], factors[:, 1])
    return factors


def test_dependent_factors_are_named_and_flagged() -> None:
    factors = dependent()
    found = score(factors.astype(float), factors, metrics="mig", names=["a", "b", "c"])
    assert found.dependence is not None
    assert found.dependence.pair == ("a", "b")
    same = 0.7 + 0.3 / 4
    expected = 1 + (same * math.log(same) + (1 - same) * math.log((1 - same) / 3)) / math.log(4)
    assert found.dependence.largest == pytest.approx(expected, abs=0.02)
    assert found.dependence.shares[0, 2] == 0
    assert "dependent_factors" in found.flags["mig"]


@pytest.mark.parametrize("values", [2, 5, 60])
def test_independent_factors_are_not_flagged_and_copies_are(values: int) -> None:
    rng = np.random.default_rng(values)
    factors = rng.integers(0, values, (800, 6))
    codes = rng.normal(size=(800, 2))
    found = dependence(as_codes(codes, factors))
    assert found is not None
    assert not found.real
    factors[:, 5] = factors[:, 2]
    found = dependence(as_codes(codes, factors))
    assert found is not None
    assert found.pair == ("factor_2", "factor_5")
    assert found.largest == pytest.approx(1)


def test_dependence_is_measured_where_both_are_known() -> None:
    factors = dependent().astype(float)
    factors[::2, 0], factors[1::4, 1] = np.nan, np.nan
    known = np.isfinite(factors[:, :2]).all(axis=1)
    codes = np.zeros((len(factors), 1))
    ours = dependence(as_codes(codes, factors))
    theirs = dependence(as_codes(codes[known], factors[known]))
    assert ours is not None
    assert theirs is not None
    assert ours.shares[0, 1] == pytest.approx(theirs.shares[0, 1])


def test_minimality_and_sufficiency_forgive_dependent_factors() -> None:
    factors = dependent()
    perfect = score(factors.astype(float), factors, metrics=["minimality_sufficiency", "mig"])
    assert perfect["minimality"] == pytest.approx(1, abs=1e-3)
    assert perfect["sufficiency"] == pytest.approx(1, abs=1e-3)
    assert perfect["mig"] < 0.8
    # A latent that holds two independent factors whole is sufficient for both and minimal for neither.
    both = (4 * factors[:, [0]] + factors[:, [2]]).astype(float)
    found = score(both, factors[:, [0, 2]], metrics={"minimality_sufficiency": {"noise": 0.01}})
    assert found["minimality"] == pytest.approx(0.5, abs=0.01)
    assert found["sufficiency"] == pytest.approx(1, abs=1e-3)


def test_minimality_of_a_noisy_latent_has_a_closed_form() -> None:
    """A factor of two values far apart, and a latent with noise s of its own about each: I(z; v) = log 2."""
    rng = np.random.default_rng(0)
    factor = np.repeat([0, 1], 5_000)
    latent = 20.0 * factor + rng.normal(size=10_000)
    found = score(latent[:, None], factor[:, None], metrics="minimality_sufficiency")
    spread = latent.std()
    of_pictures = math.log(2) + 0.5 * math.log((1 / spread**2 + 0.01) / 0.01)  # entropies of Gaussians, with noise 0.1
    assert found["sufficiency"] == pytest.approx(1, abs=1e-3)
    assert found["minimality"] == pytest.approx(math.log(2) / of_pictures, abs=0.01)


def test_the_command_says_it_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    factors = dependent(300)
    groups, weights = np.arange(300) // 3, np.arange(1, 301)
    np.savez(tmp_path / "codes.npz", codes=np.random.default_rng(0).normal(size=(300, 4)), factors=factors,
             groups=groups, weights=weights)  # fmt: skip
    arguments = ["score", str(tmp_path / "codes.npz"), "--metrics", "mig,sap,modularity", "--chance", "5"]
    main(arguments)
    said = capsys.readouterr().out
    assert "sap was left out: it has no form in which rows have weights" in said
    assert "factor_0 and factor_1 depend" in said
    assert "chance" in said
    main([*arguments, "--json", "--full"])
    found = json.loads(capsys.readouterr().out)
    assert found["left_out"] == {"sap": "it has no form in which rows have weights"}
    assert found["chance"]["mig"]["shuffles"] == 5
    assert found["dependence"]["pair"] == ["factor_0", "factor_1"]
    assert found["known"] == {"factor_0": 300, "factor_1": 300, "factor_2": 300}
    assert found["corrected"] == {name: pytest.approx(value) for name, value in found["corrected"].items()}
    with pytest.raises(SystemExit) as leaving:
        main(["score", str(tmp_path), "--chance", "5"])
    assert leaving.value.code == 2


def test_every_corrected_score_is_one_of_the_metrics() -> None:
    rng = np.random.default_rng(0)
    changes = {metric.name: metric.quick for metric in METRICS.values()}
    found = score(rng.normal(size=(80, 30)), rng.integers(0, 6, (80, 4)), metrics=changes)
    assert found.corrected.keys() <= found.keys()
    for name, value in found.corrected.items():
        meaning = next(metric.scores[name] for metric in METRICS.values() if name in metric.scores)
        assert meaning.low <= value <= meaning.high, name
        assert "moved_by_size" in found.flags[name]


def test_holes_groups_and_shuffles_go_together() -> None:
    codes, factors = good_codes(300)
    labels = factors.astype(float)
    labels[np.random.default_rng(0).random(labels.shape) < 0.3] = np.nan
    found = score(codes, labels, metrics=["mig", "sap"], groups=np.arange(300) // 5, chance=19)
    assert found.chance["mig"].p == found.chance["sap"].p == 0.05
    assert not score(codes, metrics="mutual_information", chance=3).chance
