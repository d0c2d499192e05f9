"""How many kernels a training step launches on an H200, counted from the compiled program, without a GPU.

python benchmarks/launches.py                                         β-VAE, 1 and 64 models, kernels and plain layers
python benchmarks/launches.py --methods factor_vae,dava --models 64

Compiles the program that `sober train` would run there for the description of an H200 below. It needs JAX's CUDA plugin
(jax-cuda13-plugin and jax-cuda13-pjrt of JAX's version, installed without what they depend on) and no GPU. The compiler
cannot time alternatives without one, so products may be cut in another way than on a GPU, and counts differ by a few.
Without timing it finds no way at all to compute one product of info_gan (jax 0.10.2).

*Norm* are the sums of squares of the gradient, *bias sums* the other reductions of the backward pass, *casts* the
copies of weights and pictures in bfloat16, *Adam* its updates together with the choice of the last finite state.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import sys
import time
from collections import Counter
from typing import Any
from unittest import mock

os.environ |= {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "JAX_PLATFORMS": "cpu"}

import jax
import jax.numpy as jnp

from sober.models.grid import grid
from sober.training.cohort import Program, likely_program, program, signature
from sober.worlds import World, world
from step_ideas import IDEAS

H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000 l2_cache_size: 52428800 device_memory_size: 150000000000
  cuda_compute_capability { major: 9 minor: 0 }
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 10 patch: 2 } runtime_version { major: 13 }
device_description_str: "NVIDIA H200"
"""
WITHOUT_TIMING = {"xla_gpu_autotune_level": 0}
NO_LAUNCH = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}
GROUPS = ("kernels", "products", "norm", "bias sums", "casts", "Adam", "other")


def h200() -> Any:
    """An H200 to compile for."""
    from jax._src.lib import _jax, xla_client  # noqa: PLC0415
    from jax.experimental import topologies  # noqa: PLC0415

    jax.devices()  # finds the plugin
    if not xla_client.pjrt_plugin_loaded("cuda"):
        sys.exit("install jax-cuda13-plugin and jax-cuda13-pjrt of JAX's version, without what they depend on")
    xla_client.initialize_pjrt_plugin("cuda")
    options = {"target_config": H200, "topology": "1x1x1"}
    topology = _jax.get_default_c_api_topology("cuda", "one H200", options)
    return topologies.TopologyDescription(topology._make_compile_only_devices()).devices[0]


def compiled_step(device: Any, chosen: Program, opened: World, runs: Any, options: dict[str, Any]) -> Any:
    """The compiled `advance` of a family."""
    sharding = jax.sharding.SingleDeviceSharding(device)

    def as_shapes(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)

    inputs, data = as_shapes(chosen.inputs(runs)), as_shapes(opened.data)
    stop = jax.ShapeDtypeStruct((), jnp.int32)
    carry = as_shapes(chosen.shapes(inputs, data))
    advance = jax.jit(chosen._advance, in_shardings=sharding, out_shardings=sharding, donate_argnums=0)
    lowered = advance.trace(carry, data, inputs, stop).lower(lowering_platforms=("cuda",))
    return lowered.compile(compiler_options=WITHOUT_TIMING | options)


def launches(text: str) -> Counter[str]:
    """How many operations of a loop's body are launched, by group."""
    loop = re.search(r"while\(.*?body=%([\w.\-]+)", text)
    assert loop is not None
    body = re.search(rf"^%{re.escape(loop[1])} \(.*?\{{\n(.*?)^\}}", text, re.M | re.S)
    assert body is not None
    counts: Counter[str] = Counter()
    for line in body[1].splitlines():
        operation = re.match(r"\s+(?:ROOT )?%([\w.\-]+) = (?:\([^=]*?\)|\S+) ([\w\-]+)\(", line)
        if operation and operation[2] not in NO_LAUNCH:
            path = re.search(r'op_name="([^"]*)"', line)
            counts[group(operation[1], operation[2], path[1] if path else "", line)] += 1
    return counts


def group(name: str, operation: str, path: str, line: str) -> str:
    if operation == "custom-call":
        return "kernels" if "gpu.triton" in line else "products"
    if "gemm" in name or "dot" in name:
        return "products"
    if "convert" in name and "reduce" not in name:
        return "casts"
    if path.endswith("reduce_sum"):
        return "bias sums" if "jvp" in path else "norm"
    return "Adam" if "_where" in path and "jvp" not in path else "other"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="beta_vae", help="separated by commas")
    parser.add_argument("--models", default="1,64")
    parser.add_argument("--world", default="dsprites")
    parser.add_argument("--options", nargs="*", default=[], help="compiler options, as in name=value")
    parser.add_argument("--ideas", action="store_true", help="with each idea of step_ideas.py, with kernels only")
    arguments = parser.parse_args()
    options = dict(pair.split("=", 1) for pair in arguments.options)
    device, opened = h200(), world(arguments.world)
    opened.data  # noqa: B018 -- drawn on the CPU, before JAX believes that there is a GPU
    print(f"compiled for {device.device_kind} by jax {jax.__version__}, bfloat16\n")
    print(f"| method | models | layers | {' | '.join(GROUPS)} | launches | seconds to compile |")
    print(f"|---|---:|---|{'---:|' * len(GROUPS)}---:|---:|", flush=True)
    for method in arguments.methods.split(","):
        for models in map(int, arguments.models.split(",")):
            runs = grid(opened, method, {}, seeds=models, batch=64, precision="bfloat16")
            kernels = likely_program(opened, runs[0])
            programs = {"kernels": kernels, "plain": program(opened, signature(runs[0]))}
            if arguments.ideas:
                programs = {name: dataclasses.replace(kernels) for name in IDEAS}
            for name, chosen in programs.items():
                started = time.process_time()
                idea = IDEAS[name] if arguments.ideas else contextlib.nullcontext
                with mock.patch.object(jax, "default_backend", return_value="gpu"), idea():
                    counts = launches(compiled_step(device, chosen, opened, runs, options).as_text())
                seconds = time.process_time() - started
                cells = " | ".join(str(counts[key]) for key in GROUPS)
                print(f"| {method} | {models} | {name} | {cells} | {counts.total()} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
