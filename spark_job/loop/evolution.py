"""A batch that changes the schema of its table: whether it may, the record of it, and the log."""

from collections.abc import Callable
from typing import Any, Protocol

from blizzard.errors import BlizzardError
from blizzard.log import Log
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_changes import ChangeRecord, ChangeRecords, SchemaChange
from blizzard.storage.base import ObjectStore
from spark_job.ports.reader import FileRows
from spark_job.ports.table import FileTable

MAX_CHANGES_OF_A_BATCH = 5
"""After so many in a row the batch is committed as it was read last: what is still unknown stays where the reader has
put it. One is enough unless files are changed while they are read, or have more new fields than a report names."""

MAX_COMMITS_SEARCHED = 1_000
"""For the commit of a change, the newest ones. Without it the history has no version of the table."""


class EvolvingCheckpoint(Protocol):
    """A checkpoint of whatever kind, as far as changes of the schema use it."""

    @property
    def sequence(self) -> int: ...

    @property
    def schema_change(self) -> str | None: ...


class Evolution:
    """Of one source. `clock` gives Unix seconds, `new_id` a short unique text."""

    def __init__(
        self,
        identity: SourceIdentity,
        *,
        table: FileTable[Any],
        state: ObjectStore,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        log: Log,
    ) -> None:
        self._identity = identity
        self._table = table
        self._records = ChangeRecords(state, identity.state_prefix, identity.source_id)
        self._clock = clock
        self._new_id = new_id
        self._log = log
        self._in_a_row = 0
        self._refused: set[tuple[str, str]] = set()
        """What the log has said."""
        self._confirmed: str | None = None

    def forget(self) -> None:
        """A lost race does not count as a change of the batch."""
        self._in_a_row = 0

    def change_for(self, rows: FileRows) -> SchemaChange | None:
        """None: the rows are committed as they are. Raises RetryableError if the table's columns have changed since
        they were read."""
        proposal = self._table.propose_change(rows)
        change = proposal.change
        refused = dict(proposal.refused)
        if change is not None and self._in_a_row >= MAX_CHANGES_OF_A_BATCH:
            refused |= {one.path: f"the batch has changed the table {self._in_a_row} times" for one in change.fields}
            change = None
        self._log_refused(refused)
        self._in_a_row = 0 if change is None else self._in_a_row + 1
        return change

    def _log_refused(self, refused: dict[str, str]) -> None:
        """Each once, as far as it is about the same field."""
        new = {path: why for path, why in refused.items() if (path, why) not in self._refused}
        if new:
            self._refused |= {*new.items()}
            fields = [{"path": path, "reason": why} for path, why in new.items()]
            self._log("schema_not_changed", source=self._identity.source_id, fields=fields)

    def record(self, change: SchemaChange | None, base: EvolvingCheckpoint) -> str | None:
        """Before the commit, of what it changes, and of the columns with which it makes the table if records have shown
        them. Returns the name that its checkpoint has to have; None: there is nothing of it. `base`: the checkpoint
        before."""
        fields = (*self._table.inferred_columns(), *(() if change is None else change.fields))
        if not fields:
            return None
        record = self._records.put(
            SchemaChange(fields),
            sequence=base.sequence + 1,
            attempt=self._new_id(),
            after_version=self._table.newest_version(),
            previous=base.schema_change,
            now_ts=self._clock(),
        )
        return record.name

    def publish(self, checkpoint: EvolvingCheckpoint) -> None:
        """After the commit, and after recovery: the record of the newest change says that it has landed, and is logged.
        If storage refuses that, a later commit or run repeats it."""
        name = checkpoint.schema_change
        if name is None or name == self._confirmed:
            return
        try:
            for record in self._records.confirm(name, self._version_of):
                self._log_changed(record)
            self._confirmed = name
        except BlizzardError as error:
            self._log("publish_failed", source=self._identity.source_id, error=str(error))

    def _version_of(self, record: ChangeRecord) -> int | None:
        commits = self._table.commits(MAX_COMMITS_SEARCHED, above=record.after_version)
        app_id = self._identity.app_id
        return next((commit.version for commit in commits if commit.txns.get(app_id) == record.sequence), None)

    def _log_changed(self, record: ChangeRecord) -> None:
        """Without inferred columns, of which `schema_inferred` has told."""
        change = SchemaChange(tuple(field for field in record.change.fields if not field.inferred))
        if not change.fields:
            return
        self._log(
            "schema_changed",
            source=self._identity.source_id,
            sequence=record.sequence,
            version=record.version,
            added=len(change.added),
            widened=len(change.widened),
            fields=[field.as_document() for field in change.fields],
        )
