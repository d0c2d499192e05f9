"""The machine underneath: devices, memory, what the compiler should leave out, and the random numbers of training."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
from jax.experimental.compilation_cache import compilation_cache
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Int, Key, UInt32

from sober.files import cache_dir

T = TypeVar("T")

RESOURCE_EXHAUSTED = 8  # the status code of an error of JAX where memory ran out, on a CPU and on a GPU
MEMINFO = Path("/proc/meminfo")  # what Linux says of its memory

# How long a program runs, which says how long it may take to compile.
Runs = Literal["for hours", "for seconds", "once"]

# On a CPU programs of batched products are better without: running small operations side by side while the products
# already use all cores, and handing products to a library that is slower at these shapes. And with: vectors as wide as
# the machine has, and what the compiler does by itself, whatever XLA_FLAGS may ask for other programs.
FAST_ON_CPU: Mapping[str, Any] = {
    "xla_cpu_enable_concurrency_optimized_scheduler": False,
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_cpu_prefer_vector_width": 512,
    "xla_backend_optimization_level": 3,
    "xla_cpu_use_fusion_emitters": True,
}
# No search for better kernels than the library's. On an H200 a forward pass of thirty encoders in float32 compiled in
# 0.6 s instead of 15 s so, and took 11 ms instead of 10.
QUICK_ON_GPU: Mapping[str, Any] = {"xla_gpu_enable_triton_gemm": False}
# Random weights are long programs that do little: more than half of the time would go into making them faster.
QUICK_ON_CPU: Mapping[str, Any] = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
# The compiler merges equal results early in a program for several devices and late in one for a single device, and how
# it rewrites a quotient, and so how that is rounded, depends on what is merged by then. Unmerged, bits are the same.
SAME_ON_CPUS: Mapping[str, Any] = {"xla_disable_hlo_passes": "cse"}


@functools.cache
def compiler_options(runs: Runs = "for hours") -> dict[str, Any]:
    """Options for `jax.jit`, those that this version of the compiler knows."""
    wanted: Mapping[str, Any]
    if jax.default_backend() == "cpu":
        wanted = QUICK_ON_CPU if runs == "once" else FAST_ON_CPU
        wanted = {**wanted, **SAME_ON_CPUS} if len(local_devices()) > 1 else wanted
    else:
        wanted = {} if runs == "for hours" else QUICK_ON_GPU
    known: dict[str, Any] = {}
    for name, value in wanted.items():
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
            known[name] = value
    return known


def keep_compilations() -> None:
    """On a GPU, keeps compiled programs in the cache folder, unless JAX has been told of another.

    The compiler picks a GPU's product kernels by timing them, so a second process may pick others, which sum in another
    order. A kept program is the same program: what resumes is bitwise what was stopped, and starts without compiling.
    """
    chosen = getattr(jax.config, "jax_compilation_cache_dir", None)
    if jax.default_backend() == "cpu" or chosen is not None:
        return
    jax.config.update("jax_compilation_cache_dir", str(cache_dir() / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()  # JAX decides once, at its first compilation, whether there is a cache


def local_devices() -> tuple[jax.Device, ...]:
    """The devices to work on: all that JAX shows of this machine, or the one that `jax.default_device` names."""
    chosen = getattr(jax.config, "jax_default_device", None)
    if chosen is None:
        return tuple(jax.local_devices())
    return (jax.local_devices(backend=chosen)[0] if isinstance(chosen, str) else chosen,)


def free_memory() -> int:
    """Bytes to work in, on each device: what is free on a GPU; on a CPU half of what is available, which others share.

    All devices are given as much work, so it is what the fullest of them has.
    """
    devices = local_devices()
    stats = [device.memory_stats() for device in devices]
    if all(each and "bytes_limit" in each for each in stats):
        return min(each["bytes_limit"] - each["bytes_in_use"] for each in stats)
    try:
        lines = MEMINFO.read_text().splitlines()
        available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):  # macOS has no such file: all memory there is
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return available // 2 // len(devices)


def evenly(items: Sequence[T], most: int) -> list[list[T]]:
    """In as few parts as hold at most so many each, of one size but for the last: one compilation serves most."""
    parts = max(1, -(-len(items) // max(1, most)))
    size = max(1, -(-len(items) // parts))
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def device_kind() -> str:
    """The device that is computed on, as JAX names it."""
    return str(jax.local_devices()[0].device_kind)


def out_of_memory(error: jax.errors.JaxRuntimeError) -> bool:
    """Whether memory ran out."""
    return getattr(error, "error_code", None) == RESOURCE_EXHAUSTED


def fenced(f: Callable[..., T], otherwise: Callable[..., T], *arguments: Any) -> T:
    """f(*arguments), which a CPU computes as it stands, fused with nothing before or after: its compiler does not look
    past a choice. `otherwise` is never run; it gives results of the same shapes, and must not be f, which would be no
    choice."""
    return jax.lax.cond(jax.lax.optimization_barrier(True), f, otherwise, *arguments)


def random_key(words: UInt32[Array, " 2"]) -> Key[Array, ""]:
    """A key of these 64 bits for the programs of training: its numbers are those of `jax.random` with threefry2x32.

    On a CPU JAX goes through the rounds of the hash in a loop of small kernels; here they are written out, and compile
    sooner. On two cores, the best of several alternating rounds: 2.2 s instead of 4.1 for the training of 8 `small`
    β-VAEs on blocks, 2.9 instead of 6.2 for 4 of them on noisy_dsprites, 3.8 instead of 4.9 for 4 `conv` ones on
    dsprites; the program that makes weights takes 0.1 s longer. A step takes as long either way (3, 55 and 250 ms), and
    models are bitwise the same.
    """
    return jax.random.wrap_key_data(words, impl=_WRITTEN_OUT if jax.default_backend() == "cpu" else "threefry2x32")


def seed_key(seed: int) -> Key[Array, ""]:
    """`jax.random.key(seed)` for programs that are compiled to run for long: the same numbers."""
    return random_key(jax.random.key_data(jax.random.key(seed, impl="threefry2x32")))


def threefry(
    key_1: UInt32[Array, "*n"], key_2: UInt32[Array, "*n"], x_1: UInt32[Array, "*n"], x_2: UInt32[Array, "*n"]
) -> tuple[UInt32[Array, "*n"], UInt32[Array, "*n"]]:
    """Threefry-2x32 with 20 rounds, the hash behind `jax.random`: Salmon et al. (2011), Parallel Random Numbers."""
    keys = key_1, key_2, key_1 ^ key_2 ^ jnp.uint32(0x1BD11BDA)
    x_1, x_2 = x_1 + keys[0], x_2 + keys[1]
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x_1 = x_1 + x_2
            x_2 = x_1 ^ (x_2 << jnp.uint32(turn) | x_2 >> jnp.uint32(32 - turn))
        x_1 = x_1 + keys[(group + 1) % 3]
        x_2 = x_2 + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return x_1, x_2


def _hashed(key: UInt32[Array, " 2"], counts: UInt32[Array, "*n"]) -> tuple[UInt32[Array, "*n"], UInt32[Array, "*n"]]:
    # Fenced: else each pixel that a random number colours would hash it again.
    words = jnp.broadcast_arrays(key[0], key[1], jnp.uint32(0), counts)
    return fenced(threefry, lambda *words: words[2:], *words)


def _counts(shape: tuple[int, ...]) -> UInt32[Array, "..."]:
    """0, 1, 2, … in this shape."""
    if math.prod(shape) > 2**32:
        raise NotImplementedError(f"more than 2^32 random numbers at once: {shape}")
    return jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)


def _seed(seed: Int[Array, ""]) -> UInt32[Array, " 2"]:
    return jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))


def _split(key: UInt32[Array, " 2"], shape: tuple[int, ...]) -> UInt32[Array, "... 2"]:
    return jnp.stack(_hashed(key, _counts(shape)), axis=-1)


def _fold_in(key: UInt32[Array, " 2"], data: int | Int[Array, ""]) -> UInt32[Array, " 2"]:
    return jnp.stack(_hashed(key, jnp.asarray(data, jnp.uint32)))


def _random_bits(key: UInt32[Array, " 2"], width: int, shape: tuple[int, ...]) -> Array:
    high, low = _hashed(key, _counts(shape))
    if width == 64:
        return high.astype(jnp.uint64) << jnp.uint64(32) | low.astype(jnp.uint64)
    return (high ^ low).astype(jnp.dtype(f"uint{width}"))


_WRITTEN_OUT = define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_random_bits, fold_in=_fold_in, name="sober", tag="sober"
)
