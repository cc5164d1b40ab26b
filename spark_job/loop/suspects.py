"""What only the table knows of a file: was it ingested, with which content. For suspects and for files in progress."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from blizzard.errors import NotFound, UnreadableState
from blizzard.manifest.segments import Entry
from blizzard.state.batch import BatchPlan, PlannedFile, resolve_suspects
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.receipts import Receipts
from blizzard.storage.base import ObjectStore
from spark_job.ports.reader import Table


@dataclass(frozen=True, slots=True)
class Decided:
    """`late`: to be ingested; `changed`: overwritten since they were ingested, one entry a file; `known`: how many the
    table has as they are."""

    late: Sequence[Entry]
    changed: Sequence[Entry]
    known: int


class Suspects:
    """`clock` gives Unix seconds."""

    def __init__(
        self,
        *,
        table: Table,
        source: ObjectStore,
        receipts: Receipts,
        dead_letters: DeadLetters,
        clock: Callable[[], float],
    ) -> None:
        self._table = table
        self._source = source
        self._receipts = receipts
        self._dead_letters = dead_letters
        self._clock = clock
        self._refused: set[tuple[str, str]] = set()

    def decide(self, suspects: Sequence[Entry]) -> Decided:
        """One query for all of them."""
        etags = self._table.etags([entry.path for entry in suspects])
        verdict = resolve_suspects(suspects, etags)
        changed = {entry.path: entry for entry in verdict.overwritten if self._is_news(entry, etags)}
        return Decided(verdict.late, list(changed.values()), verdict.known)

    def _is_news(self, entry: Entry, etags: Mapping[str, frozenset[str]]) -> bool:
        """Whether the object really has content that the table has not: an old event speaks of content that is gone."""
        if (entry.path, entry.etag) in self._refused:
            return False
        info = self._source.head(entry.path)
        return info is not None and info.etag not in etags[entry.path]

    def put_letters(self, changed: Sequence[Entry]) -> None:
        """For files that were overwritten and keep their first rows."""
        for entry in changed:
            error = "the file was overwritten after it was ingested; its first rows stay (on_overwrite: dead_letter)"
            self._dead_letters.write_file(DeadLetter(entry.path, entry.etag, Stage.DOWNLOAD, error), self._clock())

    def refuse(self, entries: Sequence[Entry]) -> None:
        """They could not be read: this content is not tried again by this process."""
        self._refused.update((entry.path, entry.etag) for entry in entries)

    def with_expected_etags(self, plan: BatchPlan) -> Sequence[PlannedFile]:
        """A file in progress must still be the one whose first records are committed."""
        begun = [file.path for file in plan.files if file.skip_records]
        if not begun:
            return plan.files
        etags = {**self._receipt_etags(plan.base.receipt, begun), **self._table.etags(begun)}
        return [replace(f, expected_etag=next(iter(etags.get(f.path, ())), None)) for f in plan.files]

    def _receipt_etags(self, receipt: str | None, paths: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """For a file of which so far no record was good: the table has no row of it."""
        try:
            lines = self._receipts.get(receipt).lines if receipt else ()
        except (NotFound, UnreadableState):
            return {}
        return {line.path: frozenset({line.etag}) for line in lines if line.path in paths}
