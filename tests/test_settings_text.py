"""Settings in words: what is printed can be typed, and is then the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sober.errors import RequestError
from sober.settings_text import assignments, parse_assignments, parse_settings, text_of, value_of
from sober.types import Setting

WORDS = st.from_regex(r"[a-z][a-z_]{0,12}", fullmatch=True).filter(lambda word: isinstance(value_of(word), str))
SETTINGS = st.booleans() | WORDS | st.floats(allow_nan=False, allow_infinity=False)


@given(SETTINGS)
def test_what_is_printed_is_read_as_the_same_setting(value: Setting) -> None:
    assert value_of(text_of(value)) == value
    assert type(value_of(text_of(value))) is type(value)


@given(st.dictionaries(WORDS, SETTINGS, min_size=1, max_size=4))
def test_settings_are_typed_as_they_are_printed(settings: dict[str, Setting]) -> None:
    assert parse_settings(assignments(settings).split(" ")) == settings


def test_numbers_are_short_and_keep_every_digit() -> None:
    assert [text_of(value) for value in (4.0, 0.5, 1e-5, 0.1 + 0.2, True, "weighted", 3)] == [
        *("4", "0.5", "1e-05", "0.30000000000000004", "true", "weighted", "3")
    ]


def test_several_values_are_refused_where_one_is_meant() -> None:
    assert parse_assignments(["beta=1,2"]) == {"beta": [1.0, 2.0]}
    with pytest.raises(RequestError, match="--set beta=1,2: give 'beta' one value"):
        parse_settings(["beta=1,2"])
