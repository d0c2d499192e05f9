"""Every figure of docs/speed.md that needs a GPU, measured briefly: one file of JSON and one of tables.

python benchmarks/everything_on_a_gpu.py OUT               at most 9 minutes on an H200
python benchmarks/everything_on_a_gpu.py OUT --tiny        a rehearsal with tiny sizes, on a CPU too

Parts, in this order: seconds until the first step, with an empty and with a full cache; model-steps a second of β-VAEs
by how many train at once, of other methods, and of other pictures, batches and nets, each with the program that `sober
train` chooses and by plain layers, in three alternating turns; what is launched in a step, and for how long; ideas for
a faster step (`step_ideas.py`) and options of the compiler. A part that would end after the deadline is left out, and
the tables say so.

OUT/figures.json and OUT/figures.md are written after every part. OUT/verdicts.json can take the place of
src/sober/nets/kernels/verdicts.json: it has the verdicts on kernels that come with Sober, and those of this run.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TURNS = 3
AT_ONCE = 6  # families whose programs compile side by side
PROFILED_STEPS = 5


class Sizes(NamedTuple):
    """What is measured, and for how long."""

    base: str  # the world whose pictures are used
    models: tuple[int, ...]
    together: int  # models of all other families
    nets: str | None
    other_nets: str
    batch: int
    methods: tuple[str, ...]
    sides: tuple[int, ...]
    turn_seconds: float
    first_steps: int  # with a full cache
    profiled: tuple[int, ...]
    varied: tuple[int, ...]


METHODS = ("factor_vae", "dava", "info_gan", "beta_tcvae", "dip_vae_i", "control_vae", "annealed_vae")
FULL = Sizes(
    "dsprites", (1, 8, 16, 30, 64, 256), 64, None, "dava", 128, METHODS, (32, 128), 0.7, 3, (1, 8, 64), (1, 8, 256)
)
TINY = Sizes("blocks", (1, 2), 2, "small", "dense", 8, METHODS[:1], (8, 32), 0.02, 1, (1,), (1,))


@dataclasses.dataclass(frozen=True)
class FamilyOf:
    """One row of a table: a family, and how it differs from the usual one."""

    table: str
    name: str
    models: int
    method: str = "beta_vae"
    picture: str = "grey"
    nets: str | None = None
    batch: int = 64


def families(sizes: Sizes) -> list[FamilyOf]:
    rows = [FamilyOf("β-VAE", "β-VAE", models, nets=sizes.nets) for models in sizes.models]
    rows += [FamilyOf("methods", method, sizes.together, method=method, nets=sizes.nets) for method in sizes.methods]
    rows += [
        FamilyOf("shapes", f"{side} × {side} × 1", sizes.together, picture=f"{side}", nets=sizes.nets)
        for side in sizes.sides
    ]
    rows.append(FamilyOf("shapes", "colour", sizes.together, picture="colour", nets=sizes.nets))
    rows.append(FamilyOf("shapes", f"batch {sizes.batch}", sizes.together, nets=sizes.nets, batch=sizes.batch))
    rows.append(FamilyOf("shapes", f"nets {sizes.other_nets}", sizes.together, nets=sizes.other_nets))
    return rows


class Report:
    """The figures so far, written after every part."""

    def __init__(self, out: Path, minutes: float) -> None:
        self.out, self.started, self.deadline = out, time.monotonic(), time.monotonic() + 60 * minutes
        self.figures: dict[str, Any] = {"parts": {}, "left out": []}

    def part(self, name: str, seconds: float, measure: Callable[[], Any]) -> None:
        """Measures a part that takes about `seconds`, if there is time for it. An error ends only the part."""
        if time.monotonic() + seconds > self.deadline:
            self.figures["left out"].append(name)
            return
        started = time.monotonic()
        try:
            result = measure()
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        self.figures["parts"][name] = {"seconds": round(time.monotonic() - started, 1), "result": result}
        self.figures["seconds"] = round(time.monotonic() - self.started, 1)
        print(f"{self.figures['seconds']:6.1f} s  {name}: {json.dumps(result, ensure_ascii=False)[:300]}", flush=True)
        self.write()

    def write(self) -> None:
        (self.out / "figures.json").write_text(json.dumps(self.figures, indent=1, ensure_ascii=False) + "\n")
        (self.out / "figures.md").write_text("\n".join(tables(self.figures)) + "\n")


# ---------------------------------------------------------------- the first step


def first_step(out: Path, sizes: Sizes) -> dict[str, Any]:
    """A process of its own that trains a family for two steps."""
    command = [sys.executable, str(HERE / "first_step.py"), str(out), "--world", sizes.base]
    command += ["--models", str(sizes.together), "--since", repr(time.time())]
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-400:])
    return json.loads(done.stdout.splitlines()[-1])


def without_programs(cache: Path) -> None:
    """Empties a cache but for the verdicts on kernels, as on a machine for which verdicts come with Sober."""
    for folder in cache.iterdir():
        if folder.name != "kernels":
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()


# ---------------------------------------------------------------- model-steps a second


def picture_world(sizes: Sizes, picture: str) -> Any:
    """The base world, in colour or with another number of pixels."""
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415

    from sober.worlds import Grid, world  # noqa: PLC0415

    base = world(sizes.base)
    if picture == "grey":
        return base
    side, channels = (base.image_shape[0], 3) if picture == "colour" else (int(picture), 1)

    class Drawn(Grid):
        name = f"{sizes.base} as {picture}"
        summary = reference = ""
        image_shape = (side, side, channels)
        factors = base.factors

        def make_data(self) -> Any:
            return base.data

        def pixels(self, data: Any, index: Any, key: Any) -> Any:
            images = base.pixels(data, index, key)
            if channels == 3:
                return images * jax.random.uniform(key, (len(index), 1, 1, 3), minval=0.5)
            if side < images.shape[1]:
                return images[:, :: images.shape[1] // side, :: images.shape[2] // side]
            return jnp.repeat(jnp.repeat(images, side // images.shape[1], axis=1), side // images.shape[2], axis=2)

    return Drawn()


class Worlds:
    """Worlds by kind of picture, each opened once."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.opened: dict[str, Any] = {}

    def __getitem__(self, picture: str) -> Any:
        if picture not in self.opened:
            self.opened[picture] = picture_world(self.sizes, picture)
        return self.opened[picture]


def runs_of(row: FamilyOf, worlds: Worlds) -> Any:
    from sober.models.grid import grid  # noqa: PLC0415

    options: dict[str, Any] = {"nets": row.nets} if row.nets else {}
    return grid(worlds[row.picture], row.method, {}, seeds=row.models, latents=10, batch=row.batch, **options)


def trials(rows: Sequence[FamilyOf], worlds: Worlds) -> dict[str, str]:
    """Tries all kernels that the rows need in one trial, and says what came out."""
    from sober.nets.kernel_runs import cases_of  # noqa: PLC0415
    from sober.nets.kernels import trial_verdicts  # noqa: PLC0415
    from sober.training.cohort import inputs_of_nets  # noqa: PLC0415

    cases = []
    for row in rows:
        run = runs_of(dataclasses.replace(row, models=1), worlds)[0]
        cases += list(cases_of(inputs_of_nets(worlds[row.picture], run), run.precision, row.models))
    cases = list(dict.fromkeys(cases))
    verdicts = trial_verdicts(cases).verdicts
    return {
        f"{case.kind} {'x'.join(map(str, case.shape))} {case.launches} {case.layers[0][1]}": verdict.why
        for case, verdict in zip(cases, verdicts, strict=True)
    }


def verdicts_to_ship(folder: Path) -> str:
    """The verdicts that come with Sober, with those of a folder in the place of older ones on the same cases."""
    from sober.nets.kernels.verdicts import SHIPPED, digest  # noqa: PLC0415

    records = json.loads(SHIPPED.read_text())
    records += [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    by_case = {digest(record["case"]): record for record in records if record["verdict"]["use"]}
    lines = ",\n".join("  " + json.dumps(record, ensure_ascii=False) for record in by_case.values())
    return f"[\n{lines}\n]\n"


def in_groups(rows: Sequence[FamilyOf]) -> Iterator[list[FamilyOf]]:
    for start in range(0, len(rows), AT_ONCE):
        yield list(rows[start : start + AT_ONCE])


def rates(rows: Sequence[FamilyOf], worlds: Worlds, seconds: float) -> list[dict[str, Any]]:
    """Rates of some families, compiled side by side, then measured family by family in alternating turns."""
    from family_steps import FamilySteps  # noqa: PLC0415

    pairs = []
    for row in rows:
        world, runs = worlds[row.picture], runs_of(row, worlds)
        chosen = FamilySteps(world, runs, later=True)
        contenders = {"chosen": chosen}
        if chosen.uses_kernels:
            contenders["plain"] = FamilySteps(world, runs, plain=True, later=True)
        pairs.append((row, contenders))
    measured = []
    for row, contenders in pairs:
        result: dict[str, Any] = {"name": row.name, "table": row.table, "models": row.models}
        try:
            for steps in contenders.values():
                steps.ready()
            result["kernels"] = sorted(contenders["chosen"].program.kernels)
            result |= turns(contenders, row.models, seconds)
        except Exception as error:  # one family that fails, for want of memory say, leaves the others
            result["error"] = f"{type(error).__name__}: {error}"[:300]
        measured.append(result)
        contenders.clear()  # frees its models
    return measured


def turns(contenders: dict[str, Any], models: int, seconds: float) -> dict[str, list[float]]:
    """Model-steps a second of each contender: the median, the slowest and the fastest of three turns."""
    counts = {name: max(1, int(seconds / (steps(4) / 4))) for name, steps in contenders.items()}
    measured: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(TURNS):
        for name, steps in contenders.items():
            measured[name].append(models * counts[name] / steps(counts[name]))
    return {name: [median(values), min(values), max(values)] for name, values in measured.items()}


# ---------------------------------------------------------------- what is launched


def profile(models: int, sizes: Sizes, worlds: Worlds, out: Path) -> dict[str, Any]:
    """The kernels of a step by their time, from a trace; for one model where `models` train at once."""
    import jax  # noqa: PLC0415

    from family_steps import FamilySteps  # noqa: PLC0415

    row = FamilyOf("profile", "β-VAE", models, nets=sizes.nets)
    steps = FamilySteps(worlds["grey"], runs_of(row, worlds))
    steps(PROFILED_STEPS)
    folder = out / f"trace-{models}"
    with jax.profiler.trace(str(folder), create_perfetto_trace=True):
        seconds = steps(PROFILED_STEPS)
    trace = json.loads(gzip.decompress(next(folder.rglob("perfetto_trace.json.gz")).read_bytes()))["traceEvents"]
    shutil.rmtree(folder)
    names = {event["pid"]: event["args"]["name"] for event in trace if event.get("name") == "process_name"}
    threads = {
        (event["pid"], event["tid"]): event["args"]["name"] for event in trace if event.get("name") == "thread_name"
    }
    micros: Counter[str] = Counter()
    launched: Counter[str] = Counter()
    for event in trace:
        place = event.get("pid"), event.get("tid")
        if event.get("ph") == "X" and "GPU" in names.get(place[0], "") and "Stream" in threads.get(place, ""):
            micros[event["name"]] += event["dur"] / PROFILED_STEPS
            launched[event["name"]] += 1
    return {
        "microseconds of a step": round(1e6 * seconds / PROFILED_STEPS, 1),
        "in kernels": round(micros.total(), 1),
        "launches": round(launched.total() / PROFILED_STEPS, 1),
        "longest": [
            [name[:60], round(time, 1), launched[name] / PROFILED_STEPS] for name, time in micros.most_common(20)
        ],
    }


WITH_LOOPS = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,WHILE"
OPTIONS: dict[str, dict[str, Any]] = {
    "no command buffers": {"xla_gpu_enable_command_buffer": ""},
    "loops in command buffers": {"xla_gpu_enable_command_buffer": WITH_LOOPS},
    "loops unrolled into command buffers": {
        "xla_gpu_enable_command_buffer": WITH_LOOPS,
        "xla_gpu_command_buffer_unroll_loops": True,
    },
}


def variants(models: int, sizes: Sizes, worlds: Worlds) -> dict[str, Any]:
    """Rates of one family with ideas for its program, and with other options of the compiler."""
    from family_steps import FamilySteps  # noqa: PLC0415
    from step_ideas import IDEAS  # noqa: PLC0415

    row = FamilyOf("variants", "β-VAE", models, nets=sizes.nets)
    families: dict[str, Any] = {}
    for name, idea in IDEAS.items():
        with idea():
            families[name] = FamilySteps(worlds["grey"], runs_of(row, worlds), later=True)
    for name, options in OPTIONS.items():
        families[name] = FamilySteps(worlds["grey"], runs_of(row, worlds), options=options, later=True)
    rates_by_variant: dict[str, Any] = {}
    for name, steps in list(families.items()):
        try:
            steps.ready()
        except Exception as error:
            rates_by_variant[name] = f"{type(error).__name__}: {error}"[:200]
            del families[name]
    return rates_by_variant | turns(families, models, sizes.turn_seconds / 2)


# ---------------------------------------------------------------- tables


def tables(figures: dict[str, Any]) -> Iterator[str]:
    """The figures as Markdown."""
    parts = {name: figure["result"] for name, figure in figures["parts"].items()}
    machine = parts.get("machine", {})
    yield f"{machine.get('date')}, {machine.get('device')}, jax {machine.get('jax')}."
    yield f"All of it took {figures.get('seconds')} s."
    if figures["left out"]:
        yield f"\nLeft out for want of time: {', '.join(figures['left out'])}."
    firsts = {name: result for name, result in parts.items() if name.startswith("first step")}
    if firsts:
        yield "\n| first step | imported | world opened | program chosen | first step | trained |"
        yield "|---|---:|---:|---:|---:|---:|"
    for name, result in firsts.items():
        seconds = result.get("seconds", {})
        marks = ("imported", "world opened", "program chosen", "first step", "trained")
        cells = [f"{seconds[mark]:.1f}" if mark in seconds else "" for mark in marks]
        yield f"| {name.removeprefix('first step, ')} {result.get('error', '')} | {' | '.join(cells)} |"
    rows = [
        row for name, result in parts.items() if name.startswith("rates") and isinstance(result, list) for row in result
    ]
    for table in dict.fromkeys(row["table"] for row in rows):
        yield f"\n| {table} | models | as `sober train` runs it, model-steps/s | plain layers | ratio | kernels |"
        yield "|---|---:|---:|---:|---:|---|"
        for row in rows:
            if row["table"] == table:
                yield rate_line(row)
    for name, result in parts.items():
        if name.startswith("variants") and "error" not in result:
            yield f"\n| {name} | model-steps/s |\n|---|---:|"
            yield from (f"| {option} | {as_rate(rate)} |" for option, rate in result.items())
        if name.startswith("profile") and "error" not in result:
            yield (
                f"\n{name}: a step takes {result['microseconds of a step']} µs, {result['in kernels']} of them in "
                f"{result['launches']} launches.\n\n| kernel | µs a step | launches |\n|---|---:|---:|"
            )
            yield from (f"| `{kernel}` | {time} | {count:g} |" for kernel, time, count in result["longest"])
    for name in ("trials", "floor"):
        if name in parts:
            yield f"\n{name}: {json.dumps(parts[name], ensure_ascii=False, indent=1)}"


def rate_line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"| {row['name']} | {row['models']} | {row['error']} | | | |"
    ratio = f"{row['chosen'][0] / row['plain'][0]:.2f}" if "plain" in row else ""
    plain = as_rate(row["plain"]) if "plain" in row else "the same"
    kernels = ", ".join(row["kernels"]) or "none"
    return f"| {row['name']} | {row['models']} | {as_rate(row['chosen'])} | {plain} | {ratio} | {kernels} |"


def as_rate(rate: Any) -> str:
    return rate if isinstance(rate, str) else "{:,.0f} ({:,.0f} to {:,.0f})".format(*rate)


# ---------------------------------------------------------------- all of it


def machine() -> dict[str, Any]:
    import jax  # noqa: PLC0415

    device = jax.local_devices()[0]
    return {"date": str(datetime.date.today()), "device": device.device_kind, "jax": jax.__version__}


def floor(sizes: Sizes, worlds: Worlds) -> dict[str, float]:
    """The bytes of a step, and how many steps a second a device could make that only moved them."""
    import jax  # noqa: PLC0415

    from floor import copy_bandwidth, step_bytes  # noqa: PLC0415
    from sober.nets import NETS  # noqa: PLC0415

    run = runs_of(FamilyOf("floor", "β-VAE", 1, nets=sizes.nets), worlds)[0]
    moved = step_bytes(NETS[run.nets], worlds["grey"].image_shape, run.latents, run.batch, run.precision)
    if jax.default_backend() == "cpu":
        return {"bytes": moved}
    bandwidth = copy_bandwidth()
    return {"bytes": moved, "bytes a second": bandwidth, "model-steps a second": bandwidth / moved}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tiny", action="store_true", help="a rehearsal")
    parser.add_argument("--minutes", type=float, default=9.0)
    arguments = parser.parse_args()
    sizes, out = (TINY if arguments.tiny else FULL), arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    cache = out / "cache"
    os.environ["SOBER_CACHE"] = str(cache)
    report = Report(out, arguments.minutes)

    def first(name: str, number: int, guess: float) -> None:
        report.part(f"first step, {name}", guess, lambda: first_step(out / f"first-{number}", sizes))

    first("empty cache", 0, 90)  # these first: later this process holds the GPU's memory
    if cache.exists():
        without_programs(cache)
    first("verdicts kept, nothing compiled", 1, 60)
    for number in range(sizes.first_steps):
        first(f"full cache ({number + 1})", 2 + number, 20)

    sys.path.insert(0, str(HERE))
    worlds, rows = Worlds(sizes), families(sizes)
    report.part("machine", 5, machine)
    report.part("floor", 5, lambda: floor(sizes, worlds))
    report.part("trials", 60, lambda: trials(rows, worlds))
    (out / "verdicts.json").write_text(verdicts_to_ship(cache / "kernels"))
    for number, group in enumerate(in_groups(rows), start=1):
        guess = 20 + 12 * len(group)
        report.part(f"rates {number}", guess, partial(rates, group, worlds, sizes.turn_seconds))
    for models in sizes.profiled:
        report.part(f"profile, {models} models", 20, partial(profile, models, sizes, worlds, out))
    for models in sizes.varied:
        report.part(f"variants, {models} models", 40, partial(variants, models, sizes, worlds))
    shutil.rmtree(cache, ignore_errors=True)
    for folder in out.glob("first-*"):
        shutil.rmtree(folder, ignore_errors=True)
    report.write()
    print(f"\n{(out / 'figures.md').read_text()}")


if __name__ == "__main__":
    main()
