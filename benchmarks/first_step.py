"""Seconds from the start of a process until a family has made its first step, and where they go.

python benchmarks/first_step.py OUT                                   64 models of `conv` on dsprites
python benchmarks/first_step.py OUT --world blocks --models 16        on a CPU

`SOBER_CACHE` names the cache: an empty folder, or one of an earlier run. Prints one line of JSON with the seconds at
which each part ended: importing, opening the world, choosing the program, compiling up to the first step, the end.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

STARTED = time.time()


class Clock:
    """A watcher that notes when a training chooses its program, and when it makes its first step."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.seconds: dict[str, float] = {}
        self.reason = ""

    def mark(self, name: str) -> None:
        self.seconds.setdefault(name, round(time.time() - self.started, 2))

    def note(self, text: str) -> None:
        self.mark("program chosen")
        self.reason = self.reason or text

    def progress(self, progress: Any) -> None:
        self.mark("first step")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--world", default="dsprites")
    parser.add_argument("--method", default="beta_vae")
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--since", type=float, default=STARTED, help="when the process was started, in seconds")
    arguments = parser.parse_args()
    clock = Clock(arguments.since)

    from sober import grid  # noqa: PLC0415 -- measured
    from sober.requests.train import train  # noqa: PLC0415
    from sober.worlds import world as open_world  # noqa: PLC0415

    world = open_world(arguments.world)
    runs = grid(world, arguments.method, {}, seeds=arguments.models, steps=arguments.steps)
    clock.mark("imported")
    world.shard(0)
    clock.mark("world opened")
    train(runs, world, arguments.out, watcher=clock)
    clock.mark("trained")
    print(json.dumps({"seconds": clock.seconds, "reason": clock.reason}))


if __name__ == "__main__":
    main()
