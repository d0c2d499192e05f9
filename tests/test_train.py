"""The outer loop: cohorts, checkpoints, memory, signals."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sober.training.cohort
from families import BLOCKS, StopAt, assert_same_model, interrupted, small_runs
from sober.device import RESOURCE_EXHAUSTED
from sober.errors import RequestError
from sober.nets import kernel_runs
from sober.nets.kernels import Case, Verdict, plain, trial
from sober.nets.kernels.check import CheckBeside, KernelFaultError
from sober.requests.train import train
from sober.training.cohort import Program, fastest_program, program, signature
from sober.training.progress import Stopped
from sober.types import Adam
from sober.worlds import world as open_world


def cohorts(watcher):
    """How many models trained at once, cohort by cohort."""
    return [models for _, models in dict.fromkeys((each.cohort, each.models) for each in watcher.seen)]


def test_hyperparameters_and_seeds_share_one_program(tmp_path):
    compiled = program(BLOCKS, signature(small_runs()[0]))
    train(small_runs(sweep={"beta": [0.5, 7.0]}, seeds=1), BLOCKS, tmp_path / "one")
    before = compiled.advance._cache_size()
    train(small_runs(sweep={"beta": [2.0, 3.0]}, seeds=[5], optimiser=Adam(2e-3)), BLOCKS, tmp_path / "two")
    assert compiled.advance._cache_size() == before


@pytest.fixture
def compilations():
    """The names of functions that are compiled during a test, in order."""
    names = []

    def listen(event, seconds, **more):
        if event.endswith("backend_compile_duration"):
            names.append(more.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


def test_both_functions_of_a_program_are_compiled_once_ahead_and_for_all_cohorts_of_a_size(tmp_path, compilations):
    train(small_runs(seeds=4, batch=7), BLOCKS, tmp_path, cohort=2)
    assert compilations.count("jit(_init)") == compilations.count("jit(_advance)") == 1


@pytest.mark.parametrize("right", [True, False])
def test_kernels_that_come_with_a_verdict_are_checked_before_anything_is_saved(tmp_path, monkeypatch, right):
    begun = []

    def check(cases):
        begun.append(cases)
        assert not list(tmp_path.rglob("*.safetensors"))
        return {case: Verdict(right, "kernels are wrong: the result is off") for case in cases}

    def fastest(*arguments, **options):
        assert options["unchecked"]
        return fastest_program(*arguments, **options)._replace(unchecked=("a case",))

    monkeypatch.setattr("sober.training.train.fastest_program", fastest)
    monkeypatch.setattr("sober.training.train.CheckBeside", functools.partial(CheckBeside, check=check))
    runs = small_runs()
    if right:
        assert len(train(runs, BLOCKS, tmp_path).finished) == len(runs)
    else:
        with pytest.raises(KernelFaultError, match="Nothing of this training has been saved"):
            train(runs, BLOCKS, tmp_path, checkpoint_seconds=0.0)
        assert not list(tmp_path.rglob("*.safetensors"))
    assert begun == [("a case",)]


def test_inputs_are_made_without_compiling(compilations):
    runs = small_runs(batch=9)
    program(BLOCKS, signature(runs[0])).inputs(runs)
    assert not compilations


def test_choices_of_a_method_select_a_program_and_numbers_do_not():
    one, other = small_runs(sweep={"beta": [1.0, 2.0]}, seeds=1)
    assert signature(one) == signature(other)
    assert signature(one) != signature(small_runs(batch=8)[0])


def test_a_family_is_split_into_equal_cohorts(tmp_path):
    runs = small_runs(seeds=5)
    watcher = StopAt(10**9)
    family = train(runs, BLOCKS, tmp_path, cohort=2, watcher=watcher)
    assert cohorts(watcher) == [2, 2, 1]
    assert len(family.finished) == 5


def test_a_family_larger_than_memory_is_split_by_itself(tmp_path, monkeypatch):
    runs = small_runs(seeds=6)
    compiled = program(BLOCKS, signature(runs[0]))
    each = compiled.memory(compiled.inputs(runs)).each
    monkeypatch.setattr("sober.training.train.free_memory", lambda: int(each * 2 / 0.8) + 1)
    watcher = StopAt(10**9)
    train(runs, BLOCKS, tmp_path, watcher=watcher)
    assert cohorts(watcher) == [2, 2, 2]


def test_the_memory_estimate_covers_what_the_compiler_reserves():
    for batch in (16, 256):
        runs = small_runs(batch=batch)
        compiled = Program(BLOCKS, signature(runs[0]))
        inputs = compiled.inputs(runs)
        carry = compiled.init(inputs, BLOCKS.data)
        analysis = compiled.advance.lower(carry, BLOCKS.data, inputs, 3).compile().memory_analysis()
        reserved = analysis.temp_size_in_bytes + analysis.argument_size_in_bytes
        shared, each = compiled.memory(inputs)
        assert reserved <= shared + 2 * each <= 4 * reserved


class Waves(type(BLOCKS)):
    """`blocks` with a cosine in its pictures, by which a test counts how often a step draws them."""

    def pixels(self, data, index, key):
        return jnp.cos(super().pixels(data, index, key))


def test_a_step_draws_its_pictures_once():
    world = Waves()
    runs = small_runs()
    compiled = Program(world, signature(runs[0]))
    inputs = compiled.inputs(runs)
    text = compiled.advance.lower(compiled.shapes(inputs, world.data), world.data, inputs, 3).compile().as_text()
    assert text.count(" cosine(") == 1


def test_views_draw_as_their_world_does():
    for view in ("hide block_1", "part train 0.8", "without block_1 == 0", "keep block_1 block_2"):
        assert open_world(f"blocks | {view}").drawn_once


def test_large_models_take_turns_on_a_cpu_with_the_same_result(tmp_path, monkeypatch):
    runs = small_runs(steps=50)
    abreast = train(runs, BLOCKS, tmp_path / "abreast")
    monkeypatch.setattr(sober.training.cohort, "SEQUENTIAL_ABOVE", 0)
    sober.training.cohort._program.cache_clear()
    compiled = program(BLOCKS, signature(runs[0]))
    assert compiled.memory(compiled.inputs(runs)).shared > 0
    in_turn = train(runs, BLOCKS, tmp_path / "in_turn")
    sober.training.cohort._program.cache_clear()
    images = BLOCKS.sample(0, 64).images
    for run in runs:
        ours, theirs = in_turn.model(run).encode(images)[0], abreast.model(run).encode(images)[0]
        np.testing.assert_allclose(ours, theirs, atol=1e-3)  # other products, other rounding


@pytest.fixture
def little_memory(monkeypatch):
    """A device on which no more than one model fits: the second raises what a full GPU raises."""
    real = Program._advance

    def limited(self, carry, data, inputs, stop):
        if len(inputs.entropy) > 1:
            raise jax.errors.JaxRuntimeError("Out of memory while trying to allocate 1 bytes.", RESOURCE_EXHAUSTED)
        return real(self, carry, data, inputs, stop)

    monkeypatch.setattr(Program, "_advance", limited)
    sober.training.cohort._program.cache_clear()
    yield
    sober.training.cohort._program.cache_clear()


def test_out_of_memory_halves_the_cohort_and_goes_on(tmp_path, little_memory):
    runs = small_runs(seeds=3)  # halved twice
    watcher = StopAt(10**9)
    family = train(runs, BLOCKS, tmp_path / "halved", watcher=watcher)
    assert cohorts(watcher) == [1, 1, 1]
    assert any("out of memory" in note for note in watcher.notes)
    assert len(family.finished) == 3


def test_a_checkpoint_that_no_longer_fits_is_split_and_goes_on_bitwise(tmp_path, request):
    runs = small_runs(steps=40)
    apart = train(runs, BLOCKS, tmp_path / "apart", cohort=1)
    with pytest.raises(Stopped):
        train(runs, BLOCKS, tmp_path / "split", watcher=StopAt(17))
    request.getfixturevalue("little_memory")
    watcher = StopAt(10**9)
    split = train(runs, BLOCKS, tmp_path / "split", watcher=watcher)
    assert cohorts(watcher) == [1, 1]
    assert watcher.seen[0].step > 17
    images = BLOCKS.sample(0, 64).images
    for run in runs:  # the first 17 steps ran two abreast, so to rounding only
        ours, theirs = split.model(run).encode(images)[0], apart.model(run).encode(images)[0]
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert not list((tmp_path / "split" / "checkpoints").iterdir())


def test_one_model_that_does_not_fit_is_refused_clearly(tmp_path, monkeypatch):
    def full(*_):
        raise jax.errors.JaxRuntimeError("Out of memory", RESOURCE_EXHAUSTED)

    monkeypatch.setattr(Program, "_advance", full)
    sober.training.cohort._program.cache_clear()
    with pytest.raises(RequestError, match="alone does not fit"):
        train(small_runs(seeds=1), BLOCKS, tmp_path)
    sober.training.cohort._program.cache_clear()


def test_other_failures_of_the_device_are_not_swallowed(tmp_path, monkeypatch):
    def broken(*_):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr(Program, "_advance", broken)
    sober.training.cohort._program.cache_clear()
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        train(small_runs(), BLOCKS, tmp_path)
    sober.training.cohort._program.cache_clear()


def test_a_stop_in_any_cohort_resumes_bitwise_and_finished_models_stay(tmp_path):
    runs = small_runs(seeds=3, steps=30)
    whole = train(runs, BLOCKS, tmp_path / "whole", cohort=1)
    seen = StopAt(25)
    with pytest.raises(Stopped, match=r"stopped at step \d+ of 30; run the same command to go on"):
        train(runs, BLOCKS, tmp_path / "parts", cohort=1, watcher=seen)
    parts = interrupted(runs, tmp_path / "parts", cohort=1)
    for run in runs:
        assert_same_model((whole, run), (parts, run))


def test_calling_again_after_the_end_trains_nothing(tmp_path):
    runs = small_runs()
    family = train(runs, BLOCKS, tmp_path)
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "models").iterdir()}
    watcher = StopAt(0)
    assert train(runs, BLOCKS, tmp_path, watcher=watcher).finished == family.finished
    assert not watcher.seen
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "models").iterdir()} == written


def test_curves_are_means_over_windows_that_cover_every_step(tmp_path):
    runs = small_runs(seeds=1, steps=250)
    curves = train(runs, BLOCKS, tmp_path).model(runs[0]).curves
    assert curves["step"][-1] == 250
    assert np.all(np.diff(curves["step"]) == 2)
    assert {"loss", "reconstruction", "kl", "gradient_norm"} <= curves.keys()
    np.testing.assert_allclose(curves["loss"], curves["reconstruction"] + 4 * curves["kl"], rtol=1e-4)


def test_progress_counts_up_to_the_whole_family(tmp_path):
    watcher = StopAt(10**9)
    train(small_runs(seeds=4), BLOCKS, tmp_path, cohort=2, watcher=watcher)
    done = [progress.done for progress in watcher.seen]
    assert done == sorted(done)
    assert done[-1] == watcher.seen[-1].total == 4 * 20
    assert watcher.seen[-1].seconds_left == 0
    assert watcher.seen[-1].rate > 0


def test_a_folder_with_another_family_is_refused_and_unharmed(tmp_path):
    train(small_runs(), BLOCKS, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    with pytest.raises(RequestError, match="holds a training with steps 20, not 21: choose another --out"):
        train(small_runs(steps=21), BLOCKS, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before


def test_a_folder_with_other_files_is_refused_and_unharmed(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RequestError, match="not empty"):
        train(small_runs(), BLOCKS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_two_trainings_of_one_folder_take_turns_and_train_each_model_once(tmp_path):
    process = start(tmp_path / "shared", steps=2000)
    wait_for_checkpoint(tmp_path / "shared", process)
    watcher = StopAt(10**9)
    family = train(small_runs(steps=2000), BLOCKS, tmp_path / "shared", watcher=watcher)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert not watcher.seen, "the other process held the only cohort"
    assert len(family.finished) == 2


def test_a_damaged_checkpoint_is_named_and_left_alone(tmp_path):
    runs = small_runs(steps=40)
    with pytest.raises(Stopped):
        train(runs, BLOCKS, tmp_path, watcher=StopAt(10))
    [checkpoint] = (tmp_path / "checkpoints").glob("*/*.safetensors")
    whole = checkpoint.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        checkpoint.write_bytes(damaged)
        with pytest.raises(RequestError, match=checkpoint.name):
            train(runs, BLOCKS, tmp_path)
        assert checkpoint.read_bytes() == damaged
    checkpoint.write_bytes(whole)
    train(runs, BLOCKS, tmp_path)


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from families import BLOCKS, small_runs
from sober.requests.train import train
train(small_runs(steps={steps}), BLOCKS, {out!r}, checkpoint_seconds=0.0)
"""


def start(out, steps):
    code = SCRIPT.format(tests=os.path.dirname(__file__), steps=steps, out=str(out))
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)


def wait_for_checkpoint(out, process):
    for _ in range(600):
        if list(out.glob("checkpoints/*/*.safetensors")) or process.poll() is not None:
            return
        time.sleep(0.1)
    raise AssertionError("no checkpoint appeared")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A family that nobody killed."""
    return train(small_runs(steps=2000), BLOCKS, tmp_path_factory.mktemp("whole"))


@pytest.mark.kill
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_process_resumes_bitwise(tmp_path, how, whole):
    process = start(tmp_path / "killed", steps=2000)
    wait_for_checkpoint(tmp_path / "killed", process)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0, errors
    assert not list((tmp_path / "killed").glob("models/*"))
    again = train(whole.runs, BLOCKS, tmp_path / "killed")
    for run in again.runs:
        assert_same_model((whole, run), (again, run))


def test_precision_is_recorded_and_bfloat16_trains(tmp_path):
    [full] = small_runs(seeds=1, steps=300)
    [half] = small_runs(seeds=1, steps=300, precision="bfloat16")
    assert full.precision == "float32"
    assert full.identity != half.identity
    model = train([half], BLOCKS, tmp_path).model(half)
    assert model.run.precision == "bfloat16"
    assert model.curves["loss"][-1] < 0.8 * model.curves["loss"][0]
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(model.autoencoder))


# ---------------------------------------------------------------- trials of kernels at the start of a training


@pytest.fixture
def stand_in_kernels(monkeypatch, tmp_path):
    """Kernels that plain layers stand in for, on a machine that meets their requirements. Yields their times."""
    times = [1.0, 2.0]  # microseconds of kernels and of plain layers
    stacks = {"down": plain.down, "up": plain.up}
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(trial, "STACKS", stacks)
    monkeypatch.setattr(trial, "unmet_here", lambda: None)
    monkeypatch.setattr(Case, "unmet_requirement", lambda case: None)
    monkeypatch.setattr(trial, "times", lambda programs, data: times)
    for kind, stack in stacks.items():
        monkeypatch.setattr(kernel_runs, kind, stack)
    sober.training.cohort._program.cache_clear()
    yield times
    sober.training.cohort._program.cache_clear()


def test_a_training_begins_with_a_trial_and_compiles_its_likely_program_meanwhile(
    tmp_path, stand_in_kernels, compilations
):
    watcher = StopAt(10**9)
    trained = train(small_runs(nets="conv", steps=2), BLOCKS, tmp_path / "out", watcher=watcher)
    assert len(trained.finished) == 2
    assert "convolutions by kernels: kernels are right and faster: 1.0 µs against 2.0" in watcher.notes
    assert len(list((tmp_path / "cache" / "kernels").glob("*.json"))) == 2
    assert compilations.count("jit(_advance)") == 1
    train(small_runs(nets="conv", steps=3, batch=16), BLOCKS, tmp_path / "again")
    assert compilations.count("jit(comparison)") == 2  # in the first training, for both kinds


def test_a_training_compiles_plain_layers_if_kernels_are_not_faster(tmp_path, stand_in_kernels, compilations):
    stand_in_kernels[:] = [3.0, 2.0]
    watcher = StopAt(10**9)
    train(small_runs(nets="conv", steps=2), BLOCKS, tmp_path / "out", watcher=watcher)
    assert watcher.notes == ["convolutions by plain layers: kernels are right, but not faster: 3.0 µs against 2.0"]
    assert compilations.count("jit(_advance)") == 2
