"""Every study, with the files of all its worlds and without any: what it plans, and what its worlds show.

The files are stand-ins: few pictures in the original formats (standins.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sober.errors import MissingError, RequestError
from sober.requests.study.plan import Plan, plan
from sober.requests.study.study import Absent, Product, Study, find_study, planned_world, shipped
from sober.types import Training, WorldSpec
from sober.worlds import WORLDS, World, world
from standins import STANDINS, stand_in

STUDIES = sorted(shipped())
PUBLISHED = [name for name, kind in WORLDS.items() if kind.origin == "its files"]
VIEWED = [
    "faces3d | hide identity | keep lighting=5 | joint azimuth elevation A",
    "dsprites | hide shape",
    "small_norb | hide category | part train 0.5",
    "celeba | without Male == 'yes'",
]
# What studies open; what they may come to open; and views of worlds of each kind: a grid, a part of one, a list.
SPECS = list(dict.fromkeys([*(spec for name in STUDIES for spec in find_study(name)[0].worlds()), *PUBLISHED, *VIEWED]))


@dataclasses.dataclass(frozen=True)
class Places:
    """Two caches, one with the files of every world and one with none."""

    full: Path
    empty: Path
    kinds: dict[str, type[World]]  # the worlds that take the stand-ins, by name


@pytest.fixture(scope="module")
def places(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Places:
    folder = tmp_path_factory.mktemp("studies")
    full, empty, drawn = folder / "full", folder / "empty", cache / "drawn"
    full.mkdir()
    drawn.mkdir(parents=True, exist_ok=True)
    (full / "drawn").symlink_to(drawn)  # what needs no files is drawn once for all tests
    return Places(full, empty, stand_in(full))


@pytest.fixture
def files(places: Places, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """`files(True)` puts the files of every world where they belong, `files(False)` takes them away."""
    monkeypatch.delenv("SOBER_DATA", raising=False)
    monkeypatch.setattr("pooch.retrieve", lambda *_, **__: pytest.fail("a download"))
    originals = {name: WORLDS[name] for name in places.kinds}

    def here(present: bool) -> None:
        monkeypatch.setenv("SOBER_CACHE", str(places.full if present else places.empty))
        for name, kind in (places.kinds if present else originals).items():
            monkeypatch.setitem(WORLDS, name, kind)

    return here


def by_spec(planned: Plan) -> dict[str, tuple[int, int, int]]:
    """The shapes of pictures by how their worlds are opened."""
    return {planned.request.worlds[label]: shape for label, shape in planned.shapes.items()}


def left(spec: str) -> list[str]:
    """The names of the factors that a spec leaves, by its words alone."""
    parsed = WorldSpec.parse(spec)
    names = [factor.name for factor in world(parsed.base).factors]
    for text in parsed.views:
        word, *words = text.split()
        fixed = {each.partition("=")[0] for each in words if "=" in each}
        if word == "hide":
            names = [name for name in names if name not in words]
        elif word == "keep":
            names = [each for each in words if "=" not in each] or [name for name in names if name not in fixed]
    return names


def test_every_published_world_has_a_stand_in() -> None:
    assert sorted(STANDINS) == sorted(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_stand_in_passes_for_the_published_files(name: str, places: Places, files: Callable[[bool], None]) -> None:
    kind: Any = WORLDS[name]
    known = all(source.checksum for source in kind.sources)
    factors = [(factor.name, factor.kind) for factor in kind().factors]
    files(True)
    opened = world(name)
    assert type(opened) is places.kinds[name]
    assert opened.label == name if known else opened.label.startswith(f"{name}:")
    assert [(factor.name, factor.kind) for factor in opened.factors] == factors
    assert opened.size < 500


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_planned_with_all_its_worlds_opened(name: str, files: Callable[[bool], None]) -> None:
    study, _ = find_study(name)
    files(False)
    without = plan(study)
    assert set(without.missing) <= set(study.worlds())
    files(True)
    whole = plan(study)
    assert whole.missing == {}
    assert set(by_spec(whole)) == set(study.worlds())
    assert by_spec(whole) == by_spec(without)
    assert len(whole.runs) == len(without.runs)
    assert whole.counts() == without.counts()


@pytest.mark.parametrize("name", STUDIES)
def test_every_scale_of_a_study_is_of_worlds_that_it_has(name: str, files: Callable[[bool], None]) -> None:
    study, _ = find_study(name)
    files(True)
    for scale, to in study.scales.items():
        assert set(to.worlds or ()) <= {*study.worlds(), *to.stand_ins.values()}, scale
        planned = plan(study.scaled(scale))
        assert planned.runs, scale
        assert planned.missing == {}


@pytest.mark.parametrize("spec", SPECS)
def test_a_world_shows_what_was_planned_without_its_files(spec: str, files: Callable[[bool], None]) -> None:
    files(False)
    shape, names = planned_world(spec).image_shape, left(spec)
    files(True)
    opened = planned_world(spec)
    assert not isinstance(opened, Absent)
    assert opened.image_shape == shape
    assert opened.render(np.array([opened.size - 1])).shape == (1, *shape)
    assert [factor.name for factor in opened.factors] == names
    labels = opened.labels(opened.everything())
    assert labels.shape[1:] == (len(names),)
    for factor, column in zip(opened.factors, labels.T, strict=True):
        if factor.kind == "continuous":
            assert np.isfinite(column).all()
        elif opened.uniform and len(labels) > 10 * factor.size:
            assert set(column) == set(range(factor.size))
        else:
            assert set(column) <= set(range(factor.size))


FAULTS = [
    "turn left",
    "keep nobody",
    "keep nobody=1",
    "keep {factor}=99999",
    "keep {factor}=blue-green",
    "hide nobody",
    "joint nobody {factor} A",
    "joint {factor} {factor} E",
    "without nobody == 1",
    "only {factor} >",
    "part train 2",
]


def faulty(spec: str) -> Iterator[str]:
    """The spec with something wrong: its world, an option, one of its words, or a view at any place among its views."""
    parsed = WorldSpec.parse(spec)
    views = parsed.views

    def with_views(*texts: str) -> str:
        return str(dataclasses.replace(parsed, views=texts))

    yield str(dataclasses.replace(parsed, name="no_such_world", options={}))
    yield str(dataclasses.replace(parsed, options={**parsed.options, "no_such_option": "1"}))
    for place, text in enumerate(views):
        words = text.split()
        for k in range(len(words)):
            wrong = " ".join([*words[:k], f"{words[k]}x", *words[k + 1 :]])
            yield with_views(*views[:place], wrong, *views[place + 1 :])
    for place in range(len(views) + 1):
        factor = left(with_views(*views[:place]))[0]
        for fault in FAULTS:
            yield with_views(*views[:place], fault.format(factor=factor), *views[place:])


@pytest.mark.parametrize("spec", SPECS)
def test_an_error_in_a_spec_is_an_error_whether_files_are_there_or_not(
    spec: str, files: Callable[[bool], None]
) -> None:
    for present in (False, True):
        files(present)
        for wrong in faulty(spec):
            product = Product([wrong], {"beta_vae": {}}, 1, Training(steps=1))
            for fetch in (False, True):  # what is wrong is said before anything is downloaded
                with pytest.raises(RequestError) as caught:
                    plan(Study("s", "s", "s", [product]), fetch=fetch)
                assert not isinstance(caught.value, MissingError), wrong
                assert "\n" not in str(caught.value)
