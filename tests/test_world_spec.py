"""A world's written form: read once, written once, and the same either way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sober
from sober.errors import RequestError
from sober.types import WorldSpec, append_view
from sober.worlds import check_views, world

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
VALUES = st.text("abc019 ./,;:=-|_", max_size=12).map(str.strip)
VIEWS = st.text('abc019 ./=<>()"|_', max_size=12)


@given(NAMES, st.dictionaries(NAMES, VALUES, max_size=3), st.lists(VIEWS, max_size=3))
def test_a_spec_is_read_back_as_it_was_or_refused(name: str, options: dict[str, str], views: list[str]) -> None:
    try:
        spec = WorldSpec(name, options, tuple(views))
    except RequestError:
        assert any(" | " in f" {text} " or ",".join(["", text]).count("=") for text in [*options.values(), *views])
        return
    again = WorldSpec.parse(str(spec))
    assert again == spec
    assert hash(again) == hash(spec)
    assert list(again.options.items()) == list(spec.options.items())


@given(st.lists(st.sampled_from(["dsprites", ":", ",", "=", " | ", "|", " ", "file", "hide x", "part train 0.8"])))
def test_the_written_form_of_what_was_read_does_not_change(pieces: list[str]) -> None:
    try:
        spec = WorldSpec.parse("".join(pieces))
    except RequestError:
        return
    assert str(WorldSpec.parse(str(spec))) == str(spec)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("blocks", WorldSpec("blocks")),
        ("dsprites | part train 0.8", WorldSpec("dsprites", views=("part train 0.8",))),
        ("pictures:folder=photos", WorldSpec("pictures", {"folder": "photos"})),
        ("pictures:folder=a, b,size=32x48", WorldSpec("pictures", {"folder": "a, b", "size": "32x48"})),
        (
            "teapots:mesh=/a b.obj | without red > 0.5 | hide blue",
            WorldSpec("teapots", {"mesh": "/a b.obj"}, ("without red > 0.5", "hide blue")),
        ),
    ],
)
def test_the_written_form(text: str, spec: WorldSpec) -> None:
    assert WorldSpec.parse(text) == spec
    assert str(spec) == text


def test_spaces_around_a_bar_do_not_count() -> None:
    assert str(WorldSpec.parse(" blocks  |  hide block_1 ")) == "blocks | hide block_1"


def test_a_spec_knows_its_base_and_the_names_of_its_views() -> None:
    spec = WorldSpec.parse("faces3d:file=a.npz | hide identity | joint azimuth elevation A")
    assert str(spec.base) == "faces3d:file=a.npz"
    assert spec.view_names == ("hide", "joint")
    assert append_view(str(spec.base), spec.views[0]) == "faces3d:file=a.npz | hide identity"


@pytest.mark.parametrize(
    "label", ["heads:2", "dsprites:0123456789abcdef | part train 0.8", "scream_dsprites:0123:4567 | hide shape"]
)
def test_the_name_of_a_world_is_read_from_a_label(label: str) -> None:
    assert WorldSpec.parse(label).name in ("heads", "dsprites", "scream_dsprites")


@pytest.mark.parametrize(
    ("name", "options", "views"),
    [
        ("a | b", {}, ()),
        ("a:b", {}, ()),
        ("pictures", {"folder": "a,size=3"}, ()),
        ("pictures", {"folder": "a | b"}, ()),
        ("pictures", {"folder": "a "}, ()),
        ("blocks", {}, ("hide a | hide b",)),
    ],
)
def test_what_cannot_be_written_is_refused(name: str, options: dict[str, str], views: tuple[str, ...]) -> None:
    with pytest.raises(RequestError, match="cannot be opened again by name: rename it"):
        WorldSpec(name, options, views)


def test_a_world_takes_views_and_options_as_arguments() -> None:
    written = sober.world("blocks | keep block_1 block_2 | part train 0.5")
    assert sober.world("blocks", views=["keep block_1 block_2", "part train 0.5"]) is written
    assert sober.world("blocks | keep block_1 block_2", views="part train 0.5") is written
    assert sober.world(WorldSpec.parse(written.spec)) is written
    assert sober.world("dsprites", file="/no/such.npz") is sober.world("dsprites:file=/no/such.npz")
    assert sober.world("dsprites", file=None) is sober.world("dsprites")


def test_an_option_is_not_given_twice() -> None:
    with pytest.raises(RequestError, match="'dsprites' has option file twice"):
        world("dsprites:file=a.npz", file="b.npz")


def test_an_unknown_option_or_view_is_refused() -> None:
    with pytest.raises(RequestError, match="'dsprites' has no option 'files': did you mean 'file'"):
        world("dsprites", files="a.npz")
    with pytest.raises(RequestError, match=r"unknown view 'hid' of blocks: did you mean 'hide'\?$"):
        world("blocks", views=["hid block_1"])
    with pytest.raises(RequestError, match="unknown view 'hid'"):
        check_views(WorldSpec("blocks", views=("hid block_1",)))


def test_only_the_spec_splits_the_written_form() -> None:
    splits = re.compile(r"""(split|partition)\(\s*["'] \| ["']""")
    source = Path(sober.__file__).parent
    assert [str(path) for path in source.rglob("*.py") if splits.search(path.read_text(encoding="utf-8"))] == []


def test_an_unknown_factor_is_answered_with_the_closest_name() -> None:
    with pytest.raises(RequestError, match=r"no factor 'block_5': did you mean ('block_[1-4]'(, | or )?){3}\?$"):
        world("blocks | hide block_5")
    with pytest.raises(RequestError, match=r"no factor 'Smile': did you mean 'Smiling'\?$"):
        check_views("celeba | hide Smile")
    with pytest.raises(RequestError, match=r"no factor 'q': choose one of 5_o_Clock_Shadow, "):
        check_views("celeba | hide q")
