"""Seconds and memory of `sober agree` for large dictionaries, beside the plain product of the same size.

python benchmarks/agree.py                    8 dictionaries of 16,384 features, 768 dimensions, 100,000 sparse rows
python benchmarks/agree.py --features 2048 --rows 10000 --peers

Each dictionary holds the same true features in another order, with noise, and features of its own. The plain product is
every cosine of every two dictionaries, block by block, with nothing done to it. `--peers` compares the numbers with the
Hungarian loss of decoder cosines and with PW-MCC, as public code computes them, and needs at most 4,096 features.
"""

from __future__ import annotations

import argparse
import datetime
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse

from sober.agreement.analysis import analyse
from sober.criteria.udr import udr
from sober.types import Codes


def models(
    count: int, features: int, dimensions: int, rows: int, active: int
) -> tuple[list[scipy.sparse.csr_array], list[np.ndarray]]:
    """Codes with `active` features in each row, whose rates fall as a power, and directions, for each model."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((features, dimensions)).astype(np.float32)
    rates = np.arange(1, features + 1.0) ** -0.5
    columns = np.searchsorted(np.cumsum(rates / rates.sum()), rng.random((rows, active))).clip(0, features - 1)
    values = rng.gamma(2.0, 0.5, (rows, active)).astype(np.float32)
    starts = np.arange(rows + 1) * active
    codes, dictionaries = [], []
    for _ in range(count):
        order = rng.permutation(features).astype(np.int32)
        noise = 0.5 * rng.standard_normal(directions.shape, dtype=np.float32)
        missed = rng.random((rows, active)) < 0.1
        extra_features = rng.integers(0, features, (rows, active), dtype=np.int32)
        places = np.where(missed, extra_features, order[columns]).astype(np.int32)
        table = scipy.sparse.csr_array((values.flatten(), places.ravel(), starts.copy()), (rows, features))
        table.sum_duplicates()
        codes.append(table)
        dictionary = np.empty_like(directions)
        dictionary[order] = directions + noise
        dictionaries.append(dictionary)
    return codes, dictionaries


def plain_product(dictionaries: list[np.ndarray]) -> None:
    """All cosines of all pairs, in blocks that are thrown away."""
    units = [directions / np.linalg.norm(directions, axis=1, keepdims=True) for directions in dictionaries]
    for first in range(len(units)):
        for second in range(first + 1, len(units)):
            for start in range(0, len(units[first]), 512):
                units[first][start : start + 512] @ units[second].T


def measured(label: str, work: Callable[[], Any]) -> None:
    """Prints the seconds, the seconds of all processors, and the most memory until now.

    Other work on the machine makes the seconds longer, and hardly those of the processors.
    """
    started, busy = time.perf_counter(), time.process_time()
    result = work()
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    note = "" if result is None else f"{int(result.recurrence.recurs.sum()):,} recur"
    print(f"| {label} | {seconds:,.1f} | {busy:,.1f} | {gigabytes:.1f} | {note} |", flush=True)


def peers(codes: list[scipy.sparse.csr_array], dictionaries: list[np.ndarray]) -> None:
    """The numbers of others, and ours."""
    first, second = (directions / np.linalg.norm(directions, axis=1, keepdims=True) for directions in dictionaries[:2])
    cosine = first.astype(float) @ second.T.astype(float)
    print("\n| number | public code | Sober | seconds, public | seconds, Sober |\n|---|---:|---:|---:|---:|")
    for label, table, signed in (("Hungarian loss", cosine, True), ("PW-MCC", np.abs(cosine), False)):
        started = time.perf_counter()
        rows, columns = scipy.optimize.linear_sum_assignment(1 - table)
        reference = (1 - table)[rows, columns].sum() if signed else table[rows, columns].mean()
        middle = time.perf_counter()
        ours = analyse(None, dictionaries[:2], matching="one-to-one", signed=signed, draws=64).pair_means()[0, 1]
        ours = len(first) * (1 - ours) if signed else ours
        print(
            f"| {label} | {reference:.6f} | {ours:.6f} | {middle - started:.1f} | {time.perf_counter() - middle:.1f} |",
            flush=True,
        )
    dense = [table[:1_000, :50].toarray() for table in codes]
    unlabelled = [Codes(array, None, np.zeros((len(array), 0)), ()) for array in dense]
    live = [array.std(axis=0) > 0 for array in dense]
    started = time.perf_counter()
    reference = udr(unlabelled, similarity="spearman", informative=live).scores[0]
    middle = time.perf_counter()
    ours = analyse(dense, similarity="spearman", signed=False, draws=64).udr[0]
    print(
        f"| UDR, Spearman | {reference:.6f} | {ours:.6f} | {middle - started:.1f} | "
        f"{time.perf_counter() - middle:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--features", type=int, default=16_384)
    parser.add_argument("--dimensions", type=int, default=768)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--active", type=int, default=32, help="features that fire in a row")
    parser.add_argument("--measures", nargs="*", default=["cosine", "pearson", "both"])
    parser.add_argument("--peers", action="store_true")
    arguments = parser.parse_args()
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before")
    codes, dictionaries = models(
        arguments.models, arguments.features, arguments.dimensions, arguments.rows, arguments.active
    )
    analyse([table[:200, :64] for table in codes[:2]], [table[:64] for table in dictionaries[:2]])  # compiles
    print(
        f"{arguments.models} models, {arguments.features:,} features, {arguments.dimensions} dimensions, "
        f"{arguments.rows:,} rows\n\n| what | seconds | processor seconds | GiB at most | |\n|---|---:|---:|---:|---|"
    )
    measured("plain product: all cosines, nothing kept", lambda: plain_product(dictionaries))
    if "cosine" in arguments.measures:
        measured("cosines, with chance", lambda: analyse(None, dictionaries))
    if "pearson" in arguments.measures:
        measured("correlations, with chance", lambda: analyse(codes))
    if "both" in arguments.measures:
        measured("both, with chance", lambda: analyse(codes, dictionaries))
    if arguments.peers:
        peers(codes, dictionaries)


if __name__ == "__main__":
    main()
