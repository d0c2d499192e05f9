"""Views of a world: what is left, how it is drawn, what its codes say of it."""

from __future__ import annotations

import importlib

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from families import BLOCKS, StopAt, assert_same_model, small_runs
from sober.errors import RequestError
from sober.metrics import score
from sober.models.grid import grid
from sober.requests.study.study import Absent, planned_world
from sober.requests.train import train
from sober.training.feed import Feed
from sober.training.progress import Stopped
from sober.types import Adam, Codes, Factor, WorldSpec
from sober.worlds import Grid, World, from_array, world
from sober.worlds.published import published_world
from sober.worlds.stored_world import StoredWorld
from sober.worlds.views import VIEWS, Hide, Joint, Keep, View, Without, view
from sober.worlds.views.distributions import joint

EVERY_VIEW = [
    "blocks | hide block_2",
    "blocks | hide block_2 block_4 | part train 0.8",
    "blocks | keep block_2=5",
    "blocks | keep block_2=5 | hide block_4",
    "blocks | joint block_1 block_2 D",
    "blocks | keep block_2 block_4 block_1=3",
    "blocks | without block_1 > 0.5 and block_2 < block_3",
    "blocks | only block_1 == 0 or not block_2 < 1",
    "blocks | part train 0.8",
    "blocks | part test 0.8 | without block_4 == 1",
]
# The module; `sober.worlds.world` is also a function.
base = importlib.import_module("sober.worlds.world")
every_view = pytest.mark.parametrize("spec", EVERY_VIEW)


names = [factor.name for factor in BLOCKS.factors]


def whole_classes(opened: World, index: np.ndarray) -> np.ndarray:
    """The classes of all blocks in pictures of a view, by following it down to the world."""
    if isinstance(opened, Keep):
        return whole_classes(opened.view, index)
    if not isinstance(opened, View):
        return opened.labels(index)
    return whole_classes(opened.base, index if opened.indices is None else opened.indices[index])


@every_view
def test_a_view_is_a_world_that_shows_the_pictures_of_another(spec: str) -> None:
    opened = world(spec)
    assert opened.spec == opened.label == spec or isinstance(opened, Joint)
    index = np.linspace(0, opened.size - 1, 50).astype(int)
    sample = opened.sample(1, 50)
    assert opened.render(index).shape == (50, 16, 16, 1)
    assert opened.labels(index).shape == sample.factors.shape == (50, len(opened.factors))
    with pytest.raises(RequestError, match="index out of range"):
        opened.render(np.array([opened.size]))

    index = np.asarray(opened.index(jax.random.split(jax.random.key(1))[0], 50))
    classes = whole_classes(opened, index)  # of all four blocks
    np.testing.assert_array_equal(sample.factors, classes[:, [names.index(factor.name) for factor in opened.factors]])
    assert isinstance(BLOCKS, Grid)
    np.testing.assert_array_equal(sample.images, BLOCKS.render(BLOCKS.index_of(classes)))
    batch = jax.jit(opened.draw, static_argnums=2)(opened.data, jax.random.key(1), 50)
    np.testing.assert_array_equal(np.round(255 * np.asarray(batch)), sample.images)


@pytest.mark.parametrize("name", ["A", "B", "C", "D"])
def test_two_factors_are_drawn_by_the_table_and_the_others_uniformly(name: str) -> None:
    opened = world(f"blocks | joint block_3 block_1 {name}")
    classes = opened.labels(np.asarray(opened.index(jax.random.key(0), 200_000)))
    counts = np.zeros((8, 8))
    np.add.at(counts, (classes[:, 2], classes[:, 0]), 1)
    assert chisquare(counts.ravel(), 200_000 * joint(name, 8, 8).ravel()).pvalue > 1e-3
    for column in (1, 3):
        assert chisquare(np.bincount(classes[:, column], minlength=8)).pvalue > 1e-3
    assert ("dependent_factors" in opened.flags) == (name in "CD")


@settings(max_examples=25, deadline=None)
@given(table=st.lists(st.lists(st.integers(0, 3), min_size=8, max_size=8), min_size=8, max_size=8))
def test_no_combination_is_drawn_that_the_table_forbids(table: list[list[int]]) -> None:
    weights = np.array(table)
    if not weights.sum():
        weights[3, 5] = 1
    opened = Joint(BLOCKS, ("block_1", "block_2"), weights)
    classes = opened.labels(np.asarray(opened.index(jax.random.key(0), 500)))
    assert (weights[classes[:, 0], classes[:, 1]] > 0).all()


def test_every_view_is_tested() -> None:
    assert {WorldSpec.parse(spec).view_names[0] for spec in EVERY_VIEW} == VIEWS.keys()


def test_a_table_of_ones_own_comes_from_a_file(tmp_path) -> None:
    rows = np.eye(8)
    np.savetxt(tmp_path / "table.csv", rows, delimiter=",")
    opened = world(f"blocks | joint block_1 block_2 {tmp_path / 'table.csv'}")
    classes = opened.sample(0, 50).factors
    np.testing.assert_array_equal(classes[:, 0], classes[:, 1])
    assert opened.label == Joint(BLOCKS, ("block_1", "block_2"), 5 * rows).label
    assert str(tmp_path) in opened.spec
    assert str(tmp_path) not in opened.label


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("1,2\n3\n", "not a table of numbers"),
        ("1,one\n", "not a table of numbers"),
        ("1,2\n3,4\n", r"8 x 8 numbers from 0, got shape \(2, 2\)"),
    ],
)
def test_a_file_that_is_no_table_of_the_right_size_is_refused(tmp_path, text: str, says: str) -> None:
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(RequestError, match=says):
        world(f"blocks | joint block_1 block_2 {tmp_path / 'table.csv'}")


def test_factors_that_are_not_kept_stay_at_their_class() -> None:
    opened = world("blocks | keep block_4 block_2 block_1=7")
    assert [factor.name for factor in opened.factors] == ["block_4", "block_2"]
    assert opened.size == 64
    assert isinstance(opened, Grid)
    np.testing.assert_array_equal(opened.classes(np.arange(9))[:, 1], [*range(8), 0])
    assert isinstance(BLOCKS, Grid)
    np.testing.assert_array_equal(opened.render(11), BLOCKS.render(BLOCKS.index_of(np.array([[7, 3, 0, 1]])))[0])
    varied = opened.vary(0, 0, 4)
    assert varied is not None
    assert (varied[1:] != varied[:-1]).any(axis=(1, 2, 3)).all()


def test_keep_with_a_class_alone_lets_all_other_factors_vary() -> None:
    fixed, spelled = world("blocks | keep block_3=6"), world("blocks | keep block_1 block_2 block_4 block_3=6")
    assert [factor.name for factor in fixed.factors] == ["block_1", "block_2", "block_4"]
    assert fixed.size == 512
    np.testing.assert_array_equal(fixed.render(np.arange(512)), spelled.render(np.arange(512)))


def test_what_is_hidden_varies_and_has_no_label() -> None:
    opened = world("blocks | hide block_2")
    assert isinstance(BLOCKS, Grid)
    assert [factor.name for factor in opened.factors] == ["block_1", "block_3", "block_4"]
    everything = opened.everything()
    np.testing.assert_array_equal(everything, np.arange(4096))  # every picture, in the order of the world
    np.testing.assert_array_equal(opened.render(everything), BLOCKS.render(everything))
    np.testing.assert_array_equal(opened.labels(everything), BLOCKS.labels(everything)[:, [0, 2, 3]])
    varied = opened.vary(100, 1, 8)
    assert varied is not None
    classes = np.tile(BLOCKS.classes(np.array([100])), (8, 1))
    classes[:, 2] = np.arange(8)
    np.testing.assert_array_equal(varied, BLOCKS.render(BLOCKS.index_of(classes)))


def test_rows_that_share_a_value_differ_in_what_is_hidden() -> None:
    """A latent that holds what is hidden names no factor; beside a latent for each factor, scores are full."""
    opened = world("blocks | hide block_2")
    everything = opened.everything()
    factors, hidden = opened.labels(everything), BLOCKS.labels(everything)[:, 1]
    assert [len(set(hidden[factors[:, 0] == value])) for value in range(8)] == [8] * 8
    means = np.column_stack([factors, hidden]).astype(float)
    codes = Codes(means, np.full_like(means, -9.0), factors, opened.factors, opened.flags)
    scores = score(codes, metrics=["factor_vae", "beta_vae", "mig"])
    assert min(scores.values()) > 0.99
    of_hidden = Codes(means[:, [3]], None, factors, opened.factors)
    assert score(of_hidden, metrics=["mig"])["mig"] == pytest.approx(0, abs=1e-9)
    assert score(of_hidden, metrics=["factor_vae"])["factor_vae"] == pytest.approx(1 / 3, abs=0.05)


def test_hide_goes_with_other_views_in_any_order() -> None:
    first, last = (
        world(f"blocks | {text}") for text in ("hide block_2 | keep block_4=1", "keep block_4=1 | hide block_2")
    )
    for opened in (first, last):
        assert [factor.name for factor in opened.factors] == ["block_1", "block_3"]
        assert opened.size == 512
    pictures = [{image.tobytes() for image in opened.render(np.arange(512))} for opened in (first, last)]
    assert pictures[0] == pictures[1]
    part = world("blocks | hide block_2 | without block_1 > 0.5")
    assert part.size == BLOCKS.size // 2
    assert part.labels(np.arange(9)).shape == (9, 3)
    with pytest.raises(RequestError, match="'block_2' in the condition"):
        world("blocks | hide block_2 | only block_2 > 0.5")
    fixed = world("blocks | hide block_2 | keep block_2=3")
    assert {tuple(row) for row in whole_classes(fixed, np.arange(512))[:, [1]]} == {(3,)}


@pytest.mark.parametrize("text", ["hide block_2 | joint block_3 block_1 D", "joint block_3 block_1 D | hide block_2"])
def test_factors_are_drawn_together_beside_one_that_is_hidden(text: str) -> None:
    opened = world(f"blocks | {text}")
    index = np.asarray(opened.index(jax.random.key(0), 200_000))
    labels, classes = opened.labels(index), whole_classes(opened, index)
    np.testing.assert_array_equal(labels, classes[:, [0, 2, 3]])
    counts = np.zeros((8, 8))
    np.add.at(counts, (classes[:, 2], classes[:, 0]), 1)
    assert chisquare(counts.ravel(), 200_000 * joint("D", 8, 8).ravel()).pvalue > 1e-3
    assert chisquare(np.bincount(classes[:, 1], minlength=8)).pvalue > 1e-3
    assert "dependent_factors" in opened.flags
    assert len(opened.everything()) == 100_000  # a draw stands for the world, not the grid


def test_continuous_factors_can_be_hidden() -> None:
    opened, whole = world("teapots | hide azimuth"), world("teapots")
    assert isinstance(opened, Hide)
    index = np.array([3, 77, 1234])
    np.testing.assert_array_equal(opened.labels(index), whole.labels(index)[:, 1:])
    np.testing.assert_array_equal(opened.index(jax.random.key(0), 5), whole.index(jax.random.key(0), 5))


def test_the_gap_of_the_teapots_has_a_name() -> None:
    named, spelled = (
        world(f"teapots | without {region}")
        for region in ("gap", "red > green + 0.15 and red > blue + 0.15 and elevation > pi / 4")
    )
    inside = world("teapots | only gap")
    index = np.arange(100)
    np.testing.assert_array_equal(named.labels(index), spelled.labels(index))
    assert named.size == spelled.size == 200_000 - inside.size
    _, elevation, red, green, blue = inside.labels(np.arange(inside.size)).T
    assert ((red > green + 0.15) & (red > blue + 0.15) & (elevation > np.pi / 4)).all()


# Worlds whose files are not here: what is wrong with a view is said all the same.
WRONG_WITHOUT_FILES = [
    ("faces3d | turn left", "unknown view 'turn'"),
    ("faces3d | keep lighting=11", "classes 0 to 10"),
    ("faces3d | hide nose", "no factor 'nose'"),
    ("faces3d | keep lighting=5 | joint azimuth lighting A", "no factor 'lighting'"),
    ("celeba | only Smilin == 'yes'", "'Smilin' in the condition"),
    ("celeba | only Smiling == 'yes' | hide nose", "no factor 'nose'"),
    ("comp_cars | joint make model A", "full grid"),
]


@pytest.fixture
def no_files(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SOBER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SOBER_DATA", raising=False)
    monkeypatch.setattr(published_world, "_download", lambda *_: pytest.fail("went to the net"))


@pytest.mark.usefixtures("no_files")
@pytest.mark.parametrize(("spec", "message"), WRONG_WITHOUT_FILES)
def test_a_plan_says_what_is_wrong_with_a_view_of_a_world_without_its_files(spec: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        planned_world(spec)


@pytest.mark.usefixtures("no_files")
@pytest.mark.parametrize(
    "spec",
    [
        *(f"faces3d | hide identity | keep lighting=5 | joint azimuth elevation {letter}" for letter in "ABCD"),
        "celeba | only Smiling == 'yes' | hide Male | part train 0.5",
        "small_norb | hide lighting | without azimuth > 3",
    ],
)
def test_a_plan_knows_a_view_of_a_world_without_its_files(spec: str) -> None:
    absent = planned_world(spec)
    assert isinstance(absent, Absent)
    assert absent.label == spec
    assert absent.why.startswith(spec.partition(" ")[0] + " needs")


def test_the_zero_shot_gap_of_eastwood_and_williams_is_left_out_and_kept_apart() -> None:
    gap = "red > green + 0.15 and red > blue + 0.15 and elevation > pi / 4"
    opened = world(f"teapots | without {gap}")
    assert isinstance(opened, Without)
    _, elevation, red, green, blue = opened.labels(np.arange(opened.size)).T
    assert not ((red > green + 0.15) & (red > blue + 0.15) & (elevation > np.pi / 4)).any()
    held = opened.held_out
    assert held.size + opened.size == opened.base.size
    expected = opened.base.size * 0.85**3 / 3 / 2  # two colours below red - 0.15, and half of the elevations
    assert abs(held.size - expected) < 4 * np.sqrt(expected)
    assert world(held.spec).size == held.size
    assert opened.flags == ("held_out",)


def test_a_class_has_a_name() -> None:
    assert set(world('dsprites | only shape == "heart"').labels(np.arange(1000))[:, 0]) == {2}
    assert world("dsprites | keep x y shape=ellipse").size == 1024


def test_train_and_test_are_apart_and_together_all() -> None:
    train_part, test_part = (world(f"blocks | part {name} 0.75") for name in ("train", "test"))
    rows = [set(map(tuple, part.labels(np.arange(part.size)))) for part in (train_part, test_part)]
    assert len(rows[0]) == 3072
    assert len(rows[0] | rows[1]) == 4096
    share = np.mean([row[0] for row in rows[1]])
    assert 3 < share < 4  # at random, not the last rows


WRONG = [
    ("blocks | turn left", "unknown view 'turn'"),
    ("blocks | joint block_1 D", "joint takes two factors"),
    ("blocks | joint block_1 nose D", "no factor 'nose'"),
    ("blocks | joint block_1 block_1 D", "different factors"),
    ("blocks | joint block_1 block_2 missing.csv", "missing.csv is not a table of numbers"),
    ("blocks | joint block_1 block_2 E", "E is not a table of numbers .*, nor A, B, C, D"),
    ("teapots | joint red green D", "3 values or more|full grid"),
    ("blocks | keep", "keep needs the names"),
    ("blocks | keep block_1 block_1=2", "not both"),
    ("teapots | keep red=1", "full grid"),
    ("blocks | keep block_1=1 block_2=1 block_3=1 block_4=1", "no factor is left"),
    ("blocks | joint block_1 block_2 D | part train 0.8", "not equally likely"),
    ("blocks | hide", "hide needs the names"),
    ("blocks | hide nose", "no factor 'nose'"),
    ("blocks | hide block_1 block_2 block_3 block_4", "not of all"),
    ("teapots | without hole", "name the region gap"),
    ("blocks | keep block_1 block_2=9", "classes 0 to 7"),
    ("dsprites | keep x shape=moon", "square"),
    ("cars3d | keep azimuth object=183", "classes 0 to 182, got '183'"),
    ("dsprites | without shape == 'moon'", "has no class 'moon', .*: choose one of ellipse, heart, square"),
    ("dsprites | without 'moon' != shape", "has no class 'moon'"),
    ("dsprites | without shape == 1", "has no class 1, .*: choose one of ellipse, heart, square"),
    ("dsprites | without scale == 'heart'", "factor scale is a number, got 'heart'"),
    ("teapots | only red == 'yes'", "factor red is a number"),
    ("faces3d | without identity == 'someone'", "factor identity is a number"),
    ("celeba | without Male == 'maybe'", "has no class 'maybe', .*: choose one of no, yes"),
    ("blocks | without block_1 >", "cannot be read"),
    ("blocks | without __import__('os')", "not understood"),
    ("blocks | without block_1.size > 0", "not understood"),
    ("blocks | without [block_1]", "not understood"),
    ("blocks | without block_1", "not true or false"),
    ("blocks | without 1 < 2", "not true or false"),
    ("blocks | without block_1 >= 0", "no picture is left"),
    ("blocks | only block_1 > 7", "no picture is left"),
    ("blocks | part middle 0.5", "train or test"),
    ("blocks | part train 1.5", "between 0 and 1"),
    ("blocks | part train", "cannot be read"),
]


@pytest.mark.parametrize(("spec", "message"), WRONG)
def test_what_cannot_be_viewed_says_why(spec: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        world(spec)


def test_codes_of_a_family_are_of_the_view_it_was_trained_on(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("sober.worlds.views.joint.SAMPLE", 3000)
    opened = world("blocks | joint block_1 block_2 D")
    runs = grid(opened, "beta_vae", {}, seeds=1, steps=20, latents=3, batch=16, optimiser=Adam(1e-3))
    family = train(runs, opened, tmp_path / "family")
    ((_, codes),) = family.encode()
    assert len(codes.mean) == 3000
    assert np.corrcoef(codes.factors[:, :2].T)[0, 1] > 0.2
    assert "dependent_factors" in score(codes, metrics=["mig"]).flags["mig"]
    with pytest.raises(RequestError, match="holds a training with world"):
        train(small_runs(seeds=1), BLOCKS, tmp_path / "family")


def test_a_factor_is_measured_on_the_rows_that_know_it_and_flagged() -> None:
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (500, 2)).astype(float)
    about = (Factor("a", 4), Factor("b", 4))
    codes = rng.normal(size=(500, 3)) + factors[:, :1]
    with_gaps = factors.copy()
    with_gaps[::5, 0] = np.nan
    known = np.isfinite(with_gaps[:, 0])
    ours = score(Codes(codes, None, with_gaps, about), metrics=["mig", "dci"])
    theirs = score(Codes(codes[known], None, factors[known], about), metrics=["mig", "dci"])
    for metric, part in (("mig", "mig_per_factor"), ("dci", "informativeness_per_factor")):
        assert ours.parts[metric][part][0] == theirs.parts[metric][part][0]
    assert ours.known == {"a": 400, "b": 500}
    assert "missing_labels" in ours.flags["mig"]
    assert "missing_labels" not in theirs.flags["mig"]
    with pytest.raises(RequestError, match="no label is known in any row"):
        score(Codes(codes, None, np.full((500, 2), np.nan), about), metrics=["mig"])


@pytest.fixture
def in_shards(monkeypatch) -> World:
    """A world that does not fit: shards of 40 pictures, for 30 steps each. Its pictures show their index."""
    monkeypatch.setattr(base, "SHARD_BYTES", 40 * 256)
    monkeypatch.setattr(base, "SHARD_STEPS", 30)
    monkeypatch.setattr(StoredWorld, "resident", False)
    images = np.random.default_rng(0).integers(0, 255, (500, 16, 16, 1), dtype=np.uint8)
    images[:, 0, 0, 0], images[:, 0, 1, 0] = np.arange(500) % 256, np.arange(500) // 256
    return from_array(images)


def shown(images: np.ndarray) -> np.ndarray:
    return images[:, 0, 0, 0].astype(int) + 256 * images[:, 0, 1, 0].astype(int)


def test_a_world_that_does_not_fit_is_rendered_and_drawn_in_shards(in_shards: World) -> None:
    index = np.array([499, 0, 7, 7, 300])
    np.testing.assert_array_equal(shown(in_shards.render(index)), index)
    data, end = in_shards.shard(0)
    assert data.shape == (40, 16, 16, 1)
    assert end == 30
    np.testing.assert_array_equal(data, in_shards.shard(29)[0])
    batches = [np.round(255 * np.asarray(in_shards.draw(data, jax.random.key(seed), 64))) for seed in range(8)]
    assert set(shown(np.concatenate(batches))) == set(shown(np.asarray(data)))  # all of the shard, and nothing else
    seen = {each for step in range(0, 3000, 30) for each in shown(np.asarray(in_shards.shard(step)[0]))}
    assert len(seen) > 0.99 * 500


def test_views_of_a_world_that_does_not_fit_draw_from_what_is_left(in_shards: World) -> None:
    part = view(in_shards, "part train 0.5")
    data, _ = part.shard(0)
    pictures = np.round(255 * np.asarray(part.draw(data, jax.random.key(0), 64)))
    assert isinstance(part, View)
    assert part.indices is not None
    assert set(shown(pictures)) <= set(part.indices)
    np.testing.assert_array_equal(shown(part.render(np.array([3, 1]))), part.indices[[3, 1]])


def test_the_feed_fetches_the_next_shard_and_knows_how_long_it_waited(in_shards: World) -> None:
    feed = Feed(in_shards)
    for step in (0, 10, 29, 30, 61, 90):
        data, end = feed.at(step, 100)
        assert end == min(30 * (step // 30 + 1), 120)
        np.testing.assert_array_equal(data, in_shards.shard(step)[0])
    assert feed.waited > 0
    whole = Feed(world("blocks"))
    assert whole.at(0, 100) == (world("blocks").data, 100)


def test_training_in_shards_resumes_bit_for_bit(in_shards: World, tmp_path) -> None:
    runs = grid(in_shards, "beta_vae", {}, seeds=2, steps=100, latents=3, batch=16, optimiser=Adam(1e-3))
    whole = train(runs, in_shards, tmp_path / "whole")
    with pytest.raises(Stopped):
        train(runs, in_shards, tmp_path / "parts", watcher=StopAt(41))
    parts = train(runs, in_shards, tmp_path / "parts")
    for run in runs:
        assert_same_model((whole, run), (parts, run))
