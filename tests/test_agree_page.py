"""The page of `sober agree`, the section of a report, and what a folder of results keeps."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pytest

import sober
from families import BLOCKS, small_runs
from sober.agreement.planted import planted, planted_model
from sober.cli.main import main
from sober.report.agreement_page import agreement_page
from sober.report.component_pictures import FolderAgreement, component_pictures
from sober.requests.agree_folder import kept_codes
from sober.requests.train import train
from sober.results.showcase_files import save_showcase, showcase_path


def codes_of(sizes: tuple[int, ...] = (4, 8), models: int = 3) -> dict[str, np.ndarray]:
    shared = np.random.default_rng(1).laplace(size=(600, 6))
    codes = {}
    for size in sizes:
        for seed in range(models):
            rng = np.random.default_rng([size, seed])
            table = shared[:, : min(size, 6)] + 0.2 * rng.standard_normal((600, min(size, 6)))
            own = rng.standard_normal((600, max(0, size - 6)))
            codes[f"<size {size}> seed {seed}"] = np.column_stack([table, own])
    return codes


def test_the_page_says_what_was_found_and_holds_every_section() -> None:
    agreement = sober.agree(codes_of())
    page = agreement_page(agreement.analysis)
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles == [
        "What was found", "Components", "Models", "How many latents?", "What recurs only together", "How it was found"
    ]  # fmt: skip
    for sentence in agreement.findings:
        assert html.escape(sentence) in page
    assert "<size" not in page
    assert "http" not in re.sub(r"https?://(www\.w3|vega)", "", page.split("<body")[1])


def test_directions_are_drawn_where_a_shape_is_given() -> None:
    truth = planted(rows=500)
    models = [planted_model(truth, seed=seed) for seed in range(3)]
    analysis = sober.agree([model.codes for model in models], [model.directions for model in models]).analysis
    assert agreement_page(analysis, (8, 8)).count("data:image/png") > 20
    assert "data:image/png" not in agreement_page(analysis, (5, 5))


def test_the_command_draws_directions_of_the_shape_that_is_given(tmp_path: Path, capsys) -> None:
    truth = planted(rows=500)
    for seed in range(3):
        np.savez(tmp_path / f"{seed}.npz", W_dec=planted_model(truth, seed=seed).directions)
    files = [str(tmp_path / f"{seed}.npz") for seed in range(3)]
    command = ["agree", *files, "--similarity", "cosine", "--draws", "64", "--out", str(tmp_path / "out")]
    main([*command, "--picture-shape", "8x8"])
    assert (tmp_path / "out" / "agreement.html").read_text().count("data:image/png") > 20
    capsys.readouterr()
    for shape, words in (("8x7", "has 56 numbers, and a direction 64"), ("8", "is no shape"), ("0x64", "is no shape")):
        with pytest.raises(SystemExit):
            main([*command, "--picture-shape", shape])
        assert words in " ".join(capsys.readouterr().err.split())


def test_nothing_that_recurs_makes_a_page_as_well(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    agreement = sober.agree([rng.standard_normal((100, 3)) for _ in range(2)])
    text = agreement.report(tmp_path / "a.html").read_text()
    assert "No latents of two models are each other&#x27;s best partners" in html.escape(html.unescape(text))


def test_a_folder_of_results_is_compared_by_the_codes_that_it_keeps(tmp_path: Path, capsys) -> None:
    runs = small_runs("beta_vae", {"beta": [1.0, 4.0]})
    results = train(runs, BLOCKS, tmp_path / "runs")
    for run in results.runs:
        results.codes(run, pictures=500)
    by_world = kept_codes(results)
    assert [len(models) for models in by_world.values()] == [len(runs)]
    (codes,) = by_world.values()
    assert {model.mean.shape for model in codes.values()} == {(500, 3)}
    main(["agree", str(tmp_path / "runs")])
    assert "live latent" in " ".join(capsys.readouterr().out.split())
    results.score(["mig"])
    page = results.report(tmp_path / "report.html").read_text()
    assert "What recurs among the models?" in page
    assert "What components do" in page


def saved_traversals(folder: Path, identity: str, pictures: np.ndarray) -> None:
    save_showcase(showcase_path(folder, identity), {"traversals": pictures}, {"run": identity})


def test_a_report_shows_what_each_component_does_in_the_models_with_a_showcase(tmp_path: Path) -> None:
    """Two models hold the same three latents, the second in another order and the first of them negated."""
    shared = np.random.default_rng(0).laplace(size=(300, 3))
    codes = {"a": shared, "b": np.column_stack([shared[:, 1], -shared[:, 0], shared[:, 2]]), "c": shared}
    agreement = FolderAgreement(sober.agree(codes, least=0.9).analysis, {name: f"run{name}" for name in codes})
    assert component_pictures(tmp_path, agreement) == ""
    grey = np.linspace(0, 250, 11).astype(np.uint8)
    rising = np.broadcast_to(grey[None, :, None, None, None], (3, 11, 4, 4, 1)).copy()
    rising[1] //= 2
    rising[2] = 99
    saved_traversals(tmp_path, "runa", rising)
    saved_traversals(tmp_path, "runb", np.stack([rising[1], rising[0, ::-1], rising[2]]))
    page = component_pictures(tmp_path, agreement)
    heads, *rows = re.findall("<tr>.*?</tr>", page)
    assert re.findall("<th.*?>(.*?)</th>", heads) == ["component", "a", "b"]
    assert len(rows) == 3
    for row in rows:
        first, second = re.findall(r'src="(.*?)"', row)
        assert first == second
