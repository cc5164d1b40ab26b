"""A reproduction fails, and nothing in it can be spared."""

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proof.campaign import Failed
from tests.proof.reduce import reduced, smallest


def always() -> bool:
    return True


@given(st.integers(2, 30), st.data())
def test_only_the_necessary_parts_remain(many: int, data: st.DataObject) -> None:
    culprits = data.draw(st.sets(st.integers(0, many - 1), min_size=1, max_size=min(3, many - 1)))
    assert smallest(range(many), lambda some: culprits <= {*some}, always) == sorted(culprits)


def test_a_failure_that_needs_all_parts_or_does_not_repeat_is_not_reduced() -> None:
    assert smallest(range(5), lambda some: len(some) == 5, always) is None
    assert smallest([1], lambda some: True, always) is None


def test_no_attempt_begins_after_the_time_limit() -> None:
    tries = count()
    assert smallest(range(100), lambda some: next(tries) < 0, lambda: False) is None
    assert next(tries) == 0


@given(st.integers(0, 12))
def test_the_result_at_the_time_limit_still_fails(most: int) -> None:
    tries: list[Sequence[int]] = []

    def fails(some: Sequence[int]) -> bool:
        tries.append(some)
        return {3, 17} <= {*some}

    found = smallest(range(20), fails, lambda: len(tries) < most)
    assert len(tries) <= most
    assert found is None or {3, 17} <= {*found}


def test_a_failure_keeps_its_reason_and_gets_the_smallest_steps() -> None:
    def again(some: Sequence[str]) -> None:
        if "b" in some:
            raise Failed("lost in between", [f"did {each}" for each in some])

    found = reduced(Failed("lost", ["did everything"]), ["a", "b", "c"], again, always)
    assert found.why == "lost"
    assert found.steps == ["on a new table 1 of 3 are enough: lost in between", "did b"]


def test_a_failure_that_does_not_repeat_keeps_its_steps() -> None:
    found = reduced(Failed("lost", ["did all"]), ["a", "b"], lambda some: None, always)
    assert (found.why, found.steps[0]) == ("lost", "did all")
    assert found.steps[1:] == ["nothing smaller failed again, of the 2 that it took"]


def test_another_error_is_no_reproduction() -> None:
    def again(some: Sequence[str]) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        reduced(Failed("lost"), ["a", "b"], again, always)
