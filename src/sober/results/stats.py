"""Statistics of trained models: rank correlations, intervals, shares of variance, and how well a choice transfers.

Functions of arrays; their only randomness comes from a seed. Callers mask missing numbers. A statistic that is not
defined, such as the rank correlation with a constant, is None or masked, never NaN. A resample is a vector of counts:
how often each row was drawn. A statistic that takes `counts` computes all resamples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int, Num, Shaped
from numpy.ma import MaskedArray

from sober.errors import RequestError
from sober.parallel import one_thread

Values = Num[np.ndarray, "N ..."]
Labels = Shaped[np.ndarray, " N"] | Sequence[object]
Counts = Int[np.ndarray, "R N"]


# Rank correlations.


def rank_correlation(x: Num[np.ndarray, " N"], y: Num[np.ndarray, " N"]) -> float | None:
    """Spearman's rank correlation: Pearson's correlation of ranks. Equal values share the mean of their ranks.

    From -1 to 1; None if x or y is constant.
    """
    correlation = rank_correlations(_column("x", x), _column("y", y))[0, 0]
    return None if correlation is np.ma.masked else float(correlation)


def rank_correlations(
    x: Num[np.ndarray, "N A"], y: Num[np.ndarray, "N B"] | None = None, *, counts: Counts | None = None
) -> MaskedArray:
    """Spearman's rank correlation of each column of x with each column of y: (A, B), or (R, A, B) for R resamples.

    Without y, x is compared with itself. Each pair of columns is compared on the rows in which neither is masked. The
    correlation is masked if one of the two columns is constant on these rows.
    """
    x, y = _finite("x", x), _finite("y", x if y is None else y)
    if len(x) != len(y):
        raise RequestError(f"rank correlations compare rows with rows: x has {len(x)} of them and y {len(y)}")
    drawn = np.ones((1, len(x)), int) if counts is None else counts
    correlations = np.ma.masked_all((len(drawn), x.shape[1], y.shape[1]))
    for a, has_x in _by_presence(x):
        for b, has_y in _by_presence(y):
            rows = has_x & has_y
            correlations[:, a[:, None], b] = _correlated(x.data[rows][:, a], y.data[rows][:, b], drawn[:, rows])
    return correlations[0] if counts is None else correlations


def partial_rank_correlations(
    x: Num[np.ndarray, "N A"], y: Num[np.ndarray, "N B"], z: Num[np.ndarray, " N"], *, counts: Counts | None = None
) -> MaskedArray:
    """Spearman's rank correlation of each column of x with each column of y after taking out z.

        ρ(x, y | z) = (ρ(x, y) − ρ(x, z) ρ(y, z)) / √((1 − ρ(x, z)²) (1 − ρ(y, z)²))

    (A, B), or (R, A, B) for R resamples. Masked where a correlation is, or if z ranks x or y exactly.
    """
    column = np.ma.asarray(z)[:, None]
    xy, xz, yz = (rank_correlations(*pair, counts=counts) for pair in ((x, y), (x, column), (y, column)))
    yz = np.ma.swapaxes(yz, -1, -2)  # (..., 1, B)
    unexplained = (1 - xz**2) * (1 - yz**2)
    exact = np.ma.getmaskarray(unexplained) | (unexplained.filled(0.0) <= 1e-12)
    root = np.sqrt(np.where(exact, 1.0, unexplained.filled(1.0)))
    return np.ma.array(np.clip((xy - xz * yz).filled(0.0) / root, -1.0, 1.0), mask=exact | np.ma.getmaskarray(xy))


def pearson(x: Float[np.ndarray, "R S"], y: Float[np.ndarray, "R S"]) -> MaskedArray:
    """Pearson's correlation of each row of x with the same row of y, over the columns in which neither is masked: (R,).

    Masked if one of the two is constant on these columns, or if there are fewer than three of them.
    """
    x, y = _finite("x", x), _finite("y", y)
    present = (~(np.ma.getmaskarray(x) | np.ma.getmaskarray(y))).astype(float)  # 1 if both rows have this number
    n = np.maximum(present.sum(axis=1, keepdims=True), 1)
    filled = [values.filled(0.0) for values in (x, y)]
    a, b = (present * (values - (present * values).sum(axis=1, keepdims=True) / n) for values in filled)
    squares = np.stack([(a**2).sum(axis=1), (b**2).sum(axis=1)])
    size = np.stack([(present * values**2).sum(axis=1) for values in filled])
    undefined = (squares <= 1e-12 * size).any(axis=0) | (present.sum(axis=1) < 3)
    spread = np.where(undefined, 1.0, np.sqrt(squares[0] * squares[1]))
    return np.ma.array(np.clip((a * b).sum(axis=1) / spread, -1.0, 1.0), mask=undefined)


def _by_presence(x: MaskedArray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Groups of columns that are masked in the same rows, and the other rows. There are few groups, mostly one."""
    patterns, group_of_column = np.unique(np.ma.getmaskarray(x), axis=1, return_inverse=True)
    for group, pattern in enumerate(patterns.T):
        yield np.flatnonzero(group_of_column.ravel() == group), ~pattern


def _correlated(x: Float[np.ndarray, "N A"], y: Float[np.ndarray, "N B"], counts: Counts) -> MaskedArray:
    products, spread = np.empty((2, len(counts), x.shape[1], y.shape[1]))
    ranks_x, ranks_y = _ranker(x), _ranker(y)
    with one_thread():
        for resample, drawn in enumerate(counts.astype(float)):
            rx, ry = ranks_x(drawn), ranks_y(drawn)
            weighted = rx * drawn
            products[resample] = weighted @ ry.T
            spread[resample] = np.sqrt(np.outer(np.sum(weighted * rx, axis=1), ry**2 @ drawn))
    defined = spread > 0  # exactly 0 for a constant: centred ranks are multiples of a half
    return np.ma.array(np.clip(products / np.where(defined, spread, 1.0), -1.0, 1.0), mask=~defined)


def _ranker(x: Float[np.ndarray, "N K"]) -> Callable[[Float[np.ndarray, " N"]], Float[np.ndarray, "K N"]]:
    """Sorts each column once. The returned function gives a resample's ranks, minus their mean, without sorting."""
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
    """A number and its interval if the runs were drawn again: floats or None, or masked arrays."""

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

    Rows are drawn one by one, or as whole `clusters` of rows that belong together. With `within`, each group gives as
    many rows as it has, for example to draw seeds again within each setting of a grid.
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
    for members in (np.flatnonzero(group[first] == label) for label in np.unique(group)):
        m = len(members)
        drawn = rng.integers(m, size=(resamples, m)) + m * np.arange(resamples)[:, None]
        counts[:, members] = np.bincount(drawn.ravel(), minlength=resamples * m).reshape(resamples, m)
    return counts[:, unit]


def settings_then_seeds(settings: Labels, *, resamples: int = 1000, seed: int = 0) -> Counts:
    """How often each run is drawn in each resample that draws settings, and then runs within each drawn setting.

    Runs of one setting are alike, so runs that are drawn one by one vary too little to say what other settings would
    give. A setting that is drawn twice draws its runs anew each time. If each setting has one run, this is `resampled`.
    """
    setting = _codes(settings, len(settings))
    sizes = np.bincount(setting)
    times = resampled(len(sizes), resamples=resamples, seed=seed)
    rng = np.random.default_rng([seed, 1])
    counts = np.zeros((resamples, len(setting)), np.int32)
    for label, size in enumerate(sizes):
        counts[:, setting == label] = rng.multinomial(times[:, label] * size, np.full(size, 1 / size))
    return counts


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

    A `weighted` statistic is called once for all resamples, as `statistic(data, counts=...)`. Resamples in which the
    statistic is not defined are left out. If fewer than half are left, there is no interval. `centred` moves the
    interval so that its median is the value. It is for statistics that repeated rows bias, such as R².
    """
    counts = resampled(len(data), clusters=clusters, within=within, resamples=resamples, seed=seed)
    value = _masked(statistic(data))
    if weighted:
        draws = _masked(statistic(data, counts=counts))
    else:
        draws = np.ma.stack([_masked(statistic(np.repeat(data, repeats, axis=0))) for repeats in counts])
    return interval(value, draws, level=level, centred=centred)


def interval(value: MaskedArray, draws: MaskedArray, *, level: float = 0.95, centred: bool = False) -> Interval:
    """The value with percentiles of its draws (R, ...). Draws in which the statistic is not defined are masked."""
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
    """The median of each row, with its percentile interval: `bootstrap(np.median, row)` for all rows at once.

    The median of a sorted row is at one or two places that do not depend on its numbers. So places are drawn, once for
    all rows with equally many numbers. Masked if a row has no numbers.
    """
    intervals = np.ma.masked_all((3, len(values)))  # value, low, high
    for rows, ordered in _by_size(values):
        n = ordered.shape[1]
        places = np.cumsum(resampled(n, resamples=resamples, seed=seed), axis=1)
        lower, upper = ((places > middle).argmax(axis=1) for middle in ((n - 1) // 2, n // 2))
        draws = (ordered[:, lower] + ordered[:, upper]) / 2
        intervals[:, rows] = interval(np.median(ordered, axis=1), draws.T, level=level)
    return Interval(*intervals)


def mean_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """The mean with its interval by Student's t: mean ± t · s / √n. A single value has no interval."""
    if not 0 < level < 1:
        raise RequestError(f"an interval holds a share of the draws between 0 and 1, not level={level}")
    numbers = _column("values", np.asarray(values))[:, 0]
    mean, n = float(numbers.mean()), len(numbers)
    if n < 2:
        return Interval(mean, None, None)
    half = float(scipy.stats.t.ppf((1 + level) / 2, n - 1) * numbers.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def quartiles(values: Float[np.ndarray, "G n"]) -> MaskedArray:
    """The lower quartile, the median and the upper quartile of each row: (3, G), masked if a row has no numbers."""
    quantiles = np.ma.masked_all((3, len(values)))
    for rows, ordered in _by_size(values):
        quantiles[:, rows] = np.quantile(ordered, [0.25, 0.5, 0.75], axis=1)
    return quantiles


def _by_size(values: Float[np.ndarray, "G n"]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Groups of rows with equally many numbers: the places of the rows, and their numbers in rising order."""
    values = _finite("values", values)
    sizes = np.ma.count(values, axis=1)
    ordered = np.sort(values.filled(np.inf), axis=1)
    for n in np.unique(sizes[sizes > 0]):
        rows = np.flatnonzero(sizes == n)
        yield rows, ordered[rows, :n]


# How much of a score a variable explains.


def variance_explained(values: Num[np.ndarray, " N"], groups: Labels, *, counts: Counts | None = None) -> Any:
    """R² of ordinary least squares on a categorical variable, which predicts group means.

        R² = 1 - Σ (value - mean of its group)² / Σ (value - mean)²

    From 0 to 1; None if the values are constant (Locatello et al. 2020, Table 5). With `counts`, one R² for each
    resample, masked if the values in it are constant.
    """
    values = _column("values", values)[:, 0]
    drawn = np.ones((1, len(values))) if counts is None else counts.astype(float)
    group = _codes(groups, len(values))
    members = group[:, None] == np.arange(group.max() + 1)  # (N, G)
    centred = values - values.mean() if np.ptp(values) > 0 else np.zeros_like(values)
    with one_thread():
        sizes, sums = drawn @ members, drawn @ (members * centred[:, None])  # (R, G)
    squares, offset = drawn @ centred**2, sums.sum(axis=1) ** 2 / np.maximum(drawn.sum(axis=1), 1)
    between = np.sum(sums**2 / np.maximum(sizes, 1), axis=1) - offset
    total = squares - offset
    constant = total <= 1e-12 * squares
    share = np.ma.array(np.clip(between / np.where(constant, 1.0, total), 0.0, 1.0), mask=constant)
    return _plain(share[0]) if counts is None else share


def adjusted_share(share: float | None, rows: int, groups: int) -> float | None:
    """R² corrected for the number of groups (Theil 1961): 0 on average if groups make no difference.

    None if there are no more rows than groups.
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

    For one seed, metric and world, the setting with the highest score is chosen. For a second seed, metric and world,
    it is compared with a setting drawn at random, possibly itself; it wins if it is better or equal. A draw with a
    missing (masked) score does not count. With `blind`, the first setting is drawn at random too, so it wins by chance.
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
    """Sums over pairs of a choice and a trial: by same or different metric, and same or different world.

    A sum over pairs that differ is the sum over all pairs minus the sum over equal ones.
    """
    same_both = np.einsum("wksi,wksj->ij", chosen, tried, optimize=True)
    same_metric = np.einsum("ksi,ksj->ij", chosen.sum(axis=0), tried.sum(axis=0), optimize=True)
    same_world = np.einsum("wsi,wsj->ij", chosen.sum(axis=1), tried.sum(axis=1), optimize=True)
    all_pairs = np.einsum("si,sj->ij", chosen.sum(axis=(0, 1)), tried.sum(axis=(0, 1)), optimize=True)
    other_both = all_pairs - same_metric - same_world + same_both
    return np.array([[same_both, same_metric - same_both], [same_world - same_both, other_both]])


def beats_random(played: Tournament, *, counts: Counts | None = None) -> MaskedArray:
    """The probability that a chosen setting does at least as well as one drawn at random, on another seed.

    Rows: same metric, different metric; columns: same world, different world. Masked if there is no such draw. With
    `counts` of seeds, one such table for each resample: (R, 2, 2).
    """
    seeds = played.wins.shape[-1]
    drawn = np.ones((1, seeds)) if counts is None else counts.astype(float)
    other = 1 - np.eye(seeds)  # a seed drawn twice is still the same seed
    wins, trials = (np.einsum("ri,abij,rj->rab", drawn, cells * other, drawn, optimize=True) for cells in played)
    none = trials <= 1e-9 * seeds**2
    probabilities = np.ma.array(np.clip(wins / np.where(none, 1.0, trials), 0.0, 1.0), mask=none)
    return probabilities[0] if counts is None else probabilities


def probability_best(replicates: Sequence[Num[np.ndarray, " _"]]) -> Float[np.ndarray, " S"]:
    """For each setting, the probability that its run is the best if one run of each is drawn. Equal runs share it.

        p_s = E_x [ ∫₀¹ Π_{o ≠ s} ( P(o < x) + t · P(o = x) ) dt ]    x a run of s

    where t breaks ties. The integrand is a polynomial, so Gauss-Legendre quadrature is exact.
    """
    runs = [_column(f"setting {setting}", scores)[:, 0] for setting, scores in enumerate(replicates)]
    values, place = np.unique(np.concatenate(runs), return_inverse=True)
    owner = np.repeat(np.arange(len(runs)), [len(scores) for scores in runs])
    equal = np.zeros((len(runs), len(values)))  # how many runs of each setting have each value
    np.add.at(equal, (owner, place.ravel()), 1)
    equal /= equal.sum(axis=1, keepdims=True)
    below = np.cumsum(equal, axis=1) - equal
    rivals = np.count_nonzero(equal, axis=0).max() - 1  # the degree of the polynomial
    nodes, weights = np.polynomial.legendre.leggauss(rivals // 2 + 1)
    return np.sum(
        [w / 2 * _all_below(below + (t + 1) / 2 * equal, equal) for t, w in zip(nodes, weights, strict=True)], 0
    )


def _all_below(below: Float[np.ndarray, "S U"], equal: Float[np.ndarray, "S U"]) -> Float[np.ndarray, " S"]:
    """For each setting, the probability that all other settings are below it, over its U values."""
    ones = np.ones((1, below.shape[1]))
    before = np.cumprod(np.concatenate([ones, below[:-1]]), axis=0)
    after = np.cumprod(np.concatenate([ones, below[:0:-1]]), axis=0)[::-1]
    return np.sum(equal * before * after, axis=1)


# How results change with fewer samples or fewer partners.


def statistical_efficiency(few: Num[np.ndarray, " N"], many: Num[np.ndarray, " N"]) -> MaskedArray:
    """Accuracy with 100 samples ÷ accuracy with 10,000, of each model (Locatello et al. 2020, section 7).

    Also near 1 if both accuracies are poor: read it beside the accuracy. Masked if many samples gave an accuracy of 0.
    """
    few, many = _column("few", few)[:, 0], _column("many", many)[:, 0]
    return np.ma.array(few / np.where(many == 0, 1.0, many), mask=many == 0)


def sample_efficiency(scores: Mapping[int, Num[np.ndarray, " N"]]) -> dict[int, float | None]:
    """By number of samples, how well a metric ranks N models: the rank correlation with its scores from most samples.

    Locatello et al. (2020), section 6.2, instead compare two runs of a metric with 100 samples, and two with 10,000:
    use `rank_correlations(first, second)` for that.
    """
    if len(scores) < 2:
        raise RequestError(f"give the scores at two numbers of samples or more, got {len(scores)}")
    most = max(scores)
    return {samples: rank_correlation(scores[samples], scores[most]) for samples in sorted(scores) if samples != most}


class ByPartners(NamedTuple):
    """The rank correlation of UDR with a supervised score, if each model has this number of partners."""

    partners: int
    mean: float
    std: float
    draws: int  # draws in which the rank correlation is defined


def udr_by_partners(
    pairs: Iterable[tuple[int, int, float]],
    supervised: Num[np.ndarray, " M"],
    partners: Sequence[int],
    *,
    draws: int = 100,
    seed: int = 0,
) -> list[ByPartners]:
    """Rank correlation of UDR with a supervised score, by the number P of partners (Duan et al. 2020, Table 1).

    In each draw, P of a model's partners are drawn without replacement. Its UDR is the median of their pair scores
    (model, partner, score). Mean and standard deviation are over draws; with all partners, all draws are the same.
    """
    drawn = scores_by_partners(pairs, len(supervised), partners, draws=draws, seed=seed)
    return [_over_draws(p, scores, supervised) for p, scores in zip(partners, drawn, strict=True)]


def scores_by_partners(
    pairs: Iterable[tuple[int, int, float]], models: int, partners: Sequence[int], *, draws: int = 100, seed: int = 0
) -> Float[np.ndarray, "P R M"]:
    """UDR of each model by number of partners and draw: the median of the pair scores (model, partner, score)."""
    by_model: list[list[float]] = [[] for _ in range(models)]
    for model, _, score in pairs:
        by_model[model].append(score)
    fewest = min(map(len, by_model), default=0)
    if not partners or min(partners) < 1 or max(partners) > fewest:
        raise RequestError(
            f"numbers of partners must be from 1 to {fewest}, the fewest that a model has: got {partners}"
        )
    rng = np.random.default_rng(seed)
    most = max(partners)
    shuffled = [np.array([rng.permutation(scores)[:most] for scores in by_model]) for _ in range(draws)]  # (M, P)
    return np.array([[np.median(scores[:, :p], axis=1) for scores in shuffled] for p in partners])


def _over_draws(partners: int, scores: Float[np.ndarray, "R M"], supervised: np.ndarray) -> ByPartners:
    correlations = rank_correlations(np.asarray(scores).T, _column("supervised", supervised))[:, 0].compressed()
    if not len(correlations):
        raise RequestError(f"with {partners} partners all models have the same score: there is nothing to rank")
    return ByPartners(partners, float(correlations.mean()), float(correlations.std()), len(correlations))


# Pairs of scores.


class Paired(NamedTuple):
    """Two numbers about the same runs: their medians, the median difference, and how often the first is higher."""

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
    """A score by its matrix and its rule. A metric that is no unified score has no matrix here (an empty name)."""

    name: str
    matrix: str
    rule: str


def unified_pairs(scores: Sequence[Unified]) -> list[tuple[str, str, str]]:
    """Pairs of scores that share their matrix (Locatello et al. 2020, Figure 16) or their rule (Figure 20).

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


# Checks of arrays.


def _finite(name: str, x: Num[np.ndarray, "N ..."]) -> MaskedArray:
    """The array as floats, with its mask. Numbers that are not masked must be finite."""
    x = np.ma.asarray(x, dtype=float)
    bad = ~np.isfinite(x.filled(0.0))
    if bad.any():
        where = ", ".join(map(str, np.argwhere(bad)[0]))
        raise RequestError(f"{name}[{where}] is {x.data[tuple(np.argwhere(bad)[0])]}: mask what is missing")
    return x


def _column(name: str, x: Num[np.ndarray, " N"]) -> Float[np.ndarray, "N 1"]:
    """The array as a column. It must have at least one number; all must be finite, and none masked."""
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
    """None as a masked number; anything else as a masked array of floats."""
    return np.ma.masked_all(()) if x is None or x is np.ma.masked else np.ma.asarray(x, dtype=float)


def _plain(x: MaskedArray) -> Any:
    """A single number as a float, or None if it is masked; an array unchanged."""
    if np.ndim(x):
        return x
    return None if np.ma.is_masked(x) else float(x)
