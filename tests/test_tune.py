"""The search for hyperparameters: what it finds, that a stop anywhere changes nothing, and what it refuses."""

from __future__ import annotations

import dataclasses
import importlib
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import ROOT
from families import BLOCKS, StopAt
from sober.criteria import CRITERIA, Criterion, Evidence, Judgement
from sober.errors import RequestError
from sober.requests.tune.search_space import Range, parse_space
from sober.requests.tune.trials import SeedScore, Trial, Tuned, rows, seed_score, valued
from sober.requests.tune.tune import tune
from sober.training.progress import Stopped
from sober.types import Adam

optuna = pytest.importorskip("optuna", reason="Optuna is not installed")

SPACE = {"beta": Range(0.01, 1.0, log=True)}
MODELS = {"latents": 3, "batch": 16, "optimiser": Adam(1e-3)}  # as in families.py: one compilation serves all
SMALL: dict[str, Any] = {"trials": 4, "together": 2, "seeds": 2, "steps": 60, **MODELS}
# As many models at once, so that one compilation serves all tests.
QUICK = {**SMALL, "trials": 12, "together": 4, "seeds": 1, "steps": 1, "criterion": "planted"}


def planted(evidence: Evidence, *, seed: int, progress: Any, shared: Any) -> Judgement:
    """Best at beta = 3, a little different for each seed."""
    scores = np.array([-((float(run.hyper["beta"]) - 3) ** 2) - 1e-3 * run.seed for run in evidence.runs])
    progress(1, 1)
    return Judgement(scores, scores[None], tuple(() for _ in scores))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Criterion:
    """A criterion that knows the answer, and trusts models that have hardly begun to learn."""
    words = dict.fromkeys(("summary", "sees", "blind", "reference"), "")
    criterion = Criterion(name="planted", judge=planted, **words)
    monkeypatch.setitem(CRITERIA, "planted", criterion)
    monkeypatch.setattr("sober.evaluation.judge_step.informative_latents", lambda codes: np.ones(3, bool))
    return criterion


def module() -> Any:
    return importlib.import_module(tune.__module__)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    return tune(BLOCKS, "beta_vae", SPACE, out=tmp_path_factory.mktemp("tune") / "out", **SMALL)


def test_every_trial_has_a_family_and_the_median_of_its_seeds(tuned: Tuned) -> None:
    assert [trial.generation for trial in tuned.trials] == [0, 0, 1, 1]
    assert {trial.state for trial in tuned.trials} == {"judged"}
    for trial in tuned.trials:
        assert trial.value == pytest.approx(np.median(trial.scores))
    assert tuned.value == max(trial.value for trial in tuned.trials)
    assert [run.seed for run in tuned.runs] == [0, 1]
    assert {run.hyper["beta"] for run in tuned.runs} == {tuned.hyper["beta"]}
    assert set(tuned.runs) < set(tuned.results.finished)


def test_what_a_trial_is_worth_does_not_depend_on_its_company(tuned: Tuned, tmp_path: Path) -> None:
    best = tuned.best
    space = {"beta": Range(choices=(best.hyper["beta"], 0.5))}
    found = tune(BLOCKS, "beta_vae", space, out=tmp_path / "out", **{**SMALL, "trials": 2})
    (again,) = [trial for trial in found.trials if trial.hyper == best.hyper]
    assert again.scores == pytest.approx(best.scores, abs=1e-4)


def test_the_folder_says_what_was_asked_and_what_was_found(tuned: Tuned) -> None:
    asked = json.loads((tuned.folder / "request.json").read_text())["asked"]
    assert asked["space"] == {"beta": "0.01..1:log"}
    assert asked["steps"] == 60
    found = json.loads((tuned.folder / "trials.json").read_text())
    assert [each["value"] for each in found["trials"]] == [trial.value for trial in tuned.trials]
    table = tuned.results.table().filter(metric="udr")
    assert sorted(table["value"]) == sorted(score for trial in tuned.trials for score in trial.scores)
    assert set(table["models"]) == {2}, "the seeds of a trial were compared with each other"


def test_the_table_has_the_best_trial_first(tuned: Tuned) -> None:
    table = rows(tuned)
    assert [row["place"] for row in table] == ["1", "2", "3", "4"]
    assert float(table[0]["beta"]) == tuned.hyper["beta"]
    assert table[0]["udr ↑"] == f"{tuned.value:.3f}"
    assert table[0]["fit"] == "2 of 2"
    assert tuned.best.words in tuned.sentences()[0]


def test_numbers_are_such_as_can_be_typed(tuned: Tuned) -> None:
    for trial in tuned.trials:
        assert parse_space([trial.words])["beta"].choices == (trial.hyper["beta"],)
    assert Range(1.00004, 2.0).tidy(1.00004) == 1.00004  # never out of the range


def test_the_search_finds_a_planted_optimum(fake: Criterion, tmp_path: Path) -> None:
    found = tune(BLOCKS, "beta_vae", {"beta": Range(0.0, 100.0)}, out=tmp_path / "out", **{**QUICK, "trials": 32})
    assert_closer_and_closer(found)


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_it_knows_which_way_is_better(better: str, fake: Criterion, tmp_path: Path) -> None:
    criterion = dataclasses.replace(fake, better=better)
    found = simulated(tmp_path, criterion, {"beta": Range(0.0, 100.0)}, trials=32)
    assert_closer_and_closer(found)


def assert_closer_and_closer(found: Tuned) -> None:
    errors = np.array([abs(float(trial.hyper["beta"]) - 3) for trial in found.trials])
    assert len(errors) == 32
    assert abs(float(found.hyper["beta"]) - 3) == errors.min() < 2
    assert np.median(errors[-12:]) < 0.5 * np.median(errors[:8])  # which were drawn at random


def simulated(folder: Path, criterion: Criterion, space: dict[str, Range], *, trials: int, seed: int = 0) -> Tuned:
    """A search of which nothing is trained: the planted optimum, four trials at a time."""
    found, sign = Tuned(folder, criterion, ()), -1 if criterion.better == "higher" else 1
    while (found := module()._with_next_generation(found, space=space, trials=trials, together=4, seed=seed)).waiting:
        scores = {trial.number: [SeedScore(sign * (trial.hyper["beta"] - 3) ** 2)] for trial in found.waiting}
        found = module()._with_scores(found, scores)
    return found


class Interrupt:
    """Raises at the n-th of some events, once: a kill as far as the disk can tell."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, *_: Any) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    note = progress = stage = __call__


class InterruptJudging(Interrupt):
    """The same, once models are trained."""

    def progress(self, progress: Any) -> None: ...

    def note(self, text: str) -> None: ...


def same(one: Tuned, other: Tuned) -> bool:
    """Trial for trial; codes that are computed in other company may differ in their last bit."""

    def scores(tuned: Tuned) -> list[Any]:
        return [trial.scores for trial in tuned.trials]

    def asked(tuned: Tuned) -> list[Any]:
        return [(trial.number, trial.generation, trial.hyper, trial.state, trial.flags) for trial in tuned.trials]

    return asked(one) == asked(other) and np.allclose(scores(one), scores(other), atol=1e-5)


def test_stopped_in_training_it_goes_on_to_the_same_trials(tuned: Tuned, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        tune(BLOCKS, "beta_vae", SPACE, out=tmp_path / "out", watcher=StopAt(30), **SMALL)
    again = tune(BLOCKS, "beta_vae", SPACE, out=tmp_path / "out", **SMALL)
    assert again.trials == tuned.trials


@pytest.mark.parametrize("at", [4, 40])
def test_interrupted_while_judging_it_goes_on_to_the_same_trials(at: int, tuned: Tuned, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        tune(BLOCKS, "beta_vae", SPACE, out=tmp_path / "out", watcher=InterruptJudging(at), **SMALL)
    again = tune(BLOCKS, "beta_vae", SPACE, out=tmp_path / "out", **SMALL)
    assert same(again, tuned)


def test_interrupted_before_and_after_each_of_its_writes_it_goes_on_to_the_same_trials(
    fake: Criterion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, stops = module().write_json, 0

    def interrupted(path: Path, value: Any) -> None:
        if stops % 2:
            write(path, value)
        raise KeyboardInterrupt

    whole = tune(BLOCKS, "beta_vae", SPACE, out=tmp_path / "whole", **QUICK)
    monkeypatch.setattr(module(), "write_json", interrupted)
    monkeypatch.setattr("sober.results.folder.write_json", interrupted)
    while True:
        try:
            stopped = tune(BLOCKS, "beta_vae", SPACE, out=tmp_path / "stopped", **QUICK)
            break
        except KeyboardInterrupt:
            stops += 1
    assert stops == 2 * 10  # the request, and three generations asked, joined by their runs, and told
    assert stopped.trials == whole.trials


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from test_tune import BLOCKS, SMALL, SPACE, tune

class Kill:
    def note(self, text):
        self.told = True

    def progress(self, progress):
        if hasattr(self, "told") and progress.step > 10:  # in the second generation
            os.kill(os.getpid(), signal.SIGKILL)

tune(BLOCKS, "beta_vae", SPACE, out=sys.argv[2], watcher=Kill(), **SMALL)
"""


@pytest.mark.kill
def test_killed_it_goes_on_to_the_same_trials(tuned: Tuned, tmp_path: Path, start: Callable[..., Any]) -> None:
    process = start(KILLED, ROOT / "tests", tmp_path / "out")
    said, _ = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, said
    left = json.loads((tmp_path / "out" / "trials.json").read_text())["trials"]
    assert [each["state"] for each in left] == ["judged", "judged", "asked", "asked"]
    assert tune(BLOCKS, "beta_vae", SPACE, out=tmp_path / "out", **SMALL).trials == tuned.trials


def test_called_again_it_trains_nothing_and_with_more_trials_it_goes_on(fake: Criterion, tmp_path: Path) -> None:
    quick = {**QUICK, "trials": 8, "out": tmp_path / "out"}
    found = tune(BLOCKS, "beta_vae", SPACE, **quick)
    never = Interrupt(1)
    assert tune(BLOCKS, "beta_vae", SPACE, **quick, watcher=never).trials == found.trials
    more = tune(BLOCKS, "beta_vae", SPACE, **{**quick, "trials": 12})
    assert more.trials[:8] == found.trials
    assert len(more.trials) == 12


def test_the_same_seed_gives_the_same_search_and_another_seed_another(fake: Criterion, tmp_path: Path) -> None:
    one, same_seed, other = (simulated(tmp_path, fake, SPACE, trials=12, seed=seed) for seed in (0, 0, 1))
    assert one.trials == same_seed.trials
    assert one.trials[0].hyper != other.trials[0].hyper


def test_a_diverging_trial_fails_and_the_others_go_on(tmp_path: Path) -> None:
    space = {"beta": Range(choices=(0.1, 1e38))}
    found = tune(BLOCKS, "beta_vae", space, out=tmp_path / "out", **{**SMALL, "trials": 2})
    by_beta = {trial.hyper["beta"]: trial for trial in found.trials}
    assert by_beta[0.1].state == "judged"
    assert by_beta[1e38] == by_beta[1e38]._replace(value=None, scores=(None, None), flags=("diverged",))
    assert by_beta[1e38].state == "failed"
    assert found.hyper == {"beta": 0.1}
    assert rows(found)[-1]["place"] == "-"
    assert "1 trial failed: half of the models or more were flagged diverged." in found.sentences()


def test_a_search_of_nothing_but_diverging_trials_ends_and_says_so(tmp_path: Path) -> None:
    space = {"beta": Range(1e37, 1e38)}
    found = tune(BLOCKS, "beta_vae", space, out=tmp_path / "out", **SMALL)
    assert {trial.state for trial in found.trials} == {"failed"}
    assert len(found.trials) == 4
    assert len(rows(found)) == 4
    with pytest.raises(RequestError, match=r"none of 4 trials in .* could be judged \(diverged\)"):
        found.best  # noqa: B018


def test_a_model_that_gave_up_does_not_win_by_it(tmp_path: Path) -> None:
    space = {"beta": Range(choices=(0.1, 1000.0))}
    settings = {**SMALL, "trials": 2, "steps": 400, "criterion": "kl"}
    found = tune(BLOCKS, "beta_vae", space, out=tmp_path / "out", **settings)
    assert {trial.hyper["beta"]: trial.flags for trial in found.trials} == {0.1: (), 1000.0: ("collapsed",)}
    assert found.hyper == {"beta": 0.1}


def test_too_few_informative_latents_are_unfit_and_the_best_is_named_for_each_number(tuned: Tuned) -> None:
    assert seed_score(0.9, ("means_only",), 3, 3) == (0.9, [], 3)
    assert seed_score(0.9, (), 2, 3) == (None, ["few_latents"], 2)
    assert seed_score(0.9, (), 0, 3) == (None, ["collapsed"], 0)
    assert seed_score(np.inf, ("ignores_codes",), 3, 3) == (None, ["ignores_codes", "not_finite"], 3)
    made = [Trial(at, 0, {"beta": at}, "judged", at / 9, (), (), (count,)) for at, count in enumerate((3, 2, 2, 3, 1))]
    by_latents = dataclasses.replace(tuned, trials=tuple(made)).by_latents()
    assert {count: trial.number for count, trial in by_latents.items()} == {1: 4, 2: 2, 3: 3}


@pytest.mark.parametrize(
    ("scores", "value"),
    [
        ([0.1, 0.2, 0.6], 0.2),
        ([None, 0.2, 0.6], 0.2),  # one that is unfit is worse than the worst
        ([None, None, 0.6], None),
        ([None, 0.2], None),
        ([None, 0.2, 0.3, 0.6], 0.25),
    ],
)
def test_a_seed_that_is_unfit_counts_as_the_worst(scores: list[float | None], value: float | None) -> None:
    seed_scores = [SeedScore(score, () if score else ("diverged",)) for score in scores]
    trial = valued(Trial(0, 0, {}), seed_scores, "higher")
    assert trial.value == (None if value is None else pytest.approx(value))
    assert trial.state == ("failed" if value is None else "judged")
    assert trial.flags == (("diverged",) if None in scores else ())


def test_a_small_space_is_tried_once_and_then_the_search_ends(fake: Criterion, tmp_path: Path) -> None:
    space = parse_space(["beta=1,3,9", "estimator=weighted,stratified", "gamma=2"])
    found = simulated(tmp_path, fake, space, trials=20)
    assert [trial.generation for trial in found.trials] == [0, 0, 0, 0, 1, 1]
    assert len({tuple(trial.hyper.values()) for trial in found.trials}) == 6
    assert found.hyper["beta"] == 3


def test_ranges_are_written_as_they_are_read() -> None:
    texts = ["beta=1..16", "gamma=1e-05..0.123456789:log", "delta=10,20,40", "prior=flow,normal", "second=true,false"]
    space = parse_space(texts)
    assert [f"{name}={values}" for name, values in space.items()] == texts
    assert space["beta"] == Range(1.0, 16.0)
    assert space["gamma"] == Range(1e-5, 0.123456789, log=True)
    assert space["delta"] == Range(choices=(10.0, 20.0, 40.0))
    assert space["second"].choices == (True, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beta", "is not of the form NAME=LOW..HIGH"),
        ("=1..2", "is not of the form"),
        ("beta=1..two", "is not of the form"),
        ("beta=16..1", r"16\.\.1 is not a range: its first number must be the smaller"),
        ("beta=2..2", "must be the smaller one"),
        ("beta=1..inf", "give two numbers"),
        ("beta=0..1:log", r"0\.\.1:log has no logarithm"),
        ("beta=1..2:lin", "ends in :lin"),
        ("beta=1,2,1", "names a value twice"),
    ],
)
def test_what_is_not_a_range_is_refused(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        parse_space([text])


def test_a_hyperparameter_has_one_range() -> None:
    with pytest.raises(RequestError, match="'beta' is given twice"):
        parse_space(["beta=1..2", "beta=3"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"space": {}}, "name at least one hyperparameter to search"),
        ({"space": {"bta": Range(1, 2)}}, "has no hyperparameter 'bta': did you mean 'beta'"),
        ({"space": {"beta": Range(-1, 2)}}, r"beta=-1 is outside \[0, inf\]"),
        ({"space": {"beta": Range(choices=("high",))}}, "beta=high is not a number"),
        ({"method": "beta_tcvae", "space": {"estimator": Range(1, 2)}}, "estimator=1.0 is not one of"),
        ({"method": "tcvae"}, "unknown method 'tcvae'"),
        ({"criterion": "mig"}, "unknown criterion 'mig'"),
        ({"criterion": "pipe_rec"}, "measures from the best model of a family"),
        ({"settings": {"amung": "all"}}, "udr has no setting 'amung': did you mean 'among'"),
        ({"seeds": 1}, "udr compares the seeds of a trial"),
        ({"trials": 0}, "trials must be at least 1"),
        ({"together": 0}, "together must be at least 1"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"nets": "huge"}, "unknown nets 'huge'"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"informative": 4}, "informative must be from 1 to 3"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_written(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    request = {"method": "beta_vae", "space": SPACE, **SMALL, **changes}
    with pytest.raises(RequestError, match=message):
        tune(BLOCKS, out=tmp_path / "out", **request)
    assert not (tmp_path / "out").exists()


def test_another_request_is_not_mixed_with_the_one_there(tuned: Tuned, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="holds a search with steps 60, not 61: choose another"):
        tune(BLOCKS, "beta_vae", SPACE, out=tuned.folder, **{**SMALL, "steps": 61})
    with pytest.raises(RequestError, match=r"holds a search with space \(beta 0.01..1:log\), not \(beta 0.01..1\)"):
        tune(BLOCKS, "beta_vae", {"beta": Range(0.01, 1.0)}, out=tuned.folder, **SMALL)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RequestError, match="is not empty and holds no results"):
        tune(BLOCKS, "beta_vae", SPACE, out=tmp_path, **SMALL)


@pytest.mark.parametrize("text", ["[]", "{}", '{"trials": [{"number": 0}]}'])
def test_files_that_are_not_a_search_are_named(text: str, tuned: Tuned, tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(text)
    with pytest.raises(RequestError, match=r"request\.json is not a request of Sober's"):
        tune(BLOCKS, "beta_vae", SPACE, out=tmp_path, **SMALL)
    (tmp_path / "request.json").write_bytes((tuned.folder / "request.json").read_bytes())
    (tmp_path / "trials.json").write_text(text)
    with pytest.raises(RequestError, match=r"trials\.json does not hold trials"):
        tune(BLOCKS, "beta_vae", SPACE, out=tmp_path, **SMALL)


def test_without_optuna_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(importlib.import_module("sys").modules, "optuna", None)
    with pytest.raises(RequestError, match=r"pip install -e '\.\[optuna\]'"):
        tune(BLOCKS, "beta_vae", SPACE, out=tmp_path / "out", **SMALL)


def test_optuna_is_silent_and_its_own_settings_are_left_as_they_were(
    fake: Criterion, tmp_path: Path, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    before = optuna.logging.get_verbosity()
    simulated(tmp_path, fake, SPACE, trials=12)
    assert capfd.readouterr() == ("", "")
    assert not [each for each in recwarn if "optuna" in str(each.filename)]
    assert optuna.logging.get_verbosity() == before


def test_nothing_is_unpickled(fake: Criterion, tuned: Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pickle = importlib.import_module("pickle")
    monkeypatch.setattr(pickle, "loads", Interrupt(1))
    monkeypatch.setattr(pickle, "load", Interrupt(1))
    assert len(simulated(tmp_path, fake, SPACE, trials=12).trials) == 12
    assert {path.suffix for path in tuned.folder.rglob("*") if path.is_file()} <= {".json", ".safetensors", ".lock", ""}
