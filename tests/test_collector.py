"""Collectors: batches come in, one score comes out, whatever the batches."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sober
from sober import Collector, RequestError
from sober.metrics.scoring.collector import _joined

RNG = np.random.default_rng(0)
FACTORS = RNG.integers(0, 4, (600, 3))
CODES = FACTORS + RNG.normal(size=FACTORS.shape)
LOGVAR = np.log(RNG.random(CODES.shape))


def collected(sizes: list[int], rows: int | None = None, seed: int = 0, part: int = 0) -> Collector:
    """All rows, in batches of these sizes, over and over."""
    collector, at = Collector("mig", rows=rows, seed=seed, part=part), 0
    while at < len(CODES):
        size = sizes.pop(0)
        sizes.append(size)
        collector.update(CODES[at : at + size], FACTORS[at : at + size], logvar=LOGVAR[at : at + size])
        at += size
    return collector


def kept(collector: Collector) -> np.ndarray:
    """The first latent of the rows that would be scored."""
    return collector._lowest(_joined(collector._batches))["codes"][:, 0]


def test_it_gives_what_score_gives_of_all_rows() -> None:
    found = collected([37]).compute()
    assert found == sober.score(CODES, FACTORS, logvar=LOGVAR, metrics="mig")
    assert isinstance(found, sober.Scores)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(sizes=st.lists(st.integers(1, 300), min_size=1, max_size=5), rows=st.integers(1, 700))
def test_a_sample_does_not_depend_on_the_batches(sizes: list[int], rows: int) -> None:
    found, whole = collected(sizes, rows), collected([600], rows)
    assert found.seen == whole.seen == 600
    assert len(found) == len(whole) == min(rows, 600)
    assert found._rows_held() <= 2 * rows
    assert sorted(kept(found)) == sorted(kept(whole))
    if rows > 2:
        assert found.compute() == whole.compute()


def test_a_sample_is_bounded_and_uniform() -> None:
    """Each of 600 rows is in 50 of them with probability 1/12: 400 seeds, so 33.3 times, ± 5.5."""
    times = np.zeros(600)
    places = {value: place for place, value in enumerate(CODES[:, 0].tolist())}
    for seed in range(400):
        collector = collected([64], rows=50, seed=seed)
        assert collector._rows_held() <= 100
        times[[places[value] for value in kept(collector).tolist()]] += 1
    assert times.sum() == 400 * 50
    expected, spread = 400 / 12, np.sqrt(400 / 12 * 11 / 12)
    assert np.abs(times - expected).max() < 5 * spread
    halves = times[:300].sum() - times[300:].sum()
    assert abs(halves) < 5 * np.sqrt(400 * 50)


def test_several_processes() -> None:
    """In any order of merging, and with what comes after it."""
    parts = []
    for part in range(3):
        collector = Collector("mig", rows=100, part=part)
        for at in range(part, 600, 3):
            collector.update(CODES[at : at + 1], FACTORS[at : at + 1])
        parts.append(pickle.loads(pickle.dumps(collector)))  # as it goes between processes
    results = []
    for order in ([0, 1, 2], [2, 0, 1]):
        first, *others = (copy.deepcopy(parts[n]) for n in order)
        first.merge_state(*others)
        assert first.seen == 600
        assert len(first) == 100
        results.append(first.compute())
    assert results[0] == results[1]
    assert np.array_equal(parts[1].compute()["mig"], parts[1].compute()["mig"]), "those merged stay as they were"


def test_processes_that_keep_every_row() -> None:
    first, second = Collector("mig"), Collector("mig")
    first.update(CODES[:250], FACTORS[:250])
    second.update(CODES[250:], FACTORS[250:])
    first.merge_state(second)
    assert first.compute() == sober.score(CODES, FACTORS, metrics="mig")


def test_processes_with_the_same_random_numbers_are_refused() -> None:
    first, second = (collected([100], rows=50) for _ in range(2))
    with pytest.raises(RequestError, match=r"two collectors are part 0: .*part=rank"):
        first.merge_state(second)
    with pytest.raises(RequestError, match="same rows"):
        first.merge_state(Collector("mig", rows=60, part=1))


def test_reset_begins_again() -> None:
    collector = collected([100], rows=50)
    before = collector.compute()
    collector.reset()
    assert len(collector) == collector.seen == 0
    with pytest.raises(RequestError, match="nothing was collected"):
        collector.compute()
    collector.update(CODES, FACTORS, logvar=LOGVAR)
    assert collector.compute() == before


def test_memory_that_is_used_again_changes_nothing() -> None:
    collector, codes, factors = Collector("mig"), CODES.copy(), FACTORS.copy()
    collector.update(codes, factors)
    codes[:] = 0
    factors[:] = 0
    assert collector.compute() == sober.score(CODES, FACTORS, metrics="mig")


def test_frames_groups_and_weights_are_collected() -> None:
    groups, weights = np.arange(600) // 6, RNG.random(600) + 0.1
    frame = pl.DataFrame(FACTORS, schema=["a", "b", "c"]).with_columns(pl.col("a").cast(pl.String))
    about = {"groups": groups, "weights": weights}
    collector = Collector(["mig", "sap"], seed=3, preset="paper", kinds={"b": "cyclic"})
    for at in range(0, 600, 200):
        part = slice(at, at + 200)
        collector.update(CODES[part], frame[part], **{name: each[part] for name, each in about.items()})
    direct = sober.score(CODES, frame, metrics=["mig", "sap"], preset="paper", seed=3, kinds={"b": "cyclic"}, **about)
    assert collector.compute() == direct
    assert collector.compute().left_out == direct.left_out
    assert collector.compute().factors == ("a", "b", "c")
    with pytest.raises(RequestError, match="this batch has factors a, b, d"):
        collector.update(CODES, frame.rename({"c": "d"}), **about)


def test_without_factors() -> None:
    collector = Collector()
    collector.update(CODES)
    assert collector.compute() == sober.score(CODES)


@pytest.mark.parametrize(
    ("update", "says"),
    [
        (
            lambda it: it.update(CODES[:, :2], FACTORS),
            r"codes \(n, 2\), factors \(n, 3\), earlier ones codes \(n, 3\)",
        ),
        (lambda it: it.update(CODES), "earlier ones"),
        (lambda it: it.update(CODES, FACTORS[:5]), "codes has 600 rows and factors has shape"),
        (lambda it: it.update(CODES, FACTORS, weights=np.ones(600)), "earlier ones"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(update, says: str) -> None:
    collector = Collector("mig")
    collector.update(CODES, FACTORS)
    with pytest.raises(RequestError, match=says):
        update(collector)
    assert collector.seen == 600


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"metrics": "unheard_of"}, "unheard_of"),
        ({"rows": 0}, "rows, the size of the sample, must be a whole number from 1 on"),
        ({"part": -1}, "part, the number of this process, must be a whole number from 0 on"),
        ({"bins": 3}, "no setting bins"),
    ],
)
def test_a_wrong_collector_is_refused_at_once(arguments, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        Collector(**arguments)


def test_batches_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    encoder = torch.nn.Linear(3, 3)
    collector, inputs = Collector("mig", rows=200), torch.tensor(CODES, dtype=torch.float32)
    for pictures, labels in zip(inputs.split(64), torch.tensor(FACTORS).split(64), strict=True):
        collector.update(encoder(pictures).bfloat16(), labels, logvar=encoder(pictures))
    assert 0 <= collector.compute()["mig"] <= 1
