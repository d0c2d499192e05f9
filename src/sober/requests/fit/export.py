"""What a fit writes about the chosen model, beside what every folder of results has."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sober.criteria import Ranking
from sober.errors import counted
from sober.evaluation.picture_sheets import traversals
from sober.files import replacing, write_json
from sober.interop import onnx
from sober.models.model import Model, latent_kl
from sober.requests.results import Results
from sober.results.folder import Folder
from sober.results.verdict_files import save_verdict
from sober.worlds import World

DRAWN = 4  # models in the picture of traversals


def export(folder: Folder, ranking: Ranking, seed: int) -> None:
    """Writes the verdict, the chosen model, its codes and description, the ranking, traversals and the report."""
    results, best = Results.of(folder), ranking.best.run
    save_verdict(folder.path, best.world, ranking.verdict)
    model, codes = results.model(best), results.codes(best)
    with replacing(folder.path / "model.safetensors") as temporary:
        shutil.copyfile(folder.model_path(best), temporary)
    write_codes(folder.path / "codes.parquet", results.world, codes.mean, codes.logvar)
    if importlib.util.find_spec("onnx") is not None:
        onnx.export(model, folder.path)
    write_json(folder.path / "ranking.json", ranking.plain())
    description = describe(model, results.words(best), ranking, latent_kl(codes.mean, codes.logvar))
    write_json(folder.path / "model.json", description)
    drawn = [results.model(ranked_model.run) for ranked_model in ranking.models[:DRAWN]]
    traversals(drawn, results.world, folder.path / "traversals.png", seed=seed, words=results.words)
    results.report()


def describe(model: Model, setting: str, ranking: Ranking, kl: Float[np.ndarray, " D"]) -> dict[str, Any]:
    """What `model.json` holds. How often the model came first is left out if no model is trained far enough."""
    certainty = ranking.verdict.certainty
    return {
        "run": model.run.canonical(),
        "identity": model.run.identity,
        "setting": setting,
        "verdict": ranking.verdict.sentence(),
        "image_shape": model.image_shape,
        "pixels": "0 to 1, or bytes 0 to 255; channels last here, first in ONNX",
        "latents": [{"latent": d, "kl": round(float(nats), 4)} for d, nats in enumerate(kl)],
        "scores": dict(ranking.best.scores),
        **({} if certainty is None else {"came_first": certainty}),
        "of": counted(len(ranking.models), "model"),
        "read_with": "sober.load(FOLDER).encode(pictures)",
    }


def write_codes(
    path: Path, opened: World, mean: Float[np.ndarray, "N D"], logvar: Float[np.ndarray, "N D"] | None
) -> None:
    """Writes codes as a parquet table: the picture's number, its file if any, each latent's mean and log-variance."""
    import polars as pl  # noqa: PLC0415 -- training machines may lack it

    names = getattr(opened, "names", ())
    columns: dict[str, Any] = {"picture": np.arange(len(mean))}
    if len(names) == len(mean):
        columns["file"] = list(names)
    columns |= {f"mean_{d}": mean[:, d] for d in range(mean.shape[1])}
    if logvar is not None:
        columns |= {f"logvar_{d}": logvar[:, d] for d in range(mean.shape[1])}
    with replacing(path) as temporary:
        pl.DataFrame(columns).write_parquet(temporary)
