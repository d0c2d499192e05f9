"""Abstract reasoning: the network against its formula, nets that can learn and nets that cannot, panels, the task."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sober
from families import BLOCKS, small_runs
from sober.device import seed_key
from sober.errors import RequestError
from sober.methods import structure
from sober.models.model import Model
from sober.nets import NETS
from sober.tasks import TASKS, Subjects
from sober.tasks.abstract_reasoning import _factors, _one_hots, reference
from sober.tasks.matrices import ANSWERS, CONTEXT
from sober.tasks.panels import Panels, lacking, panels_of
from sober.tasks.reasoners import (
    TEST,
    TRAINING,
    VALIDATION,
    QuestionBatches,
    question_batches,
    times_of,
    training_curves,
)
from sober.tasks.relation_network import Architecture, Design, RelationNetwork, drawn_design
from sober.types import Codes

TASK = TASKS["abstract_reasoning"]
DESIGN = Design(Architecture(2, 48, 1, 32), 0.0, 1e-2)
PANELS = panels_of(BLOCKS)
KEY = seed_key(0)


# The network.


def plainly(net: RelationNetwork, panels: np.ndarray, dropped: np.ndarray | float = 1.0) -> np.ndarray:
    """The formula, question by question, answer by answer, pair by pair."""
    weight = np.concatenate([net.first, net.second])

    def logit(nine: np.ndarray) -> float:
        nodes = np.concatenate([nine, np.eye(9)], axis=1)
        pairs = np.stack([np.concatenate(pair) for pair in itertools.product(nodes, repeat=2)])
        assert len(pairs) == 81
        x = np.maximum(pairs @ weight + net.bias, 0)
        for layer in net.edge:
            x = np.maximum(x @ layer.weight + layer.bias, 0)
        x = x.sum(axis=0)
        for layer in net.graph:
            x = np.maximum(x @ layer.weight + layer.bias, 0)
        return float((x * dropped) @ net.last)

    return np.array(
        [
            [logit(np.concatenate([each[:CONTEXT], each[CONTEXT + number][None]])) for number in range(ANSWERS)]
            for each in panels
        ]
    )


@pytest.mark.parametrize("architecture", [Architecture(2, 16, 1, 8), Architecture(4, 8, 2, 12)])
def test_shared_pairs_give_what_all_pairs_would(architecture: Architecture):
    net = RelationNetwork(jax.random.key(1), architecture, 5)
    net = jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), net)
    panels = np.random.default_rng(0).normal(size=(3, CONTEXT + ANSWERS, 5)).astype(np.float32)
    np.testing.assert_allclose(net(jnp.asarray(panels)), plainly(net, panels), rtol=2e-4, atol=2e-4)
    kept = np.arange(architecture.graph_units) % 2 * 2.0
    np.testing.assert_allclose(net(jnp.asarray(panels), kept), plainly(net, panels, kept), rtol=2e-4, atol=2e-4)


def test_the_order_of_answers_makes_no_difference_and_that_of_the_context_does():
    net = RelationNetwork(jax.random.key(0), Architecture(3, 16, 1, 8), 4)
    panels = jax.random.normal(jax.random.key(1), (2, CONTEXT + ANSWERS, 4))
    turned = jnp.concatenate([panels[:, :CONTEXT], panels[:, : CONTEXT - 1 : -1]], axis=1)
    np.testing.assert_allclose(net(turned), net(panels)[:, ::-1], rtol=1e-4, atol=1e-5)
    other = jnp.concatenate([panels[:, 1:CONTEXT], panels[:, :1], panels[:, CONTEXT:]], axis=1)
    assert not np.allclose(net(other), net(panels), rtol=1e-3)


def test_designs_are_drawn_from_the_lists_by_seed_and_number_alone():
    designs = [drawn_design(0, number) for number in range(400)]
    parts = [{getattr(design.architecture, name) for design in designs} for name in Architecture._fields]
    assert parts == [{2, 3, 4}, {256, 512}, {1, 2}, {128, 256}]
    assert {design.dropout for design in designs} == {0.0, 0.25, 0.5, 0.75}
    assert {design.rate for design in designs} == {1e-2, 1e-3, 1e-4}
    assert drawn_design(0, 3) == designs[3] != drawn_design(1, 3)
    assert drawn_design(0, 3, 0.125).architecture[1::2] == tuple(u // 8 for u in designs[3].architecture[1::2])


# What nets learn.


def questions(panels: Panels, steps: int, kind: str = "easy", seed: int = 0) -> tuple[QuestionBatches, QuestionBatches]:
    held_out = [question_batches(panels, kind, purpose, 10, 32, seed) for purpose in (VALIDATION, TEST)]  # type: ignore[arg-type]
    training = question_batches(panels, kind, TRAINING, steps, 32, seed)  # type: ignore[arg-type]
    return training, QuestionBatches(*map(np.concatenate, zip(*held_out, strict=True)))


def accuracy(tables: np.ndarray, steps: int = 240) -> np.ndarray:
    return training_curves(tables, DESIGN, *questions(PANELS, steps), key=KEY, report_done=lambda step: None).test


def test_nets_that_see_the_factors_learn_and_nets_that_see_nothing_guess():
    factors = np.pad(_factors(PANELS), ((0, 0), (0, 12)))  # as wide as one-hots, so that one program serves all
    noise = np.random.default_rng(0).normal(size=(2, *factors.shape)).astype(np.float32)
    nothing = np.zeros_like(factors)
    learned = accuracy(np.stack([_one_hots(PANELS), factors, nothing]))
    assert (learned[:2, -1] > 0.5).all(), "far above 1/6"
    assert (learned[:2, -1] > learned[:2, 0] + 0.1).all()
    # Codes that are the same for all answers leave nothing but their order, in which the first is chosen.
    assert learned[2] == pytest.approx(1 / 6, abs=5 * np.sqrt(5 / 36 / 320))
    # A code of noise is known by heart, picture by picture, at best: so early it is not known.
    assert accuracy(np.concatenate([noise, nothing[None]]), 60)[:2, -1] == pytest.approx(1 / 6, abs=0.11)


def test_a_net_that_looks_at_pictures_learns_too():
    design, blind = Design(Architecture(2, 64, 1, 64), 0.0, 1e-3), np.zeros((1, 1, 1), np.float32)
    asked_for = questions(PANELS, 300)
    curves = training_curves(blind, design, *asked_for, key=seed_key(1), report_done=lambda step: None, pictures=PANELS)
    seen = curves.test[0]
    assert seen[-1] > 0.3 > seen[0]


def test_company_does_not_matter():
    one_hot, factors = _one_hots(PANELS), np.pad(_factors(PANELS), ((0, 0), (0, 12)))
    together = accuracy(np.stack([one_hot, factors, -factors]), 60)
    other = accuracy(np.stack([factors, one_hot]), 60)
    alone = accuracy(one_hot[None], 60)
    np.testing.assert_array_equal(other, together[1::-1])
    np.testing.assert_array_equal(alone, together[:1])


def test_fewer_batches_are_the_beginning_of_more():
    short, long = (question_batches(PANELS, "hard", TRAINING, batches, 32, 3) for batches in (5, 1100))
    np.testing.assert_array_equal(short.panels, long.panels[:5])
    np.testing.assert_array_equal(short.right, long.right[:5])
    assert len(np.unique(long.panels.reshape(-1, 14), axis=0)) > 35_000, "parts are drawn by seeds of their own"
    assert (question_batches(PANELS, "hard", TEST, 5, 32, 3).panels != short.panels).any()


@pytest.mark.parametrize(("steps", "times"), [(6000, [1000, 2000, 3000, 4000, 5000, 6000]), (8, [2, 3, 4, 6, 7, 8])])
def test_accuracy_is_measured_after_each_sixth(steps: int, times: list[int]):
    assert times_of(steps).tolist() == times
    assert times_of(2).tolist() == [1, 2]


# The pictures of questions.


def test_each_picture_has_the_rounded_values_of_its_number():
    values = PANELS.values()
    assert PANELS.size == 4**4
    np.testing.assert_array_equal(PANELS.labels(PANELS.everything()), values * 2)  # 8 places, of which each second
    np.testing.assert_array_equal(PANELS.render(PANELS.everything()), BLOCKS.render(BLOCKS.index_of(values * 2)))
    np.testing.assert_array_equal(PANELS.numbers(values, np.random.default_rng(0)), PANELS.everything())


def test_what_is_hidden_or_drawn_varies_between_pictures_of_one_combination():
    hidden = Panels(sober.world("blocks | hide block_4"))
    assert (hidden.sizes, hidden.draws) == ((4, 4, 4), 8)
    block = BLOCKS.labels(hidden.base_index)[:, 3].reshape(-1, 8)
    assert np.mean([len(set(row)) for row in block.tolist()]) > 4
    np.testing.assert_array_equal(hidden.labels(hidden.everything()) // 2, hidden.values())


def test_nuisance_is_drawn_for_each_picture_and_is_the_same_again():
    panels = Panels(sober.world("noisy_dsprites"))
    assert panels.draws == 8
    same_combination = panels.render(np.arange(8))
    assert len({picture.tobytes() for picture in same_combination}) == 8
    np.testing.assert_array_equal(panels.render(np.arange(3, 6)), same_combination[3:6])


def test_worlds_that_lack_combinations_are_counted_out():
    assert lacking(BLOCKS) == 0
    assert lacking(sober.world("blocks | without block_1 == 0 and block_2 == 0")) == 16
    assert lacking(sober.world("blocks | without 0.1 < block_1 < 0.2")) == 0, "no question uses it"


# The task.


def subjects(latents: tuple[int, ...] = (3, 3, 2)) -> Subjects:
    runs = tuple(small_runs(seeds=[seed], latents=size)[0] for seed, size in enumerate(latents))
    blank = Codes(np.zeros((2, 1)), None, np.array([[0], [1]]), BLOCKS.factors[:1])

    def load(run: Any) -> Model:
        key = jax.random.key(run.seed)
        return Model(run, BLOCKS.image_shape, structure(run).fresh(key, NETS[run.nets], BLOCKS.image_shape))

    return Subjects((blank,) * len(runs), runs, BLOCKS, None, load)


ALIKE = 19  # a seed whose first two nets have one architecture, and so share programs


@pytest.fixture(scope="module")
def performed() -> tuple[list[Any], list[tuple[int, int]]]:
    told: list[tuple[int, int]] = []
    settings = {**TASK.quick, "nets": 2}
    outcomes = TASK(subjects(), settings, seed=ALIKE, progress=lambda done, total: told.append((done, total)))
    return outcomes, told


def test_every_model_is_asked_whatever_its_latents(performed):
    outcomes, told = performed
    for outcome in outcomes:
        assert set(outcome.values) == set(TASK.scores)
        curve, validated = outcome.parts["accuracy"], outcome.parts["validation"]
        assert curve.shape == validated.shape == (2, 6)
        assert outcome.values["abstract_reasoning"] == pytest.approx(curve[:, -1].mean())
        assert outcome.values["abstract_reasoning_early"] == pytest.approx(curve[:, 0].mean())
        assert outcome.values["abstract_reasoning_best"] == curve[np.argmax(validated[:, -1]), -1]
        assert outcome.errors["abstract_reasoning"] == pytest.approx(abs(curve[0, -1] - curve[1, -1]) / 2)
        assert outcome.parts["steps"].tolist() == [2, 4, 6, 8, 10, 12]
        np.testing.assert_allclose(outcome.parts["abstract_reasoning_curve"][1], curve.mean(axis=0))
        assert outcome.parts["nets"].shape == (2, 6)
    assert told[-1][0] == told[-1][1]
    assert [done / total for done, total in told] == sorted(done / total for done, total in told)


def test_a_model_alone_gives_what_it_gives_among_others(performed):
    (alone,) = TASK(subjects().only([1]), {**TASK.quick, "nets": 2}, seed=ALIKE)
    np.testing.assert_array_equal(alone.parts["accuracy"], performed[0][1].parts["accuracy"])


def test_codes_that_do_not_vary_are_flagged(monkeypatch: pytest.MonkeyPatch):
    codes = Codes(np.ones((PANELS.size, 2), np.float32), None, PANELS.labels(PANELS.everything()), BLOCKS.factors)
    monkeypatch.setattr(Subjects, "encode", lambda self, index, world: [codes])
    (outcome,) = TASK(subjects((2,)), TASK.quick, seed=ALIKE)
    assert outcome.flags == ("collapsed",)
    broken = dataclasses.replace(codes, mean=np.where(np.eye(*codes.mean.shape) > 0, np.nan, 1), flags=("not_finite",))
    monkeypatch.setattr(Subjects, "encode", lambda self, index, world: [broken])
    (outcome,) = TASK(subjects((2,)), TASK.quick, seed=ALIKE)
    assert "not_finite" in outcome.flags


def test_reference_lines_need_no_model():
    quick = TASK.quick
    seen = reference(BLOCKS, "pictures", **quick)
    assert set(seen.values) == set(TASK.scores)
    assert seen.errors == {}, "one net has no spread"
    known = reference(BLOCKS, "factors", **quick)
    both = TASK(subjects((3, 2)), {**quick, "embedding": "factors"})
    assert [outcome.values for outcome in both] == [known.values] * 2
    with pytest.raises(RequestError, match="codes need a model: without one, choose"):
        reference(BLOCKS, "codes")


@pytest.mark.parametrize(
    ("world", "changes", "message"),
    [
        ("blocks", {"questions": "nasty"}, "questions must be one of easy, hard, not 'nasty'"),
        ("blocks", {"embedding": "words"}, "embedding must be one of"),
        ("blocks", {"width": 0}, "width must be above 0"),
        ("blocks | keep block_1 block_2", {}, "at least 3 factors with 3 values or more"),
        ("teapots", {}, "teapots has 0: take another world"),
        ("blocks | without block_1 == 0 and block_2 == 0", {}, "lacks 16 of the 256 combinations"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_line(world: str, changes: dict[str, Any], message: str):
    why = TASK.refuses(TASK.configured(changes=changes), sober.world(world))
    assert message in why
    assert "\n" not in why
    with pytest.raises(RequestError, match="abstract_reasoning: "):
        reference(sober.world(world), **{"embedding": "one_hot", **changes})


def test_no_nets_are_refused() -> None:
    with pytest.raises(RequestError, match="nets must be a whole number from 1 on"):
        TASK.configured(changes={"nets": 0})


def test_pictures_that_cannot_be_halved_four_times_cannot_be_looked_at():
    class Odd:
        image_shape = (20, 16, 1)

    assert "divisible by 16" in TASK.refuses(TASK.configured(changes={"embedding": "pictures"}), Odd())  # type: ignore


def test_the_cost_counts_nets_and_steps_and_what_is_learned_once_is_shared():
    settings = TASK.configured()
    assert TASK.cost({**settings, "steps": 3000.0}, 1).steps == TASK.cost(settings, 9).steps / 2
    assert TASK.cost({**settings, "embedding": "one_hot"}, 10).steps == TASK.cost(settings, 10).steps / 10
    assert TASK.configured("reference")["questions"] == "easy"
