"""Options that several commands take: folders of results, settings, and the options of `Training`."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sober.defaults import Prefer
from sober.errors import RequestError
from sober.settings_text import text_of

if TYPE_CHECKING:
    from sober.types import Training

Folder = Annotated[
    Path,
    Parameter(name="DIR", help="A folder that train, fit, tune or a study made; or a name that sober results lists."),
]
Out = Annotated[Path, Parameter(help="Folder for the results: a new folder, or a folder of results to go on with.")]
Set = Annotated[list[str] | None, Parameter(name="--set", negative=())]
Preference = Annotated[
    Prefer | None,
    Parameter(
        help="What codes should keep: few (the most agreement, often few latents), balanced (agreement among models "
        "that keep 90% of what the best one keeps of a picture; the default) or complete (95%)."
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative=())]
OldPictures = Annotated[int | None, Parameter(name="--sample", show=False, help="The old name of --pictures.")]


def number_of_pictures(pictures: int | None, sample: int | None) -> int | None:
    """The value of --pictures. Takes it from the old name --sample too, with a warning."""
    if sample is None:
        return pictures
    if pictures is not None:
        raise RequestError("--sample is the old name of --pictures: give --pictures alone")
    warnings.warn("--sample is now called --pictures", FutureWarning, stacklevel=2)  # which people see by default
    return sample


def given(options: Any) -> dict[str, Any]:
    """The options of training that a person gave."""
    return {name: value for name, value in dataclasses.asdict(options).items() if value is not None}


def training_options(defaults: Training | None) -> Any:
    """A dataclass with every option of training. The help of an option says its default, if `defaults` are given."""
    from sober.types import Adam, Training

    fields = []
    for options_class, values in ((Training, defaults), (Adam, None if defaults is None else defaults.optimiser)):
        for field in dataclasses.fields(options_class):
            if field.name == "optimiser":
                continue
            default = None if values is None else getattr(values, field.name)
            help_text = field.metadata["help"] + ("" if default is None else f" {_default_text(default)} by default.")
            fields.append((field.name, _annotated(str(field.type), help_text), dataclasses.field(default=None)))
    return dataclasses.make_dataclass("TrainingOptions", fields, frozen=True, namespace={"__module__": __name__})


def _annotated(type_name: str, help_text: str) -> Any:
    from sober.types import Precision

    types: dict[str, Any] = {"int": int, "float": float, "float | None": float, "str | None": str}
    types["Precision | None"] = Precision
    return Annotated[types[type_name] | None, Parameter(help=help_text)]


def _default_text(default: Any) -> str:
    return f"{default:,}" if isinstance(default, int) else text_of(default)
