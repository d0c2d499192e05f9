"""The values that flow: a run's identity names exactly what determines its model, and nonsense is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from sober.errors import RequestError
from sober.types import Adam, Codes, Factor, Run

RUN = Run(world="blocks", method="beta_vae", hyper={"beta": 4.0})

# For every field a value other than RUN's; a new field needs one here.
OTHER: dict[str, Any] = {
    "world": "dsprites",
    "method": "vae",
    "hyper": {"beta": 5.0},
    "nets": "small",
    "latents": 6,
    "optimiser": Adam(learning_rate=1e-3),
    "steps": 100,
    "batch": 32,
    "seed": 1,
    "precision": "bfloat16",
}
OTHER_ADAM = {"learning_rate": 1e-3, "b1": 0.5, "b2": 0.9, "eps": 1e-7, "clip": 1.0}


def test_the_identity_of_a_run_is_the_same_in_every_version() -> None:
    # Results on disk are found by this name: if it changes, every stored family is lost.
    assert RUN.identity == "ac37e27f52fe86bc"


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Run)])
def test_the_identity_differs_whenever_a_field_does(field: str) -> None:
    other = dataclasses.replace(RUN, **{field: OTHER[field]})
    assert other.identity != RUN.identity
    assert other.entropy != RUN.entropy


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Adam)])
def test_the_identity_differs_whenever_a_setting_of_the_optimiser_does(field: str) -> None:
    optimiser = dataclasses.replace(RUN.optimiser, **{field: OTHER_ADAM[field]})
    assert dataclasses.replace(RUN, optimiser=optimiser).identity != RUN.identity


@pytest.mark.parametrize(
    "hyper", [{"beta": 5.0}, {"alpha": 4.0}, {"beta": 4.0, "gamma": 0.0}, {"beta": "4.0"}, {"beta": True}, {}]
)
def test_the_identity_differs_whenever_a_hyperparameter_does(hyper: dict[str, Any]) -> None:
    assert dataclasses.replace(RUN, hyper=hyper).identity != RUN.identity


@pytest.mark.parametrize("four", [4, np.float32(4), np.int64(4)])
def test_a_whole_number_names_the_same_run_as_a_decimal_one(four: Any) -> None:
    run = dataclasses.replace(RUN, hyper={"beta": four})
    assert run == RUN
    assert run.identity == RUN.identity


def test_a_whole_number_in_the_optimiser_names_the_same_run_as_a_decimal_one() -> None:
    whole, decimal = (dataclasses.replace(RUN, optimiser=Adam(b1=zero)) for zero in (0, 0.0))
    assert whole.identity == decimal.identity


def test_the_order_of_hyperparameters_does_not_matter() -> None:
    one = dataclasses.replace(RUN, hyper={"beta": 4.0, "alpha": 1.0})
    two = dataclasses.replace(RUN, hyper={"alpha": 1.0, "beta": 4.0})
    assert one.identity == two.identity
    assert json.dumps(one.canonical()) == json.dumps(two.canonical())


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Run)])
def test_a_run_comes_back_from_its_canonical_form(field: str) -> None:
    run = dataclasses.replace(RUN, **{field: OTHER[field]})
    assert Run.of(run.canonical()) == run
    through_json = Run.of(json.loads(json.dumps(run.canonical())))
    assert through_json == run
    assert through_json.identity == run.identity


def test_changing_the_canonical_form_does_not_change_the_run() -> None:
    run = dataclasses.replace(RUN)
    run.canonical()["hyper"]["beta"] = 5.0
    assert run.identity == RUN.identity


def test_the_entropy_of_a_run_is_its_identity_as_two_words() -> None:
    high, low = RUN.entropy
    assert f"{high:08x}{low:08x}" == RUN.identity


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("latents", 0),
        ("latents", 2.5),
        ("steps", 0),
        ("steps", 2.5),
        ("batch", -1),
        ("seed", -1),
        ("seed", 0.5),
        ("precision", "float16"),
    ],
)
def test_a_field_that_makes_no_sense_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(RequestError, match=field):
        dataclasses.replace(RUN, **{field: value})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, [1.0]])
def test_a_hyperparameter_that_is_no_setting_is_refused_by_name(value: Any) -> None:
    with pytest.raises(RequestError, match="beta"):
        dataclasses.replace(RUN, hyper={"beta": value})


def test_an_optimiser_without_a_limit_is_written_down_as_before_there_were_limits() -> None:
    assert Adam().plain() == {"learning_rate": 1e-4, "b1": 0.9, "b2": 0.999, "eps": 1e-8}
    assert Run.of(dataclasses.replace(RUN, optimiser=Adam(clip=2)).canonical()).optimiser.clip == 2.0


@pytest.mark.parametrize("clip", [0, -1.0])
def test_a_limit_of_gradients_that_lets_nothing_pass_is_refused(clip: float) -> None:
    with pytest.raises(RequestError, match="clip must be above 0"):
        Adam(clip=clip)


@pytest.mark.parametrize("field", ["learning_rate", "b1", "b2", "eps", "clip"])
def test_an_optimiser_setting_that_is_not_finite_is_refused_by_name(field: str) -> None:
    with pytest.raises(RequestError, match=field):
        dataclasses.replace(RUN, optimiser=Adam(**{field: float("nan")}))


ABOUT = (Factor("shape", 3, "categorical"), Factor("x", 8))


def codes(mean: tuple[int, ...], logvar: tuple[int, ...] | None, factors: tuple[int, ...]) -> Codes:
    return Codes(np.zeros(mean), None if logvar is None else np.zeros(logvar), np.zeros(factors, np.int32), ABOUT)


@pytest.mark.parametrize("logvar", [None, (5, 3)])
def test_codes_hold_a_row_for_each_picture(logvar: tuple[int, ...] | None) -> None:
    made = codes((5, 3), logvar, (5, 2))
    assert made.mean.shape == (5, 3)
    assert made.about == ABOUT


@pytest.mark.parametrize(
    ("mean", "logvar", "factors", "says"),
    [
        ((5,), None, (5, 2), r"codes .*\(5,\)"),
        ((2, 5, 3), None, (5, 2), r"codes .*\(2, 5, 3\)"),
        ((5, 3), (5, 2), (5, 2), r"logvar .*\(5, 2\)"),
        ((5, 3), (4, 3), (5, 2), r"logvar .*\(4, 3\)"),
        ((5, 3), None, (4, 2), r"factors .*\(4, 2\)"),
        ((5, 3), None, (5, 3), r"factors .*\(5, 3\)"),
        ((5, 3), None, (5,), r"factors .*\(5,\)"),
    ],
)
def test_codes_whose_shapes_disagree_are_refused(mean: Any, logvar: Any, factors: Any, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        codes(mean, logvar, factors)


@pytest.mark.parametrize("kind", ["ordinal", "cyclic", "categorical", "continuous"])
def test_a_factor_is_of_one_of_four_kinds(kind: Any) -> None:
    assert Factor("x", 0 if kind == "continuous" else 3, kind).kind == kind
    with pytest.raises(RequestError, match="cannot have size"):
        Factor("x", 3 if kind == "continuous" else 0, kind)


def test_a_factor_of_another_kind_is_refused_with_the_kinds_there_are() -> None:
    with pytest.raises(RequestError, match=r"'x' .*'nominal': choose one of categorical, continuous, cyclic, ordinal"):
        Factor("x", 3, "nominal")  # type: ignore[arg-type]


def test_a_factor_has_a_value_for_every_class_or_none() -> None:
    assert Factor("x", 3, values=(0.0, 0.5, 1.0)).values == (0.0, 0.5, 1.0)
    assert Factor("x", 3).values == ()
    with pytest.raises(RequestError, match="'x' has size 3 but 2 values"):
        Factor("x", 3, values=(0.0, 1.0))
