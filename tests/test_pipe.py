"""PIPE: models whose latents can be mixed freely, models turned so that they cannot, a decoder that does not look."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from families import BLOCKS, small_runs
from sober.criteria import CRITERIA
from sober.criteria.pipe import Pipe, pipe
from sober.criteria.reference_discriminators import FixedCodes, order_of_training
from sober.errors import RequestError
from sober.models.model import Model
from sober.nets.autoencoder import Gaussian
from sober.worlds.drawn.blocks import COLUMN_LANE, COLUMN_TAKEN, HEIGHT, LANES, SIDE

SHORT = {"steps": 600, "rate": 1e-3}
NOISE = 0.2  # of the codes, in units of their spread: about half a place


class Perfect(eqx.Module):
    """A latent for the height of each block, read off and painted by formula, then turned by `turn`."""

    turn: Array  # (4, 4), a rotation
    contrast: Array  # 0: the decoder does not look at its codes
    reading: Gaussian = Gaussian()

    def encode(self, images: Array, dtype: Any = jnp.float32) -> tuple[Array, Array]:
        lanes = jnp.stack([images[:, :, left, 0] for left, _ in LANES], axis=-1)  # (n, row, 4)
        middle = jnp.sum(lanes * (jnp.arange(SIDE) + 0.5)[:, None], axis=1) / HEIGHT
        codes = (middle - SIDE / 2) / 2.3
        return codes @ self.turn, jnp.full_like(codes, 2 * np.log(NOISE))

    def decode(self, codes: Array, dtype: Any = jnp.float32) -> Array:
        top = (codes @ self.turn.T * 2.3 + SIDE / 2 - HEIGHT / 2)[:, None, COLUMN_LANE] * self.contrast
        row = jnp.arange(SIDE)[:, None]
        cover = jnp.clip(jnp.minimum(row + 1, top + HEIGHT) - jnp.maximum(row, top), 0, 1) * COLUMN_TAKEN
        return (12 * (cover - 0.5))[..., None]


def model(angle: float = 0.0, contrast: float = 1.0, seed: int = 0) -> Model:
    """The perfect model with its latents turned into each other, two by two."""
    turn, (c, s) = np.eye(4), (np.cos(angle), np.sin(angle))
    for i, j in ((0, 1), (2, 3)):
        turn[np.ix_([i, j], [i, j])] = [[c, s], [-s, c]]
    run = small_runs(seeds=[seed], latents=4)[0]
    return Model(run, BLOCKS.image_shape, Perfect(jnp.float32(turn), jnp.float32(contrast)))  # type: ignore[arg-type]


@pytest.mark.parametrize("mixing", ["uniform", "permuted"])
def test_turning_the_latents_of_a_perfect_model_lowers_its_score(mixing):
    found = pipe([model(), model(np.pi / 4)], BLOCKS, mixing=mixing, **SHORT)
    assert found.scores[0] > found.scores[1] + 0.15
    if mixing == "permuted":
        assert found.scores[0] > 0.95
    np.testing.assert_allclose(found.scores, np.clip(2 - 2 * found.accuracy, 0, 1))
    np.testing.assert_allclose(*found.reconstruction, rtol=0.05)  # turning loses nothing
    assert found.flags == ((), ())


def test_scores_are_repeatable_over_seeds():
    pairs = [model(), model(0.2)], [model(0.5), model(np.pi / 4)]  # two at a time, as above: a program for two serves
    scores = np.array([[pipe(pair, BLOCKS, seed=seed, **SHORT).scores for pair in pairs] for seed in range(3)])
    assert (np.abs(scores - scores.mean(axis=0)) <= 0.03).all()
    assert (scores[0] != scores[1]).any()


def test_company_does_not_matter():
    one, two = model(0.3, seed=1), model(0.6, seed=2)
    together = pipe([two, one], BLOCKS, **SHORT).scores
    alone = pipe([two], BLOCKS, **SHORT).scores[0]
    elsewhere = pipe([one, model(seed=0)], BLOCKS, **SHORT).scores[0]
    np.testing.assert_allclose(together, [alone, elsewhere], atol=5e-3)


def test_a_decoder_that_ignores_its_codes_scores_one_and_is_flagged():
    found = pipe([model(contrast=0.0), model()], BLOCKS, **SHORT)
    assert found.scores[0] > 0.97
    assert found.flags == (("ignores_codes",), ())
    assert found.with_reconstruction()[0] <= 0 < found.with_reconstruction()[1]


def test_with_reconstruction_takes_off_up_to_alpha():
    nats, squared = np.array([30.0, 10.0, 20.0]), np.array([0.03, 0.02, 0.04])
    found = Pipe(np.array([0.9, 0.5, 0.7]), np.zeros(3), nats, squared, ((), (), ()))
    np.testing.assert_allclose(found.with_reconstruction(), [-0.1, 0.5, 0.2])
    np.testing.assert_allclose(found.with_reconstruction(0.5), [0.4, 0.5, 0.45])
    np.testing.assert_allclose(found.with_reconstruction(1.0, "squared"), [0.4, 0.5, -0.3])
    np.testing.assert_allclose(found.with_reconstruction(0.5, "squared"), [0.65, 0.5, 0.2])
    alike = dataclasses.replace(found, reconstruction=np.full(3, 7.0))
    np.testing.assert_allclose(alike.with_reconstruction(), found.scores)
    with pytest.raises(RequestError, match="error must be one of nats, squared, not 'bits'"):
        found.with_reconstruction(1.0, "bits")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("trained", "steps", "rate"),
    [(100, 200, 1e-3), (8_000, 1_000, 1e-3), (30_000, 3_750, 5e-4), (60_000, 7_500, 1e-4), (300_000, 10_000, 1e-4)],
)
def test_discriminators_in_a_hurry_train_an_eighth_as_long_as_models(trained: int, steps: int, rate: float):
    for name in ("pipe", "pipe_rec"):
        assert CRITERIA[name].suited(trained) == {"mixing": "permuted", "steps": steps, "rate": rate}


def test_progress_is_told():
    seen = []
    pipe([model()], BLOCKS, steps=450, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(200, 450), (400, 450), (450, 450)]


def test_requests_that_cannot_be_met_say_so():
    with pytest.raises(RequestError, match="at least one model"):
        pipe([], BLOCKS)
    with pytest.raises(RequestError, match="'uniform' or 'permuted'"):
        pipe([model()], BLOCKS, mixing="shaken")  # type: ignore[arg-type]


# The authors' code.


def test_sizes_of_the_reference_are_those_of_the_authors_code():
    sizes = FixedCodes.of(50_000)
    assert sizes == (22_492, 24_992)  # of each kind: about 45,000 pictures to learn from, about 50,000 for the test
    assert CRITERIA["pipe_reference"].settings["steps"] == 10 * -(
        -5_000 // 32
    )  # its tenth look, one per 5,000 pictures
    order = np.asarray(order_of_training(jax.random.key(0), sizes.train, 1_570))
    assert order.shape == (1_570, 32)
    first, later = order[:1_405].ravel(), order[1_405:].ravel()
    assert len({*first}) == len(first)  # an epoch repeats nothing
    assert len({*later}) == len(later)


def test_the_reference_tells_turned_latents_too_and_is_less_strict():
    models = [model(), model(np.pi / 4), model(contrast=0.0)]
    found = pipe(models, BLOCKS, preset="reference", pictures=2_560, steps=200, rate=1e-3)
    assert found.scores[0] > found.scores[1] + 0.1
    assert found.scores[2] > 0.9
    assert found.flags == ((), (), ("ignores_codes",))


def test_company_does_not_matter_to_the_reference():
    one, two, three = model(0.3, seed=1), model(0.6, seed=2), model(seed=0)
    settings = {"preset": "reference", "pictures": 640, "steps": 60, "rate": 1e-3}
    np.testing.assert_allclose(
        pipe([one, two], BLOCKS, **settings).scores[0], pipe([three, one], BLOCKS, **settings).scores[1], atol=5e-3
    )


def test_an_unknown_preset_is_refused():
    with pytest.raises(RequestError, match="preset must be one of paper, reference, not 'authors'"):
        pipe([model()], BLOCKS, preset="authors")  # type: ignore[arg-type]
