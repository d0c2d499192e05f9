"""What recurs among models, whoever trained them: the public `sober.agree`. Needs no JAX."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sober.agreement import sizes, subspaces
from sober.agreement.analysis import Analysis, analyse
from sober.agreement.consensus import Consensus, consensus
from sober.agreement.options import LEAST, LEVEL, Matching, Measure
from sober.agreement.summary import component_table, findings
from sober.errors import RequestError, counted
from sober.files import replacing, writable_folder
from sober.short_text import as_table

if TYPE_CHECKING:
    import polars as pl

TABLE, RANKING = "components.parquet", "ranking.parquet"  # files that `save` writes
SUBSPACES, SIZES, PAGE = "subspaces.parquet", "sizes.parquet", "agreement.html"


@dataclasses.dataclass(frozen=True, eq=False)
class Agreement:
    """What recurs among models: a row for each latent, a ranking of models, and the components that recur.

    `analysis` holds the arrays that everything else is made of.
    """

    analysis: Analysis

    def table(self) -> pl.DataFrame:
        """One row for each latent of each model.

        `recurrence` is the share of the other models in which the latent has a partner that is at least `least` alike;
        `low` and `high` are its interval. `chance` is the same share for features that cannot recur. `p` is the
        probability that such a feature finds partners that are as alike, `q` is p adjusted for the number of latents,
        and `recurs` says whether q is at most `level` and the latent recurs in at least half of the other models.
        `group` is the component that the latent belongs to. `partners` are its best partners in the other models.
        """
        return self.analysis.table()

    @functools.cached_property
    def components(self) -> pl.DataFrame:
        """One row for each component, which is one latent in each of several models: the most frequent first."""
        return component_table(self.analysis)

    @functools.cached_property
    def ranking(self) -> pl.DataFrame:
        """One row for each model, the model whose latents recur most first. `udr` is the UDR for this similarity."""
        return self.analysis.ranking()

    @functools.cached_property
    def subspaces(self) -> pl.DataFrame:
        """One row for each block of latents of two models that recur only together: splits, merges and subspaces."""
        return subspaces.table(self.analysis, subspaces.blocks(self.analysis))

    @functools.cached_property
    def sizes(self) -> pl.DataFrame:
        """One row for each number of latents that several models have: how many of them recur, and what more gain."""
        return sizes.sizes(self.analysis)

    @functools.cached_property
    def consensus(self) -> Consensus:
        """The components that recur, averaged after alignment: codes, directions, and a linear map to them."""
        return consensus(self.analysis)

    @functools.cached_property
    def findings(self) -> tuple[str, ...]:
        """What was found, in a few sentences."""
        return tuple(findings(self.analysis))

    def report(self, path: str | Path = "agreement.html", picture_shape: Sequence[int] | None = None) -> Path:
        """Writes everything as one HTML file that opens without a network, and returns its path.

        If directions are pictures of a `picture_shape`, (H, W) or (H, W, 3), the page draws those of the consensus.
        """
        from sober.report.agreement_page import write_agreement  # noqa: PLC0415 -- takes long to import

        if picture_shape is not None:
            self._check_shape(picture_shape)
        return write_agreement(self.analysis, Path(path), picture_shape)

    def _check_shape(self, picture_shape: Sequence[int]) -> None:
        """Refuses a shape that directions do not have."""
        dictionary = self.analysis.sources[0].dictionary
        shape = " x ".join(map(str, picture_shape))
        if dictionary is None:
            raise RequestError(f"pictures of {shape} are drawn of directions, and there are none: give dictionaries")
        if (numbers := dictionary.directions.shape[1]) != math.prod(picture_shape):
            raise RequestError(
                f"a picture of {shape} has {math.prod(picture_shape):,} numbers, and a direction {numbers:,}: give the "
                "height and width of the pictures, and 3 for colours"
            )

    def save(self, folder: str | Path, picture_shape: Sequence[int] | None = None) -> Path:
        """Writes the tables, the consensus and the page into a folder, and returns its path.

        The page draws directions that are pictures of a `picture_shape`.
        """
        path = writable_folder(Path(folder))
        frames = {TABLE: self.table(), RANKING: self.ranking, SUBSPACES: self.subspaces, SIZES: self.sizes}
        for name, frame in frames.items():
            with replacing(path / name) as temporary:
                frame.write_parquet(temporary)
        self.consensus.save(path)
        self.report(path / PAGE, picture_shape)
        return path

    def __repr__(self) -> str:
        analysis = self.analysis
        recurring = int(analysis.recurrence.recurs.sum())
        latents = counted(len(analysis.alive), "latent")
        heading = f"Agreement of {len(analysis.models)} models: {recurring:,} of {latents} recur beyond chance"
        columns = ("model", "recurrence", "chance", "similarity", "recurring", "live", "latents", "udr")
        return as_table(heading, self.ranking.select(columns).to_dicts())


def agree(
    codes: Any = None,
    dictionaries: Any = None,
    *,
    similarity: Measure | None = None,
    matching: Matching = "one-to-many",
    least: float = LEAST,
    level: float = LEVEL,
    signed: bool | None = None,
    untrained: Any = None,
    inputs: Any = None,
    rows: int | None = None,
    draws: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> Agreement:
    """Which latents recur when a model is trained again, and whether chance would give as much.

    `codes` holds the codes (N, D) of the same N rows under each model, by name: arrays of any library, sparse or
    memory-mapped; D may differ. `dictionaries` holds directions (D, P) by name, a row for each feature. Either is
    enough. `similarity` is pearson, spearman or lasso for codes, cosine for directions, and both for the weaker of
    pearson and cosine; by default, whatever was given is compared. `matching` is one-to-many, where several latents may
    share a partner, or one-to-one. A latent recurs in another model if its partner is at least `least` alike.

    `signed` says whether a negative similarity is no match; by default, it is none where no code is negative.
    `untrained` holds models that were never trained, as a further kind of chance. `inputs` are the rows (N, P) that
    were encoded: with codes and dictionaries, the ranking then says what share of their variance each model explains.
    `rows` random rows are compared if there are more. `draws` is the number of features of each kind of chance. `level`
    is the share of false discoveries to allow. `out` is a folder to write everything to.

    >>> agreement = sober.agree({"seed 0": first, "seed 1": second, "seed 2": third})
    >>> agreement.table().filter(pl.col("recurs")), agreement.ranking
    """
    analysis = analyse(
        codes,
        dictionaries,
        similarity=similarity,
        matching=matching,
        least=least,
        level=level,
        signed=signed,
        untrained=untrained,
        inputs=inputs,
        rows=rows,
        draws=draws,
        seed=seed,
    )
    agreement = Agreement(analysis)
    if out is not None:
        agreement.save(out)
    return agreement
