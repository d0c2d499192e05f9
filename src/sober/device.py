"""The machine underneath: devices, memory, compiler options, and the random numbers of training."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import jax
import jax.numpy as jnp
from jax.experimental.compilation_cache import compilation_cache
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Int, Key, UInt32

from sober.errors import RequestError
from sober.files import cache_dir, writable_folder

T = TypeVar("T")

RESOURCE_EXHAUSTED = 8  # the status code of JAX's error when memory runs out, on a CPU and on a GPU
MEMINFO = Path("/proc/meminfo")  # where Linux reports its memory
KEPT_FROM_SECONDS, KEPT_BYTES = 0.2, 2**29  # on a CPU: programs that took this long to compile, as many as fit
CACHE_FOLDER, CACHE_FROM_SECONDS = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"

RunTime = Literal["for hours", "for seconds", "once"]  # how long a program runs: it may take as long to compile

# Batched products on a CPU run faster without two options: small operations side by side (the products already use all
# cores), and a library for products that is slower at these shapes. They run faster with vectors as wide as the machine
# has. The last two are the compiler's defaults, whatever XLA_FLAGS asks for other programs.
FAST_ON_CPU: Mapping[str, Any] = {
    "xla_cpu_enable_concurrency_optimized_scheduler": False,
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_cpu_prefer_vector_width": 512,
    "xla_backend_optimization_level": 3,
    "xla_cpu_use_fusion_emitters": True,
}
# No search for kernels better than the library's. On an H200 this compiles a forward pass of thirty encoders in float32
# in 0.6 s instead of 15 s; the pass takes 11 ms instead of 10.
QUICK_ON_GPU: Mapping[str, Any] = {"xla_gpu_enable_triton_gemm": False}
# Programs that run once gain nothing from products that were chosen by timing them.
ONCE_ON_GPU: Mapping[str, Any] = {**QUICK_ON_GPU, "xla_gpu_autotune_level": 0}
# Programs that draw random weights are long and run once: optimising them would take more than half of the time.
QUICK_ON_CPU: Mapping[str, Any] = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
# The compiler merges equal results early for several devices and late for one. What is merged changes how a quotient is
# rewritten and rounded. Without merging, results have the same bits on any number of devices.
SAME_ON_CPUS: Mapping[str, Any] = {"xla_disable_hlo_passes": "cse"}


@functools.lru_cache(maxsize=len(get_args(RunTime)))
def compiler_options(run_time: RunTime = "for hours") -> dict[str, Any]:
    """Options for `jax.jit`. Leaves out options that this version of the compiler does not know."""
    wanted: Mapping[str, Any]
    if jax.default_backend() == "cpu":
        wanted = QUICK_ON_CPU if run_time == "once" else FAST_ON_CPU
        wanted = {**wanted, **SAME_ON_CPUS} if len(local_devices()) > 1 else wanted
    else:
        wanted = {"for hours": {}, "for seconds": QUICK_ON_GPU, "once": ONCE_ON_GPU}[run_time]
    supported: dict[str, Any] = {}
    for name, value in wanted.items():
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
            supported[name] = value
    return supported


@contextlib.contextmanager
def kept_compilations() -> Iterator[None]:
    """Keeps the programs compiled inside the block in the cache folder; JAX's settings are restored at its end.

    Does nothing where JAX has a cache folder already, or where none can be written. The next process with the same
    program starts without compiling. A GPU's compiler chooses kernels by timing them, so a second process may choose
    others, which sum in another order: there the kept program also gives a resumed training the same bits. On a CPU
    only programs that take long to compile are kept, for processors with the same instructions.
    """
    if jax.config.values[CACHE_FOLDER] is not None:
        yield
        return
    cpu = jax.default_backend() == "cpu"
    folder = cache_dir() / "compiled" / (f"cpu-{processor()}" if cpu else "")
    try:
        writable_folder(folder)
    except RequestError:
        yield
        return
    before = {name: jax.config.values[name] for name in (CACHE_FOLDER, CACHE_FROM_SECONDS)}
    _configure({CACHE_FOLDER: str(folder), CACHE_FROM_SECONDS: KEPT_FROM_SECONDS if cpu else 0.0})
    try:
        yield
    finally:
        _configure(before)
        if cpu:
            remove_oldest(folder, KEPT_BYTES)


def processor() -> str:
    """Eight digits that differ between processors: a compiled program uses the instructions of one."""
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.exists() else []
    instructions = next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
    return hashlib.sha256(instructions.encode()).hexdigest()[:8]


def remove_oldest(folder: Path, most_bytes: int) -> None:
    """Removes the files that were written longest ago until the others take at most `most_bytes`."""
    files = []
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            files.append((path.stat().st_mtime, path.stat().st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= most_bytes:
            return
        path.unlink(missing_ok=True)
        total -= size


def _configure(settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # JAX decides only once, at its first compilation, whether there is a cache


def local_devices() -> tuple[jax.Device, ...]:
    """The devices to work on: all local devices of JAX, or the `jax.default_device` if one is set."""
    chosen = getattr(jax.config, "jax_default_device", None)
    if chosen is None:
        return tuple(jax.local_devices())
    return (jax.local_devices(backend=chosen)[0] if isinstance(chosen, str) else chosen,)


def free_memory() -> int:
    """Bytes to work in on each device: the free memory of a GPU, or half of a CPU's, which other programs share.

    Devices get equal work, so the one with the least free memory decides.
    """
    devices = local_devices()
    stats = [device.memory_stats() for device in devices]
    if all(memory and "bytes_limit" in memory for memory in stats):
        return min(memory["bytes_limit"] - memory["bytes_in_use"] for memory in stats)
    try:
        lines = MEMINFO.read_text().splitlines()
        available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):  # macOS has no such file: count all memory
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return available // 2 // len(devices)


def equal_chunks(items: Sequence[T], most: int) -> list[list[T]]:
    """As few chunks of at most `most` items as possible, all of one size except the last.

    One compilation then serves all chunks but the last.
    """
    count = max(1, -(-len(items) // max(1, most)))
    size = max(1, -(-len(items) // count))
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def device_kind() -> str:
    """JAX's name for the kind of the first local device."""
    return str(jax.local_devices()[0].device_kind)


def out_of_memory(error: jax.errors.JaxRuntimeError) -> bool:
    """Whether memory ran out."""
    return getattr(error, "error_code", None) == RESOURCE_EXHAUSTED


def fenced(f: Callable[..., T], otherwise: Callable[..., T], *arguments: Any) -> T:
    """f(*arguments), which a CPU's compiler fuses with nothing before or after: it does not fuse across a branch.

    `otherwise` is never run. It must give results of the same shapes, and must not be f, or the branch disappears.
    """
    return jax.lax.cond(jax.lax.optimization_barrier(True), f, otherwise, *arguments)


def random_key(words: UInt32[Array, " 2"]) -> Key[Array, ""]:
    """A key of these 64 bits for training programs. It gives the numbers of `jax.random` with threefry2x32.

    On a CPU JAX runs the rounds of the hash in a loop of small kernels. Here they are unrolled, which compiles faster
    and gives the same bits. On two cores, best of several alternating rounds: 2.2 s instead of 4.1 to compile the
    training of 8 `small` β-VAEs on blocks, 2.9 instead of 6.2 for 4 of them on noisy_dsprites, 3.8 instead of 4.9 for 4
    `conv` ones on dsprites; the program that makes weights takes 0.1 s longer. A step takes as long (3, 55, 250 ms).
    """
    return jax.random.wrap_key_data(words, impl=_UNROLLED if jax.default_backend() == "cpu" else "threefry2x32")


def seed_key(seed: int) -> Key[Array, ""]:
    """`jax.random.key(seed)` for long-running programs: the same numbers, from `random_key`."""
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
    # Fenced: otherwise the hash is computed again for every pixel that a random number colours.
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


_UNROLLED = define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_random_bits, fold_in=_fold_in, name="sober", tag="sober"
)
