"""The values that published studies give their hyperparameters."""

from __future__ import annotations

import math

import pytest

from families import BLOCKS
from sober.methods import METHODS
from sober.models.family import grid

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
