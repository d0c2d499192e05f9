"""Trains the next wanted models on this machine, and leaves what is needed to measure them anywhere.

    python tools/train_wanted.py OUT --minutes 25
    python tools/train_wanted.py OUT --minutes 25 --entry sober_look_color --measure

Takes the cohorts of `results/wanted.toml` in their order, each as large as fits the time that is left. While a cohort
trains, the next one is compiled, and the one before it is encoded, judged by the criteria that need decoders, tried in
the tasks that encode more pictures, and packed. Each cohort leaves an archive: zip files of at most 16 MiB, each a
folder of results without weights (`sober merge` takes them in). A cohort that does not fit the time is not begun. The
rate of the first seconds says whether it fits on this machine: if not, it begins again with fewer seeds. A stopped one
goes on from its checkpoint when the same command is run again. It needs what training needs, and neither Polars nor
the command line.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

if TYPE_CHECKING:
    from sober.models.family import Family
    from sober.requests.study.plan import Plan
    from sober.results.folder import Folder
    from sober.training.progress import TrainingProgress
    from sober.types import NamedSettings, Run
    from sober.worlds import World
    from wanted import Entry

PICTURES = 10_000  # whose codes are kept
PIECE_BYTES = 15 * 2**20  # of an archive's file, at most, with room for its list of contents
AROUND = 45.0  # seconds, at first, that a cohort takes beside training: compiling, and after it encoding and judging
MARGIN = 1.1  # how much longer a training may take than its rate says
FIRST_SECONDS = 5.0  # of training, after which its rate says whether it can end in time


@dataclasses.dataclass(frozen=True)
class WantedCohort:
    """Runs of one world and one program, wanted for an entry, to be trained at once."""

    entry: Entry
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        """A name for files, the same for the same runs."""
        from sober.results.request import Cohort  # noqa: PLC0415

        first = self.runs[0]
        world = "".join(letter if letter.isalnum() else "-" for letter in first.world)
        return f"{self.entry.name}-{world}-{first.method}-{Cohort.of(self.runs).name}"

    def with_seeds(self, count: int) -> WantedCohort:
        """The runs of the first seeds."""
        seeds = sorted({run.seed for run in self.runs})[:count]
        return dataclasses.replace(self, runs=tuple(run for run in self.runs if run.seed in seeds))

    @property
    def seeds(self) -> int:
        return len({run.seed for run in self.runs})


class Rates:
    """How long cohorts take on this machine: by the plan's rates, corrected by what was seen."""

    def __init__(self) -> None:
        self.factors: dict[str, float] = {}  # seconds seen over seconds planned, by method
        self.around = AROUND

    def seconds(self, cohort: WantedCohort, share_left: float = 1.0) -> float:
        """How long a cohort will take, all included, if this share of its training is left."""
        method = cohort.runs[0].method
        usual = max(self.factors.values(), default=1.0)
        training = MARGIN * self.factors.get(method, usual) * planned_seconds(cohort) * share_left
        return training + self.around + judging_seconds(cohort)

    def saw(self, cohort: WantedCohort, seconds: float) -> None:
        self.factors[cohort.runs[0].method] = seconds / planned_seconds(cohort)


def planned_seconds(cohort: WantedCohort) -> float:
    """Seconds of training by the rates that studies are planned with."""
    from sober.requests.study.training_rates import backend  # noqa: PLC0415
    from sober.results.request import Cohort  # noqa: PLC0415

    plan: Plan = cohort.entry.plan
    return plan.cohort_seconds(Cohort.of(cohort.runs), backend())


def judging_seconds(cohort: WantedCohort) -> float:
    """Seconds of the criteria and tasks that need the models themselves, by the costs that studies are planned with."""
    from sober.requests.study.training_rates import backend  # noqa: PLC0415

    entry = cohort.entry
    study = dataclasses.replace(
        entry.study, criteria=decoding_criteria(entry), tasks=encoding_tasks(entry, opened(cohort))
    )
    return dataclasses.replace(entry.plan, study=study).measuring(cohort.runs, backend())


class Trained(NamedTuple):
    """A cohort whose models lie in a folder of results."""

    cohort: WantedCohort
    folder: Path


class Log:
    """Says what happens, with the seconds since the beginning, and counts the seconds in which models were trained."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.training = 0.0
        self.first_step = 0.0  # seconds until the first step

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def __call__(self, text: str) -> None:
        print(f"[{self.seconds:6.0f} s] {text}", flush=True)


class TooSlowError(Exception):
    """A training that just began cannot end in time at the rate of its first seconds."""

    def __init__(self, rate: float, seconds: float) -> None:
        super().__init__(f"{rate:,.0f} model-steps/s")
        self.rate, self.seconds = rate, seconds


class TrainingWatch:
    """Notes when a training took its first step, says how fast it is, and whether it can end before its deadline."""

    def __init__(self, log: Log, deadline: float) -> None:
        self.log, self.deadline, self.started, self.said = log, deadline, 0.0, 0.0
        self.is_judged = False

    def progress(self, progress: TrainingProgress) -> None:
        seconds = time.monotonic()
        if not self.started:
            self.started = self.said = seconds
            self.log.first_step = self.log.first_step or self.log.seconds
        if not self.is_judged and progress.rate and seconds - self.started > FIRST_SECONDS:
            self.is_judged = True
            if seconds + progress.seconds_left > self.deadline:
                raise TooSlowError(progress.rate, seconds - self.started)
        if seconds - self.said > 30:
            self.said = seconds
            self.log(f"  step {progress.step:,} of {progress.steps:,}, {progress.rate:,.0f} model-steps/s")

    def note(self, text: str) -> None:
        self.log(f"  {text}")


def wanted_cohorts(wanted: Path | None, names: Sequence[str], archived: set[str]) -> Iterator[WantedCohort]:
    """The cohorts of the entries, in their order, without runs that come with Sober or have been archived."""
    from sober.training.cohort import signature  # noqa: PLC0415
    from wanted import read_wanted  # noqa: PLC0415

    entries = read_wanted(wanted)
    if unknown := set(names) - {entry.name for entry in entries}:
        sys.exit(f"the list of wanted results has no entry {', '.join(sorted(unknown))}")
    for entry in entries:
        if names and entry.name not in names:
            continue
        groups: dict[str, list[Run]] = {}
        finished = entry.done() | archived
        for identity, run in entry.plan.runs.items():
            if identity not in finished:
                groups.setdefault(f"{run.world} {signature(run)!r}", []).append(run)
        yield from (WantedCohort(entry, tuple(runs)) for runs in groups.values())


def archived_runs(out: Path) -> set[str]:
    """The identities of the runs in the complete archives of a folder."""
    from sober.types import Run  # noqa: PLC0415

    identities: set[str] = set()
    for path in (out / "archives").glob("*.zip"):
        if not path.stem.endswith(".scores") and not path.stem.rpartition(".")[2].isdigit():
            with zipfile.ZipFile(path) as archive:
                identities |= {Run.of(run).identity for run in json.loads(archive.read("request.json"))["runs"]}
    return identities


def fitting(cohort: WantedCohort, rates: Rates, seconds_left: float, out: Path) -> WantedCohort | None:
    """As many seeds of a cohort as fit the time; None if not one does.

    If an earlier call has begun it, the same seeds go on from their checkpoint: other seeds could not.
    """
    smaller_ones = [cohort.with_seeds(seeds) for seeds in range(cohort.seeds, 0, -1)]
    begun = [(smaller, share) for smaller in smaller_ones if (share := share_left(smaller, out)) is not None]
    for smaller, share in begun or [(smaller, 1.0) for smaller in smaller_ones]:
        if share == 0 or rates.seconds(smaller, share) <= seconds_left:
            return smaller
    return None


def share_left(cohort: WantedCohort, out: Path) -> float | None:
    """The share of a cohort's training that is left by its checkpoint; None if no call has begun it."""
    from safetensors import safe_open  # noqa: PLC0415

    work = out / "work" / cohort.name
    if not (work / "request.json").exists():
        return None
    if all((work / "models" / f"{run.identity}.safetensors").exists() for run in cohort.runs):
        return 0.0
    steps = 0
    for path in work.glob("checkpoints/*/*.safetensors"):
        with safe_open(path, "numpy") as checkpoint:
            steps = max(steps, int(checkpoint.get_tensor("log.step").max(initial=0)))
    return 1 - steps / cohort.runs[0].steps


def compile_ahead(cohort: WantedCohort) -> None:
    """Compiles a cohort's program into the cache, so that its training begins at once."""
    import jax  # noqa: PLC0415

    from sober.training.cohort import fastest_program  # noqa: PLC0415

    world, runs = opened(cohort), cohort.runs
    compiled = fastest_program(world, runs[0], len(runs), unchecked=True).program
    inputs = compiled.inputs(runs)
    carry = compiled.shapes(inputs, world.example)
    data = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), world.example)
    compiled.init.lower(inputs, data).compile()
    compiled.advance.lower(carry, data, inputs, 1).compile()


def opened(cohort: WantedCohort) -> World:
    from sober.worlds import world  # noqa: PLC0415

    return world(cohort.entry.plan.request.worlds[cohort.runs[0].world])


def begin(cohort: WantedCohort, out: Path) -> Folder:
    """The folder of results that a cohort is trained in."""
    from sober.results.folder import Folder  # noqa: PLC0415
    from sober.results.request import Cohort, Measure  # noqa: PLC0415

    request = cohort.entry.plan.request
    label = cohort.runs[0].world
    request = dataclasses.replace(
        request,
        worlds={label: request.worlds[label]},
        cohorts=(Cohort.of(cohort.runs),),
        measure=Measure(
            criteria=decoding_criteria(cohort.entry),
            tasks=encoding_tasks(cohort.entry, opened(cohort)),
            pictures=PICTURES,
            judged_by=PICTURES,
        ),
        name=cohort.entry.name,
        title=cohort.entry.what,
        missing={},
    )
    return Folder.begin(out / "work" / cohort.name, request)


def decoding_criteria(entry: Entry) -> tuple[NamedSettings, ...]:
    """The criteria that an entry asks for and that need the models themselves."""
    from sober.criteria import find_criterion  # noqa: PLC0415
    from sober.types import NamedSettings  # noqa: PLC0415

    criteria = [criterion for criterion in entry.study.asked if find_criterion(criterion.name).decodes]
    names = {criterion.name for criterion in criteria}
    return (*criteria, *(NamedSettings(name) for name in ("reconstruction", "elbo") if name not in names))


def encoding_tasks(entry: Entry, world: World) -> tuple[NamedSettings, ...]:
    """The tasks that an entry asks for and that encode pictures beside those whose codes are kept.

    Where a world leaves pictures out, every task may need them.
    """
    from sober.tasks import find_task  # noqa: PLC0415

    leaves_pictures_out = "held_out" in world.flags
    return tuple(
        task for task in entry.study.asked_tasks if leaves_pictures_out or find_task(task.name).needs == "models"
    )


def train_cohort(cohort: WantedCohort, out: Path, log: Log, deadline: float) -> tuple[Trained, float]:
    """Trains a cohort, and says how long its steps took. Raises `TooSlowError` if it cannot end in time."""
    from sober.evaluation.engine import Evaluation  # noqa: PLC0415
    from sober.results.request import Measure  # noqa: PLC0415

    folder, watch = begin(cohort, out), TrainingWatch(log, deadline)
    try:
        Evaluation(folder, Measure(), at_once=len(cohort.runs), watcher=watch).all(kind="cohort")
    finally:
        seconds = time.monotonic() - watch.started if watch.started else 0.0
        log.training += seconds
    return Trained(cohort, folder.path), seconds


def finish(trained: Trained, out: Path, wanted: Path | None, measure: bool, log: Log) -> subprocess.Popen[bytes] | None:
    """Does what needs the models, packs the rest and removes them. Returns the process that measures the codes."""
    from sober.evaluation.engine import Evaluation  # noqa: PLC0415
    from sober.evaluation.families import only_family  # noqa: PLC0415
    from sober.evaluation.jobs import Job  # noqa: PLC0415
    from sober.evaluation.training_states import training_states  # noqa: PLC0415
    from sober.models.encode import encode, sample_of  # noqa: PLC0415
    from sober.results.folder import Folder  # noqa: PLC0415

    started = time.monotonic()
    folder = Folder.open(trained.folder)
    family = only_family(folder)
    for _ in encode(family, family.runs, pictures=sample_of(family.world, PICTURES)):
        pass
    evaluation = Evaluation(folder, folder.request.measure, trains=False, strict=False)
    evaluation.all()
    job = Job("judge", family.runs)
    training_states(evaluation.context, family, family.runs, evaluation.context.teller(job))
    pieces = pack(folder.path, out, trained.cohort, family)
    shutil.rmtree(trained.folder)
    sizes = ", ".join(f"{piece.stat().st_size / 2**20:.1f} MiB" for piece in pieces)
    log(f"{trained.cohort.name}: encoded, judged and packed in {time.monotonic() - started:.0f} s ({sizes})")
    return measure_elsewhere(trained.cohort, out, wanted) if measure else None


def pack(folder: Path, out: Path, cohort: WantedCohort, family: Family) -> list[Path]:
    """Zip files with the folder's content: codes packed, models without weights but for those to be shown."""
    from sober.files import load_arrays, save_arrays  # noqa: PLC0415
    from sober.models.encode import codes_path, sample_of  # noqa: PLC0415
    from sober.models.model import load_record  # noqa: PLC0415
    from sober.models.packed_codes import packed  # noqa: PLC0415

    small = folder.parent / f"{folder.name}-packed"
    shutil.rmtree(small, ignore_errors=True)
    first_seed = min(run.seed for run in cohort.runs)
    identities_with_weights = {run.identity for run in cohort.runs if cohort.entry.models and run.seed == first_seed}
    sample = sample_of(family.world, PICTURES)
    code_files = {codes_path(family, run, sample).name for run in cohort.runs}
    for path in sorted(folder.rglob("*")):
        place = small / path.relative_to(folder)
        top = path.relative_to(folder).parts[0]
        if path.is_dir() or top.startswith(".") or top in {"claims", "checkpoints", "progress"}:
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.name == "models" and path.stem not in identities_with_weights:
            load_record(path).save(place)
        elif path.parent.name == "codes":
            if path.name in code_files:
                arrays, metadata = load_arrays(path)
                save_arrays(place, packed(arrays["mean"], arrays["logvar"]), metadata)
        else:
            shutil.copyfile(path, place)
    pieces = zipped(small, out / "archives", cohort.name)
    shutil.rmtree(small)
    return pieces


def zipped(folder: Path, archives: Path, name: str) -> list[Path]:
    """The files of a folder in zip files of at most `PIECE_BYTES`. The first is written last: then all are there."""
    archives.mkdir(parents=True, exist_ok=True)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    request = folder / "request.json"
    pieces: list[list[Path]] = [[request]]
    size = 0
    for path in files:
        if path == request:
            continue
        if size + path.stat().st_size > PIECE_BYTES:
            pieces.append([request])  # each piece is a folder of results
            size = 0
        pieces[-1].append(path)
        size += path.stat().st_size
    paths = [archives / (f"{name}.zip" if number == 0 else f"{name}.{number}.zip") for number in range(len(pieces))]
    for path, members in reversed(list(zip(paths, pieces, strict=True))):
        unfinished = path.with_suffix(".partial")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for member in members:
                archive.write(member, member.relative_to(folder))
        os.replace(unfinished, path)
    return paths


def measure_elsewhere(cohort: WantedCohort, out: Path, wanted: Path | None) -> subprocess.Popen[bytes]:
    """Starts a process that scores a packed cohort on the CPU; its rows become one more piece of the archive."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, __file__, str(out), "--score", cohort.name, "--entry", cohort.entry.name]
    command += ["--list", str(wanted)] if wanted else []
    log = (out / f"{cohort.name}.log").open("w")
    return subprocess.Popen(command, env={**os.environ, **one_thread, "JAX_PLATFORMS": "cpu"}, stdout=log, stderr=log)


def score(out: Path, name: str, wanted: Path | None, entry_name: str) -> None:
    """Scores the codes of an archive, in this process, and adds a piece with the rows."""
    from sober.evaluation.engine import Evaluation  # noqa: PLC0415
    from sober.results.folder import Folder  # noqa: PLC0415
    from sober.results.request import Measure  # noqa: PLC0415
    from wanted import read_wanted  # noqa: PLC0415

    entry = next(entry for entry in read_wanted(wanted) if entry.name == entry_name)
    archives, folder = out / "archives", out / "scoring" / name
    shutil.rmtree(folder, ignore_errors=True)
    for piece in sorted(archives.glob(f"{name}*.zip")):
        with zipfile.ZipFile(piece) as archive:
            archive.extractall(folder)
    before = {path.relative_to(folder) for path in folder.rglob("*")}
    opened_folder = Folder.open(folder)
    metrics = tuple(dict.fromkeys([*entry.metrics, *(entry.study.metrics or ())]))
    measure = Measure(None if "all" in metrics else metrics, entry.study.preset, pictures=PICTURES)
    Evaluation(opened_folder, measure, trains=False, strict=False).all()
    new = folder.with_name(f"{name}-scores")
    shutil.rmtree(new, ignore_errors=True)
    for path in folder.rglob("*"):
        place = path.relative_to(folder)
        is_wanted = place not in before or place.name in ("columns.json", "request.json")
        if path.is_file() and is_wanted and place.parts[0] not in {"claims", "progress", "codes"}:
            (new / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, new / place)
    zipped(new, archives, f"{name}.scores")
    shutil.rmtree(folder)
    shutil.rmtree(new)


def run(out: Path, minutes: float, wanted: Path | None, names: Sequence[str], measure: bool) -> None:
    """Trains cohort after cohort until the time is used up."""
    log, rates = Log(), Rates()
    deadline = log.began + 60 * minutes
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(out.absolute() / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    import jax  # noqa: PLC0415

    from sober.training.progress import Stopped  # noqa: PLC0415

    log(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
    queue = list(wanted_cohorts(wanted, names, archived_runs(out)))
    log(f"{len(queue)} cohorts, {sum(len(cohort.runs) for cohort in queue):,} models wanted")
    stopped = False
    finishing: list[Future[subprocess.Popen[bytes] | None]] = []
    with ThreadPoolExecutor(1) as ahead, ThreadPoolExecutor(1) as after:
        try:
            for trained in trained_in_time(queue, rates, deadline, out, log, ahead):
                finishing.append(after.submit(finish, trained, out, wanted, measure, log))
        except Stopped as reason:
            stopped = True
            log(str(reason))
        wait_for(finishing, deadline, log)
    log(
        f"first step after {log.first_step:.0f} s; models were trained {log.training:.0f} s of {log.seconds:.0f} s: "
        f"{log.training / log.seconds:.0%}"
    )
    if stopped:
        sys.exit(130)


def trained_in_time(
    queue: list[WantedCohort], rates: Rates, deadline: float, out: Path, log: Log, ahead: ThreadPoolExecutor
) -> Iterator[Trained]:
    """The cohorts that fit the time, each as soon as it is trained. The next one is compiled meanwhile."""
    coming: tuple[WantedCohort, Future[None]] | None = None
    while queue or coming:
        if coming is None:
            chosen = next_cohort(queue, rates, deadline - time.monotonic(), out)
            if chosen is None:
                log(f"no cohort fits the {max(0.0, deadline - time.monotonic()):.0f} s that are left")
                return
            coming = chosen, ahead.submit(compile_ahead, chosen)
        cohort, compiling = coming
        share = share_left(cohort, out)
        log(f"{cohort.name}: {len(cohort.runs)} models × {cohort.runs[0].steps:,} steps")
        compiling.result()
        left = deadline - time.monotonic() - rates.seconds(cohort, 1.0 if share is None else share)
        upcoming = next_cohort(queue, rates, left, out)
        coming = None if upcoming is None else (upcoming, ahead.submit(compile_ahead, upcoming))
        try:
            trained, seconds = train_cohort(cohort, out, log, deadline - judging_seconds(cohort))
        except TooSlowError as error:
            log(f"{cohort.name}: cannot end in time at {error}")
            rates.saw(cohort, sum(run.steps for run in cohort.runs) / error.rate)
            if share is None:  # begin again, with fewer seeds
                shutil.rmtree(out / "work" / cohort.name)
                queue.insert(0, cohort)
                if coming is not None:
                    queue.insert(1, coming[0])
                    coming = None
            continue
        if seconds and share is None:
            rates.saw(cohort, seconds)
            steps = sum(run.steps for run in cohort.runs)
            log(f"{cohort.name}: trained in {seconds:.0f} s, {steps / seconds:,.0f} model-steps/s")
        yield trained
        if coming is not None and rates.seconds(coming[0]) > deadline - time.monotonic():
            queue.insert(0, coming[0])  # perhaps fewer of its seeds fit
            coming = None


def wait_for(finishing: Sequence[Future[subprocess.Popen[bytes] | None]], deadline: float, log: Log) -> None:
    """Waits until all cohorts are packed, and until the deadline for the processes that measure them."""
    measuring = []
    for outcome in finishing:
        try:
            measuring.append(outcome.result())
        except Exception:  # the models of the others are worth having
            traceback.print_exc()
    for process in measuring:
        if process is not None:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log(f"process {process.pid} is still measuring: if it is killed, sober score measures the codes")


def next_cohort(queue: list[WantedCohort], rates: Rates, seconds_left: float, out: Path) -> WantedCohort | None:
    """Takes the first cohort that fits the time from the queue, with as many seeds as fit."""
    for place, cohort in enumerate(queue):
        smaller = fitting(cohort, rates, seconds_left, out)
        if smaller is not None:
            del queue[place]
            return smaller
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for archives, and for what a stopped training needs to go on")
    parser.add_argument("--minutes", type=float, default=25.0, help="how long it may take")
    parser.add_argument("--entry", action="append", default=[], help="an entry of the list; may be repeated")
    parser.add_argument("--list", type=Path, help="a list of wanted results in place of results/wanted.toml")
    parser.add_argument("--measure", action="store_true", help="score packed cohorts meanwhile, on the other cores")
    parser.add_argument("--score", metavar="COHORT", help=argparse.SUPPRESS)  # what --measure starts
    arguments = parser.parse_args()
    if arguments.score:
        score(arguments.out, arguments.score, arguments.list, arguments.entry[0])
    else:
        run(arguments.out, arguments.minutes, arguments.list, arguments.entry, arguments.measure)


if __name__ == "__main__":
    main()
