"""The simulation of lost events finds all of them, within the bound of requests."""

import pytest

from benchmarks.ledger.missed_events import CountedSource, SimulatedClock, simulate
from benchmarks.verify import WrongResult
from blizzard.ledger import settled_files


def test_lost_files_with_random_names_are_found_within_two_sweeps() -> None:
    found = simulate(3_000, 15)
    assert (found["lost"], found["most_sweeps"], found["most_requests"]) == (30, 2, 15)


def test_with_enough_requests_they_are_found_by_the_next_sweep() -> None:
    assert simulate(3_000, 30)["most_sweeps"] == 1


def test_without_requests_lost_files_are_not_found() -> None:
    with pytest.raises(WrongResult, match="of the lost ones"):
        simulate(3_000, 0)


def test_a_sweeper_that_takes_new_files_for_settled_ones_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled_files.SettledFiles, "unsettled_paths", lambda files, listed: [])
    with pytest.raises(WrongResult, match="of the lost ones"):
        simulate(3_000, 30)


def test_requests_are_counted_as_s3_counts_them() -> None:
    source = CountedSource(SimulatedClock())
    for n in range(1_001):
        source.add(f"a/{n:04}")
    assert len([*source.list("a/", recursive=False)]) == 1_001
    assert [*source.list_folders("")] == ["a/"]
    assert [*source.list_folders("a/")] == []
    assert source.requests == {"files": 2, "folders": 3}
