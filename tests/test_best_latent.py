"""What is particular to best_latent; the rest is in test_every_metric.py."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, roc_auc_score

from sober.errors import RequestError
from sober.estimators.detection import auc_of, detectors, f1_of
from sober.metrics import as_codes, score
from sober.metrics.common.metric_rows import halves


@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.1, 0.5, 1.0]), places=st.integers(0, 2))
def test_areas_and_thresholds_are_those_of_scikit_learn(seed: int, share: float, places: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((60, 3)) < share, rng.normal(size=(60, 3)).round(places), 0.0)
    truth = np.stack([x[:, 0] > 0.2, rng.random(60) < 0.3], axis=1) ^ (rng.random((60, 2)) < 0.1)
    truth[:2] = [[True, True], [False, False]]
    for table in (x, scipy.sparse.csr_array(x)):
        found = detectors(table, truth)
        for j in range(3):
            for a in range(2):
                own = truth[:, a]
                assert found.auc[j, a] == pytest.approx(roc_auc_score(own, x[:, j]))
                named = x[:, j] >= found.threshold[j, a] if found.above[j, a] else x[:, j] <= found.threshold[j, a]
                assert found.f1[j, a] == pytest.approx(f1_score(own, named))
                ways = [side for t in x[:, j] for side in (x[:, j] >= t, x[:, j] <= t)]
                assert found.f1[j, a] == pytest.approx(max(f1_of(side, own) for side in ways))


def test_what_is_reported_was_measured_on_the_other_half() -> None:
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 2, (500, 2))
    codes = np.concatenate([factors[:, [1]] + rng.normal(size=(500, 1)), rng.normal(size=(500, 6))], axis=1)
    found = score(codes, factors, metrics="best_latent")
    parts = found.parts["best_latent"]
    _, check = halves(as_codes(codes, factors), 10_000, "drawn", 0)
    for k in range(2):
        j, above = parts["latent"][1, k], parts["above"][1, k]
        x, truth = check.mean[:, j], check.factors[:, k]
        named = x >= parts["threshold"][1, k] if above else x <= parts["threshold"][1, k]
        assert parts["f1_per_factor"][k] == pytest.approx(f1_score(truth, named))
        assert parts["auc_per_factor"][k] == pytest.approx(roc_auc_score(truth, x if above else -x))
    assert parts["latent"][1, 1] == 0
    assert found["best_latent_f1"] == pytest.approx(parts["f1_per_factor"].mean())
    assert (parts["latent"][0] == -1).all()  # of two values the second is asked for
    assert all(np.isfinite(array).all() for array in parts.values())


def test_the_best_of_many_noise_latents_is_no_better_than_chance_on_the_other_half() -> None:
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(300, 2_000)), rng.integers(0, 2, (300, 3))
    fresh = score(codes, factors, metrics={"best_latent": {"by": "auc"}})["best_latent_auc"]
    same = score(codes, factors, metrics={"best_latent": {"by": "auc"}}, preset="paper")["best_latent_auc"]
    assert abs(fresh - 0.5) < 0.1
    assert same > 0.6


def test_a_factor_of_many_values_is_asked_for_each() -> None:
    factors = np.resize(np.arange(4), (200, 1))
    codes = np.eye(4)[factors[:, 0]]
    found = score(codes, factors, metrics="best_latent")
    assert found["best_latent_f1"] == found["best_latent_auc"] == 1
    assert sorted(found.parts["best_latent"]["latent"][:, 0]) == [0, 1, 2, 3]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(RequestError, match="'f1' or 'auc'"):
        score(np.eye(4), np.arange(4)[:, None] % 2, metrics={"best_latent": {"by": "accuracy"}})


def test_answers_about_nothing_are_defined() -> None:
    nothing = np.zeros(4, bool)
    assert f1_of(nothing, nothing) == 0
    assert auc_of(np.arange(4.0), nothing) == auc_of(np.arange(4.0), ~nothing) == 0.5
