"""What papers leave open and their public code shows, and where text and code differ: sweeps, settings and studies."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import polars as pl
import pytest

from families import BLOCKS, small_runs
from rows import complete
from sober.criteria import find_criterion
from sober.methods import METHODS
from sober.methods.method import Setup, State, Terms
from sober.methods.settings import setting
from sober.nets import NETS, Compute
from sober.requests.study.makeable import makeable
from sober.requests.study.plan import plan
from sober.requests.study.study import Study, find_study
from sober.results import as_runs
from sober.results.paper_check.paper_numbers import compare
from sober.results.table_rows import run_row, settings_text
from sober.results.tables.means import best_and_mean_strength
from sober.types import Run
from test_tables import results

# Two readings of the DAVA paper's baselines: the KL summed over latents as written, or its mean as published.

LATENTS, BATCH = 4, 16
BASELINES = ("beta_tcvae", "factor_vae", "control_vae")


def one_step(method: str, before: State | None = None, **hyper: float | str) -> tuple[State, Terms]:
    """A step of plain gradient descent on fixed pictures."""
    setup = Setup(NETS["small"], (16, 16, 1), LATENTS, BATCH, 4096, Compute(jnp.dtype("float32")), optax.sgd(1e-3))
    settings = METHODS[method].complete(METHODS[method].settings(hyper))
    images = jnp.asarray(BLOCKS.render(np.arange(0, 4096, 4096 // BATCH)) / 255, jnp.float32)
    state = METHODS[method].init(setup, jax.random.key(0), settings) if before is None else before
    return METHODS[method].update(setup, state, lambda _: images, jax.random.key(1), jnp.int32(0), settings)


@pytest.mark.parametrize("method", BASELINES)
def test_readings_are_settings_and_the_written_one_is_the_default(method: str) -> None:
    written, published = small_runs(method, {"reading": ["as_written", "as_published"]}, seeds=1)
    assert written == small_runs(method, seeds=1)[0]  # so earlier runs keep their identities
    assert "reading=as_published" in setting(published)
    assert METHODS[method].sweep("dava_as_published") == {**METHODS[method].sweep("dava"), "reading": ("as_published",)}


def test_beta_tcvae_as_published_takes_the_mean_kl_and_the_rest_of_its_weights() -> None:
    _, terms = one_step("beta_tcvae", beta=6.0, alpha=3.0, gamma=2.0, reading="as_published")
    extra = 2 * terms["mutual_information"] + 5 * terms["total_correlation"] + terms["dimension_wise_kl"]
    np.testing.assert_allclose(terms["loss"], terms["reconstruction"] + terms["kl"] / LATENTS + extra, rtol=1e-5)


def test_factor_vae_as_published_takes_the_mean_kl() -> None:
    _, terms = one_step("factor_vae", gamma=7.0, reading="as_published")
    expected = terms["reconstruction"] + terms["kl"] / LATENTS + 7 * terms["total_correlation"]
    np.testing.assert_allclose(terms["loss"], expected, rtol=1e-5)


def test_control_vae_as_published_compares_the_mean_kl_with_its_target() -> None:
    state, terms = one_step("control_vae", target=18.0, start=18.0, ki=0.1, reading="as_published")
    np.testing.assert_allclose(
        terms["loss"], terms["reconstruction"] + terms["kl"] / LATENTS, rtol=1e-5
    )  # β is 1 at first
    # A KL between the target and the target for each latent: as written the controller acts, as published it does not.
    bias = state.model.encoder.layers[-1].bias
    wide = jax.tree.map(lambda leaf: jnp.full_like(leaf, 3.0) if leaf is bias else leaf, state)
    acting, seen = one_step("control_vae", wide, target=18.0, start=18.0, ki=0.1)
    resting, _ = one_step("control_vae", wide, target=18.0, start=18.0, ki=0.1, reading="as_published")
    assert 18 < seen["kl"] < 18 * LATENTS
    assert acting.memory.integral > 0
    assert resting.memory.integral == 0


def test_dava_as_published_is_its_reference() -> None:
    (variant,) = METHODS["dava"].sweep("dava_as_published")["variant"]
    assert variant == "reference"
    assert Run("blocks", "dava", METHODS["dava"].settings({"variant": variant})).hyper["variant"] == "reference"


# The DCI paper.


def test_nets_of_the_dci_study_train_for_50_epochs_with_the_adam_of_its_code() -> None:
    runs = plan(find_study("dci")[0]).runs.values()
    steps = {run.method: run.steps for run in runs}
    assert steps == {"pca": 20, "vae": 111_650, "beta_vae": 111_650, "info_gan": 22_300}
    for run in runs:
        if run.method != "pca":
            assert (run.optimiser.b1, run.optimiser.b2, run.optimiser.learning_rate) == (0.0, 0.9, 1e-4)
    assert {run.hyper.get("critic_b1") for run in runs if run.method == "info_gan"} == {0.0}
    assert {run.hyper.get("standardise") for run in runs if run.method == "pca"} == {True}


# The studies of PIPE and DAVA.


@pytest.mark.parametrize("name", ["pipe", "dava"])
def test_udr_there_is_among_the_seeds_of_a_setting(name: str) -> None:
    study, _ = find_study(name)
    assert dict(study.asked)["udr"] == {"among": "settings"}


def test_abstract_reasoning_of_the_pipe_study_is_hard_as_in_the_paper_and_easy_as_in_its_code() -> None:
    study, _ = find_study("pipe")
    assert study.asked_tasks == (("abstract_reasoning", {}), ("abstract_reasoning", {"questions": "easy"}))


def test_a_study_asks_for_the_other_reading_and_the_table_of_both_names_them() -> None:
    """One folder may hold both readings, as after `sober merge`: each has its own best strength."""
    rows = []
    for name in ("dava", "dava_as_published"):
        study = find_study(name)[0]
        few = dataclasses.replace(study, products=[dataclasses.replace(study.products[0], seeds=2, worlds=["blocks"])])
        runs = plan(few).runs
        rows += [
            {**run_row(run, runs, setting), "metric": metric, "value": 0.1 * k + 0.01 * runs[run].seed}
            for k, run in enumerate(runs)
            for metric in ("mig", "factor_vae", "pipe", *["pipe_reference"] * (name == "dava_as_published"))
        ]
    table = best_and_mean_strength(as_runs(complete(pl.DataFrame(rows, infer_schema_length=None))))
    readings = {row["method"]: set() for row in table.iter_rows(named=True)}
    for row in table.iter_rows(named=True):
        readings[row["method"]].add(row["reading"])
        assert (
            row["setting"] == "all"
            or ("as_published" in row["setting"] or "reference" in row["setting"]) == (row["reading"] == "as_published")
            or row["method"] == "annealed_vae"
        )
    assert readings == {
        **{method: {"as_written", "as_published"} for method in (*BASELINES, "dava")},
        "annealed_vae": {"as_written"},  # text and code agree
    }


def test_a_plan_of_the_other_reading_says_what_it_makes_of_the_paper() -> None:
    written, published = (
        [item.name for item, _ in makeable(plan(find_study(name)[0].scaled("tiny")))]
        for name in ("dava", "dava_as_published")
    )
    assert published == written
    assert "Table 10" in written


def test_a_study_may_ask_for_udr_as_in_the_public_implementation_beside_that_of_the_paper() -> None:
    asked = Study("s", "t", "p", [], criteria=["udr", ("udr", {"preset": "reference"})]).measure.criteria
    configured = [find_criterion(name).configured(settings) for name, settings in asked]
    assert [settings.get("preset") for settings in configured] == [None, "reference"]
    assert len({settings_text(settings) for settings in configured}) == 2  # rows of their own


def test_levels_of_pipe_are_compared_in_the_version_of_the_authors_code() -> None:
    def value(world: str, method: str, strength: float, seed: int, metric: str) -> float:
        return {"pipe": 0.1, "pipe_reference": 0.5}.get(metric, 0.3) + 0.01 * seed

    for metrics, ours, note in (
        (("mig", "pipe"), 0.1, "ours is stricter: pipe_reference has the paper's levels"),
        (("mig", "pipe", "pipe_reference"), 0.5, "ours is pipe_reference"),
    ):
        frame = results(value, metrics=metrics, worlds=("shapes3d",))
        beside, _, _ = compare(as_runs(frame), "dava", ["Table 9"], resamples=10)
        [row] = [row for row in beside if row.what == "shapes3d, factor_vae, best, pipe"]
        assert row.note == note
        assert row.ours == pytest.approx(ours, abs=0.05)
