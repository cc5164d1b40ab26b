"""The commit path of one source: letters and receipt, the one commit, whether it landed, and what publishes it."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from blizzard.errors import BlizzardError, CommitOutcomeUnknown, LostRace, RetryableError, UnreadableState
from blizzard.log import Log
from blizzard.manifest.pending_manifest import Manifest
from blizzard.state.batch import BatchPlan, PlannedFile
from blizzard.state.checkpoint import Checkpoint, encode
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.delta_log import Commit
from blizzard.state.identity import Identity
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.storage.base import ObjectStore
from spark_job.ports.reader import Outcome, Rows, Table
from spark_job.ports.stopwatch import Stopwatch

COMMITS_LOOKED_AT = 1_000
"""How many commits of others may come between a batch's plan and its own commit; then only the snapshot is asked."""


class CommitPath:
    """`clock` gives Unix seconds, `new_id` a short unique text; `watch` times the turn."""

    def __init__(
        self,
        identity: Identity,
        *,
        table: Table,
        state: ObjectStore,
        manifest: Manifest,
        receipts: Receipts,
        dead_letters: DeadLetters,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        log: Log,
        watch: Stopwatch,
    ) -> None:
        self._identity = identity
        self._table = table
        self._store = state
        self._manifest = manifest
        self._receipts = receipts
        self._dead_letters = dead_letters
        self._clock = clock
        self._new_id = new_id
        self._log = log
        self._watch = watch
        self._version: int | None = None
        self._trimmed_to: int | None = None

    def forget(self) -> None:
        """Ask anew what is in the table and in the manifest."""
        self._version = self._trimmed_to = None

    def planned_on(self) -> int:
        """A version that the table has surely reached: that of this process's last commit, else its newest; -1 without
        a table. The batch's own commit comes after it."""
        if self._version is None:
            with self._watch.part("plan"):
                self._version = self._table.newest_version()
        return self._version

    def made_delta_checkpoint(self) -> bool:
        """Whether Delta wrote a checkpoint of its own after the last commit of this process."""
        return self._version is not None and self._table.checkpoints_at(self._version)

    # -- before the commit

    def put_letters(self, rows: Rows | None, outcomes: Sequence[Outcome]) -> None:
        """Of the files that are not ingested, and (if `rows` are) of the records that were refused."""
        with self._watch.part("letters"):
            self._put_file_letters(outcomes)
            if rows is not None and any(outcome.dead_records for outcome in outcomes):
                rows.put_dead_records()

    def _put_file_letters(self, outcomes: Sequence[Outcome]) -> None:
        letters = [
            DeadLetter(outcome.path, outcome.etag, outcome.stage or Stage.PARSE, outcome.error)
            for outcome in outcomes
            if outcome.error is not None
        ]
        self._dead_letters.write_files(letters, self._clock())
        for letter in letters:
            self._log(
                "file_dead_lettered",
                source=self._identity.source_id,
                path=letter.path,
                stage=letter.stage,
                error=letter.error,
            )

    def put_receipt(
        self, plan: BatchPlan, files: Sequence[PlannedFile], outcomes: Sequence[Outcome], now_ts: float
    ) -> str:
        """Returns its name for the checkpoint."""
        event_ts = {file.path: file.event_ts for file in files}
        lines = [
            ReceiptLine(o.path, o.etag, o.size, o.rows, o.dead_records, event_ts.get(o.path, 0.0), o.error)
            for o in outcomes
        ]
        with self._watch.part("receipt"):
            return self._receipts.put(
                sequence=plan.base.sequence + 1,
                attempt=self._new_id(),
                previous=plan.base.receipt,
                now_ts=now_ts,
                lines=lines,
            )

    # -- the commit

    def send(self, checkpoint: Checkpoint, rows: Rows | None, replaced: Sequence[str]) -> bool:
        """Commit, and find out whether it was ours that landed: after an error, and after a skip that says nothing.

        Raises RetryableError when it did not reach the table and nobody else's did.
        """
        text = encode(checkpoint)
        try:
            self._write(checkpoint, rows, replaced, text)
        except (LostRace, CommitOutcomeUnknown) as error:
            self._log("commit_unclear", source=self._identity.source_id, error=str(error)[:500])
            landed = self._landed(checkpoint, text)
            if landed is None and isinstance(error, CommitOutcomeUnknown):
                raise RetryableError(f"the commit did not reach the table and can be tried again: {error}") from error
            return landed is True
        return self._landed(checkpoint, text) is True

    def _write(self, checkpoint: Checkpoint, rows: Rows | None, replaced: Sequence[str], text: str) -> None:
        with self._watch.part("commit"):
            if replaced and rows is not None:
                self._table.replace(rows, replaced, sequence=checkpoint.sequence, user_metadata=text)
            else:
                self._table.append(rows, sequence=checkpoint.sequence, user_metadata=text)

    def _landed(self, checkpoint: Checkpoint, text: str) -> bool | None:
        """True: our commit is in the log; False: another's of the same or a later sequence; None: neither."""
        with self._watch.part("landed"):
            if self._is_next(checkpoint, text):
                return True
            for commit in self._table.commits(COMMITS_LOOKED_AT, above=checkpoint.delta_version):
                if self._is_ours(commit, checkpoint, text):
                    return True
                if commit.txns.get(self._identity.app_id) == checkpoint.sequence:
                    return False
            version = self._table.txn_version(self._identity.app_id)
            return False if version is not None and version >= checkpoint.sequence else None

    def _is_next(self, checkpoint: Checkpoint, text: str) -> bool:
        """Whether ours is the very next version, as it is unless others write to the table: one request instead of a
        listing. Anything else says nothing."""
        with suppress(UnreadableState):
            commit = self._table.commit_at(checkpoint.delta_version + 1)
            return commit is not None and self._is_ours(commit, checkpoint, text)
        return False

    def _is_ours(self, commit: Commit, checkpoint: Checkpoint, text: str) -> bool:
        version = commit.txns.get(self._identity.app_id)
        if version is None or version < checkpoint.sequence or commit.user_metadata != text:
            return False
        self._version = commit.version
        return True

    # -- after the commit

    def publish(self, checkpoint: Checkpoint, *, copy: bool = True) -> None:
        """The copy, then the trim. Neither is needed to go on, so storage that refuses them only says so.

        The trim is left out until another segment was consumed to its end.
        """
        try:
            if copy:
                with self._watch.part("copy"):
                    self._store.put(self._identity.copy_key, encode(checkpoint).encode())
            if self._trimmed_to != checkpoint.position.segment:
                with self._watch.part("trim"):
                    self._manifest.trim(checkpoint.position)
                self._trimmed_to = checkpoint.position.segment
        except BlizzardError as error:
            self._log("publish_failed", source=self._identity.source_id, error=str(error))
