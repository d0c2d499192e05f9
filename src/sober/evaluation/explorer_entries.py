"""Data of models for the latent explorer: decoders as graphs with their weights, and pictures to start from.

Weights keep three of their four bytes. Pixels of models trained on `blocks` then differ by some 1e-4 from those of
`Model.decode`; with float16 they would differ by 5e-3. The decoder of a 64 x 64 picture takes 1.5 MB.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sober.errors import RequestError
from sober.evaluation.showcase import sampled_showcases, traversals_of
from sober.interop.graph import decoder_graph
from sober.models.model import Model, latent_kl, load
from sober.results.folder import Folder
from sober.results.latent_names import QUIET, latent_words
from sober.results.runs import Runs
from sober.results.showcase_files import load_showcase, showcase_path, showcase_runs
from sober.setting_words import words_for_people
from sober.worlds import World

STARTS = 11  # pictures to start from; with the start at 0 they are twelve, which fill their rows
SAMPLE = 512  # pictures for the estimate of each latent's KL
MODELS, LARGEST = 3, 8_000_000  # how many models a report has sliders for, and the most bytes that one may take


class Start(NamedTuple):
    """A picture to start from, and its code."""

    name: str
    code: Float[np.ndarray, " D"]
    picture: np.ndarray  # (H, W, C), bytes 0 to 255 or floats 0 to 1


def explorer_entry(
    model: Model,
    starts: Sequence[Start],
    kl: Float[np.ndarray, " D"],
    title: str,
    names: Sequence[str] = (),
    first: int = 0,
) -> dict[str, Any]:
    """One model in the explorer.

    `names` has words for each latent, such as the factors that it represents. The page opens with the start `first`.
    """
    graph = decoder_graph(model)
    numbers = [*graph.arrays.values(), kl, *(start.code for start in starts)]
    if not all(np.isfinite(array).all() for array in numbers):
        raise RequestError(f"{title} has weights or codes that are not finite: explore a model that did not diverge")
    return {
        "identity": model.run.identity,
        "title": title,
        "shape": model.image_shape,
        "kl": np.asarray(kl, float).tolist(),
        "told": list(names),
        "informative": QUIET,
        "first": first,
        "starts": [{"name": s.name, "code": s.code.tolist(), "picture": _png(s.picture)} for s in starts],
        "graph": graph.plain(),
        "weights": _packed(graph.arrays),
    }


def entry_from_pictures(model: Model, pictures: World | np.ndarray, *, seed: int = 0) -> dict[str, Any]:
    """One model, with starts from the first pictures of an array, or of a random sample of a world."""
    images = pictures.sample(seed, SAMPLE).images if isinstance(pictures, World) else np.asarray(pictures)
    if not len(images):
        raise RequestError("no pictures to start from: give at least one")
    mean, logvar = model.encode(images)
    first_images = images[:STARTS].reshape(-1, *model.image_shape)
    starts = [Start(f"picture {i + 1}", mean[i], image) for i, image in enumerate(first_images)]
    kl = latent_kl(mean, logvar)
    title = f"run {model.run.identity}"
    if not (np.isfinite(mean).all() and np.isfinite(kl).all()):
        return explorer_entry(model, starts, kl, title)  # refuses it
    if isinstance(pictures, World):
        ((arrays, description),) = sampled_showcases([model], pictures, seed=seed)
        names = latent_words(arrays, description)
    else:
        names = latent_words({"kl": kl, **traversals_of(model.decode, mean)}, {"factors": []})
    return explorer_entry(model, starts, kl, title, names, _clearest(first_images))


def entries_of_folder(folder: Folder, runs: Runs) -> list[dict[str, Any]]:
    """The best models with a showcase whose weights are in the folder and small enough for a page."""
    paths = {run: folder.path / "models" / f"{run}.safetensors" for run in showcase_runs(folder.path, runs)}
    small_enough = [run for run, path in paths.items() if path.exists() and path.stat().st_size < LARGEST]
    models = [load(paths[run]) for run in small_enough[:MODELS]]
    words = words_for_people([model.run for model in models])
    entries: list[dict[str, Any]] = []
    for model in models:
        arrays, description = load_showcase(showcase_path(folder.path, model.run.identity))
        pictures = enumerate(zip(arrays["codes"], arrays["pictures"], strict=True), start=1)
        starts = [Start(f"picture {number}", code, picture) for number, (code, picture) in pictures]
        title = f"{words(model.run)}, seed {model.run.seed}"
        names = latent_words(arrays, description)
        entries.append(explorer_entry(model, starts, arrays["kl"], title, names, _clearest(arrays["pictures"])))
    return entries


def _clearest(pictures: np.ndarray) -> int:
    """The picture with the most contrast: the effect of latents is easy to see in it."""
    return int(np.argmax(np.asarray(pictures, float).var(axis=(1, 2)).sum(axis=-1)))


def _packed(arrays: Mapping[str, Float[np.ndarray, "..."]]) -> str:
    """All numbers in order, each rounded to the upper three bytes of a float32, in base64."""
    numbers = np.concatenate([np.ravel(array) for array in arrays.values()]).astype("<f4")
    bits = (numbers.view("<u4") + 0x80) >> 8
    return base64.b64encode(bits.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()).decode()


def _png(picture: np.ndarray) -> str:
    """A picture as a PNG in a data address."""
    from PIL import Image  # noqa: PLC0415

    values = picture if picture.dtype == np.uint8 else np.round(255 * picture)
    if values.shape[2] != 3:  # one channel is grey; others have no colours: show their mean
        values = values.mean(axis=2)
    with io.BytesIO() as file:
        Image.fromarray(values.astype(np.uint8)).save(file, "PNG")
        return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
