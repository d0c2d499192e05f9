"""The values that published studies give their hyperparameters, and those that methods advise."""

from __future__ import annotations

import math

import pytest

from families import BLOCKS
from sober.methods import METHODS
from sober.models.grid import grid

NAMED = [(name, study) for name, method in METHODS.items() for study in method.sweeps]


@pytest.mark.parametrize(("name", "study"), NAMED)
def test_a_sweep_is_a_grid_of_runs(name, study):
    sweep = METHODS[name].sweeps[study]
    assert len(grid(BLOCKS, name, sweep, seeds=2)) == 2 * math.prod(map(len, sweep.values()))


def test_the_studies_have_their_methods():
    methods = {study: {name for name, other in NAMED if other == study} for _, study in NAMED}
    six = {"beta_vae", "annealed_vae", "factor_vae", "beta_tcvae", "dip_vae_i", "dip_vae_ii"}
    assert methods["sober_look"] == methods["udr"] == six
    assert methods["dava"] >= {"annealed_vae", "factor_vae", "beta_tcvae", "control_vae", "dava"}


def test_small_pictures_bear_less_of_a_price_than_large_ones():
    for name in ("beta_vae", "beta_tcvae"):
        assert METHODS[name].advised(True, 1000) == {"beta": (2, 4)}
        assert METHODS[name].advised(False, 1000) == {"beta": (4, 8)}


@pytest.mark.parametrize("steps", [1_500, 8_000, 30_000])
def test_dava_is_given_the_time_to_reach_its_capacity(steps):
    low, high = METHODS["dava"].advised(True, steps)["delta_c"]
    assert low * steps == pytest.approx(10, rel=0.05)
    assert high * steps == pytest.approx(30, rel=0.05)
