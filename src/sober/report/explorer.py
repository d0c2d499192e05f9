"""The latent explorer: one slider for each latent of a model, and a picture that the browser decodes from them.

`sober.evaluation.explorer_entries` makes the data of each model; `explorer.js` computes the decoder.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sober.errors import RequestError
from sober.report.page_files import HEAD, embedded, file, write

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


class HtmlFragment(NamedTuple):
    """A fragment of a page: `css` belongs in the head, `html` in the body; `data` and then `js` follow as scripts."""

    css: str
    html: str
    js: str
    data: str  # goes into <script type="application/json" id="explorer-data">; no text in it can end that element


def explorer_fragment(entries: Sequence[Mapping[str, Any]]) -> HtmlFragment:
    """The explorer of one or several models, for a larger page."""
    if not entries:
        raise RequestError("no model to explore: give at least one")
    return HtmlFragment(
        css=file("explorer.css"),
        html='<section class="explorer" id="explorer" aria-label="Latent explorer">'
        "<p>The explorer needs JavaScript.</p></section>",
        js=file("explorer.js"),
        data=embedded(entries),
    )


def explorer_page(title: str, entries: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Writes one HTML file with nothing but the explorer, and returns its path."""
    return write(path, page(title, explorer_fragment(entries)))


def page(title: str, fragment: HtmlFragment) -> str:
    """A page with nothing but this fragment. Its policy allows only the fragment's script and loads nothing else."""
    digest = base64.b64encode(hashlib.sha256(fragment.js.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    return PAGE.format(policy=policy, title=html.escape(title), **fragment._asdict())
