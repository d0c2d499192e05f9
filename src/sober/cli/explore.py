"""`sober explore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sober.cli.console import console, line
from sober.errors import RequestError

if TYPE_CHECKING:
    from sober.models.model import Model
    from sober.requests.results import Results
    from sober.worlds import World


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
    """Write a page with a slider for each latent of a model. When a slider moves, the decoder draws the new picture.

    Without PICTURES, the page starts from pictures of the world that the model was trained on. From a folder, it shows
    the model that `fit` chose, or else the model with the best score; --run names another.

    For example:

    - `sober explore fitted/`
    - `sober explore runs/blocks --run 3f2a --out blocks.html`

    Parameters
    ----------
    run
        The model of a folder to show, by the beginning of its identity.
    out
        Where to write the page.
    seed
        Seed of the random pictures to start from.
    """
    from sober.requests.explore import explore as write_explorer

    folder = _folder_of(model)
    opened = _opened(model, folder, run)
    first_pictures = _trained_on(opened, folder) if pictures is None else _given(pictures, opened, folder)
    console.print(line("wrote ", (write_explorer(opened, first_pictures, out, seed=seed), "bold")))


def _folder_of(path: Path) -> Results | None:
    """The folder of results at a path, or around a model's file. None if there is no such folder."""
    from sober.requests.results import open_results

    for folder in (path, path.parent, path.parent.parent):
        if (folder / "request.json").exists():
            return open_results(folder)
    return None


def _opened(path: Path, folder: Results | None, run: str | None) -> Model:
    from sober.evaluation.showcase_choice import best_run
    from sober.models.model import load

    if run is not None:
        if folder is None:
            raise RequestError(f"{path} is no folder of results: --run names one of its models")
        return folder.model(folder.run(run))
    if not path.exists():
        raise RequestError(f"there is no file or folder {path}")
    if path.is_dir() and folder is not None and not (path / "model.safetensors").exists():
        return folder.model(best_run(folder))
    return load(path)


def _given(pictures: str, model: Model, folder: Results | None) -> World:
    """Pictures in a folder, as the model's own were prepared; or the world of this name."""
    from sober.requests.fit.new_pictures import pictures_for

    trained_on = None if folder is None else folder.request.worlds.get(model.run.world)
    return pictures_for(model, pictures, trained_on)


def _trained_on(model: Model, folder: Results | None) -> World:
    """The world that a model was trained on: opened as in its folder, or by its name if there is no folder."""
    from sober.worlds import world

    if folder is not None and model.run.world in folder.families:
        return folder.families[model.run.world].world
    try:
        return world(model.run.world)
    except RequestError as error:
        raise RequestError(
            f"{model.run.world} cannot be opened by its name: name PICTURES to start from, after the model"
        ) from error
