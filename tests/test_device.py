"""What is shared out among passes over the device, and the random numbers of a CPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.extend.random import threefry2x32_p

from sober.device import evenly, threefry


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


# The answers that the authors of Threefry publish with it, for 2x32 bits and 20 rounds: key, counter, hash.
ANSWERS = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("key", "counter", "expected"), ANSWERS)
def test_the_hash_is_that_of_its_authors(key, counter, expected):
    words = [jnp.array([word], jnp.uint32) for word in (*key, *counter)]
    for found in (threefry(*words), threefry2x32_p.bind(*words), jax.jit(threefry2x32_p.bind)(*words)):
        assert tuple(int(word[0]) for word in found) == expected


def test_random_numbers_are_those_of_jax():
    """Numbers that a process without Sober gave: of one key, of one made from it, and of two at once."""
    key = jax.random.key(3)
    np.testing.assert_array_equal(
        jax.random.bits(key, (4,)), np.uint32([0x12F51D7E, 0xF02A3AC5, 0xA6220CDE, 0xF9C24C30])
    )
    np.testing.assert_array_equal(
        jax.random.bits(jax.random.fold_in(key, 5), (2,)), np.uint32([0x5D4A0FCC, 0x60842230])
    )
    found = jax.jit(jax.vmap(lambda key: jax.random.uniform(key, (2,))))(jax.random.split(key, 2))
    expected = [[0.008695363998413086, 0.04398846626281738], [0.02599465847015381, 0.5417391061782837]]
    np.testing.assert_array_equal(found, np.float32(expected))
