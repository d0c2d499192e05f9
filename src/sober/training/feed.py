"""The data that a training is fed, step by step."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sober.spread import Spread
from sober.worlds import World


class Feed:
    """The data to train on, step by step, on the devices of the models that train (one, where they are not given).

    Where it comes in shards, the next is fetched while this one is in use.
    """

    def __init__(self, world: World, spread: Spread | None = None) -> None:
        self.world, self.spread = world, spread or Spread(1)
        self.waited = 0.0  # seconds, for data
        self.pool = ThreadPoolExecutor(1)  # which starts no thread until it is given something to do
        self.now: tuple[Any, int | None] | None = None
        self.next: Future[tuple[Any, int | None]] | None = None

    def at(self, step: int, steps: int) -> tuple[Any, int]:
        """The data for a step, and the step at which to ask again."""
        started = time.monotonic()
        if self.now is None:
            self.now = self._shard(step)
        elif self.now[1] is not None and step >= self.now[1]:
            assert self.next is not None
            self.now = None  # so that two shards are on the device at a time, not three
            self.now = self.next.result()
            self.next = None
        data, end = self.now
        if end is not None and end < steps and self.next is None:
            self.next = self.pool.submit(self._shard, end)
        self.waited += time.monotonic() - started
        return data, steps if end is None else end

    def _shard(self, step: int) -> tuple[Any, int | None]:
        data, end = self.world.shard(step)
        return self.spread.copied(data), end
