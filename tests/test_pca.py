"""What is particular to principal components; the rest is in test_every_method.py."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from sklearn.decomposition import PCA

from families import BLOCKS, small_runs
from sober.errors import RequestError
from sober.methods.pca import PictureSummary, fitted, with_pictures
from sober.nets import NETS, Autoencoder, autoencoder
from sober.requests.train import train

one_more, encoded = jax.jit(with_pictures), jax.jit(Autoencoder.encode)


def pictures(n: int, seed: int = 0) -> np.ndarray:
    return BLOCKS.sample(seed, n).images.reshape(n, -1) / 255


def after(*batches: np.ndarray, latents: int = 4) -> tuple[Autoencoder, PictureSummary]:
    p = batches[0].shape[1]
    seen = PictureSummary(*(np.zeros(shape, np.float32) for shape in ((), p, (latents, p), ())))
    for batch in batches:
        seen = one_more(seen, batch.astype(np.float32))
    return fit(seen), seen


@jax.jit
def fit(seen: PictureSummary) -> Autoencoder:
    latents = len(seen.components)
    return fitted(autoencoder(jax.random.key(0), NETS["linear"], BLOCKS.image_shape, latents), seen)


@pytest.mark.parametrize("n", [100, 1000])  # fewer and more pictures than pixels
def test_one_batch_is_scikit_learns_answer_up_to_sign_and_scale(n: int) -> None:
    x = pictures(n)
    model, seen = after(x)
    theirs = PCA(4, svd_solver="full").fit(x)
    values = np.sum(np.asarray(seen.components) ** 2, axis=1) / (n - 1)
    np.testing.assert_allclose(values, theirs.explained_variance_, rtol=1e-3)
    mean, logvar = encoded(model, x.reshape(n, *BLOCKS.image_shape))
    kept = theirs.explained_variance_
    noise = (x.var(axis=0, ddof=1).sum() - kept.sum()) / (
        x.shape[1] - 4
    )  # over all pixels, as Tipping & Bishop have it
    scale = np.sqrt(kept - noise) / kept
    ours, expected = np.asarray(mean), theirs.transform(x) * scale
    signs = np.sign(np.sum(ours * expected, axis=0))
    np.testing.assert_allclose(ours * signs, expected, atol=2e-3)
    np.testing.assert_allclose(np.exp(logvar[0]), noise / kept, rtol=1e-3)


def test_standardised_pixels_give_scikit_learns_answer_for_standardised_pixels() -> None:
    x = pictures(1000) * np.linspace(0.05, 1, 256)  # in pixels as they are, the last columns would say nearly all
    x[:, 7] = 0.3  # a pixel that never varies
    p, images = x.shape[1], x.reshape(1000, *BLOCKS.image_shape)
    seen = PictureSummary(*(np.zeros(shape, np.float32) for shape in ((), p, (4, p), ())), np.ones(p, np.float32))
    model = fit(one_more(seen, x.astype(np.float32)))
    spread = np.where(x.std(axis=0) > 1e-9, x.std(axis=0), 1)
    theirs = PCA(4, svd_solver="full").fit(x / spread)
    mean, _ = encoded(model, images)
    ours, expected = np.asarray(mean), theirs.transform(x / spread)
    for k in range(4):
        assert abs(np.corrcoef(ours[:, k], expected[:, k])[0, 1]) > 0.999
    rebuilt = np.asarray(model.decoder.layers[0](mean))
    plain = np.asarray(after(x)[0].decoder.layers[0](encoded(after(x)[0], images)[0]))
    assert np.mean(((rebuilt - x) / spread) ** 2) < np.mean(((plain - x) / spread) ** 2)
    np.testing.assert_allclose(rebuilt[:, 7], 0.3, atol=1e-3)


def test_later_batches_are_divided_by_the_spread_in_the_first() -> None:
    x = pictures(200)
    seen = PictureSummary(*(np.zeros(shape, np.float32) for shape in ((), 256, (4, 256), ())), np.ones(256, np.float32))
    first = one_more(seen, x[:100].astype(np.float32))
    second = one_more(first, 3 * x[100:].astype(np.float32))
    np.testing.assert_array_equal(first.scale, second.scale)
    spread = x[:100].std(axis=0)
    np.testing.assert_allclose(first.scale, np.where(spread > 1e-9, spread, 1), rtol=1e-4)


def test_several_batches_come_close_to_all_at_once() -> None:
    x = pictures(2000)
    _, parts = after(*np.split(x, 4))
    _, whole = after(x)
    ours, theirs = (np.asarray(each.components) for each in (parts, whole))
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1), rtol=0.02)
    np.testing.assert_allclose(parts.mean, x.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(parts.squares, np.sum((x - x.mean(axis=0)) ** 2), rtol=1e-4)


def test_codes_have_the_variance_of_a_posterior_mean() -> None:
    """Var(mean) + E(var) = 1: what codes of a Gaussian prior have together."""
    x = pictures(1000)
    mean, logvar = encoded(after(x)[0], x.reshape(1000, *BLOCKS.image_shape))
    np.testing.assert_allclose(np.var(mean, axis=0) + np.exp(logvar[0]), 1, atol=0.01)


def test_pictures_all_alike_give_codes_that_say_nothing() -> None:
    x = np.full((50, 256), 0.3)
    model, _ = after(x)
    mean, logvar = encoded(model, x.reshape(50, 16, 16, 1))
    assert not np.asarray(mean).any()
    assert not np.asarray(logvar).any()


def test_it_comes_with_its_nets(tmp_path) -> None:
    runs = small_runs("pca", steps=1)
    assert runs[0].nets == "linear"
    family = train(runs, BLOCKS, tmp_path)
    picture = BLOCKS.sample(3, 64).images
    model = family.model(runs[0])
    error = np.abs(model.decode(model.encode(picture)[0]) - picture / 255).mean()
    assert error < np.abs(picture / 255 - (picture / 255).mean(axis=0)).mean()
    with pytest.raises(RequestError, match="pca needs nets 'linear'"):
        small_runs("pca", nets="small")
