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
import dataclasses
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

if "--compile" in sys.argv:
    os.environ |= {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "JAX_PLATFORMS": "cpu"}

import jax
import jax.extend

from sober.device import out_of_memory
from sober.errors import brief
from sober.nets import kernels
from sober.nets.kernels.comparison import Stack, compiled, find_fault, passes, samples
from sober.nets.kernels.layout import Kind
from sober.nets.kernels.plain import plain
from sober.nets.kernels.trial import times
from sober.nets.kernels.verdicts import Case
from sober.nets.layers import Conv, Deconv

NETS: dict[str, dict[Kind, tuple[int, ...]]] = {  # channels, in the order of the layers
    "conv": {"down": (32, 32, 64, 64), "up": (64, 64, 32, 32)},
    "dava": {"up": (64, 64, 64, 64)},
}
PICTURES = ["64x64x1", "64x64x3", "32x32x1"]
BYTES_PER_SECOND = 4.3e12  # that an H200 reaches
SHARED = 227 * 1024  # bytes that a program can have

STACKS: dict[Kind, Stack] = {"down": kernels.down, "up": kernels.up}


@dataclasses.dataclass(frozen=True)
class SizedCase(Case):
    """A run of layers for exactly `size` models, where a trial has its own number."""

    size: int = 1

    @property
    def models(self) -> int:
        return self.size


def case_of(kind: Kind, picture: str, channels: tuple[int, ...], batch: int, models: int) -> SizedCase:
    h, w, c = map(int, picture.split("x"))
    layer, widths = (Conv, (c, *channels)) if kind == "down" else (Deconv, (*channels, c))
    scale = 1 if kind == "down" else 2 ** len(channels)
    leaves = [
        jax.eval_shape(functools.partial(layer, i=i, o=o), jax.random.key(0)) for i, o in itertools.pairwise(widths)
    ]
    layers = tuple((leaf.weight.shape, leaf.bias.shape) for leaf in leaves)
    case = Case.of(kind, (batch, h // scale, w // scale, widths[0]), layers, "bfloat16", models)
    return SizedCase(**vars(case), size=models)


def floors(case: Case) -> tuple[float, float]:
    """Microseconds for the bytes of a model, forward and back."""
    from sober.nets.kernels.passes import checked  # noqa: PLC0415 — Pallas

    plan = case.layout
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
    stack, plain_pass = STACKS[case.kind], functools.partial(plain, case.kind)
    (programs,) = compiled([case], [stack], timed=True)
    if isinstance(programs, Exception):
        raise programs
    fault = find_fault(case, programs, runs=3)
    forward = [
        jax.jit(lambda x, layers, _, forward=forward: jax.vmap(forward)(x, layers)) for forward in (stack, plain_pass)
    ]
    assert programs.plain is not None
    return fault, Line(*times([*forward, programs.kernels[-1], programs.plain], programs.samples().usual))


def measure(cases: Sequence[tuple[str, Case]]) -> bool:
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


def kernels_compiled(case: Case, input_gradient: bool) -> list[Compiled]:
    """All kernels of a forward and backward pass."""
    program = jax.jit(passes(STACKS[case.kind], input_gradient))
    with lowered_modules() as modules:
        traced = program.trace(*jax.eval_shape(functools.partial(samples, case)).usual)
        traced.lower(lowering_platforms=("cuda",))
    launches_by_name = launches(traced.jaxpr.jaxpr)
    return [assembled(name, module, *launches_by_name[name]) for name, module in modules]


@functools.cache
def assembled(name: str, module: bytes, warps: int, stages: int) -> Compiled:
    from jax._src.lib import triton  # noqa: PLC0415

    program = triton.compile("cuda", module, "9.0", num_warps=warps, num_ctas=1, num_stages=stages)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(program.asm if isinstance(program.asm, str) else program.asm.decode())
        file.flush()
        command = [ptxas(), "-v", "-arch=sm_90a", file.name, "-o", os.devnull]
        log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers, spilled = (re.search(p, log) for p in (r"Used (\d+) registers", r"(\d+) bytes spill stores"))
    assert registers
    assert spilled
    return Compiled(name, program.smem_bytes, int(registers[1]), int(spilled[1]))


def ptxas() -> str:
    path = shutil.which("ptxas") or next(map(str, Path(sys.prefix).glob("lib/**/bin/ptxas")), None)
    return path or sys.exit("ptxas is missing: install nvidia-cuda-nvcc, or put it on the path")


def why_not_compiled() -> str | None:
    if hasattr(importlib.import_module("jax._src.lib.triton"), "compile"):
        return None
    return f"--compile needs JAX 0.10, not {jax.__version__}"


def compile_all(cases: Sequence[tuple[str, Case]]) -> bool:
    """Prints a line for each kernel; whether all fit."""
    print("| layers | batch | models | kernel | shared memory, bytes | registers | spilled, bytes |")
    print("|---|---:|---:|---|---:|---:|---:|")
    right = True
    for name, case in cases:
        gradients = (True,) if case.kind == "up" else (False, True)
        for line in dict.fromkeys(itertools.chain(*(kernels_compiled(case, gradient) for gradient in gradients))):
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
    arguments = parser.parse_args()
    cases = [
        (f"{net} {kind} {picture}", case_of(kind, picture, channels, batch, models))
        for net, picture in itertools.product(arguments.nets, arguments.pictures)
        for kind, channels in NETS[net].items()
        for batch, models in itertools.product(arguments.batches, arguments.models)
    ]
    if reason := why_not_compiled() if arguments.compile else kernels.unmet_here():
        sys.exit(reason)
    device = "compiled for sm_90a" if arguments.compile else jax.local_devices()[0].device_kind
    print(f"{device}, jax {jax.__version__}, bfloat16; microseconds are for each model\n")
    sys.exit(not (compile_all if arguments.compile else measure)(cases))


if __name__ == "__main__":
    main()
