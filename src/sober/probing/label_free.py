"""Numbers about features that need no labels.

effective rank   exp of the entropy of the singular values, as shares: RankMe (Garrido et al. 2023)
lidar            the same of the axes that tell objects apart, from altered pictures of each (Thilak et al. 2024)
participation    (Σ λ)² / Σ λ², λ the variances along the axes
nuisance         the share of variance that the world's nuisance alone makes; 0 is invariant
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, UInt8

from sober.probing.knowledge import Number

OBJECTS, ALTERED = 48, 8  # pictures for LiDAR, and altered versions of each
SHIFT, LIGHT = (
    1 / 16,
    0.1,
)  # how far an altered picture is moved, as a share of its side, and how much its light changes
RIDGE = 1e-4  # added to the variance within objects, as the paper does


def ranks(features: Float[np.ndarray, "N D"]) -> Iterator[Number]:
    """RankMe and the participation ratio of at most 5,000 rows."""
    rows = features[:5000].astype(np.float64)
    # RankMe is of features as they are; the ratio is of variances, so features are centred.
    yield Number("", "effective rank", effective_rank(_singular_values(rows)))
    variances = _singular_values(rows - rows.mean(axis=0)) ** 2
    total = float(variances.sum())
    yield Number("", "participation", total**2 / float(np.sum(variances**2)) if total > 0 else 0.0)


def effective_rank(sizes: Float[np.ndarray, " r"]) -> float:
    """exp of the entropy of `sizes` as shares of their sum; 0 if all are 0."""
    if not sizes.sum() > 0:
        return 0.0
    shares = sizes / sizes.sum() + 1e-7
    return float(np.exp(-np.sum(shares * np.log(shares))))


def _singular_values(rows: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " r"]:
    square = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
    return np.sqrt(np.maximum(np.linalg.eigvalsh(square), 0))


def altered(images: UInt8[np.ndarray, "n H W C"], seed: int = 0) -> UInt8[np.ndarray, "nA H W C"]:
    """`ALTERED` versions of each picture, one after the other: moved a little, brighter or darker."""
    rng = np.random.default_rng([seed, 40])
    height, width = images.shape[1:3]
    reach = max(1, round(SHIFT * min(height, width)))
    versions = []
    for image in images:
        padded = np.pad(image, ((reach, reach), (reach, reach), (0, 0)), "edge")
        for down, right in rng.integers(0, 2 * reach + 1, (ALTERED, 2)):
            light = rng.uniform(1 - LIGHT, 1 + LIGHT)
            moved = padded[down : down + height, right : right + width]
            versions.append(np.clip(np.rint(moved * light), 0, 255).astype(np.uint8))
    return np.stack(versions)


def lidar(features: Float[np.ndarray, "nA D"]) -> Number:
    """LiDAR of altered pictures, in the order of `altered`."""
    objects = features.reshape(-1, ALTERED, features.shape[1]).astype(np.float64)
    means = objects.mean(axis=1)
    within = (objects - means[:, None]).reshape(-1, features.shape[1])
    within_covariance = within.T @ within / max(1, len(within) - len(means))
    between = (means - means.mean(axis=0)) / np.sqrt(max(1, len(means) - 1))
    variances, axes = np.linalg.eigh(within_covariance)
    scale = RIDGE * max(float(variances[-1]), 1e-12)
    whitened = between @ (axes / np.sqrt(np.maximum(variances, 0) + scale))
    return Number("", "lidar", effective_rank(np.linalg.svd(whitened, compute_uv=False) ** 2))


def nuisance(first: Float[np.ndarray, "n D"], second: Float[np.ndarray, "n D"]) -> Number:
    """The share of variance that differs between two pictures of the same factors, which differ by nuisance alone."""
    total = float(np.concatenate([first, second]).astype(np.float64).var(axis=0).sum())
    apart = float(np.mean(np.sum((first.astype(np.float64) - second) ** 2, axis=1))) / 2
    return Number("", "nuisance", min(1.0, apart / total) if total > 0 else 0.0)
