"""`sober encode`."""

from __future__ import annotations

from sober.cli.console import console, counting
from sober.cli.options import Folder
from sober.workflows.opened import open_results


def encode(folder: Folder, /, *, sample: int | None = None, seed: int = 0) -> None:
    """Compute and keep the codes of every finished model: for every picture, or a random sample of them.

    Examples: `sober encode runs/blocks` · `sober encode runs/dsprites --sample 10000`

    Parameters
    ----------
    sample
        How many pictures, drawn at random; every picture without it.
    seed
        Of the sample.
    """
    results = open_results(folder)
    with counting("encoding") as progress:
        for done, (run, codes) in enumerate(results.encode(sample=sample, seed=seed, progress=progress), start=1):
            shape = " × ".join(map(str, codes.mean.shape))
            flags = f"  [yellow]{' '.join(codes.flags)}[/]" if codes.flags else ""
            console.print(f"{done}/{len(results.finished)}  {run.identity}  {shape}{flags}", soft_wrap=True)
    console.print(f"codes are in [bold]{folder / 'codes'}[/]")
