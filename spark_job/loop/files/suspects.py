"""Queries the table for the etags with which files were ingested: of suspects, and of files in progress."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blizzard.errors import NotFound, UnreadableState
from blizzard.manifest.segments import Entry
from blizzard.state.batch import BatchPlan, PlannedFile, resolve_suspects
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.receipts import Receipts
from blizzard.storage.base import ObjectStore
from spark_job.ports.table import FileTable


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the table says about suspects. `late`: files that are not ingested yet; `overwritten`: files that changed
    after they were ingested, with one entry each; `known`: number of entries whose content is in the table."""

    late: Sequence[Entry]
    overwritten: Sequence[Entry]
    known: int


class Suspects:
    """The suspects and files in progress of one source. `clock` gives Unix seconds."""

    def __init__(
        self,
        *,
        table: FileTable[Any],
        files: ObjectStore,
        receipts: Receipts,
        dead_letters: DeadLetters,
        clock: Callable[[], float],
    ) -> None:
        self._table = table
        self._files = files
        self._receipts = receipts
        self._dead_letters = dead_letters
        self._clock = clock
        self._refused: set[tuple[str, str]] = set()

    def resolve(self, suspects: Sequence[Entry]) -> Resolution:
        """Runs one query for all suspects."""
        etags = self._table.etags([entry.path for entry in suspects])
        verdict = resolve_suspects(suspects, etags)
        overwritten = {entry.path: entry for entry in verdict.overwritten if self._has_new_content(entry, etags)}
        return Resolution(verdict.late, list(overwritten.values()), verdict.known)

    def _has_new_content(self, entry: Entry, etags: Mapping[str, frozenset[str]]) -> bool:
        """Whether the object now has content that the table lacks. The etag of the entry does not show it: an old event
        may announce content that was overwritten since."""
        if (entry.path, entry.etag) in self._refused:
            return False
        info = self._files.head(entry.path)
        return info is not None and info.etag not in etags[entry.path]

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
        etags = {**self._receipt_etags(plan.base.receipt, in_progress), **self._table.etags(in_progress)}
        return [replace(f, expected_etag=next(iter(etags.get(f.path, ())), None)) for f in plan.files]

    def _receipt_etags(self, receipt: str | None, paths: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Etags by path, from the receipt. The table has no etag of a file whose records were all refused so far."""
        try:
            lines = self._receipts.get(receipt).lines if receipt else ()
        except (NotFound, UnreadableState):
            return {}
        return {line.path: frozenset({line.etag}) for line in lines if line.path in paths}
