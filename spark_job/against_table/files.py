"""What a run makes of the files that the table may have rows of already: of a source that is new to the table, and of
one whose `uri` has moved."""

from collections.abc import Collection, Iterator, Sequence

from blizzard.config.model import Pipeline
from blizzard.errors import BlizzardError, RecoveryError
from blizzard.ledger.entry import LedgerEntry
from blizzard.state.identity import source_of_app_id
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.base import ObjectInfo
from spark_job.against_table.comparison import Comparison
from spark_job.engines.needs_spark import REPLACING, NeedsSpark
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.wiring import SourceParts, file_table

FILES_ASKED = 20
"""Each takes a request."""
BEGINS = "the table has no rows of this source yet: it begins with all that it has"
WITHOUT_TXN = "the table has rows of this source, but no Txn that tells which files they are from"


def begin(found: Comparison, parts: SourceParts, schema: str) -> None:
    """Of a source of which the table has no Txn: what its first run would ask."""
    try:
        has_rows = file_table(parts, schema).holds_rows()
    except RecoveryError as error:
        found.refused.append(str(error))
    except BlizzardError as error:
        found.notes.append(cannot_be_told("whether the source was renamed, so that the run is refused,", error))
    else:
        found.notes.append(WITHOUT_TXN if has_rows else BEGINS)


def cannot_be_told(what: str, error: BlizzardError) -> str:
    """What the run asks, whatever its engine is, is not asked of a table that only Spark reads."""
    if isinstance(error, NeedsSpark):
        return f"{what} cannot be told without Spark, which is needed for {error.reason}"
    return f"{what} cannot be told: {error}"


def former_sources(pipeline: Pipeline, txns: Collection[str]) -> Iterator[str]:
    wrote = {source_id for app_id in txns if (source_id := source_of_app_id(app_id)) is not None}
    for source_id in sorted(wrote - pipeline.source_ids):
        if source_id.startswith(f"{pipeline.name}:"):
            yield f"source {source_id} wrote to the table and is not in the configuration"


def compare_files(found: Comparison, parts: SourceParts, schema: str, refusal: str | None) -> None:
    """Of the files of the newest rows, those that are not in the source's place as they were. `refusal`: why the table
    lets no rows be replaced, if it does not."""
    replaces = parts.source.on_overwrite == "replace"
    if replaces and refusal is not None:
        found.notes.append(f"a run that finds an overwritten file is refused: {refusal}")
    try:
        entries = _newest(file_table(parts, schema))
        now = [(one, parts.files.head(one.path)) for one in entries]
    except BlizzardError as error:
        found.notes.append(cannot_be_told("whether `uri` has moved", error))
        return
    found.notes += _moved(parts, entries, now)
    if replaces and any(info is not None and info.etag != one.etag for one, info in now):
        if refusal is not None:
            found.refused.append(refusal)
            return
        needed = NeedsSpark(f"{REPLACING} table {found.table_uri}")
        found.leaves_to_spark(needed, parts.pipeline.engine)


def _moved(
    parts: SourceParts, entries: Sequence[LedgerEntry], now: Sequence[tuple[LedgerEntry, ObjectInfo | None]]
) -> Iterator[str]:
    uri, policy = parts.source.uri, parts.source.on_overwrite
    gone = [one for one, info in now if info is None]
    other = [one for one, info in now if info is not None and info.etag != one.etag]
    if other:
        yield (
            f"{_of(other, entries)} in {uri} with another etag, such as {other[0].path}: such a file counts as "
            f"overwritten (on_overwrite: {policy})"
        )
    if gone and len(gone) == len(entries):
        yield (
            f"{_of(gone, entries)} not in {uri} any more, such as {gone[0].path}. If `uri` has moved: a file with path "
            "and etag of one that the table has is not ingested again, and every other one is new"
        )


def _newest(table: DeltaSourceTable) -> list[LedgerEntry]:
    newest = table.newest_sequence()
    if newest is None:
        return []
    return sorted(table.files_of_commits(SequenceRange(newest, newest)), key=lambda one: one.path)[:FILES_ASKED]


def _of(some: Collection[LedgerEntry], entries: Collection[LedgerEntry]) -> str:
    return f"{len(some)} of {len(entries)} files of its newest rows {'are' if len(some) > 1 else 'is'}"
