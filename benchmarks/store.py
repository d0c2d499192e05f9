"""Seconds to look at a store of a million scores: what a status shows, what is done already, the whole table.

python benchmarks/store.py                a million rows, 100 of its parts not compacted yet, and again compacted
python benchmarks/store.py --rows 100000  fewer

Reading any parquet file with Polars takes what the last line says; the rest is checking, merging and order.
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
    hyper = {**{each.name: each.default for each in method.hyper}, **strength}
    return Run(WORLDS[index // (6 * len(METHODS)) % len(WORLDS)], method.name, hyper, seed=index)


def fill(store: Store, rows: int, left: int) -> None:
    """Writes scores in chunks, of which `left` stay in parts."""
    values = np.random.default_rng(0).random(rows)
    chunks = range(0, rows, CHUNK)
    for number, start in enumerate(chunks):
        runs = {index: run(index) for index in range(start // METRICS, (start + CHUNK - 1) // METRICS + 1)}
        identities = {index: each.identity for index, each in runs.items()}
        scores = [
            Score(
                identities[at // METRICS],
                f"metric_{at % METRICS}",
                values[at],
                preset="study",
                settings={"bins": 20.0},
                seconds=values[-at],
            )
            for at in range(start, min(start + CHUNK, rows))
        ]
        by_identity = {identities[index]: each for index, each in runs.items()}
        store.write(scores, by_identity, device="cpu", versions={"sober": "0.1"})
        if number == len(chunks) - left - 1:
            store.compact()


def status(store: Store) -> polars.DataFrame:
    """Scores and runs, and how many are flagged, for each world and method."""
    table = store.table(["world", "method", "run", "flags"])
    counts = polars.len().alias("scores"), polars.col("run").n_unique(), (polars.col("flags").list.len() > 0).sum()
    return table.group_by("world", "method").agg(*counts)


def least(rounds: int, work: Callable[[], object]) -> float:
    """The shortest time of some rounds: what others do on the machine only adds to it."""
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)


def line(what: str, seconds: float) -> None:
    print(f"| {what} | {seconds:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parts", type=int, default=100, help="chunks of 1,000 scores that are not compacted")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best is shown")
    chosen = parser.parse_args()
    store_module.PARTS = 2 * chosen.parts + chosen.rows  # compact only where this script says so
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(folder)
        load = os.getloadavg()[0]
        print(f"{datetime.date.today()}, {os.cpu_count()} cores, load {load:.1f}, {chosen.rows:,} rows\n")
        print("| what | seconds |\n|---|---:|")
        line("writing, in chunks of 1,000", least(1, lambda: fill(store, chosen.rows, chosen.parts)))
        for state in (f"with {chosen.parts} parts", "compacted"):
            line(f"status, {state}", least(chosen.rounds, lambda: status(store)))
            line(f"done(), {state}", least(chosen.rounds, store.done))
            line(f"table(), {state}", least(chosen.rounds, store.table))
            if state != "compacted":
                line("compact()", least(1, store.compact))
        path = store.folder / "scores.parquet"
        line("polars.read_parquet", least(chosen.rounds, lambda: polars.read_parquet(path)))
        print(f"\n{store.table().height:,} rows, {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
