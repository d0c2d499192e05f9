"""What must hold for every metric in the registry. What applies to a score is asked of it: `Meaning` and its `Traits`.

What is asked of it by default is the most: a new metric is held to everything unless it says what it notices, and why.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sober.metrics import FLAGS, METRICS, Meaning, Metric, Scores, home_of, score
from sober.metrics.metric import Change
from sober.types import Kind

SIZES = (3, 4, 5)
GRID = np.stack(np.unravel_index(np.arange(3 * math.prod(SIZES)), (3, *SIZES)), axis=1)[:, 1:]  # each cell three times
QUICK = {name: metric.quick for name, metric in METRICS.items()}  # so that a battery takes a fraction of a second
every = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)


def all_scores() -> Iterator[tuple[Metric, str, Meaning]]:
    for metric in METRICS.values():
        for name, meaning in metric.scores.items():
            yield metric, name, meaning


@every
def test_it_says_how_to_read_it(metric: Metric) -> None:
    assert METRICS[metric.name] is metric
    assert metric.summary
    assert any(character.isdigit() for character in metric.reference)  # a year
    assert metric.seconds > 0
    for changes in (metric.quick, *metric.presets.values()):
        assert set(changes) <= set(metric.settings)
    for meaning in metric.scores.values():
        assert meaning.summary
        assert meaning.low < meaning.high
        assert str(meaning)


@every
def test_what_it_refers_to_is_there(metric: Metric) -> None:
    """A unified score has a matrix and a rule that are scores' own; a score of samples has a twin of means."""
    known = {name: meaning for _, name, meaning in all_scores()}
    for name, meaning in metric.scores.items():
        assert bool(meaning.matrix) == bool(meaning.rule)
        if meaning.matrix:
            assert meaning.matrix in METRICS
            assert meaning.rule in known
        if meaning.samples_of:
            twin = known[meaning.samples_of]
            assert (twin.low, twin.high, twin.better) == (meaning.low, meaning.high, meaning.better), name
            assert not twin.samples_of


def codes_of_many_kinds() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Codes, log-variances and factors: noise, mixtures, one latent for each factor, and factors that depend."""
    rng = np.random.default_rng(0)
    factors = rng.integers(0, SIZES, (400, 3))
    dependent = factors.copy()
    dependent[:, 2] = (dependent[:, 1] + rng.integers(0, 2, 400)) % 5
    clean = factors + rng.normal(scale=0.4, size=(400, 3))
    products = np.concatenate([clean[:, :2], clean[:, 2:] * clean[:, :1], rng.normal(size=(400, 2))], axis=1)
    mixed = factors @ rng.normal(size=(3, 6)) + rng.normal(scale=0.5, size=(400, 6))
    of_dependent = dependent @ rng.normal(size=(3, 4)) + rng.normal(scale=0.3, size=(400, 4))
    for codes in (rng.normal(size=(400, 5)), mixed, clean, products):
        yield codes, rng.normal(size=codes.shape) - 2, factors
    yield of_dependent, rng.normal(size=of_dependent.shape) - 2, dependent


def equal_scores(with_log_variances: bool) -> set[frozenset[str]]:
    """The pairs of scores that are equal for all of these codes."""
    pairs: set[frozenset[str]] | None = None
    for codes, logvar, factors in codes_of_many_kinds():
        scores = measured(codes, factors, logvar=logvar if with_log_variances else None)
        equal = {
            frozenset(pair)
            for pair in itertools.combinations(scores, 2)
            if math.isclose(*(scores[name] for name in pair), rel_tol=1e-9, abs_tol=1e-9)
        }
        pairs = equal if pairs is None else pairs & equal
    return pairs or set()


def test_scores_that_are_always_equal_are_declared() -> None:
    """Tables show such a number once, because a score says which score it repeats."""
    originals = {name: meaning.same_as for _, name, meaning in all_scores() if meaning.same_as}
    for name, original in originals.items():
        assert home_of(original) is not home_of(name)
        assert original not in originals
    declared = {frozenset(pair) for pair in originals.items()}
    declared |= {
        frozenset(pair) for pair in itertools.combinations(originals, 2) if len({originals[name] for name in pair}) == 1
    }
    assert equal_scores(with_log_variances=False) == declared
    assert equal_scores(with_log_variances=True) <= declared


def standardised(factors: np.ndarray) -> np.ndarray:
    return (factors - factors.mean(axis=0)) / factors.std(axis=0)


def one_hot(factors: np.ndarray) -> np.ndarray:
    return np.concatenate([np.eye(column.max() + 1)[column] for column in factors.T], axis=1)


def measured(codes: np.ndarray, factors: np.ndarray, repeats: int = 1, **about: Any) -> Scores:
    return score(codes, factors, metrics=QUICK, repeats=repeats, **about)


def test_perfect_codes_reach_the_stated_best() -> None:
    factors = np.tile(GRID, (4, 1))
    codes = {"factor": standardised(factors)[:, [2, 0, 1]] * [1, -2, 3], "value": one_hot(factors)}
    ideals = {meaning.traits.ideal for _, _, meaning in all_scores()}
    found = {ideal: measured(codes[ideal], factors) for ideal in ideals}
    for _, name, meaning in all_scores():
        if meaning.traits.perfect is not None:
            scores = found[meaning.traits.ideal]
            assert scores[name] == pytest.approx(meaning.best, abs=meaning.traits.perfect), name
            # By InfoMEC's rule a latent that is mostly 0 is idle, so it leaves out the one-hot latents of five values.
            idle = {"unknown_factor"} if meaning.traits.ideal == "value" else set()
            assert not set(scores.flags[name]) - idle, name


def test_noise_gets_what_is_stated() -> None:
    factors = np.resize(GRID, (2_000, 3))
    found = measured(np.random.default_rng(0).normal(size=(2_000, 4)), factors)
    for metric, name, meaning in all_scores():
        if metric.supervised and meaning.traits.noise is not None:
            assert found[name] == pytest.approx(meaning.traits.noise(SIZES), abs=meaning.traits.noise_within), name


def changed(
    how: Change, codes: np.ndarray, factors: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    if how == "permuted latents":
        return codes[:, rng.permutation(codes.shape[1])], factors
    if how == "flipped signs":
        return codes * rng.choice([-1.0, 1.0], codes.shape[1]), factors
    if how == "permuted rows":
        order = rng.permutation(len(codes))
        return codes[order], factors[order]
    if how == "relabelled factors":
        return codes, np.stack([rng.permutation(column.max() + 1)[column] for column in factors.T], axis=1)
    if how == "rescaled latents":
        return codes * 2.0 ** rng.integers(-3, 4, codes.shape[1]), factors
    return np.concatenate([codes, np.full((len(codes), 1), 0.5)], axis=1), factors


@settings(max_examples=6, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), latents=st.integers(2, 5), noise=st.sampled_from([0.0, 0.3, 1.0]))
def test_what_changes_nothing(seed: int, latents: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    factors = GRID.copy()
    mixing = rng.normal(size=(3, latents))
    codes = standardised(factors) @ mixing + noise * rng.normal(size=(len(factors), latents))
    before = measured(codes, factors, repeats=5, kinds="categorical")
    for how in get_args(Change):
        after = measured(*changed(how, codes, factors, rng), repeats=5, kinds="categorical")
        for _, name, meaning in all_scores():
            if name not in before or how in meaning.traits.changed_by:
                continue
            interval = 5 * math.hypot(before.errors[name], after.errors[name]) + 0.03 * max(1.0, abs(before[name]))
            assert after[name] == pytest.approx(before[name], abs=interval), (name, how)


def codes_of(kind: str, rng: np.random.Generator, rows: int, latents: int) -> np.ndarray:
    normal = rng.normal(size=(rows, latents))
    return {
        "zero": np.zeros((rows, latents)),
        "constant": np.full((rows, latents), 3.7),
        "partly dead": normal * (np.arange(latents) % 2),
        "duplicated": np.repeat(normal[:, :1], latents, axis=1),
        "huge": normal * 1e200,
        "tiny": normal * 1e-200,
        "denormal": normal * 1e-310,
        "offset": normal * 1e-3 + 1e6,
        "whole numbers": rng.integers(-3, 4, (rows, latents)),
        "float16": normal.astype(np.float16),
        "float32": normal.astype(np.float32),
        "booleans": normal > 0,
        "normal": normal,
    }[kind]


AWKWARD = ["zero", "constant", "partly dead", "duplicated", "huge", "tiny", "denormal", "offset", "whole numbers"]
AWKWARD += ["float16", "float32", "booleans", "normal"]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(AWKWARD),
    rows=st.sampled_from([1, 2, 3, 17, 60]),  # another shape compiles other programs
    latents=st.sampled_from([1, 2, 6]),
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    kinds=st.sampled_from(get_args(Kind)),
    preset=st.sampled_from(["study", "paper"]),
)
def test_any_codes_give_numbers_within_the_stated_range(
    kind: str, rows: int, latents: int, sizes: list[int], seed: int, kinds: str, preset: str
) -> None:
    """Codes of every awkward kind, few rows, one latent, rare classes, constant factors, K > D and D > K."""
    rng = np.random.default_rng(seed)
    codes = codes_of(kind, rng, rows, latents)
    factors = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)
    logvar = rng.normal(size=codes.shape)
    found = score(codes, factors, logvar=logvar, metrics=QUICK, preset=preset, kinds=kinds)
    assert set(found) == {name for _, name, _ in all_scores()}
    varies = any(len(np.unique(column)) > 1 for column in factors.T)
    for metric, name, meaning in all_scores():
        assert math.isfinite(found[name]), name
        assert meaning.low - 1e-9 <= found[name] <= meaning.high + 1e-9, name
        assert set(found.flags[name]) <= set(FLAGS)
        if metric.supervised:
            assert ("no_factor" in found.flags[name]) == (not varies), name
            if varies and kind in ("zero", "constant"):
                assert "collapsed" in found.flags[name], name


@pytest.mark.parametrize("metric", [metric for metric in METRICS.values() if metric.exact], ids=lambda it: it.name)
def test_where_it_is_exact_the_seed_has_no_say(metric: Metric) -> None:
    """Fewer rows than it draws are used once each."""
    rng = np.random.default_rng(0)
    codes = standardised(GRID) + rng.normal(size=GRID.shape)
    first, second = (score(codes, GRID, logvar=codes, metrics=metric.name, seed=seed) for seed in (0, 1))
    assert first == second


def test_a_seed_repeats_and_a_second_one_does_not() -> None:
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(400, 3)), rng.integers(0, 3, (400, 2))
    codes[:, 0] = codes[:, 0].round(1)  # equal codes, which some metrics put in random order
    first, again, other = (score(codes, factors, logvar=codes - 2, metrics=QUICK, seed=seed) for seed in (0, 0, 1))
    assert first == again
    for metric in METRICS.values():
        same = all(first[name] == other[name] for name in metric.scores if name in first)
        assert same == metric.exact, metric.name
