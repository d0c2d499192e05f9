"""Theorem 1 of Locatello et al. (2020) as docs/impossibility.md shows it: equally likely, and entangled."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import beta, expon, ks_2samp, kstest, norm

from conftest import ROOT
from sober.criteria.udr import udr
from sober.metrics import score


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    """The script that makes the page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        yield importlib.import_module("make_impossibility")


@pytest.mark.parametrize("d", [2, 3, 10])
@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.45])
def test_the_mixing_is_orthogonal_and_leaves_nothing_out(page: ModuleType, d: int, alpha: float) -> None:
    mixing = page.reflection(d, alpha)
    np.testing.assert_allclose(mixing @ mixing.T, np.eye(d), atol=1e-12)
    assert np.abs(mixing).min() > 0.01


@pytest.mark.parametrize("name", ["uniform", "beta", "exponential", "normal"])
def test_codes_are_distributed_as_before_each_part_and_together(page: ModuleType, name: str) -> None:
    prior = {"uniform": page.SQUARE, "beta": beta(2, 5), "exponential": expon(), "normal": norm()}[name]
    z = prior.rvs((4_000, 3), random_state=1)
    codes = page.entangled(z, page.reflection(3), prior)
    assert min(kstest(part, prior.cdf).pvalue for part in codes.T) > 0.01
    fresh = prior.rvs((4_000, 3), random_state=2)
    for direction in np.random.default_rng(0).standard_normal((10, 3)):  # parts that depend on each other show here
        assert ks_2samp(codes @ direction, fresh @ direction).pvalue > 0.001


def test_every_part_depends_on_every_factor_as_the_proof_says(page: ModuleType) -> None:
    mixing, step = page.reflection(4), 1e-5
    z = 0.98 * page.factors(300)[:, :4]
    codes = page.entangled(z, mixing)
    measured = np.stack(
        [
            (page.entangled(z + move, mixing) - page.entangled(z - move, mixing)) / (2 * step)
            for move in step * np.eye(4)
        ],
        axis=2,
    )  # (N, part, factor)
    density = [norm.pdf(norm.ppf(page.SQUARE.cdf(each))) for each in (codes, z)]
    expected = mixing * density[0][:, :, None] / density[1][:, None, :]
    np.testing.assert_allclose(measured, expected, rtol=1e-3, atol=1e-6)
    assert (measured != 0).all()


def test_the_factors_can_be_had_back(page: ModuleType) -> None:
    z, mixing = page.factors(1_000), page.reflection(5)
    np.testing.assert_allclose(page.entangled(page.entangled(z, mixing), mixing.T), z, atol=1e-6)


def test_scores_with_labels_fall(page: ModuleType) -> None:
    z = page.factors(3_000)
    asked = ["factor_vae", "mig", "modularity", "sap", "irs"]
    plain, mixed = (
        score(codes, z, metrics=asked, kinds="continuous") for codes in (z, page.entangled(z, page.reflection(5)))
    )
    assert min(plain.values()) > 0.9
    for name in asked:
        assert mixed[name] < plain[name] - 0.1, name


def test_what_looks_at_one_model_alone_sees_no_difference_beyond_chance(page: ModuleType) -> None:
    drawn = [page.factors(2_000, seed) for seed in range(16)]
    plain, mixed = (
        [page.alone(codes) for codes in side]
        for side in (drawn, [page.entangled(z, page.reflection(5)) for z in drawn])
    )
    for name in plain[0]:
        apart = np.array([b[name] - a[name] for a, b in zip(plain, mixed, strict=True)])
        assert abs(apart.mean()) <= 4 * apart.std(ddof=1) / len(apart) ** 0.5, name


def test_models_that_share_f_agree_fully_and_those_with_their_own_do_not(page: ModuleType) -> None:
    families = page.families(page.factors(3_000))
    scores = {name: udr([codes for _, codes in members]).scores for name, members in families.items()}
    for name in ("all learn z", "all learn the same f(z)"):
        assert scores[name].min() > 0.99, name
    assert scores["each learns an f(z) of its own"].max() < 0.5
    outvoted = scores["three learn z, five the same f(z)"]
    assert outvoted[:3].max() < 0.3
    assert outvoted[3:].min() > 0.99
