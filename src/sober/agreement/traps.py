"""What can make a latent look as if it recurs, or as if it does not: a flag for each, with a sentence for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import scipy.spatial
from jaxtyping import Bool, Float

from sober.agreement.chance import Model
from sober.agreement.columns import Columns, products
from sober.agreement.partners import Partners

FLAGS: Mapping[str, str] = {
    "constant": "the latent never varies, so it takes no part",
    "uninformative": "its KL is at most 0.01 nats, so it takes no part",
    "duplicate": "another latent of its model is the same: both recur together, and count twice",
    "tie": "two latents of another model are equally good partners",
    "trivial": "it follows the mean or the length of its row, or the mean direction, which every model may have",
    "few_rows": "fewer than 30 rows carry its variance: its correlations rest on them; try spearman, or more rows",
}
SAME = 0.999  # similarity of duplicates, and how near the second best partner of a tie is to the best
TRIVIAL = 0.95  # similarity with the mean or the length of a row
FEW_ROWS = 30.0
WIDEST_TRIVIAL = 8  # with fewer live latents, one of them may well be most of its row
PROJECTIONS = 16  # numbers that stand for a column while duplicates are looked for


def flags(models: list[Model], partners: Partners, least: float) -> dict[str, Bool[np.ndarray, " F"]]:
    """For each flag, which of all features have it."""
    strength = np.abs(partners.similarity)
    ties = (
        (strength[:, :, 0] >= least) & (strength[:, :, 1] >= SAME * strength[:, :, 0]) if strength.shape[2] > 1 else 0
    )
    by_flag = {
        "constant": np.concatenate([~model.facts.alive & model.facts.constant for model in models]),
        "uninformative": np.concatenate([~model.facts.alive & ~model.facts.constant for model in models]),
        "duplicate": np.concatenate([duplicates(model) for model in models]),
        "tie": np.any(ties, axis=1) if strength.shape[2] > 1 else np.zeros(len(strength), bool),
        "trivial": np.concatenate([trivial(model) for model in models]),
        "few_rows": np.concatenate([model.facts.effective < FEW_ROWS for model in models]),
    }
    alive = np.concatenate([model.facts.alive for model in models])
    return {name: flag if name in ("constant", "uninformative") else flag & alive for name, flag in by_flag.items()}


def duplicates(model: Model) -> Bool[np.ndarray, " D"]:
    """Latents that another latent of the model repeats, up to sign and scale.

    A few random sums of each column, which near columns share, say which pairs to look at.
    """
    result = np.zeros(len(model.facts.alive), bool)
    alive = np.flatnonzero(model.facts.alive)
    sketch = _sketch(model.parts[0])[alive]
    largest = np.abs(sketch).argmax(axis=1)
    sketch *= np.sign(sketch[np.arange(len(alive)), largest])[:, None] if len(alive) else 1
    radius = 3 * np.sqrt(PROJECTIONS * 2 * (1 - SAME))
    for first, second in _near(sketch, radius):
        a, b = alive[first], alive[second]
        alike = min(abs(_similarity(columns, a, b)) for columns in model.parts)
        if alike >= SAME:
            result[a] = result[b] = True
    return result


def _near(sketch: Float[np.ndarray, "n s"], radius: float) -> Iterator[tuple[int, int]]:
    """Pairs of near points; of many equal ones, each with its neighbour only."""
    if len(sketch) < 2:
        return
    distance, neighbour = scipy.spatial.cKDTree(sketch).query(sketch, k=2, distance_upper_bound=radius)
    for point in np.flatnonzero(np.isfinite(distance[:, 1])):
        other = neighbour[point, 1] if neighbour[point, 1] != point else neighbour[point, 0]
        yield int(point), int(other)


def _sketch(columns: Columns) -> Float[np.ndarray, "D s"]:
    rng = np.random.default_rng(0)
    random = rng.standard_normal((columns.shape[0], PROJECTIONS))
    sketch = np.zeros((columns.shape[1], PROJECTIONS))
    if columns.is_sparse:
        sketch = columns.values.T @ random - np.outer(columns.shift, random.sum(axis=0)) / np.sqrt(len(random))
        return np.asarray(sketch)
    for start in range(0, len(random), 4_096):
        rows = slice(start, start + 4_096)
        sketch += columns.read(rows, slice(None)).T @ random[rows]
    return sketch


def _similarity(columns: Columns, first: int, second: int) -> float:
    a, b = (columns.only(np.array([number])) for number in (first, second))
    return float(products(a, slice(0, 1), b)[0, 0])


def trivial(model: Model) -> Bool[np.ndarray, " D"]:
    """Latents that follow what every model may have: the mean or the length of a row, or the mean of all directions."""
    alive = model.facts.alive
    result = np.zeros(len(alive), bool)
    if alive.sum() < WIDEST_TRIVIAL:
        return result
    if model.features.dictionary is not None:
        directions = model.parts[-1].values.T  # of length 1
        mean = directions[alive].mean(axis=0)
        result |= np.abs(directions @ mean) >= TRIVIAL * max(float(np.linalg.norm(mean)), 1e-12)
    if model.features.codes is not None:
        columns = model.parts[0]
        for line in _shared_lines(columns, alive):
            length = np.linalg.norm(line)
            if length > 0:
                result |= np.abs(_correlations(columns, line / length)) >= TRIVIAL
    return result & alive


def _correlations(columns: Columns, line: Float[np.ndarray, " N"]) -> Float[np.ndarray, " D"]:
    """The correlation of each column with a centred line of length 1."""
    if columns.is_sparse:
        return np.asarray(columns.values.T @ line)
    alike = np.zeros(columns.shape[1])
    for start in range(0, len(line), 4_096):
        rows = slice(start, start + 4_096)
        alike += columns.read(rows, slice(None)).T @ line[rows]
    return alike


def _shared_lines(columns: Columns, alive: Bool[np.ndarray, " D"]) -> list[np.ndarray]:
    """The mean and the length of each row, centred, so that a product with a column is a correlation."""
    if columns.is_sparse:
        means = np.asarray(columns.values.sum(axis=1)).ravel()
        squares = np.asarray(columns.values.multiply(columns.values).sum(axis=1)).ravel()
    else:
        blocks = [
            columns.read(slice(start, start + 4_096), slice(None))[:, alive]
            for start in range(0, columns.shape[0], 4_096)
        ]
        means = np.concatenate([block.sum(axis=1) for block in blocks])
        squares = np.concatenate([(block**2).sum(axis=1) for block in blocks])
    lengths = np.sqrt(np.maximum(squares, 0))
    return [line - line.mean() for line in (means, lengths)]
