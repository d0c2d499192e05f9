"""Latents that recur only together: splits, merges, and subspaces whose axes differ from model to model.

Between two models, a latent is settled if it and its partner are each other's best and nearly equal. Links between all
other latents that are somewhat alike make blocks. The canonical correlations of a block compare its two spans. A
block recurs together if their mean square is at least one half, and clearly more than its latents reach alone. Chance
is the same number for random subspaces of as many dimensions.

    one latent with several    split (several latents with one: merge)
    several with several       subspace
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from jaxtyping import Float, Int

from sober.agreement.analysis import Analysis
from sober.agreement.columns import products
from sober.short_text import as_call

if TYPE_CHECKING:
    import polars as pl

SETTLED = 0.9  # similarity of latents that need no others
WEAK = 0.3  # similarity of latents that may belong to one block
TOGETHER, GAIN = 0.5, 0.1  # mean squared canonical correlation of a block, and how much more it is than alone
LARGEST = 16  # latents of one model in a block
DRAWS = 200  # random subspaces
WIDEST = 512  # live latents of a model up to this number have random subspaces


class Block(NamedTuple):
    """Latents of two models that span the same space."""

    kind: str  # split, merge or subspace
    models: tuple[int, int]
    latents: tuple[Int[np.ndarray, " p"], Int[np.ndarray, " q"]]
    canonical: Float[np.ndarray, " r"]  # correlations of the two spans, the largest first
    alone: float  # the mean squared similarity of best partners, on the smaller side
    p: float  # the share of random subspaces that are as alike; NaN for wide models

    @property
    def together(self) -> float:
        return float(np.mean(self.canonical**2))

    def __repr__(self) -> str:
        return as_call(self)


def blocks(analysis: Analysis, seed: int = 0) -> list[Block]:
    """All blocks of all pairs of models, the most alike first."""
    rng = np.random.default_rng([seed, 7])
    result = []
    for first in range(len(analysis.models)):
        for second in range(first + 1, len(analysis.models)):
            result += _between(analysis, first, second, rng)
    return sorted(result, key=lambda block: -block.together)


def table(analysis: Analysis, all_blocks: list[Block]) -> pl.DataFrame:
    """One row for each block."""
    import polars as pl  # noqa: PLC0415 -- takes long to import

    rows = [
        {
            "kind": block.kind,
            "model": analysis.names[block.models[0]],
            "latents": block.latents[0].tolist(),
            "other": analysis.names[block.models[1]],
            "other_latents": block.latents[1].tolist(),
            "together": block.together,
            "alone": block.alone,
            "p": None if np.isnan(block.p) else block.p,
            "canonical": block.canonical.tolist(),
        }
        for block in all_blocks
    ]
    integers, numbers = pl.List(pl.Int64), pl.List(pl.Float64)
    schema: Any = {
        "kind": pl.String, "model": pl.String, "latents": integers, "other": pl.String, "other_latents": integers,
        "together": pl.Float64, "alone": pl.Float64, "p": pl.Float64, "canonical": numbers,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema)


def _between(analysis: Analysis, first: int, second: int, rng: np.random.Generator) -> list[Block]:
    partners, alive = analysis.partners, analysis.alive
    spans = [slice(partners.start[model], partners.start[model + 1]) for model in (first, second)]
    links = [
        (partners.place[spans[side], other], np.abs(partners.similarity[spans[side], other]))
        for side, other in ((0, second), (1, first))
    ]
    open_latents = [alive[spans[side]] & ~_settled(links[side], links[1 - side]) for side in (0, 1)]
    sizes = [len(latents) for latents in open_latents]
    edges = []
    for side in (0, 1):
        place, strength = links[side]
        latent, rank = np.nonzero((strength >= WEAK) & (place >= 0) & open_latents[side][:, None])
        partner = place[latent, rank]
        is_open = open_latents[1 - side][partner]
        pair = (latent[is_open], partner[is_open]) if side == 0 else (partner[is_open], latent[is_open])
        edges.append(np.stack(pair))
    rows, columns = np.concatenate(edges, axis=1)
    graph = scipy.sparse.coo_array((np.ones(len(rows)), (rows, sizes[0] + columns)), (sum(sizes), sum(sizes)))
    _, component = scipy.sparse.csgraph.connected_components(graph, directed=False)
    result = []
    for number in np.unique(component[rows]):
        members = np.flatnonzero(component == number)
        latents = members[members < sizes[0]], members[members >= sizes[0]] - sizes[0]
        if len(members) > 2 and max(map(len, latents)) <= LARGEST:
            block = _block(analysis, (first, second), latents, links, rng)
            if block is not None:
                result.append(block)
    return result


def _settled(links: tuple[np.ndarray, np.ndarray], back: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    place, strength = links[0][:, 0], links[1][:, 0]
    return (strength >= SETTLED) & (back[0][place, 0] == np.arange(len(place)))


def _block(
    analysis: Analysis,
    models: tuple[int, int],
    latents: tuple[np.ndarray, np.ndarray],
    links: list,
    rng: np.random.Generator,
) -> Block | None:
    parts = [analysis.models[model].parts[0] for model in models]
    chosen = [columns.only(numbers) for columns, numbers in zip(parts, latents, strict=True)]
    everything = slice(None)
    inner = [np.asarray(products(columns, everything, columns), float) for columns in chosen]
    cross = np.asarray(products(chosen[0], everything, chosen[1]), float)
    canonical = canonical_correlations(inner[0], inner[1], cross)
    side = 0 if len(latents[0]) <= len(latents[1]) else 1
    alone = float(np.mean(links[side][1][latents[side], 0] ** 2))
    sizes = len(latents[0]), len(latents[1])
    kind = "split" if sizes[0] == 1 else "merge" if sizes[1] == 1 else "subspace"
    block = Block(kind, models, latents, canonical, alone, np.nan)
    if block.together < TOGETHER or block.together < alone + GAIN:
        return None
    return block._replace(p=_chance(analysis, models, sizes, block.together, rng))


def canonical_correlations(
    first: Float[np.ndarray, "p p"], second: Float[np.ndarray, "q q"], cross: Float[np.ndarray, "p q"]
) -> Float[np.ndarray, " r"]:
    """The cosines of the canonical angles of two spans, from the products of their columns."""
    values = np.linalg.svd(_inverse_root(first) @ cross @ _inverse_root(second), compute_uv=False)
    return np.clip(values, 0, 1)


def _inverse_root(products_within: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
    """M with M M' the inverse of a table of products; directions that hardly vary are left out."""
    values, vectors = np.linalg.eigh(products_within)
    varies = values > 1e-8 * max(float(values[-1]), 1e-300)
    return (vectors[:, varies] / np.sqrt(values[varies])) @ vectors[:, varies].T


def _chance(
    analysis: Analysis, models: tuple[int, int], sizes: tuple[int, int], together: float, rng: np.random.Generator
) -> float:
    """The share of random subspaces of both models, of as many dimensions, that are as alike."""
    live = [np.flatnonzero(analysis.models[model].facts.alive) for model in models]
    if max(map(len, live)) > WIDEST:
        return float("nan")
    whole_models = [analysis.models[model].parts[0].only(numbers) for model, numbers in zip(models, live, strict=True)]
    roots = [_inverse_root(np.asarray(products(columns, slice(None), columns), float)) for columns in whole_models]
    cross = roots[0] @ np.asarray(products(whole_models[0], slice(None), whole_models[1]), float) @ roots[1]
    spans = [np.linalg.qr(rng.standard_normal((DRAWS, cross.shape[side], sizes[side])))[0] for side in (0, 1)]
    values = np.linalg.svd(np.swapaxes(spans[0], 1, 2) @ cross @ spans[1], compute_uv=False)
    as_alike = int((np.mean(values**2, axis=1) >= together - 1e-9).sum())
    return (1 + as_alike) / (1 + DRAWS)
