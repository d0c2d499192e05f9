"""Unsupervised disentanglement ranking: closed forms, independent numbers, and models that carry nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy
from sklearn.linear_model import Lasso

import sober
from families import BLOCKS
from golden import Golden
from sober.criteria.criterion import Evidence, Judgement
from sober.criteria.ranking import ranking
from sober.criteria.udr import UDR, all_to_all, criterion, pair_score, same_methods, same_settings, udr
from sober.errors import RequestError
from sober.evaluation.score_rows import criterion_rows
from sober.results.judgement_files import JudgementKey
from sober.types import Codes, Run

RNG = np.random.default_rng(0)
SOURCES = RNG.standard_normal((3_000, 5))


def model(mean: np.ndarray, kl: bool = True, dead: int = 0, seed: int = 0, flags: tuple[str, ...] = ()) -> Codes:
    """Codes in which the given latents are sure, and some dead ones are the prior; in random order and sign."""
    rng = np.random.default_rng(seed)
    D = mean.shape[1] + dead
    order = rng.permutation(D)
    means = np.concatenate(
        [mean * rng.choice([-1, 1], mean.shape[1]), 1e-3 * rng.standard_normal((len(mean), dead))], 1
    )
    logvar = np.broadcast_to(np.log([0.01] * mean.shape[1] + [1.0] * dead), means.shape)
    return Codes(means[:, order], logvar[:, order] if kl else None, np.zeros((len(mean), 0), int), (), flags)


def rotation(seed: int, n: int = 5) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


def by_pair(found: UDR) -> dict[tuple[int, int], float]:
    return {(pair.model, pair.partner): pair.score for pair in found.pairs}


@pytest.mark.parametrize("kl", [True, False])
def test_copies_up_to_order_sign_and_scale_score_one(kl: bool) -> None:
    found = udr([model(SOURCES * (1 + seed), kl, dead=seed, seed=seed) for seed in range(5)])
    assert found.scores.min() >= 0.99
    assert all(flags == (() if kl else ("means_only",)) for flags in found.flags)
    assert [used.sum() for used in found.informative] == [5] * 5


def test_a_lacking_factor_lowers_the_score_as_equation_2_says() -> None:
    found = udr([model(SOURCES, seed=0), model(SOURCES[:, :3], dead=2, seed=1)])
    # Three rows and three columns agree; two rows have nothing to agree with.
    np.testing.assert_allclose(found.scores, 6 / 8, atol=0.01)


def test_equation_2_by_hand() -> None:
    similarity = np.array([[0.8, 0.2], [0.0, 0.5], [0.0, 0.0]])
    rows, columns = 0.8**2 / 1.0 + 0.5, 0.8 + 0.5**2 / 0.7
    assert pair_score(similarity, np.array(3), np.array(2)) == pytest.approx((rows + columns) / 5)


@pytest.mark.parametrize("similarity", ["lasso", "spearman"])
def test_rotations_score_low_and_noise_near_zero(similarity: str) -> None:
    turned = udr([model(SOURCES @ rotation(seed), seed=seed) for seed in range(6)], similarity=similarity)
    noise = udr(
        [model(np.random.default_rng(seed).standard_normal((3_000, 8))) for seed in range(4)], similarity=similarity
    )
    assert turned.scores.max() < 0.4
    assert noise.scores.max() < 0.03


def test_a_collapsed_model_scores_zero_and_breaks_no_other() -> None:
    dead = model(np.zeros((3_000, 0)), dead=7, flags=("diverged",))
    found = udr([*(model(SOURCES, seed=seed) for seed in range(4)), dead])
    assert found.flags[4] == ("collapsed", "diverged")
    assert found.scores[4] == 0
    assert found.scores[:4].min() >= 0.99
    assert not udr([dead, dead]).scores.any()


def test_models_of_different_sizes_can_be_compared_and_a_constant_latent_is_no_fault() -> None:
    constant = np.concatenate([SOURCES, np.full((3_000, 1), 2.0)], axis=1)  # informative by its KL, yet says nothing
    found = udr([model(SOURCES, dead=3), model(constant, seed=1), model(SOURCES[:, :1], seed=2)], keep_similarity=True)
    assert found.similarity[0, 1].shape == (8, 6)
    assert by_pair(found)[0, 1] == pytest.approx(10 / 11, abs=0.01)
    assert by_pair(found)[2, 0] == pytest.approx(2 / 6, abs=0.01)
    assert np.isfinite(found.scores).all()


def test_similarity_holds_the_weights_that_predict_a_model_from_its_partner() -> None:
    first = model(SOURCES[:, :2])
    partner = model(np.stack([SOURCES[:, 0] + 3 * SOURCES[:, 1], SOURCES[:, 2]], axis=1), seed=1)
    found = udr([first, partner], keep_similarity=True).similarity
    assert np.sort(found[0, 1].ravel())[2:] == pytest.approx([0.1**0.5, 0.9**0.5], abs=0.05)  # rows: latents of model 0
    assert found[0, 1].shape == found[1, 0].T.shape


def test_the_score_is_the_median_over_the_partners_named() -> None:
    models = [model(SOURCES[:, : 5 - seed], seed=seed) for seed in range(4)]
    every = by_pair(udr(models))
    found = udr(models, partners=[[1, 2, 3], [0], [0, 1], [2]])
    expected = [
        np.median([every[0, 1], every[0, 2], every[0, 3]]),
        every[1, 0],
        (every[2, 0] + every[2, 1]) / 2,
        every[3, 2],
    ]
    np.testing.assert_allclose(found.scores, expected)
    assert len(found.pairs) == 7


@pytest.mark.parametrize("similarity", ["lasso", "spearman"])
def test_models_that_are_not_compared_do_not_matter_to_each_other(similarity: Any) -> None:
    models = [model(SOURCES[:, : 5 - at % 3], seed=at) for at in range(7)]
    models[5] = Codes(np.zeros((len(SOURCES), 2)), np.zeros((len(SOURCES), 2)), models[5].factors, ())  # says nothing
    partners = [[4], [3, 6], [0], [1], [2, 0], [6], [3]]  # 0, 2 and 4 on one side; the rest on the other
    found = by_pair(udr(models, partners=partners, similarity=similarity))
    every = by_pair(udr(models, similarity=similarity))
    assert found == {pair: pytest.approx(every[pair], abs=1e-12) for pair in found}


def test_partners_are_drawn_among_all_or_among_runs_that_differ_in_their_seed() -> None:
    assert all_to_all(3) == [[1, 2], [0, 2], [0, 1]]
    drawn = all_to_all(20, 5, seed=1)
    assert all(len(set(others)) == 5 and model not in others for model, others in enumerate(drawn))
    assert drawn != all_to_all(20, 5, seed=2)
    often = np.zeros((9, 9))
    for seed in range(3000):  # parts of 4 and 5, from which 3 are drawn: all the same, each other is drawn 3 times in 8
        for model, others in enumerate(all_to_all(9, 3, seed=seed)):
            often[model, others] += 1
    np.testing.assert_allclose(often / 3000, 3 / 8 * (1 - np.eye(9)), atol=5 * np.sqrt(3 / 8 * 5 / 8 / 3000))
    runs = [Run("blocks", "beta_vae", {"beta": beta}, seed=seed) for beta in (1, 4) for seed in range(3)]
    assert same_settings(runs) == [[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]]
    assert same_settings(runs[:4]) == [[1, 2], [0, 2], [0, 1], []]
    with pytest.raises(RequestError, match="train more seeds"):
        same_settings(runs[::3])


def test_partners_are_drawn_among_runs_of_the_same_method_whatever_their_strength() -> None:
    betas = [Run("blocks", "beta_vae", {"beta": beta}) for beta in (1, 4, 8)]
    gammas = [Run("blocks", "factor_vae", {"gamma": gamma}) for gamma in (10, 20)]
    assert same_methods([*betas, *gammas]) == [[1, 2], [0, 2], [0, 1], [4], [3]]
    with pytest.raises(RequestError, match=r"no other run of its method .* train more seeds or strengths"):
        same_methods([betas[0], gammas[0]])


def test_a_model_that_lost_its_partners_is_flagged_and_disturbs_no_other() -> None:
    runs = [Run("blocks", "beta_vae", {"beta": beta}, seed=seed) for beta, seed in ((1, 0), (4, 0), (1, 1), (1, 2))]
    codes = [model(SOURCES, seed=seed) for seed in range(4)]

    def judged(chosen: list[int]) -> Judgement:
        parts = tuple(runs[m] for m in chosen), tuple(codes[m] for m in chosen)
        evidence = Evidence(BLOCKS, *parts, None, lambda run: pytest.fail("loaded"))
        return criterion(evidence, {"among": "settings"}, seed=3)

    every, others = judged([0, 1, 2, 3]), judged([0, 2, 3])
    assert every.scores[[0, 2, 3]].tolist() == others.scores.tolist()
    assert (every.replicates[:, [0, 2, 3]] == others.replicates).all()
    assert every.flags[1] == ("no_partner",)
    assert (every.scores[1], every.replicates[:, 1].max()) == (0, 0)
    assert set(every.parts["pairs"][:, :2].ravel().tolist()) == {0, 2, 3}
    question = JudgementKey("udr", {"among": "settings"}, "blocks", tuple(run.identity for run in runs), 3_000, 3)
    rows = criterion_rows(criterion, question, every, 1.0)
    assert [math.isnan(row.value) for row in rows] == [False, True, False, False]
    assert rows[1].flags == ("no_partner", "not_measured")
    ranked = ranking(runs, [5] * 4, {"udr": (criterion, every)}, words=lambda run: run.seedless)
    assert ranked.models[-1].run == runs[1]


def test_numbers_near_the_end_of_their_type_are_compared_like_others() -> None:
    plain = [model(SOURCES, seed=seed) for seed in range(3)]
    huge = [
        Codes((each.mean * 1e37).astype(np.float32), each.logvar.astype(np.float32), each.factors, ()) for each in plain
    ]
    np.testing.assert_allclose(udr(huge).scores, udr(plain).scores, atol=1e-5)


def test_settings_may_be_anything_that_can_be_compared() -> None:
    codes = np.random.default_rng(0).normal(size=(4, 50, 3))
    by_dict = sober.udr(codes, settings=[{"beta": 1}, {"beta": 4}, {"beta": 1}, {"beta": 4}])
    np.testing.assert_array_equal(by_dict, sober.udr(codes, settings="abab"))
    rows = {"beta": [1, 4, 1, 4], "gamma": [None] * 4}
    for frame in (pl.DataFrame(rows), pd.DataFrame(rows)):
        np.testing.assert_array_equal(by_dict, sober.udr(codes, settings=frame))


def test_settings_with_missing_values_are_refused_in_a_line() -> None:
    codes = list(np.random.default_rng(0).normal(size=(2, 200, 3)))
    with pytest.raises(RequestError, match="model 0 is the only one of its setting"):
        sober.udr(codes, settings=pd.Series([1, None], dtype="Int64"))


def test_weights_of_latents_that_go_together_leave_the_score_within_its_range() -> None:
    other = np.array([5.0, 2, 3, 0, 9, 8, 4, 7, 6, 1])[:, None]
    together = np.sort(np.random.default_rng(0).normal(size=(10, 2)), axis=0)
    scores = sober.udr([together, other])
    assert ((scores >= 0) & (scores <= 1)).all()


def test_sparse_codes_and_kl_count_as_dense_ones() -> None:
    codes = [SOURCES[:100, :2], SOURCES[:100, 1:3]]
    kl = np.array([[1.0, 0.0], [1.0, 2.0]])
    expected = sober.udr(codes, kl)
    for kind in (scipy.sparse.coo_matrix, scipy.sparse.csr_array):
        np.testing.assert_array_equal(sober.udr(list(map(kind, codes)), kind(kl)), expected)
        with pytest.raises(RequestError, match="codes"):
            sober.udr(kind(SOURCES[:100]))


def test_groups_is_the_old_name_of_settings() -> None:
    codes = np.random.default_rng(0).normal(size=(4, 50, 3))
    with pytest.warns(DeprecationWarning, match="groups is now called settings") as warned:
        scores = sober.udr(codes, groups="abab")
    assert warned[0].filename == __file__
    np.testing.assert_array_equal(scores, sober.udr(codes, settings="abab"))


def test_wrong_requests_say_what_to_do() -> None:
    good = model(SOURCES)
    broken = Codes(np.where(np.arange(5) == 3, np.nan, SOURCES), None, good.factors, ())
    for codes, options, says in (
        ([good], {}, "at least two"),
        ([good, model(SOURCES[:100])], {}, "encode the same pictures"),
        ([good, broken], {}, "model 1: mean of latent 3 is not finite"),
        ([good, good], {"similarity": "cosine"}, "lasso, spearman"),
        ([good, good], {"partners": [[1], []]}, "partners of model 1"),
        ([good, good], {"partners": [[1], [1]]}, "partners of model 1"),
    ):
        with pytest.raises(RequestError, match=says):
            udr(codes, **options)


def test_the_reference_preset_is_the_lasso_of_scikit_learn_with_separate_means() -> None:
    sources = SOURCES[:1_000]
    noise = [np.random.default_rng(seed).standard_normal((1_000, 5)) for seed in range(3)]
    mixed = [sources @ rotation(1), sources + 0.6 * noise[0], sources[:, :3] + 0.9 * noise[1][:, :3], noise[2]]
    codes = [model(mean, seed=seed) for seed, mean in enumerate(mixed)]
    found = by_pair(udr(codes, preset="reference"))
    z = [(each.mean - each.mean.mean(axis=0)) / each.mean.std(axis=0) for each in codes]
    for (i, j), score in found.items():
        weights = np.abs(np.atleast_2d(Lasso(alpha=0.1).fit(z[j], z[i]).coef_))
        with np.errstate(invalid="ignore"):
            means = [np.nan_to_num(weights.max(axis=k) ** 2 / weights.sum(axis=k)).mean() for k in (0, 1)]
        assert score == pytest.approx(np.mean(means), abs=1e-6)


def test_the_reference_preset_is_a_setting_of_the_criterion() -> None:
    runs = tuple(Run("blocks", "beta_vae", {"beta": 1}, seed=seed) for seed in range(3))
    codes = tuple(model(SOURCES[:500] @ rotation(seed), seed=seed) for seed in range(3))
    evidence = Evidence(BLOCKS, runs, codes, None, lambda run: pytest.fail("loaded"))
    for preset in ("paper", "reference"):
        judged = criterion(evidence, {"preset": preset}, seed=3)
        assert judged.scores.tolist() == udr(codes, preset=preset, seed=3).scores.tolist()
    assert "preset" not in criterion.configured({"preset": "paper"})  # rows of earlier versions keep their key


def codes_of(golden: Golden, name: str, grid: str, rows: np.ndarray) -> list[Codes]:
    """A model set of the shared test data, computed for some rows of the grid alone."""

    class Rows(golden.formulas._Ctx):
        def __init__(self, grid: str) -> None:
            super().__init__(grid)
            self.idx, self.f, self.s = self.idx[rows], self.f[rows], self.s[rows]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(golden.formulas, "_Ctx", Rows)
        tables = golden.formulas.udr_models(name, grid)
    factors = np.zeros((len(rows), 0), int)
    return [Codes(mean, np.broadcast_to(logvar, mean.shape), factors, ()) for mean, logvar in tables]


@pytest.mark.parametrize("name", ["klborder", "noise", "one_dead", "same", "warped"])
def test_the_reference_preset_gives_the_independent_numbers(shared: Path, name: str) -> None:
    golden = Golden(shared)
    entries = json.loads((shared / "golden" / "udr.json").read_text())
    wanted = [entry for entry in entries if entry["set"] == name and entry["filter_low_kl"]]
    assert len(wanted) == 9
    for entry in wanted:
        sizes = entry["num_data_points"], entry["batch_size"]
        rows, _ = golden.formulas.sample_indices(entry["grid"], entry["seed"], *sizes)
        codes = codes_of(golden, name, entry["grid"], rows)
        found = udr(codes, similarity=entry["correlation"], preset="reference")
        np.testing.assert_allclose(found.scores, entry["model_scores"], atol=1e-6)
        expected = np.array(entry["pairwise_disentanglement_scores"])
        for i, j, score in found.pairs:
            assert score == pytest.approx(float(expected[j, i].item()), abs=1e-6)


def test_plain_arrays_are_enough() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(500, 4))
    copies = [truth[:, rng.permutation(4)] * rng.choice([-1, 1], 4) for _ in range(3)]
    noise = [rng.normal(size=(500, 4)) for _ in range(3)]
    apart = sober.udr([*copies, *noise], settings=["good"] * 3 + ["bad"] * 3)
    assert apart[:3].min() > 0.99
    assert apart[3:].max() < 0.2
    together = sober.udr(np.stack([*copies, copies[0], *noise[:2]]), similarity="spearman")
    assert together[:4].min() > 2 * together[4:].max()
    silent = sober.udr(copies, kl=[np.array([1.0, 1.0, 0.0, 1.0])] * 3)
    assert silent.shape == (3,)
    assert not np.array_equal(silent, sober.udr(copies))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"codes": np.zeros((3, 20))}, "one array for each model"),
        ({"codes": np.zeros((3, 20, 2)), "kl": np.ones((3, 3))}, "a number for each latent"),
        ({"codes": np.zeros((3, 20, 2)), "settings": [1, 2]}, "the setting of each of 3 models, got 2"),
        ({"codes": np.zeros((3, 20, 2)), "settings": [1, 1, 2]}, "model 2 is the only one of its setting"),
        ({"codes": np.zeros((1, 20, 2))}, "at least two, got 1"),
        ({"codes": np.zeros((2, 20, 2)), "settings": [1, 1], "groups": [1, 1]}, "give settings alone"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        sober.udr(**arguments)


def test_arrays_need_no_jax(start: Callable) -> None:
    """A person who has codes from elsewhere has no reason to install it."""
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['jax', 'jaxlib', 'equinox', 'optax']))  # as if they were not installed\n"
        "import numpy as np, sober\n"
        "codes = np.random.default_rng(0).normal(size=(3, 50, 2))\n"
        "print(sober.udr(codes).shape, sober.criteria.find_criterion('pipe').steps)\n"
        "print(sober.tasks.find_task('fid').needs)\n"
        "import jax\n"
    )
    output = start(code).communicate(timeout=60)[0]
    assert output.startswith("(3,) steps\nmodels\n")
    assert "ModuleNotFoundError: import of jax halted" in output  # it was blocked indeed
