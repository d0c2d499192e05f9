"""Which layers of a net kernels compute at once, what comes out of it, and what people are told."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sober.methods.method import elbo_terms
from sober.nets import NETS, Compute, autoencoder, kernel_runs, kernels
from sober.nets.kernel_runs import KernelRun, choose_kernels, split_runs
from sober.nets.kernels import Verdict, Verdicts
from sober.nets.norms import InstanceNorm

BOTH: kernel_runs.Kernels = frozenset({"down", "up"})
SHAPE = (16, 16, 1)


def abstract(name: str) -> Any:
    return jax.eval_shape(lambda key: autoencoder(key, NETS[name], SHAPE, 3), jax.random.key(0))


def lengths(net: Any) -> list[tuple[str, int]]:
    return [(part.kind, len(part.convolutions)) for part in split_runs(net.layers, BOTH) if isinstance(part, KernelRun)]


@pytest.mark.parametrize("name", NETS)
def test_the_convolutions_of_nets_without_norms_are_one_run_each_way(name: str) -> None:
    model = abstract(name)
    has = name in ("conv", "dava")
    assert lengths(model.encoder) == ([("down", 4)] if has else [])
    assert lengths(model.decoder) == ([("up", 4)] if has else [])


def test_a_norm_ends_a_run_and_layers_keep_their_order() -> None:
    judge = functools.partial(NETS["conv"].judge, shape=SHAPE, outputs=1)
    bare, normed = (
        jax.eval_shape(lambda key, n=norm: judge(key, norm=n), jax.random.key(0)) for norm in (None, InstanceNorm)
    )
    assert lengths(bare) == [("down", 4)]
    assert lengths(normed) == []
    for net in (bare, normed):
        assert list(split_runs(net.layers, frozenset())) == list(net.layers)
        assert sum(part.layers if isinstance(part, KernelRun) else 1 for part in split_runs(net.layers, BOTH)) == len(
            net.layers
        )


def test_models_compute_and_learn_the_same_by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("down", "up"):
        monkeypatch.setattr(kernel_runs, name, functools.partial(getattr(kernels, name), interpret=True))
    rng = np.random.default_rng(0)
    model = jax.tree.map(lambda leaf: 0.1 * rng.normal(size=leaf.shape).astype(np.float32), abstract("conv"))
    images = rng.random((16, *SHAPE), np.float32)

    def loss(model: Any, compute: Compute) -> jax.Array:
        elbo = elbo_terms(model, images, jax.random.key(1), compute)
        assert len(elbo.statistics.encoder) == len(model.encoder.layers)
        return elbo.terms["reconstruction"] + elbo.terms["kl"]

    results = [
        jax.jit(jax.value_and_grad(functools.partial(loss, compute=Compute(jnp.float32, kernels_))))
        for kernels_ in (frozenset(), BOTH)
    ]
    plain, fast = (jax.tree.leaves(result(model)) for result in results)
    for a, b in zip(plain, fast, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * np.abs(a).max())


def inputs(name: str) -> list[tuple[Any, tuple[int, ...]]]:
    return list(zip(abstract(name).nets, ((8, *SHAPE), (8, 3)), strict=True))


def test_on_a_cpu_plain_layers_compute_and_it_says_why() -> None:
    chosen = choose_kernels(inputs("conv"), "bfloat16", 4)
    assert chosen.kernels == frozenset()
    assert chosen.reason == "convolutions by plain layers: kernels are for a GPU, and JAX computes on the cpu here"


def test_of_nets_without_convolutions_nothing_is_said() -> None:
    assert choose_kernels(inputs("small"), "bfloat16", 4) == (frozenset(), "", ())


@pytest.mark.parametrize("right", [("down", "up"), ("up",)])
def test_those_kernels_are_used_that_are_right_and_faster(
    right: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def tried(cases: Any, **options: Any) -> Verdicts:
        tries.extend((case.kind, case.shape, len(case.layers), case.dtype, case.launches) for case in cases)
        return Verdicts(tuple(Verdict(case.kind in right, f"{case.kind} was tried") for case in cases))

    monkeypatch.setattr(kernel_runs, "trial_verdicts", tried)
    chosen = choose_kernels(inputs("conv"), "bfloat16", 7)
    assert tries == [("down", (8, 16, 16, 1), 4, "bfloat16", "few"), ("up", (8, 1, 1, 64), 4, "bfloat16", "few")]
    assert chosen.kernels == frozenset(right)
    words = {
        2: "convolutions by kernels: down was tried; up was tried",
        1: "transposed convolutions by kernels: up was tried",
    }
    assert words[len(right)] in chosen.reason
    assert ("plain layers: down was tried" in chosen.reason) == ("down" not in right)
