"""What holds for every pair of nets in the registry, and the sizes the papers give."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sober.errors import RequestError, UnknownError
from sober.nets import NETS, Autoencoder, Compute, autoencoder, default_nets, find_nets
from sober.nets.graph import Build, channels_first
from sober.nets.layers import LEAKY_RELU, leaky_relu, relu
from sober.nets.net import Net

SHAPES = [(64, 64, 1), (64, 64, 3), (32, 48, 2), (16, 16, 1)]
every_net = pytest.mark.parametrize("name", NETS)


def abstract(name: str, shape: tuple[int, int, int], latents: int = 10) -> Any:
    """An autoencoder of shapes without numbers: made at once, whatever its size."""
    return jax.eval_shape(lambda key: autoencoder(key, NETS[name], shape, latents), jax.random.key(0))


@functools.cache
def maker(name: str) -> Callable[[jax.Array], Autoencoder]:
    return jax.jit(lambda key: autoencoder(key, NETS[name], (16, 16, 1), 3))


@functools.cache
def small(name: str) -> Autoencoder:
    return maker(name)(jax.random.key(0))


def numbers(tree: Any) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def sizes(net: Net) -> list[int]:
    """Of the layers that have any numbers."""
    return [size for size in map(numbers, net.layers) if size]


@every_net
def test_nets_say_what_they_are(name: str) -> None:
    assert NETS[name].name == name
    assert NETS[name].summary
    assert NETS[name].reference
    assert find_nets(name) is NETS[name]


def test_nets_that_nobody_has_are_unknown() -> None:
    with pytest.raises(UnknownError, match=r"unknown nets 'huge': choose one of .*small"):
        find_nets("huge")


def test_pictures_get_the_nets_that_are_meant_for_their_size() -> None:
    sides = {(64, 64, 3): "conv", (32, 48, 1): "conv", (31, 64, 1): "small", (64, 16, 1): "small", (1, 1, 1): "small"}
    assert {shape: default_nets(shape) for shape in sides} == sides


def test_costs_are_in_steps_of_the_nets_that_large_pictures_get() -> None:
    assert NETS[default_nets((64, 64, 1))].cost == (1, 1)


@every_net
def test_work_goes_with_the_cost_of_the_device_and_the_pixels(name: str) -> None:
    nets = NETS[name]
    assert min(nets.cost) > 0
    assert [nets.work(device, (64, 64, 1)) for device in ("cpu", "gpu")] == list(nets.cost)
    assert nets.work("gpu", (32, 64, 3)) == nets.cost.gpu / 2


@every_net
def test_nets_that_cost_more_have_more_to_compute(name: str) -> None:
    """Weights times the places where each is used: a cost far from that would be a slip."""
    conv = multiplications("conv")
    assert 0.1 < multiplications(name) / conv / NETS[name].cost.cpu < 10


def multiplications(name: str) -> int:
    """Of one picture of 64 x 64, encoded and decoded, as the nets describe themselves."""
    shape, latents = (64, 64, 1), 10
    # Zeros that take no memory stand for the weights.
    zeros = jax.tree.map(lambda leaf: np.broadcast_to(np.float32(0), leaf.shape), abstract(name, shape, latents))
    to_codes, from_codes = Build("pictures", channels_first(shape)), Build("codes", (latents,))
    layers, last = zeros.encoder.all_but_last()
    to_codes.linear("out", layers.describe(to_codes, "", to_codes.input), last)
    zeros.decoder.describe(from_codes, "", from_codes.input)
    total = 0
    for build in (to_codes, from_codes):
        for layer in build.layers.values():
            if layer.op in ("linear", "conv", "deconv"):
                fine = layer if layer.op == "conv" else build.layers[layer.inputs[0]]  # where a kernel is applied
                places = math.prod(fine.shape[1:]) if layer.op != "linear" else 1
                total += math.prod(build.arrays[f"{layer.name}.weight"].shape) * places
    return total


@every_net
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_codes_and_logits_have_their_shapes_in_float32_whatever_the_nets_compute_in(
    name: str, shape: tuple[int, int, int], dtype: Any
) -> None:
    model = abstract(name, shape, latents=7)
    images, codes = jnp.zeros((5, *shape)), jnp.zeros((5, 7))
    mean, logvar = jax.eval_shape(lambda model: model.encode(images, Compute(dtype)), model)
    logits = jax.eval_shape(lambda model: model.decode(codes, Compute(dtype)), model)
    assert mean.shape == logvar.shape == (5, 7)
    assert logits.shape == (5, *shape)
    assert mean.dtype == logvar.dtype == logits.dtype == jnp.float32
    # The nets themselves compute in the type asked for.
    assert jax.eval_shape(lambda model: model.encoder(images.astype(dtype)), model).dtype == dtype
    assert jax.eval_shape(lambda model: model.decoder(codes.astype(dtype)), model).dtype == dtype


@every_net
@pytest.mark.parametrize("shape", [(28, 27, 1), (64, 40, 1), (40, 64, 3)], ids=str)
def test_nets_take_pictures_whose_sides_they_can_divide_and_refuse_others(
    name: str, shape: tuple[int, int, int]
) -> None:
    sides = NETS[name].sides
    if shape[0] % sides or shape[1] % sides:
        with pytest.raises(RequestError, match=f"divisible by {sides}, got {shape[0]} x {shape[1]}"):
            abstract(name, shape)
        return
    model = abstract(name, shape)
    assert jax.eval_shape(lambda model: model.decode(jnp.zeros((5, 10))), model).shape == (5, *shape)


def test_conv_has_the_layers_of_the_sober_look_study() -> None:
    model = abstract("conv", (64, 64, 1))
    encoder = [
        (4 * 4 * 1) * 32 + 32,  # to 32 x 32
        (4 * 4 * 32) * 32 + 32,  # to 16 x 16
        (4 * 4 * 32) * 64 + 64,  # to 8 x 8
        (4 * 4 * 64) * 64 + 64,  # to 4 x 4
        (4 * 4 * 64) * 256 + 256,
        256 * (2 * 10) + 2 * 10,
    ]
    decoder = [
        10 * 256 + 256,
        256 * (4 * 4 * 64) + 4 * 4 * 64,
        (4 * 4 * 64) * 64 + 64,
        (4 * 4 * 64) * 32 + 32,
        (4 * 4 * 32) * 32 + 32,
        (4 * 4 * 32) * 1 + 1,
    ]
    assert sizes(model.encoder) == encoder
    assert sizes(model.decoder) == decoder
    assert numbers(model) == sum(encoder) + sum(decoder)


def test_dava_has_the_layers_of_its_paper() -> None:
    model, conv = abstract("dava", (64, 64, 3)), abstract("conv", (64, 64, 3))
    assert [leaf.shape for leaf in jax.tree.leaves(model.encoder)] == [
        leaf.shape for leaf in jax.tree.leaves(conv.encoder)
    ]
    decoder = [
        10 * 256 + 256,
        256 * (4 * 4 * 64) + 4 * 4 * 64,
        *[(4 * 4 * 64) * 64 + 64] * 3,
        (4 * 4 * 64) * 3 + 3,
    ]
    assert sizes(model.decoder) == decoder


@pytest.mark.parametrize(
    ("name", "channels", "widths"),
    [
        ("conv_bn", 1, (32, 32, 64, 64)),
        ("conv_bn_leaky", 1, (32, 32, 64, 64)),
        ("conv_bn_wide", 3, (64, 128, 128, 256)),
    ],
)
def test_batch_norm_nets_have_the_layers_of_chen_et_al(name: str, channels: int, widths: tuple[int, ...]) -> None:
    model = abstract(name, (64, 64, channels))
    down = (channels, *widths)
    encoder = sum(16 * i * o + o + 4 * o for i, o in zip(down, widths, strict=False))  # with scale, offset, statistics
    encoder += 16 * widths[-1] * 512 + 512 + 4 * 512 + 512 * 20 + 20
    assert numbers(model.encoder) == encoder
    up = (*widths[::-1], channels)
    decoder = 10 * 512 + 512 + 4 * 512 + 512 * 16 * up[0] + 16 * up[0] + sum(4 * o for o in up[:-1])
    decoder += sum(16 * i * o + o for i, o in itertools.pairwise(up))
    assert numbers(model.decoder) == decoder


def test_the_nets_of_the_infogan_of_chen_et_al_have_leaky_relus_where_the_others_have_relus() -> None:
    """H.1: `LeakyReLU(0.2)` after every batch norm, in both nets."""
    leaky, plain = abstract("conv_bn_leaky", (64, 64, 1)), abstract("conv_bn", (64, 64, 1))
    for ours, theirs in zip(leaky.nets, plain.nets, strict=True):
        functions = [[getattr(layer, "function", None) for layer in net.layers] for net in (theirs, ours)]
        assert functions[0].count(relu) == 5
        assert functions[1] == [leaky_relu if function is relu else function for function in functions[0]]
    np.testing.assert_allclose(LEAKY_RELU(jnp.array([-5.0, 0.0, 2.0])), [-1.0, 0.0, 2.0])


def test_resnet_has_the_layers_of_eastwood_and_williams() -> None:
    model = abstract("resnet", (64, 64, 3))
    widths = (64, 128, 256, 512, 512)
    assert model.encoder.layer("first").weight.shape == (9 * 3, 64)
    for n, (i, o) in enumerate(itertools.pairwise(widths)):
        block = model.encoder.layer(f"blocks.{n}")
        assert [block.main.layer(f"convs.{m}").weight.shape for m in (0, 1)] == [(9 * i, i), (9 * i, o)]
        assert ("around" in block.around.names) == (i != o)
    assert model.encoder.layer("out").weight.shape == (4 * 4 * 512, 20)
    assert model.decoder.layer("grid").weight.shape == (10, 4 * 4 * 8 * 64)
    for n, (i, o) in enumerate(itertools.pairwise(widths[::-1])):
        block = model.decoder.layer(f"blocks.{n}")
        assert [block.main.layer(f"convs.{m}").weight.shape for m in (0, 1)] == [(9 * i, o), (9 * o, o)]
    assert model.decoder.layer("last").weight.shape == (9 * 64, 3)


def test_dense_has_the_widths_of_the_papers() -> None:
    model = abstract("dense", (64, 64, 1))
    encoder, decoder = ([leaf.shape for leaf in jax.tree.leaves(net) if leaf.ndim > 1] for net in model.nets)
    assert encoder == [(4096, 1200), (1200, 1200), (1200, 20)]
    assert decoder == [(10, 1200), (1200, 1200), (1200, 1200), (1200, 4096)]


@every_net
def test_a_model_is_arrays_of_float32_that_differ_between_keys_and_layers(name: str) -> None:
    leaves = jax.tree.leaves(small(name))
    assert leaves
    for leaf in leaves:
        assert isinstance(leaf, jax.Array)
        assert leaf.dtype == jnp.float32

    # Numbers depend on the key alone.
    again, other = (jax.tree.leaves(maker(name)(jax.random.key(seed))) for seed in (0, 1))
    for a, b, c in zip(*(map(np.asarray, each) for each in (leaves, again, other)), strict=True):
        np.testing.assert_array_equal(a, b)
        if a.ndim > 1:  # every bias starts at zero
            assert np.mean(a != c) > 0.999  # of a million numbers a few agree by chance

    # Layers of one key would begin with the same numbers, each at its own scale.
    weights = [np.asarray(leaf) for leaf in leaves if leaf.ndim > 1]
    beginnings = {round(float(weight.flat[0] / weight.flat[1]), 3) for weight in weights}
    assert len(beginnings) == len(weights)


@every_net
def test_every_picture_of_a_batch_is_treated_alone(name: str) -> None:
    rng = np.random.default_rng(0)
    images, codes = rng.random((4, 16, 16, 1), np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    step = jax.jit(lambda model, images, codes: (*model.encode(images), model.decode(codes)))
    before = step(small(name), images, codes)
    after = step(small(name), np.concatenate([1 - images[:1], images[1:]]), np.concatenate([-codes[:1], codes[1:]]))
    for output, a, b in zip(("mean", "logvar", "logits"), map(np.asarray, before), map(np.asarray, after), strict=True):
        assert (a[0] == b[0]).all() == (NETS[name].one_spread and output == "logvar")
        np.testing.assert_array_equal(a[1:], b[1:])
