"""What is shared out among passes over the device."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sober.device import evenly


@given(st.lists(st.integers(), max_size=200), st.integers(1, 70))
def test_parts_hold_everything_in_order_in_as_few_parts_as_fit_and_of_one_size_but_for_the_last(items, most):
    parts = evenly(items, most)
    assert [item for part in parts for item in part] == items
    assert len(parts) == -(-len(items) // most)
    assert all(0 < len(part) <= most for part in parts)
    assert len({len(part) for part in parts[:-1]}) <= 1
    assert not parts or len(parts[-1]) <= len(parts[0])


def test_a_hundred_and_eighty_models_go_thirty_at_a_time_where_thirty_two_fit():
    assert [len(part) for part in evenly(range(180), 32)] == [30] * 6
