"""Silences warnings of scikit-learn, also in several threads at once, for fits that stop before they converge.

Warnings about defaults of coming releases are silenced too: a user who asks for a metric does not choose defaults.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator


class _Ignored:
    """A context in which these warnings are ignored. The first thread to enter sets the filters, the last removes them.

    Filters belong to the whole process: with `warnings.catch_warnings` alone a thread that ends early would remove them
    for the others.
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
                warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)  # factors are classes
            self.inside += 1
        try:
            yield
        finally:
            with self.lock:
                self.inside -= 1
                if not self.inside:
                    self.before.close()


not_converged_is_fine = _Ignored()
