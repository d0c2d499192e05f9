"""ModelCentrality: copies agree fully, an outsider least, and a model that carries nothing breaks no other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import hadamard

from sober.criteria.model_centrality import majority, model_centrality
from sober.errors import RequestError
from sober.types import Codes

SOURCES = np.random.default_rng(0).standard_normal((5_000, 4))


def model(mean: np.ndarray, logvar: float = -4.6, flags: tuple[str, ...] = ()) -> Codes:
    return Codes(mean, np.full(mean.shape, logvar), np.zeros((len(mean), 0), int), (), flags)


def copies(count: int) -> list[Codes]:
    rng = np.random.default_rng(1)
    return [model(SOURCES[:, rng.permutation(4)] * rng.choice([-2, 1], 4)) for _ in range(count)]


def test_copies_up_to_order_sign_and_scale_score_one() -> None:
    found = model_centrality(copies(3))
    np.testing.assert_allclose(found.scores, 1)
    assert found.flags == ((), (), ())


def test_an_outsider_scores_lowest() -> None:
    turned = SOURCES @ hadamard(4) / 2  # each latent holds all sources alike
    found = model_centrality([model(turned), *copies(3)])
    assert found.scores.argmin() == 0
    assert found.scores[1:].min() > found.scores[0] + 0.2


def test_the_noisier_a_model_the_lower_its_score() -> None:
    some, more = np.random.default_rng(2).standard_normal((2, *SOURCES.shape))
    found = model_centrality([*copies(2), model(SOURCES + 2 * some), model(SOURCES + 4 * more)])
    assert found.scores[0] > found.scores[2] > found.scores[3]


def test_noise_agrees_by_chance() -> None:
    found = model_centrality([model(np.random.default_rng(seed).standard_normal((5_000, 10))) for seed in range(3)])
    assert (found.scores > 0.1).all()
    assert (found.scores < 0.35).all()  # 50 votes for each of 10 latents: the majority is right a little too often


def test_a_lacking_latent_costs_its_own_votes() -> None:
    found = model_centrality([model(SOURCES), model(SOURCES[:, :3])])
    # Judged by the smaller model, all votes are right. Judged by the larger, those for its fourth latent are scattered.
    assert found.agreement[0, 1] == 1
    assert 0.75 <= found.agreement[1, 0] <= 0.8
    np.testing.assert_allclose(found.scores, (1 + found.agreement[1, 0]) / 2)


def test_a_collapsed_model_scores_zero_and_breaks_no_other() -> None:
    dead = model(np.zeros_like(SOURCES), logvar=0.0, flags=("diverged",))
    found = model_centrality([*copies(2), dead])
    assert found.scores.tolist() == [0.5, 0.5, 0.0]
    assert found.flags == ((), (), ("collapsed", "diverged"))
    assert not model_centrality([dead, dead]).scores.any()


def test_a_constant_latent_never_votes() -> None:
    constant = np.concatenate([np.full((5_000, 1), 7.0), SOURCES], axis=1)  # informative by its KL all the same
    found = model_centrality([model(constant), model(SOURCES)])
    assert found.agreement[0, 1] == 1


def test_the_majority_by_hand() -> None:
    # Latent 0 was chosen twice for factor 0 and once for factor 1, latent 2 once and twice.
    assert majority(np.array([[0, 0, 2], [0, 2, 2]])) == pytest.approx(4 / 6)


def test_batches_must_fit() -> None:
    with pytest.raises(RequestError, match="half of the 5000"):
        model_centrality(copies(2), batch=2_501)
