"""Tables as deltalake holds them in memory, kept up to date with one listing a commit."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from blizzard.errors import BlizzardError, BucketMissing, LogDamaged, NotFound, PermanentError
from blizzard.state.delta_log import LAST_CHECKPOINT, LOG_FOLDER, commit_key, commit_version
from blizzard.state.delta_protocol import reasons_for_spark
from blizzard.state.snapshot_actions import snapshot_actions
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore
from blizzard.table.locations import MISREAD
from spark_job.engines.local.delta_errors import DELTALAKE_ERRORS
from spark_job.engines.local.durable_log import sync_files
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.table.file_layout import checkpoint_interval

MAX_FILES = 40_000
"""deltalake holds all files of a table in memory, and copies what it holds at each commit: some 6 KB and 2 µs for each
file. With so many a job takes about 400 MB, and its commits stay below 0.2 s."""


class OpenTables:
    """The tables of one process: each is held once, whichever sources write to it, and all of them together have no
    more than MAX_FILES files. Those that were used longest ago are closed for another one, and opened again when they
    are next used. `storage_options` are deltalake's, asked for when a table is opened, since credentials expire.

    Not for several threads."""

    def __init__(self, storage_options: Callable[[], Mapping[str, str]]) -> None:
        self._storage_options = storage_options
        self._tables: dict[str, OpenTable] = {}
        """By location; those used last are the last ones."""

    def at(self, uri: str, store: ObjectStore) -> "OpenTable":
        """`store`: the table's folder."""
        if uri not in self._tables:
            self._tables[uri] = OpenTable(uri, store, self._storage_options, self._make_room)
        return self._tables[uri]

    def held_files(self) -> int:
        return sum(table.held_files for table in self._tables.values())

    def _make_room(self, uri: str, files: int) -> None:
        """The table at `uri` is used now, and has so many files."""
        used = self._tables[uri] = self._tables.pop(uri)
        excess = self.held_files() - used.held_files + files - MAX_FILES
        for other in self._tables.values():
            if excess <= 0 or other is used:
                return
            excess -= other.held_files
            other.forget()


class OpenTable:
    """`storage_options`: as there. `make_room` takes the location of the table that is used, and how many files it
    has."""

    def __init__(
        self,
        uri: str,
        store: ObjectStore,
        storage_options: Callable[[], Mapping[str, str]],
        make_room: Callable[[str, int], None],
    ) -> None:
        self._uri = uri
        self._store = store
        self._storage_options = storage_options
        self._make_room = make_room
        self._options: dict[str, str] = {}
        self._table: DeltaTable | None = None
        self._etag: str | None = None
        """Of the commit of the version in memory. A table that was made anew has another."""
        self._opened_at, self._checkpoint_interval = -1, 1
        self._files, self._counted_at = 0, -1
        """How many files the table had at most at a version: counted once, then with what this process has added."""

    @property
    def held_files(self) -> int:
        """How many files deltalake holds in memory for it."""
        return 0 if self._table is None else self._files

    def last_seen(self) -> DeltaTable | None:
        """Without a request, if there has been one before."""
        if self._table is None:
            return self.newest()
        self._make_room(self._uri, self._files)
        return self._table

    def newest(self) -> DeltaTable | None:
        """None: there is no table. Raises NeedsSpark for one that only Spark can commit to."""
        if misread := MISREAD.intersection(self._uri):
            raise NeedsSpark(f"a table whose location has {' '.join(sorted(misread))} in it")
        table, options = self._table, dict(self._storage_options())
        if table is None or options != self._options:
            return self._open(options)
        newest, etag = self._listed(table.version())
        if etag is None or etag != self._etag or self._has_later_checkpoint(newest):
            return self._open(options)
        if newest > table.version():
            table.update_incremental()
            if table.version() < newest:
                return self._open(options)
            self._etag = self._listed(table.version())[1]
            self._check(table)
        return self.last_seen()

    def committed(self, table: DeltaTable, before: int, *, added: int) -> None:
        """This table has just made a commit of `added` files, above version `before`."""
        if self._counted_at == before == table.version() - 1:
            self._files, self._counted_at = self._files + added, table.version()
        sync_files(self._store, map(commit_key, range(before + 1, table.version() + 1)))
        if table is self._table:
            self._etag = self._listed(table.version())[1]

    def goes_on(self, table: DeltaTable) -> bool:
        """After a commit that stands: whether the next one may come from here, too. After commits of others that came
        with it only Spark may write to the table, or nobody, which the next look at it tells."""
        try:
            self._check(table)
        except (BlizzardError, *DELTALAKE_ERRORS):
            self.forget()
            return False
        return True

    def _check(self, table: DeltaTable) -> None:
        """Raises NeedsSpark for a table that only Spark can commit to, and PermanentError for one that nobody can; who
        asks for it next opens it again."""
        try:
            _check_protocol(table)
            self._check_count(table)
        except PermanentError:
            self.forget()
            raise

    def forget(self) -> None:
        """Who asks for the table next gets it as it is then."""
        self._table = None

    def checkpointed(self) -> None:
        """The table in memory has just written a checkpoint of its version."""
        if self._table is not None:
            checkpoint = f"{LOG_FOLDER}{self._table.version():020d}.checkpoint.parquet"
            sync_files(self._store, (checkpoint, LAST_CHECKPOINT))

    def _open(self, options: dict[str, str]) -> DeltaTable | None:
        self._table, self._options = None, options
        self._check_size()
        try:
            table = DeltaTable(self._uri, storage_options=options)
        except TableNotFoundError:
            return None
        except DELTALAKE_ERRORS:
            self._check_unreadable()
            raise
        etag = self._listed(table.version())[1]
        if etag != self._etag:  # perhaps another table in its place
            self._counted_at = -1
        self._check(table)
        self._table, self._etag = table, etag
        self._opened_at, self._checkpoint_interval = (
            table.version(),
            checkpoint_interval(table.metadata().configuration),
        )
        return table

    def _has_later_checkpoint(self, newest: int) -> bool:
        """Each commit reads all of the log that was not in the checkpoint when the table was opened."""
        return newest // self._checkpoint_interval != self._opened_at // self._checkpoint_interval

    def _listed(self, version: int) -> tuple[int, str | None]:
        """The newest version, from `version` on, and the etag of that of `version`."""
        newest, etag = -1, None
        after = commit_key(version - 1) if version > 0 else LOG_FOLDER
        for info in self._store.list(LOG_FOLDER, start_after=after, recursive=False):
            if (found := commit_version(info.key)) is not None:
                newest, etag = found, info.etag if found == version else etag
        return newest, etag

    def _check_count(self, table: DeltaTable) -> None:
        """Counts only after commits of others, which may have added any number, and what seems to be too much, of which
        some may have been removed."""
        if self._counted_at != table.version() or self._files > MAX_FILES:
            self._files, self._counted_at = len(table.file_uris()), table.version()
        if self._files > MAX_FILES:
            raise NeedsSpark(_too_large(f"{self._files:,}"))
        self._make_room(self._uri, self._files)

    def _check_unreadable(self) -> None:
        """Asks the log itself what table deltalake has not opened."""
        with suppress(LogDamaged, NotFound, *json_fields.MALFORMED):
            *_, protocol = snapshot_actions(self._store, "protocol")
            reader, writer = map(json_fields.natural, (protocol["minReaderVersion"], protocol["minWriterVersion"]))
            features = protocol.get("readerFeatures") or (), protocol.get("writerFeatures") or ()
            for reason in reasons_for_spark((reader, writer), *features, {}):
                raise NeedsSpark(reason)

    def _check_size(self) -> None:
        """Asks the table's last checkpoint, since opening a table takes the memory already."""
        try:
            pointer = json.loads(self._store.get(LAST_CHECKPOINT))
            added = pointer.get("numOfAddFiles")
            files = pointer["size"] if added is None else added
        except (NotFound, BucketMissing, *json_fields.MALFORMED):
            return
        if not isinstance(files, int):
            return
        if files > MAX_FILES:
            raise NeedsSpark(_too_large(f"about {files:,}"))
        self._make_room(self._uri, files)


def _too_large(files: str) -> str:
    return f"a table of {files} files, more than the {MAX_FILES:,} that fit into memory"


def _check_protocol(table: DeltaTable) -> None:
    protocol = table.protocol()
    versions = protocol.min_reader_version, protocol.min_writer_version
    features = protocol.reader_features or (), protocol.writer_features or ()
    properties = table.metadata().configuration
    for reason in reasons_for_spark(versions, *features, properties):
        raise NeedsSpark(reason)
    checkpoint_interval(properties)
