"""What holds for every criterion that chooses without labels, over the registry."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from families import BLOCKS, small_runs
from sober.criteria import CRITERIA, Evidence, find_criterion, fit_to_judge
from sober.criteria.elbo import divergences, reconstruction_errors, squared_errors
from sober.errors import RequestError, UnknownError
from sober.metrics import score
from sober.models.model import Model, latent_kl
from sober.requests.results import Results
from sober.requests.train import train
from sober.shared import Shared
from sober.types import Codes, Run, Setting

EVERY_CRITERION = sorted(CRITERIA)
STEPS = 20  # of criteria that train


def quick(name: str) -> dict[str, Setting]:
    few = {"pictures": 640} if "pictures" in CRITERIA[name].settings else {}
    return {CRITERIA[name].steps: STEPS, **few} if CRITERIA[name].steps else few


def evidence_of(family: Results, load: Callable[[Run], Model] | None = None) -> Evidence:
    runs, codes = zip(*family.encode(), strict=True)
    return Evidence(family.world, runs, codes, None, load or family.model)


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = [
        *small_runs("beta_vae", {"beta": [1.0, 4.0]}, seeds=3, steps=200, latents=6, batch=64),
        *small_runs("beta_tcvae", {"beta": [2.0]}, steps=400),
    ]
    return train(runs, BLOCKS, tmp_path_factory.mktemp("family") / "family")


@pytest.fixture(scope="module")
def evidence(family: Results) -> Evidence:
    return evidence_of(family)


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_each_model_has_a_finite_score_and_finite_replicates(name: str, evidence: Evidence) -> None:
    found = CRITERIA[name](evidence, quick(name))
    assert found.scores.shape == (8,) == found.replicates.shape[1:]
    assert len(found.replicates) >= 8
    assert np.isfinite(found.scores).all()
    assert np.isfinite(found.replicates).all()
    assert len(found.flags) == 8
    for scores in (found.scores, found.replicates):
        assert CRITERIA[name].low - 1e-9 <= scores.min() <= scores.max() <= CRITERIA[name].high + 1e-9
    # The score is one of the numbers that might have come out.
    assert np.all(np.abs(found.scores - np.median(found.replicates, axis=0)) < 0.35 * (1 + np.abs(found.scores)))


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_the_same_seed_gives_the_same_judgement(name: str, evidence: Evidence) -> None:
    one, other = (CRITERIA[name](evidence, quick(name), seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.replicates, other.replicates)


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_the_order_of_models_does_not_matter(name: str, evidence: Evidence) -> None:
    order = [4, 2, 7, 0, 6, 1, 3, 5]
    turned = evidence.only(evidence.runs[m] for m in order)
    straight = CRITERIA[name](evidence, quick(name)).scores
    np.testing.assert_allclose(CRITERIA[name](turned, quick(name)).scores, straight[order], rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_no_criterion_looks_at_factors(name: str, evidence: Evidence) -> None:
    nonsense = [dataclasses.replace(codes, factors=codes.factors[::-1]) for codes in evidence.codes]
    blind = dataclasses.replace(evidence, codes=tuple(nonsense))
    scores = [CRITERIA[name](each, quick(name)).scores for each in (evidence, blind)]
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_what_it_sees_and_cannot_see_is_said_in_a_sentence_each(name: str) -> None:
    criterion = CRITERIA[name]
    assert criterion.name == name
    assert criterion.sees.endswith(".")
    assert criterion.blind.endswith(".")
    assert criterion.summary
    assert criterion.reference


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_what_it_declares_of_its_settings_is_so(name: str) -> None:
    criterion = CRITERIA[name]
    settings = {name: value for name, value in criterion.settings.items() if name not in criterion.later}
    assert criterion.configured() == settings
    assert criterion.steps in {"", *criterion.settings}
    for trained in (100, 10_000, 300_000):
        suited = criterion.suited(trained)
        assert criterion.configured(suited) == {**settings, **suited}
        if criterion.steps:
            assert int(suited[criterion.steps]) <= max(200, trained)
    few, many = (criterion.cost(criterion.configured(), models) for models in (10, 100))
    assert 0 <= few.seconds <= many.seconds
    assert few.steps == many.steps >= 0
    if criterion.steps:
        longer = criterion.configured({criterion.steps: 2 * int(criterion.settings[criterion.steps])})
        assert criterion.cost(longer, 10).steps > few.steps


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_only_what_measures_from_the_best_depends_on_company(name: str, evidence: Evidence) -> None:
    if CRITERIA[name].compares:
        pytest.skip("it compares models with each other")
    alone, together = (CRITERIA[name](evidence.only(evidence.runs[:many]), quick(name)).scores for many in (2, 6))
    same = np.allclose(alone, together[:2], rtol=1e-4, atol=2e-3)
    assert same is not CRITERIA[name].relative


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_a_setting_that_there_is_not_is_refused(name: str, evidence: Evidence) -> None:
    with pytest.raises(RequestError, match=f"{name} has no setting 'novelty': "):
        CRITERIA[name].configured({"novelty": 3})
    with pytest.raises(RequestError, match="no setting 'novelty'"):
        CRITERIA[name](evidence, {"novelty": 3})
    for setting, default in CRITERIA[name].settings.items():
        wrong: Setting = 3.0 if isinstance(default, str) else "many"
        with pytest.raises(RequestError, match=f"{name}: {setting} must be a (word|number), such as {default}"):
            CRITERIA[name].configured({setting: wrong})


def test_unknown_names_and_values_are_refused(evidence: Evidence) -> None:
    with pytest.raises(UnknownError, match="unknown criterion 'mig': choose one of elbo, kl"):
        find_criterion("mig")
    with pytest.raises(RequestError, match="kl has no setting 'partners': it has none"):
        CRITERIA["kl"](evidence, {"partners": 3})
    with pytest.raises(RequestError, match="among must be one of all, methods, settings, not 'none'"):
        CRITERIA["udr"](evidence, {"among": "none"})


def test_the_registry_is_read_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    added = dataclasses.replace(CRITERIA["kl"], name="added")
    monkeypatch.setitem(CRITERIA, "added", added)
    assert find_criterion("added") is added


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_a_single_model_can_be_judged_unless_models_are_compared(name: str, evidence: Evidence) -> None:
    alone = evidence.only(evidence.runs[:1])
    if CRITERIA[name].compares:
        with pytest.raises(RequestError, match="was given 1 model that can be compared: train more seeds"):
            CRITERIA[name](alone)
    else:
        assert CRITERIA[name](alone, quick(name)).scores.shape == (1,)


def test_what_criteria_have_in_common_is_computed_once(family: Results) -> None:
    loaded: list[Run] = []

    def load(run: Run) -> Model:
        loaded.append(run)
        return family.model(run)

    evidence, shared = evidence_of(family, load).only(family.runs[:2]), Shared()
    told: dict[str, list[tuple[int, int]]] = {}
    judgements = {}
    for name in EVERY_CRITERION:
        heard = told.setdefault(name, [])
        judgements[name] = CRITERIA[name](
            evidence, quick(name), shared=shared, progress=lambda done, total, heard=heard: heard.append((done, total))
        )
    assert loaded == list(family.runs[:2])
    assert told["pipe"] == [(STEPS, STEPS)]
    assert told["pipe_rec"] == []  # one training for both
    assert told["elbo"][-1] == (2 * BLOCKS.size, 2 * BLOCKS.size)
    assert told["reconstruction"] == []
    for name, judgement in judgements.items():  # and sharing changes nothing
        np.testing.assert_array_equal(judgement.scores, CRITERIA[name](evidence, quick(name)).scores)
    again: list[tuple[int, int]] = []
    CRITERIA["pipe"](evidence, {"steps": STEPS}, seed=1, shared=shared, progress=lambda *done: again.append(done))
    assert again  # another seed is another training


@pytest.mark.parametrize("name", EVERY_CRITERION)
def test_models_are_loaded_by_those_alone_that_say_what_working_with_them_costs(name: str, family: Results) -> None:
    loaded: list[Run] = []

    def load(run: Run) -> Model:
        loaded.append(run)
        return family.model(run)

    settings = CRITERIA[name].configured(quick(name))
    CRITERIA[name](evidence_of(family, load), settings)
    assert loaded == (list(family.runs) if CRITERIA[name].cost(settings, 8).steps else [])


def test_a_part_of_the_evidence_is_about_those_runs(evidence: Evidence) -> None:
    part = evidence.only([evidence.runs[5], evidence.runs[2]])
    assert part.runs == (evidence.runs[5], evidence.runs[2])
    assert part.codes == (evidence.codes[5], evidence.codes[2])
    assert [model.run for model in part.models] == list(part.runs)


def test_codes_are_fit_to_judge_where_they_are_numbers() -> None:
    good = Codes(np.zeros((20, 2)), np.zeros((20, 2)), np.zeros((20, 0)), ())
    assert fit_to_judge(good)
    assert fit_to_judge(dataclasses.replace(good, logvar=None, flags=("collapsed",)))
    for flag in ("diverged", "not_finite"):
        assert not fit_to_judge(dataclasses.replace(good, flags=(flag,)))
    for wrong in (np.nan, np.inf):
        broken = np.where(np.eye(20, 2) > 0, wrong, 0.0)
        assert not fit_to_judge(dataclasses.replace(good, mean=broken))
        assert not fit_to_judge(dataclasses.replace(good, logvar=broken))


def test_elbo_terms_are_those_of_each_model_by_itself(evidence: Evidence) -> None:
    errors = reconstruction_errors(evidence, 0, lambda done, total: None, Shared())
    nats = divergences(evidence)
    images = BLOCKS.render(np.arange(64)).astype(np.float32) / 255
    for at in (0, 7):
        model, codes = evidence.models[at], evidence.codes[at]
        np.testing.assert_allclose(nats[at].mean(), latent_kl(codes.mean, codes.logvar).sum(), rtol=1e-4)
        rebuilt = np.clip(model.decode(codes.mean[:64]), 1e-7, 1 - 1e-7)
        by_hand = -(images * np.log(rebuilt) + (1 - images) * np.log1p(-rebuilt)).sum(axis=(1, 2, 3))
        # One sample of the code beside its mean: noise only adds.
        assert 0.95 * by_hand.mean() < errors[at, :64].mean() < 2 * by_hand.mean()
    elbo = CRITERIA["elbo"](evidence).scores
    np.testing.assert_allclose(elbo, (nats + errors).mean(axis=1), rtol=1e-6)


def test_sure_codes_are_decoded_as_they_are(evidence: Evidence) -> None:
    """The codes that were handed over are decoded, whatever the encoder would say: here those of other pictures."""
    rng = np.random.default_rng(0)
    codes = [
        Codes(rng.uniform(-1, 1, each.mean.shape), np.full(each.mean.shape, -40.0), each.factors, each.about)
        for each in evidence.codes
    ]
    others, shared = dataclasses.replace(evidence, codes=tuple(codes)), Shared()
    errors, squared = (
        kind(others, 0, lambda done, total: None, shared) for kind in (reconstruction_errors, squared_errors)
    )
    images = BLOCKS.render(np.arange(BLOCKS.size)).astype(np.float32) / 255
    for at in (0, 7):
        rebuilt = np.clip(evidence.models[at].decode(codes[at].mean), 1e-7, 1 - 1e-7)
        by_hand = -(images * np.log(rebuilt) + (1 - images) * np.log1p(-rebuilt)).sum(axis=(1, 2, 3))
        np.testing.assert_allclose(errors[at], by_hand, rtol=1e-3)
        np.testing.assert_allclose(squared[at], ((images - rebuilt) ** 2).mean(axis=(1, 2, 3)), rtol=1e-3)
    np.testing.assert_allclose(CRITERIA["squared_error"](others).scores, squared.mean(axis=1))


def test_codes_without_log_variances_are_decoded_as_they_are_and_have_no_bound(evidence: Evidence) -> None:
    points = dataclasses.replace(
        evidence, codes=tuple(dataclasses.replace(codes, logvar=None) for codes in evidence.codes)
    )
    sure = tuple(dataclasses.replace(codes, logvar=np.full_like(codes.mean, -80)) for codes in evidence.codes)
    expected = CRITERIA["reconstruction"](dataclasses.replace(evidence, codes=sure)).scores
    np.testing.assert_allclose(CRITERIA["reconstruction"](points).scores, expected, rtol=1e-6)
    for name in ("kl", "elbo"):
        judgement = CRITERIA[name](points)
        assert (judgement.scores == np.inf).all()
        assert all("means_only" in flags for flags in judgement.flags)


def test_total_correlation_is_the_metric_of_samples(evidence: Evidence) -> None:
    expected = [
        score(codes, metrics=["gaussian_total_correlation_sampled"])["gaussian_total_correlation_sampled"]
        for codes in evidence.codes
    ]
    np.testing.assert_allclose(CRITERIA["total_correlation"](evidence).scores, expected, rtol=1e-9)
