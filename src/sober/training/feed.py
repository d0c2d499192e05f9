"""The data feed of a training, step by step."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sober.model_placement import ModelPlacement
from sober.worlds import World


class Feed:
    """The data to train on, placed on the devices of the models (by default on one device).

    If the data comes in shards, the feed fetches the next shard while the current one is in use.
    """

    def __init__(self, world: World, placement: ModelPlacement | None = None) -> None:
        self.world, self.placement = world, placement or ModelPlacement(1)
        self.waited = 0.0  # seconds spent waiting for data
        self.pool = ThreadPoolExecutor(1)  # starts its thread with the first task
        self.current: tuple[Any, int | None] | None = None
        self.next: Future[tuple[Any, int | None]] | None = None

    def at(self, step: int, steps: int) -> tuple[Any, int]:
        """The data for a step, and the first later step that needs other data."""
        started = time.monotonic()
        if self.current is None:
            self.current = self._shard(step)
        elif self.current[1] is not None and step >= self.current[1]:
            assert self.next is not None
            self.current = None  # so that two shards are on the device, not three
            self.current = self.next.result()
            self.next = None
        data, end = self.current
        if end is not None and end < steps and self.next is None:
            self.next = self.pool.submit(self._shard, end)
        self.waited += time.monotonic() - started
        return data, steps if end is None else end

    def _shard(self, step: int) -> tuple[Any, int | None]:
        data, end = self.world.shard(step)
        return self.placement.replicated(data), end
