"""Every object that Sober returns prints in a few short lines, without arrays and without dumps of what is inside."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optax
import polars as pl
import pytest

import sober
from families import BLOCKS, small_runs
from sober.contracts import Cost
from sober.criteria import CRITERIA
from sober.criteria.criterion import Judgement
from sober.interop.graph import encoder_graph
from sober.methods.method import Setup, State
from sober.metrics.metric import Measured
from sober.models.encode import EncodingProgress
from sober.models.family import Family
from sober.models.model import Model
from sober.nets import NETS
from sober.nets.autoencoder import Compute
from sober.requests.fit.fit import Fit
from sober.requests.results import Results
from sober.requests.study.study import find_study
from sober.requests.train import train
from sober.requests.tune.search_space import Range
from sober.requests.tune.trials import Trial, Tuned
from sober.results.folder import Folder
from sober.results.judgement_files import PairScores
from sober.results.request import Pace
from sober.results.store import Holder
from sober.short_text import COLUMNS, LINES, as_call, as_facts, as_table, cut, in_words
from sober.training.progress import Watcher
from sober.types import Adam, Codes, Factor, NamedSettings, Run, Score, Training
from sober.worlds import WORLDS, World, world


def check_short(text: str) -> None:
    """At most 25 lines of 100 columns, and nothing that only a dump of an array would show."""
    lines = text.split("\n")
    assert len(lines) <= LINES <= 25, text
    assert max(map(len, lines)) <= COLUMNS <= 100, text
    assert "array(" not in text
    assert " object at 0x" not in text


# The helper.


@dataclasses.dataclass(frozen=True)
class Awkward:
    """Everything that could make a text long."""

    first: Any
    words: str = "a\nb"
    numbers: tuple[int, ...] = ()
    table: dict[str, Any] = dataclasses.field(default_factory=dict)


class Pair(NamedTuple):
    name: str
    value: Any = None


@pytest.mark.parametrize(
    "value",
    [
        Awkward(np.zeros((300, 300))),
        Awkward(np.float64(0.1), "x" * 500, tuple(range(10**5))),
        Awkward("\x00" * 90, "'\\\"" * 99, (1,), {f"name {at}": np.zeros(3) for at in range(999)}),
        Awkward(Awkward(Awkward(None)), table={"x" * 200: {"y" * 200: [[1] * 999] * 999}}),
        Awkward(lambda x: x, table={"a": Path("/" + "long/" * 99), "b": Pair, "c": object()}),
        Pair("x" * 101, Pair("y", (Pair("z"),) * 50)),
    ],
)
def test_a_call_is_short_whatever_is_inside(value: Any) -> None:
    check_short(as_call(value))
    check_short(as_facts("heading\n" * 99, {"value": value, "words": "word " * 99, "none": None, "empty": ""}))
    check_short(as_table("heading " * 99, [{f"column {at}": value for at in range(30)}] * 99))
    assert len(in_words(value)) <= 40


def test_a_call_leaves_out_what_has_its_default() -> None:
    assert as_call(Awkward(1)) == "Awkward(first=1)"
    assert as_call(Awkward(1, table={"a": 0.5})) == "Awkward(first=1, table={'a': 0.5})"
    assert as_call(Pair("x")) == "Pair(name='x')"
    assert as_call(Awkward(np.zeros(3, np.int8), numbers=(7,))) == "Awkward(first=int8 (3,), numbers=(7,))"


def test_a_table_says_how_many_rows_are_left_out() -> None:
    rows = [{"name": f"run {at}", "score": at / 8, "steps": 1000 * at} for at in range(40)]
    lines = as_table("Forty rows", rows).split("\n")
    assert lines[:3] == ["Forty rows", "name    score   steps", "run 0       0       0"]
    assert lines[-1] == "… and 18 more"
    assert len(lines) == LINES
    assert as_table("Nothing", []) == "Nothing"
    assert as_table("One", [{"a": None, "b": True}]) == "One\nb\nTrue"


def test_a_long_text_ends_in_dots() -> None:
    assert cut("one  two\nthree", 9) == "one two …"
    assert cut("one  two\nthree") == "one two three"


# Values.


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_prints_without_its_files(name: str) -> None:
    text = repr(world(name))
    check_short(text)
    assert text.startswith(f"World {name}: ")


def test_a_world_whose_files_are_missing_prints_too() -> None:
    text = repr(world("comp_cars", file="/nowhere"))
    check_short(text)
    assert text.startswith("World comp_cars: /nowhere is not there")


def test_values_print_as_calls() -> None:
    run = Run("blocks", "beta_vae", {"beta": 4}, optimiser=Adam(1e-3), seed=2)
    assert eval(repr(run), {"Run": Run, "Adam": Adam}) == run
    assert repr(Training()) == "Training()"
    assert eval(repr(Training(steps=6)), {"Training": Training}) == Training(steps=6)
    assert repr(Factor("shape", 3, "categorical")) == "Factor(name='shape', size=3, kind='categorical')"
    assert repr(NamedSettings("udr")) == "NamedSettings(name='udr')"
    check_short(repr(Score("0" * 16, "mig", 0.5, versions={f"package {at}": "1.0" for at in range(99)})))


def test_codes_print_without_their_numbers() -> None:
    factors = tuple(Factor(f"factor {at}", 2) for at in range(50))
    codes = Codes(np.zeros((1000, 3)), None, np.zeros((1000, 50), int), factors, ("diverged",))
    check_short(repr(codes))
    assert repr(codes).startswith("Codes of 1,000 rows and 3 columns\n")
    assert "diverged" in repr(codes)


# Everything that the public names return.

NAMES_FOR_TYPES = {  # which modules import only for types
    **{"pl": pl, "polars": pl, "Model": Model, "World": World},
    **{"Family": Family, "EncodingProgress": EncodingProgress, "Watcher": Watcher},
}


def classes_in(annotation: Any) -> Iterator[type]:
    """The classes of Sober in a type, also inside containers."""
    arguments = typing.get_args(annotation)
    if inspect.isclass(annotation) and not arguments and annotation.__module__.startswith("sober."):
        yield annotation
    for argument in arguments:
        for inner in argument if isinstance(argument, list | tuple) else [argument]:
            yield from classes_in(inner)


def returned_by(value: Any) -> Iterator[type]:
    """The classes that a function returns, or that the fields, methods and properties of a class do."""
    if not inspect.isclass(value):
        yield from classes_in(typing.get_type_hints(value, localns=NAMES_FOR_TYPES).get("return"))
        return
    for name, annotation in typing.get_type_hints(value, localns=NAMES_FOR_TYPES).items():
        if not name.startswith("_"):
            yield from classes_in(annotation)
    for name, member in inspect.getmembers(value):
        property_function = getattr(member, "fget", None) or getattr(member, "func", None)  # of a cached property
        function = member if inspect.isfunction(member) else property_function
        if not name.startswith("_") and inspect.isfunction(function) and function.__module__.startswith("sober."):
            yield from returned_by(function)


def registries() -> Iterator[Mapping[str, Any]]:
    """The registries of the rooms that are public names, such as `sober.metrics.METRICS`."""
    for name in sober.__all__:
        if inspect.ismodule(room := getattr(sober, name)):
            for value in vars(room).values():
                if isinstance(value, Mapping) and any(
                    type(entry).__module__.startswith("sober.") for entry in value.values()
                ):
                    yield value


def returned_classes() -> set[type]:
    """Every class whose objects a person may get from a public name, directly or from another such object."""
    public = [getattr(sober, name) for name in sober.__all__]
    waiting = [value for value in public if inspect.isclass(value)]
    for function in filter(inspect.isfunction, public):
        waiting += returned_by(function)
    for registry in registries():
        waiting += [type(entry) for entry in registry.values() if not inspect.isclass(entry)]
    classes: set[type] = set()
    while waiting:
        cls = waiting.pop()
        if cls not in classes and cls.__module__.startswith("sober.") and not issubclass(cls, Exception):
            classes.add(cls)
            waiting += returned_by(cls)
    return classes


RETURNED = sorted(returned_classes(), key=lambda cls: cls.__qualname__)


def test_the_walk_meets_what_people_use() -> None:
    names = {cls.__name__ for cls in RETURNED}
    assert names >= {"Results", "Model", "Scores", "Comparison", "Ranking", "RankedModel", "Tuned", "Trial", "Fit"}
    assert names >= {"World", "Sample", "Run", "Codes", "Scorer", "Collector", "Method", "Metric", "Task", "Nets"}


@pytest.mark.parametrize("cls", RETURNED, ids=lambda cls: cls.__name__)
def test_a_returned_class_says_how_it_prints(cls: type) -> None:
    """What Python or a library prints of a class is all that it holds, or an address."""
    code = getattr(cls.__repr__, "__code__", None)
    written_here = code is not None and code.co_filename.startswith(str(Path(sober.__file__).parent))
    assert written_here, f"give {cls.__qualname__} a __repr__: `return as_call(self)`, from sober.short_text"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = small_runs("beta_vae", {"beta": [1.0, 4.0]})
    return train(runs, BLOCKS, tmp_path_factory.mktemp("reprs") / ("a long name of a folder " * 4))


def inside(value: Any, depth: int = 3) -> Iterator[Any]:
    """An object of Sober and the objects of Sober that it holds, also in containers, down to a depth."""
    members: list[Any] = []
    if type(value).__module__.startswith("sober."):
        yield value
        fields = value._asdict() if hasattr(value, "_fields") else vars(value)
        members = [member for name, member in fields.items() if not name.startswith("_")]
    elif isinstance(value, Mapping | list | tuple):
        members = list(value.values() if isinstance(value, Mapping) else value)
    for member in members[:20] if depth else []:
        yield from inside(member, depth - 1)


@pytest.fixture(scope="module")
def objects(results: Results) -> list[Any]:
    """Real objects, and all that they hold: at least one of every class that the public names return."""
    run, study = results.runs[0], find_study("sober_look")[0]
    model, codes, ranking = results.model(run), results.codes(run), results.select("elbo")
    scores = sober.score(codes, metrics=["mig", "dci"], chance=3)
    comparison = sober.compare({"first": codes, "x" * 300: results.codes(results.runs[1])}, metrics=["mig", "sap"])
    collector = sober.Collector({"mig": {"bins": 9}}, rows=10, preset="paper")
    collector.update(codes.mean, codes.factors)
    results.score(["mig", "sap"])
    numbers, graph = results.numbers(), encoder_graph(model)
    tables, _ = results.tables(resamples=5)
    assert tables
    trials = [Trial(at, 0, {"beta": at / 3}, "judged", at / 7, (at / 7,), (), (3,)) for at in range(60)]
    searches = [Tuned(results.path, CRITERIA["udr"], tuple(trials[:count])) for count in (0, 3, 60)]
    setup = Setup(NETS["small"], (16, 16, 1), 3, 8, 4096, Compute(), optax.adam(1e-3))
    outer_objects = [
        *(results, Folder.open(results.path), results.request, results.store, *results.families.values()),
        *(
            *results.cohorts(results.runs),
            run,
            model,
            model.record,
            model.autoencoder,
            codes,
            BLOCKS,
            BLOCKS.sample(0, 2),
        ),
        *(ranking, Fit(results, ranking, model), scores, comparison, *searches, study, study.scaled("tiny")),
        *(study.measure, *study.asked, numbers, *tables, graph, graph.layers[1], Adam(), Training(), Score("", "", 0)),
        *(sober.scorer("mig"), sober.scorer(list(scores)), collector, sober.Collector(), sober.Collector("mig")),
        *(
            *scores.rows(),
            sober.agree([codes, codes], similarity="lasso", draws=9),
            sober.agree([codes, codes], [np.eye(3), np.eye(3)], draws=9).consensus,
            sober.probe(codes.mean, factors=codes.factors),
            sober.probe(codes.mean, factors=codes.factors).layers[0].numbers[0],
        ),
        *(model.autoencoder.encoder.all_but_last(), PairScores("", (), np.zeros((9, 3))), Holder("work", "host", 7)),
        Pace(3.0, 0.01),
        *(Range(1, 4), Range(choices=("a", "b")), Judgement(np.zeros(3), np.zeros((9, 3)), ((),) * 3), Cost(), setup),
        *(State(model.autoencoder, ()), Measured({"mig": 0.5}, parts={"matrix": np.zeros((9, 9))})),
        *(entry for registry in registries() for entry in registry.values()),
    ]
    return [value for outer in outer_objects for value in inside(outer)]


def test_every_object_prints_short(objects: list[Any]) -> None:
    for value in objects:
        check_short(repr(value))
        check_short(str(value))
    assert len(objects) > 300


def test_an_object_of_every_returned_class_was_printed(objects: list[Any]) -> None:
    missing = [cls for cls in RETURNED if not any(isinstance(value, cls) for value in objects)]
    assert not missing, f"add an object of each of {missing} to `outer_objects`"


def test_what_a_person_reads_first(objects: list[Any]) -> None:
    by_class = {type(value).__name__: repr(value).split("\n") for value in reversed(objects)}
    assert by_class["Results"][1] == "runs      4 runs of beta_vae on blocks, 20 steps"
    assert by_class["Model"][2] == "nets      small, 3 latents"
    assert by_class["Ranking"][0] == "Ranking of 4 models by elbo: not trained far enough"
    assert by_class["Fit"][1:6] == by_class["Ranking"][1:]
    assert by_class["Fit"][-1].endswith("steps would do.")
    assert by_class["Scores"][1].split() == ["score", "value", "chance", "p", "better"]
    assert by_class["Comparison"][1].split() == ["score", "differs", "first", "x" * 39 + "…"]
    assert any(repr(value).endswith("… and 38 more") for value in objects if isinstance(value, Tuned))
