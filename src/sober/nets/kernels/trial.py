"""Trials of kernels on this machine: a kernel must be right, the same twice, and faster than plain layers.

Another compiler may make a kernel slow, or silently wrong. A trial compiles a few programs, those of all runs of layers
side by side, and takes a moment. The cache folder keeps its verdict, so that it runs once, and a resumed training uses
the same kernels. A verdict that comes with Sober takes the trial's place; its kernels are checked beside training.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax

from sober.device import out_of_memory
from sober.errors import RequestError, brief
from sober.files import locked, writable_folder
from sober.nets.kernels.comparison import Data, Stack, TrialPrograms, compiled, find_fault
from sober.nets.kernels.layout import Kind
from sober.nets.kernels.requirements import unmet_here
from sober.nets.kernels.stacks import down, up
from sober.nets.kernels.verdicts import Case, Shapes, Verdict, keep, kept_verdict, shipped_verdict

ROUNDS, CALLS = 7, 5  # times are the median of ROUNDS rounds of CALLS calls
STACKS: dict[Kind, Stack] = {"down": down, "up": up}


class Verdicts(NamedTuple):
    """The verdict on each case, and the cases whose verdict came with Sober and was not checked on this machine."""

    verdicts: tuple[Verdict, ...]
    unchecked: tuple[Case, ...] = ()


def trial_verdict(
    kind: Kind, shape: tuple[int, ...], layers: Shapes, dtype: Any, models: int, *, kernels: Stack | None = None
) -> Verdict:
    """The verdict on kernels, or on a replacement, for an input (batch, height, width, channels) and layers' shapes.

    Reads the stored verdict, or runs the trial now.
    """
    return trial_verdicts([Case.of(kind, shape, layers, dtype, models)], kernels=kernels).verdicts[0]


def trial_verdicts(
    cases: Sequence[Case],
    *,
    kernels: Stack | None = None,
    unchecked: bool = False,
    meanwhile: Callable[[], Callable[[], Any]] | None = None,
) -> Verdicts:
    """The verdicts on several cases, with one trial for all of them that have none yet.

    A verdict that comes with Sober is checked now, unless the caller checks it later (`unchecked`). `meanwhile` is
    called before a trial: it begins other work of the caller, and returns a function that waits for its end, because
    that work would disturb the times.
    """
    if kernels is None and (reason := unmet_here()):
        return Verdicts(tuple(Verdict(False, reason) for _ in cases))
    verdicts: dict[Case, Verdict] = {}
    for case in cases:
        if kernels is None and (reason := case.unmet_requirement()):
            verdicts[case] = Verdict(False, reason)
    shipped: list[Case] = []
    with _alone(cases):  # another trial at the same time would disturb the times
        for case in dict.fromkeys(cases):
            if case in verdicts:
                continue
            if verdict := kept_verdict(case):
                verdicts[case] = verdict
            elif verdict := shipped_verdict(case) if kernels is None else None:
                verdicts[case] = verdict
                shipped.append(case)
        if shipped and not unchecked:
            verdicts |= check(shipped)
            shipped = []
        untried = [case for case in dict.fromkeys(cases) if case not in verdicts]
        if untried:
            before_timing = meanwhile() if meanwhile is not None else None
            verdicts |= _tried(untried, [kernels or STACKS[case.kind] for case in untried], before_timing)
    return Verdicts(tuple(verdicts[case] for case in cases), tuple(shipped))


@contextlib.contextmanager
def _alone(cases: Sequence[Case]) -> Iterator[None]:
    """Waits for trials of other processes; does not where verdicts cannot be stored."""
    if not cases:
        yield
        return
    try:
        folder = writable_folder(cases[0].path().parent)
    except RequestError:
        yield
        return
    with locked(folder, wait=True):
        yield


def check(cases: Sequence[Case], kernels: Stack | None = None) -> dict[Case, Verdict]:
    """Checks the results of kernels whose verdicts came with Sober, and keeps the verdicts for this machine."""
    stacks = [kernels or STACKS[case.kind] for case in cases]
    with ThreadPoolExecutor(1) as thread:  # a thread of its own, because the caller may be tracing a program
        faults = thread.submit(_faults, cases, stacks).result()
    verdicts = {}
    for case, fault in zip(cases, faults, strict=True):
        verdict = shipped_verdict(case)
        assert verdict is not None
        verdicts[case] = Verdict(False, fault) if fault else verdict
        keep(case, verdicts[case])
    return verdicts


def _faults(cases: Sequence[Case], stacks: Sequence[Stack]) -> list[str | None]:
    """The fault of each case; runs out of memory with the device's own error."""
    faults = []
    for case, programs in zip(cases, compiled(cases, stacks, timed=False), strict=True):
        try:
            if isinstance(programs, Exception):
                raise programs
            faults.append(find_fault(case, programs))
        except Exception as error:
            if _is_full(error):
                raise
            faults.append(f"kernels cannot be tried here ({brief(error)})")
    return faults


def _tried(
    cases: Sequence[Case], stacks: Sequence[Stack], before_timing: Callable[[], Any] | None
) -> dict[Case, Verdict]:
    """Runs the trial of these cases, and keeps their verdicts."""

    def trial() -> list[tuple[Verdict, bool]]:
        all_programs = compiled(cases, stacks, timed=True)
        if before_timing is not None:
            before_timing()
        return [_judged(case, programs) for case, programs in zip(cases, all_programs, strict=True)]

    with ThreadPoolExecutor(1) as thread:  # a thread of its own, because the caller may be tracing a program
        judged = thread.submit(trial).result()
    for case, (verdict, lasting) in zip(cases, judged, strict=True):
        if lasting:
            keep(case, verdict)
    return {case: verdict for case, (verdict, _) in zip(cases, judged, strict=True)}


def _judged(case: Case, programs: TrialPrograms | Exception) -> tuple[Verdict, bool]:
    """The verdict, and whether to store it, which is not so if memory ran out."""
    try:
        if isinstance(programs, Exception):
            raise programs
        if fault := find_fault(case, programs):
            return Verdict(False, fault), True
        assert programs.plain is not None
        kernels_us, plain_us = times([programs.kernels[-1], programs.plain], programs.samples().usual)
    except Exception as error:  # a compiler may raise anything
        return Verdict(False, f"kernels cannot be tried here ({brief(error)})"), not _is_full(error)
    faster = kernels_us < plain_us
    why = f"kernels are {'right and faster' if faster else 'right, but not faster'}"
    return Verdict(faster, f"{why}: {kernels_us:.1f} µs against {plain_us:.1f}", kernels_us, plain_us), True


def _is_full(error: Exception) -> bool:
    return isinstance(error, jax.errors.JaxRuntimeError) and out_of_memory(error)


def times(programs: Sequence[Callable[..., Any]], data: Data) -> list[float]:
    """Microseconds per model of each program. Rounds alternate, so that a disturbance affects all programs."""
    for program in programs:
        jax.block_until_ready(program(*data))
    rounds = [[_seconds(program, data) for program in programs] for _ in range(ROUNDS)]
    return [1e6 * statistics.median(column) / len(data[0]) for column in zip(*rounds, strict=True)]


def _seconds(program: Callable[..., Any], data: Data) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        out = program(*data)
    jax.block_until_ready(out)
    return (time.perf_counter() - started) / CALLS
