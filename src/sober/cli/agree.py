"""`sober agree`. It compares models of any library without importing JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sober.agreement.options import LEAST, LEVEL, Matching, Measure
from sober.cli.compare import names_of
from sober.cli.console import complain, console, line
from sober.cli.options import Json
from sober.cli.printed import Column, FittedTable, more_rows
from sober.cli.score import json_text
from sober.errors import RequestError

if TYPE_CHECKING:
    from sober.requests.agree import Agreement
    from sober.requests.model_files import ModelFiles

SHOWN = 12  # components that are printed at most


def agree(
    *files: Annotated[Path, Parameter(name="FILES", help="One file or folder for each model.")],
    similarity: Measure | None = None,
    matching: Matching = "one-to-many",
    least: float = LEAST,
    level: float = LEVEL,
    signed: bool | None = None,
    untrained: Annotated[list[Path] | None, Parameter(consume_multiple=True)] = None,
    codes: str | None = None,
    rows: int | None = None,
    draws: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    picture_shape: str | None = None,
    as_json: Json = False,
) -> None:
    """See what recurs when you train again: which latents several models share, and whether chance would give as much.

    Each file holds one model. Codes of the same rows under each model: npz (an array codes, or a sparse one), npy, csv
    or parquet. Dictionaries: safetensors, or a folder that SAELens or sparsify saved; an npz file with codes may hold
    directions, too, as W_dec. Sober compares whatever all files have. A folder of results stands for the models whose
    codes it keeps.

    For example:

    - `sober agree run*.npz`
    - `sober agree seeds/*.safetensors --matching one-to-one`
    - `sober agree seed0/ seed1/ seed2/ --out agreement/`
    - `sober agree runs/blocks`

    Parameters
    ----------
    similarity
        What makes two latents alike: pearson, spearman or lasso of codes, cosine of directions, or both, for the weaker
        of pearson and cosine.
    matching
        one-to-many: several latents may share their best partner; one-to-one: each latent has a partner of its own.
    least
        How alike a partner must be for a latent to recur. The default is half of the variance.
    level
        The share of false discoveries to allow among latents that are said to recur.
    signed
        Whether a latent and its negative differ. By default they do where no code is negative.
    untrained
        Models that were never trained, as a further kind of chance.
    codes
        The name of the array with the codes in npz files, or columns of tables, separated by commas.
    rows
        How many random rows to compare; all by default.
    draws
        How many features to draw for each kind of chance.
    seed
        Seed of everything random.
    out
        A folder for the tables, the consensus and a page.
    picture_shape
        The shape of directions that are pictures, such as 28x28 or 64x64x3: the page draws those of the consensus.
    as_json
        Print the ranking, the components and what was found as one JSON object.
    """
    from sober.requests.agree import agree as agree_on  # computes

    shape = None if picture_shape is None else shape_of(picture_shape)
    if shape is not None and out is None:
        raise RequestError("--picture-shape is for the page: name a folder for it, as in --out agreement")
    if len(files) == 1 and (files[0] / "request.json").is_file():
        if untrained:
            raise RequestError("--untrained goes with files: name those of the trained models, too")
        models, untrained_models = _of_folder(files[0]), None
    else:
        models, untrained_models = _read(files, untrained or (), codes)
    agreement = agree_on(
        models.codes,
        models.dictionaries,
        similarity=similarity,
        matching=matching,
        least=least,
        level=level,
        signed=signed,
        untrained=untrained_models,
        rows=rows,
        draws=draws,
        seed=seed,
    )
    if out is not None:
        agreement.save(out, shape)
    if as_json:
        print(json_text(plain(agreement)))
        return
    for text in agreement.findings:
        console.print(text)
    if agreement.components.height:
        console.print("", components_table(agreement))
    console.print("", ranking_table(agreement))
    if out is not None:
        console.print(line("wrote ", (out, "bold")), soft_wrap=True)


def shape_of(text: str) -> tuple[int, ...]:
    """The height and width of a picture, and 3 for colours, from a text such as 64x64x3."""
    sides = text.lower().replace("×", "x").split("x")
    if len(sides) not in (2, 3) or not all(side.isascii() and side.isdigit() and int(side) for side in sides):
        raise RequestError(f"--picture-shape {text!r} is no shape: write the height and width, as in 28x28 or 64x64x3")
    return tuple(map(int, sides))


def _of_folder(folder: Path) -> ModelFiles:
    """The codes that a folder of results keeps."""
    from sober.requests.agree_folder import codes_of_folder
    from sober.requests.model_files import ModelFiles
    from sober.requests.results import open_results

    return ModelFiles(codes_of_folder(open_results(folder)), None)


def _read(
    files: Sequence[Path], untrained: Sequence[Path], codes: str | None
) -> tuple[ModelFiles, Mapping[str, Any] | None]:
    """The models of files, and the codes or dictionaries of untrained ones, which need the same rows or space."""
    from sober.requests.model_files import ModelFiles, read_models

    every_file = [*files, *untrained]
    if len(set(every_file)) < len(every_file):
        raise RequestError("a file is named twice: compare different ones")
    names = names_of(every_file)
    models = read_models({names[path]: path for path in every_file}, codes)
    for note in models.notes:
        complain(note)
    trained = [_chosen(kind, files, names) for kind in (models.codes, models.dictionaries)]
    kind = models.dictionaries if models.codes is None else models.codes
    return ModelFiles(*trained), _chosen(kind, untrained, names)


def _chosen(models: Mapping[str, Any] | None, files: Sequence[Path], names: Mapping[Path, str]) -> Any:
    return {names[path]: models[names[path]] for path in files} if models and files else None


def plain(agreement: Agreement) -> dict[str, Any]:
    """What was found, as JSON can hold it."""
    return {
        "findings": list(agreement.findings),
        "ranking": agreement.ranking.to_dicts(),
        "components": agreement.components.to_dicts(),
    }


def components_table(agreement: Agreement) -> Any:
    """The components in most models, and how sure each is."""
    frame = agreement.components
    total = len(agreement.analysis.models)
    columns = [
        Column("component", "right", style="bold"),
        Column("models", "right"),
        Column("alike", "right"),
        Column("recurrence", "right"),
        Column("interval", "right", optional=True),
        Column("chance", "right"),
        Column("q", "right"),
        Column("latents", wraps=True, optional=True),
    ]
    rows = [
        [
            str(row["group"]),
            f"{row['models']} of {total}",
            f"{row['similarity']:.3f}",
            f"{row['recurrence']:.2f}",
            f"{row['low']:.2f} to {row['high']:.2f}",
            f"{row['chance']:.2f}",
            probability(row["q"]),
            ", ".join(f"{member['model']} {member['latent']}" for member in row["members"][:8])
            + (" …" if row["models"] > 8 else ""),
        ]
        for row in frame.head(SHOWN).to_dicts()
    ]
    from rich.console import Group

    table = FittedTable(columns, rows, "components, the most frequent first")
    hidden = frame.height - SHOWN
    return Group(table, more_rows(hidden, "--out writes all of them")) if hidden > 0 else table


def ranking_table(agreement: Agreement) -> FittedTable:
    """The models, the model whose latents recur most first."""
    columns = [
        Column("model", style="bold", wraps=True),
        Column("recurrence", "right"),
        Column("chance", "right"),
        Column("alike", "right"),
        Column("recurring", "right"),
        Column("live", "right", optional=True),
        Column("latents", "right", optional=True),
        Column("active per row", "right", optional=True),
        Column("udr", "right", optional=True),
    ]
    rows = [
        [
            row["model"],
            f"{row['recurrence']:.3f}",
            f"{row['chance']:.3f}",
            f"{row['similarity']:.3f}",
            f"{row['recurring']:,}",
            f"{row['live']:,}",
            f"{row['latents']:,}",
            "" if row["active_per_row"] is None else f"{row['active_per_row']:,.1f}",
            f"{row['udr']:.3f}",
        ]
        for row in agreement.ranking.to_dicts()
    ]
    return FittedTable(columns, rows, "models, the model whose latents recur most first")


def probability(value: float) -> str:
    return "< 0.001" if value < 1e-3 else f"{value:.3f}"
