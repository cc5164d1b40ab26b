"""Commits of existing data files. deltalake reads the table; the file of the log is written here, since deltalake's own
commit builds the table that follows and throws it away: twice the time of a large table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deltalake import DeltaTable
from pyspark.sql.types import StructType

from blizzard.errors import AlreadyExists, BlizzardError, CommitOutcomeUnknown, LostRace, RetryableError
from blizzard.log import Log, first_line
from blizzard.state.delta_log import commit_key
from blizzard.storage.base import ObjectStore
from spark_job.engines.local.delta_errors import DELTALAKE_ERRORS, translating_delta_errors
from spark_job.engines.local.log_file import Action, add_actions, append_info, encoded, txn_actions
from spark_job.engines.local.open_table import OpenTable
from spark_job.engines.local.schema_commit import PROTOCOL, protocol_with_ntz, schema_actions
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.table.constraints import CONSTRAINT_PROPERTY
from spark_job.table.delta_description import describe
from spark_job.table.engine import NewTable
from spark_job.table.file_layout import TableDescription
from spark_job.table.log_actions import metadata_fields
from spark_job.table.schema import has_ntz
from spark_job.table.stats_columns import stats_columns
from spark_job.write.data_file import DataFile

PROTOCOL_WITH_CHECKS = {"minReaderVersion": 1, "minWriterVersion": 3}
PLAIN_PROPERTIES = (
    CONSTRAINT_PROPERTY,
    "delta.appendOnly",
    "delta.checkpointInterval",
    "delta.dataSkipping",
    "delta.deletedFileRetentionDuration",
    "delta.enableExpiredLogCleanup",
    "delta.logRetentionDuration",
    "delta.randomizeFilePrefixes",
    "delta.targetFileSize",
)
"""Properties, or beginnings of their names, that need no other protocol."""
CLEAN_UP = "delta.enableExpiredLogCleanup"
MAX_OVERTAKEN = 20
"""So many commits of others may come first, one after the other, before an append is tried again from the start."""


class AppendTransaction:
    """A commit to a table that exists. `store` is the table's folder; `clock` gives Unix seconds. Nothing else may read
    newer versions into `table` before it is made."""

    def __init__(
        self, opened: OpenTable, table: DeltaTable, store: ObjectStore, clock: Callable[[], float], log: Log
    ) -> None:
        self._opened = opened
        self._table, self._started_at = table, table.version()
        self._store = store
        self._clock = clock
        self._log = log
        self._schema: StructType | None = None
        self._txns: dict[str, int] = {}
        self._properties: Mapping[str, str] = {}

    @property
    def version(self) -> int:
        return self._table.version()

    def description(self) -> TableDescription:
        found = describe(self._table)
        if self._schema is None:
            return found
        return replace(found, schema=self._schema, properties={**found.properties, **self._properties})

    def stats_columns(self) -> Sequence[str]:
        return stats_columns(self.description())

    def txn_version(self, app_id: str) -> int | None:
        return self._table.transaction_version(app_id)

    def add_txns(self, txns: Mapping[str, int]) -> None:
        self._txns = dict(txns)

    def create_table(self, table: NewTable) -> None:
        raise LostRace(f"the table exists already, at version {self.version}")

    def change_schema(self, schema: StructType, *, widens: bool, properties: Mapping[str, str]) -> None:
        if widens:
            raise NeedsSpark("widening a column")
        self._schema, self._properties = schema, properties

    def commit(self, files: Sequence[DataFile], *, app_id: str, sequence: int, user_metadata: str) -> int:
        if self.version != self._started_at:  # then nobody has compared the Txns and columns of the later versions
            raise LostRace(f"the commit began at version {self._started_at}, and the table is at {self.version} now")
        txns, now_ms = {app_id: sequence, **self._txns}, round(self._clock() * 1000)
        if self._schema is None:
            before = self._write_append(files, txns, now_ms, user_metadata)
        else:
            before = self.version
            self._write_change(schema_actions(self._table, self.description(), now_ms, user_metadata, txns))
        try:
            self._table.update_incremental()
        except DELTALAKE_ERRORS:  # the commit stands
            self._opened.forget()
            return before + 1
        self._follow_up(before, added=len(files))
        return before + 1

    def _write_append(self, files: Sequence[DataFile], txns: Mapping[str, int], now_ms: int, user_metadata: str) -> int:
        """Returns the version before the one that it makes: the one that was read, or a later one if others have
        committed meanwhile and what this commit follows from still holds."""
        partition_by = self._table.metadata().partition_columns
        actions = [append_info(partition_by, now_ms, user_metadata), *txn_actions(txns, now_ms), *add_actions(files)]
        content = encoded(actions)
        for _ in range(MAX_OVERTAKEN):
            before = self.version
            if _created(self._store, before + 1, content):
                return before
            expected = self._premises(txns)
            with translating_delta_errors("reading the commits that others have made meanwhile"):
                self._table.update_incremental()
            if self.version == before:  # what was found is not a commit of this table
                raise LostRace(f"version {before + 1} of the table is there, and not read from version {before} on")
            if (found := self._premises(txns)) != expected:
                raise LostRace(f"commits up to version {self.version} have changed {_changed(expected, found)}")
        raise RetryableError(f"other commits were first at each of the last {MAX_OVERTAKEN} versions of the table")

    def _premises(self, txns: Iterable[str]) -> Mapping[str, object]:
        """What an append follows from, by name."""
        return {
            "the table's columns or properties": (self._table.metadata().id, describe(self._table)),
            "its protocol": self._table.protocol(),
            **{f"Txn {app_id}": self._table.transaction_version(app_id) for app_id in txns},
        }

    def _write_change(self, actions: Sequence[Action]) -> None:
        """As the version after the one that was read, or not at all."""
        if not _created(self._store, self.version + 1, encoded(actions)):
            raise LostRace(f"another commit has made version {self.version + 1} of the table meanwhile")

    def _follow_up(self, before: int, *, added: int) -> None:
        """After a commit that stands. Raises CommitOutcomeUnknown if it may not be on the disk yet."""
        try:
            self._opened.committed(self._table, before, added=added)
        except (BlizzardError, OSError) as error:
            self._opened.forget()
            raise CommitOutcomeUnknown(
                f"the commit was made, and then an error came: {type(error).__name__}: {first_line(str(error))}"
            ) from error
        if self._opened.goes_on(self._table):
            self._write_checkpoint(before)

    def _write_checkpoint(self, before: int) -> None:
        """Where the table wants one, as Spark does after its commits. Other commits may have come between `before` and
        this one, and after it, so one of all these versions is enough."""
        description = self.description()
        if self.version // description.checkpoint_interval == before // description.checkpoint_interval:
            return
        try:
            self._table.create_checkpoint()
            self._opened.checkpointed()
            if description.properties.get(CLEAN_UP, "true").lower() == "true":
                self._table.cleanup_metadata()
        except DELTALAKE_ERRORS as error:  # the commit stands, and the next checkpoint has all of it
            what = f"{type(error).__name__}: {first_line(str(error))}"
            self._log("delta_checkpoint_failed", table=self._store.uri, version=self.version, error=what)


class FirstCommit:
    """The commit that makes the table: metadata, rows and Txn in one, as Delta's own writers do it. deltalake would
    make an empty table first, and refuses a property that Delta knows."""

    version = -1

    def __init__(self, store: ObjectStore, uri: str, clock: Callable[[], float]) -> None:
        self._store = store
        self._uri = uri
        self._clock = clock
        self._new: NewTable | None = None
        self._txns: dict[str, int] = {}

    @property
    def _table(self) -> NewTable:
        if self._new is None:
            raise LostRace(f"there is no table {self._uri} any more")
        return self._new

    def description(self) -> TableDescription:
        table = self._table
        protocol = _protocol_of(table)
        features = frozenset[str](protocol.get("writerFeatures", ()))
        return TableDescription(
            table.schema, table.partition_by, table.properties, protocol["minWriterVersion"], features
        )

    def stats_columns(self) -> Sequence[str]:
        return stats_columns(self.description())

    def txn_version(self, app_id: str) -> int | None:
        return None

    def add_txns(self, txns: Mapping[str, int]) -> None:
        self._txns = dict(txns)

    def create_table(self, table: NewTable) -> None:
        if (reason := _why_spark_makes(table)) is not None:
            raise NeedsSpark(f"making table {self._uri} {reason}")
        self._new = table

    def change_schema(self, schema: StructType, *, widens: bool, properties: Mapping[str, str]) -> None:
        raise LostRace(f"there is no table {self._uri} any more")

    def commit(self, files: Sequence[DataFile], *, app_id: str, sequence: int, user_metadata: str) -> int:
        now_ms = round(self._clock() * 1000)
        actions: list[Action] = [
            append_info(self._table.partition_by, now_ms, user_metadata),
            {"protocol": _protocol_of(self._table)},
            {"metaData": metadata_fields(self._table, self._table.properties, now_ms)},
            *txn_actions({app_id: sequence, **self._txns}, now_ms),
            *add_actions(files),
        ]
        if not _created(self._store, 0, encoded(actions)):
            raise LostRace(f"another commit has made table {self._uri} meanwhile")
        return 0


def _created(store: ObjectStore, version: int, content: bytes) -> bool:
    """Returns whether this version was not there yet."""
    try:
        store.create(commit_key(version), content)
    except AlreadyExists:
        return False
    except (RetryableError, OSError) as error:
        raise CommitOutcomeUnknown(first_line(str(error))) from error
    return True


def _why_spark_makes(table: NewTable) -> str | None:
    """Clustering, and properties that may need a feature, which only Delta's own code knows."""
    if table.cluster_by:
        return "clustered by columns"
    for name in table.properties:
        if name.startswith("delta.") and not name.startswith(PLAIN_PROPERTIES):
            return f"with the property {name}"
    return None


def _protocol_of(table: NewTable) -> dict[str, Any]:
    """The lowest that the table needs."""
    checks = any(name.startswith(CONSTRAINT_PROPERTY) for name in table.properties)
    if not has_ntz(table.schema):
        return PROTOCOL_WITH_CHECKS if checks else PROTOCOL
    return protocol_with_ntz(["checkConstraints"] if checks else [])


def _changed(expected: Mapping[str, object], found: Mapping[str, object]) -> str:
    return ", ".join(name for name, value in expected.items() if found[name] != value)
