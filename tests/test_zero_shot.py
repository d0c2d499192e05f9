"""zero_shot: codes with known answers, the region of a world, and one line for what cannot be done."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import sober
from families import small_runs
from sober.conditions import condition_mask
from sober.errors import RequestError
from sober.estimators.regressors import RIDGES, SplitRows, choose_ridge
from sober.metrics import METRICS, as_codes, score
from sober.metrics.common.metric_rows import take
from sober.models.model import Model
from sober.requests.results import Results
from sober.requests.train import train
from sober.tasks import TASKS, Subjects
from sober.tasks.zero_shot import standard_error
from sober.types import Codes
from sober.worlds import World, world
from sober.worlds.pictures.from_python import from_array
from test_light_guest import WITHOUT_JAX, Start, output

TASK = TASKS["zero_shot"]
REGION = "factor_0 > 6 and factor_1 > 6"
QUICK = {"trees": 3}


def grid() -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(1000), (10, 10, 10)), axis=1).astype(float)


def perfect(rng: np.random.Generator, noise: float = 0.0) -> Codes:
    """Five latents in which three factors lie linearly, all mixed up."""
    factors = grid()
    codes = factors @ rng.normal(size=(3, 5)) + noise * rng.normal(size=(1000, 5))
    return as_codes(codes, factors)


def tried(codes: Codes, preset: str = "study", **changes: object) -> object:
    return TASK(Subjects((codes,)), {"region": REGION, **QUICK, **changes}, preset=preset)[0]  # type: ignore[dict-item]


def test_linear_codes_are_read_by_lines_where_nothing_was_seen_and_not_by_trees() -> None:
    found = tried(perfect(np.random.default_rng(0), noise=0.3))
    for name in ("lasso", "ridge"):
        assert found.values[f"zero_shot_{name}_outside"] < 0.3
        assert found.values[f"zero_shot_{name}_ratio"] == pytest.approx(1.0, abs=0.15)
    assert found.values["zero_shot_forest_ratio"] > 1.5
    # The factor that the region says nothing about is told as well inside as outside, by lines.
    assert found.parts["ridge_ratio_per_factor"][2] == pytest.approx(1.0, abs=0.2)


def test_without_noise_a_ridge_makes_no_error_anywhere() -> None:
    found = tried(perfect(np.random.default_rng(1)))
    assert found.values["zero_shot_ridge_inside"] < 1e-5
    assert found.values["zero_shot_ridge_ratio"] < 5


def test_a_forest_cannot_leave_what_it_has_seen() -> None:
    """Trees guess means of training rows: with the values above 6 never seen, at most 6."""
    factors = grid()
    found = tried(as_codes(factors, factors), region="factor_0 > 6")
    unit = np.sqrt(np.mean((factors[factors[:, 0] <= 6, 0] - 3) ** 2))
    least = np.sqrt(np.mean((np.array([7, 8, 9]) - 6) ** 2)) / unit
    assert found.parts["forest_inside_per_factor"][0] == pytest.approx(least, rel=0.05)
    assert found.values["zero_shot_ridge_inside"] < 1e-5
    assert "unseen_value" in found.flags


def test_codes_that_know_nothing_are_as_good_as_guessing_the_mean() -> None:
    factors = grid()
    codes = as_codes(np.random.default_rng(0).normal(size=(1000, 4)), factors)
    found = tried(codes, region="factor_2 > 4 and factor_1 > 4", trees=10)
    for name in ("lasso", "forest", "ridge"):
        assert found.values[f"zero_shot_{name}_outside"] == pytest.approx(1.0, abs=0.12)
        assert found.parts[f"{name}_inside_per_factor"][0] == pytest.approx(1.0, abs=0.12)


def test_outside_it_is_dci_of_the_rows_outside() -> None:
    codes = perfect(np.random.default_rng(2), noise=1.0)
    outside = take(codes, np.flatnonzero(~condition_mask(REGION, codes.about, codes.factors)))
    found, dci = tried(codes), score(outside, metrics={"dci_lasso": {}, "dci_forest": {"trees": 3}})
    for name in ("lasso", "forest"):
        assert found.values[f"zero_shot_{name}_outside"] == pytest.approx(dci[f"dci_{name}_nrmse"], rel=1e-9)
        parts = dci.parts[f"dci_{name}"]["nrmse_per_factor"]
        np.testing.assert_allclose(found.parts[f"{name}_outside_per_factor"], parts)
    assert METRICS["dci_lasso"].settings["train"] == TASK.settings["train"]


def test_means_and_ratios_are_those_of_the_factors() -> None:
    found = tried(perfect(np.random.default_rng(3), noise=1.0))
    for name in ("lasso", "forest", "ridge"):
        inside, outside = (found.parts[f"{name}_{side}_per_factor"] for side in ("inside", "outside"))
        assert found.values[f"zero_shot_{name}_inside"] == pytest.approx(inside.mean())
        assert found.values[f"zero_shot_{name}_ratio"] == pytest.approx(inside.mean() / outside.mean())
        np.testing.assert_allclose(found.parts[f"{name}_ratio_per_factor"], inside / outside)
    assert set(found.values) == set(TASK.scores) == set(found.errors)


def test_the_preset_authors_has_the_unit_of_the_paper_and_the_fixed_lasso_of_its_code() -> None:
    codes = perfect(np.random.default_rng(0), noise=0.5)
    authors, paper = tried(codes, "authors"), tried(codes, "paper")
    assert authors.values == tried(codes, unit="own", strength=0.02).values
    assert authors.values["zero_shot_lasso_inside"] != paper.values["zero_shot_lasso_inside"]
    assert authors.values["zero_shot_forest_inside"] == paper.values["zero_shot_forest_inside"]
    assert "strength" not in TASK.configured("paper")


def test_in_its_own_unit_the_error_inside_is_in_standard_deviations_there() -> None:
    codes = perfect(np.random.default_rng(4), noise=1.0)
    whole, own = tried(codes), tried(codes, preset="paper")
    # Inside, factor 0 has the values 7, 8 and 9; factor 2 has all.
    outside = codes.factors[~condition_mask(REGION, codes.about, codes.factors), 0]
    expected = outside.std() / np.std([7, 8, 9])
    gained = own.parts["ridge_inside_per_factor"] / whole.parts["ridge_inside_per_factor"]
    np.testing.assert_allclose(gained[[0, 2]], [expected, 1.0], rtol=0.08)
    assert own.values["zero_shot_ridge_outside"] == whole.values["zero_shot_ridge_outside"]


def test_standard_errors_are_the_spread_over_draws() -> None:
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(2000, 300, 3)) ** 2 * [0.1, 1.0, 4.0]
    draws[..., 2] += draws[..., 1]  # factors of one row err together
    means = np.sqrt(draws.mean(axis=1)).mean(axis=1)
    assert np.mean([standard_error(squares) for squares in draws]) == pytest.approx(means.std(), rel=0.05)
    assert standard_error(np.zeros((10, 2))) == 0


def test_a_ridge_is_that_of_scikit_learn_at_the_strength_with_the_least_validation_error() -> None:
    rng = np.random.default_rng(5)
    x, x_valid, x_test = (rng.normal(size=(rows, 6)) for rows in (40, 300, 20))
    weight = rng.normal(size=(6, 2))
    y, y_valid = (part @ weight + 4 * rng.normal(size=(len(part), 2)) for part in (x, x_valid))
    chosen = choose_ridge(SplitRows(x, x_valid, x_test, y, y_valid))
    fitted = {strength: Ridge(alpha=strength * len(x), fit_intercept=False).fit(x, y) for strength in RIDGES}
    best = min(fitted, key=lambda strength: float(np.mean((fitted[strength].predict(x_valid) - y_valid) ** 2)))
    assert RIDGES[0] < chosen.option < RIDGES[-1]
    assert chosen.option == best
    np.testing.assert_allclose(chosen.predicted, fitted[best].predict(x_test), rtol=1e-8)
    np.testing.assert_allclose(chosen.importances[0], np.abs(fitted[best].coef_).sum(axis=0), rtol=1e-8)


def test_a_condition_is_about_the_values_that_were_given() -> None:
    factors = np.stack([10.0 * grid()[:, 0], grid()[:, 1]], axis=1)
    names = np.where(factors[:, 1] > 4, "heart", "oval")
    codes = perfect(np.random.default_rng(0), noise=0.3)
    by_value = as_codes(codes.mean, factors, names=["size", "place"])
    assert condition_mask("size > 55", by_value.about, by_value.factors).sum() == 400
    by_name = as_codes(codes.mean, names[:, None], names=["shape"])
    assert condition_mask("shape == 'heart'", by_name.about, by_name.factors).sum() == 500
    assert tried(by_value, region="size > 55 and place > 5").values


def test_a_factor_with_one_value_on_a_side() -> None:
    factors = grid()
    codes = as_codes(factors, factors)
    inside = tried(codes, region="factor_0 == 3 and factor_1 > 2")
    assert "constant_inside" not in inside.flags  # its unit is that of outside
    own = tried(codes, region="factor_0 == 3 and factor_1 > 2", preset="paper")
    assert "constant_inside" in own.flags
    assert own.parts["forest_inside_per_factor"][0] == inside.parts["forest_inside_per_factor"][0]
    outside = tried(codes, region="factor_0 > 0")
    assert "constant_outside" in outside.flags
    assert outside.parts["ridge_inside_per_factor"].shape == (2,)


WRONG: list[tuple[dict[str, object], str]] = [
    ({"region": ""}, "say which combinations of factors to hold out"),
    ({"region": "factor_0 > 10"}, "true of no row"),
    ({"region": "factor_0 < 10"}, "true of every row"),
    ({"region": "factor_0 == 0 and factor_1 == 0 and factor_2 > 5"}, "10 inside, and there are 996 rows outside and 4"),
    ({"region": "not (factor_0 == 0 and factor_1 == 0)"}, "30 rows outside"),
    ({"region": "colour > 3"}, "compare the factors factor_0, factor_1, factor_2"),
    ({"region": "factor_0 >"}, "cannot be read"),
    ({"region": "factor_0 + 1"}, "not true or false"),
    ({"unit": "inside"}, "unit must be 'outside' or 'own'"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_what_is_wrong_is_said_in_a_line(changes: dict[str, object], words: str) -> None:
    factors = grid()
    with pytest.raises(RequestError, match=words) as error:
        tried(as_codes(factors, factors), **changes)
    assert "\n" not in str(error.value)


def test_few_rows_and_dead_codes_are_flagged() -> None:
    factors = grid()
    found = tried(as_codes(np.zeros((1000, 2)), factors), region="factor_0 > 8 and factor_1 > 4")
    assert {"few_tested", "collapsed"} <= set(found.flags)
    assert found.values["zero_shot_ridge_outside"] == pytest.approx(1.0, abs=0.05)


def test_arrays_need_no_jax(start: Start) -> None:
    code = """
import numpy, sober
factors = numpy.stack(numpy.unravel_index(numpy.arange(1000), (10, 10, 10)), axis=1)
scores = sober.task("zero_shot", factors + 0.5, factors, region="factor_0 > 6 and factor_1 > 6", trees=1)
print(scores["zero_shot_ridge_inside"] < 1e-5)
"""
    assert output(start(WITHOUT_JAX + code)).strip() == "True"


# With models: the region that a world leaves out.

GAP = "block_1 > 0.7 and block_2 > 0.7"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    opened = world(f"blocks | without {GAP}")
    runs = [dataclasses.replace(run, world=opened.label) for run in small_runs()]
    return train(runs, opened, tmp_path_factory.mktemp("gap") / "family")


def subjects(results: Results, of: World | None = None, rows: int | None = None) -> Subjects:
    index = None if rows is None else np.arange(rows)
    runs = tuple(results.finished)
    load: Callable[..., Model] = results.model
    found = Subjects((), runs, of or results.world, index, load)
    pictures = (of or results.world).everything() if index is None else index
    return dataclasses.replace(found, codes=tuple(found.encode(pictures)))


def test_models_that_never_saw_a_region_are_tested_on_it(results: Results) -> None:
    asked = subjects(results)
    found = TASK(asked, QUICK)
    assert TASK.configured(world=results.world)["region"] == GAP
    # The same as on the whole world with that region: what is outside, and what is inside, is the same.
    whole = TASK(subjects(results, world("blocks")), {"region": GAP, **QUICK})
    for ours, theirs in zip(found, whole, strict=True):
        assert "held_out" in ours.flags
        for name, value in ours.values.items():
            assert value == pytest.approx(theirs.values[name], rel=0.05)
    assert found[0].values != found[1].values


def test_company_does_not_matter(results: Results) -> None:
    asked = subjects(results)
    together, alone = TASK(asked, QUICK), TASK(asked.only([1]), QUICK)
    for name, value in alone[0].values.items():
        assert together[1].values[name] == pytest.approx(value, rel=1e-4)


def test_fewer_rows_outside_ask_for_fewer_inside(results: Results) -> None:
    asked = subjects(results, rows=1000)
    [first, _] = TASK(asked, {"train": 800, "validation": 100, "test": 100, "inside": 40, **QUICK})
    [again, _] = TASK(asked, {"train": 8000, "validation": 1000, "test": 1000, "inside": 400, **QUICK})
    assert first.values["zero_shot_lasso_inside"] == again.values["zero_shot_lasso_inside"]


def test_a_model_whose_codes_of_the_region_are_no_numbers_knows_nothing_there(results: Results) -> None:
    asked = subjects(results)

    class Broken(Subjects):
        def encode(self, index: np.ndarray, world: World | None = None) -> list[Codes]:
            return [
                dataclasses.replace(codes, mean=np.full_like(codes.mean, np.nan), flags=("not_finite",))
                for codes in super().encode(index, world)
            ]

    broken = Broken(asked.codes, asked.runs, asked.world, None, asked.load)
    found = TASK(broken, QUICK)[0]
    assert "not_finite" in found.flags
    assert found.parts["ridge_inside_per_factor"][2] == pytest.approx(1.0, abs=0.1)  # block 3 is guessed at its mean


def test_the_region_is_found_beneath_other_views(results: Results) -> None:
    hidden = world(f"blocks | without {GAP} | hide block_1 | part train 0.8")
    assert TASK.configured(world=hidden)["region"] == GAP
    found = TASK(subjects(results, hidden), QUICK)
    assert found[0].parts["ridge_inside_per_factor"].shape == (3,)
    assert not TASK.refuses(TASK.configured(world=hidden), hidden)


def test_a_named_region_is_the_condition_it_stands_for() -> None:
    teapots = world("teapots | without gap")
    condition = "red > green + 0.15 and red > blue + 0.15 and elevation > pi / 4"
    assert TASK.configured(world=teapots)["region"] == condition
    assert TASK.configured(changes={"region": "gap"}, world=world("teapots"))["region"] == condition
    assert not TASK.refuses({"region": condition}, world("teapots"))


REFUSED = [
    (
        "blocks",
        "",
        "leaves no combinations of factors out: train on a view such as 'blocks | without block_1 > 0.571'",
    ),
    ("blocks", "red > 1", "compare the factors block_1"),
    ("teapots", "hole > 1", "or name the region gap"),
    (f"blocks | without {GAP} | without block_3 > 0.9", "", "leaves out several regions: say which"),
]


@pytest.mark.parametrize(("spec", "region", "words"), REFUSED)
def test_worlds_for_which_it_cannot_be_asked(spec: str, region: str, words: str) -> None:
    opened = world(spec)
    settings = TASK.configured(changes={"region": region}, world=opened)
    assert words in TASK.refuses(settings, opened)


def test_a_view_that_leaves_nothing_out(results: Results) -> None:
    whole = world("blocks | without block_1 > 100")
    with pytest.raises(RequestError, match="block_1 > 100 leaves out no picture"):
        TASK(subjects(results, whole), QUICK)


def test_a_world_of_pictures_alone_has_nothing_to_predict() -> None:
    photos = from_array(np.full((3, 16, 16, 1), 200, np.uint8))
    assert "has no factors" in TASK.refuses({"region": ""}, photos)


def test_a_factor_that_varies_negligibly_beside_an_outlier_is_left_out() -> None:
    """Its errors could not be divided by how much it varies in the rows to learn from."""
    rng = np.random.default_rng(0)
    codes, outlier = rng.normal(size=(90, 2)), rng.normal(size=(90, 1))
    outlier[40] = 1e300
    with pytest.raises(RequestError, match="no factor has two values"):
        sober.task("zero_shot", codes, outlier, kinds="continuous", region="factor_0 > 0")
    factors = np.hstack([outlier, np.arange(90)[:, None] % 5])
    scores = sober.task("zero_shot", codes, factors, kinds={"factor_0": "continuous"}, region="factor_1 > 2")
    assert np.isfinite(list(scores.values())).all()


def test_a_class_that_a_factor_lacks_is_refused_in_a_short_line() -> None:
    factors = np.array([f"class {number}" for number in range(90)], object)[:, None]
    with pytest.raises(RequestError, match=r"factor_0 has no class 0, as in .* and \d+ more") as refused:
        sober.task("zero_shot", np.zeros((90, 2)), factors, region="factor_0 == 0")
    assert len(str(refused.value)) < 400
