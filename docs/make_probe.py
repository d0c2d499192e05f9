"""Writes the part of docs/probe.md about real encoders, from docs/probe.json.

python docs/make_probe.py                              the page alone
python docs/make_probe.py FOLDER                       probes the encoders anew, takes about half an hour on two cores
python docs/make_probe.py FOLDER --only HOG PCA        probes some of them anew

FOLDER holds text_detection.onnx, text_recognition.onnx and text_direction.onnx, which are the networks of the package
`rapidocr-onnxruntime` 1.4.4; vit.onnx and cnn.onnx, which `docs/train_encoders.py` trains; and vae.safetensors, which
is the model of

    sober train rooms --method beta_vae --set beta=1 --nets small --latents 10 --learning-rate 1e-3 --steps 4000
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sober
from sober.probing.differences import differences
from sober.probing.layer import Layer
from sober.probing.shown_layers import best_layer, by_encoder

DOCS = Path(__file__).parent
PAGE, NUMBERS = DOCS / "probe.md", DOCS / "probe.json"
BEGIN, END = "<!-- from docs/probe.json -->\n", "<!-- end -->\n"
WORLDS = ("letters", "rooms", "desk")
PICTURES, SIDE = 3_000, 64
CNN = tuple(f"/{place}/Relu_output_0" for place in (2, 5, 8, 11))
VIT = ("/Add_output_0", *(f"/blocks.{block}/Add_5_output_0" for block in range(3)))
# By its name on the page: the source, and which layers; the last layers of the recognition net have 6,625 classes.
ENCODERS: dict[str, tuple[str, str | tuple[str, ...]]] = {
    "text detection": ("text_detection.onnx", "all"),
    "text recognition": (
        "text_recognition.onnx",
        ("p2o.Mul.17", "depthwise_conv2d_3.tmp_0", "p2o.Clip.17", "p2o.Mul.69", "p2o.Add.119", "p2o.Mul.129",
         "p2o.Add.205", "p2o.Clip.55", "p2o.MatMul.5", "p2o.Mul.192"),
    ),
    "text direction": ("text_direction.onnx", "all"),
    "ViT of clothes": ("vit.onnx", VIT),
    "CNN of clothes": ("cnn.onnx", CNN),
    "β-VAE of rooms": ("vae.safetensors", "all"),
    "HOG": ("hog", "all"),
    "PCA": ("pca:50", "all"),
}  # fmt: skip


def measure(folder: Path, names: Sequence[str]) -> None:
    """Probes encoders on every world, and writes the numbers of their best layers; others keep theirs."""
    for world in WORLDS:
        layers: list[Layer] = []
        for name in names:
            source, wanted = ENCODERS[name]
            encoder = str(folder / source) if "." in source else source
            probed = sober.probe(
                {name: encoder},
                world,
                layers=wanted,
                size=SIDE,
                pictures=PICTURES,
                beside=("pixels", "untrained") if "." in source else ("pixels",),
                out=folder / f"probed-{world}",
            )
            layers += [layer for layer in probed.layers if layer.encoder != "pixels" or name == names[0]]
            print(*probed.findings, sep="\n", flush=True)
        write_numbers(list(_rows(layers)))


def write_numbers(rows: Sequence[dict[str, Any]]) -> None:
    """Puts rows in the place of those of the same encoder and world."""
    measured = {(row["world"], row["encoder"]) for row in rows}
    old_rows = json.loads(NUMBERS.read_text(encoding="utf-8"))
    all_rows = [row for row in old_rows if (row["world"], row["encoder"]) not in measured] + list(rows)
    all_rows.sort(key=lambda row: WORLDS.index(row["world"]))
    NUMBERS.write_text(json.dumps(all_rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _rows(layers: Sequence[Layer]) -> Iterator[dict[str, Any]]:
    """The best layer of each encoder, and by how many factors it is better than raw pixels."""
    better: dict[str, int] = {}
    for row in differences(layers):
        if row.factor and row.other == "pixels":
            better[row.encoder] = better.get(row.encoder, 0) + (row.low > 0)
    for (world, encoder), own_layers in by_encoder(layers).items():
        best = best_layer(own_layers)
        unseen = [best.number(factor.name, "unseen") for factor in best.about]
        yield {
            "world": world,
            "encoder": encoder,
            "layer": best.name,
            "width": best.width,
            "layers": len(own_layers),
            "mean": round(best.readable(), 3),
            "factors": {
                factor.name: round(number.share, 3)
                for factor in best.about
                if (number := best.number(factor.name, "linear readout")) is not None
            },
            "unseen": round(sum(number.value for number in unseen if number) / max(1, len(unseen)), 3),
            "better": better.get(encoder),
        }


def text(rows: Sequence[dict[str, Any]]) -> str:
    """The part of the page: a table for each world."""
    return "\n".join(_lines(rows)) + "\n"


def _lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for world in WORLDS:
        of_world = [row for row in rows if row["world"] == world]
        factors = list(of_world[0]["factors"])
        yield f"**`{world}`**"
        yield ""
        yield f"| encoder | its best layer | {' | '.join(factors)} | mean | better than pixels |"
        yield f"|---|---|{'---:|' * (len(factors) + 2)}"
        trained = [row for row in of_world if not row["encoder"].startswith("untrained")]
        untrained = {row["encoder"].removeprefix("untrained "): row for row in of_world if row not in trained}
        for row in sorted(trained, key=lambda row: -row["mean"]):
            cells = [f"{row['factors'].get(factor, 0):.2f}" for factor in factors]
            better = "" if row["better"] is None else f"{row['better']} of {len(factors)}"
            yield f"| {row['encoder']} | {_layer(row)} | {' | '.join(cells)} | **{row['mean']:.2f}** | {better} |"
            if row["encoder"] in untrained:
                other = untrained[row["encoder"]]
                cells = [f"{other['factors'].get(factor, 0):.2f}" for factor in factors]
                yield f"| – untrained | {_layer(other)} | {' | '.join(cells)} | {other['mean']:.2f} | |"
        yield ""


def _layer(row: dict[str, Any]) -> str:
    return f"`{row['layer']}`, {row['width']:,} units"


def page() -> str:
    """The whole page, with the part from the numbers made anew."""
    written = PAGE.read_text(encoding="utf-8")
    before, _, from_begin = written.partition(BEGIN)
    _, _, after = from_begin.partition(END)
    return before + BEGIN + "\n" + text(json.loads(NUMBERS.read_text(encoding="utf-8"))) + END + after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="holds the networks; without it the page alone is made")
    parser.add_argument("--only", nargs="+", choices=list(ENCODERS), default=list(ENCODERS), help="encoders to probe")
    arguments = parser.parse_args()
    if arguments.folder is not None:
        measure(arguments.folder, arguments.only)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
