"""Pictures in, one encoder out: the folder that is written, going on after a stop, and a plan that fits the time."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

import sober
from families import BLOCKS, StopAt
from sober.cli import app
from sober.criteria.verdict import two_digits
from sober.errors import RequestError
from sober.evaluation.progress_notes import shown_stage
from sober.evaluation.showcase_choice import worth_drawing
from sober.methods import METHODS
from sober.requests.fit.export import write_codes
from sober.requests.fit.fit import Fit, fit
from sober.requests.fit.given_pictures import given_pictures, refuse_hopeless
from sober.requests.fit.new_pictures import pictures_for
from sober.requests.fit.plan import LENGTHS, MOST_SEEDS, SEEDS, SHARE, Wishes, plan
from sober.requests.select import select
from sober.results.folder import Folder
from sober.results.request import Pace, Request
from sober.results.showcase_files import showcase_path, showcase_runs
from sober.results.verdict_files import load_verdicts, save_verdict
from sober.training.progress import SilentWatcher, Stopped, TrainingProgress
from sober.types import Run


class Notes(SilentWatcher):
    """Keeps the notes that it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class NoTraining(SilentWatcher):
    """Fails when training begins."""

    def progress(self, progress: TrainingProgress) -> None:
        raise AssertionError("it trains")


QUICK: dict[str, Any] = {"steps": 60, "seeds": 2, "latents": 3, "method": ["beta_tcvae", "beta_vae"]}


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return BLOCKS.render(np.arange(0, 4096, 205))  # 20, as those of the page on fitting: the same programs serve


@pytest.fixture(scope="module")
def fitted(images: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Fit:
    return fit(images, out=tmp_path_factory.mktemp("fit") / "out", **QUICK)


def test_one_folder_holds_the_model_its_codes_and_what_led_to_it(fitted: Fit, images: np.ndarray) -> None:
    names = {path.name for path in fitted.folder.iterdir()}
    assert names >= {"request.json", "models", "model.safetensors", "model.json", "codes.parquet", "ranking.json"}
    assert names >= {"traversals.png", "encoder.onnx", "decoder.onnx", "report.html"}
    assert len(fitted.results.runs) == 8 == len(fitted.ranking.models)
    table = fitted.results.table()
    assert {"udr", "reconstruction"} <= set(table["metric"]), "what criteria said is in the table, as in every folder"
    about = json.loads((fitted.folder / "model.json").read_text())
    assert about["identity"] == fitted.ranking.best.run.identity == fitted.best.run.identity
    codes = pl.read_parquet(fitted.folder / "codes.parquet")
    mean, logvar = fitted.encode(images)
    np.testing.assert_allclose(codes.select(pl.selectors.starts_with("mean_")).to_numpy(), mean, atol=1e-5)
    np.testing.assert_allclose(codes.select(pl.selectors.starts_with("logvar_")).to_numpy(), logvar, atol=1e-5)


def test_the_folder_is_read_in_a_fresh_process(
    fitted: Fit, images: np.ndarray, start: Callable[..., Any], tmp_path: Path
) -> None:
    np.save(tmp_path / "images.npy", images[:7])
    code = (
        "import sys, numpy as np, sober\n"
        "mean, logvar = sober.load(sys.argv[1]).encode(np.load(sys.argv[2]))\n"
        "np.save(sys.argv[3], mean)"
    )
    said, _ = start(code, fitted.folder, tmp_path / "images.npy", tmp_path / "mean.npy").communicate(timeout=120)
    assert not said
    np.testing.assert_allclose(np.load(tmp_path / "mean.npy"), fitted.encode(images[:7])[0], atol=1e-6)


def test_transform_gives_the_codes_that_fit_wrote(fitted: Fit, images: np.ndarray, tmp_path: Path) -> None:
    codes = pl.read_parquet(fitted.folder / "codes.parquet").select(pl.selectors.starts_with("mean_")).to_numpy()
    floats = images.astype(np.float32) / 255
    for pictures in (images, images[..., 0], floats, list(images), [Image.fromarray(each[..., 0]) for each in images]):
        np.testing.assert_allclose(fitted.transform(pictures), codes, atol=1e-5)
    assert fitted.transform(images[:0]).shape == (0, 3)
    np.testing.assert_allclose(fitted.transform("blocks")[:4096:205], codes, atol=1e-5)
    (tmp_path / "photos").mkdir()
    for at, image in enumerate(images):
        Image.fromarray(np.repeat(image, 3, axis=2)).save(tmp_path / "photos" / f"{at:03}.png")
    np.testing.assert_allclose(fitted.transform(tmp_path / "photos"), codes, atol=1e-5)


def test_transform_prepares_any_array(fitted: Fit, images: np.ndarray) -> None:
    codes = fitted.transform(images)
    in_colour = np.repeat(images, 3, axis=3)
    for pictures in (in_colour, in_colour.transpose(0, 3, 1, 2), images.transpose(0, 3, 1, 2)):
        np.testing.assert_allclose(fitted.transform(pictures), codes, atol=1e-5)
    assert fitted.transform(np.zeros((2, 17, 16), np.uint8)).shape == (2, 3)
    assert fitted.transform(np.zeros((2, 3, 90, 70), np.uint8)).shape == (2, 3)


def test_transform_refuses_what_are_no_pictures(fitted: Fit, images: np.ndarray) -> None:
    with pytest.raises(RequestError, match=r"got \(16,\)"):
        fitted.transform(np.zeros(16))
    with pytest.raises(RequestError, match="pass bytes"):
        fitted.transform(images.astype(int))
    with pytest.raises(RequestError, match="neither a folder"):
        fitted.transform("no such folder")


def test_a_fit_is_scored_as_an_estimator_is(fitted: Fit, images: np.ndarray) -> None:
    factors = BLOCKS.labels(np.arange(0, 4096, 205))
    scorer = sober.scorer("mig")
    assert scorer(fitted, images, factors) == sober.score(fitted.transform(images), factors, metrics="mig")["mig"]


def test_onnx_runtime_gives_the_same_codes(fitted: Fit, images: np.ndarray) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    pixels = images[:20].transpose(0, 3, 1, 2).astype(np.float32) / 255
    session = runtime.InferenceSession(fitted.folder / "encoder.onnx")
    mean, logvar = session.run(["mean", "logvar"], {"pictures": pixels})
    for ours, theirs in zip(fitted.encode(images[:20]), (mean, logvar), strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-4)
    (rebuilt,) = runtime.InferenceSession(fitted.folder / "decoder.onnx").run(["pictures"], {"codes": mean})
    np.testing.assert_allclose(rebuilt.transpose(0, 2, 3, 1), fitted.best.decode(mean), atol=1e-4)


def test_pytorch_gives_the_same_codes(fitted: Fit, images: np.ndarray) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    interop = importlib.import_module("sober.interop.torch")
    encoder = interop.encoder(sober.load(fitted.folder))
    with torch.no_grad():
        mean, _ = encoder(torch.tensor(images[:20]).permute(0, 3, 1, 2) / 255)
    np.testing.assert_allclose(mean.numpy(), fitted.encode(images[:20])[0], atol=1e-4)


def test_called_again_it_finds_what_is_there(fitted: Fit, images: np.ndarray) -> None:
    before = (fitted.folder / "model.safetensors").read_bytes()
    again = fit(images, out=fitted.folder, **QUICK)
    assert (fitted.folder / "model.safetensors").read_bytes() == before
    assert [model.run for model in again.ranking.models] == [model.run for model in fitted.ranking.models]


def test_stopped_and_called_again_it_goes_on_to_the_same_model(fitted: Fit, images: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        fit(images, out=tmp_path / "out", watcher=StopAt(30), **QUICK)
    assert not (tmp_path / "out" / "model.safetensors").exists()
    found = fit(images, out=tmp_path / "out", **QUICK)
    assert found.best.run == fitted.best.run
    np.testing.assert_array_equal(found.encode(images[:9])[0], fitted.encode(images[:9])[0])


def test_another_request_is_not_mixed_with_the_one_there(fitted: Fit, images: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="holds a fit with steps 60, not 61"):
        fit(images, out=fitted.folder, **{**QUICK, "steps": 61})
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RequestError, match="is not empty and holds no results"):
        fit(images, out=tmp_path, **QUICK)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "beta_vae", "beta": 4, "seeds": 1}, "udr compares models with each other, and only one"),
        ({"method": []}, "name at least one method"),
        ({"criteria": []}, "name at least one criterion"),
        ({"method": "tcvae"}, "unknown method 'tcvae'"),
        ({"criteria": ["mig"]}, "unknown criterion 'mig'"),
        ({"gamma_": 3}, "has a hyperparameter 'gamma_'"),
        ({"minutes": 0}, "minutes must be more than 0"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_written(
    changes: dict[str, Any], message: str, images: np.ndarray, tmp_path: Path
) -> None:
    with pytest.raises(RequestError, match=message):
        fit(images, out=tmp_path / "out", **{**QUICK, **changes})
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def planned(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float], minutes: float, world: str = "blocks", **named: Any
) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """The runs and the notes of a plan on a machine on which a step of six β-VAEs takes so long, by their nets."""
    monkeypatch.setattr(sys.modules[plan.__module__], "seconds_per_step", lambda world, runs: seconds[runs[0].nets])
    methods = named.get("methods", ("dava", "beta_tcvae", "beta_vae"))
    wishes = Wishes(methods, minutes, options={"latents": 6})
    family = plan(sober.world(world), wishes, time.monotonic())
    return family.runs, family.notes


def test_the_plan_fills_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, notes = planned(monkeypatch, {"small": 0.005}, 5)
    assert not notes
    assert len(runs) == 3 * 2 * SEEDS
    spent = 0.005 * sum(runs[0].steps * METHODS[name].cost for name in ("dava", "beta_tcvae", "beta_vae"))
    assert 0.5 * 300 < spent < 0.65 * 300


def test_a_fast_machine_trains_more_seeds_and_then_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, _ = planned(monkeypatch, {"small": 1e-3}, 1, methods=("beta_tcvae", "beta_vae"))
    seeds = {run.seed for run in runs}
    assert SEEDS < len(seeds) <= MOST_SEEDS
    assert runs[0].steps >= 0.7 * LENGTHS[True].enough
    long, _ = planned(monkeypatch, {"small": 1e-5}, 10, methods=("beta_vae",))
    assert long[0].steps > LENGTHS[True].enough


def test_a_slow_machine_takes_smaller_nets_then_fewer_methods_and_says_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs, notes = planned(monkeypatch, {"conv": 0.5, "small": 0.01}, 10, "dsprites")
    assert {run.nets for run in runs} == {"small"}
    assert len({run.method for run in runs}) == 3
    assert [note.split(" on ")[0] for note in notes] == ["10 minutes are too few for conv nets"]
    runs, notes = planned(monkeypatch, {"conv": 0.01}, 10, "dsprites")
    assert {run.nets for run in runs} == {"conv"}
    assert not notes
    runs, notes = planned(monkeypatch, {"small": 0.015}, 1.5)
    assert {run.method for run in runs} == {"beta_tcvae", "beta_vae"}
    assert [note.split(" on ")[0] for note in notes] == ["1.5 minutes are too few for DAVA"]
    runs, notes = planned(monkeypatch, {"conv": 2.0, "small": 1.0}, 1, "dsprites")
    assert runs[0].steps < 60
    assert {run.method for run in runs} == {"beta_vae"}
    assert [note.split(" on ")[0] for note in notes] == [
        "1 minute is too few for conv nets",
        "1 minute is too few for DAVA",
        "1 minute is too few for β-TCVAE",
        "1 minute is enough for 35 steps",
    ], "no note takes the place of another"
    assert re.search(r"about [0-9,]+ minutes would do for all methods, [0-9,]+ for β-VAE alone\.$", notes[-1])


def test_notes_agree_on_how_many_minutes_would_do_where_no_step_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    _, notes = planned(monkeypatch, {"conv": 900.0, "small": 600.0}, 1, "dsprites")
    minutes = [int(text.replace(",", "")) for note in notes for text in re.findall(r"about ([0-9,]+) minutes", note)]
    (for_one,) = re.findall(r"([0-9,]+) for β-VAE alone", notes[-1])
    assert len(minutes) == 3
    assert minutes[0] == minutes[-1] > minutes[1] > int(for_one.replace(",", ""))


def test_given_values_take_the_place_of_the_usual_ones(images: np.ndarray, tmp_path: Path) -> None:
    found = fit(images, out=tmp_path / "out", **QUICK, criteria=["elbo"], beta=[1.0, 3.0])
    assert {run.hyper["beta"] for run in found.results.runs} == {1.0, 3.0}
    assert METHODS["dava"].advised(True, 1000) == {"delta_c": (0.01, 0.03)}


def test_a_folder_of_pictures_from_the_command_line(
    images: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "photos").mkdir()
    for at, image in enumerate(images):
        Image.fromarray(image[..., 0]).resize((64, 64)).save(tmp_path / "photos" / f"{at:03}.png")
    options = ["--steps", "3", "--seeds", "1", "--latents", "2", "--method", "beta_vae", "--nets", "small"]
    arguments = [tmp_path / "photos", "--out", tmp_path / "out", *options, "--criterion", "elbo"]
    app(["fit", *map(str, arguments)], result_action="return_none")
    assert "Not trained far enough to choose from: " in " ".join(capsys.readouterr().out.split())
    codes = pl.read_parquet(tmp_path / "out" / "codes.parquet")
    assert codes["file"].to_list()[:2] == ["000.png", "001.png"]
    assert codes.height == 20


def test_explore_prepares_pictures_as_those_of_the_model(fitted: Fit, images: np.ndarray, tmp_path: Path) -> None:
    for at, image in enumerate(images):
        Image.fromarray(image[..., 0]).resize((40, 30)).save(tmp_path / f"{at:03}.png")
    pictures = pictures_for(fitted.best, tmp_path, fitted.results.request.worlds[fitted.best.run.world])
    assert pictures.image_shape == fitted.best.image_shape
    assert pictures_for(fitted.best, tmp_path).image_shape == fitted.best.image_shape


def test_transform_prepares_pictures_as_those_of_the_folder(images: np.ndarray, tmp_path: Path) -> None:
    """Wide colour files are padded and scaled by `fit`, and so are later files, arrays and PIL images."""
    (tmp_path / "photos").mkdir()
    wide = [np.random.default_rng(at).integers(0, 255, (20, 30, 3)).astype(np.uint8) for at in range(20)]
    for at, picture in enumerate(wide):
        Image.fromarray(picture).save(tmp_path / "photos" / f"{at:03}.png")
    settings: dict[str, Any] = {**QUICK, "steps": 3, "seeds": 1, "method": "beta_vae", "criteria": ["elbo"]}
    found = fit(f"pictures:folder={tmp_path / 'photos'},size=8x12,fit=pad", out=tmp_path / "out", **settings)
    assert found.best.image_shape == (8, 12, 3)
    codes = found.transform(tmp_path / "photos")
    written = pl.read_parquet(tmp_path / "out" / "codes.parquet").select(pl.selectors.starts_with("mean_"))
    np.testing.assert_allclose(codes, written.to_numpy(), atol=1e-5)
    for pictures in (np.stack(wide), wide, [Image.fromarray(picture) for picture in wide]):
        np.testing.assert_allclose(found.transform(pictures), codes, atol=1e-5)
    assert found.transform(np.stack(wide)[..., 0]).shape == codes.shape, "a grey array gets three channels"


def test_a_family_that_is_not_trained_far_enough_says_so_everywhere(
    fitted: Fit, images: np.ndarray, tmp_path: Path
) -> None:
    assert fitted.verdict.kind == "not trained far enough"
    assert fitted.verdict.minutes is None, "the person chose the number of steps"
    sentence = fitted.verdict.sentence()
    assert "steps would do" in sentence
    model = json.loads((fitted.folder / "model.json").read_text())
    assert model["verdict"] == sentence
    assert "came_first" not in model
    assert json.loads((fitted.folder / "ranking.json").read_text())["verdict"]["sentence"] == sentence
    assert [verdict.sentence() for verdict in load_verdicts(fitted.folder).values()] == [sentence]
    assert repr(fitted).replace("\n", " ").endswith(sentence)


def test_the_model_that_the_verdict_names_is_shown_first_wherever_models_are_shown(fitted: Fit, tmp_path: Path) -> None:
    shutil.copytree(fitted.folder, tmp_path / "copy")
    results = sober.open(tmp_path / "copy")
    world = results.runs[0].world
    assert showcase_runs(results.path, results.numbers())[0] == fitted.verdict.run
    hidden = next(run for run in results.runs if not showcase_path(results.path, run.identity).exists())
    save_verdict(results.path, world, dataclasses.replace(fitted.verdict, run=hidden.identity))
    page = results.report().read_text()
    assert showcase_path(results.path, hidden.identity).exists()
    assert showcase_runs(results.path, results.numbers())[0] == hidden.identity
    assert worth_drawing(results, 4)[0] == hidden
    assert "The best placed model so far" in page


def test_work_that_cannot_say_how_much_of_it_is_done_is_named_while_it_lasts() -> None:
    told: list[tuple[str, int, int]] = []

    class Stages(SilentWatcher):
        def stage(self, stage: str, done: int, total: int) -> None:
            told.append((stage, done, total))

    with shown_stage(Stages(), "writing the report"):
        assert told == [("writing the report", 0, 1)]
    assert told[1:] == [("writing the report", 1, 1)]
    with shown_stage(SilentWatcher(), "writing the report"):
        pass


def test_too_little_time_is_told_with_the_minutes_that_would_do(
    images: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[plan.__module__], "seconds_per_step", lambda world, runs: 0.5)
    told = Notes()
    settings: dict[str, Any] = {"seeds": 1, "latents": 3, "method": ["beta_tcvae", "beta_vae"], "criteria": ["elbo"]}
    found = fit(images, out=tmp_path / "out", minutes=1, watcher=told, **settings)
    assert found.verdict.kind == "not trained far enough"
    minutes, steps, pace = found.verdict.minutes, found.verdict.steps, Folder.open(found.folder).request.pace
    assert minutes is not None
    assert steps is not None
    assert pace is not None
    assert pace.per_step == pytest.approx(0.5 / SHARE)
    assert minutes == two_digits(pace.minutes(steps * (1 + METHODS["beta_tcvae"].cost)))
    assert found.verdict.sentence().endswith(f"About {minutes:,} minutes would do.")
    again = select(Folder.open(tmp_path / "out"), ["elbo"])[found.results.runs[0].world].verdict
    assert again.sentence() == found.verdict.sentence()  # in minutes, too
    few, without_tcvae, too_short = found.notes
    assert few.startswith("20 pictures are few")
    assert without_tcvae.startswith("1 minute is too few for β-TCVAE")
    assert too_short.startswith("1 minute is enough for")
    assert told.notes == list(found.notes)
    assert Folder.open(found.folder).request.notes == found.notes
    again = fit(images, out=tmp_path / "out", minutes=1, **settings)
    assert (again.notes, again.verdict) == (found.notes, found.verdict)


def test_after_time_for_less_than_ten_steps_the_minutes_that_would_do_come_from_the_measured_speed(
    images: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[plan.__module__], "seconds_per_step", lambda world, runs: 60.0)
    settings: dict[str, Any] = {"seeds": 2, "latents": 3, "method": "beta_vae", "beta": 2.0, "criteria": ["elbo"]}
    found = fit(images, out=tmp_path / "out", minutes=0.01, **settings)
    steps = found.verdict.steps
    assert found.results.runs[0].steps == 10
    assert steps is not None
    assert found.verdict.minutes >= steps / SHARE, "a step takes a minute"
    (minutes,) = re.findall(r"about ([\d,]+) minutes would do", found.notes[-1])
    assert int(minutes.replace(",", "")) == found.verdict.minutes, "the note and the verdict say the same"


def test_a_request_without_notes_is_written_as_before() -> None:
    request = Request("fit", {}, {})
    assert "notes" not in request.plain()
    assert Request.of(request.plain()).notes == ()
    with_notes = Request("fit", {}, {}, notes=("Small nets.",))
    assert Request.of(json.loads(json.dumps(with_notes.plain()))).notes == ("Small nets.",)


def test_a_request_keeps_the_pace_and_without_one_is_written_as_before() -> None:
    request = Request("fit", {}, {})
    assert "pace" not in request.plain()
    assert Request.of(request.plain()).pace is None
    with_pace = Request("fit", {}, {}, pace=Pace(3.0, 0.5))
    assert Request.of(json.loads(json.dumps(with_pace.plain()))).pace == Pace(3.0, 0.5)


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (np.random.default_rng(0).random((3, 8, 8)), "3 pictures cannot show which model is best"),
        (np.full((30, 8, 8), 0.5), "all 30 pictures are the same"),
        (np.zeros((30, 64)), r"pictures.reshape\(N, H, W\)"),
        (np.zeros((100, 80, 3)), "looks like one picture"),
        (np.zeros((30, 8, 8, 2)), "got shape"),
        ([np.zeros((8, 8)), "no such file.png"], "got str 'no such file.png', which is no file"),
        ([], "there are no pictures"),
    ],
)
def test_pictures_that_nothing_can_be_learned_from_are_refused(pictures: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=message):
        fit(pictures, out=tmp_path / "out", **QUICK)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_to_is_refused_first(images: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RequestError, match="cannot write to"):
        fit(images, out=tmp_path / "file" / "out", watcher=NoTraining(), **QUICK)


def test_few_pictures_are_warned_of() -> None:
    pixels = np.random.default_rng(0).random((120, 8, 8))
    assert refuse_hopeless(given_pictures(pixels).world) == ()
    (warning,) = refuse_hopeless(given_pictures(pixels[:40]).world)
    assert warning.startswith("40 pictures are few")


@pytest.mark.parametrize(
    ("shape", "kept", "notes"),
    [
        ((12, 8, 8), (8, 8, 1), []),
        ((12, 48, 64, 3), (48, 64, 3), []),
        ((12, 3, 8, 8), (8, 8, 3), ["The array has its channels first"]),
        ((12, 100, 80), (64, 64, 1), ["The pictures are 100 x 80: they were scaled to 64 x 64, and"]),
        ((12, 40, 40), (64, 64, 1), ["The pictures are 40 x 40: they were scaled to 64 x 64."]),
        (
            (12, 3, 100, 80),
            (64, 64, 3),
            ["The array has its channels first", "The pictures are 100 x 80: they were"],
        ),
        ((12, 8, 8, 4), (8, 8, 3), ["The fourth channel was taken for transparency"]),
    ],
)
@pytest.mark.parametrize("kind", ["bytes", "floats"])
def test_arrays_of_any_size_and_order_are_taken(
    shape: tuple[int, ...], kept: tuple[int, ...], notes: list[str], kind: str
) -> None:
    floats = np.random.default_rng(0).random(shape)
    given = given_pictures((255 * floats).astype(np.uint8) if kind == "bytes" else floats.astype(np.float32))
    assert (given.world.size, given.world.image_shape) == (12, kept)
    assert [note[: len(start)] for note, start in zip(given.notes, notes, strict=True)] == notes


def test_nets_that_take_any_size_leave_pictures_as_they_are() -> None:
    given = given_pictures(np.random.default_rng(0).random((12, 40, 50)), "small")
    assert (given.world.image_shape, given.notes) == ((40, 50, 1), ())


def test_pictures_of_several_sizes_and_files_are_taken(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, (3, 20, 30 + at), dtype=np.uint8) for at in range(4)]
    images = [Image.fromarray(array.transpose(1, 2, 0)) for array in arrays]
    for at, image in enumerate(images):
        image.save(tmp_path / f"{at}.png")
    several: list[Any] = [arrays, images, (image for image in images), sorted(tmp_path.glob("*.png"))]
    worlds = [given_pictures(pictures) for pictures in several]
    assert {given.world.label for given in worlds} == {worlds[0].world.label}
    assert worlds[0].world.image_shape == (64, 64, 3)
    assert all("All pictures were scaled to 64 x 64" in given.notes[0] for given in worlds)
    same = given_pictures([image.resize((12, 10)) for image in images])
    assert (same.world.image_shape, same.notes) == ((10, 12, 3), ())


def test_a_folder_of_small_pictures_of_one_size_keeps_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for at in range(4):
        Image.fromarray(rng.integers(0, 256, (20, 30), dtype=np.uint8)).save(tmp_path / f"{at}.png")
    (tmp_path / "broken.png").write_bytes(b"none")
    with pytest.warns(UserWarning, match="cannot be read"):
        given = given_pictures(tmp_path)
    assert given.world.image_shape == (20, 30, 1)
    assert given.notes == ("1 file could not be read and is left out.",)
    (tmp_path / "broken.png").unlink()
    Image.fromarray(rng.integers(0, 256, (20, 31), dtype=np.uint8)).save(tmp_path / "wider.png")
    given = given_pictures(tmp_path)
    assert given.world.image_shape == (64, 64, 1)
    assert given.notes[0].startswith("All pictures were scaled to 64 x 64")


def test_without_out_results_are_in_a_new_folder_here(
    images: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings: dict[str, Any] = {**QUICK, "steps": 3, "seeds": 1, "method": "beta_vae", "criteria": ["elbo"]}
    folders = [fit(images, **settings).folder for _ in range(2)]
    assert [folder.name for folder in sorted(tmp_path.iterdir())] == [folder.name for folder in folders]
    assert folders[1].name == f"{folders[0].name}-2"
    assert any(str(folders[1]) in note for note in Folder.open(folders[1]).request.notes)
    with pytest.raises(Stopped, match=f"to go on, give out='{folders[0].name}-3'"):
        fit(images, watcher=StopAt(30), **QUICK)


def test_what_is_neither_a_folder_nor_a_world_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is neither a folder or archive of pictures nor a world"):
        fit(tmp_path / "nowhere", out=tmp_path / "out")


def test_codes_without_log_variances_have_no_columns_for_them(tmp_path: Path) -> None:
    write_codes(tmp_path / "codes.parquet", BLOCKS, np.zeros((4, 2)), None)
    assert pl.read_parquet(tmp_path / "codes.parquet").columns == ["picture", "mean_0", "mean_1"]


def test_another_wish_chooses_again_and_trains_nothing(fitted: Fit, images: np.ndarray, tmp_path: Path) -> None:
    out = shutil.copytree(fitted.folder, tmp_path / "out")
    again = fit(images, out=out, prefer="few", watcher=NoTraining(), **QUICK)
    agreement = [model.scores["udr"] for model in again.ranking.models]
    assert agreement == sorted(agreement, reverse=True)
    assert again.verdict.prefer == "few"
    assert fitted.verdict.prefer == "balanced"
    with pytest.raises(RequestError, match="not by both"):
        fit(images, out=out, prefer="few", criteria=["udr"], **QUICK)
