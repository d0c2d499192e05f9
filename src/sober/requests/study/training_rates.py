"""How long training takes, by measured rates: an order of magnitude for the plan of a study."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np

from sober.methods import METHODS, Structure, structure
from sober.nets import NETS
from sober.nets.kernel_runs import possible_kernels
from sober.nets.kernels import unmet_here
from sober.types import Run

Shape = tuple[int, int, int]


class Rates(NamedTuple):
    """Model-steps a second of β-VAEs with nets `conv` on 64 x 64 x 1, batch 64, by how many models train at once."""

    plain: Mapping[int, float]
    kernels: Mapping[int, float]  # where kernels compute all convolutions


# One H200, bfloat16, and two cores of a CPU, float32 (docs/speed.md).
RATES = {
    "gpu": Rates(
        plain={1: 2_248, 8: 7_916, 16: 10_313, 64: 12_257, 256: 12_996},
        kernels={1: 3_563, 8: 12_552, 16: 15_064, 30: 17_200, 64: 23_551, 256: 27_064},
    ),
    "cpu": Rates(plain={1: 13.0}, kernels={1: 13.0}),
}
COLOUR = 0.8  # three channels: this share of those rates


def backend() -> str:
    """The key of `RATES` for this machine: `cpu`, or `gpu` for any accelerator."""
    return "cpu" if jax.default_backend() == "cpu" else "gpu"


def training_seconds(run: Run, shape: Shape, models: int, device: str) -> float:
    """How long the training of a run takes among `models` that train at once: its part of their time.

    A step takes as long as that of a β-VAE, and what its method computes besides. Kernels make only the first part
    faster: what adversaries and critics add has been measured with plain layers.
    """
    besides = METHODS[run.method].cost - 1
    return run.steps * (step_seconds(run, shape, models, device) + besides * plain_seconds(run, shape, models, device))


def step_seconds(run: Run, shape: Shape, models: int, device: str) -> float:
    """How long a step of a β-VAE takes with the nets and the pictures of a run, for each of `models` at once."""
    if device == "cpu" or not _has_kernels(structure(run), run.nets, run.batch, run.precision, shape):
        return plain_seconds(run, shape, models, device)
    return interpolated(RATES[device].kernels, models) * _work(run, shape, device)


def plain_seconds(run: Run, shape: Shape, models: int, device: str) -> float:
    """The same by plain layers."""
    return interpolated(RATES[device].plain, models) * _work(run, shape, device)


def interpolated(rates: Mapping[int, float], models: int) -> float:
    """Seconds of a model-step: on a line between the measured ones, over the logarithm of the number of models."""
    return float(np.interp(np.log(models), np.log([*rates]), [1 / rate for rate in rates.values()]))


def _work(run: Run, shape: Shape, device: str) -> float:
    """The time of a step, relative to nets `conv` on 64 x 64 x 1."""
    return NETS[run.nets].work(device, shape) / (COLOUR if shape[2] == 3 else 1.0)


@functools.cache
def _has_kernels(model_structure: Structure, nets: str, batch: int, precision: str, shape: Shape) -> bool:
    """Whether kernels compute all convolutions of these nets, on a GPU as the one measured or on this one."""
    if backend() == "gpu" and unmet_here() is not None:
        return False
    encoder, decoder = jax.eval_shape(lambda key: model_structure.fresh(key, NETS[nets], shape), jax.random.key(0)).nets
    inputs = [(encoder, (batch, *shape)), (decoder, (batch, model_structure.latents))]
    return possible_kernels(inputs, precision) == {"down", "up"}
