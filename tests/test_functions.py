"""Every metric is a plain function, with a signature and a docstring of its own."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sober
from conftest import ROOT
from scripts import load_script
from sober.errors import RequestError
from sober.metrics import METRICS, Meaning, Measured, Metric, Scores, score
from sober.metrics.scoring.metric_functions import function_of

RNG = np.random.default_rng(0)
FACTORS = RNG.integers(0, 4, (300, 3))
CODES = FACTORS @ np.eye(3, 4) + 0.3 * RNG.normal(size=(300, 4))
every = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)


@every
def test_it_gives_what_score_gives(metric: Metric) -> None:
    function = getattr(sober.metrics, metric.name)
    arguments = (CODES, FACTORS) if metric.supervised else (CODES,)
    spread = {"logvar": CODES - 3} if metric.logvar else {}
    found = function(*arguments, **spread, **metric.quick, seed=1)
    expected = score(*arguments, **spread, metrics={metric.name: metric.quick}, seed=1)
    assert isinstance(found, Scores)
    assert found == expected
    assert found.flags == expected.flags
    assert found.settings == expected.settings


@every
def test_its_signature_has_its_settings_and_what_it_needs(metric: Metric) -> None:
    parameters = inspect.signature(getattr(sober.metrics, metric.name)).parameters
    assert {name: parameters[name].default for name in metric.settings} == metric.settings
    assert parameters["seed"].default == 0
    assert ("factors" in parameters) == ("names" in parameters) == ("kinds" in parameters) == metric.supervised
    assert ("logvar" in parameters) == metric.logvar
    assert "metrics" not in parameters
    assert not metric.settings.keys() & inspect.signature(score).parameters.keys(), "a setting hides an argument"
    places = [each.name for each in parameters.values() if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert places == (["codes", "factors"] if metric.supervised else ["codes"])


@every
def test_its_docstring_says_what_the_registry_knows_and_its_example_runs(metric: Metric) -> None:
    function = getattr(sober.metrics, metric.name)
    for name, meaning in metric.scores.items():
        assert f"{name}: {meaning.summary} ({meaning})" in function.__doc__
    assert metric.reference in function.__doc__
    assert all(f"    {preset}: " in function.__doc__ for preset, changes in metric.presets.items() if changes)
    quick = "".join(f", {name}={value!r}" for name, value in metric.quick.items())
    text = re.sub(r"(>>> sorted\(.+)\)\)\n", rf"\1{quick}))\n", function.__doc__)
    test = doctest.DocTestParser().get_doctest(text, {}, metric.name, None, None)
    assert len(test.examples) == 5
    out: list[str] = []
    assert doctest.DocTestRunner().run(test, out=out.append).failed == 0, "".join(out)


def test_some_metrics_look_at_log_variances_and_those_say_so() -> None:
    """Under some preset: `mig` looks at them in its paper's own form."""
    codes = CODES * [1, 1, 1, 0]
    for metric in METRICS.values():
        noticed = False
        for preset in ("study", *metric.presets):
            with_spread, without = (
                score(codes, FACTORS, logvar=spread, metrics={metric.name: metric.quick}, preset=preset)
                for spread in (np.full(codes.shape, -1.0), None)
            )
            noticed |= dict(with_spread) != dict(without)
        assert noticed == metric.logvar, metric.name


def test_a_preset_changes_what_is_not_given() -> None:
    plain = sober.metrics.mig(CODES, FACTORS, preset="paper")
    assert plain.settings["mig"] == {"samples": 10_000, "bins": 20, "latents": "distributions"}
    given = sober.metrics.mig(CODES, FACTORS, preset="paper", bins=20, latents="means")
    assert given.settings["mig"]["latents"] == "means"


def test_functions_and_files_of_one_name() -> None:
    from sober.metrics import mig  # noqa: PLC0415
    from sober.metrics.mig import measure  # noqa: PLC0415

    assert inspect.isfunction(mig)
    assert mig is sober.metrics.mig is function_of(METRICS["mig"])
    assert measure is METRICS["mig"].measure
    file = importlib.import_module("sober.metrics.mig")
    assert inspect.ismodule(file)
    assert sober.metrics.mig is mig, "importing the file takes the name from nobody"
    assert {"mig", "score", "METRICS"} <= set(dir(sober.metrics))
    with pytest.raises(AttributeError, match="has no attribute 'unheard_of'"):
        _ = sober.metrics.unheard_of  # type: ignore[attr-defined]


def test_a_file_that_is_imported_first_leaves_the_name_to_the_function() -> None:
    code = "import sober.metrics.dci; print(type(sober.metrics.dci).__name__, sober.metrics.dci.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "function dci\n"


def test_it_goes_to_another_process_and_back() -> None:
    assert pickle.loads(pickle.dumps(sober.metrics.mig)) is sober.metrics.mig


def test_a_metric_that_is_registered_is_a_function_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(times: int) -> Metric:
        measure = lambda codes, shared, *, seed, times: Measured({"rows": float(times * len(codes.mean))})  # noqa: E731
        meaning = {"rows": Meaning("how many", 0, np.inf)}
        return Metric("counting", "how many rows?", "nobody (2026)", meaning, measure, {"times": times})

    monkeypatch.setitem(METRICS, "counting", rows(1))
    assert sober.metrics.counting(CODES, FACTORS) == {"rows": 300}  # type: ignore[attr-defined]
    assert "counting: how many rows?" in (sober.metrics.counting.__doc__ or "")  # type: ignore[attr-defined]
    monkeypatch.setitem(METRICS, "counting", rows(2))  # and one that takes its place, too
    assert sober.metrics.counting(CODES, FACTORS) == {"rows": 600}  # type: ignore[attr-defined]


def test_a_wrong_call_is_refused_with_the_right_one() -> None:
    with pytest.raises(RequestError, match=r"mig: .*'bin'.*: it is called as mig\(codes, factors, \*, .*bins=20"):
        sober.metrics.mig(CODES, FACTORS, bin=3)  # type: ignore[call-arg]
    with pytest.raises(RequestError, match="missing a required argument: 'factors'"):
        sober.metrics.mig(CODES)  # type: ignore[call-arg]


def test_type_checkers_are_told_what_the_registry_has() -> None:
    made = load_script(ROOT / "docs" / "make_functions.py")
    assert made.FILE.read_text(encoding="utf-8") == made.stub(), "run python docs/make_functions.py"
    assert (Path(sober.__file__).parent / "py.typed").exists()


def test_a_type_checker_knows_the_functions(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    program = "import sober\nfrom sober.metrics import mig\nmig(0, 0, bins=3)\nmig(0, 0, bin=3)\nsober.metrics.dci(0)\n"
    (tmp_path / "user.py").write_text(f"{program}reveal_type(mig(0, 0))\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", str(tmp_path / "user.py")]  # with what `make lint` left in its cache
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert "user.py:3" not in done.stdout, done.stdout
    assert 'user.py:4: error: Unexpected keyword argument "bin" for "mig"' in done.stdout, done.stdout
    assert 'user.py:5: error: Missing positional argument "factors" in call to "dci"' in done.stdout, done.stdout
    assert 'Revealed type is "sober.metrics.scoring.score.Scores"' in done.stdout, done.stdout
