"""What is shared out among passes over the device, its memory, and the random numbers of training."""

from __future__ import annotations

import os
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.experimental.compilation_cache import compilation_cache

import sober
from sober import device
from sober.device import (
    equal_chunks,
    free_memory,
    kept_compilations,
    out_of_memory,
    processor,
    random_key,
    remove_oldest,
    threefry,
)


@given(st.lists(st.integers(), max_size=200), st.integers(1, 70))
def test_parts_hold_everything_in_order_in_as_few_parts_as_fit_and_of_one_size_but_for_the_last(items, most):
    parts = equal_chunks(items, most)
    assert [item for part in parts for item in part] == items
    assert len(parts) == -(-len(items) // most)
    assert all(0 < len(part) <= most for part in parts)
    assert len({len(part) for part in parts[:-1]}) <= 1
    assert not parts or len(parts[-1]) <= len(parts[0])


def test_a_hundred_and_eighty_models_go_thirty_at_a_time_where_thirty_two_fit():
    assert [len(part) for part in equal_chunks(range(180), 32)] == [30] * 6


# The answers that the authors of Threefry publish with it, for 2x32 bits and 20 rounds: key, counter, hash.
ANSWERS = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("key", "counter", "expected"), ANSWERS)
def test_the_hash_is_that_of_its_authors(key, counter, expected):
    words = [jnp.array([word], jnp.uint32) for word in (*key, *counter)]
    assert tuple(int(word[0]) for word in threefry(*words)) == expected


DRAWS = {
    "split": lambda key: jax.random.key_data(jax.random.split(key, 5)),
    "split in a grid": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 123)),
    "fold_in of the largest number": lambda key: jax.random.key_data(jax.random.fold_in(key, np.uint32(2**32 - 1))),
    "clone": lambda key: jax.random.key_data(jax.random.clone(key)),
    "bits": lambda key: jax.random.bits(key, (3, 7)),
    "one number": jax.random.bits,
    "no numbers": lambda key: jax.random.bits(key, (0,)),
    "bytes": lambda key: jax.random.bits(key, (3, 7), jnp.uint8),
    "uniform": lambda key: jax.random.uniform(key, (1001,), minval=-0.3, maxval=0.3),
    "normal": lambda key: jax.random.normal(key, (64, 10)),
    "randint": lambda key: jax.random.randint(key, (64,), 0, 737_280),
    "permutation": lambda key: jax.random.permutation(key, jnp.arange(40).reshape(20, 2), axis=0, independent=True),
    "many keys": lambda key: jax.vmap(lambda each: jax.random.normal(each, (3,)))(jax.random.split(key, 4)),
}
WORDS = np.array([[0, 0], [3, 2**31 + 5], [2**32 - 1, 2**32 - 1]], np.uint32)


def of_sober_and_of_jax(draw):
    """What a draw gives with keys of training and with JAX's own, made of the same bits."""
    ours = jax.jit(jax.vmap(lambda words: draw(random_key(words))))(WORDS)
    theirs = jax.jit(jax.vmap(lambda words: draw(jax.random.wrap_key_data(words, impl="threefry2x32"))))(WORDS)
    return np.asarray(ours), np.asarray(theirs)


@pytest.mark.parametrize("name", DRAWS)
def test_keys_of_training_give_the_numbers_of_jax_bit_for_bit(name):
    ours, theirs = of_sober_and_of_jax(DRAWS[name])
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


def test_so_they_do_in_64_bits():
    with jax.enable_x64(True):
        ours, theirs = of_sober_and_of_jax(lambda key: jax.random.bits(key, (5,), jnp.uint64))
        assert ours.dtype == np.uint64
        np.testing.assert_array_equal(ours, theirs)


def test_a_seed_makes_the_key_that_it_makes_of_jax():
    ours = jax.random.key(2**31 - 7, impl=jax.random.key_impl(random_key(WORDS[0])))
    np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(jax.random.key(2**31 - 7)))


# What JAX makes of its random numbers, as text: with Sober imported where modules are given.
LOWERED = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
import jax, jax.numpy as jnp
draw = lambda: (jax.random.bits(jax.random.key(3), (4,)), jax.random.normal(jax.random.key(4), (2, 3)))
print(jax.jit(draw).lower().as_text())
print(jax.config.values)
"""


def test_importing_sober_leaves_jax_as_it_is(start):
    """Its random numbers are computed as before, and no setting has changed."""
    modules = [
        module.name for module in pkgutil.walk_packages(sober.__path__, "sober.") if "__main__" not in module.name
    ]
    assert {"sober.device", "sober.training.cohort", "sober.cli.main"} <= set(modules)
    alone, together = (start(LOWERED, *names) for names in ([], modules))
    text = alone.communicate(timeout=60)[0]
    assert "threefry" in text
    assert together.communicate(timeout=120)[0] == text


@pytest.fixture
def on_a_gpu(monkeypatch):
    """As on a GPU, in a JAX that has no cache of compiled programs."""
    chosen = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    yield
    jax.config.update("jax_compilation_cache_dir", chosen)
    compilation_cache.reset_cache()


def test_compiled_programs_are_kept_within_a_block_and_settings_restored_at_its_end(on_a_gpu, cache):
    before = dict(jax.config.values)
    with kept_compilations():
        assert jax.config.jax_compilation_cache_dir == str(cache / "compiled")
        with kept_compilations():  # as a training inside a command does
            pass
        assert jax.config.jax_compilation_cache_dir == str(cache / "compiled")
    assert dict(jax.config.values) == before


@pytest.fixture
def without_cache():
    """A JAX that has no cache of compiled programs."""
    chosen = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", chosen)
    compilation_cache.reset_cache()


def test_on_a_cpu_programs_that_take_long_to_compile_are_kept_for_this_processor(without_cache, cache):
    with kept_compilations():
        assert jax.config.jax_compilation_cache_dir == str(cache / "compiled" / f"cpu-{processor()}")
        assert jax.config.jax_persistent_cache_min_compile_time_secs > 0
    assert len(processor()) == 8


def test_where_no_cache_can_be_written_compiling_goes_on_without(without_cache, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "file"))
    with kept_compilations():
        assert jax.config.jax_compilation_cache_dir is None


def test_the_oldest_programs_are_removed_first(tmp_path):
    for age, name in enumerate("abc"):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    remove_oldest(tmp_path, 30)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c"}
    remove_oldest(tmp_path, 25)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_settings_are_restored_after_an_error(on_a_gpu):
    before = dict(jax.config.values)

    @kept_compilations()
    def fail():
        assert dict(jax.config.values) != before
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert dict(jax.config.values) == before


def test_a_cache_that_jax_has_already_is_used_as_it_is(on_a_gpu, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    before = dict(jax.config.values)
    with kept_compilations():
        assert dict(jax.config.values) == before


def test_half_of_what_is_available_is_to_work_in(monkeypatch, tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal:       2000 kB\nMemFree:        100 kB\nMemAvailable:   1000 kB\n")
    monkeypatch.setattr(device, "MEMINFO", tmp_path / "meminfo")
    assert free_memory() == 500 * 1024


@pytest.mark.parametrize("content", [None, "MemTotal: 2000 kB\n"])
def test_where_the_system_does_not_say_what_is_available_half_of_all_memory_is(monkeypatch, tmp_path, content):
    """As on macOS, which has no /proc."""
    if content is not None:
        (tmp_path / "meminfo").write_text(content)
    monkeypatch.setattr(device, "MEMINFO", tmp_path / "meminfo")
    assert free_memory() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def test_an_error_for_want_of_memory_is_told_from_others():
    with pytest.raises(jax.errors.JaxRuntimeError) as full:
        jax.block_until_ready(jax.jit(lambda: jnp.zeros(2**50))())
    with pytest.raises(jax.errors.JaxRuntimeError) as other:
        jax.jit(lambda: 0, compiler_options={"no_such_option": True}).lower().compile()
    assert out_of_memory(full.value)
    assert not out_of_memory(other.value)
