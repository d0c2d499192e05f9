"""Seconds of what `sober probe` measures by default, beside the same readouts by scikit-learn.

python benchmarks/probe.py                              12 layers of 384 features, 10,000 pictures, 6 factors
python benchmarks/probe.py --layers 2 --features 3072   wide layers
python benchmarks/probe.py --rows 2000                  quick

The features are a random nonlinear map of the factors, with noise. scikit-learn does a part of the work, for one layer:
cross-validated ridge regression, linear and with random Fourier features, from each number of labels, without chance,
unseen combinations, single units and label-free numbers. Its seconds are multiplied by the number of layers.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import StandardScaler

from sober.estimators.predictors import points
from sober.parallel import cores, map_in_order
from sober.probing.knowledge import FOURIER, LABELS, split
from sober.probing.measured_layer import measured_layer
from sober.probing.readout import STRENGTHS
from sober.types import Factor

FACTORS = (
    *(Factor(f"hue_{place}", 10, "cyclic") for place in range(3)),
    *(Factor("scale", 8), Factor("shape", 4, "categorical"), Factor("orientation", 15)),
)


def labels_of(rows: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(0, factor.size, rows) for factor in FACTORS], axis=1)


def features_of(factors: np.ndarray, width: int, seed: int) -> np.ndarray:
    """A layer: a random nonlinear map of the factors' points, with noise."""
    rng = np.random.default_rng([seed, 1])
    z = np.concatenate([points(factor, column) for factor, column in zip(FACTORS, factors.T, strict=True)], axis=1)
    hidden = np.tanh(z @ rng.standard_normal((z.shape[1], 64)))
    clean = hidden @ rng.standard_normal((64, width))
    return np.asarray(clean + 0.3 * rng.standard_normal((len(factors), width)), np.float32)


def by_sklearn(features: np.ndarray, factors: np.ndarray) -> None:
    """Linear and nonlinear readouts of every factor from each number of labels."""
    learn, test = split(len(features), 0)
    targets = [points(factor, column) for factor, column in zip(FACTORS, factors.T, strict=True)]
    scaled = StandardScaler().fit(features[learn]).transform(features)
    gamma = 1 / (2 * features.shape[1])
    fourier = np.concatenate([scaled, RBFSampler(gamma=gamma, n_components=FOURIER).fit_transform(scaled)], axis=1)
    for rows in (scaled, fourier):
        for size in [size for size in LABELS if size < len(learn)] + [len(learn)]:
            for target in targets:
                used = learn[:size]
                RidgeCV(alphas=STRENGTHS * size).fit(rows[used], target[used]).predict(rows[test])


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the wall, and of all processors."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--features", type=int, default=384)
    parser.add_argument("--rows", type=int, default=10_000)
    arguments = parser.parse_args()
    factors = labels_of(arguments.rows)
    layers = [features_of(factors, arguments.features, seed) for seed in range(arguments.layers)]

    def probe() -> None:
        for _ in map_in_order(lambda layer: measured_layer(layer, factors, FACTORS, labels=LABELS, seed=0), layers):
            pass

    measured_layer(layers[0][:400], factors[:400], FACTORS, labels=LABELS, seed=0)  # loads what it needs
    wall, processor = timed(probe)
    sklearn_wall, sklearn_processor = timed(lambda: by_sklearn(layers[0], factors))
    size = (
        f"{arguments.layers} layers of {arguments.features:,} features, {arguments.rows:,} rows, {len(FACTORS)} factors"
    )
    print(f"{size}, {cores()} cores")
    print(f"sober probe, all of it:       {wall:7.1f} s on the wall, {processor:7.1f} s of processors")
    times = arguments.layers
    print(
        f"scikit-learn, readouts alone: {times * sklearn_wall:7.1f} s, {times * sklearn_processor:7.1f} s, from 1 layer"
    )
    print(f"scikit-learn takes {math.floor(times * sklearn_processor / processor * 10) / 10} times the processor time")


if __name__ == "__main__":
    main()
