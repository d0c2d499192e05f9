"""Components: latents of several models that are one and the same, at most one of each model.

Two latents are linked if each is the other's best partner and both are at least `least` alike. Links are followed from
the strongest to the weakest, and a link that would bring two latents of one model together is left out.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from sober.agreement.matching import Matches
from sober.agreement.partners import Partners
from sober.estimators.compiled import compiled


def groups(matches: Matches, partners: Partners, alive: Bool[np.ndarray, " F"], least: float) -> Int[np.ndarray, " F"]:
    """The number of each feature's component, the largest and strongest first; -1 for features without a link."""
    first, second, strength = mutual_links(matches, partners, alive, least)
    order = np.argsort(-strength, kind="stable")
    members = np.zeros((len(alive), partners.models), np.bool_)
    members[np.arange(len(alive)), partners.model] = True
    root = compiled(_merge, _root)(first[order], second[order], members)
    linked = np.zeros(len(alive), bool)
    size = np.bincount(root, minlength=len(alive))
    linked[size[root] > 1] = True
    mean = np.bincount(root[first], strength, len(alive)) / np.maximum(
        np.bincount(root[first], minlength=len(alive)), 1
    )
    roots = np.flatnonzero(size > 1)
    ranked = roots[np.lexsort((roots, -mean[roots], -size[roots]))]
    number = np.full(len(alive), -1)
    number[ranked] = np.arange(len(ranked))
    return np.where(linked, number[root], -1)


def mutual_links(
    matches: Matches, partners: Partners, alive: Bool[np.ndarray, " F"], least: float
) -> tuple[Int[np.ndarray, " L"], Int[np.ndarray, " L"], Float[np.ndarray, " L"]]:
    """Pairs of features that are each other's partners and at least `least` alike, once each."""
    feature, other = np.nonzero((np.abs(matches.similarity) >= least) & (matches.place >= 0))
    partner = partners.start[other] + matches.place[feature, other]
    back = partners.start[partners.model[feature]] + matches.place[partner, partners.model[feature]]
    mutual = (back == feature) & (feature < partner) & alive[feature] & alive[partner]
    strength = np.abs(matches.similarity[feature[mutual], other[mutual]])
    return feature[mutual], partner[mutual], strength


def _root(parent: np.ndarray, feature: int) -> int:
    while parent[feature] != feature:
        parent[feature] = parent[parent[feature]]
        feature = parent[feature]
    return feature


def _merge(first: np.ndarray, second: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Joins linked features one link after the other; `members` holds the models of each component."""
    parent = np.arange(len(members))
    for link in range(len(first)):
        a, b = _root(parent, first[link]), _root(parent, second[link])
        if a == b:
            continue
        disjoint = True
        for model in range(members.shape[1]):
            if members[a, model] and members[b, model]:
                disjoint = False
        if disjoint:
            parent[b] = a
            for model in range(members.shape[1]):
                if members[b, model]:
                    members[a, model] = True
    for feature in range(len(parent)):
        parent[feature] = _root(parent, feature)
    return parent
