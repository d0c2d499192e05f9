"""Tables of studies: what is planted in the results is found, and nothing is lost in silence."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sober
from rows import complete
from sober.errors import RequestError
from sober.methods.settings import setting
from sober.results import TABLES, ResultTable, as_runs, latex, make_tables, markdown, stats, write_table
from sober.results.formats import escaped
from sober.results.judgement_files import PairScores
from sober.results.short_settings import short_settings
from sober.results.tables.agreement import (
    criteria_against_metrics,
    criteria_agreement,
    metric_agreement,
    unified_agreement,
    worlds_agreement,
)
from sober.results.tables.leaderboard import leaderboard
from sober.results.tables.means import means_by_setting
from sober.results.tables.strengths import means_against_samples, strength_trends
from sober.results.tables.table import QUESTIONS
from sober.results.tables.tables_within_methods import udr_by_partners
from sober.results.tables.transfer import transfer
from sober.results.tables.variance import objective_variance
from sober.types import Adam, Run

STRENGTHS = {"beta_vae": "beta", "factor_vae": "gamma"}
SEEDS = 6


def results(
    value: Callable[[str, str, float, int, str], float | None],
    metrics: tuple[str, ...] = ("mig", "sap"),
    worlds: tuple[str, ...] = ("blocks", "dsprites"),
    seeds: int = SEEDS,
    scale: str = "",
) -> pl.DataFrame:
    """Results of two methods at three strengths, as the store gives them, without those that are None."""
    rows = []
    runs = itertools.product(worlds, STRENGTHS, (1.0, 4.0, 16.0), range(seeds))
    for number, (world, method, strength, seed) in enumerate(runs):
        hyper = {f"hyper_{name}": strength if name == STRENGTHS[method] else None for name in STRENGTHS.values()}
        about = {"run": f"{number:016x}", "world": world, "method": method, "seed": seed, **hyper}
        about["setting"] = f"{method} {STRENGTHS[method]}={strength:g}"
        for metric in metrics:
            found = value(world, method, strength, seed, metric)
            if found is not None:
                rows.append({**about, "metric": metric, "value": float(found), "scale": scale})
    return complete(pl.DataFrame(rows, infer_schema_length=None))


def noise(seed: int = 0) -> Callable[..., float]:
    rng = np.random.default_rng(seed)
    return lambda *_: rng.normal()


def column(frame: pl.DataFrame, metric: str, world: str = "blocks") -> np.ndarray:
    """A metric's values in one world, in the order of runs."""
    return frame.filter(metric=metric, world=world).sort("run")["value"].to_numpy()


def flagged(frame: pl.DataFrame, where: pl.Expr, *flags: str) -> pl.DataFrame:
    return frame.with_columns(flags=pl.when(where).then(pl.lit(list(flags))).otherwise("flags"))


def diverged(frame: pl.DataFrame, *runs: str) -> pl.DataFrame:
    return flagged(frame, pl.col("run").is_in(runs), "few_rows", "diverged")


# Each table.


def test_metric_agreement_holds_the_rank_correlations_of_each_world() -> None:
    frame = results(noise(), metrics=("mig", "sap", "irs", "mi/mig", "udr", "gaussian_total_correlation"))
    found = metric_agreement(frame, resamples=20)
    assert sorted(found["metric"] + " " + found["other"]) == sorted(2 * ["irs mig", "irs sap", "mig sap"])
    for row in found.iter_rows(named=True):
        x, y = (column(frame, row[side], row["world"]) for side in ("metric", "other"))
        assert row["value"] == pytest.approx(stats.rank_correlation(x, y))
        assert row["low"] < row["value"] < row["high"]
        assert row["n"] == 6 * SEEDS


def test_criteria_are_compared_with_each_other() -> None:
    """Figures 3 and 18 of the DAVA paper."""
    frame = results(noise(), metrics=("mig", "udr", "pipe", "elbo"))
    found = criteria_agreement(frame, resamples=20)
    assert sorted(found["criterion"] + " " + found["other"]) == sorted(2 * ["elbo pipe", "elbo udr", "pipe udr"])
    for row in found.iter_rows(named=True):
        x, y = (column(frame, row[side], row["world"]) for side in ("criterion", "other"))
        assert row["value"] == pytest.approx(stats.rank_correlation(x, y))
        assert row["low"] < row["value"] < row["high"]
    assert criteria_agreement.lacking(as_runs(frame.filter(pl.col("metric").is_in(["mig", "udr"]))))


def test_the_interval_is_that_of_settings_drawn_again_and_then_their_seeds() -> None:
    frame = results(noise(), worlds=("blocks",))
    found = metric_agreement(frame, resamples=50, seed=3).row(0, named=True)
    pairs = np.column_stack([column(frame, "mig"), column(frame, "sap")])
    settings = as_runs(frame).run_column("setting")
    draws = [
        stats.rank_correlation(*np.repeat(pairs, counts, axis=0).T)
        for counts in stats.settings_then_seeds(settings, resamples=50, seed=3)
    ]
    assert found["value"] == pytest.approx(stats.rank_correlation(*pairs.T))
    assert [found["low"], found["high"]] == pytest.approx(np.quantile(draws, [0.025, 0.975]))


def test_criteria_are_all_that_needs_no_labels() -> None:
    truth = noise()
    kept: dict = {}

    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        quality = kept.setdefault((world, method, strength, seed), truth())
        return -quality if metric == "elbo" else quality

    names = ("mig", "udr", "elbo", "active_latents", "gaussian_total_correlation_sampled", "gbt/mig")
    found = criteria_against_metrics(results(value, metrics=names), resamples=20)
    assert set(found["metric"]) == {"mig"}
    assert set(found["criterion"]) == {*names} - {"mig", "gbt/mig"}
    for row in found.iter_rows(named=True):
        assert row["value"] == row["low"] == row["high"] == (-1 if row["criterion"] == "elbo" else 1)


def test_values_that_all_settings_have_or_all_of_one_method_are_said_once() -> None:
    fast = {"optimiser": Adam(2.0)}
    runs = [
        Run("blocks", "vae", {"c": 1}, steps=9, **fast),
        Run("blocks", "vae", {"c": 3}, steps=9, **fast),
        Run("blocks", "pca", {}, steps=9, **fast),
        Run("blocks", "dava", {}, steps=8, **fast),
    ]
    names, shared, _ = short_settings({run.identity: setting(run) for run in runs})
    assert [names[run.identity] for run in runs] == ["vae c=1", "vae c=3", "pca steps=9", "dava steps=8"]
    assert shared == {"": ("learning_rate=2",), "vae": ("steps=9",)}


def test_a_method_with_one_setting_of_many_values_is_named_by_the_first() -> None:
    many = dict.fromkeys("abcdef", 1)
    runs = [Run("blocks", "gan", many, seed=seed) for seed in range(2)] + [
        Run("blocks", "vae", {"c": c}) for c in (1, 3)
    ]
    names, shared, _ = short_settings({run.identity: setting(run) for run in runs})
    assert [names[run.identity] for run in runs] == ["gan a=1", "gan a=1", "vae c=1", "vae c=3"]
    assert shared == {"gan": ("b=1", "c=1", "d=1", "e=1", "f=1")}


def test_options_of_training_that_go_with_the_world_are_not_named() -> None:
    """Nets and steps by world, as in the study of β-TCVAE; strengths and hyperparameters are named."""
    nets = {"blocks": "dense", "rooms": "conv"}
    runs = [
        Run(world, "beta_tcvae", {"beta": beta}, nets=nets[world], steps=9 if world == "rooms" else 8, batch=batch)
        for world in nets
        for beta in (1, 4)
        for batch in (16, 32)
    ]
    runs += [Run(world, "beta_vae", {"beta": 2 + (world == "rooms")}, nets=nets[world]) for world in nets]
    labels, worlds = ({run.identity: value for run, value in zip(runs, values, strict=True)}
                      for values in ([setting(run) for run in runs], [run.world for run in runs]))  # fmt: skip
    names, _, by_world = short_settings(labels, worlds)
    assert [names[run.identity] for run in runs] == [
        *[f"beta_tcvae beta={beta} batch={batch}" for beta in (1, 4) for batch in (16, 32)] * 2,
        *("beta_vae beta=2", "beta_vae beta=3"),
    ]
    assert by_world["rooms", "beta_tcvae"] == ("steps=9",)  # conv are the usual nets
    assert by_world["blocks", "beta_tcvae"] == ("nets=dense", "steps=8")


def test_a_single_setting_is_said_whole() -> None:
    for seeds in (1, 2):
        runs = [Run("blocks", "vae", {"a": 1, "b": 1}, seed=seed) for seed in range(seeds)]
        names, shared, _ = short_settings({run.identity: setting(run) for run in runs})
        assert (set(names.values()), shared) == ({"vae a=1 b=1"}, {})


def test_what_methods_without_settings_of_their_own_share_is_said_once() -> None:
    runs = [Run("blocks", method, {}, steps=9) for method in ("vae", "pca")]
    names, shared, _ = short_settings({run.identity: setting(run) for run in runs})
    assert [*names.values()] == ["vae", "pca"]
    assert shared == {"": ("steps=9",)}


def test_worlds_agree_by_the_medians_of_their_settings() -> None:
    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        outlier = 100.0 if seed == 0 else 0.0  # moves no median
        turned = -1 if world == "rooms" else 1
        return turned * (strength + (method == "beta_vae")) + outlier + 0.01 * seed

    found = worlds_agreement(results(value, metrics=("mig",), worlds=("blocks", "dsprites", "rooms")), resamples=50)
    assert found["n"].to_list() == [6, 6, 6]
    for row in found.iter_rows(named=True):
        assert row["value"] == pytest.approx(-1 if "rooms" in (row["world"], row["other"]) else 1)


def test_the_method_explains_what_it_was_made_to_and_the_setting_the_rest() -> None:
    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        return (method == "beta_vae") + (strength == 4 if metric == "sap" else 0) * 1.0

    found = objective_variance(results(value), resamples=30).filter(world="blocks")
    share = {(row["metric"], row["by"]): row for row in found.iter_rows(named=True)}
    assert share["mig", "method"]["value"] == pytest.approx(1.0)
    assert share["sap", "setting"]["value"] == pytest.approx(1.0)
    assert share["sap", "method"]["value"] == pytest.approx(0.25 / (0.25 + 2 / 9))  # variances of the two halves
    assert share["sap", "method"]["groups"] == 2
    assert share["sap", "setting"]["groups"] == 6
    assert 0 <= share["sap", "method"]["low"] < share["sap", "method"]["value"] < share["sap", "method"]["high"] <= 1


def test_the_interval_of_a_share_is_centred_and_the_adjusted_share_is_less() -> None:
    frame = results(noise(), worlds=("blocks",), metrics=("mig",), seeds=3)
    found = objective_variance(frame, resamples=200, seed=5).filter(by="setting").row(0, named=True)
    table = np.column_stack([column(frame, "mig"), np.repeat(np.arange(6), 3)])
    expected = stats.bootstrap(
        lambda rows: stats.variance_explained(*rows.T), table, centred=True, resamples=200, seed=5
    )
    assert (found["value"], found["low"], found["high"]) == pytest.approx(np.clip(expected, 0, 1))
    assert found["adjusted"] == pytest.approx(1 - (1 - found["value"]) * 17 / 12)  # 18 runs in 6 settings


def test_a_setting_that_is_best_everywhere_transfers_and_a_lower_score_may_be_the_better_one() -> None:
    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        quality = strength + 0.1 * (method == "beta_vae")
        return -quality if metric == "dci_nrmse" else quality

    found = transfer(results(value, metrics=("mig", "dci_nrmse")), resamples=20)
    assert found.select("metric", "world").rows() == [
        *(("same", "same"), ("same", "different"), ("different", "same"), ("different", "different"))
    ]
    np.testing.assert_allclose(found["value"], 1.0)
    np.testing.assert_allclose(found["chance"], 7 / 12)
    within = transfer(results(value, metrics=("mig", "dci_nrmse"), worlds=("blocks",)), resamples=20)
    assert within.select("metric", "world").rows() == [("same", "same"), ("different", "same")]
    np.testing.assert_allclose(within["value"], 1.0)


def test_transfer_compares_settings_that_all_worlds_have() -> None:
    frame = results(noise())
    fewer = frame.filter(~((pl.col("world") == "dsprites") & (pl.col("setting") == "beta_vae beta=4")))
    everywhere = transfer(frame.filter(pl.col("setting") != "beta_vae beta=4"), resamples=20)
    assert transfer(fewer, resamples=20).equals(everywhere)


def test_means_are_compared_with_samples_run_by_run() -> None:
    tc = "gaussian_total_correlation"

    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        return 10 * seed + (strength if metric == tc else 0)

    found = means_against_samples(results(value, metrics=("mig", tc, f"{tc}_sampled")), resamples=20)
    assert len(found) == 12
    for row in found.iter_rows(named=True):
        assert row["value"] == row["low"] == row["high"] == row["strength"]
        assert (row["metric"], row["n"], row["higher"]) == (tc, SEEDS, 1.0)
        assert row["means"] - row["samples"] == row["strength"]


def test_trends_follow_the_hyperparameter_that_varies() -> None:
    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        return {"kl": -strength, "mig": seed}.get(metric, 1.0)

    found = strength_trends(results(value, metrics=("mig", "kl", "sap")), resamples=20)
    assert set(found.filter(metric="kl")["value"]) == {-1.0}
    assert set(found.filter(metric="mig")["value"]) == {0.0}
    constant = found.filter(metric="sap")
    assert len(constant) == 4
    assert constant.select("value", "low", "high").null_count().row(0) == (4, 4, 4)


def test_unified_scores_are_compared_with_those_that_share_a_part() -> None:
    frame = results(noise(), metrics=("mig", "sap", "mi/mig", "gbt/mig", "gbt/modularity"))
    found = unified_agreement(frame, resamples=20).filter(world="blocks")
    assert set(found.select("score", "other", "shared").rows()) == {
        ("gbt/mig", "gbt/modularity", "matrix gbt"),
        ("gbt/mig", "mi/mig", "rule mig"),
        ("gbt/mig", "mig", "rule mig"),
        ("mi/mig", "mig", "rule mig"),
    }


def test_the_leaderboard_has_the_best_setting_first_with_its_quartiles() -> None:
    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        return strength + (10 if method == "beta_vae" else 0) + seed

    frame = results(value, metrics=("mig", "dci_nrmse", "train_loss"), seeds=5)
    board = leaderboard(frame, resamples=50).filter(world="blocks")
    best = board.filter(metric="mig").row(0, named=True)
    assert best["setting"] == "beta_vae beta=16"
    assert [best[name] for name in ("lower", "value", "upper")] == [27, 28, 29]
    assert 26 <= best["low"] <= 28 <= best["high"] <= 30
    assert best["n"] == 5
    assert board.filter(metric="dci_nrmse")["setting"][0] == "factor_vae gamma=1"
    assert board.filter(metric="mig")["best"].sum() == pytest.approx(1.0)
    assert board.filter(metric="train_loss")["best"].null_count() == 6


# What is missing, and what went wrong.


def test_diverged_runs_are_counted_and_change_nothing_else() -> None:
    frame = results(noise())
    lost = frame["run"].unique().sort()[3]
    with_it, without = diverged(frame, lost), frame.filter(pl.col("run") != lost)
    names = [name for name in TABLES if TABLES[name].lacking(as_runs(frame)) is None]
    assert {"metric_agreement", "transfer", "leaderboard", "objective_variance", "worlds_agreement"} <= {*names}
    for name in names:
        one, other = (TABLES[name](each, resamples=20) for each in (with_it, without))
        assert one.drop("diverged", strict=False).equals(other.drop("diverged", strict=False)), name
    board = leaderboard(with_it, resamples=20).filter(metric="mig", world="blocks", setting="beta_vae beta=1")
    assert board.select("n", "flagged", "diverged").row(0) == (SEEDS - 1, 0, 1)


def test_a_number_that_is_not_finite_is_a_run_that_diverged() -> None:
    frame = results(noise())
    broken = frame.with_columns(value=pl.when(pl.int_range(pl.len()) == 0).then(np.inf).otherwise("value"))
    assert as_runs(broken).run_column("diverged").sum() == 1
    assert metric_agreement(broken, resamples=20).equals(
        metric_agreement(diverged(frame, frame["run"][0]), resamples=20)
    )


def test_a_setting_of_which_all_runs_diverged_stays_on_the_board_last() -> None:
    frame = results(noise(), worlds=("blocks",))
    gone = frame.filter(setting="factor_vae gamma=4")["run"].unique()
    row = leaderboard(diverged(frame, *gone), resamples=20).filter(metric="mig").row(-1, named=True)
    assert (row["setting"], row["n"], row["diverged"]) == ("factor_vae gamma=4", 0, SEEDS)
    assert row["value"] is row["low"] is row["best"] is None


def test_flags_are_counted_and_their_numbers_kept() -> None:
    frame = results(noise(), worlds=("blocks",))
    mark = (pl.col("metric") == "mig") & (pl.col("seed") < 2)
    board = leaderboard(flagged(frame, mark, "collapsed"), resamples=20)
    assert set(board.filter(metric="mig")["flagged"]) == {2}
    assert set(board.filter(metric="sap")["flagged"]) == {0}
    assert set(board["n"]) == {SEEDS}


def test_runs_without_a_number_are_left_out_of_its_comparisons_only() -> None:
    values = noise()
    frame = results(
        lambda world, method, strength, seed, metric: None if (metric, seed) == ("sap", 0) else values(),
        metrics=("mig", "sap", "irs"),
    )
    n = {(row["metric"], row["other"]): row["n"] for row in metric_agreement(frame, resamples=20).iter_rows(named=True)}
    assert n == {("irs", "mig"): 36, ("irs", "sap"): 30, ("mig", "sap"): 30}
    assert set(leaderboard(frame, resamples=20).filter(metric="sap")["n"]) == {SEEDS - 1}


def test_presets_of_one_metric_are_told_apart() -> None:
    frame = results(noise(), metrics=("mig", "sap"))
    both = pl.concat([frame, frame.filter(metric="mig").with_columns(preset=pl.lit("paper"))])
    assert as_runs(both).names == ("mig [paper]", "mig [study]", "sap")


def test_settings_of_one_criterion_are_told_apart() -> None:
    frame = results(noise(), metrics=("mig", "udr"))
    common = {"among": "all", "partners": 50.0}

    def similarity(name: str, value: float, preset: str = "study") -> pl.DataFrame:
        settings = json.dumps({**common, "similarity": name}, sort_keys=True)
        rows = frame.filter(metric="udr")
        return rows.with_columns(settings=pl.lit(settings), value=pl.lit(value), preset=pl.lit(preset))

    both = pl.concat([frame.filter(metric="mig"), similarity("lasso", 0.1), similarity("spearman", 0.9)])
    runs = as_runs(both)
    assert runs.names == ("mig", "udr [similarity=lasso]", "udr [similarity=spearman]")
    assert runs.metrics() == ["mig"]
    assert runs.criteria() == runs.headline_criteria() == [*runs.names[1:]]
    for name, value in zip(runs.criteria(), (0.1, 0.9), strict=True):
        assert set(runs.number_columns([name])[:, 0]) == {value}
    found = criteria_against_metrics(both.filter(seed=0), resamples=20)
    assert set(found["criterion"]) == {*runs.criteria()}
    third = pl.concat([both, similarity("lasso", 0.5, "paper")])  # which has no other settings
    assert as_runs(third).names[1:] == (
        *("udr [paper]", "udr [study similarity=lasso]", "udr [study similarity=spearman]"),
    )


def test_a_setting_that_only_some_scores_know_tells_those_from_the_others() -> None:
    frame = results(noise(), metrics=("udr",))
    newer = frame.with_columns(settings=pl.lit('{"partners": 50.0}'))
    assert as_runs(pl.concat([frame, newer])).names == ("udr", "udr [partners=50]")


@pytest.mark.parametrize(
    ("column", "counts", "other"),
    [("pictures", 2000, 1000), ("repeats", 5, 1), ("models", 6, 3), ("draw", 0, 1)],
)
@pytest.mark.parametrize("first", [True, False])
def test_of_two_rows_of_a_score_one_counts(column: str, counts: int, other: int, first: bool) -> None:
    frame = results(noise(), worlds=("blocks",))
    two = [
        frame.with_columns(pl.lit(number).alias(column), value=pl.col("value") + away)
        for number, away in ((counts, 0.0), (other, 9.0))
    ]
    runs, alone = as_runs(pl.concat(two if first else two[::-1])), as_runs(frame)
    assert runs.names == alone.names == ("mig", "sap")
    np.testing.assert_array_equal(runs.values, alone.values)


def test_more_pictures_count_for_more_than_more_repeats_or_models() -> None:
    frame = results(noise(), worlds=("blocks",), metrics=("udr",))
    many = frame.with_columns(pictures=pl.lit(2000))
    often = frame.with_columns(pictures=pl.lit(1000), repeats=pl.lit(9), models=pl.lit(9), value=pl.lit(0.0))
    both = pl.concat([often, many], how="vertical_relaxed")
    np.testing.assert_array_equal(as_runs(both).values, as_runs(frame).values)


@pytest.mark.parametrize(("better", "leads"), [("higher", 16), ("lower", 1), ("neither", None)])
def test_a_metric_that_no_registry_knows_has_the_direction_that_its_rows_say(better: str, leads: float | None) -> None:
    frame = results(lambda world, method, strength, seed, metric: strength + 0.1 * seed, metrics=("mine",))
    said = frame.with_columns(better=pl.lit(better), supervised=pl.lit(True))
    runs = as_runs(said)
    assert runs.metrics() == ["mine"]
    assert runs.numbers["mine"].better == better
    assert runs.headline_metric() == (None if leads is None else "mine")
    best = leaderboard(said, resamples=20).filter(world="blocks").sort("best", descending=True, nulls_last=True)
    if leads is None:
        assert best["best"].null_count() == len(best)
    else:
        assert {setting.split("=")[1] for setting in best["setting"][:2]} == {str(leads)}


def test_a_row_is_believed_where_it_says_something_else_than_the_registry() -> None:
    frame = results(noise(), metrics=("mig", "udr"))
    turned = frame.with_columns(better=pl.lit("lower"), supervised=~pl.col("supervised"))
    runs = as_runs(turned)
    assert (runs.metrics(), runs.criteria()) == (["udr"], ["mig"])
    assert {number.sign for number in runs.numbers.values()} == {-1}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda frame: frame.drop("setting", "scale"), "scale, setting"),
        (lambda frame: frame.clear(), "no rows"),
        (lambda frame: frame.with_columns(seed=pl.lit(0)), "same world, setting and seed"),
    ],
)
def test_results_that_cannot_be_read_say_what_is_wrong(change: Callable, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        as_runs(change(results(noise())))


# All of them, and their files.


def test_every_table_is_made_or_says_what_it_needs() -> None:
    made, lacking = make_tables(results(noise(), worlds=("blocks",), metrics=("mig",)), resamples=20)
    assert {each.table.name for each in made} == {
        *("objective_variance", "variance_averages", "strength_trends", "leaderboard"),
        *("means_by_setting", "best_and_mean_strength"),
    }
    assert {*lacking} | {each.table.name for each in made} == {*TABLES}
    assert lacking["worlds_agreement"] == "needs at least two worlds"
    assert lacking["transfer"] == "needs at least two supervised metrics"
    assert "such as udr" in lacking["criteria_against_metrics"]


def test_results_that_hold_everything_make_every_table_with_numbers() -> None:
    names = ("mig", "sap", "mi/mig", "gbt/mig", "udr", "wasserstein_correlation", "wasserstein_correlation_sampled")
    frame = results(noise(), metrics=(*names, "explicitness"))
    frame = frame.with_columns(kind=pl.when(metric="explicitness").then(pl.lit("task")).otherwise("kind"))
    made, lacking = make_tables(frame, resamples=20)
    # Those need more than a row for each number.
    assert lacking.keys() == {"udr_by_partners", "stability", "merge_thresholds", "scores_by_variable", "task_curves"}
    assert [each.table.name for each in made] == [name for name in TABLES if name not in lacking]
    for each in made:
        if "low" not in each.frame.columns:  # of single runs
            assert len(each.frame)
            assert each.frame["value"].null_count() == 0
            continue
        numbers = each.frame.select("value", "low", "high")
        assert len(numbers)
        assert numbers.null_count().sum_horizontal().item() == 0
        assert each.frame.select((pl.col("low") <= pl.col("high")).all()).item()


def test_where_all_runs_diverged_no_table_is_made() -> None:
    frame = results(noise())
    made, lacking = make_tables(diverged(frame, *frame["run"].unique()), resamples=20)
    assert not made
    assert set(lacking.values()) == {"needs at least two runs that did not diverge: there are none"}


def test_a_world_of_which_all_runs_diverged_counts_as_none() -> None:
    frame = results(noise())
    gone = diverged(frame, *frame.filter(world="dsprites")["run"].unique())
    made, lacking = make_tables(gone, resamples=20)
    assert lacking["worlds_agreement"] == "needs at least two worlds"
    (worlds_compared,) = (set(each.frame["world"]) for each in made if each.table.name == "transfer")
    assert worlds_compared == {"same"}
    board = next(each.frame for each in made if each.table.name == "leaderboard")
    assert set(board.filter(world="dsprites")["diverged"]) == {SEEDS}


def test_a_caption_states_the_paper_the_scale_and_what_was_left_out() -> None:
    frame = diverged(results(noise(), scale="seeds 50 -> 6"), f"{0:016x}")
    (made,), _ = make_tables(frame, ["transfer"], resamples=1000)
    for part in (
        "Table 1",
        "72 runs",
        "1 diverged and is left out",
        "Scale: seeds 50 -> 6.",
        "seeds drawn again 1,000 times. They say what other seeds of the same settings would change.",
    ):
        assert part in made.caption
    (leaderboard,), _ = make_tables(results(noise()), ["leaderboard"], resamples=20)
    assert "none diverged. Scale: full study." in leaderboard.caption
    (agreement,), _ = make_tables(results(noise()), ["metric_agreement"], resamples=20)
    assert agreement.caption.endswith(
        "settings, and then seeds within them, drawn again 20 times. They say what other settings with other seeds "
        "would change."
    )


def test_a_table_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RequestError, match=r"no table novelty: docs/statistics\.md describes all tables"):
        make_tables(results(noise()), ["novelty"])


def test_every_table_is_named_after_its_function_and_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[1] / "docs" / "statistics.md").read_text()
    for name, table in TABLES.items():
        assert name == table.name == table.function.__name__
        assert f"`{name}`" in page, name


def test_earlier_names_still_work_and_warn() -> None:
    for earlier, now in (("Made", ResultTable), ("make", make_tables), ("write", write_table)):
        with pytest.warns(DeprecationWarning, match=f"sober.results.{earlier} is now called {now.__name__}"):
            assert getattr(sober.results, earlier) is now


def test_files_hold_the_same_table_and_its_caption(tmp_path: Path) -> None:
    frame = pl.DataFrame({"setting": ["β=4"], "n": [3], "value": [0.5]})
    paths = write_table(ResultTable(TABLES["transfer"], frame, "50% of β, at 1 → 2"), tmp_path / "new")
    assert [path.name for path in paths] == ["transfer.md", "transfer.tex", "transfer.parquet"]
    assert pl.read_parquet(paths[2]).equals(frame)
    assert pl.read_parquet_metadata(paths[2])["caption"] == "50% of β, at 1 → 2"
    assert "| β=4 | 3 | 0.500 |" in paths[0].read_text(encoding="utf-8")
    assert r"\caption{50\% of $\beta$, at 1 $\rightarrow$ 2}" in paths[1].read_text(encoding="ascii")


def test_markdown_has_numbers_to_the_right_and_a_dash_for_what_is_not_defined() -> None:
    frame = pl.DataFrame(
        {"metric": ["a|b"], "strength": [4.0], "value": [None], "kl": [12345.678]}, schema_overrides={"value": float}
    )
    assert markdown(frame, "Said.") == (
        "| metric | strength | value | kl |\n| --- | --: | --: | --: |\n| a\\|b | 4 | – | 1.235e+04 |\n\nSaid.\n"
    )


def test_latex_is_a_booktabs_table_that_cells_cannot_break() -> None:
    frame = pl.DataFrame({"dci_x": ["a & b % # $ {c} \\ ~ ^"], "n": [1], "low": [-0.5]})
    head, *_, last = latex(frame).strip().splitlines()
    assert (head, last) == (r"\begin{tabular}{lrr}", r"\end{tabular}")
    assert r"dci\_x & n & low \\" in latex(frame)
    assert r"a \& b \% \# \$ \{c\} \textbackslash{} \textasciitilde{} \textasciicircum{} & 1 & $-$0.500 \\" in latex(
        frame
    )
    assert latex(frame).count(r"\midrule") == latex(frame).count(r"\toprule") == latex(frame).count(r"\bottomrule") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("β ≥ Ω", r"$\beta$ \texttt{U+2265} $\Omega$"),
        ("Schölkopf", r"Sch\"{o}lkopf"),
        ("e\u0301", r"\'{e}"),
        ("3 × 2 – 1", r"3 $\times$ 2 -- 1"),
        ("世", r"\texttt{U+4E16}"),
        ("a < b", "a $<$ b"),
    ],
)
def test_text_beyond_ascii_is_spelt_out(text: str, expected: str) -> None:
    assert escaped(text) == expected
    assert escaped(text).isascii()


def test_udr_by_partners_agrees_better_the_more_there_are() -> None:
    frame = results(lambda world, method, strength, seed, metric: strength + 0.1 * seed, worlds=("blocks",))
    runs, rng = as_runs(frame), np.random.default_rng(0)
    names = tuple(runs.run_column("run"))
    quality = runs.number_columns(["mig"])[:, 0].argsort().argsort() / len(names)
    scores = [(i, j, quality[i] + rng.normal(0, 0.6)) for i in range(len(names)) for j in range(len(names)) if i != j]
    table = udr_by_partners(as_runs(frame, [PairScores("blocks", names, np.array(scores))]), resamples=40)
    found = table.filter(metric="mig", method="all").sort("partners")
    assert found["partners"].to_list() == [5, 10, 15, 20, 25, 30, len(names) - 1]
    assert found["value"].is_sorted()
    assert found["value"][-1] > 0.8
    assert found["high"][-1] - found["low"][-1] < 1e-9


def test_every_table_says_which_question_its_intervals_answer() -> None:
    assert all(table.drawn in QUESTIONS for table in TABLES.values() if table.drawn)


def test_intervals_of_criteria_end_where_their_range_ends() -> None:
    values = iter([0.99, 0.2, 0.98] * 12)
    found = means_by_setting(results(lambda *_: next(values), metrics=("udr", "pipe"), worlds=("blocks",), seeds=3))
    wide = found.filter(pl.col("metric").is_in(["udr", "pipe"]))
    assert len(wide)
    assert wide["low"].min() >= 0
    assert wide["high"].max() <= 1
