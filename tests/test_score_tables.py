"""What `sober score` prints fits the terminal, and tells the same at every width."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from families import BLOCKS, small_runs
from sober.cli.score_tables import FEW, model_lines, score_lines
from sober.metrics import FLAGS, Scores, score
from sober.requests.results import Results
from sober.requests.train import train

ROWS = 300
RNG = np.random.default_rng(0)
FACTORS = RNG.integers(0, (3, 4, 5), (ROWS, 3))
CODES = np.concatenate([FACTORS + RNG.normal(size=FACTORS.shape), RNG.normal(size=(ROWS, 20))], axis=1)
CHEAP = ["mig", "mi", "modularity", "sap", "gaussian_total_correlation", "wasserstein_correlation"]


@pytest.fixture(scope="module")
def scores() -> Scores:
    """Scores with everything that a table can have: corrections, errors, chance, flags, copies."""
    holes = np.where(RNG.random(FACTORS.shape) < 0.1, np.nan, FACTORS)
    return score(CODES, holes, metrics=CHEAP, repeats=2, chance=3)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return train(small_runs("beta_vae", {"beta": [1.0, 4.0]}), BLOCKS, tmp_path_factory.mktemp("tables") / "family")


def printed(lines: object, width: int) -> str:
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as captured:
        for line in lines:
            console.print(line)
    return captured.get()


@pytest.mark.parametrize("width", [30, 60, 80, 100, 200])
def test_every_width_tells_each_score_once_with_its_flags(width: int, scores: Scores) -> None:
    text = printed(score_lines(scores, "codes.csv", width), width)
    assert max(map(len, text.splitlines())) <= width
    table = text.partition("↑ higher is better")[0]
    first_words = [line.split()[0] for line in table.splitlines() if line.strip()]
    assert "codes.csv" in text
    for row in scores.rows():
        assert first_words.count(row.name) == 1, row.name
    assert "mi/mig = mig" in " ".join(text.split())
    assert "≤ 1/4 is the smallest that 3 shuffles can give" in " ".join(text.split())
    for flag in {flag for row in scores.rows() for flag in row.flags}:
        assert FLAGS[flag] in " ".join(text.split())


@pytest.mark.parametrize("width", [80, 200])
def test_a_corrected_score_and_chance_have_columns_of_their_own(width: int, scores: Scores) -> None:
    lines = printed(score_lines(scores, "codes.csv", width), width).splitlines()
    head = re.split(r"\s{2,}", lines[1].strip())
    assert head[:6] == ["score", "value", "corrected", "±", "chance", "p"]
    [row] = [line for line in lines if line.startswith("modularity ")]
    digits = 3 if width == 80 else 4
    assert f"{scores['modularity']:.{digits}f}" in row
    end = lines[1].index("corrected") + len("corrected")
    assert row[:end].endswith(f" {scores.corrected['modularity']:.{digits}f}")
    assert ("0 to 1 ↑" in row) == (width == 200)
    assert row.startswith("modularity ↑" if width == 80 else "modularity  ")


def test_a_folder_has_its_models_in_rows_and_few_scores(results: Results) -> None:
    rows = results.score(pictures=200)
    lines = printed(model_lines(results, rows), 80).splitlines()
    assert re.split(r"\s{2,}", lines[1].strip())[:5] == ["model", "seed", "run", "MIG", "DCI disentanglement"]
    models = [line for line in lines if line.startswith("β-VAE, β = ")]
    assert len(models) == len(results.finished)
    names = {name for name in rows["metric"].unique() if name not in ("mig", "dci_disentanglement")}
    copies = {"mi/mig", "mi/modularity", "gbt/dci_disentanglement", "gbt/dci_completeness", "svm/sap"}
    assert f"{len(names - copies)} more scores of each model: --json" in " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80


def test_scores_that_were_asked_for_are_shown_if_they_are_few(results: Results) -> None:
    rows = results.score(["sap", "mi/sap", "svm/sap"], pictures=200)
    text = printed(model_lines(results, rows), 100)
    assert "SAP" in text
    assert "SAP of mutual information" in text
    assert "more score" not in text
    assert len(rows["metric"].unique()) <= FEW
    narrow = printed(model_lines(results, rows), 34).splitlines()
    assert max(map(len, narrow)) <= 34
    assert sum("SAP 0." in line for line in narrow) == len(results.finished)


def test_a_file_says_how_many_rows_latents_and_factors_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from test_cli import run  # noqa: PLC0415

    np.savez(tmp_path / "codes.npz", codes=CODES, factors=FACTORS, names=["shape", "size", "colour"])
    assert run("score", tmp_path / "codes.npz", "--metrics", "mig") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "codes.npz: 300 rows, 23 latents, 3 factors (shape, size, colour)" in shown
