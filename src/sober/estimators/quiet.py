"""Fits of scikit-learn that are meant to end before they converge, without its warnings, in several threads at once.

Nor are warnings wanted about defaults of its coming releases: whoever asked for the fit did not choose them.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator


class _Quiet:
    """Filters of warnings belong to the whole process: the first thread that comes sets one, the last puts it back.

    `warnings.catch_warnings` alone would let a thread that ends early take the filter away from the others.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.before = contextlib.ExitStack()  # puts the filters back

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

        with self.lock:
            if not self.inside:
                self.before.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.filterwarnings("ignore", category=FutureWarning, module="sklearn")
            self.inside += 1
        try:
            yield
        finally:
            with self.lock:
                self.inside -= 1
                if not self.inside:
                    self.before.close()


not_converged_is_fine = _Quiet()
