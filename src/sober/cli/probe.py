"""`sober probe`: what image encoders know about worlds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from sober.cli.console import bar, console, line
from sober.cli.main import command_line
from sober.cli.options import Json
from sober.cli.printed import Column, FittedTable
from sober.defaults import PROBED_LABELS, PROBED_PICTURES, PROBED_WORLD
from sober.errors import RequestError
from sober.files import is_table

if TYPE_CHECKING:
    from sober.probing.layer import Layer
    from sober.requests.probe.probe import Probe

ARRAYS = (".npz", ".npy")
LABELS = ",".join(map(str, PROBED_LABELS))


def probe(
    *encoders: Annotated[str, Parameter(name="ENCODERS", help="One encoder or several, to compare.")],
    world: str | None = None,
    layers: str = "all",
    pooling: str = "mean",
    size: int | None = None,
    pictures: int = PROBED_PICTURES,
    labels: str = LABELS,
    metrics: str | None = None,
    beside: str = "pixels,untrained",
    factors: str | None = None,
    codes: str | None = None,
    kinds: str | None = None,
    weights: Literal["pretrained", "random"] = "pretrained",
    device: str | None = None,
    half: Annotated[bool, Parameter(negative=())] = False,
    batch: int = 64,
    seed: int = 0,
    out: Path | None = None,
    as_json: Json = False,
) -> None:
    """See what an image encoder knows: how well each layer tells the factors of a world, and what it mixes up.

    An encoder is a name (timm:NAME, transformers:NAME, open_clip:NAME), an ONNX file, a model that Sober trained, a
    function in a module of yours (my_module:encoder), pixels, hog or pca. Sober draws the world's pictures at the size
    that the encoder takes, encodes them, and measures every layer: how well linear and nonlinear readouts tell each
    factor, from few labels and many; whether that holds for combinations that they never saw; how the features move
    when one factor changes. Raw pixels and an untrained network of the same shape are measured, too.

    A file with features and their factors (csv, npz and others, as for sober score) needs no world.

    For example:

    - `sober probe timm:vit_small_patch14_dinov2 --world rooms --out probed`
    - `sober probe ./encoder.onnx --world dsprites,rooms,teapots`
    - `sober probe my_module:encoder`
    - `sober probe layer3.npz --factors labels.csv`

    Parameters
    ----------
    world
        Worlds to see, separated by commas; `sober worlds` lists them. By default rooms.
    layers
        all: every block of the network; last: its output; or names of layers, separated by commas.
    pooling
        Where a layer gives tokens or maps: mean over positions, class (the first token), or patches (all side by
        side); or several, separated by commas.
    size
        The side of the pictures in pixels; by default as the encoder takes them.
    pictures
        How many random pictures to encode. Readouts learn from three quarters of them.
    labels
        From how many pictures readouts learn, separated by commas.
    metrics
        Further metrics of each layer, separated by commas, such as dci_es,infomec; they may take long.
    beside
        The lines to beat: pixels, untrained, or both; none for neither.
    factors
        For a file of features: where the factors are, as for sober score.
    codes
        For a file of features: the columns or the array with the features.
    kinds
        For a file of features: what kind a factor is, as in angle=cyclic.
    weights
        pretrained, or random: as the library draws them for a new network.
    device
        Where PyTorch computes, such as cuda; by default a GPU if there is one.
    half
        Compute in half precision.
    batch
        Pictures in one forward pass.
    seed
        Seed of everything random.
    out
        A folder that keeps features, numbers and a page. A second question about it is quick.
    as_json
        Print the findings and the table as one JSON object.
    """
    from sober.requests.probe.probe import probe as probe_encoders

    if not encoders:
        raise RequestError("name an encoder, as in: sober probe timm:vit_small_patch14_dinov2 --world rooms")
    common: dict[str, Any] = {"labels": _counts(labels), "seed": seed, "out": out}
    if _is_own(encoders, world, factors):
        probed = _of_file(encoders, factors, codes, kinds, common)
    else:
        with bar() as watcher:
            probed = probe_encoders(
                list(encoders),
                PROBED_WORLD if world is None else world,
                layers=layers if layers in ("all", "last") else layers.split(","),
                pooling=pooling.split(","),
                size=size,
                pictures=pictures,
                metrics=metrics.split(",") if metrics else (),
                beside=() if beside == "none" else beside.split(","),
                weights=weights,
                device=device,
                half=half,
                batch=batch,
                command=command_line(),
                watcher=watcher,
                **common,
            )
            if out is not None:
                probed.report()
    if as_json:
        from sober.cli.score import json_text

        scores = {"scores": further_scores(probed)} if metrics else {}
        print(json_text({"findings": list(probed.findings), "table": probed.table().to_dicts(), **scores}))
        return
    say_probe(probed, further_scores(probed) if metrics else ())


def further_scores(probed: Probe) -> list[dict[str, Any]]:
    """The scores of further metrics: a row for each layer and score."""
    layers = {layer.run: layer for layer in probed.layers}
    rows = probed.results.table().to_dicts()
    return [
        {
            "world": layers[row["run"]].world,
            "encoder": layers[row["run"]].encoder,
            "layer": layers[row["run"]].name,
            "pooling": layers[row["run"]].pooling,
            "score": row["metric"],
            "value": row["value"],
        }
        for row in rows
        if row["kind"] == "metric" and row["run"] in layers
    ]


def say_probe(probed: Probe, scores: Sequence[Mapping[str, Any]] = ()) -> None:
    """Prints what was found, how well linear readouts tell each factor, layer by layer, and further scores."""
    from sober.results.runs import score_words

    for sentence in probed.findings:
        console.print(sentence)
    for title, table in layer_tables(probed):
        console.print()
        console.print(title, style="bold")
        console.print(table)
    if scores:
        columns = [Column("layer", style="cyan", wraps=True), Column("score", wraps=True), Column("value", "right")]
        for world, encoder in dict.fromkeys((row["world"], row["encoder"]) for row in scores):
            rows = [
                [str(row["layer"]), score_words(row["score"]), "–" if row["value"] is None else f"{row['value']:.2f}"]
                for row in scores
                if (row["world"], row["encoder"]) == (world, encoder)
            ]
            console.print()
            console.print(f"{encoder} on {world}: further metrics", style="bold")
            console.print(FittedTable(columns, rows))
    for note in probed.notes:
        console.print(note, style="dim")
    if probed.path is not None and probed.temporary is None:
        console.print(
            line("wrote ", (probed.path, "bold"), ": probe.html, probe.parquet and the features"), soft_wrap=True
        )


def layer_tables(probed: Probe) -> Iterator[tuple[str, FittedTable]]:
    """For each world and encoder: layers in rows, factors in columns, and the best layer of each line to beat."""
    from sober.probing.shown_layers import best_layer, by_encoder

    layers_by_encoder = by_encoder(probed.layers)
    for (world, encoder), layers in layers_by_encoder.items():
        if layers[0].reference:
            continue
        several = len({layer.pooling for layer in layers}) > 1
        rows = [_row(f"{layer.name} ({layer.pooling})" if several else layer.name, layer) for layer in layers]
        for (other_world, name), others in layers_by_encoder.items():
            if other_world == world and others[0].reference and name in ("pixels", "random", f"untrained {encoder}"):
                best = best_layer(others)
                word = name.removesuffix(f" {encoder}")
                rows.append(_row(word if word == best.name else f"{word}: {best.name}", best))
        columns = [Column("layer", style="cyan", wraps=True)]
        columns += [Column(factor.name, "right", optional=True) for factor in layers[0].about]
        title = f"{encoder} on {world}: R² of linear readouts, accuracy for categories"
        yield title, FittedTable(columns, rows, rest="the page has all")


def _row(name: str, layer: Layer) -> list[str]:
    numbers = [layer.number(factor.name, "linear readout") for factor in layer.about]
    return [name, *("" if number is None else f"{number.value:.2f}" for number in numbers)]


def _is_own(encoders: Sequence[str], world: str | None, factors: str | None) -> bool:
    """Whether a file of features brings its own factors."""
    if factors is not None:
        return True
    path = Path(encoders[0])
    is_file = len(encoders) == 1 and path.is_file() and (is_table(path) or path.suffix.lower() in ARRAYS)
    if not is_file or world is not None:
        return False
    if path.suffix.lower() == ".npz":
        from sober.files import npz_shapes

        return "factors" in npz_shapes(path)
    return False


def _of_file(
    encoders: Sequence[str], factors: str | None, codes: str | None, kinds: str | None, common: dict[str, Any]
) -> Probe:
    import numpy as np

    from sober.cli.score import reader
    from sober.requests.probe.probe import probe as probe_features

    prepared = {
        layer: reader(array, factors, kinds, warns=False)(path)
        for path in map(Path, encoders)
        for layer, array in _arrays(path, codes)
    }
    first = next(iter(prepared.values()))
    if not first.about:
        raise RequestError(f"{encoders[0]} has no factors: name them, as in --factors labels.csv")
    return probe_features(
        encoders[0] if len(encoders) == 1 else "features",
        layers={layer: read_codes.mean for layer, read_codes in prepared.items()},
        factors=np.where(first.known, first.factors, np.nan) if first.known is not None else first.factors,
        names=[factor.name for factor in first.about],
        kinds=[factor.kind for factor in first.about],
        **common,
    )


def _arrays(path: Path, codes: str | None) -> list[tuple[str, str | None]]:
    """The layers that a file of features has, each with the array that holds it. Several arrays of npz are layers."""
    if codes is None and path.suffix.lower() == ".npz" and path.is_file():
        from sober.encoders import saved_features
        from sober.files import npz_shapes

        arrays = npz_shapes(path)
        if len(arrays) > 1 and "codes" not in arrays:
            return [(layer, layer) for layer in saved_features(path).layers]
    return [(path.stem, codes)]


def _counts(text: str) -> list[int]:
    try:
        return [int(count) for count in text.split(",")]
    except ValueError as error:
        raise RequestError(f"--labels takes whole numbers, as in 100,1000, got {text!r}") from error
