"""Models to codes: the whole grid or a sample, once, bounded in memory."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from families import BLOCKS, small_runs
from sober.cli.train import models_table
from sober.errors import RequestError
from sober.evaluation import picture_sheets
from sober.evaluation.families import only_family
from sober.evaluation.picture_sheets import traversals
from sober.models import encode as module
from sober.models.encode import PictureSample, codes_path, encode, read_codes, sample_of
from sober.models.family import Family
from sober.models.model import model_of
from sober.requests.train import train
from sober.types import Adam


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    # A pair and one alone, in programs that many tests train with.
    return only_family(train(small_runs(seeds=3), BLOCKS, tmp_path_factory.mktemp("family") / "blocks", cohort=2))


def test_the_whole_grid_is_what_each_model_says_of_each_picture(family):
    images = BLOCKS.render(np.arange(BLOCKS.size)) / np.float32(255)
    for run, codes in encode(family):
        mean, logvar = model_of(family.folder, run).encode(images)
        # Pictures as bytes lose at most half a grey level; here they were drawn exactly.
        np.testing.assert_allclose(codes.mean, mean, atol=2e-2)
        np.testing.assert_allclose(codes.logvar, logvar, atol=2e-2)
        np.testing.assert_array_equal(codes.factors, BLOCKS.classes(np.arange(BLOCKS.size)))
        assert codes.about == BLOCKS.factors


def test_a_sample_is_rows_of_the_grid_and_kept_apart(family):
    index = np.array([5, 4095, 0, 5])
    grid_codes = dict(_by_identity(encode(family)))
    for run, codes in encode(family, pictures=index):
        np.testing.assert_allclose(codes.mean, grid_codes[run.identity].mean[index], atol=1e-6)
        np.testing.assert_array_equal(codes.factors, grid_codes[run.identity].factors[index])
        assert codes_path(family, run, index) != codes_path(family, run)


# As on a GPU where JAX has no cache of compiled programs, which is where training keeps its own.
SETTINGS_OF_JAX = """
import os, sys
for name in [name for name in os.environ if name.startswith("JAX_")]:
    del os.environ[name]
import jax, numpy as np, sober
from pathlib import Path
from sober.models.encode import encode
from sober.models.family import Family
from sober.models.model import model_of
jax.default_backend = lambda: "gpu"
before = dict(jax.config.values)
folder = Path(sys.argv[1])
family = Family(folder, "blocks", tuple(sober.open(folder).runs))
for run, codes in encode(family, pictures=np.array([3, 1])):
    assert dict(jax.config.values) == before
    model_of(folder, run).encode(family.world.render(np.arange(2)))
assert dict(jax.config.values) == before
print("unchanged")
"""


def test_encoding_leaves_the_settings_of_jax_as_they_are(family, start):
    text = start(SETTINGS_OF_JAX, family.folder).communicate(timeout=120)[0]
    assert text.endswith("unchanged\n"), text


def _by_identity(pairs):
    return [(run.identity, codes) for run, codes in pairs]


def test_codes_are_computed_once(family, monkeypatch):
    first = _by_identity(encode(family))

    def computed(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(module, "encode_and_store", computed)
    for (name, ours), (again, theirs) in zip(first, _by_identity(encode(family)), strict=True):
        assert name == again
        np.testing.assert_array_equal(ours.mean, theirs.mean)


def test_models_are_taken_a_few_at_a_time_with_the_same_result(family, tmp_path, monkeypatch):
    at_once = _by_identity(encode(family))
    for path in (family.folder / "codes").iterdir():
        path.unlink()
    passes = []
    real = module.encode_and_store
    monkeypatch.setattr(module, "HOST_BYTES", 2 * BLOCKS.size * 3 * 8)

    def counting(family, runs, *rest):
        passes.append(len(runs))
        real(family, runs, *rest)

    monkeypatch.setattr(module, "encode_and_store", counting)
    for (_, ours), (_, theirs) in zip(at_once, _by_identity(encode(family)), strict=True):
        np.testing.assert_allclose(ours.mean, theirs.mean, atol=1e-6)
    assert passes == [2, 1]


def test_progress_reaches_the_total(family):
    for path in (family.folder / "codes").iterdir():
        path.unlink()
    index = np.arange(700)
    seen = []
    list(encode(family, pictures=index, progress=lambda done, total: seen.append((done, total))))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (3 * 700, 3 * 700)


@pytest.mark.parametrize("index", [[], [-1], [4096], [[1, 2]], [0.5]])
def test_a_wrong_index_is_refused(family, index):
    with pytest.raises(RequestError, match="index"):
        list(encode(family, pictures=np.array(index)))


def test_codes_of_another_run_or_damaged_codes_are_refused_by_name(family):
    run, other = family.runs[:2]
    list(encode(family))
    whole = codes_path(family, run).read_bytes()
    for wrong in (codes_path(family, other).read_bytes(), whole[:-5]):
        codes_path(family, run).write_bytes(wrong)
        with pytest.raises(RequestError, match=run.identity):
            read_codes(family, run)
    codes_path(family, run).write_bytes(whole)


def test_a_family_without_finished_models_says_how_to_go_on(tmp_path):
    family = Family(tmp_path / "new", BLOCKS.spec, tuple(small_runs()))
    with pytest.raises(RequestError, match="run the command that trains them again"):
        list(encode(family))


def test_a_diverged_model_is_listed_drawn_and_encoded_with_a_flag(tmp_path):
    runs = [*small_runs(seeds=1, steps=60), *small_runs(seeds=1, steps=60, optimiser=Adam(1e30))]
    results = train(runs, BLOCKS, tmp_path / "family")
    family = only_family(results)
    good, bad = encode(family, pictures=np.arange(8))
    assert good[1].flags == ()
    assert bad[1].flags[0] == "diverged"
    assert ("not_finite" in bad[1].flags) == (not np.isfinite(bad[1].mean).all())
    text = Console(width=200, file=io.StringIO())
    text.print(models_table(results))
    assert f"diverged at step {model_of(family.folder, bad[0]).diverged}" in text.file.getvalue()
    traversals([model_of(family.folder, run) for run in runs], BLOCKS, tmp_path / "both.png")


@pytest.mark.parametrize("models", [1, 2])
def test_no_word_in_a_picture_of_latents_is_cut_off(models, family, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(picture_sheets, "_save", lambda figure, path: figures.append(figure))
    traversals([model_of(family.folder, run) for run in family.runs[:models]], BLOCKS, tmp_path / "latents.png")
    (figure,) = figures
    page = figure.bbox
    texts = figure.axes[0].texts
    said = [text.get_text() for text in texts]
    assert {"original", "reconstruction"} <= set(said)
    assert any("Words name the factors" in text for text in said)
    for text in texts:
        place = text.get_window_extent()
        assert page.x0 <= place.x0 <= place.x1 <= page.x1, text.get_text()
        assert page.y0 <= place.y0 <= place.y1 <= page.y1, text.get_text()


def test_a_shorter_draw_is_the_beginning_of_a_longer_one_and_needs_no_other_pass(family, monkeypatch):
    for path in (family.folder / "codes").iterdir():
        path.unlink()
    assert sample_of(BLOCKS, 700) == PictureSample(700)
    assert sample_of(BLOCKS, BLOCKS.size) is None, "all there are"
    whole = dict(_by_identity(encode(family, pictures=PictureSample(700))))
    monkeypatch.setattr(module, "encode_and_store", lambda *_: pytest.fail("computed again"))
    for run, codes in encode(family, pictures=PictureSample(300)):
        np.testing.assert_array_equal(codes.mean, whole[run.identity].mean[:300])
        np.testing.assert_array_equal(codes.factors, whole[run.identity].factors[:300])
    with pytest.raises(pytest.fail.Exception):
        list(encode(family, pictures=PictureSample(300, seed=1)))


def test_a_draw_is_found_among_the_codes_of_every_picture(family, monkeypatch):
    for path in (family.folder / "codes").iterdir():
        path.unlink()
    whole = dict(_by_identity(encode(family)))
    monkeypatch.setattr(module, "encode_and_store", lambda *_: pytest.fail("computed again"))
    draw = PictureSample(300)
    for run, codes in encode(family, pictures=draw):
        np.testing.assert_array_equal(codes.mean, whole[run.identity].mean[draw.index(BLOCKS)])


def test_models_whose_trees_differ_are_encoded_side_by_side(tmp_path):
    """InfoGAN's encoder has one output more than a VAE's of the same nets and latents."""
    runs = [*small_runs("vae", seeds=1), *small_runs("info_gan", seeds=1)]
    family = only_family(train(runs, BLOCKS, tmp_path / "family"))
    images = BLOCKS.render(np.arange(8))
    for run, codes in encode(family, pictures=np.arange(8)):
        np.testing.assert_allclose(codes.mean, model_of(family.folder, run).encode(images)[0], atol=2e-2)
