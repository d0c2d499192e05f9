"""Tables as files: Markdown, LaTeX and parquet, each with its caption."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from sober.results.tables.table import ResultTable

if TYPE_CHECKING:
    import polars as pl


def write_table(result: ResultTable, folder: str | Path) -> list[Path]:
    """Writes NAME.md, NAME.tex and NAME.parquet, each with the caption."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{result.table.name}.{ending}" for ending in ("md", "tex", "parquet")]
    paths[0].write_text(markdown(result.frame, result.caption), encoding="utf-8")
    paths[1].write_text(latex(result.frame, result.caption), encoding="ascii")
    result.frame.write_parquet(paths[2], metadata={"caption": result.caption})
    return paths


def markdown(frame: pl.DataFrame, caption: str = "") -> str:
    """A Markdown table that is also readable as plain text. Columns of numbers are aligned to the right."""
    ends = [f"{'-' * 2}{':' if kind.is_numeric() else '-'}" for kind in frame.dtypes]
    lines = [frame.columns, ends, *_cells(frame)]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"{table}\n\n{caption}\n" if caption else f"{table}\n"


def latex(frame: pl.DataFrame, caption: str = "") -> str:
    """A table for the package booktabs, in ASCII. A caption makes it a floating `table`."""
    ends = "".join("r" if kind.is_numeric() else "l" for kind in frame.dtypes)
    lines = [frame.columns, *_cells(frame)]
    head, *body = (" & ".join(escaped(re.sub(r"^-(?=\d)", "−", cell)) for cell in line) + r" \\" for line in lines)
    table = "\n".join(
        [rf"\begin{{tabular}}{{{ends}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    )
    if not caption:
        return f"{table}\n"
    return "\n".join([r"\begin{table}", r"\centering", rf"\caption{{{escaped(caption)}}}", table, r"\end{table}", ""])


def _cells(frame: pl.DataFrame) -> list[list[str]]:
    return [[_cell(*pair) for pair in zip(frame.columns, row, strict=True)] for row in frame.rows()]


def _cell(column: str, value: object) -> str:
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    return f"{value:g}" if column == "strength" else f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
    "omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
SPECIAL = {
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": "$<$", ">": "$>$", "|": "$|$", "–": "--", "—": "---", "−": "$-$", "×": r"$\times$", "÷": r"$\div$"},
    **{"±": r"$\pm$", "→": r"$\rightarrow$", "²": "$^2$", "ß": r"{\ss}", "ø": r"{\o}", "Ø": r"{\O}", "·": r"$\cdot$"},
    **{mark: f"$\\{name}$" for mark, name in zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", GREEK.split(), strict=True)},
}
ACCENTS = {"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0308": '"', "\u030a": "r", "\u0327": "c"}


def escaped(text: str) -> str:
    """Text as LaTeX in ASCII: marks escaped, Greek letters and accents spelt out, other letters as code points."""
    return "".join(map(_escaped_mark, unicodedata.normalize("NFC", text)))


def _escaped_mark(mark: str) -> str:
    if mark.isascii() or mark in SPECIAL:
        return SPECIAL.get(mark, mark)
    plain, accent = unicodedata.normalize("NFD", mark)[0], unicodedata.normalize("NFD", mark)[1:]
    if plain.isascii() and accent in ACCENTS:
        return f"\\{ACCENTS[accent]}{{{plain}}}"
    return rf"\texttt{{U+{ord(mark):04X}}}"
