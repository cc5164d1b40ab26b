"""Places of fields: one for each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.field_places import in_place, names_in, place_of

NAMES = st.lists(st.text("ab.[]{}`", min_size=1), min_size=1, max_size=3)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a", "a"), ("größe x-y$@:#", "größe x-y$@:#"), ("a.b", "`a.b`"), ("a`b", "`a``b`"), ("[", "`[`"), ("}", "`}`")],
)
def test_only_names_that_hold_what_separates_them_are_quoted(name: str, shown: str) -> None:
    assert in_place(name) == shown


@given(NAMES)
def test_the_names_of_a_place_are_found_again(names: list[str]) -> None:
    assert names_in(place_of(names)) == names


@given(NAMES, st.text("ab.[]{}`"))
def test_elements_and_values_are_no_names(names: list[str], key: str) -> None:
    first, *rest = map(in_place, names)
    assert names_in(".".join([f"{first}[2]{{{in_place(key)}}}[]{{}}", *rest])) == names
