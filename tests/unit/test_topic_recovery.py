"""How much a job reads of the table's log to find where its source of topics stands."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from blizzard.log import silent
from blizzard.state.delta_log import Commit
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import TopicCheckpoint, TopicPosition, encode
from blizzard.storage.memory import MemoryStore
from spark_job.loop.topics.recovery import COMMITS_SEARCHED, recover
from tests.unit.memory_table import MemoryDelta, MemoryTable
from tests.unit.watched_calls import Calls

IDENTITY = SourceIdentity("p", "clicks", "_blizzard/p_clicks")
NO_BROKERS = cast("Any", None)
"""Only a state that is lost needs them."""


class ReadTable(MemoryTable):
    """`read`: how many commits were."""

    read = 0

    def commits(self, limit: int, *, above: int = -1) -> Iterator[Commit]:
        for commit in super().commits(limit, above=above):
            self.read += 1
            yield commit


def table_of(age: int, own: int | None = None) -> ReadTable:
    """So many commits. `own`: the version of the only one that is of the source."""
    state = encode(TopicCheckpoint("p", "clicks", 0, 0, "cluster", {"t": TopicPosition("id", {0: 7})}))
    commits = [
        Commit(version, {IDENTITY.app_id: 0}, state, None) if version == own else Commit(version, {}, None, None)
        for version in range(age)
    ]
    return ReadTable(MemoryDelta(commits), IDENTITY, Calls())


def recovered(table: ReadTable) -> int | None:
    """The sequence; None: the source is new."""
    found = recover(cast("Any", table), MemoryStore(lambda: 0.0), IDENTITY, NO_BROKERS, silent)
    return None if found is None else found.checkpoint.sequence


@pytest.mark.parametrize("age", [200, 3_000])
def test_of_a_source_that_is_new_the_newest_commits_are_read_whatever_the_age_of_the_table(age: int) -> None:
    table = table_of(age)
    assert (recovered(table), table.read) == (None, COMMITS_SEARCHED)


def test_the_last_commit_of_a_source_is_found_however_many_others_there_are_since() -> None:
    table = table_of(3_000, own=4)
    assert recovered(table) == 0
    assert table.read > 2_900
    young = table_of(3_000, own=2_990)
    assert (recovered(young), young.read) == (0, 10)
