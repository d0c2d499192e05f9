"""Probes features whose factors a person has: arrays need no world and no encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sober.errors import RequestError, counted, listed
from sober.metrics import as_codes
from sober.metrics.common.metric_rows import varying
from sober.parallel import map_in_order
from sober.probing.knowledge import standardised_factors
from sober.probing.layer import Layer
from sober.probing.measured_layer import measured_layer

OWN = "these pictures"  # in place of a world's name


def layers_of_arrays(
    arrays: Mapping[str, Any],
    factors: Any,
    *,
    name: str,
    names: Sequence[str] | None = None,
    kinds: Any = None,
    labels: Sequence[int],
    seed: int,
) -> list[Layer]:
    """A layer for each array (N, D); all have the same N rows, whose factors (N, K) are known."""
    prepared = {layer: as_codes(array, factors, names=names, kinds=kinds) for layer, array in arrays.items()}
    rows = {layer: len(codes.mean) for layer, codes in prepared.items()}
    if len(set(rows.values())) > 1:
        texts = (f"{layer} has {counted(count, 'row')}" for layer, count in rows.items())
        raise RequestError(f"all layers need the same rows: {listed(texts)}")
    return list(map_in_order(lambda pair: _layer(name, *pair, labels, seed), list(enumerate(prepared.items()))))


def _layer(name: str, place: int, layer_and_codes: Any, labels: Sequence[int], seed: int) -> Layer:
    layer, codes = layer_and_codes
    complete = np.arange(len(codes.mean)) if codes.known is None else np.flatnonzero(codes.known.all(axis=1))
    if not len(complete):
        raise RequestError("no row has a value for every factor: leave out the factors that are seldom known")
    varied = varying(codes)
    if not varied.about:
        raise RequestError("no factor has two values in these rows: pass factors that vary")
    features, factors = np.asarray(varied.mean)[complete], standardised_factors(varied.factors[complete], varied.about)
    measured = measured_layer(features, factors, varied.about, labels=labels, seed=seed)
    return Layer(
        world=OWN,
        encoder=name,
        name=layer,
        pooling="",
        place=place,
        width=features.shape[1],
        rows=len(features),
        reference=False,
        about=varied.about,
        numbers=measured.numbers,
        guesses=measured.knowledge.guesses.astype(np.float32),
        truth=factors[measured.knowledge.test],
        nearest=measured.nearest[:0],
        along=measured.along[:, :0],
    )
