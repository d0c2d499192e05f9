"""Seconds to read a store of a million scores: for a status, for the work done so far, and as a whole table.

python benchmarks/store.py                a million rows, with 100 parts not yet compacted, and again compacted
python benchmarks/store.py --rows 100000  fewer

The last line is the time of reading the parquet file with Polars; the rest is checking, merging and sorting.
"""

from __future__ import annotations

import argparse
import datetime
import os
import tempfile
import time
from collections.abc import Callable

import numpy as np
import polars

from sober.methods import METHODS
from sober.methods.settings import setting
from sober.results import store as store_module
from sober.results.store import Store
from sober.types import Run, Score

METRICS = 40  # scores of one run
CHUNK = 1000  # scores in one write
WORLDS = ("dsprites", "rooms", "shapes3d", "small_norb", "cars3d")


def run(index: int) -> Run:
    """Runs of a large study: every method on every world, with six strengths."""
    method = list(METHODS.values())[index % len(METHODS)]
    strength = {hyper.name: 1.0 + index // len(METHODS) % 6 for hyper in method.hyper[:1] if not hyper.choices}
    numbers = {hyper.name: hyper.default for hyper in method.hyper if not hyper.choices}
    hyper = {**numbers, **strength}  # without words: two methods have a `penalty`, one a word and one a number
    return Run(WORLDS[index // (6 * len(METHODS)) % len(WORLDS)], method.name, hyper, seed=index)


def fill(store: Store, rows: int, left: int) -> None:
    """Writes scores in chunks, and compacts all but the last `left` chunks."""
    values = np.random.default_rng(0).random(rows)
    chunks = range(0, rows, CHUNK)
    for number, start in enumerate(chunks):
        runs = {index: run(index) for index in range(start // METRICS, (start + CHUNK - 1) // METRICS + 1)}
        identities = {index: described_run.identity for index, described_run in runs.items()}
        scores = [
            Score(
                identities[row // METRICS],
                f"metric_{row % METRICS}",
                values[row],
                preset="study",
                settings={"bins": 20.0},
                seconds=values[-row],
            )
            for row in range(start, min(start + CHUNK, rows))
        ]
        by_identity = {identities[index]: described_run for index, described_run in runs.items()}
        store.write(scores, by_identity, in_words=setting, device="cpu", versions={"sober": "0.1"})
        if number == len(chunks) - left - 1:
            store.compact()


def status(store: Store) -> polars.DataFrame:
    """Scores and runs, and how many are flagged, for each world and method."""
    table = store.table(["world", "method", "run", "flags"])
    counts = polars.len().alias("scores"), polars.col("run").n_unique(), (polars.col("flags").list.len() > 0).sum()
    return table.group_by("world", "method").agg(*counts)


def least(rounds: int, work: Callable[[], object]) -> float:
    """The shortest time of several rounds: other work on the machine only adds to it."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def line(label: str, seconds: float) -> None:
    print(f"| {label} | {seconds:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parts", type=int, default=100, help="chunks of 1,000 scores that are not compacted")
    parser.add_argument("--rounds", type=int, default=3, help="the best of these rounds is shown")
    arguments = parser.parse_args()
    store_module.PARTS = 2 * arguments.parts + arguments.rows  # compact only where this script says so
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(folder)
        load = os.getloadavg()[0]
        print(f"{datetime.date.today()}, {os.cpu_count()} cores, load {load:.1f}, {arguments.rows:,} rows\n")
        print("| what | seconds |\n|---|---:|")
        line("writing, in chunks of 1,000", least(1, lambda: fill(store, arguments.rows, arguments.parts)))
        for state in (f"with {arguments.parts} parts", "compacted"):
            line(f"status, {state}", least(arguments.rounds, lambda: status(store)))
            line(f"done(), {state}", least(arguments.rounds, store.done))
            line(f"table(), {state}", least(arguments.rounds, store.table))
            if state != "compacted":
                line("compact()", least(1, store.compact))
        path = store.folder / "scores.parquet"
        line("polars.read_parquet", least(arguments.rounds, lambda: polars.read_parquet(path)))
        print(f"\n{store.table().height:,} rows, {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
