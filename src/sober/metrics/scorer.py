"""Scores as scikit-learn's model selection asks for them: of an estimator, data and what is known of the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sober.errors import RequestError, listed
from sober.metrics.registry import home_of
from sober.metrics.score import resolved, score

NEGATED = "neg_"  # as scikit-learn names scores that it turns round


@dataclasses.dataclass(frozen=True)
class Scorer:
    """What `scoring=` takes: `scorer(estimator, X, y)` scores `estimator.transform(X)` against the factors `y`."""

    scores: tuple[str, ...]
    single: bool  # whether it gives a number, or numbers by name
    settings: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the numbers, of which higher is always better: `neg_` marks those that were turned round."""
        return tuple(map(_turned, self.scores))

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float | dict[str, float]:
        if not hasattr(estimator, "transform"):
            raise RequestError(f"{type(estimator).__name__} has no transform, which gives the codes to score: use one")
        found = score(estimator.transform(X), y, metrics=list(self.scores), **self.settings)
        values = {_turned(name): -found[name] if _is_lower(name) else found[name] for name in self.scores}
        return values[self.names[0]] if self.single else values

    def __repr__(self) -> str:
        return f"sober.scorer({', '.join(map(repr, self.names))})"


def scorer(metrics: str | Sequence[str], **settings: Any) -> Scorer:
    """A scorer for `cross_val_score` or `GridSearchCV`, for any estimator with `transform`; `y` is the factors (N, K).

    `metrics` is a score, or a metric that has only one: the scorer then gives a number. Several, in a list, give a
    dictionary, for `cross_validate` and for a search with `refit`. Of scores that are better when lower it gives the
    negative, named `neg_…`, as scikit-learn does; they may be asked for by either name. `settings` are those of
    `sober.score`.

    >>> cross_val_score(PCA(3), X, factors, scoring=sober.scorer("mig"))
    """
    single = isinstance(metrics, str)
    asked = [metrics] if isinstance(metrics, str) else list(metrics)
    scores = [name for each in asked for name in _scores(each)]
    if not scores:
        raise RequestError("metrics is empty: name a score, or several")
    if single and len(scores) > 1:
        raise RequestError(f"{metrics} has several scores, {listed(scores)}: name one, or several in a list")
    return Scorer(tuple(dict.fromkeys(scores)), single, settings)


def _scores(asked: str) -> list[str]:
    """The scores that a name asks for: that of this name, else all that a metric can give of a transform's codes."""
    plain = asked.removeprefix(NEGATED)
    known = {name: metric.scores[name] for metric, _, _ in resolved(plain, True) for name in metric.scores}
    names = [plain] if plain in known else [name for name, meaning in known.items() if not meaning.samples_of]
    for name in names:
        if known[name].samples_of:
            raise RequestError(f"{name} needs log-variances, which transform does not give: {known[name].samples_of}?")
        if known[name].better == "neither":
            raise RequestError(f"{name} is neither better higher nor lower, so nothing can be chosen by it")
        if asked != plain and known[name].better != "lower":
            raise RequestError(f"{name} is better when higher: ask for it without {NEGATED!r}")
    return names


def _is_lower(name: str) -> bool:
    return home_of(name).scores[name].better == "lower"


def _turned(name: str) -> str:
    return f"{NEGATED}{name}" if _is_lower(name) else name
