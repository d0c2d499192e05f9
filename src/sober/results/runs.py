"""Results of a study as one row for each run, which every table is a function of.

Runs that diverged are counted in the leaderboard and the captions, and take part in nothing else.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.ma import MaskedArray

from sober.criteria.registry import CRITERIA
from sober.errors import RequestError, listed
from sober.files import load_arrays
from sober.metrics.registry import METRICS

if TYPE_CHECKING:
    import polars as pl

NEEDED = ("run", "world", "method", "setting", "seed", "kind", "metric", "preset", "value", "flags", "scale")
KNOWN: dict[str, tuple[bool, Literal["higher", "lower", "neither"]]] = {
    **{name: (False, criterion.better) for name, criterion in CRITERIA.items()},
    **{name: (metric.supervised, about.better) for metric in METRICS.values() for name, about in metric.scores.items()},
}


@dataclasses.dataclass(frozen=True, eq=False)
class Runs:
    """Results with a row for each of N runs and a column for each of K numbers, masked where there is none."""

    about: pl.DataFrame  # run, world, method, setting, strength, seed, diverged
    names: tuple[str, ...]
    kinds: Mapping[str, str]
    values: Float[MaskedArray, "N K"]
    flagged: Bool[np.ndarray, "N K"]
    scales: tuple[str, ...]
    pairs: tuple[Pairs, ...] = ()  # of UDR, by world

    def labels(self, name: str) -> np.ndarray:
        """A column of `about`."""
        return self.about[name].to_numpy()

    def different(self, name: str) -> list[Any]:
        """The values of a column of `about`, in its order."""
        return self.about[name].unique(maintain_order=True).to_list()

    def columns(self, names: Sequence[str]) -> Float[MaskedArray, "N _"]:
        return self.values[:, [self.names.index(name) for name in names]]

    def where(self, rows: Bool[np.ndarray, " N"]) -> Runs:
        """Some of the runs."""
        about = self.about.filter(rows)
        return dataclasses.replace(self, about=about, values=self.values[rows], flagged=self.flagged[rows])

    def sound(self) -> Runs:
        """Without those that diverged."""
        return self.where(~self.labels("diverged"))

    def by(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Runs]]:
        """The sound runs that share these columns of `about`."""
        sound = self.sound()
        keys = list(sound.about.select(names).iter_rows())
        for key in dict.fromkeys(keys):
            yield key, sound.where(np.array([each == key for each in keys]))

    def grid(self, names: Sequence[str], settings: Sequence[str]) -> Float[MaskedArray, "W K S R"]:
        """Numbers by world, name, setting and seed."""
        sound = self.sound()
        sound = sound.where(np.isin(sound.labels("setting"), settings))
        axes = [self.different("world"), list(settings), sorted(set(sound.labels("seed")))]
        w, s, r = (
            np.array([place[each] for each in sound.about[name]], int)
            for name, place in zip(("world", "setting", "seed"), map(places, axes), strict=True)
        )
        found = np.ma.masked_all((len(axes[0]), len(axes[1]), len(axes[2]), len(names)))
        found[w, s, r] = sound.columns(names)
        return found.transpose(0, 3, 1, 2)


class Pairs(NamedTuple):
    """How well models line up with their partners, as UDR found: rows of model, partner and score, models by place."""

    world: str
    runs: tuple[str, ...]
    scores: Float[np.ndarray, "P 3"]


def pairs_of(folder: Path) -> tuple[Pairs, ...]:
    """The pair scores that a study's folder keeps: for each world those among the most models."""
    found: dict[str, Pairs] = {}
    for path in sorted((folder / "judged").glob("*-udr.safetensors")):
        arrays, about = load_arrays(path)
        pairs = Pairs(about["world"], tuple(json.loads(about["runs"])), arrays["pairs"])
        if pairs.world not in found or len(found[pairs.world].runs) < len(pairs.runs):
            found[pairs.world] = pairs
    return tuple(found.values())


def as_runs(data: pl.DataFrame | Runs, pairs: Sequence[Pairs] = ()) -> Runs:
    """Results as one row for each run, in the order of worlds, methods, strengths and seeds."""
    if isinstance(data, Runs):
        return data
    import polars as pl  # noqa: PLC0415

    lacking = [name for name in NEEDED if name not in data.columns]
    if lacking or data.is_empty():
        raise RequestError(
            f"the results have no {'column ' + listed(lacking) if lacking else 'rows'}: nothing to tabulate"
        )
    data = short_settings(data)[0].with_columns(name=_name(data), finite=pl.col("value").is_finite().fill_null(True))
    about = _about(data)
    names = data["name"].unique().sort().to_list()
    places = [
        data.select("run").join(about.select("run").with_row_index("at"), on="run", how="left", maintain_order="left"),
        data.select("name").join(
            pl.DataFrame({"name": names}).with_row_index("at"), on="name", how="left", maintain_order="left"
        ),
    ]
    at = tuple(each["at"].to_numpy() for each in places)
    values = np.full((len(about), len(names)), np.nan)
    values[at] = data["value"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    flagged = np.zeros(values.shape, bool)
    flagged[at] = (data["flags"].fill_null("") != "").to_numpy()
    return Runs(
        about=about,
        names=tuple(names),
        kinds=dict(data.select("name", "kind").unique("name").iter_rows()),
        values=np.ma.masked_invalid(values),
        flagged=flagged,
        scales=tuple(data["scale"].fill_null("").unique().sort()),
        pairs=tuple(pairs),
    )


def short_settings(data: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, list[str]]]:
    """Settings without the words that all of them have, such as `steps=20000`, or all of one method.

    And those words, to be said once: those of all settings under "", the others under their method.
    """
    import polars as pl  # noqa: PLC0415

    settings = data["setting"].unique(maintain_order=True).to_list()
    words = [setting.split(" ") for setting in settings]
    shared = {"": _shared(words)}
    for method in dict.fromkeys(each[0] for each in words):
        own = _shared([each for each in words if each[0] == method])
        shared[method] = [word for word in own if word not in shared[""]]
    names = [" ".join(word for word in each if word not in shared[""] + shared[each[0]]) for each in words]
    shared = {whose: each for whose, each in shared.items() if each}
    if not shared or len(set(names)) < len(names):
        return data, {}
    return data.with_columns(pl.col("setting").replace_strict(settings, names)), shared


def _shared(settings: Sequence[Sequence[str]]) -> list[str]:
    """Values that all of several settings have."""
    if len(settings) < 2:
        return []
    return [word for word in settings[0] if "=" in word and all(word in each for each in settings)]


def _name(data: pl.DataFrame) -> pl.Expr:
    """The metric, and its preset in brackets where there are several of that metric."""
    import polars as pl  # noqa: PLC0415

    twice = data.select(pl.struct("run", "metric", "preset").is_duplicated().any()).item()
    if twice:
        row = data.filter(pl.struct("run", "metric", "preset").is_duplicated()).row(0, named=True)
        raise RequestError(f"run {row['run']} has two values of {row['metric']} ({row['preset']}): keep one of them")
    several = pl.col("preset").n_unique().over("metric") > 1
    return pl.when(several).then(pl.format("{} [{}]", "metric", "preset")).otherwise("metric")


def _about(data: pl.DataFrame) -> pl.DataFrame:
    """One row for each run. A run diverged if one of its rows says so, or holds a number that is not finite."""
    import polars as pl  # noqa: PLC0415

    said = pl.col("flags").fill_null("").str.split(" ").list.contains("diverged")
    about = data.group_by("run").agg(
        pl.col("world", "method", "setting", "seed", "^hyper_.*$").first(),
        (said | ~pl.col("finite")).any().alias("diverged"),
    )
    about = about.with_columns(strength=_strength(about)).sort("world", "method", "strength", "setting", "seed", "run")
    twice = about.filter(pl.struct("world", "setting", "seed").is_duplicated())
    if len(twice):
        first, second = twice["run"][:2]
        raise RequestError(
            f"runs {first} and {second} have the same world, setting and seed: their settings must differ"
        )
    return about.select("run", "world", "method", "setting", "strength", "seed", "diverged")


def _strength(about: pl.DataFrame) -> pl.Expr:
    """The one number among a method's hyperparameters that takes several values; null where it is not one."""
    import polars as pl  # noqa: PLC0415

    numbers = [name for name, kind in about.schema.items() if name.startswith("hyper_") and kind.is_numeric()]
    strength = pl.lit(None, pl.Float64)
    for (method,), part in about.group_by("method"):
        varied = [name for name in numbers if part[name].n_unique() > 1]
        if len(varied) == 1:
            strength = pl.when(pl.col("method") == method).then(pl.col(varied[0])).otherwise(strength)
    return strength


def places(values: Iterable[Any]) -> dict[Any, int]:
    return {value: at for at, value in enumerate(values)}


# What a number is.


def bare(name: str) -> str:
    """Without preset, and without the mark of samples."""
    return name.partition(" [")[0].removesuffix("_sampled")


def which_is_better(name: str, kind: str) -> Literal["higher", "lower", "neither"]:
    """Which end is the good one. Metrics and criteria of others are taken to rise; numbers of training say nothing."""
    known = KNOWN.get(bare(name))
    return known[1] if known else "neither" if kind == "training" else "higher"


def metrics(runs: Runs) -> list[str]:
    """Supervised scores, each whole: no unified ones."""
    return [
        name
        for name in runs.names
        if runs.kinds[name] == "metric" and "/" not in name and KNOWN.get(bare(name), (True,))[0]
    ]


def criteria(runs: Runs) -> list[str]:
    """All that needs no labels."""
    return [name for name in runs.names if "/" not in name and name not in metrics(runs)]


def unified(runs: Runs) -> list[str]:
    """Unified scores, and the metrics whose rules they are made of."""
    rules = {name.partition("/")[2] for name in runs.names if "/" in name}
    return [name for name in runs.names if "/" in name or name in rules]


def sampled(runs: Runs) -> list[str]:
    """Numbers about means that have a twin about samples."""
    return [name for name in runs.names if f"{name}_sampled" in runs.names]
