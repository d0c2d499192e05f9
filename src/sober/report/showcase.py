"""What the report shows of chosen models: their pictures, what each latent does, and which factors it goes with.

All that needs a model or a world is computed by `showcase` while a study runs, and kept in its store at
shown/IDENTITY.safetensors. The page is made of these files alone, and its style sheet does what moves in it.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from sober.criteria.udr import INFORMATIVE
from sober.errors import RequestError, brief, counted
from sober.files import load_arrays, save_arrays
from sober.metrics.aggregate import merges
from sober.metrics.discrete import discretised
from sober.metrics.metric import varying
from sober.metrics.score import as_codes, score
from sober.models.model import Model, latent_kl
from sober.report.explorer import HtmlPart
from sober.results.store import Store, setting
from sober.types import Codes, Factor, Run
from sober.worlds import World

PICTURES = 12
SAMPLE = 512  # pictures from which what each latent carries is estimated
STEPS = 11  # pictures along a traversal
SPAN = 2.0  # standard deviations of the prior either way
QUANTILES = (0.1, 0.9)
MATRICES = {
    "mi": "mutual information, in nats",
    "gbt": "importance in boosted trees",
    "svm": "predictability, linear SVM",
}

# Of a card. Pictures come as they are where there is room; else in fewer colours, and at last smaller.
BYTES = 400_000
QUALITIES = ((64, 0), (64, 128), (64, 32), (64, 16), (32, 16))  # longest side, and colours (0: all)

# Drawings, in pixels of a small screen.
CELL, NAME, HEAD, MARGIN = 26, 104, 20, 22
CURVE, LEAF = 72, 20  # heights: of a curve, and of a factor in a dendrogram
BASE = CURVE + 12  # where the dendrogram begins
PLOT = (96, 60)
LETTERS = 15  # of a factor's name; all of it is in the tooltip
NUMBERED = 16  # latents up to which a cell has room for its number

Pictures = UInt8[np.ndarray, "n H W C"]
Matrix = Float[np.ndarray, "D K"]


# What is kept


def showcase(model: Model, codes: Codes, world: World, *, seed: int = 0) -> dict[str, np.ndarray]:
    """What is shown of a model, from its codes of all pictures, or of a sample, and pictures drawn by `seed`.

    pictures, reconstructions   (12, H, W, C), bytes, and their `codes` (12, D)
    traversals                  (D, 11, H, W, C): a picture near the middle of the codes, one latent from -2 to 2
    kl                          (D,), what each latent carries, in nats
    mi.matrix, gbt.…, svm.…     (D, K), and the other parts of the unified scores: curve of groups, merge thresholds
    response.0, response.1, …   (3, V, D): mean, 10% and 90% quantile of the latents for each value of a factor

    The last two are there where factors vary, which are those of `about_shown`.
    """
    if codes.mean.shape[1] != model.run.latents:
        raise RequestError(f"codes has {codes.mean.shape[1]} latents, the model {model.run.latents}: pass its own")
    images = world.sample(seed, SAMPLE).images
    mean, logvar = model.encode(images)
    if not (np.isfinite(mean).all() and np.isfinite(logvar).all()):
        raise RequestError(f"run {model.run.identity} has codes that are not finite: show a model that did not diverge")
    start = mean[np.argmin(np.sum(mean**2, axis=1))]
    return {
        "pictures": _bytes(images[:PICTURES]),
        "reconstructions": _bytes(model.decode(mean[:PICTURES])),
        "codes": mean[:PICTURES],
        "traversals": np.stack([_bytes(model.decode(each)) for each in _traversals(start)]),
        "kl": latent_kl(mean, logvar),
        **_matrices(codes, seed),
        **{f"response.{k}": response for k, response in enumerate(_responses(codes))},
    }


def about_shown(run: Run, codes: Codes) -> dict[str, Any]:
    """What the arrays of `showcase` are about: the run in words, and the factors that vary, with their values."""
    known = varying(as_codes(codes))
    factors = [
        {"name": factor.name, "kind": factor.kind, "values": _texts(factor, known.factors[:, k], labels)}
        for k, (factor, labels) in enumerate(zip(known.about, discretised(known).factors.T, strict=True))
    ]
    return {
        "run": run.identity,
        "setting": setting(run),
        "world": run.world,
        "seed": run.seed,
        "factors": factors,
    }


def save_showcase(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Writes what `showcase` and `about_shown` made as one safetensors file, atomically."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_arrays(path, arrays, {"kind": "sober.showcase", "about": json.dumps(about)})
    except OSError as error:
        raise RequestError(f"cannot write {path} ({brief(error)}): choose another folder") from error


def keep_showcase(folder: Path, model: Model, codes: Codes, world: World) -> None:
    """Computes what is shown of a model and keeps it in a store's folder."""
    path = shown_path(folder, model.run.identity)
    path.parent.mkdir(exist_ok=True)
    save_showcase(path, showcase(model, codes, world), about_shown(model.run, codes))


def load_showcase(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays in a file of `save_showcase`, and what they are about."""
    arrays, metadata = load_arrays(path)
    if metadata.get("kind") != "sober.showcase":
        raise RequestError(f"{path} is not a showcase saved by Sober: delete it to make it again")
    return arrays, json.loads(metadata["about"])


def shown_path(folder: Path, identity: str) -> Path:
    """Where a store's folder keeps what is shown of a run."""
    return folder / "shown" / f"{identity}.safetensors"


def _traversals(start: Float[np.ndarray, " D"]) -> Float[np.ndarray, "D 11 D"]:
    codes = np.tile(start, (len(start), STEPS, 1))
    for latent, each in enumerate(codes):
        each[:, latent] = np.linspace(-SPAN, SPAN, STEPS)
    return codes


def _matrices(codes: Codes, seed: int) -> dict[str, np.ndarray]:
    if not codes.about:
        return {}
    found = score(codes, metrics="unified", seed=seed).parts
    return {f"{name}.{part}": array for name, parts in found.items() for part, array in parts.items()}


def _responses(codes: Codes) -> list[Float[np.ndarray, "3 V D"]]:
    """Mean and quantiles of every latent by the value of each factor; a continuous one is cut into bins."""
    known = varying(as_codes(codes))
    return [_response(known.mean, labels) for labels in discretised(known).factors.T]


def _response(mean: Float[np.ndarray, "N D"], labels: Int[np.ndarray, " N"]) -> Float[np.ndarray, "3 V D"]:
    groups = [mean[labels == value] for value in range(labels.max() + 1)]
    rows = [
        (group.mean(axis=0, dtype=np.float64), *np.quantile(group, QUANTILES, axis=0)) for group in groups
    ]  # (V, 3, D)
    return np.array(rows, np.float32).swapaxes(0, 1)


def _texts(factor: Factor, column: np.ndarray, labels: Int[np.ndarray, " N"]) -> list[str]:
    """A text for each value that a factor has among the codes, in order."""
    middle = np.bincount(labels, column) / np.bincount(labels)  # the value itself, or the mean of a bin
    if factor.kind == "continuous":
        return [f"{value:.3g}" for value in middle]
    named = [factor.values[round(value)] if factor.values else round(value) for value in middle]
    return [f"{value:.3g}" if isinstance(value, float) else str(value) for value in named]


def _bytes(images: np.ndarray) -> Pictures:
    values = images if images.dtype == np.uint8 else np.round(255 * images)
    if values.shape[-1] != 3:  # one channel is grey; others have no colours: show their mean
        values = values.mean(axis=-1, keepdims=True)
    return values.astype(np.uint8)


# The page


def showcase_part(
    store: Store,
    runs: Sequence[str],
    scores: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> HtmlPart:
    """A card for each run, by identity, from what its store has in shown/; `scores` adds a line to some.

    `settings` says some of their settings in other words, such as without those that all of them share.

    Its colours are those of the page (`--paper`, `--ink`, … of the explorer's style sheet).
    """
    if not runs:
        raise RequestError("no model to show: give at least one")
    cards = []
    for run in runs:
        arrays, about = _shown(store, run)
        about["setting"] = (settings or {}).get(run, about["setting"])
        cards.append(_card(arrays, about, (scores or {}).get(run, "")))
    css = Path(__file__).with_name("showcase.css").read_text(encoding="utf-8")
    return HtmlPart(css, f'<div class="showcase">{"".join(cards)}</div>', js="", data="null")


def _shown(store: Store, run: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    path = shown_path(store.folder, run)
    arrays, about = load_showcase(path)
    if about["run"] != run:
        raise RequestError(f"{path} shows run {about['run']}, not the one of its name: delete it to make it again")
    return arrays, about


def _card(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any], scores: str) -> str:
    height, width = arrays["pictures"].shape[1:3]
    drawings = _drawings(arrays, about)
    pairs = np.stack([arrays["pictures"], arrays["reconstructions"]], axis=1)  # (12, 2, H, W, C)
    sheets = _addresses([*pairs, *arrays["traversals"]], max(BYTES - len(drawings), BYTES // 4))
    title, identity = f"{about['setting']}, seed {about['seed']}", escape(about["run"])
    return "\n".join(
        [
            f'<article class="shown" aria-labelledby="shown-{identity}" style="--aspect: {width / height:.4g}">',
            f'<h3 id="shown-{identity}">{escape(title)}</h3>',
            f'<p class="shown-note">{escape(about["world"])} · run {identity}</p>',
            f"<p>{escape(scores)}</p>" if scores else "",
            "<h4>Pictures, and beside each its reconstruction</h4>",
            f'<div class="shown-pictures">{_pairs(sheets[: len(pairs)])}</div>',
            "<h4>What each latent does</h4>",
            _strips(sheets[len(pairs) :], arrays["kl"]),
            f"{drawings}</article>",
        ]
    )


def _drawings(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> str:
    """What latents have to do with factors, where there are any."""
    factors, carries = about["factors"], arrays["kl"] >= INFORMATIVE
    out = ""
    if factors:
        names = [factor["name"] for factor in factors]
        out += f"<h4>Which factors it has to do with</h4>{_relations(arrays, names, carries, about['run'])}"
    if factors and carries.any():
        out += f"<h4>How latents respond to each factor</h4>{_response_plots(arrays, factors, carries)}"
    return out


def _pairs(sheets: Sequence[str]) -> str:
    described = "picture {} and its reconstruction"
    return "".join(f'<span><img src="{sheet}" alt="{described.format(i)}"></span>' for i, sheet in enumerate(sheets, 1))


def _strips(sheets: Sequence[str], kl: Float[np.ndarray, " D"]) -> str:
    """A strip for each latent, the most informative first, and below a fold those that carry nothing."""
    used: list[str] = []
    unused: list[str] = []
    for d in np.argsort(-kl, kind="stable").tolist():
        (used if kl[d] >= INFORMATIVE else unused).append(_strip(sheets[d], d, kl[d]))
    note = (
        f"All latents stay at the code of one picture, and one runs from −{SPAN:g} to {SPAN:g}. Beside its number is "
        "what it carries: its KL from the prior, in nats. Point at a row, or reach it with Tab, and it moves."
    )
    out = f'<p class="shown-note">{note}</p><div class="shown-strips">{"".join(used)}</div>'
    if unused:
        verb = "carries" if len(unused) == 1 else "carry"
        said = f"{counted(len(unused), 'latent')} {verb} nothing (below {INFORMATIVE} nats)"
        out += f"<details><summary>{said}</summary>"
        out += f'<div class="shown-strips shown-unused">{"".join(unused)}</div></details>'
    return out


def _strip(sheet: str, latent: int, kl: float) -> str:
    return (
        f'<div class="shown-strip" tabindex="0" role="img" style="--strip: url({sheet})" '
        f'aria-label="latent {latent}, {kl:.2f} nats: {STEPS} pictures from -{SPAN:g} to {SPAN:g}">'
        f'<span class="shown-moving"></span><span class="shown-label">latent {latent} <small>{kl:.2f}</small></span>'
        '<span class="shown-steps"></span></div>'
    )


def _relations(
    arrays: Mapping[str, np.ndarray], names: Sequence[str], carries: Bool[np.ndarray, " D"], run: str
) -> str:
    """The matrices as heat maps or Hinton diagrams, each above its curve of groups and its dendrogram."""
    choices = "".join(
        f'<label><input type="radio" name="shown-{escape(run)}" value="{value}"{checked}> {text}</label>'
        for value, text, checked in (("heat", "heat map", " checked"), ("hinton", "Hinton diagram", ""))
    )
    figures = "".join(
        f"<figure><figcaption>{said}</figcaption>"
        f"{_matrix(said, arrays[f'{name}.matrix'], names, carries)}"
        f"{_groups(arrays, name, names)}</figure>"
        for name, said in MATRICES.items()
    )
    note = (
        "Below each matrix, edges between factors and latents are deleted up to a threshold: how many independent "
        "groups are left (line), how many factors still have a latent (dashes), and where factors merge into one group."
    )
    return (
        f'<div class="shown-choice" role="radiogroup" aria-label="Matrices as">{choices}</div>'
        f'<div class="shown-matrices">{figures}</div><p class="shown-note">{note}</p>'
    )


def _response_plots(
    arrays: Mapping[str, np.ndarray], factors: Sequence[Mapping[str, Any]], carries: Bool[np.ndarray, " D"]
) -> str:
    """A row for each factor, with a small plot for each latent that carries something."""
    latents = np.flatnonzero(carries)
    responses = [arrays[f"response.{k}"][:, :, latents] for k in range(len(factors))]
    reach = max(SPAN, *(float(np.abs(each).max()) for each in responses))
    rows = []
    for factor, response, known in zip(factors, responses, arrays["mi.matrix"][latents].T, strict=True):
        plots = "".join(
            _plot(response[:, :, i], reach, f"latent {d}", factor, most=known[i] > 0 and i == np.argmax(known))
            for i, d in enumerate(latents)
        )
        rows.append(f'<h5>{_values(factor)}</h5><div class="shown-plots">{plots}</div>')
    note = (
        f"Mean of a latent, and the band from its 10% to its 90% quantile, by the value of a factor; every plot spans "
        f"−{reach:.2g} to {reach:.2g}. A heavy line in colour: the latent that knows most of that factor."
    )
    return f'<p class="shown-note">{note}</p><div class="shown-responses">{"".join(rows)}</div>'


def _values(factor: Mapping[str, Any]) -> str:
    values, kind = factor["values"], factor["kind"]
    between = " to ".join([_short(values[0]), _short(values[-1])])
    return (
        f'<span title="{escape(factor["name"])}">{escape(_short(factor["name"], 2 * LETTERS))}</span> '
        f"<small>{escape(kind)}, {escape(between)}</small>"
    )


# Drawings


def _matrix(said: str, matrix: Matrix, names: Sequence[str], carries: Bool[np.ndarray, " D"]) -> str:
    """A row for each factor and a column for each latent; the style sheet shows the heat map or the Hinton diagram."""
    largest = matrix.max(initial=0.0) or 1.0
    heads = [
        f'<text class="{"" if used else "shown-faint"}" x="{NAME + CELL * (d + 0.5):g}" y="{HEAD - 7}">{d}</text>'
        for d, used in enumerate(carries)
    ]
    rows = []
    for k, name in enumerate(names):
        cells = "".join(_cell(d, value, value / largest, len(matrix)) for d, value in enumerate(matrix[:, k]))
        rows.append(f'<g transform="translate(0 {HEAD + CELL * k})">{_name(name, NAME - 8, "end", 17)}{cells}</g>')
    latent, factor = divmod(int(np.argmax(matrix)), len(names))
    label = f"{said}, factors by latents; largest: {names[factor]} and latent {latent}, {matrix.max():.2f}"
    return _svg(label, NAME + CELL * len(matrix), HEAD + CELL * len(names), "".join([*heads, *rows]))


def _cell(latent: int, value: float, share: float, latents: int) -> str:
    x, side = NAME + CELL * latent, (CELL - 2) * np.sqrt(share)
    middle = x + CELL / 2
    number = f'<text class="heat" x="{middle:g}" y="17">{_number(value)}</text>' if latents <= NUMBERED else ""
    corner = f'x="{middle - side / 2:.1f}" y="{(CELL - side) / 2:.1f}"'
    return (
        f"<g><title>latent {latent}: {value:.3g}</title>"
        f'<rect class="cell" x="{x}" style="--share: {share:.2f}"/>'
        f'{number}<rect class="hinton" {corner} width="{side:.1f}" height="{side:.1f}"/></g>'
    )


class _Axis(NamedTuple):
    """Thresholds from 0 to `top`, from the margin to `right`."""

    top: float
    right: float

    def __call__(self, threshold: float) -> str:
        return f"{MARGIN + (self.right - MARGIN) * threshold / self.top:.1f}"


def _groups(arrays: Mapping[str, np.ndarray], name: str, names: Sequence[str]) -> str:
    """The curve of independent groups above the dendrogram of factors, over one axis of thresholds."""
    matrix, thresholds = arrays[f"{name}.matrix"], arrays[f"{name}.thresholds"]
    factors, groups = arrays[f"{name}.connected_factors"], arrays[f"{name}.independent_groups"]
    width = max(NAME + CELL * len(matrix), 3 * NAME)
    axis = _Axis(float(matrix.max(initial=0.0)) or 1.0, width - NAME - 8)
    foot = BASE + LEAF * len(names)
    merged = counted(len(merges(matrix)), "merge")
    return _svg(
        f"independent groups by threshold, at most {groups.max(initial=0)}, and {merged} of factors",
        width,
        foot + 34,
        f'<path class="shown-axis" d="M{MARGIN} 8V{CURVE}H{axis.right}M{MARGIN} {foot + 4}H{axis.right}"/>'
        f'<text x="{MARGIN - 10}" y="14">{len(names)}</text><text x="{MARGIN - 10}" y="{CURVE}">0</text>'
        f'<path class="shown-dashes" d="{_curve(axis, thresholds, factors / len(names))}"/>'
        f'<path class="shown-line" d="{_curve(axis, thresholds, groups / len(names))}"/>'
        f"{_dendrogram(axis, matrix, names)}"
        f'<text x="{MARGIN}" y="{foot + 18}">0</text><text x="{axis.right}" y="{foot + 18}">{_number(axis.top)}</text>'
        f'<text class="shown-faint" x="{(MARGIN + axis.right) / 2:g}" y="{foot + 18}">threshold</text>',
    )


def _curve(axis: _Axis, thresholds: Float[np.ndarray, " T"], shares: Float[np.ndarray, " T"]) -> str:
    """Steps: what holds at a threshold holds from the one before it; beyond the last there is nothing."""
    first, *rest = (f"{CURVE - (CURVE - 10) * share:.1f}" for share in [*shares, 0.0])
    return f"M{MARGIN} {first}" + "".join(f"H{axis(t)}V{y}" for t, y in zip(thresholds, rest, strict=True))


def _dendrogram(axis: _Axis, matrix: Matrix, names: Sequence[str]) -> str:
    """Factors as lines that end where they lose their last latent, joined where they merge."""
    order, tree = _tree(matrix)
    places = {k: BASE + LEAF * (i + 0.5) for i, k in enumerate(order)}
    node = {k: (float(matrix[:, k].max()), y) for k, y in places.items()}  # where its branch begins
    tips = "".join(f'<circle cx="{axis(tip)}" cy="{y:g}" r="3"/>' for tip, y in node.values() if tip)
    branches = ""
    for level, left, right in tree:
        (a, above), (b, below) = node[left[0]], node[right[0]]
        branches += f"M{axis(a)} {above:g}H{axis(level)}V{below:g}H{axis(b)}"
        node |= dict.fromkeys([*left, *right], (level, (above + below) / 2))
    stems = "".join(f"M{axis(level)} {y:g}H{axis(0)}" for level, y in sorted(set(node.values())))
    leaves = "".join(_name(names[k], axis.right + 10, "start", y + 4) for k, y in places.items())
    return f'<path class="shown-branch" d="{branches}{stems}"/>{tips}{leaves}'


def _tree(matrix: Matrix) -> tuple[list[int], list[tuple[float, list[int], list[int]]]]:
    """Factors in an order in which no branches cross, and how groups of them merge, the highest threshold first."""
    group = {k: [k] for k in range(matrix.shape[1])}
    tree = []
    for level, a, b in merges(matrix):
        tree.append((level, group[a], group[b]))
        together = group[a] + group[b]
        group |= dict.fromkeys(together, together)
    return list(dict.fromkeys(k for together in group.values() for k in together)), tree


def _plot(response: Float[np.ndarray, "3 V"], reach: float, said: str, factor: Mapping[str, Any], *, most: bool) -> str:
    """A latent's response to one factor. A cyclic factor comes round to its first value again."""
    width, height = PLOT
    if factor["kind"] == "cyclic":
        response = np.hstack([response, response[:, :1]])
    x = np.linspace(6, width - 6, response.shape[1])
    mean, low, high = height / 2 - (height / 2 - 3) * response / reach
    if factor["kind"] == "categorical":  # nothing lies between two values
        dots = "".join(f"M{a:.0f} {b:.1f}h0" for a, b in zip(x, mean, strict=True))
        bars = "".join(f"M{a:.0f} {b:.1f}V{c:.1f}" for a, b, c in zip(x, low, high, strict=True))
        drawn = f'<path class="shown-bars" d="{bars}"/><path class="shown-dots" d="{dots}"/>'
    else:
        band = f"M{_path(x, low)}L{_path(x[::-1], high[::-1])}Z"
        drawn = f'<path class="shown-band" d="{band}"/><path class="shown-line" d="M{_path(x, mean)}"/>'
    frame = f'<rect width="{width}" height="{height}"/><path class="shown-axis" d="M0 {height / 2:g}H{width}"/>'
    caption = f'<text x="{width / 2:g}" y="{height + 13}">{said}</text>'
    label = f"{said} by {factor['name']}: mean from {response[0].min():.2g} to {response[0].max():.2g}"
    return _svg(label, width, height + 18, frame + drawn + caption, "shown-plot shown-most" if most else "shown-plot")


def _path(x: Float[np.ndarray, " V"], y: Float[np.ndarray, " V"]) -> str:
    return "L".join(f"{a:.0f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _svg(label: str, width: float, height: float, drawn: str, kind: str = "shown-drawing") -> str:
    return (
        f'<svg class="{kind}" role="img" aria-label="{escape(label)}" viewBox="0 0 {width:g} {height:g}" '
        f'style="--width: {width / 13:.4g}rem">{drawn}</svg>'
    )


def _name(name: str, x: float, anchor: str, y: float) -> str:
    text = escape(_short(name))
    return f'<text x="{x:g}" y="{y:g}" style="text-anchor: {anchor}"><title>{escape(name)}</title>{text}</text>'


def _short(text: str, letters: int = LETTERS) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _number(value: float) -> str:
    """A number for a small cell: `.42`, `1.3`; nothing for what rounds to 0."""
    return "" if value < 0.005 else f"{value:.2f}".removeprefix("0") if value < 10 else f"{value:.0f}"


def _addresses(sheets: Sequence[Pictures], room: int) -> list[str]:
    """Each sheet, pictures side by side, as the address of an image that holds it: the best for which there is room."""
    addresses: list[str] = []
    for side, colours in QUALITIES:
        files = [_png(sheet, side, colours) for sheet in sheets]
        addresses = [f"data:image/png;base64,{base64.b64encode(file).decode()}" for file in files]
        if sum(map(len, addresses)) <= room:
            break
    return addresses


def _png(pictures: Pictures, side: int, colours: int) -> bytes:
    from PIL import Image  # noqa: PLC0415

    images = [Image.fromarray(picture if picture.shape[2] == 3 else picture[..., 0]) for picture in pictures]
    for image in images:
        image.thumbnail((side, side))
    width, height = images[0].size
    sheet = Image.new(images[0].mode, (width * len(images), height))
    for at, image in enumerate(images):
        sheet.paste(image, (width * at, 0))
    if colours:
        sheet = sheet.quantize(colours, dither=Image.Dither.NONE)
    with io.BytesIO() as file:
        sheet.save(file, "PNG", optimize=True)
        return file.getvalue()
