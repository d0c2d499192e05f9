"""Codes in a third of the space, to carry them from one machine to another.

A mean takes two bytes, a log-variance one. Rounding moves the KL of a latent by some 0.001 nats; the exact one, mean
over the pictures, is kept beside.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from sober.methods.method import kl_per_latent

STEP, ZERO = 1 / 16, 192  # a byte b is the log-variance (b - ZERO) * STEP: from -12 to 3.9375, and 0 is exact


def packed(mean: Float[np.ndarray, "N D"], logvar: Float[np.ndarray, "N D"]) -> dict[str, np.ndarray]:
    """The arrays of a file of packed codes."""
    kl = np.asarray(kl_per_latent(jnp.asarray(mean), jnp.asarray(logvar)), np.float64)
    return {
        "mean": np.asarray(mean, np.float16),
        "logvar_byte": _as_byte(logvar),
        "kl": kl.mean(axis=0).astype(np.float32),
    }


def unpacked(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Mean and log-variance of the arrays of a file of codes, packed or not."""
    if "logvar" in arrays:
        return {name: np.asarray(arrays[name], np.float32) for name in ("mean", "logvar")}
    if "logvar_byte" not in arrays:  # features of an encoder that has no log-variances
        mean = np.asarray(arrays["mean"], np.float32)
        return {"mean": mean, "logvar": np.broadcast_to(np.float32(0), mean.shape)}
    logvar = (arrays["logvar_byte"].astype(np.float32) - ZERO) * np.float32(STEP)
    return {"mean": arrays["mean"].astype(np.float32), "logvar": logvar}


def _as_byte(logvar: Float[np.ndarray, "N D"]) -> UInt8[np.ndarray, "N D"]:
    numbers = np.nan_to_num(np.asarray(logvar, np.float32) / STEP, nan=0.0)
    return np.clip(np.round(numbers) + ZERO, 0, 255).astype(np.uint8)
