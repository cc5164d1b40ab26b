"""Questions about the rows of one source in a table: which files, with which etags, up to which commit."""

from collections.abc import Callable, Collection, Mapping, Sequence

from blizzard.ledger.entry import LedgerEntry
from blizzard.state.run_ref import SequenceRange
from spark_job.ports.table import FileVersion, SourceFile
from spark_job.table.engine import TableEngine
from spark_job.table.safety_checks import MAX_FILES_CHECKED, HasFile, check_source_was_not_renamed
from spark_job.table.table_source import TableSource


class SourceRows:
    """`siblings`: ids of the pipeline's other sources. `has_file` None: whether the source had another name, somebody
    else asks. `table_exists` reads the table's log.

    Every question has an empty answer for a table that does not exist, or that has no `_source` column.
    """

    def __init__(
        self,
        engine: TableEngine,
        source: TableSource,
        *,
        siblings: frozenset[str],
        has_file: HasFile | None,
        table_exists: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._source = source
        self._siblings = siblings
        self._has_file = has_file
        self._table_exists = table_exists

    def exist(self) -> bool:
        """Raises RecoveryError if there are none because the source's files were ingested under another name."""
        with self._engine.translating("querying the table for rows of this source"):
            if not self._can_be_asked():
                return False
            found = self._engine.holds_rows()
            if not found and self._has_file is not None:
                check_source_was_not_renamed(self._newest_of_others(), self._source.source_id, self._has_file)
            return found

    def of_nobody_exist(self) -> bool:
        """Of a table without a `_source` column all rows are."""
        with self._engine.translating("querying the table for rows of no source"):
            if not self._table_exists():
                return False
            return not self._engine.has_source_column() or self._engine.holds_rows_of_nobody()

    def newest_sequence(self) -> int | None:
        with self._engine.translating("querying the table for its newest rows of this source"):
            return self._engine.newest_sequence() if self._can_be_asked() else None

    def files_of_others(self) -> Sequence[SourceFile]:
        with self._engine.translating("querying the table for rows of other sources"):
            if not self._can_be_asked():
                return []
            return self._newest_of_others()

    def last_rows(self, *, after_sequence: int) -> Mapping[FileVersion, int]:
        with self._engine.translating("querying the table for the files of its newest commits"):
            return self._engine.last_rows(after_sequence=after_sequence) if self._can_be_asked() else {}

    def present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        with self._engine.translating("querying the table for rows of some files"):
            return self._engine.rows_present(wanted) if wanted and self._can_be_asked() else {}

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        with self._engine.translating("querying the table for the files of its commits"):
            return self._engine.files_of_commits(sequences) if self._can_be_asked() else []

    def _newest_of_others(self) -> Sequence[SourceFile]:
        known = self._siblings | {self._source.source_id}
        return self._engine.newest_files_of_others(known, MAX_FILES_CHECKED)

    def _can_be_asked(self) -> bool:
        return self._table_exists() and self._engine.has_source_column()
