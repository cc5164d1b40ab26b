"""The one commit of a batch: sent to the table, then looked up in the table's log to learn whether it succeeded."""

from contextlib import suppress
from typing import Any

from blizzard.errors import CommitOutcomeUnknown, LostRace, RetryableError, UnreadableState
from blizzard.log import Log
from blizzard.state.delta_log import Commit
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_changes import SchemaChange
from spark_job.ports.source import Batch, SourceCheckpoint, SourceKind
from spark_job.ports.stopwatch import Stopwatch
from spark_job.ports.table import Table

MAX_COMMITS_SEARCHED = 1_000
"""Commits that the search for this one reads. If other writers have made more since the plan, the search ends with the
Txn in the snapshot."""


class BatchCommitter:
    """Commits the batches of one source. `watch` times the turn."""

    def __init__(
        self,
        identity: SourceIdentity,
        source: SourceKind[Any, Any, Any],
        *,
        table: Table[Any],
        log: Log,
        watch: Stopwatch,
    ) -> None:
        self._identity = identity
        self._source = source
        self._table = table
        self._log = log
        self._watch = watch
        self._version: int | None = None

    def forget(self) -> None:
        """Query the table for its version before the next commit."""
        self._version = None

    def reached_version(self) -> int:
        """A version of the table that the batch's commit comes after: that of this process's last commit, else the
        newest; -1: no table."""
        if self._version is None:
            with self._watch.part("plan"):
                self._version = self._table.newest_version()
        return self._version

    def made_delta_checkpoint(self) -> bool:
        """Whether Delta wrote its own checkpoint after the last commit of this process."""
        return self._version is not None and self._table.checkpoints_at(self._version)

    def commit(self, checkpoint: SourceCheckpoint, batch: Batch | None, change: SchemaChange | None = None) -> bool:
        """`change`: of the table's schema, by a commit without a batch.

        Returns whether this commit is in the table's log. The log is read after an error, since the commit may have
        succeeded all the same. It is also read after a success, since Delta's writer silently skips a Txn version that
        the table already has.

        Raises RetryableError when the commit did not reach the table and no other job's did.
        """
        text = self._source.encode(checkpoint)
        try:
            self._write(checkpoint, batch, change, text)
        except (LostRace, CommitOutcomeUnknown) as error:
            self._log("commit_unclear", source=self._identity.source_id, error=str(error)[:500])
            landed = self._landed(checkpoint, text)
            if landed is None and isinstance(error, CommitOutcomeUnknown):
                raise RetryableError(f"the commit did not reach the table and can be tried again: {error}") from error
            return landed is True
        return self._landed(checkpoint, text) is True

    def _write(self, checkpoint: SourceCheckpoint, batch: Batch | None, change: SchemaChange | None, text: str) -> None:
        txns = self._source.further_txns(checkpoint)
        further = {"further_txns": txns} if txns else {}
        with self._watch.part("commit"):
            if change is not None:
                self._table.change_schema(change, sequence=checkpoint.sequence, user_metadata=text, **further)
            elif batch is not None and batch.replaced:
                self._table.replace(batch.rows, batch.replaced, sequence=checkpoint.sequence, user_metadata=text)
            else:
                rows = None if batch is None else batch.rows
                self._table.append(rows, sequence=checkpoint.sequence, user_metadata=text, **further)

    def _landed(self, checkpoint: SourceCheckpoint, text: str) -> bool | None:
        """True: this commit is in the log; False: another one of the same or a later sequence is; None: neither."""
        with self._watch.part("landed"):
            if self._is_next_version(checkpoint, text):
                return True
            for commit in self._table.commits(MAX_COMMITS_SEARCHED, above=checkpoint.delta_version):
                if self._is_ours(commit, checkpoint, text):
                    return True
                if commit.txns.get(self._identity.app_id) == checkpoint.sequence:
                    return False
            version = self._table.txn_version(self._identity.app_id)
            return False if version is not None and version >= checkpoint.sequence else None

    def _is_next_version(self, checkpoint: SourceCheckpoint, text: str) -> bool:
        """Whether this commit is the very next version, as it is if nobody else writes to the table: one request
        instead of a listing. False proves nothing."""
        with suppress(UnreadableState):
            commit = self._table.commit_at(checkpoint.delta_version + 1)
            return commit is not None and self._is_ours(commit, checkpoint, text)
        return False

    def _is_ours(self, commit: Commit, checkpoint: SourceCheckpoint, text: str) -> bool:
        version = commit.txns.get(self._identity.app_id)
        if version is None or version < checkpoint.sequence or commit.user_metadata != text:
            return False
        self._version = commit.version
        return True
