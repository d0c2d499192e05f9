"""Kernels give what the plain layers give, values and gradients of all orders; and they are used only where they have
proved it. A CPU interprets them here, in float32."""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sober.models.grid import grid
from sober.models.model import blank
from sober.nets.kernel_runs import cases_of
from sober.nets.kernels import (
    Case,
    Verdict,
    comparison,
    down,
    plain,
    trial,
    trial_verdict,
    trial_verdicts,
    unmet_here,
    unmet_requirement,
    up,
    verdicts,
)
from sober.nets.kernels.check import CheckBeside, KernelFaultError
from sober.nets.kernels.launch import CROSSING, FEW, MANY, Launch, launch_table, settings
from sober.nets.kernels.layout import Grids, KernelLayout
from sober.nets.kernels.stacks import over_models
from sober.nets.layers import Conv, Deconv
from sober.worlds import world

KERNELS = {"down": functools.partial(down, interpret=True), "up": functools.partial(up, interpret=True)}
PLAIN = {"down": plain.down, "up": plain.up}

both = pytest.mark.parametrize("kind", ["down", "up"])


def normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def shapes(kind: str, widths: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Of the weights and biases that the layers have between grids of these channels, in order."""
    layer = {"down": Conv, "up": Deconv}[kind]
    make = lambda i, o: jax.eval_shape(lambda: layer(jax.random.key(0), i, o))  # noqa: E731
    made = [make(i, o) for i, o in itertools.pairwise(widths)]
    return [(leaf.weight.shape, leaf.bias.shape) for leaf in made]


def made(kind: str, widths: tuple[int, ...], *models: int, seed: int = 0) -> Any:
    """Random layers."""
    return tuple(
        (normal(seed + k, *models, *weight) / weight[0] ** 0.5, normal(seed + 50 + k, *models, *bias))
        for k, (weight, bias) in enumerate(shapes(kind, widths))
    )


def setting(kind: str, batch: int, side: int, channels: int, grids: tuple[int, ...], *models: int) -> Any:
    """Inputs and layers; grids are fine to coarse."""
    if kind == "down":
        return normal(90, *models, batch, side, side, channels), made(kind, (channels, *grids), *models)
    small = side >> len(grids)
    return normal(90, *models, batch, small, small, grids[-1]), made(kind, (*grids[::-1], channels), *models)


def alike(ours: Any, theirs: Any) -> None:
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        assert float(jnp.linalg.norm(x - y)) <= 1e-5 * float(jnp.linalg.norm(y))


def loss(stack: Callable, x: jax.Array, layers: Any) -> jax.Array:
    """Not symmetric, not linear, and no difference of large numbers."""
    y = stack(x, layers)
    return jnp.sum((1.5 + np.sin(np.arange(y.size))).reshape(y.shape) * y**2)


def gradients(stack: Callable, x: jax.Array, layers: Any) -> Any:
    return jax.value_and_grad(functools.partial(loss, stack), argnums=(0, 1))(x, layers)


# 16 rows and padding; channels of pictures whose taps are no power of two; more tiles than one, the last not full; and
# the shape for which two kernels do the work of three.
CASES = [(5, 32, 1, (8, 8, 16, 16)), (20, 16, 3, (16, 8)), (100, 8, 1, (8, 8)), (40, 8, 1, (32, 32))]


@both
@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients_are_those_of_the_plain_layers(kind: str, case: Any) -> None:
    x, layers = setting(kind, *case)
    ours, theirs = (gradients(stack[kind], x, layers) for stack in (KERNELS, PLAIN))
    alike(ours, theirs)
    # Where nobody asks for the gradient of the input, other kernels make those of the layers.
    alike(jax.grad(functools.partial(loss, KERNELS[kind], x))(layers), theirs[1][1])


@both
@pytest.mark.parametrize("shared", [True, False])
def test_models_side_by_side(kind: str, shared: bool) -> None:
    x, layers = setting(kind, 5, 8, 1, (8, 8), 3)
    x, axes = (x[0], (None, 0)) if shared else (x, (0, 0))
    ours, theirs = (jax.vmap(functools.partial(gradients, stack[kind]), axes)(x, layers) for stack in (KERNELS, PLAIN))
    alike(ours, theirs)


def test_a_gradient_of_pictures_that_all_models_see_is_summed_over_them() -> None:
    x, layers = setting("down", 5, 8, 1, (8, 8), 3)

    def total(stack: Callable, x: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(functools.partial(loss, stack, x))(layers))

    alike(*(jax.grad(functools.partial(total, stack["down"]))(x[0]) for stack in (KERNELS, PLAIN)))


def test_models_in_a_table() -> None:
    """One `vmap` inside of another, over layers and over pictures."""
    x, layers = setting("down", 5, 8, 1, (8, 8), 3)

    def table(stack: Callable) -> Any:
        rows = jax.vmap(functools.partial(gradients, stack), (None, 0))
        return jax.vmap(rows, (0, None))(x[:2], layers)

    alike(table(KERNELS["down"]), table(PLAIN["down"]))


@both
def test_second_derivatives(kind: str) -> None:
    x, layers = setting(kind, 5, 8, 1, (8, 8))

    def steepness(stack: Callable, x: jax.Array, layers: Any) -> jax.Array:
        first = jax.grad(functools.partial(loss, stack), argnums=(0, 1))(x, layers)
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(first))

    twice = [jax.grad(functools.partial(steepness, stack[kind]), argnums=(0, 1)) for stack in (KERNELS, PLAIN)]
    alike(*(derivative(x, layers) for derivative in twice))


def test_second_derivatives_of_layers_where_pictures_are_data() -> None:
    x, layers = setting("down", 5, 8, 1, (8, 8))

    def steepness(stack: Callable, layers: Any) -> jax.Array:
        first = jax.grad(functools.partial(loss, stack, x))(layers)
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(first))

    alike(*(jax.grad(functools.partial(steepness, stack["down"]))(layers) for stack in (KERNELS, PLAIN)))


def test_gradients_are_in_the_type_of_what_they_are_of() -> None:
    x, layers = setting("down", 5, 8, 1, (8, 8))
    y, (back, of_layers) = jax.eval_shape(
        lambda x: (KERNELS["down"](x, layers), jax.grad(lambda *a: KERNELS["down"](*a).sum(), (0, 1))(x, layers)),
        x.astype(jnp.bfloat16),
    )
    assert {y.dtype, back.dtype} == {jnp.dtype(jnp.bfloat16)}
    assert {leaf.dtype for leaf in jax.tree.leaves(of_layers)} == {jnp.dtype(jnp.float32)}


def test_the_number_of_models_is_told_through_any_vmap() -> None:
    told = []

    def f(models: int, x: jax.Array, y: jax.Array) -> jax.Array:
        told.append(models)
        return x + y

    x, y = jnp.arange(3.0), jnp.arange(4.0)
    out = jax.vmap(jax.vmap(over_models(f), (None, 0)), (0, None))(x, y)
    assert told[-1] == 12
    np.testing.assert_array_equal(out, x[:, None] + y)


@pytest.mark.parametrize("kernel", sorted({kernel for kernel, _ in MANY}))
def test_both_tables_give_the_same(kernel: str) -> None:
    from sober.nets.kernels import thin, wide  # noqa: PLC0415

    thinly = kernel.startswith("thin")
    grids = Grids(4, 4, 16, 1 if thinly or kernel == "first_layers_back" else 8, 8)
    sides = {"fine": normal(0, grids.fine), "coarse": normal(1, grids.coarse), "act": normal(2, grids.coarse)}
    weight, bias = normal(3, 16 if thinly else 32, 8 if thinly else 32), normal(4, 8)
    if kernel == "first_layers_back":
        grids = grids._replace(a=8)
        arguments = [normal(0, 16 * 16 * 16), sides["coarse"], normal(3, 32, 32), normal(2, grids.fine)]
    else:
        arguments = {
            "down": [sides["fine"], weight, bias],
            "down_back": [sides["fine"], weight, sides["act"]],
            "up": [sides["coarse"], weight, bias],
            "up_back": [sides["coarse"], weight, normal(2, grids.fine)],
            "weight_gradient": [sides["fine"], sides["coarse"]],
            "thin_down": [sides["fine"], weight, bias],
            "thin_up": [sides["coarse"], weight.T, normal(4, 1)],
            "thin_back": [sides["fine"], sides["act"], weight.T],
            "thin_input_gradient": [sides["fine"], sides["act"], weight.T],
            "thin_weight_gradient": [sides["fine"], sides["coarse"]],
        }[kernel]
    call = getattr(thin, kernel, None) or getattr(wide, kernel)
    more = {"blocks_first": True} if kernel == "weight_gradient" else {}
    launches = {settings(kernel, grids, models, 1) for models in (1, CROSSING)}
    launches.add(settings(kernel, grids, 1, 1)._replace(parts=2, bands=1, columns=16))
    first, *others = [call(*arguments, grids, launch, True, **more) for launch in sorted(launches)]
    for other in others:
        alike(other, first)


def test_settings_are_the_measured_ones_at_the_shape_that_was_measured() -> None:
    plan = KernelLayout("down", 64, (64, 64, 1), (32, 32, 64, 64))
    for models, table in ((1, FEW), (16, FEW), (32, MANY), (256, MANY)):
        for grids in plan.grids:
            rows = {kernel: launch for (kernel, height), launch in table.items() if height == grids.h}
            assert rows
            assert rows == {kernel: settings(kernel, grids, models, 1) for kernel in rows}


def test_a_batch_of_several_tiles_counts_as_so_many_models() -> None:
    grids = Grids(8, 8, 64, 32, 64)
    assert settings("up", grids, 8, 4) == MANY["up", 8] != settings("up", grids, 8, 1) == FEW["up", 8]


def test_settings_stay_within_grids_and_memory() -> None:
    assert settings("down", Grids(2, 2, 16, 64, 64), 256, 1) == Launch(pixels=2)
    assert settings("up", Grids(2, 2, 64, 64, 64), 1, 1).parts == 9
    assert settings("thin_up", Grids(32, 32, 64, 3, 64), 256, 1) == Launch(bands=1, stages=2)


REFUSED = [
    ("down", (64, 64, 1), (32, 32, 64, 64), jnp.float32, "bfloat16, not in float32"),
    ("down", (64, 48, 1), (32, 32, 64, 64), jnp.bfloat16, "not 64 x 48"),
    ("up", (8, 8, 1), (64, 64, 32, 32), jnp.bfloat16, "16 at least"),
    ("up", (64, 64, 1), (256, 128, 128, 64), jnp.bfloat16, "not of 256, 128, 128, 64"),
    ("down", (64, 64, 5), (32, 32, 64, 64), jnp.bfloat16, "pictures of 5 channels"),
    ("up", (64, 64, 4), (64, 64, 32, 16), jnp.bfloat16, "to a grid of 16"),
    ("down", (64, 64, 1), (32,), jnp.bfloat16, "two layers"),
]


@pytest.mark.parametrize(("kind", "shape", "channels", "dtype", "says"), REFUSED)
def test_why_kernels_do_not_apply(kind: Any, shape: Any, channels: Any, dtype: Any, says: str) -> None:
    assert says in (unmet_requirement(kind, shape, channels, dtype) or "")


@pytest.mark.parametrize("picture", [(64, 64, 1), (64, 64, 3), (32, 32, 1), (32, 64, 3)])
def test_where_kernels_apply(picture: Any) -> None:
    assert unmet_requirement("down", picture, (32, 32, 64, 64), jnp.bfloat16) is None
    assert unmet_requirement("up", picture, (64, 64, 32, 32), "bfloat16") is None
    assert unmet_requirement("up", picture, (64, 64, 64, 64), jnp.bfloat16) is None


def test_there_are_none_for_a_cpu() -> None:
    assert "cpu" in (unmet_here() or "")
    verdict = trial_verdict("down", (64, 64, 64, 1), shapes("down", (1, 32, 32, 64, 64)), jnp.bfloat16, 8)
    assert verdict == Verdict(False, unmet_here() or "")


def test_pallas_is_imported_only_where_a_kernel_is_asked_for() -> None:
    code = "import sys, sober.nets.kernels as k; k.unmet_here(); print('jax.experimental.pallas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# ---------------------------------------------------------------- trials

TRIED = ("down", (5, 8, 8, 1), shapes("down", (1, 8, 8)), jnp.float32, 2)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def slower(x: jax.Array, layers: Any) -> jax.Array:
    """Right, and never faster than the plain layers."""
    y = plain.down(x, layers)
    return y + 0 * jax.lax.fori_loop(0, 200, lambda _, z: jnp.sin(z) @ jnp.ones((8, 8)), y)


def wrong(x: jax.Array, layers: Any) -> jax.Array:
    return plain.down(x, layers) * 1.01


def not_a_number(x: jax.Array, layers: Any) -> jax.Array:
    return plain.down(x, layers) * jnp.nan


def not_compiled(x: jax.Array, layers: Any) -> jax.Array:
    raise NotImplementedError("no such instruction")


def slightly_wrong(x: jax.Array, layers: Any, factor: float = 1.003) -> jax.Array:
    """By less than bfloat16 rounds one number."""
    y = plain.rounded("down", x.astype(jnp.float32), layers, jnp.bfloat16)
    return (factor * y).astype(x.dtype)


INJECTED = [
    (wrong, "off by 1.0e-02"),
    (not_a_number, "off by nan"),
    (not_compiled, "no such instruction"),
    (slower, "not faster"),
]


@pytest.mark.parametrize(("stack", "says"), INJECTED)
def test_what_is_wrong_or_slow_is_not_used(cache: Path, stack: Any, says: str) -> None:
    verdict = trial_verdict(*TRIED, kernels=stack)
    assert not verdict.use
    assert says in verdict.why


def test_small_errors_show_in_bfloat16(cache: Path) -> None:
    kind, shape, layers, _, models = TRIED
    assert "1.0e-03 is allowed" in trial_verdict(kind, shape, layers, jnp.bfloat16, models, kernels=slightly_wrong).why
    right = functools.partial(slightly_wrong, factor=1.0)
    assert "kernels are right" in trial_verdict(kind, shape, layers, jnp.bfloat16, CROSSING, kernels=right).why


def test_interpreted_kernels_are_right_and_their_verdict_is_kept(cache: Path) -> None:
    first = trial_verdict(*TRIED, kernels=KERNELS["down"])
    assert "kernels are right" in first.why
    assert first.kernels_us > 0 < first.plain_us
    (path,) = cache.glob("*.json")
    assert json.loads(path.read_text())["verdict"]["why"] == first.why
    assert trial_verdict(*TRIED, kernels=not_compiled) == first  # nothing ran
    fewer = trial_verdict(*TRIED[:-1], CROSSING - 1, kernels=not_compiled)
    assert fewer == first  # models with the same launch settings need no other trial
    assert "no such instruction" in trial_verdict(*TRIED[:-1], CROSSING, kernels=not_compiled).why


@pytest.mark.parametrize("batch", [5, 64, 128, 300, 3000])
def test_a_trial_compares_models_with_the_launch_settings_that_its_verdict_is_for(batch: int) -> None:
    layers = shapes("down", (1, 32, 32))
    for models in (1, 2, CROSSING - 1, CROSSING, 256):
        case = Case.of("down", (batch, 64, 64, 1), layers, jnp.bfloat16, models)
        tiles = case.layout.tiles
        assert case.launches == launch_table(models, tiles) == launch_table(case.models, tiles)
        assert case.models <= 32


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"verdict": {"use": 1}}', '{"verdict": {"use": true, "why": "x"}}'])
def test_a_damaged_verdict_is_the_same_as_none(cache: Path, damage: str) -> None:
    trial_verdict(*TRIED, kernels=not_compiled)
    (path,) = cache.glob("*.json")
    path.write_text(damage)
    assert "off by" in trial_verdict(*TRIED, kernels=wrong).why
    assert "off by" in json.loads(path.read_text())["verdict"]["why"]


def test_a_trial_while_a_program_is_traced(cache: Path) -> None:
    seen = []

    @jax.jit
    def program(x: jax.Array) -> jax.Array:
        seen.append(trial_verdict(*TRIED, kernels=wrong))
        return x

    program(jnp.zeros(3))
    assert "off by" in seen[0].why


def test_a_verdict_that_cannot_be_kept_is_still_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "file"))
    assert "off by" in trial_verdict(*TRIED, kernels=wrong).why


def test_runs_of_layers_are_tried_together_after_the_callers_work(cache: Path) -> None:
    done = []

    def meanwhile() -> Callable[[], None]:
        done.append("begun")
        return lambda: done.append("waited")

    kinds = [Case.of(kind, shape, layers, jnp.float32, 2) for kind, shape, layers in (TRIED[:3], UP[:3])]
    found = trial_verdicts([*kinds, kinds[0]], kernels=wrong_up_or_down, meanwhile=meanwhile)
    assert done == ["begun", "waited"]
    assert ["1.0e-02" in verdict.why for verdict in found.verdicts] == [True] * 3
    assert trial_verdicts(kinds, kernels=not_compiled, meanwhile=meanwhile).verdicts == found.verdicts[:2]
    assert len(done) == 2  # without a trial there is nothing to wait for


UP = ("up", (5, 2, 2, 8), shapes("up", (8, 8, 1)), jnp.float32, 2)


def wrong_up_or_down(x: jax.Array, layers: Any) -> jax.Array:
    return (plain.up if x.shape[1] == 2 else plain.down)(x, layers) * 1.01


def test_a_trial_compiles_few_programs(cache: Path) -> None:
    names: list[str] = []

    def listen(event: str, seconds: float, **more: Any) -> None:
        if event.endswith("backend_compile_duration"):
            names.append(more["fun_name"])

    case = Case.of("down", (5, 8, 8, 1), shapes("down", (1, 8, 8)), jnp.float32, 3)
    comparison.compiler_options(), comparison.compiler_options("once")  # these try options once in a process
    jax.monitoring.register_event_duration_secs_listener(listen)
    trial_verdicts([case], kernels=plain.down)
    jax.monitoring.unregister_event_duration_listener(listen)
    assert len(names) <= 6  # kernels with and without the input's gradient, plain layers, samples, comparison, a key


# ---------------------------------------------------------------- verdicts that come with Sober


@pytest.fixture
def shipped_case(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """A case whose verdict comes with Sober, on a machine that meets all requirements."""
    case = Case.of(*TRIED)
    monkeypatch.setattr(verdicts, "_shipped", lambda: {verdicts.digest(case.identity()): PROVEN})
    monkeypatch.setattr(trial, "unmet_here", lambda: None)
    monkeypatch.setattr(Case, "unmet_requirement", lambda self: None)
    return case


PROVEN = Verdict(True, "kernels are right and faster: 1.0 µs against 2.0", 1.0, 2.0)


def replaced(monkeypatch: pytest.MonkeyPatch, stack: Callable) -> None:
    monkeypatch.setattr(trial, "STACKS", dict.fromkeys(("down", "up"), stack))


def test_a_verdict_that_comes_with_sober_needs_no_trial_and_is_checked_beside(
    shipped_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced(monkeypatch, KERNELS["down"])
    found = trial_verdicts([shipped_case], unchecked=True)
    assert found == ((PROVEN,), (shipped_case,))
    check = CheckBeside(found.unchecked)
    check.require_right()  # has not begun, so there is no fault yet
    check.start()
    check.require_right(wait=True)
    assert verdicts.kept_verdict(shipped_case) == PROVEN
    assert trial_verdicts([shipped_case], unchecked=True) == ((PROVEN,), ())


def test_a_fault_beside_training_is_an_error_and_the_next_start_has_plain_layers(
    shipped_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced(monkeypatch, wrong)
    check = CheckBeside(trial_verdicts([shipped_case], unchecked=True).unchecked)
    with pytest.raises(KernelFaultError, match=r"off by 1\.0e-02.*plain layers will compute"):
        check.require_right(wait=True)
    (verdict,), unchecked = trial_verdicts([shipped_case], unchecked=True)
    assert not verdict.use
    assert not unchecked


def test_callers_that_do_not_check_get_checked_verdicts(shipped_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced(monkeypatch, wrong)
    (verdict,), unchecked = trial_verdicts([shipped_case])
    assert "off by 1.0e-02" in verdict.why
    assert not unchecked


def test_nothing_to_check_is_right() -> None:
    CheckBeside(()).require_right(wait=True)


def test_shipped_verdicts_are_of_these_kernels() -> None:
    """After a change of the kernels' code: a higher `VERSION`, or proof that they compute and run the same."""
    for record in json.loads(verdicts.SHIPPED.read_text()):
        identity = record["case"]
        assert identity["kernels"] == verdicts.VERSION
        assert record["verdict"]["use"]
        assert {*Verdict(**record["verdict"]).__dict__} == {*record["verdict"]}
        layers = tuple((tuple(weight), tuple(bias)) for weight, bias in identity["layers"])
        case = Case(identity["kind"], tuple(identity["shape"]), layers, identity["dtype"], identity["launches"])
        assert case.unmet_requirement() is None
        assert {**case.identity(), "device": identity["device"], "jax": identity["jax"]} == identity
    assert kernel_code() == "8d32b14e", "kernels have changed: raise VERSION, or check them again on a GPU"


@pytest.mark.parametrize("models", [1, 8, 64, 256])
def test_the_usual_family_needs_no_trial_on_an_h200(models: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """β-VAEs on dSprites with their usual nets and batch, as somebody's first training on such a GPU."""
    monkeypatch.setattr(verdicts, "device_kind", lambda: "NVIDIA H200")
    monkeypatch.setattr(verdicts.jax, "__version__", "0.11.2")
    encoder, decoder = blank(grid(world("dsprites"), "beta_vae", {"beta": 1.0}, seeds=1)[0], (64, 64, 1)).nets
    cases = list(cases_of([(encoder, (64, 64, 64, 1)), (decoder, (64, 10))], jnp.bfloat16, models))
    assert [case.kind for case in cases] == ["down", "up"]
    assert all(verdicts.shipped_verdict(case) is not None for case in cases)


def kernel_code() -> str:
    """Eight digits of the kernels' code without its docstrings and comments."""
    files = ("launch", "layout", "passes", "stacks", "thin", "tiles", "wide")
    trees = [ast.parse((verdicts.SHIPPED.parent / f"{name}.py").read_text()) for name in files]
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value.value = ""
    return hashlib.sha256("".join(map(ast.unparse, trees)).encode()).hexdigest()[:8]
