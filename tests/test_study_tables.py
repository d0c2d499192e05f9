"""Every shipped study: the tables that its paper's items promise hold every method that the items name."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import polars as pl
import pytest

import sober
from rows import complete
from sober.criteria import find_criterion
from sober.methods.settings import setting
from sober.metrics.common.inputs import as_codes
from sober.report.figures import _places, drawable
from sober.report.people_words import PeopleWords
from sober.requests.study.makeable import makeable
from sober.requests.study.plan import plan
from sober.requests.study.study import find_study
from sober.results import Runs, as_runs, make_tables
from sober.results.paper_check.checklist import Item, find_paper, items
from sober.results.table_rows import run_row, settings_text
from sober.types import NamedSettings

PROMISED = [item for item in items() if item.state == "made" and item.table and item.needs.methods]
SWEPT = [item for item in items() if item.state == "made" and item.needs.strengths > 1]
OF_STRENGTHS = {"means_correlation", "strength_trends"}  # tables of the runs that have a strength
SEEDS = 2


@functools.cache
def runs_of(study_name: str) -> Runs:
    """Random scores of every run of a study with two seeds: every score and criterion that its paper's items name."""
    study, _ = find_study(study_name)
    few = [dataclasses.replace(product, seeds=min(product.seeds, SEEDS)) for product in study.products]
    planned = plan(dataclasses.replace(study, products=few)).runs
    needs = [item.needs for item in items() if item.made_by == study_name]
    names = sorted({name for need in needs for name in (*need.scores, *need.criteria)})
    rng = np.random.default_rng(0)
    rows = [
        {**run_row(run, planned, setting), "metric": name, "value": rng.normal()} for run in planned for name in names
    ]
    return as_runs(complete(pl.DataFrame(rows, infer_schema_length=None)))


@functools.cache
def methods_in(study_name: str, table: str) -> set[str] | None:
    """The methods in a table of a study, each without what a sweep's name adds; None if it has no such column."""
    made, _ = make_tables(runs_of(study_name), [table], resamples=2)
    if not made or "method" not in made[0].frame.columns:
        return None
    return {name.split()[0] for name in made[0].frame["method"]}


@pytest.mark.parametrize("item", PROMISED, ids=lambda item: f"{item.paper} {item.name}")
def test_a_promised_table_holds_every_method_that_it_names(item: Item) -> None:
    methods = methods_in(item.made_by, item.table)
    assert methods is not None or item.table not in OF_STRENGTHS
    if methods is not None:
        assert methods >= {*item.needs.methods}


@pytest.mark.parametrize("item", SWEPT, ids=lambda item: f"{item.paper} {item.name}")
def test_every_method_of_an_item_along_strengths_has_them_in_one_sweep(item: Item) -> None:
    runs = runs_of(item.made_by)
    for method in item.needs.methods:
        main = runs.run_frame.filter(method=method, sweep=method)
        assert main["strength"].n_unique() >= item.needs.strengths, method
        assert main["strength"].null_count() == 0


def test_a_sweep_with_another_setting_has_a_row_and_a_line_of_its_own() -> None:
    runs = runs_of("beta_tcvae")
    (table,), _ = make_tables(runs, ["means_correlation"], resamples=2)
    sprites = table.frame.filter(pl.col("world").str.starts_with("dsprites"))
    points = dict(sprites.select("method", "n").iter_rows())
    assert points == {
        **dict.fromkeys(("beta_vae", "beta_tcvae"), 10),
        **dict.fromkeys(("beta_tcvae alpha=0", "beta_tcvae estimator=stratified", "beta_tcvae prior=flow"), 5),
        "factor_vae": 5,
    }
    lines = _places(runs).filter(pl.col("world").str.starts_with("dsprites")).group_by("method").len()
    assert dict(lines.iter_rows()) == points


def test_sweeps_have_names_for_people_in_tables_and_legends() -> None:
    runs = runs_of("beta_tcvae")
    planned = plan(find_study("beta_tcvae")[0]).runs
    rows = [{**run_row(run, planned, setting), "metric": "mig", "value": 0.5} for run in runs.run_column("run")]
    words = PeopleWords.of(runs, complete(pl.DataFrame(rows, infer_schema_length=None)))
    legend = set(words.in_runs(runs).unique("sweep"))
    assert {"β-TCVAE", "β-TCVAE, α = 0", "β-TCVAE, estimator = stratified", "β-TCVAE, batch = 64"} <= legend
    assert not [name for name in legend if "_" in name or "conv" in name]
    [table], _ = make_tables(runs, ["strength_trends"], resamples=2)
    assert set(words.in_table(table).frame["method"]) <= legend


def test_versions_of_a_criterion_are_named_by_what_tells_them_apart() -> None:
    """The number of partners goes with `among`: it need not be named."""
    study, _ = find_study("udr")
    versions = [*study.asked, NamedSettings("udr", {"preset": "reference"})]
    texts = [settings_text(find_criterion(name).configured(settings)) for name, settings in versions]
    frame = pl.concat(rows_of_strengths("mig", "udr").filter(metric="udr").with_columns(settings=pl.lit(text))
                      for text in texts)  # fmt: skip
    words = PeopleWords.of(as_runs(frame), frame).numbers
    assert sorted(words.values()) == [
        "UDR (among = all, preset = reference, similarity = lasso)",
        *(f"UDR (among = {among}, similarity = {similarity})"
          for among in ("methods", "settings") for similarity in ("lasso", "spearman")),
    ]  # fmt: skip


def test_every_figure_of_a_study_with_several_sweeps_can_be_drawn() -> None:
    """The heat map of trends has a column for each sweep, and once it knew methods alone."""
    runs = runs_of("beta_tcvae")
    made, _ = make_tables(runs, ["leaderboard", "strength_trends", "means_by_setting"], resamples=2)
    trends = next(figure for figure in drawable(runs, made) if figure.name == "strength_trends")
    columns = {cell["column"] for cells in trends.panels.values() for cell in cells}
    assert {"beta_vae", "beta_tcvae", "beta_tcvae alpha=0"} <= columns


def test_where_two_numbers_vary_alike_there_is_no_strength() -> None:
    runs = runs_of("beta_tcvae")
    rows = [
        {"run": f"{a}{b}{seed}", "world": "blocks", "method": "beta_tcvae", "seed": seed, "metric": "mig", "value": 0.5,
         "hyper_alpha": float(a), "hyper_beta": float(b), "setting": f"beta_tcvae alpha={a} beta={b}"}
        for a in (0, 1) for b in (1, 4) for seed in range(2)
    ]  # fmt: skip
    grid = as_runs(complete(pl.DataFrame(rows)))
    assert grid.run_frame["strength"].null_count() == len(rows)
    assert set(grid.run_frame["sweep"]) == {"beta_tcvae"}
    assert runs.run_frame.filter(method="beta_tcvae")["strength"].null_count() == 0


def test_a_small_study_keeps_the_doubled_steps_of_factor_vae() -> None:
    study, _ = find_study("beta_tcvae")
    steps = {name: {product.training.steps for product in study.scaled("small").products if name in product.methods}
             for name in ("beta_tcvae", "factor_vae")}  # fmt: skip
    assert steps == {"beta_tcvae": {4_000}, "factor_vae": {8_000}}


def test_small_models_of_the_dci_study_see_as_many_pictures_as_each_other_as_in_full() -> None:
    """A step of InfoGAN takes five batches."""
    study, _ = find_study("dci")
    for scaled in (study, study.scaled("small")):
        steps = {name: product.training.steps for product in scaled.products for name in product.methods}
        assert steps["vae"] == steps["beta_vae"] == pytest.approx(5 * steps["info_gan"], rel=0.002)


def test_figure_5_of_beta_tcvae_can_be_made_of_heads_and_says_so() -> None:
    planned = plan(find_study("beta_tcvae")[0].scaled("heads"))
    assert not planned.missing
    assert len(planned.runs) == 4 * 30
    assert set(planned.request.worlds.values()) == {f"heads | joint azimuth elevation {name}" for name in "ABCD"}
    assert planned.study.scale.count("heads in place of faces3d") == 1
    verdicts = {item.name: verdict for item, verdict in makeable(planned)}
    assert verdicts["Figure 5"] == ("in part", "heads in place of faces3d")


def rows_of_strengths(*numbers: str) -> pl.DataFrame:
    """Random numbers of β-VAEs and β-TCVAEs at three strengths with six seeds."""
    sweeps = [
        sober.grid(sober.world("blocks"), name, {"beta": [1.0, 4.0, 16.0]}, seeds=6)
        for name in ("beta_vae", "beta_tcvae")
    ]
    runs = {run.identity: run for sweep in sweeps for run in sweep}
    rng = np.random.default_rng(0)
    rows = [
        {**run_row(run, runs, setting), "metric": name, "value": rng.uniform(0.01, 1)}
        for run in runs
        for name in numbers
    ]
    return complete(pl.DataFrame(rows, infer_schema_length=None))


def test_figure_4_of_beta_tcvae_has_a_logarithmic_axis_for_the_total_correlation() -> None:
    runs = as_runs(rows_of_strengths("mig", "aggregate_total_correlation", "udr"))
    made, _ = make_tables(runs, resamples=2)
    figures = {figure.name: figure for figure in drawable(runs, made)}
    assert {key[1] for key in figures["strength_log_pairs"].panels} == {"aggregate_total_correlation · mig"}
    assert {key[1] for key in figures["strength_pairs"].panels} == {"udr · mig"}
    for name, scale in (("strength_log_pairs", "log"), ("strength_pairs", None)):
        chart = figures[name].chart(charts_data()).to_dict()
        assert chart["layer"][0]["encoding"]["x"]["scale"].get("type") == scale


def test_settings_stand_in_the_order_of_strengths_and_methods_without_one_stand_with_them() -> None:
    """Figure 6 of the Sober Look. The median falls with the strength, so that the best first is another order."""
    gan = sober.grid(sober.world("blocks"), "info_gan", {}, seeds=6)
    sweeps = [sober.grid(sober.world("blocks"), name, {"beta": [16.0, 1.0, 4.0]}, seeds=6)
              for name in ("beta_vae", "beta_tcvae")]  # fmt: skip
    runs = {run.identity: run for run in (*gan, *sweeps[0], *sweeps[1])}
    rows = [
        {**run_row(run, runs, setting), "metric": "mig", "value": runs[run].hyper.get("beta", 2.0) / 20} for run in runs
    ]
    frame = as_runs(complete(pl.DataFrame(rows, infer_schema_length=None)))
    made, _ = make_tables(frame, ["leaderboard"], resamples=2)
    figures = {figure.name: figure for figure in drawable(frame, made)}
    shown = {
        name: [row["setting"] for row in figures[name].panels["blocks", "mig"] if row["part"] == "summary"]
        for name in ("settings", "settings_in_order")
    }
    assert [name.split()[-1] for name in shown["settings_in_order"]] == [
        *["beta=1", "beta=4", "beta=16"] * 2,
        "information=6",
    ]
    assert shown["settings"][0].endswith("beta=16")


def charts_data() -> Any:
    import altair as alt  # noqa: PLC0415

    return alt.Data(values=[])


def test_disputed_runs_are_drawn_within_a_method_and_the_five_of_the_table_are_marked() -> None:
    """Figures S12 to S14 of Chen et al. are among β-VAEs."""
    runs = as_runs(rows_of_strengths("mig", "beta_vae"))
    made, _ = make_tables(runs, ["disputed"], resamples=2)
    figure = next(figure for figure in drawable(runs, made) if figure.name == "disputed_pairs")
    points = figure.panels["blocks", "beta_vae", "mig · beta_vae"]
    assert len(points) == 18
    assert all(point["setting"].startswith("beta_vae") for point in points)
    table = made[0].frame.filter(method="beta_vae", metric="beta_vae", other="mig")
    marked = {(point["setting"], point["seed"]): int(point["place"]) for point in points if point["place"]}
    assert marked == {(row["setting"], row["seed"]): row["place"] for row in table.iter_rows(named=True)}
    assert len(marked) == 5


def test_a_shifted_term_of_the_loss_is_not_shown_as_total_correlation() -> None:
    """Minibatch-weighted sampling: 5.79 in place of 0.24 where a batch holds all pictures."""
    runs = as_runs(rows_of_strengths("mig", "train_total_correlation"))
    words = PeopleWords.of(runs, rows_of_strengths("mig", "train_total_correlation"))
    assert words.numbers["train_total_correlation"] == "total correlation term of the loss in training"


def test_scales_of_the_sober_look_study_train_alike() -> None:
    study, _ = find_study("sober_look")
    small, drawn = (study.scaled(scale).products[0].training for scale in ("small", "drawn"))
    assert small.steps * small.optimiser.learning_rate == drawn.steps * drawn.optimiser.learning_rate


def test_a_version_of_udr_among_all_settings_has_the_partners_of_60_models() -> None:
    study, _ = find_study("udr")
    assert {settings["among"]: settings["partners"] for _, settings in study.asked} == {"settings": 50, "methods": 59}


def test_what_two_items_say_in_python_can_be_done() -> None:
    """S5 of the β-TCVAE paper, and Figure 6 of the UDR paper: their commands, with codes of random models."""
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (300, 2))
    means = factors + 0.1 * rng.normal(size=(300, 2))
    codes = [as_codes(means, factors), as_codes(means[:, ::-1], factors)]
    command = find_paper("beta_tcvae").item("S5").command
    scored = eval(command, {"sober": sober, "codes": codes[0]})
    assert scored.settings["beta_vae"]["batch"] == 8
    statement, _, expression = find_paper("udr").item("Figure 6").command.partition("; ")
    names = {"codes": codes}
    exec(statement, names)
    similarity = eval(expression, names)
    assert {matrix.shape for matrix in similarity.values()} == {(2, 2)}
