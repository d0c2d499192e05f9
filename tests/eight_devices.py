"""What `test_devices.py` has done on eight devices, in a process of its own: `python tests/eight_devices.py FOLDER`.

XLA_FLAGS must ask for the devices before JAX is imported. What is computed goes into the folder, for the tests to
compare with what one device gives; what needs no comparison is asserted here.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from families import BLOCKS, StopAt, assert_same_model, interrupted, small_runs
from sober.criteria import Evidence
from sober.criteria.pipe import pipe
from sober.criteria.reconstruction_errors import reconstruction_errors
from sober.device import RESOURCE_EXHAUSTED
from sober.evaluation.families import only_family
from sober.model_placement import ModelPlacement
from sober.models.encode import MODELS_AT_ONCE, encode, models_at_once
from sober.models.family import Family
from sober.models.grid import grid
from sober.models.model import model_of
from sober.requests.train import train
from sober.tasks import Subjects
from sober.tasks.abstract_reasoning import abstract_reasoning
from sober.training import cohort
from sober.training import train as training
from sober.training.cohort import PLACEMENT, Program, program, signature
from sober.training.progress import Stopped
from sober.types import Adam, Run
from sober.worlds import World, from_array
from sober.worlds.stored_world import StoredWorld

STEPS = 60
SIXTEEN = small_runs(seeds=16, steps=STEPS)
# The last one, which the last device has a copy of, diverges.
ELEVEN = [
    *small_runs("factor_vae", seeds=10, steps=STEPS),
    *small_runs("factor_vae", seeds=1, steps=STEPS, optimiser=Adam(1e30)),
]
GANS = small_runs("info_gan", seeds=12, steps=STEPS)
ALONE = small_runs("beta_vae", {"beta": [7.0]}, seeds=1, steps=STEPS)
PICTURES = np.arange(700)  # more than one batch, and not two


def looked_at(family: Family, runs: list[Run]) -> dict[str, np.ndarray]:
    """All that is computed with trained models: codes, reconstruction errors, what PIPE finds, and how nets reason with
    them. Models first."""
    codes = tuple(codes for _, codes in encode(family, runs, pictures=PICTURES))
    load = functools.partial(model_of, family.folder)
    evidence = Evidence(BLOCKS, tuple(runs), codes, PICTURES, load)
    judged = pipe(evidence.models, BLOCKS, steps=30, rate=1e-3)
    # So narrow that a product has one thread: with more, sums depend on how many the devices share.
    narrow = {**abstract_reasoning.quick, "width": 0.05, "batch": 2, "tested": 16}
    reasoned = abstract_reasoning(Subjects(codes, tuple(runs), BLOCKS, PICTURES, load), narrow)
    return {
        "mean": np.stack([each.mean for each in codes]),
        "errors": reconstruction_errors(evidence, 0, lambda done, total: None).nats,
        "accuracy": judged.accuracy,
        "reconstruction": judged.reconstruction,
        "reasoning": np.stack([outcome.parts["accuracy"] for outcome in reasoned]),
    }


def trained(out: Path) -> None:
    """Families for the tests to compare, and one that was stopped on the way."""
    sixteen = train(SIXTEEN, BLOCKS, out / "sixteen")
    np.savez(out / "looked_at.npz", **looked_at(only_family(sixteen), SIXTEEN))
    stopped = interrupted(SIXTEEN, out / "stopped", 23)
    for run in SIXTEEN:
        assert_same_model((sixteen, run), (stopped, run))
    watcher = StopAt(10**9)
    train(ELEVEN, BLOCKS, out / "eleven", watcher=watcher)
    assert {progress.models for progress in watcher.seen} == {11}
    assert [watcher.seen[-1].done, watcher.seen[-1].total] == [11 * STEPS] * 2
    assert np.isfinite([progress.loss for progress in watcher.seen[1:]]).all()
    [note] = watcher.notes
    assert note.startswith(f"run {ELEVEN[-1].identity} diverged")
    train(GANS, BLOCKS, out / "gans")
    train(ALONE, BLOCKS, out / "alone")
    with pytest.raises(Stopped):
        train(SIXTEEN[:11], BLOCKS, out / "unfinished", watcher=StopAt(31))


def memory(out: Path) -> None:
    """As many models fit as on one device, times eight; a cohort that does not fit is halved."""
    compiled = program(BLOCKS, signature(SIXTEEN[0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "free_memory", lambda: 10**8)
        fits = compiled.memory(compiled.inputs(SIXTEEN[:1])).models(10**8)
        assert training._models_that_fit(BLOCKS, SIXTEEN) == 8 * fits > 8
        patch.setattr("sober.models.encode.free_memory", lambda: 2**40)
        assert models_at_once(SIXTEEN[0], 1) == 8 * MODELS_AT_ONCE

    def limited(self: Program, *arguments: object) -> object:
        if len(arguments[2].entropy) > 1:  # type: ignore[attr-defined] # the inputs, of one device
            raise jax.errors.JaxRuntimeError("Out of memory", RESOURCE_EXHAUSTED)
        return advance(self, *arguments)

    advance = Program._advance
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "_advance", limited)
        cohort._program.cache_clear()
        watcher = StopAt(10**9)
        train(SIXTEEN[:11], BLOCKS, out / "halved", watcher=watcher)
        assert {progress.models for progress in watcher.seen} == {6, 5}
    cohort._program.cache_clear()


def arrays() -> None:
    """Models are where they should be, the world is copied once, and a step takes over the memory of the one before."""
    compiled, spread = program(BLOCKS, signature(SIXTEEN[0])), ModelPlacement(11)
    inputs, data = spread.place(compiled.inputs(SIXTEEN[:11])), spread.replicated(BLOCKS.data)
    assert spread.replicated(BLOCKS.data) is data
    for leaf, copies in zip(jax.tree.leaves(BLOCKS.data), jax.tree.leaves(data), strict=True):
        assert copies.sharding.is_fully_replicated
        ours = next(shard.data for shard in copies.addressable_shards if shard.device in leaf.devices())
        assert ours.unsafe_buffer_pointer() == leaf.unsafe_buffer_pointer(), "a second copy on the same device"
    carry = compiled.init(inputs, BLOCKS.example)
    after = compiled.advance(carry, data, inputs, 1)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(carry))
    for leaf in jax.tree.leaves(after.state):
        assert [shard.data.shape[0] for shard in leaf.addressable_shards] == [2] * 6
    text = compiled.advance.lower(after, data, inputs, 2).compile().as_text()
    assert not [word for word in ("all-reduce", "all-gather", "all-to-all", "collective-permute") if word in text]
    trimmed = spread.fetched(after, PLACEMENT)
    assert {leaf.shape[0] for leaf in jax.tree.leaves(trimmed.state)} == {11}
    assert trimmed.step == 1


def shards(out: Path) -> None:
    """A world that does not fit comes to all devices in shards; one device is used where JAX is told of one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[World.__module__], "SHARD_BYTES", 40 * 256)
        patch.setattr(sys.modules[World.__module__], "SHARD_STEPS", 15)
        patch.setattr(StoredWorld, "resident", False)
        noise = from_array(np.random.default_rng(0).integers(0, 255, (500, 16, 16, 1), dtype=np.uint8))
        runs = grid(noise, "beta_vae", {}, seeds=16, steps=40, latents=3, batch=16, optimiser=Adam(1e-3))
        everywhere = train(runs, noise, out / "shards")
        with jax.default_device(jax.devices()[3]):
            assert ModelPlacement(16).models_per_device == 16
            there = train(runs, noise, out / "there", cohort=2)
        for run in runs:
            assert_same_model((everywhere, run), (there, run))


if __name__ == "__main__":
    assert len(jax.local_devices()) == 8
    trained(Path(sys.argv[1]))
    memory(Path(sys.argv[1]))
    arrays()
    shards(Path(sys.argv[1]))
