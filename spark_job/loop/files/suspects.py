"""Judges suspects by the ledger: is this content ingested, is the file new, or was it overwritten?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from blizzard.ledger.entry import LedgerEntry
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.ledger.verdict import judge
from blizzard.manifest.segments import Entry
from blizzard.state.batch import BatchPlan, PlannedFile
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the ledger says about suspects. `late`: files that are not ingested yet; `overwritten`: files that changed
    after they were ingested, with one entry each; `known`: number of entries whose content is settled."""

    late: Sequence[Entry]
    overwritten: Sequence[Entry]
    known: int


class Suspects:
    """The suspects and files in progress of one source. `clock` gives Unix seconds."""

    def __init__(
        self,
        *,
        ledger: LedgerKeeper,
        files: ObjectStore,
        dead_letters: DeadLetters,
        clock: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._files = files
        self._dead_letters = dead_letters
        self._clock = clock
        self._refused: set[tuple[str, str]] = set()

    def resolve(self, base: Checkpoint, suspects: Sequence[Entry]) -> Resolution:
        """Looks up all suspects at once. `base`: the checkpoint that the plan continues from."""
        settled = self._ledger.find(base, [entry.path for entry in suspects])
        verdict = judge(suspects, settled)
        overwritten = {e.path: e for e in verdict.other if self._has_new_content(e, settled[e.path])}
        return Resolution(verdict.late, list(overwritten.values()), verdict.known)

    def _has_new_content(self, entry: Entry, settled: LedgerEntry) -> bool:
        """Whether the object now has content that is not settled. The etag of the entry does not show it: an old event
        may announce content that was overwritten since."""
        if (entry.path, entry.etag) in self._refused:
            return False
        info = self._files.head(entry.path)
        return info is not None and info.etag != settled.etag

    def write_dead_letters(self, overwritten: Sequence[Entry]) -> None:
        """Writes one dead letter for each overwritten file. Its first rows stay in the table."""
        for entry in overwritten:
            error = "the file was overwritten after it was ingested; its first rows stay (on_overwrite: dead_letter)"
            self._dead_letters.write_file(DeadLetter(entry.path, entry.etag, Stage.DOWNLOAD, error), self._clock())

    def refuse(self, entries: Sequence[Entry]) -> None:
        """Remember that this content of the files cannot be read, so that this process does not try it again."""
        self._refused.update((entry.path, entry.etag) for entry in entries)

    def with_expected_etags(self, plan: BatchPlan) -> Sequence[PlannedFile]:
        """The files of the plan. A file in progress must still have the etag of its first, committed records."""
        in_progress = [file.path for file in plan.files if file.skip_records]
        if not in_progress:
            return plan.files
        settled = self._ledger.find(plan.base, in_progress)
        return [
            replace(file, expected_etag=settled[file.path].etag) if file.skip_records and file.path in settled else file
            for file in plan.files
        ]
