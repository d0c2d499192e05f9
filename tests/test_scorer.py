"""Scores in scikit-learn's model selection."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import PCA, FastICA
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sober
from sober import RequestError

RNG = np.random.default_rng(0)
FACTORS = RNG.integers(0, 4, (500, 3))
DATA = FACTORS @ RNG.normal(size=(3, 8)) + 0.01 * RNG.normal(size=(500, 8))
ICA = FastICA(3, random_state=0)


def test_independent_components_unmix_what_principal_ones_do_not() -> None:
    principal, independent = (
        cross_val_score(each, DATA, FACTORS, scoring=sober.scorer("mig")) for each in (PCA(3), ICA)
    )
    assert independent.min() > principal.max()


def test_it_scores_the_rows_that_were_held_out() -> None:
    fitted = PCA(3).fit(DATA[:400])
    found = sober.scorer("mig", seed=2)(fitted, DATA[400:], FACTORS[400:])
    assert found == sober.score(fitted.transform(DATA[400:]), FACTORS[400:], metrics="mig", seed=2)["mig"]


def test_a_search_chooses_by_it_also_where_lower_is_better() -> None:
    pipeline = make_pipeline(StandardScaler(), FastICA(random_state=0))
    scoring = sober.scorer(["mig", "dci_nrmse"])
    assert scoring.names == ("mig", "neg_dci_nrmse")
    search = GridSearchCV(pipeline, {"fastica__n_components": [1, 3]}, scoring=scoring, refit="neg_dci_nrmse", cv=3)
    search.fit(DATA, FACTORS)
    assert search.best_params_ == {"fastica__n_components": 3}
    one, three = search.cv_results_["mean_test_neg_dci_nrmse"]
    assert one < three <= 0


def test_a_score_that_is_better_when_lower_is_turned_round_by_either_name() -> None:
    fitted = PCA(3).fit(DATA)
    plain = sober.score(fitted.transform(DATA), FACTORS, metrics="dci_nrmse")["dci_nrmse"]
    for name in ("dci_nrmse", "neg_dci_nrmse"):
        scorer = sober.scorer(name)
        assert scorer(fitted, DATA, FACTORS) == -plain
        assert repr(scorer) == "sober.scorer('neg_dci_nrmse')"


def test_several_scores_and_frames() -> None:
    frame = pl.DataFrame(FACTORS, schema=["a", "b", "c"])
    found = cross_validate(PCA(3), DATA, frame, scoring=sober.scorer(["mig", "sap"]), cv=2)
    assert {"test_mig", "test_sap"} <= set(found)


def test_what_needs_no_factors_needs_none() -> None:
    assert np.isfinite(cross_val_score(ICA, DATA, scoring=sober.scorer("gaussian_total_correlation"), cv=2)).all()


def test_it_goes_to_other_processes() -> None:
    scorer = sober.scorer("mig", preset="paper")
    assert pickle.loads(pickle.dumps(scorer)) == scorer


@pytest.mark.parametrize(
    ("metrics", "says"),
    [
        ("dci", "dci has several scores, dci_completeness, "),
        ("unheard_of", "unheard_of"),
        ("active_latents", "neither better higher nor lower"),
        ("neg_mig", "mig is better when higher: ask for it without 'neg_'"),
        ("gaussian_total_correlation_sampled", "needs log-variances"),
        ([], "metrics is empty"),
    ],
)
def test_what_nothing_can_be_chosen_by_is_refused(metrics, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        sober.scorer(metrics)


def test_an_estimator_without_transform_is_refused() -> None:
    with pytest.raises(RequestError, match="LinearRegression has no transform"):
        sober.scorer("mig")(LinearRegression(), DATA, FACTORS)
