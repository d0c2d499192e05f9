"""The latent explorer: one slider for each latent of a model, and its decoder at work in the browser.

The decoder is the graph that `sober.interop.graph` makes of it, with its weights, as text in the page; `explorer.js`
computes it. Weights keep three of their four bytes: for models trained on `blocks` pixels then differ by some 1e-4 from
those of `Model.decode`, where float16 would make it 5e-3, and the decoder of a 64 x 64 picture takes 1.5 MB.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sober.criteria.udr import INFORMATIVE
from sober.errors import RequestError
from sober.interop.graph import decoder_graph
from sober.models.model import Model, latent_kl
from sober.report.frame import HEAD, embedded, file, write
from sober.worlds import World

STARTS = 11  # pictures to start from; with the start at 0 they are twelve, which fill their rows
SAMPLE = 512  # pictures from which what each latent carries is estimated

PAGE = (
    HEAD
    + """\
html {{ font: clamp(16px, 0.55vw + 8.5px, 24px) system-ui, sans-serif; background: var(--paper); color: var(--ink); }}
body {{ max-width: 110rem; margin: 0 auto; padding: clamp(1rem, 4vw, 4rem); }}
h1 {{ margin: 0 0 0.25rem; font-size: 1.6rem; font-weight: 600; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<h1>{title}</h1>
<main>
{html}
</main>
<script type="application/json" id="explorer-data">{data}</script>
<script>{js}</script>
</body>
</html>
"""
)


class HtmlPart(NamedTuple):
    """A piece of a page: `css` for its head, `html`, and after that `data` in a JSON script element, and `js`."""

    css: str
    html: str
    js: str
    data: str  # for <script type="application/json" id="explorer-data">, which nothing in it can end


class Start(NamedTuple):
    """A picture to start from, and its code."""

    name: str
    code: Float[np.ndarray, " D"]
    picture: np.ndarray  # (H, W, C), bytes 0 to 255 or floats 0 to 1


def explore(model: Model, pictures: World | np.ndarray, path: str | Path, *, seed: int = 0) -> Path:
    """Writes one HTML file with the explorer of a model, and returns its path; no server or network is needed.

    From the pictures come those to start from, the first few of a random sample or of an array, and what each latent
    carries.
    """
    images = pictures.sample(seed, SAMPLE).images if isinstance(pictures, World) else np.asarray(pictures)
    if not len(images):
        raise RequestError("no pictures to start from: give at least one")
    mean, logvar = model.encode(images)
    shown = images[:STARTS].reshape(-1, *model.image_shape)
    starts = [Start(f"picture {i + 1}", mean[i], picture) for i, picture in enumerate(shown)]
    run = model.run
    part = explorer_part([model], [starts], [latent_kl(mean, logvar)], [f"run {run.identity}"])
    return write(Path(path), page(f"{run.method} on {run.world}, seed {run.seed}", part))


def explorer_part(
    models: Sequence[Model],
    starts: Sequence[Sequence[Start]],
    kl: Sequence[Float[np.ndarray, " D"]],
    titles: Sequence[str],
    told: Sequence[Sequence[str]] | None = None,
) -> HtmlPart:
    """The explorer of one or several models, as part of a page. All sequences have an entry for each model.

    `told` has words for each latent, such as the factors that it goes with; none where that is not known.
    """
    if not models:
        raise RequestError("no model to explore: give at least one")
    words = [()] * len(models) if told is None else told
    entries = [_entry(*each) for each in zip(models, starts, kl, titles, words, strict=True)]
    return HtmlPart(
        css=file("explorer.css"),
        html='<section class="explorer" id="explorer" aria-label="Latent explorer">'
        "<p>The explorer needs JavaScript.</p></section>",
        js=file("explorer.js"),
        data=embedded(entries),
    )


def page(title: str, part: HtmlPart) -> str:
    """A page with nothing but this part. It may run this part's script, and reach nothing outside itself."""
    digest = base64.b64encode(hashlib.sha256(part.js.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    return PAGE.format(policy=policy, title=html.escape(title), **part._asdict())


def _entry(
    model: Model, starts: Sequence[Start], kl: Float[np.ndarray, " D"], title: str, told: Sequence[str]
) -> dict[str, Any]:
    graph = decoder_graph(model)
    numbers = [*graph.arrays.values(), kl, *(start.code for start in starts)]
    if not all(np.isfinite(array).all() for array in numbers):
        raise RequestError(f"{title} has weights or codes that are not finite: explore a model that did not diverge")
    return {
        "identity": model.run.identity,
        "title": title,
        "shape": model.image_shape,
        "kl": np.asarray(kl, float).tolist(),
        "told": list(told),
        "informative": INFORMATIVE,
        "starts": [{"name": s.name, "code": s.code.tolist(), "picture": _png(s.picture)} for s in starts],
        "graph": graph.plain(),
        "weights": _packed(graph.arrays),
    }


def _packed(arrays: Mapping[str, Float[np.ndarray, "..."]]) -> str:
    """All numbers in order, each rounded to the upper three bytes of a float32, in base64."""
    numbers = np.concatenate([np.ravel(array) for array in arrays.values()]).astype("<f4")
    bits = (numbers.view("<u4") + 0x80) >> 8
    return base64.b64encode(bits.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()).decode()


def _png(picture: np.ndarray) -> str:
    """A picture as the address of an image that holds it."""
    from PIL import Image  # noqa: PLC0415

    values = picture if picture.dtype == np.uint8 else np.round(255 * picture)
    if values.shape[2] != 3:  # one channel is grey; others have no colours: show their mean
        values = values.mean(axis=2)
    with io.BytesIO() as file:
        Image.fromarray(values.astype(np.uint8)).save(file, "PNG")
        return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
