"""The tables that single papers have: means, averages within methods, single runs, stability, matrices, curves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy

from families import BLOCKS, small_runs
from sober.evaluation.showcase import _mixed
from sober.files import save_arrays
from sober.metrics.scoring.score import Scores
from sober.report.figures import FIGURES, drawable
from sober.requests.train import train
from sober.results import as_runs, make_tables, stats
from sober.results.judgement_files import PairScores
from sober.results.score_files import load_parts, parts_path, save_parts
from sober.results.tables.by_variable import merge_thresholds, scores_by_variable
from sober.results.tables.means import best_and_mean_strength, means_by_setting, means_correlation
from sober.results.tables.stability import stability
from sober.results.tables.tables_of_runs import best_by_criterion, disputed
from sober.results.tables.tables_within_methods import criteria_averages, criteria_within_methods, udr_by_partners
from sober.results.tables.transfer import transfer
from sober.results.tables.variance import variance_averages
from sober.results.training_curves import training_curves
from test_tables import SEEDS, column, noise, results
from test_task_tables import with_a_curve


def kept(values: dict, random: object) -> object:
    """Random numbers that are the same for the same run and metric."""
    return lambda *of: values.setdefault(of, random())


# Statistics.


def test_the_interval_of_a_mean_is_students() -> None:
    values = [1.0, 2.0, 3.0, 6.0]
    expected = scipy.stats.t.interval(0.9, 3, loc=3.0, scale=scipy.stats.sem(values))
    assert stats.mean_interval(values, level=0.9) == pytest.approx((3.0, *expected))
    assert stats.mean_interval([4.0]) == (4.0, None, None)


def test_pearson_is_that_of_scipy_and_leaves_out_what_is_missing() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 3, 8))
    expected = [scipy.stats.pearsonr(a, b).statistic for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(stats.pearson(x, y), expected)
    gaps = np.ma.array(x, mask=np.arange(8) == np.array([[2], [5], [9]]))
    first = scipy.stats.pearsonr(np.delete(x[0], 2), np.delete(y[0], 2)).statistic
    assert stats.pearson(gaps, y)[0] == pytest.approx(first)
    assert stats.pearson(np.ones((1, 8)), y[:1]).mask.all()
    assert stats.pearson(x[:, :2], y[:, :2]).mask.all()  # two points are always on a line


# Within methods (Duan et al. 2020).


def test_within_methods_only_the_runs_of_one_method_are_compared() -> None:
    """Between methods the criterion follows the metric, within one it does not: which a whole world hides."""

    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        sign = -1 if metric == "udr" else 1
        return 100 * (method == "beta_vae") + sign * (strength + 0.1 * seed)

    frame = results(value, metrics=("mig", "udr"))
    found = criteria_within_methods(frame, resamples=20)
    assert len(found) == 4
    assert set(found["value"]) == {-1.0}
    assert set(found["n"]) == {3 * SEEDS}
    assert make_tables(frame, ["criteria_against_metrics"], resamples=20)[0][0].frame["value"].min() > 0


def test_averages_are_over_worlds_methods_and_the_papers_metrics() -> None:
    values: dict = {}
    frame = results(kept(values, noise()), metrics=("mig", "factor_vae", "sap", "udr", "elbo", "train_loss"))
    found = {row["criterion"]: row for row in criteria_averages(frame, resamples=50).iter_rows(named=True)}
    assert {*found} == {"udr", "elbo", "metrics with each other"}
    parts = frame.partition_by("world", "method")

    def correlation(part: pl.DataFrame, one: str, other: str) -> float:
        x, y = (part.filter(metric=name).sort("run")["value"] for name in (one, other))
        return float(scipy.stats.spearmanr(x, y).statistic)

    for name, sign in (("udr", 1), ("elbo", -1)):  # of elbo less is better
        each = [sign * correlation(part, name, metric) for part in parts for metric in ("mig", "factor_vae")]
        row = found[name]
        assert (row["n"], row["value"], row["std"]) == (8, pytest.approx(np.mean(each)), pytest.approx(np.std(each)))
        assert row["low"] < row["value"] < row["high"]
    each = [correlation(part, "mig", "factor_vae") for part in parts]
    assert found["metrics with each other"]["n"] == 4
    assert found["metrics with each other"]["value"] == pytest.approx(np.mean(each))


def test_partners_are_of_ones_own_method_and_versions_are_kept_apart() -> None:
    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        return strength + 0.1 * seed + 50 * (method == "beta_vae")

    frame = results(value, metrics=("mig", "udr"), worlds=("blocks",))
    said = [json.dumps({"similarity": name}) for name in ("lasso", "spearman")]
    both = [frame.filter(metric="udr").with_columns(settings=pl.lit(text)) for text in said]
    runs = as_runs(pl.concat([frame.filter(metric="mig"), *both]))
    names, methods = tuple(runs.run_column("run")), runs.run_column("method")
    quality = dict(zip(names, runs.number_columns(["mig"])[:, 0], strict=True))
    others = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    # A partner of another method says the opposite: it must not be heard within a method.
    scores = np.array([(i, j, quality[names[i]] * (1 if methods[i] == methods[j] else -9)) for i, j in others])
    pairs = [
        PairScores("blocks", names, scores * [1, 1, sign], "udr", text)
        for text, sign in zip(said, (1, -1), strict=True)
    ]
    found = udr_by_partners(as_runs(pl.concat([frame.filter(metric="mig"), *both]), pairs), resamples=10)
    assert set(found["method"]) == {"beta_vae", "factor_vae", "all"}
    within = found.filter(pl.col("method") != "all")
    assert set(within["n"]) == {3 * SEEDS}
    assert set(within["partners"]) == {5, 10, 15, 3 * SEEDS - 1}
    for name, sign in (("lasso", 1.0), ("spearman", -1.0)):
        assert set(within.filter(criterion=f"udr [similarity={name}]")["value"].round(9)) == {sign}
    assert found.filter(method="all", criterion="udr [similarity=lasso]")["value"].max() < 0.5


# Means.


def test_means_by_setting_are_those_of_the_seeds() -> None:
    values: dict = {}
    frame = results(kept(values, noise()), metrics=("mig", "udr", "train_loss"), worlds=("blocks",))
    found = means_by_setting(frame)
    assert set(found["metric"]) == {"mig", "udr"}
    row = found.filter(metric="mig", setting="beta_vae beta=4").row(0, named=True)
    seeds = frame.filter(metric="mig", setting="beta_vae beta=4")["value"].to_list()
    assert (row["n"], row["strength"]) == (SEEDS, 4.0)
    assert (row["value"], row["std"]) == pytest.approx((np.mean(seeds), np.std(seeds, ddof=1)))
    assert (row["low"], row["high"]) == pytest.approx(stats.mean_interval(seeds)[1:])
    assert (row["low_90"], row["high_90"]) == pytest.approx(stats.mean_interval(seeds, level=0.9)[1:])
    assert row["low"] < row["low_90"] < row["high_90"] < row["high"]


def test_the_best_strength_is_chosen_by_supervised_scores_and_the_mean_one_by_all() -> None:
    """Scores by strength, 1, 4 and 16; pipe is the paper's fourth score, and needs no labels."""
    mig = {1.0: 0.1, 4.0: 0.5, 16.0: 0.3}
    pipe = {1.0: 0.9, 4.0: 0.0, 16.0: 0.0}

    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float | None:
        if method == "factor_vae" and strength != 4.0:
            return None
        return {"mig": mig, "pipe": pipe}[metric][strength] + (0.01 if seed % 2 else -0.01)

    found = best_and_mean_strength(results(value, metrics=("mig", "pipe"), worlds=("blocks",)))
    of = {(row["method"], row["which"], row["metric"]): row for row in found.iter_rows(named=True)}
    assert of["beta_vae", "best", "mig"]["setting"] == "beta_vae beta=4"
    # Means of the two are 0.5, 0.25 and 0.15, and 0.3 on average: the second is nearest.
    assert of["beta_vae", "mean", "mig"]["setting"] == "beta_vae beta=4"
    assert of["beta_vae", "average", "mig"]["value"] == pytest.approx(0.3)
    assert of["beta_vae", "average", "mig"]["n"] == 3 * SEEDS
    assert of["factor_vae", "fixed", "mig"]["value"] == pytest.approx(0.5)
    assert of["factor_vae", "fixed", "mig"]["std"] == pytest.approx(np.std([0.01, -0.01] * 3, ddof=1))
    assert ("factor_vae", "best", "mig") not in of


def test_a_middling_strength_is_that_nearest_to_the_average_of_the_settings() -> None:
    found = best_and_mean_strength(
        results(lambda world, method, strength, seed, metric: {1.0: 0.0, 4.0: 0.5, 16.0: 0.55}[strength] + 1e-3 * seed,
                metrics=("mig", "factor_vae"), worlds=("blocks",))
    )  # fmt: skip
    which = dict(found.filter(metric="mig", method="beta_vae").select("which", "setting").iter_rows())
    assert which == {"best": "beta_vae beta=16", "mean": "beta_vae beta=4", "average": "all"}


def test_means_go_together_along_the_strengths() -> None:
    values: dict = {}
    random = kept(values, noise())
    frame = results(random, metrics=("mig", "udr", "gaussian_total_correlation"), worlds=("blocks",))
    found = means_correlation(frame, resamples=30)
    assert set(found["criterion"]) == {"udr", "gaussian_total_correlation"}
    row = found.filter(method="beta_vae", criterion="udr").row(0, named=True)
    means = frame.filter(method="beta_vae").group_by("setting", "metric").agg(pl.col("value").mean()).sort("setting")
    x, y = (means.filter(metric=name)["value"].to_numpy() for name in ("udr", "mig"))
    assert (row["n"], row["value"]) == (3, pytest.approx(scipy.stats.pearsonr(x, y).statistic))
    assert row["low"] <= row["value"] <= row["high"]


def test_the_interval_of_means_that_go_together_has_its_middle_at_the_value() -> None:
    """Seeds that are drawn again make means noisier, so these correlate less: percentiles alone would lie too low."""
    frame = results(kept({}, noise()), metrics=("mig", "udr"), worlds=("blocks",))
    row = means_correlation(frame, resamples=30).filter(method="beta_vae").row(0, named=True)
    runs = frame.filter(method="beta_vae").pivot("metric", index=("setting", "seed"), values="value")
    runs = runs.sort("setting", "seed")
    drawn = []
    for counts in stats.resampled(len(runs), within=runs["setting"].to_list(), resamples=30):
        again = runs[np.repeat(np.arange(len(runs)), counts)].group_by("setting").agg(pl.col("udr", "mig").mean())
        drawn.append(scipy.stats.pearsonr(again["udr"], again["mig"]).statistic)
    low, high = np.quantile(drawn, [0.025, 0.975]) + row["value"] - np.median(drawn)
    assert (row["low"], row["high"]) == pytest.approx((max(low, -1), min(high, 1)))


def test_the_average_share_of_variance_is_over_worlds_and_the_papers_scores() -> None:
    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        by_method = method == "beta_vae"
        return by_method + (0.0 if (world, metric) == ("blocks", "mig") else seed % 2)

    frame = results(value, metrics=("mig", "sap", "dci_completeness"))  # the last is none of the seven
    found = variance_averages(frame, resamples=20)
    assert dict(found.select("by", "value").iter_rows()) == pytest.approx(
        {"method": (1 + 3 * 0.5) / 4, "setting": 0.625}
    )
    assert set(found["n"]) == {4}


def test_transfer_is_over_the_papers_seven_scores() -> None:
    values: dict = {}
    random = kept(values, noise())
    seven = ("mig", "sap", "irs", "modularity", "beta_vae", "factor_vae", "dci_disentanglement")
    more = results(random, metrics=(*seven, "dci_completeness", "explicitness"))
    assert transfer(more, resamples=20).equals(transfer(more.filter(pl.col("metric").is_in(seven)), resamples=20))
    others = more.filter(pl.col("metric").is_in(["dci_completeness", "explicitness"]))
    assert transfer(others, resamples=20)["value"].null_count() == 0  # of which there is none: all that there are


# Single runs.


def test_the_best_run_by_a_criterion_comes_with_all_that_is_known_of_it() -> None:
    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        best = (strength, seed) == (4.0, 2)
        return {"udr": float(best), "elbo": -10.0 * (strength == 16.0 and seed == 1), "mig": strength + seed}[metric]

    found = best_by_criterion(results(value, metrics=("mig", "udr", "elbo"), worlds=("blocks",)))
    by_udr = found.filter(method="beta_vae", criterion="udr")
    assert set(by_udr.select("setting", "seed").rows()) == {("beta_vae beta=4", 2)}
    assert dict(by_udr.select("metric", "value").iter_rows()) == {"mig": 6.0, "udr": 1.0, "elbo": 0.0}
    by_elbo = found.filter(method="beta_vae", criterion="elbo", metric="mig")
    assert by_elbo["value"].to_list() == [17.0]  # the lowest is the best


def test_the_most_disputed_run_is_high_by_one_metric_and_low_by_the_other() -> None:
    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        place = {1.0: 0, 4.0: 1, 16.0: 2}[strength] * 2 + (method == "beta_vae")
        if metric == "beta_vae" and place == 1:
            return 100.0  # which is otherwise the second from below
        return float(place)

    frame = results(value, metrics=("mig", "beta_vae"), worlds=("blocks",), seeds=1)
    both = disputed(frame).filter(metric="beta_vae", other="mig")
    found = both.filter(method="all")
    assert found["place"].to_list() == [1, 2, 3, 4, 5]
    first = found.row(0, named=True)
    within = both.filter(method="beta_vae")
    assert (set(within["n"]), {name.split()[0] for name in within["setting"]}) == ({3}, {"beta_vae"})
    assert (first["setting"], first["n"]) == ("beta_vae beta=1", 6)
    assert (first["by_metric"], first["by_other"], first["value"]) == pytest.approx((1.0, 0.2, 0.8))


# Stability.


def test_metrics_are_compared_with_themselves_on_another_draw() -> None:
    values: dict = {}
    frame = results(kept(values, noise()), metrics=("mig", "sap"), worlds=("blocks",))
    again = results(noise(7), metrics=("mig", "sap"), worlds=("blocks",))
    draws = [
        frame.with_columns(pictures=pl.lit(10_000), draw=pl.lit(1)),
        frame.with_columns(pictures=pl.lit(10_000), draw=pl.lit(2), value=2 * pl.col("value") + 1),
        frame.with_columns(pictures=pl.lit(100), draw=pl.lit(1)),
        again.with_columns(pictures=pl.lit(100), draw=pl.lit(2)),
    ]
    found = stability(pl.concat(draws), resamples=20)
    assert found["pictures"].unique(maintain_order=True).to_list() == [10_000, 100]
    same = found.filter(pl.col("metric") == pl.col("other"))
    assert same.filter(pictures=10_000)["value"].to_list() == [1.0, 1.0]
    crossed = found.filter(pictures=100, metric="mig", other="sap").row(0, named=True)
    assert crossed["value"] == pytest.approx(stats.rank_correlation(column(frame, "mig"), column(again, "sap")))
    assert crossed["n"] == 6 * SEEDS
    (_, lacking) = make_tables(frame, ["stability"])
    assert "sober score DIR --pictures 10000 --seed 1" in lacking["stability"]


# What metrics found beside their numbers.


def some_scores(level: float) -> Scores:
    scores = Scores()
    scores.factors = ("x", "y")
    scores.parts = {
        "mi": {"merge_thresholds": np.array([[1.0, level], [level, 1.0]]), "large": np.zeros(5_000)},
        "dci": {
            "completeness_per_factor": np.array([0.25, level]),
            "disentanglement_per_latent": np.array([0.5, 1, 0]),
        },
    }
    scores.settings = {"mi": {"bins": 20}, "dci": {"trees": "forest"}}
    return scores


@pytest.fixture
def with_parts(tmp_path: Path) -> tuple[pl.DataFrame, Path]:
    frame = results(noise(), metrics=("mig",), worlds=("blocks",), seeds=1)
    for number, run in enumerate(frame["run"].unique().sort()):
        save_parts(tmp_path, run, some_scores(number / 10))
    return frame, tmp_path


def test_thresholds_are_averaged_over_models(with_parts: tuple[pl.DataFrame, Path]) -> None:
    frame, folder = with_parts
    found = merge_thresholds(as_runs(frame, folder=folder))
    (row,) = found.iter_rows(named=True)
    assert (row["world"], row["matrix"], row["factor"], row["other"]) == ("blocks", "mi", "x", "y")
    expected = stats.mean_interval([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert make_tables(as_runs(frame), ["merge_thresholds"])[1] == {
        "merge_thresholds": "needs matrices of the unified scores, in the folder's matrices/"
    }
    assert (row["n"], row["value"], row["low"], row["high"]) == (
        6,
        *(pytest.approx(each, abs=1e-6) for each in expected),
    )


def test_parts_by_latent_and_by_factor_become_rows(with_parts: tuple[pl.DataFrame, Path]) -> None:
    frame, folder = with_parts
    found = scores_by_variable(as_runs(frame, folder=folder))
    one = found.filter(method="beta_vae", setting="beta_vae beta=4")
    assert one.select("metric", "quantity", "variable").rows() == [
        *(("dci", "completeness", name) for name in ("x", "y")),
        *(("dci", "disentanglement", name) for name in ("c0", "c1", "c2")),
    ]
    assert one["value"].to_list() == pytest.approx([0.25, 0.1, 0.5, 1, 0])
    assert set(one["settings"]) == {""}  # the folder has no other
    again = some_scores(0.9)
    again.settings["dci"] = {"trees": "lasso", "folds": 5}
    save_parts(folder, frame["run"][0], again)
    both = scores_by_variable(as_runs(frame, folder=folder))
    assert set(both["settings"]) == {"trees=forest", "folds=5 trees=lasso"}


def test_parts_under_other_settings_stand_beside_those_that_are_there(with_parts: tuple[pl.DataFrame, Path]) -> None:
    frame, folder = with_parts
    run = frame["run"][0]
    again = some_scores(0.9)
    again.settings["dci"] = {"trees": "lasso"}
    save_parts(folder, run, again)
    by_settings = {(each.metric, each.settings): each for each in load_parts(folder, run)}
    assert {key for key in by_settings if key[0] == "dci"} == {
        ("dci", '{"trees": "forest"}'),
        ("dci", '{"trees": "lasso"}'),
    }
    assert "large" not in by_settings["mi", '{"bins": 20.0}'].parts
    assert by_settings["dci", '{"trees": "lasso"}'].factors == ("x", "y")
    assert list(load_parts(folder, "unknown")) == []


def test_scoring_models_keeps_the_parts_of_every_one(tmp_path: Path) -> None:
    results_of = train(small_runs(sweep={"beta": [1, 4]}, seeds=2), BLOCKS, tmp_path / "runs")
    results_of.score(["mi"], pictures=500)
    made, lacking = results_of.tables(["merge_thresholds"])
    assert not lacking
    frame = made[0].frame
    assert set(frame["n"]) == {4}
    assert len(frame) == 6  # pairs of four blocks
    run = results_of.runs[0]
    (mi,) = load_parts(tmp_path / "runs", run.identity)
    assert mi.parts["matrix"].shape == (run.latents, 4)


def test_a_file_that_is_not_of_parts_is_left_alone(tmp_path: Path) -> None:
    from sober.errors import RequestError  # noqa: PLC0415

    path = parts_path(tmp_path, "abc")
    path.parent.mkdir()
    save_arrays(path, {"a": np.zeros(2)}, {"kind": "another"})
    with pytest.raises(RequestError, match="holds no parts of scores saved by Sober: move it elsewhere"):
        list(load_parts(tmp_path, "abc"))


def test_curves_are_means_over_the_runs_of_a_method(tmp_path: Path) -> None:
    frame = results(noise(), metrics=("mig",), worlds=("blocks",), seeds=1)
    (tmp_path / "models").mkdir()
    for number, run in enumerate(frame.filter(method="beta_vae")["run"].unique().sort()):
        arrays = {
            "curve.step": np.array([1, 10, 20]),
            "curve.capacity": np.array([0.0, 1, 2]) * number,
            "w": np.zeros(3),
        }
        save_arrays(tmp_path / "models" / f"{run}.safetensors", arrays, {})
    found = training_curves(as_runs(frame, folder=tmp_path))
    assert found.select("method", "term", "step", "n").rows() == [("beta_vae", "capacity", s, 3) for s in (1, 10, 20)]
    assert found["value"].to_list() == pytest.approx([0, 1, 2])
    assert (found["high"] - found["value"]).to_list() == pytest.approx([0, np.std([0, 1, 2]), 2 * np.std([0, 1, 2])])
    assert training_curves(as_runs(frame)).is_empty()


# Figures.


def test_every_figure_of_the_list_is_drawn_from_results_that_hold_everything(tmp_path: Path) -> None:
    tc = "gaussian_total_correlation"
    names = ("mig", "sap", "mi/mig", "mi/sap", "udr", tc, f"{tc}_sampled", "explicitness")
    rng = np.random.default_rng(0)
    frame = results(lambda *of: rng.uniform(0.1, 1), metrics=names)
    frame = frame.with_columns(kind=pl.when(metric="explicitness").then(pl.lit("task")).otherwise("kind"))
    for run in frame["run"].unique():
        save_parts(tmp_path, run, some_scores(0.5))
        save_parts(tmp_path, run, with_a_curve([0.3, 0.6]))
        (tmp_path / "models").mkdir(exist_ok=True)
        arrays = {"curve.step": np.arange(3), "curve.loss": np.arange(3.0)}
        save_arrays(tmp_path / "models" / f"{run}.safetensors", arrays, {})
    again = frame.filter(metric="mig").with_columns(draw=pl.lit(1), value=pl.col("value") + 0.1)
    runs = as_runs(pl.concat([frame, again], how="vertical_relaxed"), folder=tmp_path)
    made, _ = make_tables(runs, resamples=10)
    figures = {figure.name: figure for figure in drawable(runs, made)}
    assert {*figures} == {*FIGURES}
    points = figures["metric_pairs"].panels["blocks", "mig · sap"]
    part = runs.where(runs.run_column("world") == "blocks")
    assert [[point["x"], point["y"]] for point in points] == part.number_columns(["mig", "sap"]).tolist()
    assert {*figures["worlds_pairs"].panels} == {(name, "blocks · dsprites") for name in ("mig", "sap")}
    assert all(min(point["x"], point["y"]) > 0 for rows in figures["samples_pairs"].panels.values() for point in rows)
    cells = figures["merge_thresholds"].panels["blocks", "mi"]
    assert [(cell["row"], cell["column"], cell["text"]) for cell in cells] == [("x", "y", "0.50"), ("y", "x", "0.50")]
    assert {*figures["task_pairs"].panels} == {
        (world, f"{name} · explicitness") for world in ("blocks", "dsprites") for name in ("mig", "sap", "udr")
    }
    assert {row["group"] for row in figures["tasks_by_group"].panels["blocks", "mig"]} == {"low", "middle", "high"}
    means = figures["means"].panels["blocks", "mig"]
    assert len(means) == 6
    assert {row["place"] for row in means} == {1, 2, 3}


def test_mixed_codes_stay_in_the_range_of_each_latent() -> None:
    mean = np.array([[0.0, 5.0], [1.0, 7.0], [0.5, 6.0]], np.float32)
    codes = _mixed(mean, seed=0)
    assert codes.shape == (12, 2)
    assert (codes >= mean.min(axis=0)).all()
    assert (codes <= mean.max(axis=0)).all()
    assert abs(np.corrcoef(codes.T)[0, 1]) < 0.9  # though the two latents of pictures go together
