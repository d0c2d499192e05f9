"""What benchmarks compute beside measuring: the bytes that a training step must move."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from sober.nets import NETS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def floor() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("floor")


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_every_result_and_every_weight_is_counted(floor: ModuleType, precision: str) -> None:
    batch, latents, pixels = 5, 3, 16 * 16
    encoder, decoder = (pixels, 64, 64, 2 * latents), (latents, 64, 64, pixels)
    results = pixels + sum(encoder[1:]) + sum(decoder[1:])
    weights = sum((i + 1) * o for widths in (encoder, decoder) for i, o in itertools.pairwise(widths))
    size = 2 if precision == "bfloat16" else 4
    moved = floor.step_bytes(NETS["small"], (16, 16, 1), latents, batch, precision)
    assert moved == 5 * batch * results * size + 10 * weights * 4


def test_the_nets_of_the_papers_move_as_much_as_counted_by_hand(floor: ModuleType) -> None:
    grids = 32 * 32 * 32 + 16 * 16 * 32 + 8 * 8 * 64 + 4 * 4 * 64  # the encoder's; the decoder's are the same
    results = 2 * (64 * 64 + grids) + 256 + 20 + 256
    weights = 764_245
    assert floor.step_bytes(NETS["conv"], (64, 64, 1), 10, 64) == 5 * 64 * results * 2 + 10 * weights * 4
