"""A check of kernels beside their use: for verdicts that come with Sober and were not yet confirmed on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from sober.errors import RequestError
from sober.nets.kernels.trial import check
from sober.nets.kernels.verdicts import Case, Verdict


class KernelFaultError(RequestError):
    """Kernels that are in use give wrong numbers on this machine."""


class CheckBeside:
    """Checks kernels in a thread while a training already uses them.

    Training saves nothing before the check has ended. It never changes from kernels to plain layers on its way: what a
    model becomes would depend on when the check ended.
    """

    def __init__(self, cases: Sequence[Case], check: Callable[[Sequence[Case]], dict[Case, Verdict]] = check) -> None:
        self.cases, self.check = cases, check
        self.future: Future[dict[Case, Verdict]] | None = None

    def start(self) -> None:
        """Begins the check, the first time it is called."""
        if self.cases and self.future is None:
            pool = ThreadPoolExecutor(1)
            self.future = pool.submit(self.check, self.cases)
            pool.shutdown(wait=False)

    def require_right(self, *, wait: bool = False) -> None:
        """Raises an error if the check has found a fault. With `wait`, waits for its end."""
        if wait:
            self.start()
        if self.future is None or not (wait or self.future.done()):
            return
        faults = [verdict.why for verdict in self.future.result().values() if not verdict.use]
        if faults:
            raise KernelFaultError(
                f"{faults[0]}. Kernels were used here because they were right on another machine with such a GPU. "
                "Nothing of this training has been saved: run the same command again, and plain layers will compute"
            )
