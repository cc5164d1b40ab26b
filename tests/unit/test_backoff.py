"""How long is waited before another try."""

from hypothesis import given
from hypothesis import strategies as st

from blizzard.storage.backoff import backoff_secs

positive = st.floats(min_value=0.001, max_value=1e6)
shares = st.floats(min_value=0.0, max_value=1.0)
counts = st.integers(min_value=1, max_value=10_000)


def test_the_backoff_doubles_up_to_its_maximum() -> None:
    waits = [backoff_secs(failures, first_secs=0.5, max_secs=6.0, jitter=1.0) for failures in range(1, 7)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 6.0, 6.0]


def test_half_of_the_backoff_is_jitter() -> None:
    assert [backoff_secs(3, first_secs=1.0, max_secs=9.0, jitter=jitter) for jitter in (0.0, 0.5, 1.0)] == [2, 3, 4]


@given(counts, positive, positive, shares)
def test_the_backoff_is_between_half_of_the_first_and_the_maximum(
    failures: int, first_secs: float, max_secs: float, jitter: float
) -> None:
    wait = backoff_secs(failures, first_secs=first_secs, max_secs=max_secs, jitter=jitter)
    assert min(first_secs, max_secs) / 2 <= wait <= max_secs


@given(counts, positive, positive, shares)
def test_the_backoff_never_shrinks_with_another_failure(
    failures: int, first_secs: float, max_secs: float, jitter: float
) -> None:
    one, more = (
        backoff_secs(n, first_secs=first_secs, max_secs=max_secs, jitter=jitter) for n in (failures, failures + 1)
    )
    assert one <= more
