"""Verdicts on kernels: whether to use them for a run of layers on a device, found in trials and kept.

A verdict serves all numbers of models with one table of launch settings: a kernel's programs are the same for each
model, and only their number grows. A trial therefore compares one number of models for each table (`Case.models`).

Verdicts come from two places. Those of trials on this machine lie in the cache folder. Those that come with Sober, in
`verdicts.json`, were measured on the same kind of device with the same versions of JAX and of the kernels; their
kernels are checked once on this machine before results are kept (`check.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from sober.device import device_kind
from sober.errors import RequestError
from sober.files import cache_dir, read_json, write_json
from sober.nets.kernels.launch import LaunchTable, launch_table
from sober.nets.kernels.layout import KernelLayout, Kind
from sober.nets.kernels.requirements import unmet_requirement

VERSION = 1  # of the kernels; a higher version, due with every change to them, makes all trials run again
SHIPPED = Path(__file__).with_name("verdicts.json")
TRIED: Mapping[LaunchTable, int] = {"few": 16, "many": 32}  # tiles of all models in a trial

Shapes = Sequence[tuple[tuple[int, ...], tuple[int, ...]]]  # of weight and bias of each layer


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether to use kernels, and why. Times are of a forward and backward pass per model; 0 if not measured."""

    use: bool
    why: str
    kernels_us: float = 0.0
    plain_us: float = 0.0


@dataclasses.dataclass(frozen=True)
class Case:
    """The subject of a trial: a run of layers, its input (batch, height, width, channels), and a launch table."""

    kind: Kind
    shape: tuple[int, ...]
    layers: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    dtype: str
    launches: LaunchTable

    @staticmethod
    def of(kind: Kind, shape: Sequence[int], layers: Shapes, dtype: Any, models: int) -> Case:
        """The case of this many models at once."""
        shapes = tuple((tuple(weight), tuple(bias)) for weight, bias in layers)
        case = Case(kind, tuple(shape), shapes, jnp.dtype(dtype).name, "few")
        return dataclasses.replace(case, launches=launch_table(models, case.layout.tiles))

    @property
    def layout(self) -> KernelLayout:
        x = jax.ShapeDtypeStruct(self.shape, self.dtype)
        layers = [(jax.ShapeDtypeStruct(w, self.dtype), jax.ShapeDtypeStruct(b, self.dtype)) for w, b in self.layers]
        return KernelLayout.of(self.kind, x, layers, False)  # type: ignore[arg-type]

    @property
    def models(self) -> int:
        """How many models a trial compares: enough for the launch table, and few enough."""
        tiles = self.layout.tiles
        return -(-TRIED["many"] // tiles) if self.launches == "many" else max(1, TRIED["few"] // tiles)

    def unmet_requirement(self) -> str | None:
        layout = self.layout
        channels = layout.widths if self.kind == "down" else layout.widths[::-1]
        return unmet_requirement(self.kind, layout.picture, channels, self.dtype)

    def identity(self) -> dict[str, Any]:
        """Everything that a verdict depends on, in JSON types."""
        machine = {"device": device_kind(), "jax": jax.__version__, "kernels": VERSION}
        return json.loads(json.dumps(machine | dataclasses.asdict(self)))

    def path(self) -> Path:
        return cache_dir() / "kernels" / f"{self.kind}-{digest(self.identity())}.json"


def digest(identity: Mapping[str, Any]) -> str:
    """Sixteen digits of an identity."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def kept_verdict(case: Case) -> Verdict | None:
    """The verdict that this machine has kept; None if there is none, or its file is damaged."""
    try:
        record = read_json(case.path())
        verdict = Verdict(**record["verdict"])
    except (RequestError, KeyError, TypeError):
        return None
    kinds = {"use": bool, "why": str, "kernels_us": float, "plain_us": float}
    complete = all(type(getattr(verdict, name)) is kind for name, kind in kinds.items())
    return verdict if complete and record.get("case") == case.identity() else None


def keep(case: Case, verdict: Verdict) -> None:
    """Keeps a verdict on this machine, if its cache folder can be written."""
    with contextlib.suppress(OSError):
        write_json(case.path(), record_of(case.identity(), verdict))


def record_of(identity: Mapping[str, Any], verdict: Verdict) -> dict[str, Any]:
    return {"case": dict(identity), "verdict": dataclasses.asdict(verdict)}


def shipped_verdict(case: Case) -> Verdict | None:
    """The verdict that comes with Sober, measured on such a device; None if there is none."""
    return _shipped().get(digest(case.identity()))


@functools.cache
def _shipped() -> dict[str, Verdict]:
    return {digest(record["case"]): Verdict(**record["verdict"]) for record in json.loads(SHIPPED.read_text())}
