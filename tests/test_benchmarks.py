"""What benchmarks compute beside measuring: the bytes of a training step; and that they run the program of users."""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sober.training.train as training
from sober.models.grid import grid
from sober.nets import NETS
from sober.nets.kernels.verdicts import SHIPPED
from sober.training.cohort import Program, fastest_program
from sober.worlds import world

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[Callable[[str], ModuleType]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module


@pytest.fixture(scope="module")
def floor(benchmarks: Callable[[str], ModuleType]) -> ModuleType:
    return benchmarks("floor")


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_every_result_and_every_weight_is_counted(floor: ModuleType, precision: str) -> None:
    batch, latents, pixels = 5, 3, 16 * 16
    encoder, decoder = (pixels, 64, 64, 2 * latents), (latents, 64, 64, pixels)
    results = pixels + sum(encoder[1:]) + sum(decoder[1:])
    weights = sum((i + 1) * o for widths in (encoder, decoder) for i, o in itertools.pairwise(widths))
    size = 2 if precision == "bfloat16" else 4
    moved = floor.step_bytes(NETS["small"], (16, 16, 1), latents, batch, precision)
    assert moved == 5 * batch * results * size + 10 * weights * 4


def test_the_nets_of_the_papers_move_as_much_as_counted_by_hand(floor: ModuleType) -> None:
    grids = 32 * 32 * 32 + 16 * 16 * 32 + 8 * 8 * 64 + 4 * 4 * 64  # the encoder's; the decoder's are the same
    results = 2 * (64 * 64 + grids) + 256 + 20 + 256
    weights = 764_245
    assert floor.step_bytes(NETS["conv"], (64, 64, 1), 10, 64) == 5 * 64 * results * 2 + 10 * weights * 4


# ---------------------------------------------------------------- the program of users


def trained_programs() -> dict[str, set[str]]:
    """What each benchmark imports from the module of compiled training programs."""
    imported: dict[str, set[str]] = {}
    for path in (ROOT / "benchmarks").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "sober.training.cohort":
                imported.setdefault(path.stem, set()).update(alias.name for alias in node.names)
    return imported


def test_only_one_file_of_the_benchmarks_chooses_programs_to_train_with() -> None:
    imported = trained_programs()
    assert "fastest_program" in imported.pop("family_steps")
    assert "likely_program" in imported.pop("launches")  # compiles only
    assert imported == {"train": {"program", "signature"}, "everything_on_a_gpu": {"inputs_of_nets"}}  # train nothing


@pytest.mark.parametrize("name", ["train", "methods", "worlds", "cpu_gpu_variants", "reasoning"])
def test_benchmarks_of_training_share_the_steps_of_families(name: str, benchmarks: Callable[[str], ModuleType]) -> None:
    assert benchmarks(name).FamilySteps is benchmarks("family_steps").FamilySteps


def test_families_ask_the_function_that_training_asks(
    benchmarks: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    family_steps = benchmarks("family_steps")
    assert family_steps.fastest_program is training.fastest_program is fastest_program
    asked = []

    def asked_program(*arguments: Any) -> Any:
        asked.append(arguments[1:])
        return fastest_program(*arguments)

    monkeypatch.setattr(family_steps, "fastest_program", asked_program)
    blocks = world("blocks")
    runs = grid(blocks, "beta_vae", {}, seeds=2)
    family = family_steps.FamilySteps(blocks, runs)
    family(2)
    assert asked == [(runs[0], 2)]
    assert int(family.carry.step) == 3
    assert isinstance(family.program, Program)
    family_steps.FamilySteps(blocks, runs, plain=True)
    assert len(asked) == 1


# ---------------------------------------------------------------- everything on a GPU, and launches


def test_the_tables_of_a_gpu_have_a_row_for_each_family_and_say_what_is_missing(
    benchmarks: Callable[[str], ModuleType],
) -> None:
    everything = benchmarks("everything_on_a_gpu")
    rows = everything.families(everything.FULL)
    assert [row.models for row in rows if row.table == "β-VAE"] == [1, 8, 16, 30, 64, 256]
    assert {"colour", "batch 128", "nets dava", "32 × 32 × 1", "128 × 128 × 1"} <= {row.name for row in rows}
    measured = [
        {"name": row.name, "table": row.table, "models": row.models, "kernels": ["up"], "chosen": [3000.0, 2e3, 4e3]}
        for row in rows
    ]
    measured[1] |= {"plain": [1500.0, 1e3, 2e3]}
    measured[2] = {"name": "x", "table": "β-VAE", "models": 16, "error": "no memory"}
    seconds = {"imported": 1.0, "first step": 4.0}
    figures = {
        "parts": {"first step, empty cache": {"result": {"seconds": seconds}}, "rates 1": {"result": measured}},
        "left out": ["profile, 1 models"],
        "seconds": 500,
    }
    text = "\n".join(everything.tables(figures))
    assert "Left out for want of time: profile, 1 models." in text
    assert "| empty cache  | 1.0 |  |  | 4.0 |  |" in text
    assert "| β-VAE | 8 | 3,000 (2,000 to 4,000) | 1,500 (1,000 to 2,000) | 2.00 | up |" in text
    assert "| x | 16 | no memory |" in text
    assert text.count("3,000 (2,000 to 4,000)") == len(rows) - 1


def test_a_part_after_the_deadline_is_left_out_and_an_error_ends_only_its_part(
    benchmarks: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    report = benchmarks("everything_on_a_gpu").Report(tmp_path, minutes=1)
    report.part("late", 61, lambda: 1)
    report.part("wrong", 1, lambda: 1 / 0)
    report.part("right", 1, lambda: [])
    assert report.figures["left out"] == ["late"]
    assert "ZeroDivisionError" in report.figures["parts"]["wrong"]["result"]["error"]
    assert (tmp_path / "figures.json").exists()


def test_verdicts_of_a_run_join_those_that_come_with_sober(
    benchmarks: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    everything, shipped = benchmarks("everything_on_a_gpu"), SHIPPED.read_text()
    assert everything.verdicts_to_ship(tmp_path) == shipped
    record = json.loads(shipped)[0]
    newer = {"case": record["case"], "verdict": record["verdict"] | {"kernels_us": 1.0}}
    other = {"case": record["case"] | {"dtype": "float16"}, "verdict": record["verdict"]}
    refused = {"case": record["case"] | {"dtype": "int8"}, "verdict": record["verdict"] | {"use": False}}
    for number, measured in enumerate((newer, other, refused)):
        (tmp_path / f"{number}.json").write_text(json.dumps(measured))
    joined = json.loads(everything.verdicts_to_ship(tmp_path))
    assert len(joined) == len(json.loads(shipped)) + 1
    assert newer in joined
    assert other in joined


LOOP = """
%step (x: f32[8]) -> f32[8] {
  %x.1 = f32[8]{0} parameter(0)
  %wrapped_convert = bf16[8]{0} fusion(%x.1), kind=kLoop, metadata={op_name="jit(f)/while/body/convert_element_type"}
  %call.1 = (bf16[8]{0}, f32[8]{0}) custom-call(%x.1), custom_call_target="__gpu$xla.gpu.triton"
  %gemm_fusion_dot.1 = bf16[8]{0} fusion(%x.1), metadata={op_name="jit(f)/while/body/dot_general"}
  %input_reduce_fusion = f32[] fusion(%x.1), metadata={op_name="jit(f)/while/body/vmap()/reduce_sum"}
  %input_reduce_fusion.1 = f32[] fusion(%x.1), metadata={op_name="jit(f)/while/body/vmap(transpose(jvp()))/reduce_sum"}
  ROOT %loop_select_fusion = f32[8]{0} fusion(%x.1), metadata={op_name="jit(f)/while/body/jit(_where)/select_n"}
}

ENTRY %main (x: f32[8]) -> f32[8] {
  ROOT %while.1 = f32[8]{0} while(%x), condition=%more, body=%step
}
"""


def test_launches_of_a_loop_are_counted_by_group() -> None:
    code = f"import launches; print(dict(launches.launches({LOOP!r})))"
    done = subprocess.run(  # in a process of its own: the module sets variables before it imports JAX
        [sys.executable, "-c", code], cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True
    )
    counts = ast.literal_eval(done.stdout)
    assert counts == {"casts": 1, "kernels": 1, "products": 1, "norm": 1, "bias sums": 1, "Adam": 1}
