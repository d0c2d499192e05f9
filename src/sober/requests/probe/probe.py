"""What an image encoder knows: its layers are probed with pictures of worlds, whose factors are known.

A folder of a probe is a folder of results: each layer of each encoder is a run with codes, and every command works on
it. Beside what every folder of results has:

probe/             the numbers about each layer, and small pictures that show what it knows
probe.parquet      the table: a row for each layer, factor and number
probe.html         the page
"""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from sober.contracts import MOST, whole_number
from sober.defaults import PROBED_LABELS, PROBED_PICTURES, PROBED_WORLD
from sober.encoders import (
    Encoder,
    EncoderOptions,
    Pooling,
    SavedFeatures,
    Weights,
    holds_features,
    open_encoder,
    saved_features,
)
from sober.errors import RequestError, choices, counted, shown
from sober.files import replacing
from sober.metrics.common.arrays import as_array, check_real, unmasked
from sober.probing.differences import differences
from sober.probing.layer import Layer
from sober.probing.summary import findings
from sober.probing.table import difference_table, table
from sober.requests.probe.arrays import layers_of_arrays
from sober.requests.probe.probe_folder import ProbeFolder, Wishes
from sober.requests.probe.shown_pictures import keep_pictures
from sober.requests.probe.world_size import named_worlds, world_for
from sober.requests.results import Results, open_results
from sober.short_text import as_table
from sober.training.progress import Watcher

if TYPE_CHECKING:
    import polars as pl

TABLE, PAGE = "probe.parquet", "probe.html"
PIXELS, UNTRAINED = "pixels", "untrained"
BESIDE = (PIXELS, UNTRAINED)  # the lines to beat
POOLINGS = ("mean", "class", "patches")


@dataclasses.dataclass(frozen=True, eq=False)
class Probe:
    """What layers of encoders know about worlds."""

    layers: tuple[Layer, ...]
    notes: tuple[str, ...] = ()  # what was decided for the person who asked, in sentences
    path: Path | None = None  # its folder
    temporary: tempfile.TemporaryDirectory[str] | None = None  # what holds the folder, where nobody named one

    def table(self) -> pl.DataFrame:
        """One row for each layer, factor and number. Numbers about a whole layer have no factor."""
        return table(self.layers)

    @functools.cached_property
    def differences(self) -> pl.DataFrame:
        """By how much each encoder's best layer is better than every other's, factor by factor, with 95% intervals."""
        return difference_table(list(differences(self.layers)))

    @functools.cached_property
    def findings(self) -> tuple[str, ...]:
        """What was found, in a few sentences."""
        return tuple(findings(self.layers))

    @property
    def results(self) -> Results:
        """The folder as results, in which each layer is a run: `results.score(["dci_es", "infomec"])` measures more."""
        if self.path is None:
            raise RequestError("features with factors of their own make no folder: sober.score measures them")
        return open_results(self.path)

    def report(self, path: str | Path | None = None) -> Path:
        """Writes everything as one HTML file that opens without a network, and returns its path."""
        from sober.report.probe_page import write_probe  # noqa: PLC0415 -- takes long to import

        usual = Path(PAGE) if self.path is None or self.temporary is not None else self.path / PAGE
        return write_probe(self.layers, self.notes, self.path, usual if path is None else Path(path))

    def __repr__(self) -> str:
        encoders = dict.fromkeys(layer.encoder for layer in self.layers)
        rows = [
            {"world": layer.world, "encoder": layer.encoder, "layer": layer.name, **linear_numbers(layer)}
            for layer in self.layers
        ]
        return as_table(f"Probe of {counted(len(encoders), 'encoder')}: how well a linear readout tells factors", rows)


def linear_numbers(layer: Layer) -> dict[str, float]:
    """The linear readout of each factor, with the most labels."""
    numbers = {factor.name: layer.number(factor.name, "linear readout") for factor in layer.about}
    return {name: number.value for name, number in numbers.items() if number is not None}


def probe(
    encoder: Any,
    world: str | Sequence[str] = PROBED_WORLD,
    *,
    layers: str | Sequence[str] | Mapping[str, Any] = "all",
    pooling: str | Sequence[str] = "mean",
    factors: Any = None,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, str] | Sequence[str] | str | None = None,
    size: int | None = None,
    pictures: int = PROBED_PICTURES,
    labels: Sequence[int] = PROBED_LABELS,
    metrics: str | Sequence[str] = (),
    beside: str | Sequence[str] | None = BESIDE,
    weights: Weights = "pretrained",
    device: str | None = None,
    half: bool = False,
    batch: int = 64,
    seed: int = 0,
    out: str | Path | None = None,
    command: str = "",
    watcher: Watcher | None = None,
) -> Probe:
    """What an image encoder knows about a world: how well each layer tells the factors, and how it holds them.

    `encoder` is a name (`timm:…`, `transformers:…`, `open_clip:…`), a file (ONNX, a model of Sober, saved features), a
    function in a module (`my_module:encoder`), a torch module, any function from pictures to an array, an array of
    features, or a list or mapping of several. `world` names drawn or published worlds: `rooms`, or several. Drawn
    worlds are drawn at the size that the encoder takes, or at `size`.

    `layers` is all, last, or names; as a mapping, functions or arrays by the name of a layer. `pooling` is mean, class
    or patches, where a layer gives tokens or maps. `pictures` random pictures are encoded. Readouts learn from three
    quarters of them, and from as few as `labels` says. `metrics` are measured too, such as dci_es or infomec. `beside`
    are the lines to beat: raw pixels, and the same network untrained. Arrays of features (N, D) with `factors` (N, K)
    of their own need no world. `out` is a folder that keeps features and numbers.

    >>> sober.probe("timm:vit_small_patch14_dinov2", "rooms", out="probed").findings
    >>> sober.probe(lambda pictures: pictures.mean(axis=(1, 2)), "rooms", beside=()).table()
    """
    size = None if size is None else whole_number("size", size, least=1)
    batch = whole_number("batch", batch, least=1)
    metrics, beside = _texts(metrics or ()), _texts(beside or ())
    wishes = Wishes(
        _poolings(pooling),
        whole_number("pictures", pictures, least=1, most=MOST, example=PROBED_PICTURES),
        _labels(labels),
        whole_number("seed", seed),
    )
    if factors is not None:
        return _of_arrays(encoder, layers, factors, names, kinds, wishes, out)
    by_layer = layers if isinstance(layers, Mapping) else None
    options = EncoderOptions(
        layers=("all",) if isinstance(layers, Mapping) else _texts(layers),
        size=size,
        device=device,
        half=half,
        batch=batch,
        weights=weights,
        seed=seed,
    )
    encoders = [_opened(name, source, options, by_layer) for name, source in _sources(encoder)]
    if not encoders:
        raise RequestError("name at least one encoder")
    if device is not None and not any(isinstance(opened, Encoder) and opened.takes_device for _, opened in encoders):
        raise RequestError(f"device is for networks of PyTorch, and {encoders[0][0]} is none: leave the device out")
    if unknown := [name for name in beside if name not in BESIDE]:
        raise RequestError(f"beside has no {unknown[0]!r}: {choices(unknown[0], BESIDE)}")
    temporary = tempfile.TemporaryDirectory(prefix="sober-probe-") if out is None else None
    folder = ProbeFolder(Path(temporary.name if temporary else out), wishes, command, watcher)  # type: ignore[arg-type]
    with_references = [*((*pair, False) for pair in encoders), *_beside(encoders, beside, options)]
    probed_layers: list[Layer] = []
    for text in named_worlds(world):
        for name, opened, reference in with_references:
            sized, note = world_for(text, _taker(opened, encoders), size)
            if note:
                folder.note(note)
            probed_layers += folder.probe(name, opened, sized, text, reference)
        keep_pictures(folder.path, sized, text, probed_layers)
    if metrics:
        open_results(folder.path).score(list(metrics), pictures=wishes.pictures, seed=seed, watcher=watcher)
    probed = Probe(tuple(probed_layers), folder.folder.request.notes, folder.path, temporary)
    _write_table(probed, folder.path)
    return probed


def _sources(encoder: Any) -> Iterator[tuple[str, Any]]:
    """Encoders by name; one without a name is called by its type or function."""
    if isinstance(encoder, Mapping):
        yield from encoder.items()
        return
    for source in encoder if isinstance(encoder, list | tuple) else [encoder]:
        yield (source if isinstance(source, str) else ""), source


def _opened(
    name: str, source: Any, options: EncoderOptions, layers: Mapping[str, Any] | None
) -> tuple[str, Encoder | SavedFeatures]:
    opened = _saved(source, layers) or open_encoder(source, options, layers=layers)
    return name or opened.name, opened


def _saved(source: Any, layers: Mapping[str, Any] | None) -> SavedFeatures | None:
    """Features of fixed pictures; None for an encoder."""
    for features in (layers, source):
        if features is not None and holds_features(features):
            return saved_features(_plain(features))
    return None


def _plain(features: Any) -> Any:
    """Features with arrays of NumPy in place of frames, tensors and sparse arrays."""
    if isinstance(features, Mapping):
        return {layer: _array(f"layer {layer}", array) for layer, array in features.items()}
    if isinstance(features, str | Path | SavedFeatures):
        return features
    return _array("features", features)


def _array(name: str, value: Any) -> np.ndarray:
    array = unmasked(name, as_array(name, value))
    check_real(name, array)
    return array.toarray() if scipy.sparse.issparse(array) else array


def _beside(
    encoders: Sequence[tuple[str, Encoder | SavedFeatures]], beside: Sequence[str], options: EncoderOptions
) -> Iterator[tuple[str, Encoder, bool]]:
    """The lines to beat: raw pixels once, and an untrained network for each encoder."""
    names = {name for name, _ in encoders}
    if PIXELS in beside and PIXELS not in names:
        yield PIXELS, _classic(PIXELS, options), True
    if UNTRAINED in beside and options.weights == "pretrained":
        unseen_networks = [name for name, opened in encoders if _network(opened) is None]
        for name, opened in encoders:
            if (network := _network(opened)) is not None:
                yield f"{UNTRAINED} {name}", network(options.seed), True
        if unseen_networks and "random" not in names:
            yield "random", _classic("random", options), True


def _taker(opened: Encoder | SavedFeatures, encoders: Sequence[tuple[str, Encoder | SavedFeatures]]) -> Encoder | None:
    """The encoder whose size the pictures need: a line to beat that takes any size sees those of the first encoder."""
    takers = [encoder for encoder in (opened, encoders[0][1]) if isinstance(encoder, Encoder)]
    return next((encoder for encoder in takers if encoder.side), takers[0] if takers else None)


def _network(opened: Encoder | SavedFeatures) -> Any:
    return opened.untrained if isinstance(opened, Encoder) else None


def _classic(name: str, options: EncoderOptions) -> Encoder:
    opened = open_encoder(name, dataclasses.replace(options, layers="all"))
    assert isinstance(opened, Encoder)
    return opened


def _of_arrays(
    encoder: Any, layers: Any, factors: Any, names: Any, kinds: Any, wishes: Wishes, out: str | Path | None
) -> Probe:
    """Features with factors of their own: no world, no folder of results."""
    saved = _saved(encoder, layers if isinstance(layers, Mapping) else None)
    if saved is None:
        raise RequestError("factors belong to arrays of features: an encoder sees a world, which has its own")
    name = encoder if isinstance(encoder, str) else saved.name
    arrays = layers_of_arrays(
        saved.features(), factors, name=name, names=names, kinds=kinds, labels=wishes.labels, seed=wishes.seed
    )
    probed = Probe(tuple(arrays))
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        _write_table(probed, Path(out))
        probed.report(Path(out) / PAGE)
    return probed


def _write_table(probed: Probe, folder: Path) -> None:
    with replacing(folder / TABLE) as temporary:
        probed.table().write_parquet(temporary)


def _texts(value: Any) -> tuple[str, ...]:
    texts = tuple(text.strip() for text in value.split(",")) if isinstance(value, str) else _members("names", value)
    if others := [text for text in texts if not isinstance(text, str)]:
        raise RequestError(f"names are words, as in 'mean,class', not {shown(others[0])}")
    return texts


def _members(name: str, value: Any) -> tuple[Any, ...]:
    """The members of a list, or of anything like one."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) != 1:
        raise RequestError(f"{name} are given as a list, not {shown(value)}")
    return tuple(value)


def _poolings(pooling: Any) -> tuple[Pooling, ...]:
    chosen = tuple(dict.fromkeys(_texts(pooling)))
    for name in chosen:
        if name not in POOLINGS:
            raise RequestError(f"unknown pooling {shown(name)}: {choices(name, POOLINGS)}")
    return chosen or ("mean",)  # type: ignore[return-value]


def _labels(labels: Any) -> tuple[int, ...]:
    """Numbers of rows to learn from, rising."""
    counts = _members("labels", labels)
    if not counts:
        raise RequestError("labels are numbers of rows to learn from, such as [10, 100]: give at least one")
    return tuple(sorted({whole_number("labels", count, least=2, example=PROBED_LABELS[0]) for count in counts}))
