"""The command line, as a person uses it: exit status, one clear line, nothing harmed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import sober
from conftest import set_columns
from sober.cli import app, main
from sober.cli.console import bar
from sober.cli.overview import COMMANDS as OVERVIEW
from sober.criteria import CRITERIA
from sober.errors import RequestError
from sober.methods import METHODS
from sober.metrics import METRICS
from sober.nets import NETS
from sober.settings_text import parse_assignments
from sober.tasks import TASKS
from sober.training.progress import TrainingProgress
from sober.worlds import WORLDS

ROOT = Path(__file__).parents[1]
SMALL = ["--steps", "20", "--latents", "3", "--batch", "16"]  # as in families.py: one compilation serves all


def run(*arguments):
    """Exit status of a command line."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as leaving:
        return leaving.code
    return 0


def train_small(out, *more):
    return run("train", "blocks", "--set", "beta=1,4", "--seeds", 2, *SMALL, "--out", out, *more)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A family of four models, as the command leaves it."""
    folder = tmp_path_factory.mktemp("trained") / "family"
    assert train_small(folder) == 0
    return folder


@pytest.fixture
def family(trained, tmp_path, capsys):
    """A copy of the family, to write into."""
    capsys.readouterr()
    return shutil.copytree(trained, tmp_path / "family")


def test_train_encode_traverse(tmp_path, capsys):
    out = tmp_path / "family"
    assert train_small(out) == 0
    assert "4 models in" in capsys.readouterr().out
    assert len(sober.open(out).finished) == 4
    assert run("encode", out, "--pictures", 300) == 0
    assert len(list((out / "codes").iterdir())) == 4
    assert run("traverse", out) == 0
    picture = matplotlib.image.imread(out / "traversals.png")
    assert picture.shape[0] > 300
    assert picture.std() > 0.05
    assert train_small(out) == 0, "the same command again is no error"


def test_sample_is_the_old_name_of_pictures(family, capsys):
    for command in (("encode", family), ("score", family, "--metrics", "mig", "--json")):
        assert run(*command, "--sample", 300) == 0
        assert "--sample is now called --pictures" in capsys.readouterr().err
        assert run(*command, "--sample", 300, "--pictures", 300) == 2
        assert "give --pictures alone" in capsys.readouterr().err
    assert {path.stem.split("-", 1)[1] for path in (family / "codes").iterdir()} == {"0-300"}


def test_traverse_draws_the_models_it_is_told(family, tmp_path, capsys):
    first = sober.open(family).runs[0].identity
    assert run("traverse", family, "--runs", first[:8], "--out", tmp_path / "one.png") == 0
    assert run("traverse", family, "--runs", "zz") == 2
    assert "no run" in capsys.readouterr().err
    both = ",".join(each.identity[:8] for each in sober.open(family).runs[:2])
    assert run("traverse", family, "--runs", both, "--out", tmp_path / "two.png") == 0
    one, two = (matplotlib.image.imread(tmp_path / name) for name in ("one.png", "two.png"))
    assert two.shape[1] > 1.5 * one.shape[1]
    assert run("traverse", family, "--runs", first[:8], "--span", "3", "--out", tmp_path / "far.png") == 0
    assert (tmp_path / "far.png").exists()
    assert run("traverse", family, "--span", "0") == 2
    assert "--span must be a number above 0" in capsys.readouterr().err
    assert run("traverse", family, "--out", tmp_path / "one.png" / "below") == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["blocks", "dsprites"])
def test_worlds_are_listed_and_drawn(tmp_path, capsys, name):
    assert run("worlds") == 0
    assert name in capsys.readouterr().out
    assert run("worlds", "--show", name, "--out", tmp_path / "sheet.png") == 0
    assert matplotlib.image.imread(tmp_path / "sheet.png").std() > 0.1


def test_methods_are_listed(capsys):
    assert run("methods") == 0
    out = capsys.readouterr().out
    assert "beta_vae" in out
    assert "conv" in out
    assert run("methods", "factor_vae") == 0
    out = " ".join(capsys.readouterr().out.split())
    for part in ("gamma", "from 0", "sober_look: gamma=10,20,30,40,50,100", "Kim & Mnih"):
        assert part in out
    assert "beta_vae" not in out
    assert run("methods", "nonsense") == 2


def test_train_says_first_by_what_convolutions_are_computed(tmp_path, capsys):
    arguments = ["--nets", "conv", "--steps", 1, "--latents", 3, "--batch", 4, "--out", tmp_path / "out"]
    assert run("train", "blocks", *arguments) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert output.startswith("convolutions by plain layers: kernels are for a GPU")


def test_a_published_sweep_is_trained_by_name(tmp_path):
    common = ["blocks", "--method", "beta_vae", "--sweep", "sober_look", "--cohort", 2, *SMALL]
    assert run("train", *common, "--out", tmp_path / "family") == 0
    assert [run.hyper["beta"] for run in sober.open(tmp_path / "family").runs] == [1, 2, 4, 6, 8, 16]


def test_what_is_set_goes_before_the_sweep(tmp_path):
    common = ["--sweep", "dava", "--set", "c_max=7,8", *SMALL]
    assert run("train", "blocks", "--method", "annealed_vae", *common, "--out", tmp_path / "family") == 0
    runs = sober.open(tmp_path / "family").runs
    assert [run.hyper["c_max"] for run in runs] == [7, 8]
    assert {run.hyper["penalty"] for run in runs} == {"fourth"}


def test_a_method_without_reconstructions_is_listed(tmp_path, capsys):
    assert run("train", "blocks", "--method", "info_gan", *SMALL, "--out", tmp_path / "family") == 0
    assert "loss" in capsys.readouterr().out


COMMANDS = [[name] for name in app if not name.startswith("-")]
STUDY_COMMANDS = [["study", name] for name in app["study"] if not name.startswith("-")]


@pytest.mark.parametrize("command", [[], *COMMANDS, *STUDY_COMMANDS], ids=" ".join)
def test_help_has_an_example(capsys, command):
    assert run(*command, "--help") == 0
    out = capsys.readouterr().out
    assert "Usage: sober" in out
    if command:
        below = out.split("Usage")[1].split("\n", 1)[1]
        assert f"sober {' '.join(command)}" in " ".join(below.split()), "an example beside the usage line"


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_every_command_has_one_line_on_one_screen(capsys, arguments):
    assert run(*arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80
    page = (ROOT / "docs" / "cli.md").read_text()
    for commands in OVERVIEW.values():
        for name, line in commands.items():
            assert any(printed.split() == [name, *line.split()] for printed in lines), "the line is not broken"
            assert f"| [`sober {name}`](#sober-{name}) | {line} |" in page, "the documentation says the same"
    assert {name for commands in OVERVIEW.values() for name in commands} == {name for [name] in COMMANDS}
    assert "sober fit photos/" in "\n".join(lines[-5:]), "what to do next is at the end"


def test_the_list_of_commands_imports_no_command_and_no_jax():
    command = [sys.executable, "-X", "importtime", "-m", "sober.cli"]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "sober.cli.overview" in imported
    for module in ("jax", "numpy", "polars", "sober.cli.score", "sober.metrics"):
        assert not re.search(rf"\| +{re.escape(module)}$", imported, re.MULTILINE), module


HELP_OF_EACH = """
import contextlib, io, json, sys
from sober.cli.main import main
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        main([*command, "--help"])
    loaded = sorted(set(sys.argv[2:]) & sys.modules.keys())
    print(*command, "ok" if printed.getvalue() and not loaded else loaded)
"""


def test_help_loads_nothing_that_computes(start):
    commands = [*COMMANDS, *STUDY_COMMANDS]
    heavy = ("jax", "equinox", "sklearn", "altair", "matplotlib", "torch", "scipy", "numba", "polars", "sober.metrics")
    output = start(HELP_OF_EACH, json.dumps(commands), *heavy).communicate(timeout=120)[0]
    assert output.splitlines() == [f"{' '.join(command)} ok" for command in commands]


def test_the_end_of_the_overview_is_not_in_the_help_of_a_command(capsys):
    for command in (["score"], ["study"], ["study", "run"]):
        assert run(*command, "--help") == 0
        assert "What next" not in capsys.readouterr().out


def test_a_study_from_plan_to_tables(tmp_path, capsys):
    file, out = tmp_path / "mine.py", tmp_path / "out"
    file.write_text(
        "from sober import Adam, Product, Study, Training\n"
        "methods = {'beta_vae': {'beta': [1.0, 4.0]}, 'vae': {}}\n"
        "training = Training(steps=20, latents=3, batch=16, optimiser=Adam(1e-3))\n"
        "product = Product(['blocks'], methods, seeds=2, training=training)\n"
        "asked = {'metrics': ['mig', 'sap'], 'criteria': {'udr': {}}, 'pictures': 600}\n"
        "study = Study('mine', 'Mine', 'none', [product], **asked)\n"
    )
    assert run("study", "plan", file) == 0
    assert "mine: 6 runs in 2 cohorts" in capsys.readouterr().out
    assert not out.exists()
    assert run("study", "run", file, "--out", out) == 0
    assert "report.html" in " ".join(capsys.readouterr().out.split()).replace(" ", "")
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    assert run("study", "status", out) == 0
    assert "6 of 6 runs trained" in capsys.readouterr().out
    assert run("study", "tables", out, "--resamples", 20) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "worlds_agreement: needs" in said
    assert (out / "tables" / "leaderboard.tex").exists()
    assert run("report", out, "--out", tmp_path / "again.html") == 0
    assert run("study", "list") == 0
    assert "14,400 runs" in capsys.readouterr().out


def test_a_warning_is_one_line_without_code(tmp_path, capsys):
    from PIL import Image  # noqa: PLC0415

    Image.new("L", (20, 20), 90).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_text("nothing to see")
    assert run("worlds", "--show", f"pictures:folder={tmp_path}", "--out", tmp_path / "sheet.jpg") == 0
    error = capsys.readouterr().err
    assert error.startswith("sober: 1 of 2 files")
    assert "b.png" in error
    assert error.count("\n") == 1


def test_a_family_is_scored_on_the_sample_that_was_encoded(family, capsys):
    assert run("encode", family, "--pictures", 300) == 0
    codes = sorted((family / "codes").iterdir())
    assert len(codes) == 4
    capsys.readouterr()
    assert run("score", family, "--pictures", 300, "--metrics", "mig", "--json") == 0
    assert "mig" in next(iter(json.loads(capsys.readouterr().out).values()))
    assert sorted((family / "codes").iterdir()) == codes


WRONG = [
    (
        ["train", "blocks", "--sweep", "nonsense"],
        "method 'beta_vae' has no sweep 'nonsense': choose one of dci, sober_look, udr",
    ),
    (["train", "atlantis"], "unknown world 'atlantis': `sober worlds` lists all worlds"),
    (["train", "dsprite"], "unknown world 'dsprite': did you mean 'dsprites'?"),
    (["train", "blocks", "--steps", "-5"], "steps must be at least 1, got -5"),
    (["train", "blocks", "--steps", "many"], "--steps"),
    (["train", "blocks", "--method", "magic"], "unknown method 'magic'"),
    (["train", "blocks", "--set", "beta"], "not of the form NAME=VALUE"),
    (["train", "blocks", "--set", "gamma=1"], "no hyperparameter 'gamma'"),
    (["train", "blocks", "--set", "beta=1,1"], "same run twice"),
    (["train", "blocks", "--set", "beta=1", "gamma=2"], "no use for gamma=2; each setting needs its own --set, as in "),
    (["train", "blocks", "dsprites"], "no use for dsprites (see sober --help)"),
    (["train", "blocks", "--nets", "conv", "--precision", "float64"], "--precision"),
    (["train", "blocks", "--cohort", "0"], "cohort must be at least 1"),
    (["train", "dsprites:file=/no/such.npz"], "/no/such.npz"),
    (["train", "blocks:shape=round"], "has no option 'shape': choose one of size"),
    (["train", "dsprites:fil=x"], "world 'dsprites' has no option 'fil': did you mean 'file'?"),
    (["train", "blocks", "--method", "beta-VAE"], "unknown method 'beta-VAE': did you mean 'beta_vae'?"),
    (["train", "blocks", "--nets", "con"], "unknown nets 'con': did you mean 'conv'"),
    (["train", "blocks", "--set", "bta=1"], "has no hyperparameter 'bta': did you mean 'beta'?"),
    (["train", "blocks", "--sweep", "soberlook"], "has no sweep 'soberlook': did you mean 'sober_look'?"),
    (["train", "blocks", "--latent", "3"], "unknown option '--latent': did you mean '--latents'?"),
    (["trian", "blocks"], "unknown command 'trian': did you mean 'train'?"),
]

MEANT = [
    (["scor", "codes.npz"], "unknown command 'scor': did you mean 'score'?"),
    (["nothing"], "unknown command 'nothing': `sober --help` lists the commands"),
    (["study", "pln"], "unknown command 'pln': did you mean 'plan'?"),
    (["score", "codes.npz", "--metrcs", "mig"], "unknown option '--metrcs': did you mean '--metrics'?"),
    (["study", "plan", "sober_lok"], "unknown study 'sober_lok': did you mean 'sober_look'?"),
    (["study", "plan", "sober_look", "--scale", "smal"], "no scale 'smal': did you mean 'small'?"),
    (["worlds", "--show", "dsprites | only shap == 'heart'"], "is no factor: did you mean 'shape'?"),
    (["report", "dsprites_small"], "no folder 'dsprites_small': did you mean 'dsprites_small_nets'"),
    (["worlds", "--show", "bloks"], "unknown world 'bloks': did you mean 'blocks'?"),
    (["worlds", "--show", "blocks | hid block_1"], "unknown view 'hid' of blocks: did you mean 'hide'?"),
    (["metrics", "mug"], "unknown metric or score 'mug': did you mean 'mig'?"),
    (["criteria", "pip"], "unknown criterion 'pip': did you mean 'pipe'"),
    (["tasks", "downstreem"], "unknown task 'downstreem': did you mean 'downstream'?"),
    (["worlds", "bloks"], "unknown world 'bloks': did you mean 'blocks'?"),
    (["methods", "tcvae"], "unknown method 'tcvae': did you mean 'beta_tcvae'?"),
    (["fit", "blocks", "--out", "fitted", "--criterion", "pip"], "unknown criterion 'pip': did you mean 'pipe'"),
    (["score", "family", "--metrics", "mug"], "unknown metric or score 'mug': did you mean 'mig'?"),
    (["score", "family", "--preset", "papr"], "unknown preset 'papr': did you mean 'paper'?"),
    (["score", "family", "--tasks", "downstreem"], "unknown task 'downstreem': did you mean 'downstream'?"),
    (["score", "family", "--tasks", "downstream", "--set", "fold=3"], "no setting 'fold': did you mean 'folds'?"),
    (["select", "family", "--criterion", "udrr"], "unknown criterion 'udrr': did you mean 'udr'?"),
    (["select", "family", "--set", "similarty=spearman"], "no setting 'similarty': did you mean 'similarity'?"),
    (["tables", "family", "--names", "leaderbord"], "no table leaderbord: did you mean 'leaderboard'?"),
    (["tables", "family", "--paper", "udrr"], "unknown paper 'udrr': did you mean 'udr'?"),
    (["tables", "family", "--paper", "udr", "--only", "Tabel 6"], "udr has no 'Tabel 6': did you mean 'Table 6'"),
    (["report", "familys"], "no folder 'familys': did you mean 'family'?"),
]


@pytest.mark.parametrize(("arguments", "message"), MEANT, ids=str)
def test_an_unknown_name_is_answered_with_the_nearest(trained, arguments, message, capsys, monkeypatch):
    monkeypatch.chdir(trained.parent)
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert len(error) < 200


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_a_wrong_request_gets_one_line_and_status_2_and_writes_nothing(tmp_path, capsys, arguments, message):
    assert run(*arguments, "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("sober: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize(
    "arguments", [["trane"], ["encode"], ["encode", "/no/such"], ["traverse", "/no/such"], ["train", "blocks"]]
)
def test_other_wrong_requests(capsys, arguments):
    assert run(*arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_unwritable_folder_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert train_small(tmp_path / "file" / "out") == 2
    assert "cannot write to" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_holds_another_family_is_refused_and_unharmed(family, capsys):
    before = {path: path.read_bytes() for path in family.rglob("*.*")}
    assert run("train", "blocks", "--set", "beta=2", *SMALL, "--out", family) == 2
    assert "holds a training with seed 0,1, not 0; beta 1,4, not 2: choose another --out" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in family.rglob("*.*")} == before


def test_ctrl_c_stops_at_a_checkpoint_and_a_damaged_one_is_refused(tmp_path, capsys):
    out = tmp_path / "family"
    arguments = ["train", "blocks", "--seeds", "4", *SMALL[2:], "--steps", "1000000", "--out", str(out)]
    command = [sys.executable, "-m", "sober.cli", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for _ in range(600):  # the plan is written when training begins
        if list(out.glob("checkpoints/*/cohorts.json")):
            break
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command to go on" in error
    [checkpoint] = out.glob("checkpoints/*/*.safetensors")
    os.truncate(checkpoint, checkpoint.stat().st_size // 2)
    assert run(*arguments) == 2
    said = capsys.readouterr().err
    assert checkpoint.name in said.replace("\n", "")
    assert len(said.splitlines()) == 1


def test_a_sweep_reads_numbers_words_and_truths():
    sweep = parse_assignments(["beta=1,2.5,1e3", "estimator=weighted", "second_batch=true,false"])
    assert sweep == {"beta": [1.0, 2.5, 1000.0], "estimator": ["weighted"], "second_batch": [True, False]}
    for wrong in ("beta", "=3", "beta="):
        with pytest.raises(RequestError):
            parse_assignments([wrong])
    with pytest.raises(RequestError, match="twice"):
        parse_assignments(["beta=1", "beta=2"])


def test_a_model_whose_latents_carry_nothing_has_no_rows_and_says_so(tmp_path, monkeypatch):
    """A latent whose code never leaves the prior is not drawn."""
    from families import BLOCKS, small_runs  # noqa: PLC0415
    from sober.evaluation import picture_sheets  # noqa: PLC0415
    from sober.requests.train import train  # noqa: PLC0415

    [crushed] = small_runs(sweep={"beta": 1e4}, seeds=1, steps=300)
    family = train([crushed], BLOCKS, tmp_path / "family")
    figures = []
    monkeypatch.setattr(picture_sheets, "_save", lambda figure, path: figures.append(figure))
    picture_sheets.traversals([family.model(crushed)], BLOCKS, tmp_path / "crushed.png")
    said = " ".join(text.get_text() for text in figures[0].axes[0].texts)
    assert "Latents 0, 1, 2 carry little and are not drawn." in said
    assert "No latent carries anything" in said
    assert len(figures[0].axes[0].images) == 2 * len(picture_sheets.SHOWN), "originals and reconstructions alone"


@pytest.fixture
def npz(tmp_path):
    factors = np.stack(np.unravel_index(np.arange(60), (3, 4, 5)), axis=1)
    path = tmp_path / "codes.npz"
    np.savez(path, codes=factors + 0.5, factors=factors, names=["a", "b", "c"], kinds=["categorical"] * 3)
    return path


def test_score_prints_one_json_object(npz, capsys):
    assert run("score", npz, "--metrics", "mig,modularity,mi/sap", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mig"] == pytest.approx(1.0)
    assert set(found) == {"mig", "modularity", "mi/sap"}


def test_score_says_what_to_know(npz, tmp_path, capsys):
    arrays = dict(np.load(npz))
    np.savez(tmp_path / "dead.npz", **{**arrays, "codes": 0 * arrays["codes"]})
    assert run("score", tmp_path / "dead.npz", "--metrics", "mig", "--json") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"mig": 0.0}
    assert "mig: collapsed" in shown.err
    assert run("score", tmp_path / "dead.npz", "--metrics", "mig") == 0
    assert "no latent carries anything" in capsys.readouterr().out


def test_score_with_everything_behind_it(npz, capsys):
    assert run("score", npz, "--metrics", "mig", "--json", "--full", "--repeats", 3) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scores"]["mig"] == pytest.approx(1.0)
    assert found["errors"]["mig"] == 0
    assert found["factors"] == ["a", "b", "c"]
    assert np.array(found["parts"]["mig"]["mutual_information"]).shape == (3, 3)
    assert found["settings"]["mig"]["bins"] == 20


def test_score_of_every_model_of_a_family(family, capsys):
    assert run("score", family, "--metrics", "mig,irs", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {each.identity for each in sober.open(family).runs}


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"factors": np.zeros((5, 1))}, "no array 'codes'"),
        ({"codes": np.zeros((5, 2)), "factors": np.zeros((4, 1))}, "array 'codes' has 5 rows and"),
        ({"codes": np.full((5, 2), np.nan), "factors": np.zeros((5, 1))}, "not finite"),
    ],
)
def test_score_refuses_what_it_cannot_measure(arrays, says, tmp_path, capsys):
    np.savez(tmp_path / "codes.npz", **arrays)
    assert run("score", tmp_path / "codes.npz") == 2
    assert says in capsys.readouterr().err


def test_score_unpickles_nothing(tmp_path, capsys):
    np.savez(tmp_path / "objects.npz", codes=np.array([{}], dtype=object))
    (tmp_path / "text.npz").write_text("no zip")
    for name in ("objects.npz", "text.npz", "missing.npz"):
        assert run("score", tmp_path / name) == 2, name
        assert name in capsys.readouterr().err


LISTS = {
    "metrics": METRICS,
    "criteria": CRITERIA,
    "tasks": TASKS,
    "methods": {**NETS, **METHODS},
    "worlds": {name: sober.world(name) for name in WORLDS},
}
CARDS = [(command, name) for command, entries in LISTS.items() for name in entries]


@pytest.mark.parametrize("command", LISTS)
def test_a_list_of_names_is_one_screen_with_a_line_for_each(command, capsys, monkeypatch):
    set_columns(monkeypatch, 80)
    assert run(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80
    for name in LISTS[command]:
        [line] = [line for line in lines if line.split()[:1] == [name]][:1]
        assert len(line.split()) > 2, "it says what it is"
    assert f"sober {command} NAME" in "\n".join(lines[-5:])


@pytest.mark.parametrize(("command", "name"), CARDS)
def test_a_name_is_said_all_about(command, name, capsys, monkeypatch):
    set_columns(monkeypatch, 80)
    assert run(command, name) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines() if not line.startswith("not here: ")) <= 80
    entry, text = LISTS[command][name], " ".join(out.split())
    assert text.startswith(f"{name} {entry.summary}"[:80])
    assert entry.reference in text
    for page in re.findall(r"docs/[\w/]+\.md", text):
        assert (ROOT / page).exists()
    parts = [factor.name for factor in getattr(entry, "factors", ())]
    parts += [hyper.name for hyper in getattr(entry, "hyper", ())]
    if command in ("metrics", "tasks"):
        parts += [*entry.scores, *entry.presets]
    if command in ("metrics", "tasks", "criteria"):
        parts += entry.settings
    assert [part for part in parts if part not in text] == []


def test_the_default_metrics_come_first_and_a_score_is_answered_with_its_metric(capsys, monkeypatch):
    set_columns(monkeypatch, 140)
    assert run("metrics") == 0
    before, after = capsys.readouterr().out.split("Measured only if you name them")
    for name, metric in METRICS.items():
        assert f"\n{name} " in (before if metric.default else after)
        assert len(metric.short) <= 43
    assert "dci_completeness" in before, "a wide terminal shows the scores"
    assert run("metrics", "dci_completeness", "dci") == 0
    assert capsys.readouterr().out.count("Eastwood") == 1


def test_a_model_is_explored_with_the_pictures_it_was_trained_on(family, tmp_path):
    model, *_ = sorted((family / "models").iterdir())
    assert run("explore", model, "--out", tmp_path / "family.html") == 0
    lone = model.rename(tmp_path / "lone.safetensors")
    assert run("explore", lone, "--out", tmp_path / "lone.html") == 0
    assert run("explore", lone, "blocks", "--out", tmp_path / "named.html") == 0
    pages = [(tmp_path / f"{name}.html").read_text() for name in ("family", "lone", "named")]
    assert pages[0] == pages[1] == pages[2]
    assert run("explore", tmp_path / "nothing.safetensors") == 2


def test_the_bar_follows_training_and_what_comes_after_it():
    with bar() as watcher:
        watcher.progress(TrainingProgress(50, 100, 10.0, 5.0, 5, 10, 9, 2, 3, 1.5))
        watcher.stage("scoring", 1, 4)
        said = [task.description for task in watcher.bar.tasks]
        assert said == ["cohort 2/3 · 9 models · step 5 · loss 1.5", "scoring"]
        watcher.stage("udr", 4, 4)
        assert not watcher.bar.tasks[1].visible
