"""Statistics of trained models: rank correlations, intervals, shares of variance, and how well a choice transfers.

Functions of arrays, without randomness beyond a seed. Missing numbers arrive as masked entries, and what is not
defined, such as the rank correlation with a constant, leaves as None or as a masked entry: never as NaN. A resample is
a vector of counts, how often each row was drawn; statistics that take `counts` see all resamples at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import scipy
import threadpoolctl
from jaxtyping import Float, Int, Num, Shaped
from numpy.ma import MaskedArray

from sober.errors import RequestError

Values = Num[np.ndarray, "N ..."]
Labels = Shaped[np.ndarray, " N"] | Sequence[object]
Counts = Int[np.ndarray, "R N"]


# Rank correlations.


def rank_correlation(x: Num[np.ndarray, " N"], y: Num[np.ndarray, " N"]) -> float | None:
    """Spearman's rank correlation: Pearson's, of ranks, where equal values share the mean of their ranks.

    From -1 to 1; None where it is not defined, because one of the two is constant.
    """
    found = rank_correlations(_column("x", x), _column("y", y))[0, 0]
    return None if found is np.ma.masked else float(found)


def rank_correlations(
    x: Num[np.ndarray, "N A"], y: Num[np.ndarray, "N B"] | None = None, *, counts: Counts | None = None
) -> MaskedArray:
    """Spearman's rank correlation of each column of x with each of y, or of x: (A, B), or (R, A, B) for R resamples.

    Each pair of columns is compared on the rows that have both. Masked where one of the two is constant on them.
    """
    x, y = _finite("x", x), _finite("y", x if y is None else y)
    if len(x) != len(y):
        raise RequestError(f"rank correlations compare rows with rows: x has {len(x)} of them and y {len(y)}")
    drawn = np.ones((1, len(x)), int) if counts is None else counts
    found = np.ma.masked_all((len(drawn), x.shape[1], y.shape[1]))
    for a, has_x in _by_presence(x):
        for b, has_y in _by_presence(y):
            rows = has_x & has_y
            found[:, a[:, None], b] = _correlated(x.data[rows][:, a], y.data[rows][:, b], drawn[:, rows])
    return found[0] if counts is None else found


def pearson(x: Float[np.ndarray, "R S"], y: Float[np.ndarray, "R S"]) -> MaskedArray:
    """Pearson's correlation of each row of x with the same row of y, over the columns that have both: (R,).

    Masked where one of the two is constant, or has fewer than three numbers.
    """
    x, y = _finite("x", x), _finite("y", y)
    here = (~(np.ma.getmaskarray(x) | np.ma.getmaskarray(y))).astype(float)
    n = np.maximum(here.sum(axis=1, keepdims=True), 1)
    a, b = (here * (part.filled(0.0) - (here * part.filled(0.0)).sum(axis=1, keepdims=True) / n) for part in (x, y))
    squares = np.stack([(a**2).sum(axis=1), (b**2).sum(axis=1)])
    size = np.stack([(here * part.filled(0.0) ** 2).sum(axis=1) for part in (x, y)])
    undefined = (squares <= 1e-12 * size).any(axis=0) | (here.sum(axis=1) < 3)
    spread = np.where(undefined, 1.0, np.sqrt(squares[0] * squares[1]))
    return np.ma.array(np.clip((a * b).sum(axis=1) / spread, -1.0, 1.0), mask=undefined)


def _by_presence(x: MaskedArray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Columns that have the same rows, with those rows. There are few such groups, mostly one."""
    patterns, which = np.unique(np.ma.getmaskarray(x), axis=1, return_inverse=True)
    for at, pattern in enumerate(patterns.T):
        yield np.flatnonzero(which.ravel() == at), ~pattern


def _correlated(x: Float[np.ndarray, "N A"], y: Float[np.ndarray, "N B"], counts: Counts) -> MaskedArray:
    products, spread = np.empty((2, len(counts), x.shape[1], y.shape[1]))
    ranks_x, ranks_y = _ranker(x), _ranker(y)
    with _one_thread():
        for at, drawn in enumerate(counts.astype(float)):
            rx, ry = ranks_x(drawn), ranks_y(drawn)
            weighted = rx * drawn
            products[at] = weighted @ ry.T
            spread[at] = np.sqrt(np.outer(np.sum(weighted * rx, axis=1), ry**2 @ drawn))
    defined = spread > 0  # exactly 0 for a constant: centred ranks are whole or half
    return np.ma.array(np.clip(products / np.where(defined, spread, 1.0), -1.0, 1.0), mask=~defined)


def _one_thread() -> AbstractContextManager[object]:
    """Products of matrices on one core: they are small, and to wait for a busy core costs more than it saves."""
    return _blas().limit(limits=1, user_api="blas")


@functools.cache
def _blas() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()


def _ranker(x: Float[np.ndarray, "N K"]) -> Callable[[Float[np.ndarray, " N"]], Float[np.ndarray, "K N"]]:
    """Sorts each column once; then gives the ranks, less their mean, of any resample without sorting again."""
    n, k = x.shape
    if not n:
        return lambda counts: np.zeros((k, 0))
    places = scipy.stats.rankdata(x.T, method="dense", axis=1).astype(int) - 1 + n * np.arange(k)[:, None]  # (K, N)

    def ranks(counts: Float[np.ndarray, " N"]) -> Float[np.ndarray, "K N"]:
        sizes = np.bincount(places.ravel(), weights=np.tile(counts, k), minlength=n * k).reshape(k, n)
        middle = np.cumsum(sizes, axis=1) - (sizes + counts.sum()) / 2
        return middle.ravel()[places]

    return ranks


# Intervals.


class Interval(NamedTuple):
    """A number and where it would fall if the runs were drawn again: floats, or None; or masked arrays."""

    value: Any
    low: Any
    high: Any


def resampled(
    n: int,
    *,
    clusters: Labels | None = None,
    within: Labels | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Counts:
    """How often each of n rows is drawn in each resample of the bootstrap (Efron 1979).

    Rows are drawn one by one, or as whole `clusters` of rows that belong together. With `within`, as many are drawn
    from each of its groups as it has: seeds are drawn again, and the grid of settings stays as it is.
    """
    if n < 1 or resamples < 1:
        raise RequestError(f"a bootstrap needs rows and resamples: got {n} rows and resamples={resamples}")
    clusters = range(n) if clusters is None else clusters
    first, unit = np.unique(_codes(clusters, n), return_index=True, return_inverse=True)[1:]
    group = np.zeros(n, int) if within is None else _codes(within, n)
    if (group != group[first][unit]).any():
        raise RequestError("a cluster has rows in two groups of `within`: draw clusters that lie in one group each")
    rng = np.random.default_rng(seed)
    counts = np.zeros((resamples, len(first)), np.int32)
    for members in (np.flatnonzero(group[first] == each) for each in np.unique(group)):
        m = len(members)
        drawn = rng.integers(m, size=(resamples, m)) + m * np.arange(resamples)[:, None]
        counts[:, members] = np.bincount(drawn.ravel(), minlength=resamples * m).reshape(resamples, m)
    return counts[:, unit]


def bootstrap(
    statistic: Callable[..., Any],
    data: Values,
    *,
    weighted: bool = False,
    clusters: Labels | None = None,
    within: Labels | None = None,
    centred: bool = False,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """The percentile interval of `statistic(data)` when rows, clusters, or rows within groups are drawn again.

    A statistic that is `weighted` is called as `statistic(data, counts=...)`, once for all resamples. Resamples in
    which it is not defined are left out; with fewer than half left, there is no interval. `centred` moves the interval
    so that its median is the value: for statistics that rows drawn twice push to one side, such as R².
    """
    counts = resampled(len(data), clusters=clusters, within=within, resamples=resamples, seed=seed)
    value = _masked(statistic(data))
    if weighted:
        draws = _masked(statistic(data, counts=counts))
    else:
        draws = np.ma.stack([_masked(statistic(np.repeat(data, each, axis=0))) for each in counts])
    return interval(value, draws, level=level, centred=centred)


def interval(value: MaskedArray, draws: MaskedArray, *, level: float = 0.95, centred: bool = False) -> Interval:
    """The value and the percentiles of its draws (R, ...), which are masked where they are not defined."""
    if not 0 < level < 1:
        raise RequestError(f"an interval holds a share of the draws between 0 and 1, not level={level}")
    value, draws = _masked(value), _masked(draws)
    missing = (2 * np.ma.count(draws, axis=0) < len(draws)) | np.ma.getmaskarray(value)
    numbers = np.where(missing, 0.0, draws.filled(np.nan))
    quantile = np.nanquantile if np.isnan(numbers).any() else np.quantile  # the first is much slower
    low, middle, high = quantile(numbers, [(1 - level) / 2, 0.5, (1 + level) / 2], axis=0)
    shift = value.filled(0.0) - middle if centred else 0.0
    return Interval(
        *map(_plain, (value, np.ma.array(low + shift, mask=missing), np.ma.array(high + shift, mask=missing)))
    )


def median_intervals(
    values: Float[np.ndarray, "G n"], *, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> Interval:
    """The median of each row, with its percentile interval: `bootstrap(np.median, row)` of all rows at once.

    A median is one number, or two, in the order of its row, whatever the numbers are: so places are drawn, once for
    all rows of a length. Masked where a row has no numbers.
    """
    found = np.ma.masked_all((3, len(values)))
    for rows, ordered in _by_size(values):
        n = ordered.shape[1]
        places = np.cumsum(resampled(n, resamples=resamples, seed=seed), axis=1)
        lower, upper = ((places > middle).argmax(axis=1) for middle in ((n - 1) // 2, n // 2))
        draws = (ordered[:, lower] + ordered[:, upper]) / 2
        found[:, rows] = interval(np.median(ordered, axis=1), draws.T, level=level)
    return Interval(*found)


def mean_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """The mean with its interval by Student's t: mean ± t · s / √n. A single value has none."""
    if not 0 < level < 1:
        raise RequestError(f"an interval holds a share of the draws between 0 and 1, not level={level}")
    numbers = _column("values", np.asarray(values))[:, 0]
    mean, n = float(numbers.mean()), len(numbers)
    if n < 2:
        return Interval(mean, None, None)
    half = float(scipy.stats.t.ppf((1 + level) / 2, n - 1) * numbers.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def quartiles(values: Float[np.ndarray, "G n"]) -> MaskedArray:
    """The lower quartile, the median and the upper quartile of each row: (3, G), masked where a row has no numbers."""
    found = np.ma.masked_all((3, len(values)))
    for rows, ordered in _by_size(values):
        found[:, rows] = np.quantile(ordered, [0.25, 0.5, 0.75], axis=1)
    return found


def _by_size(values: Float[np.ndarray, "G n"]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows that have equally many numbers: which they are, and those numbers in rising order."""
    values = _finite("values", values)
    sizes = np.ma.count(values, axis=1)
    ordered = np.sort(values.filled(np.inf), axis=1)
    for n in np.unique(sizes[sizes > 0]):
        rows = np.flatnonzero(sizes == n)
        yield rows, ordered[rows, :n]


# What explains a score.


def variance_explained(values: Num[np.ndarray, " N"], groups: Labels, *, counts: Counts | None = None) -> Any:
    """R² of ordinary least squares on a categorical variable (Locatello et al. 2020, Table 5): the group means.

        R² = 1 - Σ (value - mean of its group)² / Σ (value - mean)²

    From 0 to 1; None where the values are constant. With `counts`, one for each resample, masked where constant.
    """
    values = _column("values", values)[:, 0]
    drawn = np.ones((1, len(values))) if counts is None else counts.astype(float)
    group = _codes(groups, len(values))
    members = group[:, None] == np.arange(group.max() + 1)  # (N, G)
    centred = values - values.mean() if np.ptp(values) > 0 else np.zeros_like(values)
    with _one_thread():
        sizes, sums = drawn @ members, drawn @ (members * centred[:, None])  # (R, G)
    squares, offset = drawn @ centred**2, sums.sum(axis=1) ** 2 / np.maximum(drawn.sum(axis=1), 1)
    between = np.sum(sums**2 / np.maximum(sizes, 1), axis=1) - offset
    total = squares - offset
    constant = total <= 1e-12 * squares
    share = np.ma.array(np.clip(between / np.where(constant, 1.0, total), 0.0, 1.0), mask=constant)
    return _plain(share[0]) if counts is None else share


def adjusted_share(share: float | None, rows: int, groups: int) -> float | None:
    """R² without what chance gives to so many groups (Theil 1961): 0 on average where groups make no difference.

    None where each row is a group of its own, so that nothing is left to compare with.
    """
    return None if share is None or rows <= groups else 1 - (1 - share) * (rows - 1) / (rows - groups)


# How well a choice transfers.


class Tournament(NamedTuple):
    """Wins and trials of chosen settings, by the seed they were chosen on and the seed they were tried on.

    Axes: same or different metric, same or different world, seed of the choice, seed of the trial.
    """

    wins: Float[np.ndarray, "2 2 R R"]
    trials: Float[np.ndarray, "2 2 R R"]


def tournament(scores: Float[np.ndarray, "W K S R"], *, blind: bool = False) -> Tournament:
    """Every draw of Locatello et al. (2020), Table 1, at once: worlds × metrics × settings × seeds, higher is better.

    On one seed, metric and world the setting with the highest score is chosen. On another, it is compared with a
    setting drawn at random, itself included; it wins where it is better or equal. Missing scores are masked: a draw
    that meets one does not count. With `blind` the first setting is drawn at random too: what chance gives.
    """
    scores = _finite("scores", scores)
    if scores.ndim != 4 or 0 in scores.shape:
        raise RequestError(f"scores must be worlds × metrics × settings × seeds, got an array of shape {scores.shape}")
    present = (~np.ma.getmaskarray(scores)).astype(float)
    filled = scores.filled(-np.inf)
    chosen = present if blind else present * (filled == filled.max(axis=2, keepdims=True))
    chosen = chosen / np.maximum(chosen.sum(axis=2, keepdims=True), 1)  # equally good settings share the choice
    rank = scipy.stats.rankdata(filled, method="max", axis=2) - (1 - present).sum(axis=2, keepdims=True)
    beaten = present * rank / np.maximum(present.sum(axis=2, keepdims=True), 1)
    return Tournament(_cells(chosen, beaten), _cells(chosen, present))


def _cells(chosen: Float[np.ndarray, "W K S R"], tried: Float[np.ndarray, "W K S R"]) -> Float[np.ndarray, "2 2 R R"]:
    """Sums over (world, metric) pairs, by whether metric and world are the same: all pairs, less those that are."""
    both = np.einsum("wksi,wksj->ij", chosen, tried, optimize=True)
    metric = np.einsum("ksi,ksj->ij", chosen.sum(axis=0), tried.sum(axis=0), optimize=True)
    world = np.einsum("wsi,wsj->ij", chosen.sum(axis=1), tried.sum(axis=1), optimize=True)
    every = np.einsum("si,sj->ij", chosen.sum(axis=(0, 1)), tried.sum(axis=(0, 1)), optimize=True)
    return np.array([[both, metric - both], [world - both, every - metric - world + both]])


def beats_random(played: Tournament, *, counts: Counts | None = None) -> MaskedArray:
    """The probability that a chosen setting does at least as well as one drawn at random, on another seed.

    Rows: same metric, different metric; columns: same world, different world. Masked where there is no such draw. With
    `counts` of seeds, one table for each resample: (R, 2, 2).
    """
    seeds = played.wins.shape[-1]
    drawn = np.ones((1, seeds)) if counts is None else counts.astype(float)
    other = 1 - np.eye(seeds)  # a seed drawn twice is still the same seed
    wins, trials = (np.einsum("ri,abij,rj->rab", drawn, part * other, drawn, optimize=True) for part in played)
    none = trials <= 1e-9 * seeds**2
    found = np.ma.array(np.clip(wins / np.where(none, 1.0, trials), 0.0, 1.0), mask=none)
    return found[0] if counts is None else found


def probability_best(replicates: Sequence[Num[np.ndarray, " _"]]) -> Float[np.ndarray, " S"]:
    """For each setting, the probability that its run is the best when one run of each is drawn; equals share it.

        p_s = E_x [ ∫₀¹ Π_{o ≠ s} ( P(o < x) + t · P(o = x) ) dt ]    x a run of s

    where t breaks ties. The integrand is a polynomial, so Gauss-Legendre quadrature is exact.
    """
    runs = [_column(f"setting {at}", each)[:, 0] for at, each in enumerate(replicates)]
    values, place = np.unique(np.concatenate(runs), return_inverse=True)
    owner = np.repeat(np.arange(len(runs)), [len(each) for each in runs])
    equal = np.zeros((len(runs), len(values)))  # how many runs of each setting have each value
    np.add.at(equal, (owner, place.ravel()), 1)
    equal /= equal.sum(axis=1, keepdims=True)
    below = np.cumsum(equal, axis=1) - equal
    rivals = np.count_nonzero(equal, axis=0).max() - 1  # the degree of the polynomial
    nodes, weights = np.polynomial.legendre.leggauss(rivals // 2 + 1)
    return np.sum(
        [w / 2 * _all_below(below + (t + 1) / 2 * equal, equal) for t, w in zip(nodes, weights, strict=True)], 0
    )


def _all_below(below: Float[np.ndarray, "S U"], own: Float[np.ndarray, "S U"]) -> Float[np.ndarray, " S"]:
    """For each setting, the probability that all others stay below it, over its own values."""
    ones = np.ones((1, below.shape[1]))
    before = np.cumprod(np.concatenate([ones, below[:-1]]), axis=0)
    after = np.cumprod(np.concatenate([ones, below[:0:-1]]), axis=0)[::-1]
    return np.sum(own * before * after, axis=1)


# Numbers of rows: what fewer samples or fewer partners cost.


def statistical_efficiency(few: Num[np.ndarray, " N"], many: Num[np.ndarray, " N"]) -> MaskedArray:
    """Accuracy with 100 samples ÷ accuracy with 10,000, of each model (Locatello et al. 2020, section 7).

    Near 1 also where both are poor: read it beside the accuracy. Masked where many samples gave an accuracy of 0.
    """
    few, many = _column("few", few)[:, 0], _column("many", many)[:, 0]
    return np.ma.array(few / np.where(many == 0, 1.0, many), mask=many == 0)


def sample_efficiency(scores: Mapping[int, Num[np.ndarray, " N"]]) -> dict[int, float | None]:
    """How a metric's ranking of N models holds with fewer samples: its rank correlation with that of the most.

    By number of samples. Locatello et al. (2020), section 6.2, compare two runs of a metric with 100 samples, and two
    with 10,000: that is `rank_correlations(first, second)`.
    """
    if len(scores) < 2:
        raise RequestError(f"give the scores at two numbers of samples or more, got {len(scores)}")
    most = max(scores)
    return {samples: rank_correlation(scores[samples], scores[most]) for samples in sorted(scores) if samples != most}


class ByPartners(NamedTuple):
    """The rank correlation of UDR with a supervised score when each model has so many partners."""

    partners: int
    mean: float
    std: float
    draws: int  # in which it was defined


def udr_by_partners(
    pairs: Iterable[tuple[int, int, float]],
    supervised: Num[np.ndarray, " M"],
    partners: Sequence[int],
    *,
    draws: int = 100,
    seed: int = 0,
) -> list[ByPartners]:
    """Rank correlation of UDR with a supervised score, by the number P of partners (Duan et al. 2020, Table 1).

    In each draw P of a model's partners are drawn without replacement, and its UDR is the median of their pair scores
    (model, partner, score). Mean and standard deviation over draws; with all partners there is only one.
    """
    drawn = scores_by_partners(pairs, len(supervised), partners, draws=draws, seed=seed)
    return [_over_draws(p, scores, supervised) for p, scores in zip(partners, drawn, strict=True)]


def scores_by_partners(
    pairs: Iterable[tuple[int, int, float]], models: int, partners: Sequence[int], *, draws: int = 100, seed: int = 0
) -> Float[np.ndarray, "P R M"]:
    """UDR of each model in each draw of so many partners: the median of their pair scores (model, partner, score)."""
    by_model: list[list[float]] = [[] for _ in range(models)]
    for model, _, score in pairs:
        by_model[model].append(score)
    fewest = min(map(len, by_model), default=0)
    if not partners or min(partners) < 1 or max(partners) > fewest:
        raise RequestError(
            f"numbers of partners must be from 1 to {fewest}, the fewest that a model has: got {partners}"
        )
    rng = np.random.default_rng(seed)
    shuffled = [np.array([rng.permutation(each)[: max(partners)] for each in by_model]) for _ in range(draws)]  # (M, P)
    return np.array([[np.median(each[:, :p], axis=1) for each in shuffled] for p in partners])


def _over_draws(partners: int, scores: Float[np.ndarray, "R M"], supervised: np.ndarray) -> ByPartners:
    found = rank_correlations(np.asarray(scores).T, _column("supervised", supervised))[:, 0].compressed()
    if not len(found):
        raise RequestError(f"with {partners} partners all models have the same score: there is nothing to rank")
    return ByPartners(partners, float(found.mean()), float(found.std()), len(found))


# Pairs of scores.


class Paired(NamedTuple):
    """Two numbers about the same runs: medians, the median of the differences, how often the first is higher."""

    first: float
    second: float
    difference: float
    higher: float
    n: int


def paired(first: Num[np.ndarray, " N"], second: Num[np.ndarray, " N"]) -> Paired:
    """Compares two numbers run by run, as total correlations of means and of samples (Locatello et al. 2020, Figure 4).

    `higher` is the share of runs in which the first is higher; equals count half.
    """
    first, second = _column("first", first)[:, 0], _column("second", second)[:, 0]
    if len(first) != len(second):
        raise RequestError(f"paired numbers are of the same runs: got {len(first)} and {len(second)}")
    difference = first - second
    return Paired(
        first=float(np.median(first)),
        second=float(np.median(second)),
        difference=float(np.median(difference)),
        higher=float(np.mean((np.sign(difference) + 1) / 2)),
        n=len(first),
    )


class Unified(NamedTuple):
    """A score as what was estimated under what rule; the matrix of a whole metric is its own, and has no name."""

    name: str
    matrix: str
    rule: str


def unified_pairs(scores: Sequence[Unified]) -> list[tuple[str, str, str]]:
    """Pairs of scores that share a part: the matrix (Locatello et al. 2020, Figure 16) or the rule (Figure 20).

    `gbt/mig` and `gbt/sap` share a matrix; `gbt/mig` and `mi/mig` share a rule, and so does the metric `mig` itself.
    """
    rules = {score.rule for score in scores if score.matrix}
    pairs = []
    for place, one in enumerate(scores):
        for other in scores[place + 1 :]:
            if one.rule == other.rule and one.rule in rules and one.matrix != other.matrix:
                pairs.append((one.name, other.name, f"rule {one.rule}"))
            elif one.matrix and one.matrix == other.matrix:
                pairs.append((one.name, other.name, f"matrix {one.matrix}"))
    return pairs


# Arrays, checked.


def _finite(name: str, x: Num[np.ndarray, "N ..."]) -> MaskedArray:
    """As floats, with what is missing masked. What is not masked must be finite."""
    x = np.ma.asarray(x, dtype=float)
    bad = ~np.isfinite(x.filled(0.0))
    if bad.any():
        where = ", ".join(map(str, np.argwhere(bad)[0]))
        raise RequestError(f"{name}[{where}] is {x.data[tuple(np.argwhere(bad)[0])]}: mask what is missing")
    return x


def _column(name: str, x: Num[np.ndarray, " N"]) -> Float[np.ndarray, "N 1"]:
    """As a column of finite numbers, none missing and at least one there."""
    x = _finite(name, x)
    if x.ndim != 1 or not len(x):
        raise RequestError(f"{name} must be one row of numbers or more, got an array of shape {x.shape}")
    if np.ma.is_masked(x):
        raise RequestError(f"{name}[{np.flatnonzero(np.ma.getmaskarray(x))[0]}] is missing: leave it out of both")
    return x.data[:, None]


def _codes(labels: Labels, n: int) -> Int[np.ndarray, " N"]:
    """Labels as whole numbers from 0."""
    if len(labels) != n:
        raise RequestError(f"there are {n} rows and {len(labels)} labels: give one for each row")
    return np.unique(np.asarray(labels), return_inverse=True)[1].ravel()


def _masked(x: Any) -> MaskedArray:
    """None as a masked number, all else as a masked array of floats."""
    return np.ma.masked_all(()) if x is None or x is np.ma.masked else np.ma.asarray(x, dtype=float)


def _plain(x: MaskedArray) -> Any:
    """A single number as a float, or None; an array as it is."""
    if np.ndim(x):
        return x
    return None if np.ma.is_masked(x) else float(x)
