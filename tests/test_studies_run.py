"""Every study of the papers runs from end to end, at a scale that shows no more than that."""

from __future__ import annotations

from pathlib import Path

import pytest

import sober
from sober.cli import app
from sober.errors import RequestError
from sober.metrics.registry import home_of
from sober.metrics.scoring.score import resolved
from sober.requests.study.plan import plan
from sober.requests.study.study import find_study, shipped
from sober.results.paper_check.checklist import papers

QUICKEST = "udr"
OTHERS = sorted(set(shipped()) - {"demo", QUICKEST})  # the demo has a test of its own


@pytest.mark.parametrize("name", [QUICKEST, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_a_study_runs_from_end_to_end(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / name
    app(["study", "run", name, "--scale", "tiny", "--out", str(folder)], result_action="return_none")
    output = " ".join(capsys.readouterr().out.split())
    assert "Models were trained for 2 steps: that tests the code, but says nothing about models." in output
    assert "failed" not in output
    results = sober.open(folder)
    study = find_study(name)[0].scaled("tiny")
    planned = plan(study)
    assert {run.identity for run in results.finished} == set(planned.runs)
    table = results.table()
    names = set(table["metric"])
    scores = [score for metric, wanted, _ in resolved(study.metrics, True) for score in wanted or metric.scores]
    of_means = {score for score in scores if not home_of(score).scores[score].samples_of}
    assert of_means | {asked.name for asked in study.asked} <= names
    of_criteria = table.filter(kind="criterion").unique(["metric", "settings"])
    assert len(of_criteria) == len(study.asked)  # the same criterion with other settings has rows of its own
    page = (folder / "report.html").read_text()
    assert "that tests the code, but says nothing" in page
    assert planned.missing == {}
    if name in papers():
        with pytest.raises(RequestError, match="--anyway"):
            app(["study", "tables", str(folder), "--paper", name], result_action="return_none")
        app(["study", "tables", str(folder), "--paper", name, "--anyway"], result_action="return_none")
