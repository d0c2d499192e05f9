"""One thread for matrix products holds for every library that multiplies matrices, and ends with the last block."""

from __future__ import annotations

import json
from collections.abc import Callable
from subprocess import Popen

import threadpoolctl

from sober.parallel import one_thread

Start = Callable[..., "Popen[str]"]

# What products may use inside the block, after scikit-learn has brought its own libraries into the process.
INSIDE = """
import json
from sober.metrics import as_codes, score_many
import numpy as np, threadpoolctl

def codes():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 3, (300, 2))
    yield as_codes(factors + 0.1 * rng.standard_normal((300, 2)), factors)

for _ in score_many(codes(), metrics={"infomec": {"samples": 300}}):
    import sklearn.linear_model
    print(json.dumps({pool["filepath"]: pool["num_threads"]
                      for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}))
"""


def test_products_of_libraries_that_load_later_use_one_thread_too(start: Start) -> None:
    process = start(INSIDE)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    threads = json.loads(output.splitlines()[-1])
    assert threads
    assert set(threads.values()) == {1}, threads


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]


def test_the_limit_ends_with_the_last_block_that_needs_it() -> None:
    before = blas_threads()
    with threadpoolctl.threadpool_limits(2, "blas"):
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert set(blas_threads()) == {2}
    assert blas_threads() == before
