"""The queue that fills results/: trains and measures what results/wanted.toml lists, a piece at a time.

python benchmarks/results_queue.py --list                       what is wanted, what is done, what the rest costs
python benchmarks/results_queue.py --minutes 9 --out packs      on any GPU machine, from a bare checkout
python benchmarks/results_queue.py --minutes 9 --out new --packs packs     goes on with what was brought along
python benchmarks/results_queue.py --merge packs new            takes what is finished into results/ (needs Polars)

Working needs jax, equinox, optax, numpy, scipy, scikit-learn, numba, safetensors and matplotlib alone. Packs are at
most 8 files of 16 MiB, 64 MiB together. docs/results.md says more.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

STARTED = time.monotonic()  # before what takes long to import
ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "src"))  # last: where Sober is installed, that one is used

from sober.errors import RequestError, counted  # noqa: E402
from sober.workflows.call import Call, brought  # noqa: E402
from sober.workflows.carried import carried_in  # noqa: E402
from sober.workflows.merge import merge, too_large  # noqa: E402
from sober.workflows.queue import Queue, pace_seen, runs_in  # noqa: E402
from sober.workflows.wanted import named, read_wanted  # noqa: E402


def print_list(queue: Queue) -> None:
    print("| results | models | done | GPU hours left, about | not here |\n|---|---:|---:|---:|---|")
    for line in queue.lines():
        counts = f"{line.models:,} | {line.done:,} | {line.gpu_hours:.1f}"
        print(f"| {line.entry.name} | {counts} | {', '.join(line.missing)} |")


def say_next(queue: Queue) -> None:
    for entry in queue.entries:
        for groups in queue.undone(entry):
            models = sum(map(len, groups))
            print(f"next: {entry.name}, {groups[0][0].method} on {groups[0][0].world}: {counted(models, 'model')}")
            return
    print("nothing is left of the list")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the list, and do nothing")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="PACKS", help="files, or folders of them")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which it has ended; none: no limit")
    parser.add_argument("--out", type=Path, default=Path("runs/queue/packs"), help="folder for packs")
    parser.add_argument("--packs", type=Path, nargs="+", default=[], help="packs that were brought along")
    parser.add_argument("--work", type=Path, default=Path("runs/queue/work"), help="folder to work in")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--only", metavar="NAME", help="what the list has under this name")
    parser.add_argument("--wanted", type=Path, help="another list than that in the folder of results")
    chosen = parser.parse_args()
    entries = read_wanted(chosen.wanted or chosen.results / "wanted.toml")
    if chosen.only:
        entries = named(entries, chosen.only)
    if chosen.merge:
        for added in merge(chosen.merge, chosen.results, entries):
            print(
                f"{added.name}: {counted(added.models, 'model')} and {counted(added.rows, 'row')} added, "
                f"{counted(added.skipped, 'row')} there already"
            )
        if large := too_large(chosen.results):
            print(large)
        say_next(Queue(entries, runs_in(chosen.results)))
        return
    packs = brought([*chosen.packs, *([chosen.out] if chosen.out.is_dir() else [])])
    pieces = [piece for pack in packs for kind in ("done", "begun") for piece in carried_in(pack, kind)]
    limit = 60 * chosen.minutes - (time.monotonic() - STARTED)
    queue = Queue(entries, runs_in(chosen.results), pace_seen(chosen.results, pieces), limit=limit)
    only = ["--only", chosen.only] if chosen.only else []
    command = shlex.join(["python", "benchmarks/results_queue.py", *only])  # folders and time change no number
    if chosen.list:
        queue.done |= {run for pack in packs for piece in carried_in(pack, "done") for run in piece.runs}
        print_list(queue)
        return
    call = Call(queue, chosen.work, chosen.out, command=command, say=_say)
    call.bring(packs)
    call.all()


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    try:
        main()
    except RequestError as error:
        sys.exit(f"results_queue: {error}")
