"""Whether the table's log explains that rows are gone."""

from collections.abc import Mapping
from typing import Any

import pytest

from blizzard.audit.deletions import Deletions, deletions_of
from blizzard.state.delta_log import Commit

APP_ID, OTHER = "blizzard:orders:shop", "blizzard:orders:other"


def own(version: int, sequence: int, app_id: str = APP_ID, operation: str = "WRITE") -> Commit:
    return commit(version, operation, txns={app_id: sequence})


def commit(
    version: int,
    operation: str,
    rows: Any = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    txns: Mapping[str, int] | None = None,
    metric: str = "numDeletedRows",
    at: float | None = None,
) -> Commit:
    """`at`: the time of the commit; by default its version."""
    metrics, ts = {} if rows is None else {metric: rows}, version if at is None else at
    return Commit(version, txns or {}, None, ts, None, None, operation, parameters or {}, metrics)


def restore(version: int, to: object) -> Commit:
    return commit(version, "RESTORE", parameters={"version": to})


def of(gone: Mapping[int, int], *commits: Commit) -> tuple[int, int]:
    """Unexplained and unknown. `commits`: oldest first."""
    found = deletions_of(gone, reversed(commits), APP_ID)
    assert found.gone == sum(gone.values())
    return found.unexplained, found.unknown


def test_nothing_is_read_if_nothing_is_gone() -> None:
    assert deletions_of({}, iter([commit(0, "DELETE", "not a number")]), APP_ID) == Deletions()


@pytest.mark.parametrize(
    ("deletion", "unexplained"),
    [
        (commit(1, "DELETE", "3"), 0),
        (commit(1, "DELETE", 3, metric="num_deleted_rows"), 0),
        (commit(1, "DELETE", 2), 1),
        (commit(1, "DELETE"), 0),  # of whole partitions: Spark does not count rows then
        (commit(1, "DELETE", "many"), 0),
        (commit(1, "TRUNCATE"), 0),
        (commit(1, "MERGE", 3, metric="numTargetRowsDeleted"), 0),
        (commit(1, "MERGE", 0, metric="num_target_rows_deleted"), 3),
        (commit(1, "UPDATE", 3), 3),
        (commit(1, "WRITE"), 3),
        (restore(1, 0), 3),
        (own(1, 8, OTHER, "DELETE"), 3),
    ],
)
def test_what_explains_three_rows_that_are_gone(deletion: Commit, unexplained: int) -> None:
    assert of({0: 3}, own(0, 0), deletion) == (unexplained, 0)


def test_a_commit_explains_no_more_than_it_took_out_of_the_source() -> None:
    commits = [own(0, 0), commit(1, "DELETE", 9), commit(2, "DELETE"), commit(3, "UPDATE", 9)]
    rows = {1: 2.0, 2: 1.0, 3: 9.0}
    found = deletions_of({0: 5}, reversed(commits), APP_ID, lambda each: rows[each.version])
    assert (found.gone, found.unexplained) == (5, 2)


def test_deletions_add_up() -> None:
    assert of({0: 3, 1: 2}, own(0, 0), commit(1, "DELETE", 2), own(2, 1), commit(3, "DELETE", 3)) == (0, 0)


COMMITTED = own(2, 1)


@pytest.mark.parametrize(
    ("deletions", "unexplained"),
    [
        ([commit(1, "DELETE", 3), COMMITTED], 3),
        ([commit(1, "DELETE"), COMMITTED], 3),
        ([commit(1, "TRUNCATE"), COMMITTED], 3),
        ([commit(1, "MERGE", 9, metric="numTargetRowsDeleted"), COMMITTED], 3),
        ([COMMITTED, commit(3, "DELETE", 3)], 0),
        ([COMMITTED, commit(3, "DELETE", 2)], 1),
        ([COMMITTED, commit(3, "TRUNCATE")], 0),
        ([commit(1, "TRUNCATE"), COMMITTED, commit(3, "DELETE", 2)], 1),
        ([commit(1, "DELETE", 1), COMMITTED, commit(3, "DELETE", 2)], 1),
        ([commit(1, "TRUNCATE"), COMMITTED, commit(3, "DELETE")], 0),
    ],
)
def test_what_was_deleted_before_rows_were_committed_are_not_these(deletions: list[Commit], unexplained: int) -> None:
    assert of({1: 3}, own(0, 0), *deletions) == (unexplained, 0)
    assert of({1: 3}, *deletions) == (unexplained, 0)


def test_deletions_explain_only_rows_of_before() -> None:
    log = own(0, 0), commit(1, "TRUNCATE"), own(2, 1), commit(3, "DELETE", 1), own(4, 2)
    assert of({0: 7}, *log) == (0, 0)
    assert of({0: 7, 1: 1}, *log) == (0, 0)
    assert of({0: 7, 1: 3}, *log) == (2, 0)
    assert of({0: 7, 1: 3, 2: 4}, *log) == (6, 0)
    assert of({0: 7, 2: 4}, *log) == (4, 0)


def test_rows_of_an_unknown_commit_may_have_been_deleted_by_any_commit() -> None:
    log = own(0, 0), commit(1, "DELETE", 3), own(2, 1)
    assert of({-1: 3}, *log) == (0, 0)
    assert of({-1: 4}, *log) == (1, 0)
    assert of({-1: 3, 1: 2}, *log) == (2, 0)
    assert of({-1: 2, 1: 2}, *log, commit(3, "DELETE", 1)) == (1, 0)


def test_a_restore_undoes_the_deletions_since_the_version_that_it_restores() -> None:
    before = own(0, 0), own(1, 1), commit(2, "DELETE", 2), own(3, 2), commit(4, "DELETE", 5)
    assert of({1: 5}, *before, restore(5, 3)) == (3, 0)
    assert of({1: 5}, *before, restore(5, 4)) == (0, 0)
    assert of({1: 5}, *before, restore(5, 3), commit(6, "DELETE", 3)) == (0, 0)


def test_a_restore_that_is_undone_itself_undoes_nothing() -> None:
    assert of({0: 2}, own(0, 0), commit(1, "DELETE", 2), restore(2, 0), restore(3, 1)) == (0, 0)


def test_rows_of_a_commit_that_was_undone_were_not_deleted_before_it() -> None:
    assert of({1: 2}, own(0, 0), commit(1, "DELETE", 2), own(2, 1), restore(3, 1)) == (2, 0)


NOON = 1_795_780_800
"""2026-11-27 12:00 UTC."""


@pytest.mark.parametrize(
    ("said", "unexplained"),
    [
        ({"datetime": f"{(NOON + 5) * 1000}"}, 3),
        ({"datetime": f"{(NOON + 10) * 1000}"}, 0),
        ({"datetime": (NOON - 1) * 1000}, 5),
        ({"version": "", "timestamp": "2026-11-27T12:00:05Z"}, 3),
        ({"version": None, "timestamp": "2026-11-27 14:00:10.0+02:00"}, 0),
        ({"timestamp": "2026-11-28 02:00:10.0"}, 0),
        ({"timestamp": "2026-11-28 02:00:09.0"}, 3),
        ({"timestamp": "yesterday"}, 5),
        ({"timestamp": 7}, 5),
        ({}, 5),
    ],
)
def test_a_restore_by_time_undoes_what_came_after_it(said: Mapping[str, Any], unexplained: int) -> None:
    """A time of day without its zone may be of any. One that cannot be read is before all deletions."""
    deletions = commit(1, "DELETE", 2, at=NOON), commit(2, "DELETE", 3, at=NOON + 10)
    log = own(0, 0), *deletions, commit(3, "RESTORE", parameters=said, at=NOON + 90_000)
    assert of({0: 5}, *log) == (unexplained, 0)


def test_rows_of_before_the_log_may_have_been_deleted_before_it() -> None:
    log = own(7, 4), commit(8, "DELETE", 1), own(9, 5)
    assert of({3: 6}, *log) == (0, 5)
    assert of({3: 6, 4: 2, 5: 3}, *log) == (4, 6)
    assert of({-1: 4}, *log) == (0, 3)
    assert deletions_of({3: 6}, reversed(log), APP_ID).log_begins == 7


@pytest.mark.parametrize(
    ("gone", "newest", "unexplained"),
    [
        ({0: 4}, commit(9, "DELETE", 4), 0),
        ({3: 4}, own(9, 3), 4),
        ({3: 2, 5: 2}, own(9, 2), 4),
    ],
)
def test_the_log_is_read_no_further_than_needed(gone: Mapping[int, int], newest: Commit, unexplained: int) -> None:
    def commits() -> Any:
        yield newest
        raise AssertionError("the log was read further")

    assert deletions_of(gone, commits(), APP_ID) == Deletions(4, unexplained)


def test_for_rows_of_an_unknown_commit_all_of_the_log_is_read() -> None:
    assert of({-1: 4, 3: 1}, commit(0, "DELETE", 9), own(1, 3)) == (1, 0)
