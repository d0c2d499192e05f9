"""How long training takes by the rates that plans use: those of docs/speed.md."""

from __future__ import annotations

from typing import Any

import pytest

from sober.models.grid import grid
from sober.nets import NETS
from sober.requests.study.training_rates import RATES, interpolated, step_seconds, training_seconds
from sober.worlds import world


@pytest.mark.parametrize(
    ("method", "models", "measured"),
    [
        ("beta_vae", 1, 3_563),
        ("beta_vae", 64, 23_551),
        ("beta_vae", 256, 27_064),
        ("factor_vae", 64, 8_507),
        ("dava", 64, 3_165),
    ],
)
def test_planned_seconds_are_those_that_were_measured(method: str, models: int, measured: float) -> None:
    run = grid(world("dsprites"), method, {}, precision="bfloat16", batch=64)[0]
    rate = run.steps / training_seconds(run, (64, 64, 1), models, "gpu")
    assert rate == pytest.approx(measured, rel=0.06)


def test_nets_and_types_without_kernels_are_planned_by_plain_layers() -> None:
    def rate(**options: Any) -> float:
        run = grid(world("dsprites"), "beta_vae", {}, **{"precision": "bfloat16", **options})[0]
        return 1 / step_seconds(run, (64, 64, 1), 64, "gpu")

    assert rate() == pytest.approx(23_551)
    assert rate(precision="float32") == pytest.approx(12_257)
    assert rate(nets="conv_bn") == pytest.approx(12_257 / NETS["conv_bn"].cost.gpu)


def test_between_measured_numbers_of_models_a_step_takes_a_time_between() -> None:
    rates = RATES["gpu"].kernels
    assert 1 / interpolated(rates, 1000) == pytest.approx(rates[256])
    assert rates[30] < 1 / interpolated(rates, 40) < rates[64]
