"""Options that several commands take: those of training, from `Training` itself, and folders of results."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from sober.types import Adam, Training
from sober.words import text_of

Folder = Annotated[
    Path, Parameter(name="DIR", help="A folder of results, of train, fit, tune or a study; or a name of sober results.")
]
Out = Annotated[Path, Parameter(help="Folder for the results: new, or one to go on with.")]
Set = Annotated[list[str] | None, Parameter(name="--set", negative=())]
Json = Annotated[bool, Parameter(name="--json", negative=())]


def given(options: Any) -> dict[str, Any]:
    """Those options of training that a person gave."""
    return {name: value for name, value in dataclasses.asdict(options).items() if value is not None}


def training_options(defaults: Training | None) -> Any:
    """A dataclass with every option of training, each saying its default; without `defaults` those are found out."""
    fields = []
    for kind, values in ((Training, defaults), (Adam, None if defaults is None else defaults.optimiser)):
        for field in dataclasses.fields(kind):
            if field.name == "optimiser":
                continue
            default = None if values is None else getattr(values, field.name)
            said = field.metadata["help"] + ("" if default is None else f" {_said(default)} by default.")
            fields.append((field.name, _annotated(str(field.type), said), dataclasses.field(default=None)))
    return dataclasses.make_dataclass("TrainingOptions", fields, frozen=True, namespace={"__module__": __name__})


def _annotated(kind: str, said: str) -> Any:
    from sober.types import Precision  # noqa: PLC0415

    known: dict[str, Any] = {"int": int, "float": float, "float | None": float, "str | None": str}
    known["Precision | None"] = Precision
    return Annotated[known[kind] | None, Parameter(help=said)]


def _said(default: Any) -> str:
    return f"{default:,}" if isinstance(default, int) else text_of(default)
