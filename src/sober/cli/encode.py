"""`sober encode`."""

from __future__ import annotations

from sober.cli.console import console, counting, line
from sober.cli.options import Folder, OldPictures, number_of_pictures


def encode(folder: Folder, /, *, pictures: int | None = None, seed: int = 0, sample: OldPictures = None) -> None:
    """Encode pictures with every finished model and keep the codes, for every picture or for random ones.

    For example:

    - `sober encode runs/blocks`
    - `sober encode runs/dsprites --pictures 10000`

    Parameters
    ----------
    pictures
        How many pictures, drawn at random; every picture by default.
    seed
        Seed of the random pictures.
    """
    from sober.device import kept_compilations
    from sober.requests.results import open_results

    results, pictures = open_results(folder), number_of_pictures(pictures, sample)
    with kept_compilations(), counting("encoding") as progress:
        codes_of_runs = results.encode(pictures=pictures, seed=seed, progress=progress)
        for done, (run, codes) in enumerate(codes_of_runs, start=1):
            shape = " × ".join(map(str, codes.mean.shape))
            flags = f"  {' '.join(codes.flags)}" if codes.flags else ""
            start = f"{done}/{len(results.finished)}  {run.identity}  {shape}"
            console.print(line(start, (flags, "yellow")), soft_wrap=True)
    console.print(line("codes are in ", (folder / "codes", "bold")))
