"""The list of wanted results, and its reader in tools/."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import ROOT
from scripts import load_script
from sober.errors import RequestError

read_wanted = load_script(ROOT / "tools" / "wanted.py").read_wanted
STUDY = """
from sober import Adam, Product, Scale, Study, Training

STRENGTHS = {"beta": [1.0, 2.0, 4.0]}
TRAINING = Training(steps=4_000, latents=3, optimiser=Adam(1e-3))
study = Study(
    name="small",
    title="Two methods on blocks",
    paper="nobody's",
    products=[Product(["blocks"], {"beta_vae": STRENGTHS, "beta_tcvae": STRENGTHS, "vae": {}}, 3, TRAINING)],
    metrics=["mig"],
    criteria={"udr": {}, "elbo": {}},
)
"""
LIST = """
precision = "float32"
together = 2
metrics = ["mig", "sap", "modularity", "active_latents"]

[criteria]
udr = { among = "settings" }

[[entry]]
name = "small_blocks"
what = "two methods on blocks, hardly trained"
study = "STUDY"
methods = ["beta_vae", "beta_tcvae"]
strengths = 2
seeds = 2
steps = 60
batch = 16
pictures = 300
models = true
"""


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("list") / "wanted.toml"
    (path.parent / "small.py").write_text(STUDY)
    path.write_text(LIST.replace("STUDY", str(path.parent / "small.py")))
    return path


@pytest.fixture(scope="module")
def wanted() -> tuple:
    return read_wanted()


FOR_A_GPU = 25  # entries; those after them are for a CPU


def test_the_list_has_what_the_papers_have(wanted: tuple) -> None:
    counts = [(entry.name, len(entry.plan.runs)) for entry in wanted]
    assert counts == [
        ("sober_look_dsprites_100k", 180),
        ("sober_look_colour_30k", 360),
        ("udr_beta_vae_30k", 300),
        ("udr_20k", 360),
        ("dci_teapots_conv", 20),
        ("dci_teapots_resnet", 4),
        ("pipe_60k", 60),
        ("beta_tcvae_biased_256", 80),
        ("beta_tcvae_biased_256", 40),
        ("beta_tcvae_dsprites_4k", 120),
        ("beta_tcvae_others_8k", 50),
        ("beta_tcvae_others_8k", 10),
        ("beta_tcvae_variants_4k", 150),
        ("beta_tcvae_batches", 30),
        ("beta_tcvae_batches", 10),
        ("dava_abstract_30k", 125),
        ("dava_dsprites_30k", 250),
        ("sober_look_dsprites", 180),
        ("dava", 3 * 125),
        ("rooms", 50),
        ("sober_look_color", 180),
        ("beta_tcvae_dsprites", 100),
        ("beta_tcvae_biased", 120),
        ("dci_teapots", 20),
        ("sober_look_dsprites", 1800),
        ("dsprites_small_nets", 40),
        ("rooms_on_a_cpu", 3),
        ("abstract_dsprites_small_nets", 30),
    ]
    udr = [dict(settings) for name, settings in {entry.name: entry for entry in wanted}["udr_20k"].study.asked]
    assert {settings["among"] for settings in udr} == {"settings", "methods"}  # as the study asks
    steps = {entry.name: {run.steps for run in entry.plan.runs.values()} for entry in wanted}
    assert steps["sober_look_dsprites_100k"] == {100_000}
    assert steps["sober_look_dsprites"] == {300_000}
    assert steps["dava"] == steps["rooms"] == {150_000}
    for place, entry in enumerate(wanted):
        assert {run.precision for run in entry.plan.runs.values()} == {"bfloat16" if place < FOR_A_GPU else "float32"}
    by_name = {entry.name: entry for entry in wanted}
    assert {run.batch for run in by_name["dava"].plan.runs.values()} == {128}
    assert {run.nets for run in by_name["beta_tcvae_dsprites"].plan.runs.values()} == {"dense"}


def test_what_is_done_and_left_is_counted(wanted: tuple) -> None:
    by_name = {entry.name: entry for entry in wanted}
    assert len(by_name["dsprites_small_nets"].done()) == 40
    assert by_name["dsprites_small_nets"].gpu_hours_left() == 0
    assert not by_name["rooms"].done()
    assert by_name["rooms"].gpu_hours_left() > 0.1


def test_an_entry_may_say_what_its_study_says_otherwise(listed: Path) -> None:
    text = listed.read_text().replace('["beta_vae", "beta_tcvae"]', "{ beta_vae = { beta = [3] } }")
    text += 'precision = "bfloat16"\ncriteria = ["elbo"]\ntasks = { downstream = { largest = 1_000 } }\n'
    path = listed.with_name("otherwise.toml")
    path.write_text(text)
    (entry,) = read_wanted(path)
    own = entry.study.measure
    assert {run.precision for run in entry.plan.runs.values()} == {"bfloat16"}
    assert {(run.method, run.hyper["beta"]) for run in entry.plan.runs.values()} == {("beta_vae", 3.0)}
    assert [name for name, _ in own.criteria] == ["elbo"]
    assert [(name, dict(settings)["largest"]) for name, settings in own.tasks] == [("downstream", 1_000)]


def test_a_list_that_is_wrong_is_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "wanted.toml"
    for text, says in (
        ("precision = 3", "no list of wanted results"),
        (LIST.replace("steps = 60", "step = 60").replace("STUDY", "demo"), "small_blocks has no setting step"),
        (LIST.replace("STUDY", "demos"), "unknown study 'demos'"),
        (LIST.replace("STUDY", "demo").replace('"beta_tcvae"', '"tcvae"'), "demo has no method tcvae"),
    ):
        path.write_text(text)
        with pytest.raises(RequestError, match=says):
            read_wanted(path)
    with pytest.raises(RequestError, match="no list of wanted results"):
        read_wanted(tmp_path / "absent.toml")
