"""Convolution kernels on this GPU: whether they are right, and microseconds per model, against the plain layers.

python benchmarks/kernels.py                              all shapes
python benchmarks/kernels.py --nets conv --pictures 64x64x1 --batches 64 --models 8 256
python benchmarks/kernels.py --compile                    registers, spills and shared memory of every kernel

Results and gradients in bfloat16 are compared with the plain layers in float32, and three runs bit by bit. Floor is the
time that the bytes of all layers take at the memory's speed: each array that a kernel by itself must read or write. The
program ends with status 1 if anything is wrong.

--compile needs no GPU, but JAX 0.10, the last that shows what its Triton compiler makes; its CUDA plugin
(jax-cuda13-plugin, jax-cuda13-pjrt, which may be installed without what they depend on); and ptxas (nvidia-cuda-nvcc).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import io
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

if "--compile" in sys.argv:
    os.environ |= {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "JAX_PLATFORMS": "cpu"}

import jax
import jax.extend
import jax.numpy as jnp

from sober.device import out_of_memory
from sober.errors import brief
from sober.nets import kernels
from sober.nets.kernels.plain import plain
from sober.nets.kernels.plan import Kind, Plan
from sober.nets.kernels.trial import Case, Stack, both_ways, passes, samples, times, what_is_wrong
from sober.nets.layers import Conv, Deconv

NETS: dict[str, dict[Kind, tuple[int, ...]]] = {  # channels, in the order of the layers
    "conv": {"down": (32, 32, 64, 64), "up": (64, 64, 32, 32)},
    "dava": {"up": (64, 64, 64, 64)},
}
PICTURES = ["64x64x1", "64x64x3", "32x32x1"]
BYTES_PER_SECOND = 4.3e12  # that an H200 reaches
SHARED = 227 * 1024  # bytes that a program can have

STACKS: dict[Kind, Stack] = {"down": kernels.down, "up": kernels.up}


def case_of(kind: Kind, picture: str, channels: tuple[int, ...], batch: int, models: int) -> Case:
    h, w, c = map(int, picture.split("x"))
    layer, widths = (Conv, (c, *channels)) if kind == "down" else (Deconv, (*channels, c))
    scale = 1 if kind == "down" else 2 ** len(channels)
    made = [
        jax.eval_shape(functools.partial(layer, i=i, o=o), jax.random.key(0)) for i, o in itertools.pairwise(widths)
    ]
    layers = tuple((leaf.weight.shape, leaf.bias.shape) for leaf in made)
    return Case(kind, (batch, h // scale, w // scale, widths[0]), layers, "bfloat16", models)


def shaped(case: Case) -> tuple[Any, Any]:
    """The input and the layers of all models, as shapes."""

    def array(shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((case.models, *shape), dtype)

    return array(case.shape, jnp.bfloat16), tuple((array(weight), array(bias)) for weight, bias in case.layers)


def plan_of(case: Case) -> Plan:
    x, layers = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), shaped(case))
    return Plan.of(case.kind, x, layers, False)


def floors(case: Case) -> tuple[float, float]:
    """Microseconds for the bytes of a model, forward and back."""
    from sober.nets.kernels.passes import checked  # noqa: PLC0415 — Pallas

    plan = plan_of(case)
    fused = checked(plan.grids[0])
    share = 2e6 * plan.batch / (plan.rows * BYTES_PER_SECOND)  # of a tile's numbers, in microseconds
    forward = sum(grids.fine + grids.coarse for grids in plan.grids)
    # The weight's gradient reads both sides; that of the input reads one, and the activation, and writes.
    inner = [2 * grids.fine + grids.coarse for grids in plan.grids]
    if case.kind == "up":
        inner = [grids.fine + 2 * grids.coarse for grids in plan.grids]
        inner[0] -= fused * (plan.grids[0].fine + plan.grids[0].coarse)  # read once for both gradients
    else:
        inner[0] = -fused * plan.grids[0].coarse  # pictures are data
        inner[1] -= fused * plan.grids[1].fine  # the gradient between the first two layers is not written, nor read
    return share * forward, share * (forward + sum(inner))


class Line(NamedTuple):
    """Microseconds per model."""

    forward: float
    plain_forward: float
    both: float
    plain_both: float

    def __str__(self) -> str:
        cells = (self.forward, self.plain_forward, self.both - self.forward, self.plain_both - self.plain_forward)
        return " | ".join(f"{cell:.2f}" for cell in cells)


def measured(case: Case) -> tuple[str | None, Line]:
    stack, theirs = STACKS[case.kind], functools.partial(plain, case.kind)
    programs = both_ways(case, stack)
    fault = what_is_wrong(case, programs, runs=3)
    forward = [jax.jit(lambda x, layers, _, one=one: jax.vmap(one)(x, layers)) for one in (stack, theirs)]
    return fault, Line(*times([*forward, programs[-1], passes(theirs, case.kind == "up")], samples(case)))


def measure(cases: list[tuple[str, Case]]) -> bool:
    """Prints a line for each case; whether all is right."""
    right = True
    print("| layers | batch | models | forward, kernels | plain | floor | back, kernels | plain | floor | |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    for name, case in cases:
        start = f"| {name} | {case.shape[0]} | {case.models} |"
        try:
            fault, line = measured(case)
        except Exception as error:
            full = isinstance(error, jax.errors.JaxRuntimeError) and out_of_memory(error)
            right &= full
            print(start, "| | | | | |", "out of memory" if full else brief(error), "|", flush=True)
            continue
        right &= fault is None
        (down, down_plain, back, back_plain), floor = str(line).split(" | "), floors(case)
        cells = (down, down_plain, f"{floor[0]:.2f}", back, back_plain, f"{floor[1]:.2f}", fault or "right")
        print(start, " | ".join(cells), "|", flush=True)
    return right


class Compiled(NamedTuple):
    name: str
    shared: int
    registers: int
    spilled: int  # bytes


@contextlib.contextmanager
def lowered_modules() -> Iterator[list[tuple[str, bytes]]]:
    """Every Triton module that JAX lowers meanwhile, by name."""
    from jax._src.pallas.triton import pallas_call_registration as registration  # noqa: PLC0415

    lower, modules = registration.lowering.lower_jaxpr_to_triton_module, []

    def lowered(*args: Any, **kwargs: Any) -> Any:
        result = lower(*args, **kwargs)
        result.module.operation.write_bytecode(buffer := io.BytesIO())
        name = str(result.module.operation.attributes["sym_name"]).strip('"')
        modules.append((name, buffer.getvalue()))
        return result

    registration.lowering.lower_jaxpr_to_triton_module = lowered
    try:
        yield modules
    finally:
        registration.lowering.lower_jaxpr_to_triton_module = lower


def launches(jaxpr: Any) -> dict[str, tuple[int, int]]:
    """Warps and stages of every kernel in a program, by name."""
    out = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "pallas_call":
            params = eqn.params["compiler_params"]
            out[eqn.params["jaxpr"].debug_info.func_name] = (params.num_warps, params.num_stages)
        else:
            for inner in jax.extend.core.jaxprs_in_params(eqn.params):
                out |= launches(inner)
    return out


def compiled(case: Case, wanted: bool) -> list[Compiled]:
    """All kernels of a forward and backward pass."""
    program = passes(STACKS[case.kind], wanted)
    x, layers = shaped(case)
    slope = jax.eval_shape(jax.vmap(STACKS[case.kind]), x, layers)
    with lowered_modules() as modules:
        traced = program.trace(x, layers, slope)  # type: ignore[attr-defined]
        traced.lower(lowering_platforms=("cuda",))
    how = launches(traced.jaxpr.jaxpr)
    return [assembled(name, module, *how[name]) for name, module in modules]


@functools.cache
def assembled(name: str, module: bytes, warps: int, stages: int) -> Compiled:
    from jax._src.lib import triton  # noqa: PLC0415

    made = triton.compile("cuda", module, "9.0", num_warps=warps, num_ctas=1, num_stages=stages)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(made.asm if isinstance(made.asm, str) else made.asm.decode())
        file.flush()
        command = [ptxas(), "-v", "-arch=sm_90a", file.name, "-o", os.devnull]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers, spilled = (re.search(p, said) for p in (r"Used (\d+) registers", r"(\d+) bytes spill stores"))
    assert registers
    assert spilled
    return Compiled(name, made.smem_bytes, int(registers[1]), int(spilled[1]))


def ptxas() -> str:
    path = shutil.which("ptxas") or next(map(str, Path(sys.prefix).glob("lib/**/bin/ptxas")), None)
    return path or sys.exit("ptxas is missing: install nvidia-cuda-nvcc, or put it on the path")


def why_not_compiled() -> str | None:
    if hasattr(importlib.import_module("jax._src.lib.triton"), "compile"):
        return None
    return f"--compile needs JAX 0.10, not {jax.__version__}"


def compile_all(cases: list[tuple[str, Case]]) -> bool:
    """Prints a line for each kernel; whether all fit."""
    print("| layers | batch | models | kernel | shared memory, bytes | registers | spilled, bytes |")
    print("|---|---:|---:|---|---:|---:|---:|")
    right = True
    for name, case in cases:
        wanted = (True,) if case.kind == "up" else (False, True)
        for line in dict.fromkeys(itertools.chain(*(compiled(case, one) for one in wanted))):
            right &= line.spilled == 0 and line.shared <= SHARED
            print(f"| {name} | {case.shape[0]} | {case.models} |", " | ".join(map(str, line)), "|", flush=True)
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", default=[*NETS], choices=[*NETS])
    parser.add_argument("--pictures", nargs="+", default=PICTURES)
    parser.add_argument("--batches", nargs="+", type=int, default=[64, 128])
    parser.add_argument("--models", nargs="+", type=int, default=[1, 8, 64, 256])
    parser.add_argument("--compile", action="store_true", help="registers, spills and shared memory, without a GPU")
    chosen = parser.parse_args()
    cases = [
        (f"{net} {kind} {picture}", case_of(kind, picture, channels, batch, models))
        for net, picture in itertools.product(chosen.nets, chosen.pictures)
        for kind, channels in NETS[net].items()
        for batch, models in itertools.product(chosen.batches, chosen.models)
    ]
    if reason := why_not_compiled() if chosen.compile else kernels.why_not_here():
        sys.exit(reason)
    device = "compiled for sm_90a" if chosen.compile else jax.local_devices()[0].device_kind
    print(f"{device}, jax {jax.__version__}, bfloat16; microseconds are for each model\n")
    sys.exit(not (compile_all if chosen.compile else measure)(cases))


if __name__ == "__main__":
    main()
