"""Warnings of fits that are meant to end early: none is shown by any thread, and all filters are put back."""

from __future__ import annotations

import threading
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from sober.estimators.sklearn_warnings import not_converged_is_fine


def test_a_thread_that_ends_early_leaves_the_others_quiet() -> None:
    early_is_in, late_is_in, early_is_out = (threading.Event() for _ in range(3))

    def early() -> None:
        with not_converged_is_fine():
            early_is_in.set()
            assert late_is_in.wait(10)
        early_is_out.set()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        thread = threading.Thread(target=early)
        thread.start()
        assert early_is_in.wait(10)
        with not_converged_is_fine():
            late_is_in.set()
            assert early_is_out.wait(10)
            warnings.warn("not converged", ConvergenceWarning, stacklevel=1)
            warnings.warn("something else", UserWarning, stacklevel=1)
        thread.join()
        assert warnings.filters == before
        warnings.warn("not converged, elsewhere", ConvergenceWarning, stacklevel=1)
    assert [str(warning.message) for warning in seen] == ["something else", "not converged, elsewhere"]


def test_filters_are_put_back_after_an_error() -> None:
    before = list(warnings.filters)
    with pytest.raises(ZeroDivisionError), not_converged_is_fine():
        _ = 1 / 0
    assert warnings.filters == before
    with not_converged_is_fine():
        pass
    assert warnings.filters == before
