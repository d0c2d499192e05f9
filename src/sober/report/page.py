"""The page of a report: sections one below the other, most of them folded, and scripts at the end.

The page's policy allows only its own scripts, by their digests, and loads nothing from outside. Vega compiles the
expressions of its charts into functions, so the policy allows `eval`. Expressions never contain names that users chose.
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
from sober.report.page_files import HEAD, embedded, file

COLUMN, NAMES = 50, 150  # pixels that a column of numbers and the names of rows need at least
LETTER, LEANING = 6.5, 0.77  # pixels of a letter, and the cosine of the angle at which names above columns lean

FRAME = (
    HEAD
    + """</style>
</head>
<body class="report">
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
    """A section of the page; a section without content is left out."""

    name: str
    title: str
    html: str
    note: str = ""  # beside the title of a folded section: what is inside
    folded: bool = False

    @property
    def whole(self) -> str:
        """The section as HTML."""
        title = f"<h2>{escape(self.title)}</h2>" if self.title else ""
        if not self.folded:
            return f'<section id="{self.name}">\n{title}\n{self.html}\n</section>'
        note = f"<span>{escape(self.note)}</span>" if self.note else ""
        summary = f"<summary>{title}{note}</summary>"
        return f'<section id="{self.name}" class="fold"><details>{summary}\n<div>{self.html}</div></details></section>'


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
    """The page as HTML. `data` maps the id of an element to its JSON; `eval` is allowed only with charts."""
    filled = [section for section in sections if section.html]
    body = "\n".join(section.whole for section in filled)
    digests = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    allowed = f"{digests} 'unsafe-eval'" if charts else digests
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:"
    return FRAME.format(
        policy=policy,
        title=escape(title),
        css=css,
        body=f"<header>{head}</header>\n{body}",
        data="\n".join(f'<script type="application/json" id="{name}">{text}</script>' for name, text in data.items()),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@functools.cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, which defines only `window.vegaEmbed` for others."""
    import vl_convert  # noqa: PLC0415

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return f"(() => {{{bundle}\n}})();"


# Figures.


def _leaning_out(figure: Figure) -> float:
    """Pixels on the right of a chart for the end of the last column's name, which leans out there."""
    return max(0, LETTER * LEANING * figure.letters("column") - COLUMN / 2) if figure.columns else 0


def figure_html(figure: Figure) -> str:
    """A figure's title, how to read it, its choice of panels and its caption; report.js draws the chart."""
    labels = "".join(_choice(name, values) for name, values in zip(figure.by, figure.choices, strict=True))
    bounds = ""
    if n := figure.columns:
        beside = max(NAMES, LETTER * figure.letters("row")) + _leaning_out(figure)
        bounds = f"min-width: {beside + COLUMN * n:.0f}px; max-width: {2 * beside + 2 * COLUMN * n:.0f}px"
    return (
        f'<figure data-figure="{figure.name}"><h3>{escape(figure.title)}</h3>'
        f'<p class="how-to-read">{escape(figure.how_to_read)}</p>'
        f'<p class="tools">{labels}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(figure.title)}">'
        f'<div class="chart" style="{bounds}"><noscript>Charts need JavaScript.</noscript></div></div>'
        f"<figcaption>{escape(figure.caption)}</figcaption>"
        '<details class="numbers"><summary>The numbers of this panel</summary></details></figure>'
    )


def _choice(name: str, values: Sequence[str]) -> str:
    """A choice between panels; if there is only one panel, its name."""
    if len(values) < 2:
        return f'<span class="chosen">{escape(name)}: <b>{escape(values[0])}</b><input type="hidden" value="0"></span>'
    options = "".join(f'<option value="{index}">{escape(value)}</option>' for index, value in enumerate(values))
    return f'<label>{escape(name)} <select autocomplete="off">{options}</select></label>'


def figure_data(figures: Sequence[Figure]) -> str:
    """Charts and the rows of their panels as JSON: a panel lists its fields once, and numbers have five digits."""
    figures_by_name = {}
    for figure in figures:
        panels = {
            " ".join(str(values.index(name)) for values, name in zip(figure.choices, key, strict=True)): _columnar(rows)
            for key, rows in figure.panels.items()
        }
        figures_by_name[figure.name] = {"spec": template(figure.chart, _leaning_out(figure)), "panels": panels}
    return embedded({"config": PAGE, "figures": figures_by_name})


def _columnar(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    fields = list(dict.fromkeys(name for row in rows for name in row))
    return {"fields": fields, "rows": [[_short(row.get(name)) for name in fields] for row in rows]}


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def style(*names: str) -> str:
    """Style sheets one after the other. Name the sheet with the colours first."""
    return "\n".join(map(file, names))
