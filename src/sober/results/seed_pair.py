"""Two models that differ only in their seed: a good one, and the worst of the same setting."""

from __future__ import annotations

from collections.abc import Mapping

from sober.results.runs import Runs

NEAR = 0.1  # times the range of all numbers: how far a setting's best model may be below the best model of all


def best_and_worst_seed(numbers: Mapping[str, float], settings: Mapping[str, str]) -> tuple[str, ...]:
    """The best and the worst run of one setting; only the best if the setting has one run. Higher numbers are better.

    A setting qualifies if its best run is at most 10% of the range below the best of all. The setting whose seeds
    differ most is taken.
    """
    if not numbers:
        return ()
    by_setting: dict[str, list[str]] = {}
    for run in sorted(numbers, key=lambda run: (-numbers[run], run)):
        by_setting.setdefault(settings[run], []).append(run)
    most, least = max(numbers.values()), min(numbers.values())
    near_best = [runs for runs in by_setting.values() if numbers[runs[0]] >= most - NEAR * (most - least)]
    runs = max(near_best, key=lambda runs: numbers[runs[0]] - numbers[runs[-1]])
    return (runs[0], runs[-1]) if len(runs) > 1 else (runs[0],)


def seed_pair(runs: Runs) -> tuple[str, ...]:
    """`best_and_worst_seed` by the leading number; nothing if that number has no better direction."""
    sound = runs.not_diverged()
    if not len(sound.run_frame) or not sound.numbers[sound.headline()].sign:
        return ()
    rows = list(sound.run_frame.select("run", "world", "setting").iter_rows())
    oriented = sound.oriented(sound.headline()).tolist()
    numbers = {run: number for (run, _, _), number in zip(rows, oriented, strict=True) if number is not None}
    return best_and_worst_seed(numbers, {run: f"{world} {setting}" for run, world, setting in rows})
