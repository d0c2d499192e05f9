"""The papers' tables and figures: all are on the list, what the list names exists, and the page says the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT
from scripts import load_script
from sober.criteria import CRITERIA
from sober.errors import RequestError
from sober.methods import METHODS
from sober.methods.settings import setting
from sober.metrics import METRICS
from sober.report.figures import FIGURES
from sober.requests.study.makeable import makeable
from sober.requests.study.plan import plan
from sober.requests.study.study import find_study, shipped
from sober.results import TABLES, as_runs
from sober.results.paper_check.checklist import Item, Needs, Offer, find_paper, items, papers, verdict
from sober.results.paper_check.paper_numbers import (
    ComparedNumber,
    PrintedNumber,
    compare,
    judged,
    numbers_of,
    refuse_short_training,
)
from sober.results.stats import Interval
from sober.results.tables.means import best_and_mean_strength, means_by_setting
from sober.tasks import TASKS
from sober.types import Run
from sober.worlds import WORLDS
from sober.worlds.views import VIEWS
from test_cli import run as command
from test_tables import noise, results

SCORES = {score for measure in (*METRICS.values(), *TASKS.values()) for score in measure.scores}
SECTIONS = {"models", "explore"}
SHORT = {"SL": "sober_look", "UDR": "udr", "DAVA": "dava", "DCI": "dci", "β-TCVAE": "beta_tcvae"}


# The list.


def test_every_item_of_the_papers_is_on_the_list_once() -> None:
    names = [(item.paper, item.name) for item in items()]
    assert len(names) == len({*names}) == 143
    assert {name: len(paper.items) for name, paper in papers().items()} == {
        **{"sober_look": 46, "udr": 22, "dava": 38, "dci": 11, "beta_tcvae": 26}
    }


def test_the_list_is_that_of_those_who_read_the_papers(shared: Path) -> None:
    pages = sorted((shared / "papers").glob("tables_*.md"))
    if not pages:
        pytest.skip("the papers' checklists are not here")
    found = [
        (SHORT[paper], name)
        for page in pages
        for paper, name in re.findall(r"^\| (SL|UDR|DAVA|DCI|β-TCVAE) \| ([^|]+?) \|", page.read_text(), re.MULTILINE)
    ]
    assert {*found} == {(item.paper, item.name) for item in items()}


@pytest.mark.parametrize("item", list(items()), ids=lambda item: f"{item.paper} {item.name}")
def test_what_an_item_names_exists_and_it_says_why_where_it_is_not_made(item: Item) -> None:
    assert item.paper in shipped()
    assert item.table in {*TABLES, ""}
    assert item.figure in {*FIGURES, ""}
    assert item.section in {*SECTIONS, ""}
    assert {*item.needs.worlds} <= {*WORLDS}
    assert {*item.needs.methods} <= {*METHODS}
    assert {*item.needs.scores} <= SCORES
    assert {*item.needs.criteria, *item.needs.versions} <= {*CRITERIA}
    assert {*item.needs.views} <= {*VIEWS}
    hyper = {each.name for name in item.needs.methods for each in METHODS[name].hyper}
    assert {*item.needs.varied} <= hyper | {"batch", "steps"}
    assert {*item.needs.least} <= {"worlds", "methods", "scores", "criteria"}
    makes = bool(item.table or item.figure or item.section or item.command)
    assert sum(map(bool, (item.waits, item.nothing, item.refused))) <= 1
    assert makes or item.why_not
    assert bool(item.commands()) == (item.state == "made" or bool(item.command))


def test_the_scores_of_the_papers_tables_exist() -> None:
    assert set(TABLES["transfer"].scores) == {
        *("beta_vae", "factor_vae", "mig", "modularity", "dci_disentanglement", "sap", "irs")
    }
    for table in ("transfer", "variance_averages", "criteria_averages", "best_and_mean_strength"):
        assert len(TABLES[table].scores) > 1
        assert {*TABLES[table].scores} <= SCORES | {*CRITERIA}
    assert TABLES["leaderboard"].scores == ()


def test_the_page_is_made_of_the_list() -> None:
    module = load_script(ROOT / "docs" / "make_papers.py")
    written = (ROOT / "docs" / "studies" / "papers.md").read_text(encoding="utf-8")
    assert written == module.page(), "run python docs/make_papers.py"
    assert len(re.findall(r"^\| .+ \| .+ \| .* \| .* \| .* \|$", written, re.MULTILINE)) >= 143


# What a plan makes of it.

OFFER = Offer(
    {"dsprites": "", "cars3d": "its file is not here"}, {"vae": 1, "beta_vae": 6}, ("mig", "sap"), {"udr": 2}, 5
)


@pytest.mark.parametrize(
    ("needs", "can", "says"),
    [
        (Needs(), "wholly", ""),
        (Needs(worlds=("dsprites",), methods=("vae",), scores=("mig",), criteria=("udr",), seeds=5), "wholly", ""),
        (Needs(worlds=("dsprites", "rooms")), "in part", "no world rooms"),
        (Needs(worlds=("dsprites", "rooms"), least={"worlds": 2}), "not", "no world rooms"),
        (Needs(worlds=("cars3d",)), "not", "no files of cars3d"),
        (Needs(worlds=("cars3d", "dsprites", "rooms")), "in part", "no world rooms; no files of cars3d"),
        (Needs(methods=("dava", "vae")), "in part", "no method dava"),
        (Needs(scores=("irs", "mig"), least={"scores": 2}), "not", "no score irs"),
        (Needs(criteria=("elbo", "kl")), "not", "no criteria elbo, kl"),
        (Needs(seeds=6), "not", "5 seeds, and it takes 6"),
        (Needs(strengths=6), "wholly", ""),
        (Needs(methods=("vae",), strengths=2), "not", "1 strength of a method, and it takes 2"),
        (Needs(versions={"udr": 4}), "in part", "2 versions of udr, and it takes 4"),
        (Needs(varied=("alpha",)), "not", "only one alpha"),
        (Needs(views=("joint",)), "not", "no view joint"),
        (Needs(worlds=("faces3d",), stand_ins=("dsprites",)), "in part", "dsprites in place of faces3d"),
        (Needs(worlds=("faces3d",), stand_ins=("heads",)), "not", "no world faces3d"),
        (Needs(worlds=("dsprites",), stand_ins=("rooms",)), "wholly", ""),
    ],
)
def test_a_verdict_says_what_is_missing(needs: Needs, can: str, says: str) -> None:
    assert verdict(Item("udr", "Table 9", "nothing", table="leaderboard", needs=needs), OFFER) == (can, says)


def test_an_item_of_which_a_part_is_missing_is_made_in_part() -> None:
    item = Item("udr", "Table 9", "nothing", table="leaderboard", missing="its second half", needs=Needs())
    assert verdict(item, OFFER) == ("in part", "without its second half")


def test_what_waits_is_not_made_whatever_is_offered() -> None:
    assert verdict(Item("udr", "Table 9", "x", waits="waits for tasks: tea"), OFFER) == ("not", "waits for tasks: tea")


def test_a_plan_says_which_items_it_makes() -> None:
    study, _ = find_study("udr")
    verdicts = {item.name: said for item, said in makeable(plan(study.scaled("small")))}
    assert len(verdicts) == 22
    assert verdicts["Figure 2"] == ("wholly", "")
    assert verdicts["Figure 3"] == ("not", "no world shapes3d")
    assert verdicts["Figure 7"].can == "in part"
    assert makeable(plan(find_study("demo")[0].scaled("tiny"))) == []


def test_the_command_prints_the_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("study", "plan", "dci") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "what this plan makes of the paper's 11 tables, figures and algorithms" in said
    assert "wholly Table 1; Figure 3; Table 3, 4, 5; Figure 5, 6" in said
    assert "nothing to run Figure 1, 2; Table 2; Figure 4" in said
    assert command("study", "plan", "beta_tcvae") == 0
    assert "in part F, near 0.1 (S7) without models with MIG near 0.1" in " ".join(capsys.readouterr().out.split())


# The papers' numbers.


def all_numbers() -> list:
    return [numbers for paper in papers() for numbers in numbers_of(paper)]


def test_every_number_belongs_to_an_item_and_to_a_table_that_has_its_columns() -> None:
    runs = as_runs(results(noise(), metrics=("mig", "sap", "udr")))
    for numbers in all_numbers():
        item = find_paper(numbers.paper).item(numbers.item)
        assert item.table == numbers.table, (numbers.paper, numbers.item)
        assert numbers.where
        columns = TABLES[numbers.table](runs, resamples=5).columns
        for cell in numbers.cells:
            assert {*cell.match} | {numbers.column} <= {*columns}, (numbers.paper, numbers.item, cell.match)
            assert cell.printed_to > 0


def test_numbers_name_what_exists() -> None:
    known = {
        **{"world": {*WORLDS, "same", "different"}, "method": {*METHODS}, "which": {"best", "mean", "fixed"}},
        "metric": SCORES | {*CRITERIA, *METRICS, *TASKS, "same", "different"},
        "criterion": {*CRITERIA, "metrics with each other"},
        "by": {"method", "setting"},
    }
    for numbers in all_numbers():
        for cell in numbers.cells:
            for column, value in cell.match.items():
                name = value["is"] if isinstance(value, dict) and "is" in value else value
                assert column not in known or name in known[column], (numbers.item, column, name)


def test_numbers_are_those_that_the_papers_print() -> None:
    def printed(paper: str, item: str) -> list[tuple]:
        (numbers,) = [each for each in numbers_of(paper) if each.item == item]
        return [(tuple(cell.match.values()), round(cell.value, 6), cell.spread) for cell in numbers.cells]

    assert (("same", "same"), 0.819, None) in printed("sober_look", "Table 1")
    assert (("teapots", "info_gan", "zero_shot", "forest_inside", "red"), 0.63, None) in printed("dci", "Table 5")
    assert (("teapots", "vae", "zero_shot", "lasso_inside", "elevation"), 1.11, None) in printed("dci", "Table 5")
    assert (("small_norb", "irs", "method"), 0.87, None) in printed("sober_look", "Table 5a")
    assert (("cars3d", "beta_vae", "setting"), 0.05, None) in printed("sober_look", "Table 5b")
    assert (("shapes3d", "dava", "fixed", "pipe"), 0.61, 0.04) in printed("dava", "Table 1")
    assert (("mpi3d_toy", "factor_vae", "best", "pipe"), 0.36, 0.16) in printed("dava", "Table 11")
    assert printed("udr", "Table 1")[0][1:] == (0.51, 0.07)
    assert printed("udr", "Table 6")[-1] == (("metrics with each other",), 0.67, 0.2)
    assert sum(len(numbers.cells) for numbers in all_numbers()) == 713


def test_numbers_are_those_that_were_read(shared: Path) -> None:
    """Every number of Tables 5, 9 to 16 and of DCI is there, with its spread, as often as it was read."""
    files = {path.stem: json.loads(path.read_text()) for path in (shared / "papers").glob("numbers_*.json")}
    if not files:
        pytest.skip("the papers' numbers are not here")
    sober_look, others = files["numbers_sober_look_udr"]["sober_look"], files["numbers_dava_dci_beta_tcvae"]
    for item in ("Table 5a", "Table 5b"):
        read = [value / 100 for row in sober_look[item]["rows"].values() for value in row.values()]
        assert sorted(_values("sober_look", item)) == pytest.approx(sorted(read))
    for number in (1, 2, 3, *range(9, 17)):
        table = others["dava_pipe"][f"Table {number}"]
        rows = [row for row in table["rows"] if row["method"] != "RecurD"]
        read = [row[column]["value"] for row in rows for column in table["columns"]]
        assert _values("dava", f"Table {number}") == pytest.approx(read)


def _values(paper: str, item: str) -> list[float]:
    return [cell.value for numbers in numbers_of(paper) if numbers.item == item for cell in numbers.cells]


# Ours beside them.


def cells(frame: pl.DataFrame, paper: str, item: str) -> dict[str, ComparedNumber]:
    beside, _, _ = compare(as_runs(frame), paper, [item], resamples=30)
    return {row.what: row for row in beside}


def variance(world: str, method: str, strength: float, seed: int, metric: str) -> float:
    """Half of the variance between methods, half between seeds."""
    return (method == "beta_vae") + (seed % 2)


def test_ours_stands_paper_numberss_number_with_the_difference() -> None:
    frame = results(variance, metrics=("mig", "sap"), worlds=("dsprites", "blocks"))
    said = cells(frame, "sober_look", "Table 5a")
    assert len(said) == 56
    mig = said["dsprites, mig, method"]
    assert (mig.ours, mig.paper) == (pytest.approx(0.5), pytest.approx(0.27))
    assert mig.difference == pytest.approx(0.23)
    assert mig.low is not None
    assert mig.high is not None
    assert (mig.verdict == "disagrees") == (mig.low > 0.275 or mig.high < 0.265)
    assert (said["cars3d, mig, method"].ours, said["cars3d, mig, method"].note) == (None, "no such row")
    assert said["dsprites, irs, method"].verdict is None


def test_a_table_that_cannot_be_made_says_so_beside_each_number() -> None:
    said = cells(results(noise(), metrics=("mig",), worlds=("dsprites",)), "sober_look", "Table 1")
    assert {row.note for row in said.values()} == {"transfer needs at least two supervised metrics"}


@pytest.mark.parametrize(
    ("value", "verdict"), [(0.26, "agrees"), (0.3, "agrees"), (0.34, "disagrees"), (0.1, "disagrees")]
)
def test_numbers_agree_where_the_spread_reaches_ours(value: float, verdict: str) -> None:
    """Table 1 of the DAVA paper, β-TCVAE at a mean strength on Shapes3D: 0.26 ± 0.06, to the second digit."""
    frame = results(lambda *of: value, metrics=("mig", "sap"), worlds=("shapes3d",))
    frame = frame.with_columns(method=pl.col("method").replace("beta_vae", "beta_tcvae"))
    said = cells(frame, "dava", "Table 1")["shapes3d, beta_tcvae, mean, mig"]
    assert (said.ours, said.low, said.high) == pytest.approx((value, value, value))
    assert said.verdict == verdict


@pytest.mark.parametrize(
    ("ours", "paper", "verdict"),
    [
        ((0.27, -0.14, 0.67), (0.67, None), "cannot tell"),  # VAEs after two steps: nearly every number overlaps
        ((0.27, 0.0, 0.67), (0.67, None), "cannot tell"),
        ((0.64, 0.58, 0.70), (0.67, None), "agrees"),
        ((0.27, 0.20, 0.34), (0.67, None), "disagrees"),
        ((0.27, 0.00, 0.54), (0.67, None), "disagrees"),  # wide, but not wide enough to reach the paper's number
        ((0.55, 0.48, 0.62), (0.67, 0.2), "agrees"),
        ((0.03, 0.00, 0.09), (0.01, None), "cannot tell"),  # nine times the paper's number is within our interval
        ((9.6, 9.0, 10.2), (10.0, None), "agrees"),
        ((0.67, None, None), (0.67, None), "cannot tell"),
        ((0.12, None, None), (0.67, None), "cannot tell"),  # of a single model nothing is known of other seeds
    ],
)
def test_an_interval_that_overlaps_with_everything_agrees_with_nothing(
    ours: tuple[float, float, float], paper: tuple[float, float | None], verdict: str
) -> None:
    number = PrintedNumber({}, *paper, printed_to=0.01, note="")
    assert judged(Interval(*ours), number) == verdict


def test_intervals_of_means_stay_within_the_range_of_their_score() -> None:
    frame = results(lambda *of: 0.9 * (of[3] == 0), metrics=("mig", "gaussian_total_correlation"), seeds=3)
    for table in (means_by_setting, best_and_mean_strength):
        found = table(frame, resamples=2)
        mig, unbounded = (found.filter(metric=name) for name in ("mig", "gaussian_total_correlation"))
        assert (mig["low"].min(), mig["high"].max()) == (0.0, 1.0)
        assert unbounded["high"].max() > 1.0
        assert (found["low"] <= found["value"]).all()
        assert (found["value"] <= found["high"]).all()


def test_a_world_is_known_by_its_name_whatever_its_views_and_two_such_are_told() -> None:
    frame = results(variance, worlds=("dsprites | keep shape=heart",))
    assert cells(frame, "sober_look", "Table 5a")["dsprites, mig, method"].ours == pytest.approx(0.5)
    both = results(variance, worlds=("dsprites", "dsprites | keep shape=heart"))
    assert cells(both, "sober_look", "Table 5a")["dsprites, mig, method"].note == "several rows, which differ in world"


def test_a_criterion_is_known_by_its_settings() -> None:
    frame = results(noise(), metrics=("mig", "sap", "udr"))
    said = '{{"among": "settings", "partners": 50.0, "similarity": "{}"}}'
    lasso, spearman = (
        frame.filter(metric="udr").with_columns(settings=pl.lit(said.format(name)), value=pl.col("value") * sign)
        for name, sign in (("lasso", 1.0), ("spearman", -1.0))
    )
    beside = cells(pl.concat([frame.filter(metric="mig"), lasso, spearman]), "udr", "Table 6")
    one, other = beside["udr (lasso, settings)"].ours, beside["udr (spearman, settings)"].ours
    assert one is not None
    assert one == pytest.approx(-other)
    assert beside["udr (lasso, methods)"].note == "no such row"


def test_a_version_with_a_later_setting_or_another_preset_stands_beside_and_is_not_compared() -> None:
    frame = results(noise(), metrics=("mig", "sap", "udr"))
    said = '{{"among": "settings", "partners": 50.0, {}"similarity": "lasso"}}'
    plain, reference = (
        frame.filter(metric="udr").with_columns(settings=pl.lit(said.format(more)), value=pl.col("value") * sign)
        for more, sign in (("", 1.0), ('"preset": "reference", ', -1.0))
    )
    mig = frame.filter(metric="mig")
    alone = cells(pl.concat([mig, plain]), "udr", "Table 6")["udr (lasso, settings)"]
    assert alone.ours is not None
    other = mig.with_columns(preset=pl.lit("authors"), value=-pl.col("value"))
    beside = cells(pl.concat([mig, plain, reference]), "udr", "Table 6")["udr (lasso, settings)"]
    assert (beside.ours, beside.note) == (alone.ours, alone.note)
    shares = [
        cells(table, "sober_look", "Table 5a")["dsprites, mig, method"].ours for table in (mig, pl.concat([mig, other]))
    ]
    assert shares[0] == shares[1] is not None


def test_what_was_hardly_trained_is_refused() -> None:
    with pytest.raises(
        RequestError, match=r"20 steps of the 300,000 of sober_look: .* --anyway prints them all the same"
    ):
        refuse_short_training([20, 10], 300_000, "sober_look")
    refuse_short_training([3_000], 300_000, "sober_look")


def test_a_paper_or_an_item_that_is_not_there_is_refused() -> None:
    with pytest.raises(RequestError, match="unknown paper 'moon': choose one of beta_tcvae, dava, dci"):
        find_paper("moon")
    with pytest.raises(RequestError, match="udr has no 'Table 77': did you mean 'Table "):
        find_paper("udr").item("Table 77")
    assert find_paper("udr").item("table 6").name == "Table 6"


def test_the_command_refuses_a_look_and_prints_it_anyway(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sober.cli.console.console._width", 160)
    assert command("study", "tables", trained, "--paper", "sober_look") == 2
    assert "--anyway" in capsys.readouterr().err
    assert command("tables", trained, "--paper", "sober_look", "--only", "Table 5a", "--anyway") == 0
    said = capsys.readouterr().out
    assert "Table 5a (Appendix G)" in said
    assert "56 cells without a number of ours" in said
    assert "these are results of" in said
    assert pl.read_parquet(trained / "tables" / "paper_sober_look.parquet").height == 56
    assert command("tables", trained, "--paper", "sober_look", "--only", "Figure 23", "--anyway") == 0
    assert "scores_against_tasks" in capsys.readouterr().out
    assert command("tables", trained, "--paper", "sober_look", "--only", "Figure 5", "--anyway") == 0
    assert "figure distributions of the report" in capsys.readouterr().out
    assert command("tables", trained, "--only", "Table 1") == 2
    assert command("tables", trained, "--paper", "udr", "--names", "transfer") == 2


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows about runs of few steps, and files in place of their models."""
    from rows import score  # noqa: PLC0415
    from sober.evaluation.cohorts import cohorts_of  # noqa: PLC0415
    from sober.results.folder import Folder  # noqa: PLC0415
    from sober.results.request import Request  # noqa: PLC0415

    runs = [Run("blocks", "beta_vae", {"beta": b}, steps=20, seed=s) for b in (1.0, 4.0) for s in range(2)]
    request = Request("train", {}, {"blocks": "blocks"}, tuple(cohorts_of(runs)))
    folder = Folder.begin(tmp_path_factory.mktemp("look") / "runs", request)
    folder.store.write([score(run, "mig", 0.1 * run.seed) for run in runs], folder.request.runs, in_words=setting)
    (folder.path / "models").mkdir()
    for run in runs:
        folder.model_path(run).write_bytes(b"")
    return folder.path
