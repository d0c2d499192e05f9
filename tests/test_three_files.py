"""Three files: what a registry knows, the command line, the plan, the table and the report know, and nothing else has
to be told. A study's file adds one of each kind; and no other file of Sober asks for one of them by name.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import importlib
import io
import json
import pkgutil
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import sober
from sober.criteria import CRITERIA
from sober.methods import METHODS
from sober.metrics import METRICS
from sober.nets import NETS
from sober.requests.study import study as studies
from sober.requests.study.plan import SCORING_CORES, plan
from sober.requests.study.study import find_study, shipped
from sober.requests.study.training_rates import Rates
from sober.results.runs import as_runs
from sober.tasks import TASKS
from sober.worlds import WORLDS
from sober.worlds.views import VIEWS
from test_cli import run as command

REGISTRIES: tuple[dict[str, Any], ...] = (METRICS, CRITERIA, TASKS, METHODS, NETS, WORLDS, VIEWS)

# A study, and one of each kind that it brings along. Of `lopsided`, `restless` and `guessing` the lowest is the best.
OWN = '''
"""Is a heavy VAE lopsided?"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from sober import Adam, Factor, Product, Study, Training
from sober.criteria import CRITERIA, Cost, Criterion, Judgement
from sober.methods import METHODS, Hyper, Method
from sober.methods.method import elbo_terms, init_autoencoder, update_by
from sober.metrics import METRICS, Meaning, Measured, Metric
from sober.nets import NETS, Nets
from sober.nets.dense import dense_decoder, dense_encoder
from sober.nets.autoencoder import Cost as NetsCost
from sober.tasks import TASKS, Task
from sober.worlds import WORLDS, Grid
from sober.worlds.views import VIEWS, View


def measure(codes, shared, *, seed):
    variance = np.asarray(codes.mean, float).var(axis=0)
    return Measured({"lopsided": float(variance.max() / max(variance.sum(), 1e-12))})


METRICS["lopsided"] = Metric(
    name="lopsided",
    summary="how much of the variance lies in one latent?",
    reference="Wry (2026) On Lopsided Codes",
    scores={"lopsided": Meaning("share of the largest variance", better="lower", headline=True)},
    measure=measure,
    settings={},
    seconds=METRIC_SECONDS,
)


def judge(evidence, *, seed, progress, shared):
    scores = np.array([float(np.mean(np.asarray(codes.mean, float) ** 2)) for codes in evidence.codes])
    return Judgement(scores, np.stack([scores, scores]), ((),) * len(scores))


CRITERIA["restless"] = Criterion(
    name="restless",
    summary="are codes far from the middle?",
    sees="It sees how far codes are from zero.",
    blind="It cannot see why.",
    reference="Fidget (2026) Codes That Cannot Sit Still",
    judge=judge,
    better="lower",
    headline=True,
    cost=lambda settings, models: Cost(seconds=CRITERION_SECONDS * models),
)


def guess(subjects, *, seed, progress, shared, share):
    halves = [np.asarray(codes.mean, float)[: int(share * len(codes.mean))] for codes in subjects.codes]
    wrong = [(half[:, 0] > 0) != (codes.factors[: len(half), 0] > 3) for half, codes in zip(halves, subjects.codes)]
    misses = [float(np.mean(some)) for some in wrong]
    return [Measured({"guessing": miss}, errors={"guessing": 0.1}) for miss in misses]


TASKS["guessing"] = Task(
    name="guessing",
    summary="does the sign of the first latent tell left from right?",
    reference="Hunch (2026) Guessing Games",
    scores={"guessing": Meaning("share of wrong guesses", better="lower", headline=True)},
    perform=guess,
    settings={"share": 0.5},
    cost=lambda settings, models: Cost(seconds=TASK_SECONDS * models),
)


def loss(model, images, key, hyper, setup):
    elbo = elbo_terms(model, images, key, setup.compute)
    return elbo.terms["reconstruction"] + hyper["weight"] * elbo.terms["kl"], elbo.terms, elbo.statistics


METHODS["heavy_vae"] = Method(
    name="heavy_vae",
    summary="the KL term weighs something",
    reference="Anvil (2026) Heavy Autoencoders",
    hyper=(Hyper("weight", 4.0, "of the KL term", low=0.0),),
    init=init_autoencoder,
    update=update_by(loss),
    cost=METHOD_COST,
)

NETS["pocket"] = Nets(
    name="pocket",
    summary="eight units each way",
    reference="Pocket (2026) Nets That Fit",
    encoder=functools.partial(dense_encoder, widths=(8,)),
    decoder=functools.partial(dense_decoder, widths=(8,), activation=jax.nn.relu),
    judge=functools.partial(dense_encoder, widths=(8,)),
    cost=NetsCost(cpu=NETS_COST, gpu=NETS_COST),
    least=1,
)


class Dots(Grid):
    name = "dots"
    summary = "two rows, each with a dot: 2 factors, 64 pictures of 8 x 8"
    reference = "Speck (2026) Two Dots"
    factors = (Factor("upper", 8), Factor("lower", 8))
    image_shape = (8, 8, 1)

    def make_data(self):
        return ()

    def pixels(self, data, index, key):
        upper, lower = (place[:, None, None] for place in jnp.unravel_index(index, self._sizes))
        row, column = jnp.arange(8)[:, None], jnp.arange(8)
        shown = ((row < 4) & (column == upper)) | ((row >= 6) & (column == lower))
        return shown.astype(float)[..., None]


WORLDS["dots"] = Dots


class Every(View):
    """Every n-th picture."""

    def __init__(self, base, text):
        super().__init__(base, f"every {text}", np.arange(0, base.size, int(text)))


VIEWS["every"] = Every

study = Study(
    name="mine",
    title="Is a heavy VAE lopsided?",
    paper="none",
    products=[
        Product(
            worlds=["dots | every 2"],
            methods={"heavy_vae": {"weight": [0.1, 3.0, 40.0]}},
            seeds=2,
            training=Training(nets="pocket", steps=20, latents=3, batch=16, optimiser=Adam(1e-3)),
        )
    ],
    metrics=["modularity", "lopsided"],
    criteria={"restless": {}},
    tasks={"guessing": {"share": 1.0}},
)
'''
COSTS = {"METRIC_SECONDS": 0.0, "CRITERION_SECONDS": 0.0, "TASK_SECONDS": 0.0, "METHOD_COST": 1.0, "NETS_COST": 1.0}


def write(path: Path, **changes: float) -> Path:
    """The study's file, with what things of its own say that they cost."""
    text = OWN
    for name, value in (COSTS | changes).items():
        text = text.replace(name, repr(value))
    path.write_text(text)
    return path


@contextlib.contextmanager
def registries_restored() -> Iterator[None]:
    """What study files add to the registries is gone afterwards."""
    before = [dict(registry) for registry in REGISTRIES]
    yield
    for registry, entries in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(entries)


@pytest.fixture(scope="module", autouse=True)
def restored() -> Iterator[None]:
    """All of Sober is imported before a study's file is run: whoever copies a registry then copies too little."""
    for module in pkgutil.walk_packages(sober.__path__, "sober."):
        if "__main__" not in module.name:
            importlib.import_module(module.name)
    with registries_restored():
        yield


def said(*arguments: object) -> str:
    """What a command line prints, without line breaks."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sober.cli.console.console._width", 200)  # no name is cut
        assert command(*arguments) == 0
    return out.getvalue()


class Done(NamedTuple):
    """The study, run: its file, its folder, and what the command printed."""

    file: Path
    folder: Path
    said: str

    def table(self) -> pl.DataFrame:
        return sober.open(self.folder).table()


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("own")
    file = write(folder / "mine.py")
    return Done(file, folder / "out", said("study", "run", file, "--out", folder / "out"))


def test_a_study_file_adds_one_of_each_kind_and_is_taken_back(tmp_path: Path) -> None:
    before = [list(registry) for registry in REGISTRIES]
    with registries_restored():
        find_study(write(tmp_path / "mine.py"))
        added = [[name for name in now if name not in was] for now, was in zip(REGISTRIES, before, strict=True)]
    assert added == [["lopsided"], ["restless"], ["guessing"], ["heavy_vae"], ["pocket"], ["dots"], ["every"]]
    assert [list(registry) for registry in REGISTRIES] == before


# The command line.


@pytest.mark.parametrize(
    ("listing", "name", "shows"),
    [
        ("metrics", "lopsided", ["0 to 1, lower is better", "On Lopsided Codes"]),
        ("criteria", "restless", ["better", "lower", "Codes That Cannot Sit Still"]),
        ("tasks", "guessing", ["0 to 1, lower is better", "share=0.5", "Guessing Games"]),
        ("methods", "heavy_vae", ["weight", "from 0", "Heavy Autoencoders"]),
        ("methods", "pocket", ["Nets That Fit"]),
        ("worlds", "dots", ["64", "8×8×1", "upper, lower", "8 values"]),
    ],
)
def test_commands_list_what_a_study_file_adds(done: Done, listing: str, name: str, shows: list[str]) -> None:
    assert name in said(listing)
    text = said(listing, name)
    assert [part for part in shows if part not in text] == []


def test_commands_take_what_a_study_file_adds(done: Done, tmp_path: Path) -> None:
    assert "wrote" in said("worlds", "--show", "dots | every 3", "--out", tmp_path / "dots.png")
    np.savez(tmp_path / "codes.npz", codes=np.array([[3.0, 0], [-3, 0], [0, 1], [0, -1]]), factors=[[0], [0], [1], [1]])
    scores = json.loads(said("score", tmp_path / "codes.npz", "--metrics", "lopsided", "--json"))
    assert scores == {"lopsided": pytest.approx(0.9)}
    assert "lopsided" in json.loads(said("score", tmp_path / "codes.npz", "--json")), "it is in the default battery"
    guesses = json.loads(said("score", tmp_path / "codes.npz", "--tasks", "guessing", "--set", "share=1", "--json"))
    assert guesses == {"guessing": 0.25}
    ranking = said("select", done.folder, "--criterion", "restless")
    assert "restless" in ranking
    lowest = done.table().filter(metric="restless").sort("value")["run"][0]
    assert sober.open(done.folder).select("restless").best.run.identity == lowest


def test_a_study_that_ships_is_listed_and_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the folder of studies is all that it takes."""
    (tmp_path / "studies").mkdir()
    write(tmp_path / "studies" / "mine.py")
    monkeypatch.setattr(studies, "__file__", str(tmp_path / "src" / "sober" / "requests" / "study" / "study.py"))
    text = said("study", "list")
    assert re.search(r"^mine  6 runs\n +Is a heavy VAE lopsided\?", text, re.MULTILINE)
    assert "mine: 6 runs in 1 cohort" in said("study", "plan", "mine")


# The plan.


def test_the_plan_counts_what_a_study_file_adds(tmp_path: Path) -> None:
    text = said("study", "plan", write(tmp_path / "mine.py"))
    assert "mine: 6 runs in 1 cohort" in text
    assert [line.split() for line in text.splitlines() if "dots" in line] == [["dots", "|", "every", "2", "6", "6"]]
    assert "heavy_vae" in text
    runs = plan(find_study(tmp_path / "mine.py")[0]).runs.values()
    assert {(run.world, run.method, run.nets) for run in runs} == {("dots | every 2", "heavy_vae", "pocket")}


@pytest.mark.parametrize(
    ("cost", "seconds"),
    [
        ("METRIC_SECONDS", 6 * 1_000.0 / SCORING_CORES),  # for each run, of processor time
        ("CRITERION_SECONDS", 6 * 1_000.0),
        ("TASK_SECONDS", 6 * 1_000.0),
        ("METHOD_COST", 999 * 6 * 20 * 8 * 8 / 64**2 / 13),  # steps of the nets `conv` on two cores
        ("NETS_COST", 999 * 6 * 20 * 8 * 8 / 64**2 / 13),
    ],
)
def test_the_plan_knows_what_each_says_that_it_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: str, seconds: float
) -> None:
    slow = Rates(plain={1: 13.0}, kernels={1: 13.0})
    monkeypatch.setattr("sober.requests.study.training_rates.RATES", {"cpu": slow, "gpu": slow})
    cheap, dear = (
        plan(find_study(write(tmp_path / "mine.py", **changes))[0]).estimate().seconds
        for changes in ({}, {cost: 1_000.0})
    )
    assert dear - cheap == pytest.approx(seconds)


def test_what_is_registered_again_takes_the_place_of_what_was(tmp_path: Path) -> None:
    """As where a person edits a study's file and runs it again, in a notebook say."""
    with registries_restored():
        file = write(tmp_path / "mine.py")
        bytes_before = plan(find_study(file)[0]).estimate().bytes
        assert sober.world("dots").factors[0].name == "upper"
        file.write_text(file.read_text().replace("widths=(8,)", "widths=(4000,)").replace('"upper"', '"higher"'))
        study, _ = find_study(file)
        assert sober.world("dots").factors[0].name == "higher"
        assert plan(study).estimate().bytes > 10 * bytes_before


# The table.


def test_the_table_has_what_a_study_file_adds(done: Done) -> None:
    table = done.table()
    assert set(table["method"]) == {"heavy_vae"}
    assert set(table["nets"]) == {"pocket"}
    assert set(table["world"]) == {"dots | every 2"}
    rows = table.filter(pl.col("metric").is_in(["lopsided", "restless", "guessing"]))
    about = ("metric", "kind", "better", "supervised", "pictures")
    assert dict(collections.Counter(rows.select(about).iter_rows())) == {
        ("lopsided", "metric", "lower", True, 32): 6,
        ("restless", "criterion", "lower", False, 32): 6,
        ("guessing", "task", "lower", True, 32): 6,
    }
    assert set(rows.filter(metric="guessing")["settings"]) == {'{"share": 1.0}'}
    assert rows["value"].is_finite().all()


def test_numbers_that_a_study_file_adds_are_turned_the_right_way(done: Done) -> None:
    """Registries that were copied when Sober was imported would not know which way is better."""
    runs = as_runs(done.table())
    assert {name: runs.numbers[name].sign for name in ("lopsided", "restless", "guessing", "modularity")} == {
        "lopsided": -1,
        "restless": -1,
        "guessing": -1,
        "modularity": 1,
    }
    assert runs.headline() == "lopsided", "it says of itself that it speaks for others"
    assert runs.headline_criteria() == ["restless"]


def medians(done: Done, metric: str) -> dict[float, float]:
    """Of a number by weight, the best first where lower is better."""
    found = done.table().filter(metric=metric).group_by("hyper_weight").agg(pl.col("value").median()).sort("value")
    assert found["value"].n_unique() == 3, "weights differ in it, so an order can be wrong"
    return dict(found.iter_rows())


@pytest.mark.parametrize("metric", ["lopsided", "restless"])
def test_the_best_setting_of_the_leaderboard_has_the_lowest_value(done: Done, metric: str, tmp_path: Path) -> None:
    text = said("tables", done.folder, "--names", "leaderboard", "--resamples", 20, "--out", tmp_path)
    assert metric in text
    board = pl.read_parquet(tmp_path / "leaderboard.parquet").filter(metric=metric)
    assert board["value"].to_list() == pytest.approx(list(medians(done, metric).values()))
    chances = board["best"].to_list()
    assert chances[0] == max(chances)
    assert chances[0] > chances[-1]


def test_what_a_study_prints_at_its_end_begins_with_the_best_by_the_leading_criterion(done: Done) -> None:
    board = done.said.partition("medians over seeds")[2]
    assert "restless" in board
    assert "lopsided" in board
    shown = [line for line in board.splitlines() if "dots | every 2" in line and "weight = " in line][:3]
    weights = [float(line.partition("weight = ")[2].split()[0]) for line in shown]
    assert weights == list(medians(done, "restless"))


# The report.


@pytest.fixture(scope="module")
def page(done: Done) -> str:
    return unescape((done.folder / "report.html").read_text(encoding="utf-8"))


def test_the_report_says_what_a_study_file_adds(page: str) -> None:
    assert "has the lowest median lopsided" in page
    sections = ("findings", "leaderboard", "measured", "cite", "reproduce")
    parts = {name: page.partition(f'id="{name}"')[2].partition("</section>")[0] for name in sections}
    assert all(parts.values())
    for name in ("lopsided", "restless", "weight"):
        assert name in parts["leaderboard"], name
    for words in (
        "share of the largest variance (0 to 1, lower is better)",
        "It sees how far codes are from zero.",
        "share of wrong guesses (0 to 1, lower is better)",
    ):
        assert words in parts["measured"], words
    for name in ("--method heavy_vae", "--nets pocket", "'dots | every 2'"):
        assert name in parts["reproduce"], name


@pytest.mark.parametrize(
    "reference",
    [
        "Wry (2026) On Lopsided Codes",
        "Fidget (2026) Codes That Cannot Sit Still",
        "Hunch (2026) Guessing Games",
        "Anvil (2026) Heavy Autoencoders",
        "Pocket (2026) Nets That Fit",
        "Speck (2026) Two Dots",
    ],
)
def test_the_report_cites_what_a_study_file_adds(page: str, reference: str) -> None:
    assert reference in page


def test_the_report_puts_the_lowest_first(page: str, done: Done) -> None:
    board = page.partition('id="leaderboard"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    places = {weight: board.find(f"weight = {weight:g}<") for weight in medians(done, "lopsided")}
    assert min(places.values()) > 0, places
    assert sorted(places, key=lambda weight: places[weight]) == list(places)


# Nobody asks for one of them by name, or keeps a list of his own.

SOURCE = Path(sober.__file__).parent
HOMES = ("metrics", "criteria", "tasks", "methods", "nets", "worlds")  # where names belong
LIVE = {"METRICS", "CRITERIA", "TASKS", "METHODS", "NETS", "WORLDS", "VIEWS"}

DEFAULT = "what is done where nobody says what to do"
ARRAY = "an array or a column of that name, about pictures or latents"
TERM = "a term of training"
OPERATION = "an operation of a graph"
RANKS = "how ties are ranked"
FIELD = "a field of a chart"
PAPER = "the scores of a paper's table"

# Where a word may stand that is also a name in a registry, and why.
ALLOWED: dict[str, dict[str, str]] = {
    "defaults.py": dict.fromkeys(("udr", "dava", "beta_tcvae", "beta_vae", "rooms"), DEFAULT),
    "encoders/__init__.py": {"pca": "an encoder"},
    "encoders/classic.py": {"pca": "an encoder", "conv": "a layer"},
    "requests/probe/probe.py": {"pictures": ARRAY},
    "requests/probe/probe_folder.py": {
        "mig": DEFAULT,
        "modularity": DEFAULT,
        "pictures": ARRAY,
        "readout": "the task that a probe performs",
    },
    "agreement/analysis.py": {"udr": ARRAY},
    "requests/agree.py": {"udr": ARRAY},
    "requests/agree_folder.py": {"pictures": "what a file's name says"},
    "cli/agree.py": {"udr": ARRAY},
    "report/agreement_page.py": {"udr": ARRAY},
    "results/repeat_files.py": dict.fromkeys(("pictures", "part"), "a column"),
    "report/people_words.py": dict.fromkeys(("mutual_information", "total_correlation"), TERM),
    "results/method_board.py": dict.fromkeys(("mig", "dci_disentanglement", "factor_vae"), DEFAULT),
    "results/paper_check/paper_numbers.py": dict.fromkeys(("pipe", "pipe_reference"), PAPER),
    "cli/demo.py": {"demo": "the command that runs this study"},
    "cli/overview.py": {"demo": "the command that runs this study"},
    "evaluation/training_states.py": {"reconstruction": TERM},
    "models/packed_codes.py": {"kl": ARRAY},
    "report/chosen_model.py": {"pictures": ARRAY, "kl": ARRAY, "reconstruction": "a heading"},
    "cli/score.py": {"pictures": ARRAY},
    "cli/train.py": {"beta_vae": DEFAULT, "reconstruction": TERM, "kl": TERM},
    "cli/tune.py": {"beta_vae": DEFAULT},
    "cli/worlds.py": {"pictures": ARRAY},
    "interop/graph.py": {"pictures": "the input of a graph"},
    "interop/onnx.py": {"linear": OPERATION, "conv": OPERATION},
    "interop/torch.py": {"linear": OPERATION, "conv": OPERATION},
    "report/model_cards.py": {"pictures": ARRAY, "kl": ARRAY},
    "evaluation/explorer_entries.py": {"pictures": ARRAY, "kl": ARRAY},
    "report/figures.py": {"part": FIELD, "dense": RANKS, "pictures": ARRAY},
    "report/seed_pair_pictures.py": {"pictures": ARRAY, "kl": ARRAY},
    "evaluation/showcase.py": {"pictures": ARRAY, "kl": ARRAY},
    "evaluation/picture_sheets.py": {
        "pictures": ARRAY,
        "kl": ARRAY,
        "reconstruction": "what a row of pictures is called",
    },
    "results/table_rows.py": {"pictures": ARRAY},
    "results/runs.py": {"pictures": ARRAY},
    "results/latent_names.py": {"kl": ARRAY},
    "results/showcase_files.py": {"pictures": ARRAY},
    "results/tables/means.py": dict.fromkeys(("mig", "dci_disentanglement", "factor_vae", "pipe"), PAPER),
    "results/tables/table.py": dict.fromkeys(
        ("beta_vae", "factor_vae", "mig", "modularity", "dci_disentanglement", "sap", "irs"), PAPER
    ),
    "results/tables/tables_within_methods.py": dict.fromkeys(
        ("beta_vae", "factor_vae", "mig", "dci_disentanglement"), PAPER
    ),
    "results/tables/stability.py": {"pictures": ARRAY},
    "results/stats.py": {"dense": RANKS},
    "types.py": {"conv": DEFAULT},
    "models/model.py": {"pictures": "a line of what a model prints"},
    "requests/results.py": {"pictures": "the new name of an argument"},
    "requests/fit/export.py": {"kl": ARRAY},
    "requests/fit/fit.py": {
        "pictures": "what was asked: the world of the pictures given",
    },
    "requests/fit/given_pictures.py": {"pictures": "the world that a folder of pictures is"},
    "requests/fit/plan.py": {"small": "nets for those who have little time"},
}


def registered() -> set[str]:
    """Every name that somebody might be asked for by."""
    scores = {score for registry in (METRICS, TASKS) for entry in registry.values() for score in entry.scores}
    return scores.union(shipped(), *REGISTRIES)


NAMES = registered()  # before a study's file adds its own


def asked_for(source: str, names: set[str]) -> dict[str, int]:
    """Names that stand in a program as text, also before a colon as in a world with options, each with a line."""
    found: dict[str, int] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name, _, options = node.value.partition(":")
            if name in names and ("=" in options or name == node.value):
                found.setdefault(name, node.lineno)
    return found


def elsewhere() -> Iterator[tuple[str, str]]:
    """Every file of Sober but those in the registries' own folders and the papers' claims, and its source."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.parts[0] not in (*HOMES, "studies") and place.parts[:2] != ("results", "claims"):
            yield place.as_posix(), path.read_text(encoding="utf-8")


def test_nobody_asks_for_a_registered_thing_by_its_name() -> None:
    assert {"mig", "dci_completeness", "mi/mig", "elbo", "vae", "resnet", "rooms", "without", "sober_look"} <= NAMES
    found = {file: asked_for(source, NAMES) for file, source in elsewhere()}
    assert len(found) > 50
    offences = [
        f"src/sober/{file}:{line} asks for {name!r}: let the registry's entry say what is special about it"
        for file, asked in found.items()
        for name, line in asked.items()
        if name not in ALLOWED.get(file, {})
    ]
    assert not offences, "\n" + "\n".join(offences)
    needless = [
        f"{file}: {name}" for file, allowed in ALLOWED.items() for name in allowed if name not in found.get(file, {})
    ]
    assert not needless, f"ALLOWED names what is not there: {needless}"


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("if name == 'udr':\n    pass", {"udr": 1}),
        ("\nSHOWN = {'mi': 'mutual information'}", {"mi": 2}),
        ("world(f'pictures:folder={path}')", {"pictures": 1}),
        ("metrics = ['mi/mig', 'sap']", {"mi/mig": 1, "sap": 1}),
        ("text = 'such as udr or elbo'", {}),
        ("text = 'heads: a world'", {}),
        ("udr = 3", {}),
    ],
)
def test_a_name_that_is_asked_for_is_found(source: str, asked: dict[str, int]) -> None:
    assert asked_for(source, NAMES) == asked


def copied(source: str) -> list[tuple[str, int]]:
    """Registries that a module reads while it is imported, and where: what is added later it does not see."""
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(tuple(f"sober.{home}" for home in HOMES))
        for alias in node.names
        if alias.name in LIVE
    }
    return [(node.id, node.lineno) for node in at_import(tree) if isinstance(node, ast.Name) and node.id in imported]


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """All of a module but the bodies of its functions, which run later, and annotations, which do not."""
    skipped = {"annotation", "returns"}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        skipped.add("body")
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in skipped:
                yield child
                yield from at_import(child)


def test_nobody_copies_a_registry_when_imported() -> None:
    found = {file: copied(source) for file, source in elsewhere()}
    assert not [f"src/sober/{file}:{line} reads {name}" for file, reads in found.items() for name, line in reads]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from sober.metrics import METRICS\nKNOWN = {name: 1 for name in METRICS}", [("METRICS", 2)]),
        ("from sober.worlds import WORLDS\ndef f(names=tuple(WORLDS)): pass", [("WORLDS", 2)]),
        ("from sober.nets import NETS\nclass A:\n    nets = dict(NETS)", [("NETS", 3)]),
        ("from sober.metrics import METRICS\ndef f(): return list(METRICS)\ng = lambda: METRICS", []),
        ("from sober.requests.fit.fit import METHODS\ndef f(methods=METHODS): pass", []),  # names of its own
    ],
)
def test_a_registry_that_is_copied_is_found(source: str, found: list[tuple[str, int]]) -> None:
    assert copied(source) == found
