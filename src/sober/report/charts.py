"""Charts of a report: each is a function of its rows, and the page and the figures for papers share it.

Rows have the fields that a chart names. Names that users chose stand only in rows, never in a chart's expressions. The
theme gives single hues. Where hues tell methods apart, shapes or labels do too, so a reader needs no colours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

Row = Mapping[str, Any]
Chart = Callable[[Any], "alt.LayerChart"]

# Close to the colours of Okabe & Ito, which colour-blind readers can tell apart. Each is visible on a light and on a
# dark page.
HUES = ("#0072b2", "#d55e00", "#009e73", "#bb5f97", "#b07d00", "#3a8fc9", "#8c6bb1", "#8a8a8a")
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2])
NEGATIVE, POSITIVE = "#d9730d", "#2c6fbb"
PADDING = {"left": 0, "top": 4, "right": 28, "bottom": 4}


def theme(paper: str, ink: str, faded: str, line: str, accent: str, font: str) -> dict[str, Any]:
    """The settings that all charts share. Colours may be CSS variables: a page that turns dark redraws no chart."""
    text = {"labelFont": font, "titleFont": font, "labelColor": faded, "titleColor": faded, "titleFontWeight": "normal"}
    sizes = {"labelFontSize": 12, "titleFontSize": 12}
    plain = {"domain": False, "ticks": False, "gridColor": line, "labelPadding": 6, "labelLimit": 230}
    above = {"title": None, "orient": "top", "symbolSize": 70, "columns": 3, "labelLimit": 180}
    return {
        "background": paper,
        "font": font,
        "view": {"stroke": None},
        "padding": PADDING,
        "axis": {**text, **sizes, **plain},
        "legend": {**text, **sizes, **above},
        "title": {"font": font, "color": ink, "fontSize": 13, "fontWeight": 600, "anchor": "start", "limit": 400},
        "range": {"category": list(HUES), "symbol": list(SHAPES)},
        "mark": {"color": accent},
        "style": {
            "ink": {"color": ink},
            "faded": {"color": faded},
            "soft": {"fill": accent, "stroke": accent},
            "outlined": {"stroke": ink, "strokeWidth": 2, "opacity": 1},
        },
    }


PAGE = theme("var(--paper)", "var(--ink)", "var(--faded)", "var(--line)", "var(--accent)", "system-ui, sans-serif")
PAPER = theme("white", "#111111", "#444444", "#e2e2e2", "#1f4e9c", "Helvetica, Arial, sans-serif")


def distributions(data: Any) -> alt.LayerChart:
    """A row for each method: the outline of its density, its runs, its quartiles and its median."""
    import altair as alt  # noqa: PLC0415

    base = alt.Chart(data).encode(y=_names("method"))
    offset = alt.YOffset("offset:Q", scale=alt.Scale(domain=[-1.15, 1.15]))
    violin = base.transform_filter("datum.part === 'density'").mark_line(
        filled=True, interpolate="linear-closed", style="soft", fillOpacity=0.18, strokeWidth=1, strokeOpacity=0.6
    )
    runs = base.transform_filter("datum.part === 'run'").mark_circle(size=26, opacity=0.55)
    middle = base.transform_filter("datum.part === 'summary'")
    return _layers(
        violin.encode(x=_score("score"), yOffset=offset, detail="method:N", order="order:Q"),
        runs.encode(x=_score("score"), yOffset=offset, tooltip=_tips("setting", "seed", "score")),
        middle.mark_bar(height=5, cornerRadius=2, style="ink").encode(x=_score("lower"), x2="upper"),
        middle.mark_point(size=90, filled=True, style="outlined").encode(
            x=_score("median"), tooltip=_tips("method", "median", "lower", "upper", "n")
        ),
        height=alt.Step(56),
    )


def settings(data: Any) -> alt.LayerChart:
    """A row for each setting: quartiles as a bar, the median with its interval, and the runs if they are few."""
    import altair as alt  # noqa: PLC0415

    base = alt.Chart(data).encode(y=_names("setting"))
    middle = base.transform_filter("datum.part === 'summary'")
    tips = _tips("setting", "value", "low", "high", "lower", "upper", "n")
    return _layers(
        middle.mark_bar(height=13, opacity=0.25, cornerRadius=2).encode(x=_score("lower"), x2="upper", tooltip=tips),
        base.transform_filter("datum.part === 'run'")
        .mark_tick(thickness=1.5, height=13, opacity=0.8)
        .encode(x=_score("score"), tooltip=_tips("setting", "seed", "score")),
        middle.mark_rule(strokeWidth=2, style="ink").encode(x=_score("low"), x2="high", tooltip=tips),
        middle.mark_circle(size=55, opacity=1, style="ink").encode(x=_score("value"), tooltip=tips),
        height=alt.Step(22),
    )


def strengths(data: Any) -> alt.LayerChart:
    """Medians along the sweep of each method's own hyperparameter, with their intervals."""
    import altair as alt  # noqa: PLC0415

    base = alt.Chart(data).encode(
        x=alt.X("place:O", title="own hyperparameter, from its smallest value").axis(labelAngle=0),
        xOffset=alt.XOffset("method:N", sort=None, scale=alt.Scale(paddingOuter=1)),
    )
    tips = _tips("setting", "strength", "value", "low", "high", "n")
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False))
    hue, shape = alt.Color("method:N", sort=None), alt.Shape("method:N", sort=None)
    stroke = alt.Stroke("method:N", sort=None, legend=None)  # not `color`, so that points alone make the legend
    dash = alt.StrokeDash("method:N", sort=None, legend=None, scale=alt.Scale(range=list(DASHES)))
    return _layers(
        base.mark_line(strokeWidth=1.25).encode(y=y, stroke=stroke, strokeDash=dash),
        base.mark_rule(strokeWidth=1.75).encode(y=alt.Y("low:Q"), y2="high", stroke=stroke, tooltip=tips),
        base.mark_point(filled=True, size=75, opacity=1).encode(y=y, color=hue, shape=shape, tooltip=tips),
        height=320,
    )


def pairs(data: Any) -> alt.LayerChart:
    """Two numbers against each other, a point for each run or setting."""
    return _pairs(data, log=False)


def log_pairs(data: Any) -> alt.LayerChart:
    """Two numbers against each other on logarithmic axes, with a line on which both are equal."""
    import altair as alt  # noqa: PLC0415

    line = alt.Chart(data).mark_line(strokeDash=[4, 3], strokeWidth=1, style="faded")
    equal = line.encode(x=_number("x", log=True), y=_number("x", "y", log=True))
    return _pairs(data, equal, log=True)


def _pairs(data: Any, *below: alt.Chart, log: bool) -> alt.LayerChart:
    import altair as alt  # noqa: PLC0415

    marks = alt.Chart(data).mark_point(filled=True, size=42, opacity=0.75)
    points = marks.encode(
        x=_number("x", log=log),
        y=_number("y", log=log),
        color=alt.Color("method:N", sort=None),
        shape=alt.Shape("method:N", sort=None),
        tooltip=_tips("setting", "seed", "x", "y"),
    )
    return _layers(*below, points, height=340)


def marked_pairs(data: Any) -> alt.LayerChart:
    """Two numbers against each other, a point for each run; the runs that have a `place` are marked with it."""
    import altair as alt  # noqa: PLC0415

    base = alt.Chart(data).encode(x=_number("x"), y=_number("y"), tooltip=_tips("setting", "seed", "x", "y"))
    marked = base.transform_filter("datum.place !== ''")
    return _layers(
        base.mark_circle(size=36, opacity=0.5),
        marked.mark_point(filled=True, size=90, opacity=1, color=NEGATIVE, shape="diamond"),
        marked.mark_text(dx=9, dy=-7, fontWeight=600, style="ink").encode(text="place:N"),
        height=340,
    )


def paths(data: Any) -> alt.LayerChart:
    """Two means against each other; a line joins the strengths of a method in their order."""
    return _paths(data, log=False)


def log_paths(data: Any) -> alt.LayerChart:
    """As `paths`, with a logarithmic axis for the first mean."""
    return _paths(data, log=True)


def _paths(data: Any, *, log: bool) -> alt.LayerChart:
    import altair as alt  # noqa: PLC0415

    base = alt.Chart(data).encode(x=_number("x", log=log), y=_number("y"))
    dash = alt.StrokeDash("method:N", sort=None, legend=None, scale=alt.Scale(range=list(DASHES)))
    stroke = alt.Stroke("method:N", sort=None, legend=None)
    return _layers(
        base.mark_line(strokeWidth=1.25).encode(stroke=stroke, strokeDash=dash, order="strength:Q"),
        base.mark_point(filled=True, opacity=1).encode(
            color=alt.Color("method:N", sort=None),
            shape=alt.Shape("method:N", sort=None),
            size=alt.Size("strength:Q", legend=None, scale=alt.Scale(type="sqrt", range=[40, 220])),
            tooltip=_tips("setting", "strength", "x", "y"),
        ),
        height=340,
    )


def curves(data: Any) -> alt.LayerChart:
    """A term of the loss along the steps of training: its mean and a band, a line for each world."""
    import altair as alt  # noqa: PLC0415

    base = alt.Chart(data).encode(x=alt.X("step:Q", title="step").axis(tickCount=6, format="~s"))
    fill = alt.Fill("world:N", sort=None, legend=None)  # not `color`, so that lines alone make the legend
    hue, dash = (
        alt.Color("world:N", sort=None),
        alt.StrokeDash("world:N", sort=None, scale=alt.Scale(range=list(DASHES))),
    )
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False))
    tips = _tips("world", "step", "value", "low", "high", "n")
    return _layers(
        base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q"), y2="high", fill=fill),
        base.mark_line(strokeWidth=1.75).encode(y=y, color=hue, strokeDash=dash, tooltip=tips),
        height=300,
    )


def rising(data: Any) -> alt.LayerChart:
    """Means along a logarithmic axis, with their intervals, a line for each method."""
    import altair as alt  # noqa: PLC0415

    scale = alt.Scale(type="log", nice=False)
    base = alt.Chart(data).encode(x=alt.X("place:Q", title="learned from", scale=scale).axis(tickCount=5, format="~s"))
    fill = alt.Fill("method:N", sort=None, legend=None)  # not `color`, so that points alone make the legend
    stroke = alt.Stroke("method:N", sort=None, legend=None)
    dash = alt.StrokeDash("method:N", sort=None, legend=None, scale=alt.Scale(range=list(DASHES)))
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False))
    tips = _tips("method", "place", "value", "low", "high", "n")
    line, detail = base.mark_line(strokeWidth=1.5), alt.Detail("settings:N")
    return _layers(
        base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q"), y2="high", fill=fill, detail=detail),
        line.encode(y=y, stroke=stroke, strokeDash=dash, detail=detail),
        base.mark_point(filled=True, size=60, opacity=1).encode(
            y=y, color=alt.Color("method:N", sort=None), shape=alt.Shape("method:N", sort=None), tooltip=tips
        ),
        height=300,
    )


def groups(data: Any) -> alt.LayerChart:
    """Means of three groups of runs side by side, with their intervals, for each number of a task."""
    import altair as alt  # noqa: PLC0415

    base = alt.Chart(data).encode(
        y=alt.Y("task:N", sort=None, title=None).axis(labelLimit=220),
        yOffset=alt.YOffset("group:N", sort=None, scale=alt.Scale(paddingOuter=0.6)),
    )
    tips = _tips("group", "from", "to", "value", "low", "high", "n")
    x = alt.X("value:Q", title=None, scale=alt.Scale(zero=False))
    stroke = alt.Stroke("group:N", sort=None, legend=None)
    return _layers(
        base.mark_rule(strokeWidth=1.75).encode(x=alt.X("low:Q"), x2="high", stroke=stroke, tooltip=tips),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            x=x, color=alt.Color("group:N", sort=None), shape=alt.Shape("group:N", sort=None), tooltip=tips
        ),
        height=alt.Step(40, **{"for": "position"}),  # pixels for a task with its three groups
    )


def heat(data: Any) -> alt.LayerChart:
    """Rank correlations: the hue shows the sign, the shade the size. Numbers in brackets may be 0 by their interval."""
    import altair as alt  # noqa: PLC0415

    base = alt.Chart(data).encode(
        y=_names("row"),
        x=alt.X("column:N", sort=alt.EncodingSortField("at", op="min"), title=None).axis(
            orient="top", labelAngle=-40, grid=False, labelLimit=210
        ),
        tooltip=_tips("row", "column", "value", "low", "high", "n"),
    )
    sign = alt.Scale(type="threshold", domain=[0], range=[NEGATIVE, POSITIVE])
    size = alt.Scale(domain=[0, 1], range=[0.03, 0.72], clamp=True)
    return _layers(
        base.mark_rect(cornerRadius=3).encode(
            color=alt.Color("value:Q", scale=sign, legend=None),
            fillOpacity=alt.FillOpacity("size:Q", scale=size, legend=None),
        ),
        base.mark_text(fontSize=11, style="ink").encode(text="text:N"),
        height=alt.Step(30),
    )


def variance(data: Any) -> alt.LayerChart:
    """Shares of variance that method and setting explain, with intervals."""
    import altair as alt  # noqa: PLC0415

    kinds = ["method", "setting"]
    base = alt.Chart(data).encode(
        y=_names("metric"),
        yOffset=alt.YOffset("by:N", sort=kinds),
        color=alt.Color("by:N", scale=alt.Scale(domain=kinds, range=[HUES[0], HUES[1]])),
        tooltip=_tips("metric", "by", "value", "low", "high", "adjusted", "n"),
    )
    share = alt.Scale(domain=[0, 1])
    axis = alt.Axis(format="%")
    return _layers(
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=share, title=None, axis=axis), x2="high"),
        base.mark_point(filled=True, size=75, opacity=1).encode(
            x=alt.X("value:Q", scale=share, title=None, axis=axis),
            shape=alt.Shape("by:N", scale=alt.Scale(domain=kinds, range=list(SHAPES[:2]))),
        ),
        height=alt.Step(36, **{"for": "position"}),
    )


def dumbbells(data: Any) -> alt.LayerChart:
    """Medians of the scores of means and of samples; a line joins the two of a setting."""
    import altair as alt  # noqa: PLC0415

    kinds = ["of means", "of samples"]
    base = alt.Chart(data).encode(y=_names("setting"))
    points = base.transform_fold(["means", "samples"], as_=["of", "median"]).transform_calculate(of="'of ' + datum.of")
    tips = _tips("setting", "means", "samples", "value", "low", "high", "n")
    return _layers(
        base.mark_rule(strokeWidth=1.5, opacity=0.5, style="faded").encode(x=_score("means"), x2="samples"),
        points.mark_point(filled=True, size=75, opacity=1).encode(
            x=_score("median"),
            color=alt.Color("of:N", scale=alt.Scale(domain=kinds, range=[HUES[0], HUES[1]])),
            shape=alt.Shape("of:N", scale=alt.Scale(domain=kinds, range=list(SHAPES[:2]))),
            tooltip=tips,
        ),
        height=alt.Step(22),
    )


def template(chart: Chart, right: float = 0) -> dict[str, Any]:
    """A chart as JSON without its rows: the page gives it the data set `rows` and its width.

    `right`: pixels for names that lean out of the right side, if the usual padding is less.

    Vega-Lite has no height by the step for a chart whose width is given. So `usermeta` keeps `step`, and report.js
    multiplies it with the number of different values in the field `of`.
    """
    import altair as alt  # noqa: PLC0415

    spec = chart(alt.NamedData("rows")).properties(width="container").to_dict()
    if right > PADDING["right"]:
        spec["padding"] = {**PADDING, "right": round(right)}
    if isinstance(spec["height"], dict):
        spec["usermeta"] = {"step": spec.pop("height")["step"], "of": spec["layer"][0]["encoding"]["y"]["field"]}
    return spec


def paper_figure(chart: Chart, panels: Mapping[str, Sequence[Row]], columns: int = 2) -> dict[str, Any]:
    """A figure for a paper as JSON: a chart for each panel, under the panel's title."""
    import altair as alt  # noqa: PLC0415

    titled_charts = [
        chart(alt.InlineData(values=list(rows))).properties(width=300, title=title) for title, rows in panels.items()
    ]
    sheet = alt.concat(*titled_charts, columns=columns).resolve_scale(x="independent", y="independent")
    return {**sheet.to_dict(validate=False), "config": PAPER}  # the page has validated the same charts


def _layers(*charts: alt.Chart, height: Any) -> alt.LayerChart:
    import altair as alt  # noqa: PLC0415

    return alt.LayerChart(layer=list(charts), height=height)


def _names(field: str) -> alt.Y:
    import altair as alt  # noqa: PLC0415

    return alt.Y(f"{field}:N", sort=None, title=None).axis(grid=False)


def _score(field: str) -> alt.X:
    import altair as alt  # noqa: PLC0415

    return alt.X(f"{field}:Q", title=None, scale=alt.Scale(zero=False)).axis(tickCount=6)


def _number(field: str, channel: str = "", *, log: bool = False) -> Any:
    """An axis of numbers, which may begin elsewhere than at 0."""
    import altair as alt  # noqa: PLC0415

    axis = alt.X if (channel or field) == "x" else alt.Y
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False)
    return axis(f"{field}:Q", title=None, scale=scale).axis(tickCount=6)


def _tips(*fields: str) -> list[alt.Tooltip]:
    """The tooltips of these fields: texts and counts as they are, other numbers to four digits."""
    import altair as alt  # noqa: PLC0415

    plain = {"n", "seed", "setting", "method", "metric", "by", "row", "column", "world"}
    return [alt.Tooltip(f"{name}:N") if name in plain else alt.Tooltip(f"{name}:Q", format=".4~g") for name in fields]
