"""The checksum of row numbers: sets add up, and no other set has the same."""

import random

from hypothesis import given
from hypothesis import strategies as st

from blizzard.table.row_checksums import checksum_of, checksum_of_range, joined

NUMBERS = st.integers(-(2**63), 2**63 - 1)
SALTS = st.integers(0, 2**64 - 1)


@given(st.lists(NUMBERS), st.randoms(use_true_random=False), SALTS)
def test_the_order_does_not_matter(numbers: list[int], chance: random.Random, salt: int) -> None:
    shuffled = chance.sample(numbers, len(numbers))
    assert checksum_of(shuffled, salt) == checksum_of(numbers, salt)


@given(st.lists(NUMBERS), st.lists(NUMBERS), SALTS)
def test_sets_add_up(some: list[int], more: list[int], salt: int) -> None:
    assert joined(checksum_of(some, salt), checksum_of(more, salt)) == checksum_of(some + more, salt)


@given(st.integers(0, 1_000), st.integers(0, 50), SALTS)
def test_a_range_has_the_checksum_of_its_numbers(first: int, count: int, salt: int) -> None:
    numbers = [*range(first, first + count)]
    assert checksum_of_range(first, first + count - 1, salt) == checksum_of(numbers, salt)


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)), SALTS)
def test_another_set_of_as_many_numbers_has_another_checksum(one: set[int], other: set[int], salt: int) -> None:
    found = [(len(numbers), checksum_of(sorted(numbers), salt)) for numbers in (one, other)]
    assert (found[0] == found[1]) == (one == other)


def test_sets_of_the_same_sums_and_squares_are_told_apart() -> None:
    assert checksum_of([0, 4, 5], 0) != checksum_of([1, 2, 6], 0)
