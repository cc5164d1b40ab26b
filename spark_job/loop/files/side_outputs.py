"""What a batch of files writes in addition to its rows. Before the commit: dead letters and the receipt. After it: the
copy of the checkpoint; then the manifest is trimmed."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from blizzard.errors import BlizzardError
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.log import Log
from blizzard.manifest.pending_manifest import Manifest
from blizzard.state.batch import PlannedFile
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.checkpoint_codec import BaseSettings, CheckpointCodec
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import ReceiptLine, Receipts, Repair
from blizzard.state.run_ref import RunRef
from blizzard.state.unknown_fields import UnknownFields
from blizzard.storage.base import ObjectStore
from spark_job.loop.read_batch import log_odd_fields
from spark_job.ports.reader import FileRows, Outcome
from spark_job.ports.source import Receipt
from spark_job.ports.stopwatch import Stopwatch


class SideOutputs:
    """`clock` gives Unix seconds, `new_id` a short unique text; `watch` times the turn."""

    def __init__(
        self,
        identity: SourceIdentity,
        *,
        state: ObjectStore,
        bases: BaseSettings,
        manifest: Manifest,
        ledger: LedgerKeeper,
        dead_letters: DeadLetters,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        log: Log,
        watch: Stopwatch,
    ) -> None:
        self._identity = identity
        self._store = state
        self.codec = CheckpointCodec(state, identity, bases)
        self._manifest = manifest
        self._receipts = Receipts(state, identity.state_prefix)
        self._ledger = ledger
        self._dead_letters = dead_letters
        self._clock = clock
        self._new_id = new_id
        self._log = log
        self._watch = watch
        self._trimmed_to: int | None = None
        self._runs: Sequence[RunRef] | None = None
        self._has_bases = False

    def forget(self) -> None:
        """Trim the manifest at the next `publish`, whatever the position. Look again for bases that were not there."""
        self._trimmed_to = None
        self.codec.forget()

    # -- before the commit

    def write_base(self, settled: Checkpoint) -> Checkpoint:
        """The checkpoint of the next commit (whose sequence it does not have yet) with the bases that it names, of
        which one is written if need be."""
        checkpoint = self.codec.with_base(settled, sequence=settled.sequence + 1, new_id=self._new_id)
        if checkpoint.bases and checkpoint.bases != settled.bases:
            base = checkpoint.bases[-1].name
            self._log("base_written", source=self._identity.source_id, base=base, bases=len(checkpoint.bases))
        return checkpoint

    def write_dead_letters(self, rows: FileRows | None, outcomes: Sequence[Outcome]) -> None:
        """Dead letters of files that are not ingested and, unless `rows` is None, of refused records."""
        with self._watch.part("letters"):
            self._write_file_dead_letters(outcomes)
            if rows is not None and any(outcome.dead_records for outcome in outcomes):
                rows.write_dead_records()

    def _write_file_dead_letters(self, outcomes: Sequence[Outcome]) -> None:
        dead_letters = [
            DeadLetter(outcome.path, outcome.etag, outcome.stage or Stage.PARSE, outcome.error)
            for outcome in outcomes
            if outcome.error is not None
        ]
        self._dead_letters.write_files(dead_letters, self._clock())
        for letter in dead_letters:
            self._log(
                "file_dead_lettered",
                source=self._identity.source_id,
                path=letter.path,
                stage=letter.stage,
                error=letter.error,
            )

    def write_receipt(
        self,
        base: Checkpoint,
        files: Sequence[PlannedFile],
        outcomes: Sequence[Outcome],
        unknown_fields: UnknownFields,
        misfits: UnknownFields,
        repair: Repair | None = None,
        repairs: Mapping[str, int] = MappingProxyType({}),
    ) -> Receipt:
        """`base`: the checkpoint before the commit. `repairs`: by path, which commit a repair follows."""
        log_odd_fields(self._log, self._identity.source_id, unknown_fields, misfits)
        now_ts = self._clock()
        planned = {file.path: file for file in files}
        lines = [
            _line_of(outcome, planned.get(outcome.path), repair)._replace(repairs=repairs.get(outcome.path))
            for outcome in outcomes
        ]
        with self._watch.part("receipt"):
            receipt = self._receipts.put(
                sequence=base.sequence + 1,
                attempt=self._new_id(),
                previous=base.receipt,
                now_ts=now_ts,
                lines=lines,
                unknown_fields=unknown_fields,
                misfits=misfits,
            )
        self._ledger.expect(receipt)
        return Receipt(receipt.name, now_ts)

    # -- after the commit

    def publish(self, checkpoint: Checkpoint, *, copy: bool) -> None:
        """Write the copy of the checkpoint, trim the manifest if another segment was fully consumed, and delete what
        newer ones have replaced: runs of the ledger, and bases. None of this is needed to continue: if storage refuses
        it, the log says so, and a later commit or run repeats it."""
        try:
            if copy:
                with self._watch.part("copy"):
                    self._store.put(self._identity.copy_key, self.codec.encode(checkpoint).encode())
            if self._trimmed_to != checkpoint.position.segment:
                with self._watch.part("trim"):
                    self._manifest.trim(checkpoint.position)
                self._trimmed_to = checkpoint.position.segment
            if self._runs != checkpoint.ledger:
                if self._runs is not None:
                    self._ledger.clean(checkpoint)
                self._runs = checkpoint.ledger
            if checkpoint.bases or self._has_bases:
                self.codec.clean(checkpoint.bases, self._clock())
            self._has_bases = bool(checkpoint.bases)
        except BlizzardError as error:
            self._log("publish_failed", source=self._identity.source_id, error=str(error))


def _line_of(outcome: Outcome, file: PlannedFile | None, repair: Repair | None) -> ReceiptLine:
    begins = file is not None and not file.skip_records and repair is None
    return ReceiptLine(
        path=outcome.path,
        etag=outcome.etag,
        size=outcome.size,
        rows=0 if outcome.error is not None else outcome.rows,
        dead_records=outcome.dead_records,
        event_ts=0.0 if file is None else file.event_ts,
        error=outcome.error,
        finished=outcome.finished or outcome.error is not None,
        begins=begins,
        found_by=str(file.found_by) if file is not None and begins else None,
        repair=repair,
    )
