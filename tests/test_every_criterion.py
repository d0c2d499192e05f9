"""What holds for every criterion that chooses without labels, over the registry."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from families import BLOCKS, small_runs
from sober.criteria import CRITERIA, Evidence, find_criterion, rank
from sober.criteria.elbo import terms_of
from sober.errors import RequestError
from sober.metrics import score
from sober.models.family import Family
from sober.models.model import latent_kl
from sober.training.train import train
from sober.types import Setting

QUICK: dict[str, dict[str, Setting]] = {name: {"steps": 20} for name in ("pipe", "pipe_rec")}
EVERY_CRITERION = sorted(CRITERIA)
pytestmark = pytest.mark.usefixtures("lean_compiler")


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    runs = [
        *small_runs("beta_vae", {"beta": [1.0, 4.0]}, seeds=3, steps=200, latents=6, batch=64),
        *small_runs("beta_tcvae", {"beta": [2.0]}, steps=400),
    ]
    return train(runs, BLOCKS, tmp_path_factory.mktemp("family") / "family")


@pytest.fixture(scope="module")
def evidence(family: Family) -> Evidence:
    return Evidence.of(family)[0]


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_each_model_has_a_finite_score_and_finite_replicates(name: str, evidence: Evidence) -> None:
    found = CRITERIA[name](evidence, QUICK.get(name))
    assert found.scores.shape == (8,) == found.replicates.shape[1:]
    assert len(found.replicates) >= 8
    assert np.isfinite(found.scores).all()
    assert np.isfinite(found.replicates).all()
    assert len(found.flags) == 8
    # The score is one of the numbers that might have come out.
    assert np.all(np.abs(found.scores - np.median(found.replicates, axis=0)) < 0.35 * (1 + np.abs(found.scores)))


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_the_same_seed_gives_the_same_judgement(name: str, evidence: Evidence) -> None:
    fresh = dataclasses.replace(evidence)
    one, other = (CRITERIA[name](each, QUICK.get(name), seed=3) for each in (evidence, fresh))
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.replicates, other.replicates)


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_the_order_of_models_does_not_matter(name: str, evidence: Evidence) -> None:
    order = [4, 2, 7, 0, 6, 1, 3, 5]
    turned = dataclasses.replace(
        evidence,
        runs=tuple(evidence.runs[m] for m in order),
        codes=tuple(evidence.codes[m] for m in order),
    )
    straight = CRITERIA[name](evidence, QUICK.get(name)).scores
    np.testing.assert_allclose(CRITERIA[name](turned, QUICK.get(name)).scores, straight[order], rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_no_criterion_looks_at_factors(name: str, evidence: Evidence) -> None:
    nonsense = [dataclasses.replace(codes, factors=codes.factors[::-1]) for codes in evidence.codes]
    blind = dataclasses.replace(evidence, codes=tuple(nonsense))
    scores = [CRITERIA[name](each, QUICK.get(name)).scores for each in (evidence, blind)]
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_what_it_sees_and_cannot_see_is_said_in_a_sentence_each(name: str) -> None:
    criterion = CRITERIA[name]
    assert criterion.name == name
    assert criterion.sees.endswith(".")
    assert criterion.blind.endswith(".")
    assert criterion.summary
    assert criterion.reference


def test_unknown_names_and_settings_are_refused(family: Family, evidence: Evidence) -> None:
    with pytest.raises(RequestError, match="unknown criterion 'mig': choose from"):
        find_criterion("mig")
    with pytest.raises(RequestError, match="kl has no setting 'partners': it has none"):
        CRITERIA["kl"](evidence, {"partners": 3})
    with pytest.raises(RequestError, match="no setting 'batches'"):
        rank(family, ["udr"], settings={"batches": 3})
    with pytest.raises(RequestError, match="at least one criterion"):
        rank(family, [])
    with pytest.raises(RequestError, match="among must be one of all, settings, not 'none'"):
        rank(family, ["udr"], settings={"among": "none"})


def test_criteria_that_compare_refuse_a_single_model(family: Family) -> None:
    alone = dataclasses.replace(family, runs=family.runs[:1])
    for name, criterion in CRITERIA.items():
        if criterion.compares:
            with pytest.raises(RequestError, match="train more seeds"):
                rank(alone, [name])
    assert len(rank(alone, ["elbo"]).models) == 1


def test_elbo_terms_are_those_of_each_model_by_itself(evidence: Evidence) -> None:
    terms = terms_of(evidence, 0, lambda done, total: None)
    images = BLOCKS.render(np.arange(64)).astype(np.float32) / 255
    for at in (0, 7):
        model, codes = evidence.models[at], evidence.codes[at]
        np.testing.assert_allclose(terms["kl"][at].mean(), latent_kl(codes.mean, codes.logvar).sum(), rtol=1e-4)
        rebuilt = np.clip(model.decode(codes.mean[:64]), 1e-7, 1 - 1e-7)
        by_hand = -(images * np.log(rebuilt) + (1 - images) * np.log1p(-rebuilt)).sum(axis=(1, 2, 3))
        # One sample of the code beside its mean: noise only adds.
        assert 0.95 * by_hand.mean() < terms["reconstruction"][at, :64].mean() < 2 * by_hand.mean()
    elbo = CRITERIA["elbo"](evidence).scores
    np.testing.assert_allclose(elbo, (terms["kl"] + terms["reconstruction"]).mean(axis=1), rtol=1e-6)


def test_total_correlation_is_the_metric_of_samples(evidence: Evidence) -> None:
    expected = [
        score(codes, metrics=["gaussian_total_correlation_sampled"])["gaussian_total_correlation_sampled"]
        for codes in evidence.codes
    ]
    np.testing.assert_allclose(CRITERIA["total_correlation"](evidence).scores, expected, rtol=1e-9)
