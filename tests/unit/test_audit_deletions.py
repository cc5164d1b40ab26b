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
) -> Commit:
    metrics = {} if rows is None else {metric: rows}
    return Commit(version, txns or {}, None, None, None, None, operation, parameters or {}, metrics)


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


def test_deletions_add_up() -> None:
    assert of({0: 3, 1: 2}, own(0, 0), commit(1, "DELETE", 2), own(2, 1), commit(3, "DELETE", 3)) == (0, 0)


def test_a_restore_undoes_the_deletions_since_the_version_that_it_restores() -> None:
    before = own(0, 0), commit(1, "DELETE", 2), own(2, 1), commit(3, "DELETE", 5)
    assert of({1: 5}, *before, restore(4, 2)) == (3, 0)
    assert of({1: 5}, *before, restore(4, 3)) == (0, 0)
    assert of({1: 5}, *before, restore(4, 2), commit(5, "DELETE", 3)) == (0, 0)


def test_a_restore_that_is_undone_itself_undoes_nothing() -> None:
    assert of({0: 2}, own(0, 0), commit(1, "DELETE", 2), restore(2, 0), restore(3, 1)) == (0, 0)


def test_a_restore_that_does_not_say_what_it_has_restored_undoes_nothing() -> None:
    assert of({0: 2}, own(0, 0), commit(1, "DELETE", 2), commit(2, "RESTORE")) == (0, 0)


def test_rows_of_before_the_log_may_have_been_deleted_before_it() -> None:
    log = own(7, 4), commit(8, "DELETE", 1), own(9, 5)
    assert of({3: 6}, *log) == (0, 5)
    assert of({3: 6, 4: 2, 5: 3}, *log) == (4, 6)
    assert of({-1: 4}, *log) == (0, 3)
    assert deletions_of({3: 6}, reversed(log), APP_ID).log_begins == 7


def test_the_log_is_read_no_further_than_needed() -> None:
    def commits() -> Any:
        yield commit(9, "DELETE", 4)
        raise AssertionError("the log was read further")

    assert deletions_of({0: 4}, commits(), APP_ID) == Deletions(4)
