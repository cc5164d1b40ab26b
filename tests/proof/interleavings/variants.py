"""Small worlds that are broken on purpose, so that the campaign can show that it would find it. Each breaks what is
around the product, never the product itself."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import spark_job.loop.files.source
from blizzard.errors import CommitOutcomeUnknown
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.state.delta_log import Commit
from tests.proof.breaks import (
    LATE_LETTERS,
    MARKS_ALONE,
    NO_LOOK,
    NO_TXN,
    OLDER_STATE,
    TXN_NOT_COMPARED,
    UNCONDITIONAL_PUT,
    WIPED_BELIEVED,
    Believed,
    MarksAlone,
    Overwriting,
    older_state_as_current,
)
from tests.proof.interleavings.calls import Remote
from tests.proof.interleavings.worlds import SmallWorld
from tests.unit.fakes import Calls, MemoryDelta, MemoryRows, MemoryTable, Row


class _Uncompared(MemoryDelta):
    """Takes every commit, whatever its Txn."""

    def _has_txn(self, app_id: str, sequence: int) -> bool:
        return False


class RetryingDelta(MemoryDelta):
    """Tries a commit without an answer again under the next number, without a look at what became of the first."""

    def commit(
        self,
        added: Iterable[Row],
        app_id: str,
        sequence: int,
        user_metadata: str | None,
        *,
        without: Iterable[str] = (),
    ) -> None:
        rows = [*added]
        try:
            super().commit(rows, app_id, sequence, user_metadata, without=without)
        except CommitOutcomeUnknown:
            self.faults.clear()
            super().commit(rows, app_id, sequence + 1, user_metadata, without=without)


class _Adding(MemoryTable):
    def add(self, rows: MemoryRows) -> None:
        """A commit of rows alone."""
        self._delta.rows = [*self._delta.rows, *rows.rows]
        self._delta.commits.append(Commit(len(self._delta.commits), {}, None, None))


class _InTwo:
    """A job's table that commits the rows first, and then their Txn with the state."""

    def __init__(self, table: Remote) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def append(self, rows: MemoryRows | None, **more: Any) -> None:
        if rows is not None and rows.rows:
            self._table.add(rows)
        self._table.append(None, **more)


class _WithoutALook:
    """A job's table that sends a commit without an answer again under the next number."""

    def __init__(self, table: Remote) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def append(self, rows: MemoryRows | None, *, sequence: int, user_metadata: str) -> None:
        try:
            self._table.append(rows, sequence=sequence, user_metadata=user_metadata)
        except CommitOutcomeUnknown:
            self._table.append(rows, sequence=sequence + 1, user_metadata=user_metadata)


class _LettersAfter:
    """Both a job's table and the store of its letters: it keeps those of a batch until that is committed."""

    def __init__(self, table: Remote, state: Remote) -> None:
        self._table, self._state = table, state
        self._letters: list[tuple[str, bytes]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def put(self, key: str, data: bytes) -> None:
        self._letters.append((key, data))

    def append(self, rows: MemoryRows | None, **more: Any) -> None:
        letters, self._letters = self._letters, []
        self._table.append(rows, **more)
        for letter in letters:
            self._state.put_before_all(*letter)


def unconditional_put(world: SmallWorld) -> None:
    world.state = Overwriting(world.state)


def marks_without_entries(world: SmallWorld) -> None:
    world.state = MarksAlone(world.state)


def wiped_marks_believed(world: SmallWorld) -> None:
    world.state = Believed(world.state)


def txn_not_compared(world: SmallWorld) -> None:
    world.replace_delta(_Uncompared())


def retry_without_a_look(world: SmallWorld) -> None:
    world.around_job = lambda table, letters: (_WithoutALook(table), letters)


def rows_without_txn(world: SmallWorld) -> None:
    world.table = _Adding(world.delta, world.identity, Calls())
    world.around_job = lambda table, letters: (_InTwo(table), letters)


def letters_after_the_commit(world: SmallWorld) -> None:
    def around(table: Remote, state: Remote) -> tuple[Any, Any]:
        both = _LettersAfter(table, state)
        return both, both

    world.around_job = around


@contextmanager
def older_state() -> Iterator[None]:
    """All jobs of this process, until the end of the block."""
    with (
        patch.object(spark_job.loop.files.source, "recover", spark_job.loop.files.source.recover),
        patch.object(LedgerKeeper, "_fill", LedgerKeeper._fill),
    ):
        older_state_as_current()
        yield


PROGRAMS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {OLDER_STATE: older_state}
"""What is broken for as long as a world is explored, in all its jobs and in those that come after the end."""
VARIANTS: Mapping[str, Callable[[SmallWorld], None]] = {
    UNCONDITIONAL_PUT: unconditional_put,
    TXN_NOT_COMPARED: txn_not_compared,
    MARKS_ALONE: marks_without_entries,
    NO_LOOK: retry_without_a_look,
    NO_TXN: rows_without_txn,
    WIPED_BELIEVED: wiped_marks_believed,
    LATE_LETTERS: letters_after_the_commit,
}
