"""Which layers a page shows in pictures: the best layer of each encoder and its last one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sober.probing.layer import Layer


def shown_layers(layers: Iterable[Layer]) -> Iterator[Layer]:
    """The best layer of each encoder on each world, and its last one; not those of lines to beat."""
    for encoder_layers in by_encoder(layer for layer in layers if not layer.reference).values():
        yield from {id(layer): layer for layer in (best_layer(encoder_layers), encoder_layers[-1])}.values()


def best_layer(layers: Sequence[Layer]) -> Layer:
    """The layer whose linear readout tells the factors best, mean over factors; the first of equally good ones."""
    return max(layers, key=Layer.readable)


def by_encoder(layers: Iterable[Layer]) -> dict[tuple[str, str], list[Layer]]:
    """Layers by world and encoder."""
    grouped: dict[tuple[str, str], list[Layer]] = {}
    for layer in layers:
        grouped.setdefault((layer.world, layer.encoder), []).append(layer)
    return grouped
