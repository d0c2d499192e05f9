"""The whole comparison of several models: partners, chance, recurrence and components, as one value."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Int

from sober.agreement import lassos
from sober.agreement.chance import DRAWS, Chance, Finder, Model, chance, draws_per_model, finder, untrained_chance
from sober.agreement.columns import EXACT, of_codes, of_directions
from sober.agreement.features import (
    FEWEST_ROWS,
    Features,
    Statistics,
    as_features,
    by_name,
    reference_model,
    statistics,
)
from sober.agreement.groups import groups
from sober.agreement.matching import Matches, one_to_many, one_to_one
from sober.agreement.options import LEAST, LEVEL, Matching, Measure
from sober.agreement.partners import KEPT, Partners, panels, search
from sober.agreement.quality import explained_shares
from sober.agreement.ranking import pair_means, shares_recurring, udr_scores
from sober.agreement.recurrence import Recurrence, recurrence
from sober.agreement.traps import flags
from sober.contracts import is_real, one_of, whole_number
from sober.errors import RequestError, counted, shown

if TYPE_CHECKING:
    import polars as pl

MOST_DRAWS = 10**6  # features of each kind of chance


@dataclasses.dataclass(frozen=True, eq=False)
class Analysis:
    """What recurs among M models with F features in all."""

    models: tuple[Model, ...]
    measure: Measure
    matching: Matching
    signed: bool
    least: float
    level: float
    partners: Partners
    matches: Matches
    chances: tuple[Chance, ...]
    recurrence: Recurrence
    group: Int[np.ndarray, " F"]  # the component of each feature; -1 for features without one
    udr: Float[np.ndarray, " M"]
    sources: tuple[Features, ...]  # the models as they were given, also what the measure does not compare
    explained: Float[np.ndarray, " M"] | None = None  # the share of the inputs' variance in each reconstruction

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(model.features.name for model in self.models)

    @functools.cached_property
    def alive(self) -> Bool[np.ndarray, " F"]:
        return np.concatenate([model.facts.alive for model in self.models])

    @property
    def rows(self) -> int | None:
        codes = self.models[0].features.codes
        return None if codes is None else int(codes.shape[0])

    def __repr__(self) -> str:
        return f"Analysis({counted(len(self.models), 'model')}, {int(self.recurrence.recurs.sum()):,} features recur)"

    def of_features(self, name: str) -> np.ndarray:
        """A field of the models' statistics, for all features one after the other."""
        return np.concatenate([getattr(model.facts, name) for model in self.models])

    def table(self) -> pl.DataFrame:
        """One row for each latent of each model, in the order of the models."""
        import polars as pl  # noqa: PLC0415 -- takes long to import

        recurs, model = self.recurrence, self.partners.model
        variance = self.of_features("variance")
        total = np.bincount(model, variance, len(self.models))[model]
        names = np.array(self.names, dtype=object)
        same_model = np.zeros(self.matches.place.shape, bool)
        same_model[np.arange(len(model)), model] = True
        columns: dict[str, Any] = {
            "model": pl.Series(names[model].tolist(), dtype=pl.String),
            "latent": np.arange(len(model)) - self.partners.start[model],
            "recurrence": recurs.share,
            "low": recurs.low,
            "high": recurs.high,
            "chance": recurs.chance,
            "p": recurs.p,
            "q": recurs.q,
            "recurs": recurs.recurs,
            "similarity": recurs.similarity,
            "chance_similarity": recurs.chance_similarity,
            "group": pl.Series([None if group < 0 else int(group) for group in self.group], dtype=pl.Int64),
            "variance_share": np.divide(variance, total, out=np.zeros_like(variance), where=total > 0),
            "flags": self._flag_lists(),
            "firing_rate": pl.Series(self.of_features("firing")).fill_nan(None),
            "partners": [self.matches.place[feature, ~same_model[feature]].tolist() for feature in range(len(model))],
            "partner_similarity": [
                self.matches.similarity[feature, ~same_model[feature]].tolist() for feature in range(len(model))
            ],
        }
        return pl.DataFrame(columns)

    @functools.cached_property
    def flags(self) -> Mapping[str, Bool[np.ndarray, " F"]]:
        """For each trap, which features are in it."""
        return flags(list(self.models), self.partners, self.least)

    def _flag_lists(self) -> pl.Series:
        import polars as pl  # noqa: PLC0415

        lists: list[list[str]] = [[] for _ in self.alive]
        for name, flagged in self.flags.items():
            for feature in np.flatnonzero(flagged):
                lists[feature].append(name)
        return pl.Series(lists, dtype=pl.List(pl.String))

    def ranking(self) -> pl.DataFrame:
        """One row for each model, the model whose latents recur most first."""
        import polars as pl  # noqa: PLC0415

        model, alive = self.partners.model, self.alive
        live = np.bincount(model[alive], minlength=len(self.models))
        recurring = np.bincount(model[self.recurrence.recurs], minlength=len(self.models))
        means = [
            np.bincount(model[alive], field[alive], len(self.models)) / np.maximum(live, 1)
            for field in (self.recurrence.share, self.recurrence.similarity, self.recurrence.chance)
        ]
        frame = pl.DataFrame(
            {
                "model": list(self.names),
                "recurrence": means[0],
                "chance": means[2],
                "similarity": means[1],
                "recurring": recurring,
                "live": live,
                "latents": np.diff(self.partners.start),
                "active_per_row": [_active_per_row(model.facts) for model in self.models],
                "udr": self.udr,
            }
        )
        if self.explained is not None:
            frame = frame.with_columns(pl.Series("explained", self.explained))
        return frame.sort(["recurrence", "similarity"], descending=True, maintain_order=True)

    def pair_means(self) -> Float[np.ndarray, "M M"]:
        return pair_means(self.matches, self.partners, self.alive)

    def shares_recurring(self) -> Float[np.ndarray, "M M"]:
        return shares_recurring(self.matches, self.partners, self.alive, self.least)


def _active_per_row(facts: Statistics) -> float | None:
    """How many features fire in a row on average; None where codes do not fire."""
    total = float(facts.firing.sum())
    return total if facts.one_sided and not np.isnan(total) else None


def analyse(
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
) -> Analysis:
    """The analysis of `sober.agree`, whose arguments these are."""
    sources = as_features(codes, dictionaries)
    features = sources
    measure = _measure(similarity, features)
    one_of("matching", matching, get_args(Matching))
    if not is_real(least) or not 0 < least <= 1:
        raise RequestError(f"least must be a share above 0 and at most 1, not {shown(least)}")
    if not is_real(level) or not 0 < level < 1:
        raise RequestError(f"level must be a share above 0 and below 1, not {shown(level)}")
    if signed is not None and not isinstance(signed, bool | np.bool_):
        raise RequestError(f"signed must be True or False, or None to look at the codes, not {shown(signed)}")
    seed = whole_number("seed", seed)
    rows = None if rows is None else whole_number("rows", rows, least=FEWEST_ROWS, example=10_000)
    draws = None if draws is None else whole_number("draws", draws, least=1, most=MOST_DRAWS, example=DRAWS)
    features = [_of_rows(model, measure, rows, seed) for model in features]
    facts_of_models = [statistics(model) for model in features]
    dtype = np.float64 if _numbers(features, measure) <= EXACT else np.float32
    models = [_model(model, facts, measure, dtype) for model, facts in zip(features, facts_of_models, strict=True)]
    alive = np.concatenate([facts.alive for facts in facts_of_models])
    signed = all(facts.one_sided for facts in facts_of_models) if signed is None else signed
    find: Finder
    if measure == "lasso":
        dense = [_dense(model) for model in features]
        partners, udr = lassos.search(dense, [facts.alive for facts in facts_of_models], seed, KEPT)
        order = np.random.default_rng(seed).permutation(len(dense[0]))[: lassos.ROWS_OF_LASSOS]
        find, usual_draws = lassos.finder(dense, order), lassos.DRAWS
    else:
        all_panels = panels([model.parts for model in models])
        partners = search(all_panels, signed=signed)
        udr = udr_scores(partners, alive)
        find, usual_draws = finder(all_panels, signed=signed), DRAWS
    parts = [model.parts for model in models]
    matches = one_to_many(partners)
    if matching == "one-to-one":
        if measure == "lasso":
            raise RequestError("lassos match one to many: choose pearson or spearman to match one to one")
        matches = one_to_one(partners, parts, signed=signed)
    count = draws_per_model(len(models), usual_draws if draws is None else draws)
    drawn = [chance(kind, models, find, count, seed=seed) for kind in ("shuffled", "rotated")]
    chances = [kind for kind in drawn if kind is not None]
    if untrained is not None:
        reference = reference_model(dictionaries if measure == "cosine" else codes)
        untrained_features = [
            _of_rows(model, measure, rows, seed) for model in _untrained(untrained, reference, measure)
        ]
        untrained_models = [_model(model, statistics(model), measure, dtype) for model in untrained_features]
        chances.append(untrained_chance(untrained_models, find))
    effective = np.concatenate([facts.effective for facts in facts_of_models])
    result = recurrence(np.abs(matches.similarity), partners.model, alive, effective, chances, least=least, level=level)
    group = groups(matches, partners, alive, least)
    explained = None if inputs is None else explained_shares(sources, inputs)
    return Analysis(
        tuple(models), measure, matching, signed, least, level, partners, matches, tuple(chances), result, group, udr,
        tuple(sources), explained,
    )  # fmt: skip


def _measure(similarity: str | None, features: Sequence[Features]) -> Measure:
    has_codes, has_directions = features[0].codes is not None, features[0].dictionary is not None
    if similarity is None:
        return "both" if has_codes and has_directions else "pearson" if has_codes else "cosine"
    one_of("similarity", similarity, get_args(Measure))
    if similarity in ("cosine", "both") and not has_directions:
        raise RequestError(f"similarity {similarity} compares directions: give dictionaries, or choose pearson")
    if similarity != "cosine" and not has_codes:
        raise RequestError(f"similarity {similarity} compares codes of the same rows: give codes, or choose cosine")
    return similarity  # type: ignore[return-value]


def _of_rows(features: Features, measure: Measure, rows: int | None, seed: int) -> Features:
    """A model without what this measure does not compare, and with `rows` random rows if it has more."""
    if measure == "cosine":
        return dataclasses.replace(features, codes=None)
    codes = features.codes
    if rows is not None and rows < codes.shape[0]:
        order = np.random.default_rng(seed).permutation(codes.shape[0])[:rows]
        codes = (
            scipy.sparse.csc_array(codes[order]) if scipy.sparse.issparse(codes) else np.asarray(codes[np.sort(order)])
        )
    return dataclasses.replace(features, codes=codes, dictionary=features.dictionary if measure == "both" else None)


def _numbers(features: Sequence[Features], measure: Measure) -> int:
    """How many numbers the columns of all models hold."""
    codes = (
        0 if f.codes is None else f.codes.nnz if scipy.sparse.issparse(f.codes) else f.codes.size for f in features
    )
    directions = (0 if f.dictionary is None else f.dictionary.directions.size for f in features)
    return int(sum(codes) + sum(directions))


def _model(features: Features, facts: Statistics, measure: Measure, dtype: Any) -> Model:
    parts = []
    if features.codes is not None:
        parts.append(of_codes(features, facts, measure, dtype))
    if features.dictionary is not None:
        parts.append(of_directions(features.dictionary.directions, dtype))
    return Model(features, facts, tuple(parts))


def _dense(features: Features) -> np.ndarray:
    return features.codes.toarray() if scipy.sparse.issparse(features.codes) else np.asarray(features.codes)


def _untrained(untrained: Any, reference: Any, measure: Measure) -> list[Features]:
    """Untrained models: codes or dictionaries, as the trained models have them; `reference` is one of these."""
    if measure == "both":
        raise RequestError("untrained models are compared by codes or by directions: choose pearson or cosine")
    models = {"trained": reference} | {
        f"untrained {name}": model for name, model in by_name(untrained, "untrained").items()
    }
    return (as_features(None, models) if measure == "cosine" else as_features(models, None))[1:]
