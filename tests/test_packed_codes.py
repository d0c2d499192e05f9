"""Codes in a third of the space, and models of which only the record of training was kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from families import small_runs
from sober.criteria.udr import informative_latents
from sober.evaluation.engine import Evaluation
from sober.files import load_arrays, save_arrays
from sober.models.encode import codes_path, encode, read_codes
from sober.models.model import NoWeightsError, load, load_record
from sober.models.packed_codes import STEP, packed, unpacked
from sober.requests.results import Results
from sober.requests.train import train
from sober.results.request import Measure
from sober.types import Codes
from sober.worlds import world

logvars = arrays(np.float32, (5, 3), elements=st.floats(-12, 3.875, width=32, allow_subnormal=False))


@settings(deadline=None)
@given(logvars)
def test_a_log_variance_comes_back_within_half_a_step(logvar: np.ndarray) -> None:
    back = unpacked(packed(np.zeros_like(logvar), logvar))["logvar"]
    assert np.abs(back - logvar).max() <= STEP / 2
    assert unpacked(packed(np.zeros((2, 2)), np.zeros((2, 2))))["logvar"].max() == 0  # the prior's is exact


def test_codes_that_are_not_packed_are_as_they_were() -> None:
    plain = {"mean": np.ones((2, 2), np.float32), "logvar": np.zeros((2, 2), np.float32)}
    assert all(unpacked(plain)[name] is plain[name] for name in plain)
    assert unpacked({name: array.astype(np.float16) for name, array in plain.items()})["mean"].dtype == np.float32


def test_packing_keeps_what_is_informative_and_the_exact_divergence() -> None:
    rng = np.random.default_rng(0)
    mean = rng.normal(0, [1, 0.3, 0.01], (2000, 3)).astype(np.float32)
    logvar = np.tile(np.float32([-3, -0.2, 0.0]), (2000, 1))
    stored = packed(mean, logvar)
    exact = 0.5 * (mean**2 + np.exp(logvar) - 1 - logvar).mean(axis=0)
    assert stored["kl"] == pytest.approx(exact, abs=1e-5)
    back = Codes(**unpacked(stored), factors=np.zeros((2000, 0)), about=())
    assert informative_latents(back).tolist() == [True, True, False]
    assert stored["mean"].nbytes + stored["logvar_byte"].nbytes < 0.4 * (mean.nbytes + logvar.nbytes)


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A folder whose models have no weights, and whose codes are packed."""
    results = train(small_runs(seeds=2, steps=5), world("blocks"), tmp_path_factory.mktemp("carried") / "family")
    family = results.families["blocks"]
    for run, codes in encode(family):
        path = codes_path(family, run)
        assert codes.logvar is not None
        save_arrays(path, packed(codes.mean, codes.logvar), load_arrays(path)[1])
        model = results.path / "models" / f"{run.identity}.safetensors"
        load(model).record.save(model)
    return Results.of(results)


def test_a_model_without_weights_says_so_and_keeps_its_curves(carried: Results) -> None:
    path = next((carried.path / "models").glob("*.safetensors"))
    with pytest.raises(NoWeightsError, match="were not kept"):
        load(path)
    record = load_record(path)
    assert record.run in carried.finished
    assert np.isfinite(record.ended("loss"))


def test_codes_without_models_are_measured_and_never_trained_again(carried: Results) -> None:
    before = {path: path.read_bytes() for path in (carried.path / "models").iterdir()}
    Evaluation(carried, Measure(metrics=("mig",), pictures=None), trains=True).all()
    assert {path: path.read_bytes() for path in (carried.path / "models").iterdir()} == before
    metrics = set(carried.table()["metric"])
    assert {"mig", "train_loss"} <= metrics
    codes = read_codes(carried.families["blocks"], carried.runs[0])
    assert codes.mean.dtype == np.float32
