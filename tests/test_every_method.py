"""What holds for every training method, by name from the registry: a new method is tested here without a new line."""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np
import pytest

from families import BLOCKS, EVERY_METHOD, assert_same_model, interrupted, small_runs, weights
from sober.errors import RequestError
from sober.methods import METHODS, find_method, structure
from sober.models.model import load
from sober.nets import NETS
from sober.requests.train import train
from sober.types import Adam

pytestmark = pytest.mark.parametrize("method", EVERY_METHOD)
TAKEN_BY_OTHERS = {method.step_of for method in METHODS.values()}


def test_the_registry_and_the_method_agree_on_its_name(method):
    assert METHODS[method].name == method
    assert METHODS[method].reference
    assert METHODS[method].summary
    assert find_method(method) is METHODS[method]
    assert METHODS[method].step_of in {None, *METHODS.keys() - {method}}
    assert all(hyper.help and hyper.check(hyper.default) == hyper.default for hyper in METHODS[method].hyper)


def test_it_improves_its_objective(method, tmp_path):
    runs = small_runs(method, steps=400, optimiser=Adam(3e-3))
    family = train(runs, BLOCKS, tmp_path)
    for run in runs:
        loss = family.model(run).curves[METHODS[method].objective]
        assert np.mean(loss[-10:]) < 0.8 * loss[0]


def test_resuming_twice_gives_bitwise_the_uninterrupted_run(method, tmp_path):
    runs = small_runs(method, steps=40)
    whole = train(runs, BLOCKS, tmp_path / "whole")
    parts = interrupted(runs, tmp_path / "parts", 7, 23)
    for run in runs:
        assert_same_model((whole, run), (parts, run))


def test_company_does_not_matter(method, tmp_path):
    """A model in a family (of 16 where its step is taken by several methods, else of 4), in one with a model that
    diverges, in a pair, and alone: in the programs that people run.

    On a CPU the size of a family changes no bit, for two models or more: each is a slice of the same batched products.
    Methods that say that their bits depend on the size are within rounding.

    One model alone is another program: its products are not batched, so they are summed in another order. That is a
    rounding error of 1e-7 a step. Where a gradient is nearly nothing it can change sign, and Adam, which divides by the
    gradient's size, makes of it a whole step: so a few models drift. After 100 steps half of the models are within 1e-4
    of their codes' spread, five of six within a tenth. Another seed ends as far away as codes are wide.
    """
    about = METHODS[method]
    size = 16 if method in TAKEN_BY_OTHERS else 4
    runs = small_runs(method, seeds=max(size, 8), steps=100)
    together = train(runs, BLOCKS, tmp_path / "family", cohort=size)
    if about.losses:  # else no learning rate can break it
        good = runs[: size - 1]
        _a_diverging_model_is_frozen_and_leaves_the_others_as_they_are(method, together, good, tmp_path / "bad")
    some = runs[:7]
    pairs = train(some[:6], BLOCKS, tmp_path / "pairs", cohort=2)
    if about.same_bits:
        for run in some[:6]:
            assert_same_model((together, run), (pairs, run))
    else:
        _within_rounding(together, pairs, some[:6])
    alone = train(some, BLOCKS, tmp_path / "alone", cohort=1)
    _within_rounding(together, alone, some)
    images = BLOCKS.sample(0, 256).images
    one, another = (together.model(run).encode(images)[0] for run in some[:2])
    assert np.max(np.abs(one - another)) > np.std(another)


def _within_rounding(together, other, runs):
    images = BLOCKS.sample(0, 256).images
    codes = np.stack([together.model(run).encode(images)[0] for run in runs])  # (M, N, D)
    apart = np.stack([other.model(run).encode(images)[0] for run in runs]) - codes
    drift = np.max(np.abs(apart), axis=(1, 2)) / np.std(codes, axis=(1, 2))
    assert np.median(drift) < 1e-4
    assert np.quantile(drift, 5 / 6) < 0.1
    assert np.max(drift) < 1


def _a_diverging_model_is_frozen_and_leaves_the_others_as_they_are(method, together, good, folder):
    bad = small_runs(method, seeds=1, steps=100, optimiser=Adam(1e30))
    with_bad = train([*good, *bad], BLOCKS, folder)
    for run in good:
        assert with_bad.model(run).diverged is None
        assert_same_model((with_bad, run), (together, run))
    broken = with_bad.model(bad[0])
    assert broken.diverged is not None
    assert 0 <= broken.diverged < 100  # 0 where the parts of a step follow each other
    assert all(np.isfinite(array).all() for array in weights(with_bad, bad[0]).values())
    assert np.isnan(broken.curves["loss"][-1])


def test_it_saves_and_loads(method, tmp_path):
    runs = small_runs(method)
    family = train(runs, BLOCKS, tmp_path)
    model = family.model(runs[0])
    model.save(tmp_path / "copy.safetensors")
    again = load(tmp_path / "copy.safetensors")
    assert again.run == runs[0]
    images = BLOCKS.sample(1, 9).images
    for ours, theirs in zip(model.encode(images), again.encode(images), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("small", [True, False])
def test_values_that_it_advises_are_values_that_it_takes(method, small):
    advised = METHODS[method].advised(small, 3000)
    for name, values in advised.items():
        assert len(set(values)) > 1
        assert all(METHODS[method].settings({name: value})[name] == value for value in values)


def test_models_of_one_structure_have_the_same_arrays_and_others_have_not(method):
    def arrays(run):
        of = functools.partial(METHODS[run.method].model, nets=NETS[run.nets], shape=(16, 16, 1), latents=run.latents)
        leaves, form = jax.tree.flatten(jax.eval_shape(of, jax.random.key(0)))
        return form, [leaf.shape for leaf in leaves]

    [ours] = small_runs(method, seeds=1)
    for other in EVERY_METHOD:
        [theirs] = small_runs(other, seeds=1)
        assert (structure(ours) == structure(theirs)) == (arrays(ours) == arrays(theirs))
    assert structure(ours) != structure(dataclasses.replace(ours, latents=ours.latents + 1))


def test_an_unknown_hyperparameter_is_refused_by_name(method):
    with pytest.raises(RequestError, match=r"no hyperparameter.*nonsense"):
        small_runs(method, {"nonsense": 1.0})
