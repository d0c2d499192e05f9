"""`sober explore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sober.cli.console import console
from sober.errors import RequestError
from sober.models.model import Model, load
from sober.report.explorer import explore as write_explorer
from sober.results.folder import Folder
from sober.workflows.fit import pictures as world_of
from sober.workflows.shown import best_run
from sober.worlds import World, world


def explore(
    model: Annotated[Path, Parameter(name="MODEL", help="A folder of results, or a model's file.")],
    pictures: Annotated[
        str | None, Parameter(name="PICTURES", help="A folder of pictures, or a world, to start from.")
    ] = None,
    /,
    *,
    run: str | None = None,
    out: Path = Path("explorer.html"),
    seed: int = 0,
) -> None:
    """Write a page on which sliders move a model's latents and the picture follows, drawn by the model's own decoder.

    Without PICTURES it starts from those that the model was trained on. Of a folder it shows the model that was chosen
    by `fit`, else the best by what was measured; --run names another.

    Examples: `sober explore fitted/` · `sober explore runs/blocks --run 3f2a --out blocks.html`

    Parameters
    ----------
    run
        Which model of a folder: the beginning of its identity.
    out
        Where to write the page.
    seed
        Of the pictures to start from.
    """
    folder = _folder_of(model)
    opened = _opened(model, folder, run)
    shown = world_of(pictures) if pictures is not None else _trained_on(opened, folder)
    console.print(f"wrote [bold]{write_explorer(opened, shown, out, seed=seed)}[/]")


def _folder_of(path: Path) -> Folder | None:
    """The folder of results that a path is, or that a model's file lies in."""
    for folder in (path, path.parent, path.parent.parent):
        if (folder / "request.json").exists():
            return Folder.open(folder)
    return None


def _opened(path: Path, folder: Folder | None, run: str | None) -> Model:
    if run is not None:
        if folder is None:
            raise RequestError(f"{path} is no folder of results: --run names one of its models")
        return folder.model(folder.run(run))
    if path.is_dir() and folder is not None and not (path / "model.safetensors").exists():
        return folder.model(best_run(folder))
    return load(path)


def _trained_on(model: Model, folder: Folder | None) -> World:
    """The world of a model: as its folder opens it, else by its name."""
    if folder is not None and model.run.world in folder.families:
        return folder.families[model.run.world].world
    try:
        return world(model.run.world)
    except RequestError as error:
        raise RequestError(
            f"{model.run.world} cannot be opened by its name: give the pictures to start from"
        ) from error
