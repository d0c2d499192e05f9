"""Seconds and memory of the battery for wide, sparse codes, and what the dense way takes where it still can.

python benchmarks/wide.py                      20,000 rows, 16,384 latents, 1% of them not 0, 40 binary factors
python benchmarks/wide.py --latents 65536      wider
python benchmarks/wide.py --small 64           also the dense way, for 64 latents; 0 leaves it out

One latent follows each factor with some noise; the other latents are noise alone. The peak covers the process from
start to end. Beside it stands the memory before the battery: libraries and codes.
"""

from __future__ import annotations

import argparse
import datetime
import resource
import time

import numpy as np
import scipy.sparse

import sober
from sober.estimators.wide import wide_tables
from sober.parallel import cores

BATTERY = ("mig", "sap", "modularity", "dci", "dci_lasso", "infomec", "mcc", "explicitness", "best_latent")

SHORT = 2_000  # rows for which both ways are measured


def wide_codes(rows: int, latents: int, factors: int, density: float, seed: int = 0) -> tuple[object, np.ndarray]:
    """Sparse codes (CSR, float32) and binary factors that a fifth of the rows have."""
    rng = np.random.default_rng(seed)
    noise = scipy.sparse.random_array((rows, latents), density=density, format="csc", dtype=np.float32, rng=rng)
    truth = (rng.random((rows, factors)) < 0.2).astype(np.int64)
    factor_columns = np.where(rng.random(truth.shape) < 0.8, truth, 0) * rng.uniform(0.5, 1.5, truth.shape)
    return scipy.sparse.hstack([factor_columns.astype(np.float32), noise[:, factors:]]).tocsr(), truth


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def battery(codes: object, factors: np.ndarray) -> None:
    started, busy, before = time.perf_counter(), time.process_time(), peak()
    scores = sober.score(codes, factors, metrics=list(BATTERY))
    total, busy = time.perf_counter() - started, time.process_time() - busy
    print("| metric | seconds |\n|---|---:|")
    for name, seconds in scores.seconds.items():
        print(f"| {name} | {seconds:.1f} |")
    print(f"| **all** | **{total:.1f}** |\n")
    print(f"{busy:.1f} s of processor time: {busy / cores():.1f} s on {cores()} cores that do nothing else")
    print(f"peak memory {peak():.2f} GiB, {before:.2f} GiB of it before the battery")
    for name in ("mig", "sap", "dci_disentanglement", "infom", "mcc", "explicitness", "best_latent_f1"):
        print(f"{name} {scores[name]:.3f}", end="  ")
    print()
    for name, reason in scores.left_out.items():
        print(f"{name} was left out: {reason}")


def dense_way(codes: object, factors: np.ndarray) -> None:
    """The same metrics of a few latents, measured in the wide way and in the dense way."""
    narrow, factors = codes[:SHORT].tocsc()[:, : arguments.small].tocsr(), factors[:SHORT]  # type: ignore[index]
    print(f"\n| {arguments.small} latents, {SHORT:,} rows | wide way, s | dense way, s |\n|---|---:|---:|")
    ways = []
    for wide in (0, narrow.shape[1]):
        wide_tables.WIDE = wide
        ways.append(sober.score(narrow, factors, metrics=list(BATTERY)).seconds)
    for name in BATTERY:
        print(f"| {name} | {ways[0][name]:.1f} | {ways[1][name]:.1f} |")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rows", type=int, default=20_000)
parser.add_argument("--latents", type=int, default=16_384)
parser.add_argument("--factors", type=int, default=40)
parser.add_argument("--density", type=float, default=0.01)
parser.add_argument("--small", type=int, default=32, help="latents for which both ways are measured; 0 leaves it out")


if __name__ == "__main__":
    arguments = parser.parse_args()
    size = f"{arguments.rows:,} × {arguments.latents:,}, K = {arguments.factors}"
    print(f"{datetime.date.today()}, {cores()} cores, {size}\n")
    sober.score(*wide_codes(300, 2_000, 3, 0.05), metrics=list(BATTERY))  # compiles
    table, labels = wide_codes(arguments.rows, arguments.latents, arguments.factors, arguments.density)
    battery(table, labels)
    if arguments.small:
        dense_way(table, labels)
