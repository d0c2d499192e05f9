"""The page of a report: sections one below the other, a table of contents beside them, and scripts that come last.

The page may run its own scripts, known by their digests, and reach nothing outside itself. Vega makes functions of the
expressions in its charts, for which the policy has to allow `eval`; what users named is never part of an expression.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from sober.report.charts import PAGE, template
from sober.report.figure import Figure
from sober.report.frame import HEAD, embedded, file

COLUMN, NAMES = 50, 150  # least pixels of a column with a number, and of the names of rows
LETTER, LEANING = 6.5, 0.77  # pixels of a letter in a name, and the cosine of the angle of names above columns

FRAME = (
    HEAD
    + """</style>
</head>
<body class="report">
<a class="skip" href="#main">Skip to the findings</a>
<nav aria-label="Contents"><ul>{contents}</ul></nav>
<main id="main">
{body}
</main>
{data}
{scripts}
</body>
</html>
"""
)


class Section(NamedTuple):
    """A section of the page; those without content are left out."""

    name: str
    title: str
    html: str


def page(
    title: str,
    head: str,
    sections: Sequence[Section],
    *,
    css: str,
    data: Mapping[str, str],
    scripts: Sequence[str],
    charts: bool = True,
) -> str:
    """The whole page. `data` is JSON by the id of its element; without charts nothing is evaluated."""
    shown = [section for section in sections if section.html]
    body = "\n".join(f'<section id="{s.name}">\n<h2>{escape(s.title)}</h2>\n{s.html}\n</section>' for s in shown)
    digests = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    allowed = f"{digests} 'unsafe-eval'" if charts else digests
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:"
    return FRAME.format(
        policy=policy,
        title=escape(title),
        css=css,
        contents="".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in shown),
        body=f"<header>{head}</header>\n{body}",
        data="\n".join(f'<script type="application/json" id="{name}">{text}</script>' for name, text in data.items()),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@functools.cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, whose names stay its own."""
    import vl_convert  # noqa: PLC0415

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return f"(() => {{{bundle}\n}})();"


# Figures.


def _leaning_out(figure: Figure) -> float:
    """Pixels that the name of the last column needs on the right of a chart."""
    return max(0, LETTER * LEANING * figure.letters("column") - COLUMN / 2) if figure.columns else 0


def figure_html(figure: Figure) -> str:
    """A figure without its chart, which report.js draws: title, how to read it, what to choose, caption."""
    labels = "".join(_choice(name, values) for name, values in zip(figure.by, figure.choices, strict=True))
    bounds = ""
    if n := figure.columns:
        beside = max(NAMES, LETTER * figure.letters("row")) + _leaning_out(figure)
        bounds = f"min-width: {beside + COLUMN * n:.0f}px; max-width: {2 * beside + 2 * COLUMN * n:.0f}px"
    return (
        f'<figure data-figure="{figure.name}"><h3>{escape(figure.title)}</h3><p class="says">{escape(figure.says)}</p>'
        f'<p class="tools">{labels}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(figure.title)}">'
        f'<div class="chart" style="{bounds}"><noscript>Charts need JavaScript.</noscript></div></div>'
        f"<figcaption>{escape(figure.caption)}</figcaption>"
        '<details class="numbers"><summary>The numbers of this panel</summary></details></figure>'
    )


def _choice(name: str, values: Sequence[str]) -> str:
    """A choice between panels; where there is nothing to choose, what was chosen."""
    if len(values) < 2:
        return f'<span class="chosen">{escape(name)}: <b>{escape(values[0])}</b><input type="hidden" value="0"></span>'
    options = "".join(f'<option value="{at}">{escape(value)}</option>' for at, value in enumerate(values))
    return f'<label>{escape(name)} <select autocomplete="off">{options}</select></label>'


def figure_data(figures: Sequence[Figure]) -> str:
    """Charts and the rows of their panels as JSON: fields once for each panel, numbers to five digits."""
    entries = {}
    for figure in figures:
        panels = {
            " ".join(str(values.index(part)) for values, part in zip(figure.choices, key, strict=True)): _columnar(rows)
            for key, rows in figure.panels.items()
        }
        entries[figure.name] = {"spec": template(figure.chart, _leaning_out(figure)), "panels": panels}
    return embedded({"config": PAGE, "figures": entries})


def _columnar(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    fields = list(dict.fromkeys(name for row in rows for name in row))
    return {"fields": fields, "rows": [[_short(row.get(name)) for name in fields] for row in rows]}


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def style(*names: str) -> str:
    """Style sheets one after the other; the first has the colours."""
    return "\n".join(map(file, names))
