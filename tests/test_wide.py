"""Wide, sparse and stored codes: the same numbers as of one dense array, in memory that does not grow with them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from sober.errors import NotMeasuredError, RequestError
from sober.estimators.detection import detectors, ranked_columns
from sober.estimators.discrete import binned, entropy, information
from sober.estimators.lasso import lasso
from sober.estimators.linear import one_vs_rest
from sober.estimators.neighbours import class_information, jittered
from sober.estimators.predictors import STRENGTHS
from sober.estimators.scaling import standardised
from sober.estimators.svm import svm_accuracy
from sober.estimators.wide import wide_tables
from sober.estimators.wide.sparse_counts import SparseBins
from sober.estimators.wide.sparse_svm import wide_svm_accuracy
from sober.estimators.wide.tied_neighbours import tied_class_information
from sober.estimators.wide.wide_lasso import wide_lasso
from sober.estimators.wide.wide_linear import NEAR, _Memberships, wide_logits
from sober.estimators.wide.wide_tables import Picked, Standardised, column_lists, moments, spread
from sober.metrics import METRICS, Scores, as_codes, score

LATENTS = 40
SPARSE = [name for name, metric in METRICS.items() if "sparse" in metric.takes]


def sparse_codes(rows: int = 400, latents: int = LATENTS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Codes of which a tenth are not 0, and three factors that they tell.

    Some are equal, some latents are negative. None has a sum of 0: between two classes rounding would decide.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.lognormal(size=(rows, latents)).round(1) * np.where(np.arange(latents) % 3 == 1, -1, 1)
    codes = np.where(rng.random((rows, latents)) < 0.1, sizes, 0.0)
    codes[:, 3] = 0.0  # dead
    codes[:, 4] = 1.0  # constant, and not 0
    codes[:, 5] += 3.0  # no zeros
    factors = np.stack([codes[:, 0] != 0, (codes[:, 1] < -0.8) + 2 * (codes[:, 2] > 0.5), codes[:, 5] > 3.0], axis=1)
    flipped = rng.random(factors.shape) < 0.05
    return codes, np.where(flipped, rng.integers(0, 2, factors.shape), factors.astype(int))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table counts as too large for one array, and as wide."""
    monkeypatch.setattr(wide_tables, "COPIED", 0)
    monkeypatch.setattr(wide_tables, "WIDE", 0)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_tables, "WIDE", 0)


QUICK = {name: METRICS[name].quick for name in SPARSE}


def assert_same(one: Scores, other: Scores, **tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert one[name] == pytest.approx(other[name], **tolerance), name
        assert one.flags[name] == other.flags[name], name


def test_sparse_and_dense_codes_score_the_same(wide: None, monkeypatch: pytest.MonkeyPatch) -> None:
    codes, factors = sparse_codes()
    dense = score(codes, factors, metrics=QUICK)
    monkeypatch.setattr(wide_tables, "COPIED", 0)
    for given in (scipy.sparse.csr_array(codes), scipy.sparse.coo_matrix(codes)):
        found = score(given, factors, metrics=QUICK)
        assert not found.left_out
        assert_same(found, dense, abs=1e-9)


def test_a_stored_array_scores_as_one_in_memory(tmp_path: Path, wide: None, monkeypatch: pytest.MonkeyPatch) -> None:
    codes, factors = sparse_codes()
    np.save(tmp_path / "codes.npy", codes)
    dense = score(codes, factors, metrics=QUICK)
    assert score(np.load(tmp_path / "codes.npy", mmap_mode="r"), factors, metrics=QUICK) == dense
    monkeypatch.setattr(wide_tables, "COPIED", 0)
    monkeypatch.setattr(wide_tables, "BLOCK", 3 * len(codes))  # three columns at a time
    stored = np.load(tmp_path / "codes.npy", mmap_mode="r")
    assert isinstance(as_codes(stored, factors).mean, Picked)
    assert_same(score(stored, factors, metrics=QUICK), dense, abs=1e-9)


EXACT = [
    "mig",
    "modularity",
    "jemmig",
    "dcimig",
    "mig_sup",
    "rmig",
    "edi",
    "med",
    "mi",
    "sap",
    "svm",
    "irs",
    "tad",
    "mcc",
]
EXACT += ["active_latents", "best_latent"]


def test_where_the_wide_way_is_the_same_formula_it_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, factors = sparse_codes()
    narrow = score(codes, factors, metrics=EXACT)
    monkeypatch.setattr(wide_tables, "COPIED", 0)
    assert_same(score(scipy.sparse.csr_array(codes), factors, metrics=EXACT), narrow, abs=1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_says_why_it_is_left_out_or_gives_numbers(name: str, large: None) -> None:
    codes, factors = sparse_codes(rows=120)
    found = score(scipy.sparse.csr_array(codes), factors, metrics={name: METRICS[name].quick})
    if "sparse" in METRICS[name].takes:
        assert found
        assert not found.left_out
    else:
        assert found.left_out[name].endswith("pass fewer latents, or fewer rows")


def test_sparse_codes_that_are_small_are_measured_by_every_metric() -> None:
    rng = np.random.default_rng(0)
    codes, factors = sparse_codes(rows=60, latents=wide_tables.WIDE + 1)
    asked = {"factor_vae": METRICS["factor_vae"].quick, "r2": {}, "gaussian_total_correlation": {}}
    given = scipy.sparse.csc_array(codes[rng.permutation(60)][:, ::-1])
    assert scipy.sparse.issparse(as_codes(given, factors).mean)
    assert score(given, factors, metrics=asked) == score(given.toarray(), factors, metrics=asked)


@pytest.mark.parametrize("name", ["beta_vae", "factor_vae", "gaussian_total_correlation", "mutual_information", "omes"])
def test_work_that_grows_faster_than_the_latents_has_an_end(name: str) -> None:
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(12, 5_000)), rng.integers(0, 2, (12, 2))
    found = score(codes, factors, metrics=name)
    assert not found
    assert "5,000 are more than" in found.left_out[name]
    assert "pass fewer latents" in found.left_out[name]


def test_memory_stays_far_below_that_of_dense_codes() -> None:
    rows, latents = 4_000, 16_384
    rng = np.random.default_rng(0)
    codes = scipy.sparse.random_array((rows, latents), density=0.002, format="csr", rng=rng)
    factors = rng.integers(0, 2, (rows, 2))
    score(codes[:200], factors[:200], metrics=["mig", "sap", "mcc", "best_latent"])  # compiles
    tracemalloc.start()
    found = score(codes, factors, metrics=["mig", "modularity", "sap", "mcc", "best_latent", "active_latents"])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not found.left_out
    assert most < rows * latents * 8 / 4


def test_a_sparse_array_that_is_wrong_is_refused(large: None) -> None:
    codes, factors = sparse_codes()
    codes[3, 0] = np.nan
    with pytest.raises(RequestError, match="codes has values that are not finite"):
        score(scipy.sparse.csr_array(codes), factors)
    with pytest.raises(RequestError, match="row 3, column 0"):
        score(codes, factors)
    codes[3, 0] = 1e60
    with pytest.raises(RequestError, match="1e\\+60"):
        score(scipy.sparse.csr_array(codes), factors)
    with pytest.raises(RequestError, match="real numbers"):
        score(scipy.sparse.csr_array(codes.astype(complex)), factors)


def test_screening_is_said(wide: None) -> None:
    codes, factors = sparse_codes()
    found = score(codes, factors, metrics={"dci": {"screen": 7}, "gbt": {"screen": 7}, "dci_forest": {"screen": 7}})
    assert "screened" in found.flags["dci_completeness"]
    assert found.parts["dci"]["latents_kept"] == found.parts["dci_forest"]["latents_kept"] == 7
    assert (found.parts["dci"]["importance"] > 0).sum(axis=0).max() <= 7
    with pytest.raises(RequestError, match="screen must be a whole number from 1 on"):
        score(codes, factors, metrics={"dci": {"screen": 0}})


def test_sparse_latents_are_active_by_their_range(wide: None) -> None:
    codes, factors = sparse_codes()
    few = codes[:, [0, 1, 2, 6, 7]]
    found = score(few, factors, metrics="infomec")
    assert "sparse_latents" in found.flags["infom"]
    assert found.parts["infomec"]["active"].all()


# The estimators beneath.


def tables(codes: np.ndarray) -> Iterator[object]:
    yield codes
    yield scipy.sparse.csr_array(codes)
    yield Picked(np.concatenate([codes, codes]), np.arange(len(codes), 2 * len(codes)))


def test_tables_of_every_kind_have_the_same_columns() -> None:
    codes, _ = sparse_codes()
    for table in tables(codes):
        np.testing.assert_allclose(spread(table), np.ptp(codes, axis=0))
        np.testing.assert_allclose(moments(table).variance, codes.var(axis=0), atol=1e-14)
        weight = np.random.default_rng(0).normal(size=(2, LATENTS))
        whole = standardised(codes)[0]
        np.testing.assert_allclose(Standardised(table).times(weight), weight @ whole.T, atol=1e-10)
        np.testing.assert_allclose(Standardised(table).against(whole.T[:2]), whole.T[:2] @ whole, atol=1e-9)
        rebuilt = np.zeros(codes.shape)
        for which, part in column_lists(table):
            for j in range(which.stop - which.start):
                own = slice(part.start[j], part.start[j + 1])
                assert (np.diff(part.value[own]) >= 0).all()
                rebuilt[part.row[own], which.start + j] = part.value[own]
        np.testing.assert_array_equal(rebuilt, codes)


@pytest.mark.parametrize("weights", [None, np.random.default_rng(1).random(400)])
def test_sparse_counts_are_those_of_dense_columns(weights: np.ndarray | None) -> None:
    codes, factors = sparse_codes()
    codes[:, 6] = 1e9
    codes[2, 6] += 1e-6  # edges that need care
    codes[5, 3] = 1e-310
    cut = SparseBins.of(scipy.sparse.csr_array(codes), 20)
    np.testing.assert_allclose(
        cut.information(factors, weights), information(binned(codes), factors, weights), atol=1e-12
    )
    np.testing.assert_allclose(cut.entropy(weights), entropy(binned(codes), weights), atol=1e-12)
    assert (cut.counts().sum(axis=1) == len(codes)).all()


def test_sparse_support_vector_machines_are_the_dense_ones() -> None:
    codes, factors = sparse_codes()
    both = [slice(0, 250), slice(250, 400)]
    dense = svm_accuracy(codes[both[0]], factors[both[0]], codes[both[1]], factors[both[1]])
    for table in (codes, scipy.sparse.csr_array(codes)):
        found = wide_svm_accuracy(table[both[0]], factors[both[0]], table[both[1]], factors[both[1]])
        np.testing.assert_array_equal(found, dense)


def test_ranks_of_sparse_columns() -> None:
    codes, _ = sparse_codes()
    of_zero, ranks = ranked_columns(scipy.sparse.csr_array(codes))
    found = scipy.sparse.csc_array((ranks.value, ranks.row, ranks.start), shape=codes.shape).toarray() + of_zero
    np.testing.assert_allclose(found, scipy.stats.rankdata(codes, axis=0))


def test_information_of_different_numbers_is_that_of_neighbours() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    y = np.stack([x[:, 0] > 0, rng.integers(0, 3, 300), np.arange(300) == 5], axis=1).astype(int)
    np.testing.assert_allclose(tied_class_information(x, y, 10), class_information(x, y, 10), atol=1e-12)


def test_information_of_equal_numbers_is_the_mean_over_their_orders() -> None:
    codes, factors = sparse_codes(rows=600)
    x = codes[:, [0, 1, 5]]  # which know something: what is clipped at 0 has another mean
    y = np.stack([factors[:, 0], factors[:, 1], factors[:, 2]], axis=1)
    drawn = np.mean([class_information(jittered(x, np.random.default_rng(s)), y, 10) for s in range(30)], axis=0)
    found = tied_class_information(scipy.sparse.csr_array(x), y, 10)
    np.testing.assert_allclose(np.diag(found), np.diag(drawn), atol=4e-3)
    np.testing.assert_allclose(found, tied_class_information(x, y, 10), atol=1e-12)


def test_wide_lassos_are_at_the_optimum() -> None:
    codes, _ = sparse_codes()
    rng = np.random.default_rng(0)
    y = codes[:, 0] + 0.3 * codes[:, 1] + 0.3 * rng.normal(size=len(codes))
    y = ((y - y[:300].mean()) / y[:300].std())[:, None]
    x, x_valid = standardised(codes[:300], codes[300:])
    errors = [np.mean((x_valid @ lasso(x, y[:300], strength).T - y[300:]) ** 2) for strength in STRENGTHS]
    best = STRENGTHS[int(np.argmin(errors))]
    for table in tables(codes):
        fit = Standardised(table[np.arange(300)])
        valid = Standardised(table[np.arange(300, 400)], fit.by)
        (found,) = wide_lasso(fit, [y[:300]], valid, [y[300:]], STRENGTHS)
        assert found.strength[0] == best
        np.testing.assert_allclose(found.coefficients, lasso(x, y[:300], best), atol=1e-4)


def test_wide_logistic_regressions_are_at_the_optimum() -> None:
    from sober.estimators.linear import minimised  # noqa: PLC0415

    codes, factors = sparse_codes()
    exact = one_vs_rest(standardised(codes)[0], factors[:, 0])
    for table in tables(codes):
        own = np.stack([factors[:, 0] == 0, factors[:, 0] == 1])
        found = minimised(_Memberships(Standardised(table), own, 1.0, np.zeros((2, LATENTS + 1))), NEAR).unknowns
        np.testing.assert_allclose(found[:, :-1], exact.weight.T, atol=1e-3)
        np.testing.assert_allclose(found[:, -1], exact.intercept, atol=1e-3)


def test_a_penalty_is_chosen_where_latents_outnumber_rows() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 900))
    own = (x[:, 0] + 0.3 * rng.normal(size=600) > 0)[None]
    logits = wide_logits(x[:300], own[:, :300], x[300:])
    good = detectors(logits.T, own[:, 300:].T).auc[0, 0]
    noise = wide_logits(rng.permutation(x[:300]), own[:, :300], x[300:])
    assert good > 0.6
    assert np.abs(noise - np.log(own[0, :300].mean() / (1 - own[0, :300].mean()))).mean() < 1.0  # not overconfident


def test_multinomial_classifiers_of_wide_codes_are_left_out(large: None) -> None:
    prepared = as_codes(*sparse_codes())
    with pytest.raises(NotMeasuredError, match="one_vs_rest"):
        METRICS["explicitness"](prepared, {"classifier": "multinomial"})
