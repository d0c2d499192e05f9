"""Scores in the form that scikit-learn's model selection takes: functions of an estimator, data and labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sober.errors import RequestError, listed
from sober.metrics.registry import home_of
from sober.metrics.scoring.score import resolved, score
from sober.short_text import cut

NEGATED = "neg_"  # scikit-learn's prefix for scores whose sign is turned


@dataclasses.dataclass(frozen=True)
class Scorer:
    """A value for `scoring=`: `scorer(estimator, X, y)` scores `estimator.transform(X)` against the factors `y`."""

    scores: tuple[str, ...]
    single: bool  # whether it returns a number; otherwise numbers by name
    settings: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the returned numbers. Higher is always better; `neg_` marks scores with the sign turned."""
        return tuple(map(_turned, self.scores))

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float | dict[str, float]:
        if not hasattr(estimator, "transform"):
            raise RequestError(f"{type(estimator).__name__} has no transform, which gives the codes to score: use one")
        scores = score(estimator.transform(X), y, metrics=list(self.scores), **self.settings)
        values = {_turned(name): -scores[name] if _is_lower(name) else scores[name] for name in self.scores}
        return values[self.names[0]] if self.single else values

    def __repr__(self) -> str:
        return cut(f"sober.scorer({', '.join(map(repr, self.names))})")


def scorer(metrics: str | Sequence[str], **settings: Any) -> Scorer:
    """A scorer for `cross_val_score` or `GridSearchCV`, for any estimator with `transform`; `y` is the factors (N, K).

    `metrics` is a score, or a metric that has only one: the scorer then gives a number. Several, in a list, give a
    dictionary, for `cross_validate` and for a search with `refit`. Scores that are better when lower are returned as
    their negative, named `neg_…`, as in scikit-learn; either name selects them. `settings` are passed to `sober.score`.

    >>> cross_val_score(PCA(3), X, factors, scoring=sober.scorer("mig"))
    """
    single = isinstance(metrics, str)
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    scores = [score_name for name in names for score_name in _scores(name)]
    if not scores:
        raise RequestError("metrics is empty: name a score, or several")
    if single and len(scores) > 1:
        raise RequestError(f"{metrics} has several scores, {listed(scores)}: name one, or several in a list")
    return Scorer(tuple(dict.fromkeys(scores)), single, settings)


def _scores(name: str) -> list[str]:
    """The scores that a name selects: the score of that name, or all of a metric that need no log-variances."""
    plain = name.removeprefix(NEGATED)
    meanings = {
        score_name: metric.scores[score_name] for metric, _, _ in resolved(plain, True) for score_name in metric.scores
    }
    names = (
        [plain]
        if plain in meanings
        else [score_name for score_name, meaning in meanings.items() if not meaning.samples_of]
    )
    for score_name in names:
        if meanings[score_name].samples_of:
            raise RequestError(
                f"{score_name} needs log-variances, which transform does not give: {meanings[score_name].samples_of}?"
            )
        if meanings[score_name].better == "neither":
            raise RequestError(f"{score_name} is neither better higher nor lower, so nothing can be chosen by it")
        if name != plain and meanings[score_name].better != "lower":
            raise RequestError(f"{score_name} is better when higher: ask for it without {NEGATED!r}")
    return names


def _is_lower(name: str) -> bool:
    return home_of(name).scores[name].better == "lower"


def _turned(name: str) -> str:
    return f"{NEGATED}{name}" if _is_lower(name) else name
