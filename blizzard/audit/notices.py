"""What an audit tells besides its sums: faults of the state, each under its own name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from blizzard.audit.announced import Announced
from blizzard.audit.deletions import Deletions
from blizzard.audit.gaps import Pieces
from blizzard.audit.left_out import OBJECTS_NOT_LISTED
from blizzard.audit.reach import Fate
from blizzard.audit.report import Notice
from blizzard.audit.row_numbers import ROWS_UNCOUNTED
from blizzard.audit.snapshot import Snapshot
from blizzard.audit.source import AuditedSource
from blizzard.audit.strangers import Strangers, by_kind
from blizzard.audit.tally import Tally
from blizzard.audit.topic_partitions import PartitionJudge
from blizzard.errors import BucketMissing
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.receipts import Receipts, sequence_of
from blizzard.table.lost_txn import TXN_LOST

SHOWN = 5
"""So many names are in a text."""
DATA_FILES_LOST = "data_files_lost"
NOTHING_THERE = "nothing_there"
LOST_REMEDY = (
    "Nobody can read the table until they are back, or out of its log: docs/runbook.md#a-data-file-of-the-table-is-lost"
)
_ODD_FILES: Mapping[str, str] = {
    "rows_deleted": "fewer rows than their commits brought",
    "rows_added": "rows that no commit of this source brought: another program wrote them",
    "other_content": "rows of another content than the one that was committed: another program wrote them. `blizzard "
    "replace --path` takes all rows of a file out, and reads it anew",
    "letters_lost": "fewer dead letters than were written, or some that cannot be read. `blizzard audit --repair` has "
    "files that were refused as a whole read again, and `blizzard replace --path` those with refused records: both "
    "write the letters once more",
    "letters_doubled": "two open letters of a record: somebody has copied them, or a replay was killed, which can be "
    "repeated",
}
_OF_FILES = ("gone", "rows_expected", "rows_found", "announced_absent", OBJECTS_NOT_LISTED)
"""Counts of files that the source does not have, or does not show."""


def manifest_notices(announced: Announced, tally: Tally) -> Iterator[Notice]:
    if announced.wiped:
        yield Notice(
            "manifest_wiped",
            "the pending manifest does not continue where the table's checkpoint stands: it was deleted or replaced. "
            "Nothing is lost: the next sweeps announce again what is pending.",
        )
    for number in announced.breaks:
        yield Notice(
            "manifest_broken",
            f"segment {number} of the pending manifest does not follow the one before: one was deleted, or somebody "
            "else wrote one. Marks of sweeps that rest on lost segments are ignored.",
        )
    for error in announced.unreadable:
        yield Notice("segment_unreadable", error)
    if count := tally.counts["announced_absent"]:
        names = _names([each[0] for each in tally.found["announced_absent"]], count)
        yield Notice(
            "announced_absent",
            f"the pending manifest announces files that the source does not have: {names}. They were deleted or "
            "renamed, or the announcement was forged. The next run gives each a dead letter.",
        )


def state_notices(
    snapshot: Snapshot, copy: Checkpoint | None, pieces: Pieces, *, are_rows_gone: bool
) -> Iterator[Notice]:
    """`are_rows_gone`: whether `rows_deleted` names any."""
    if snapshot.txn_lost:
        yield Notice("txn_lost", f"{TXN_LOST}.")
    if snapshot.problem is not None:
        yield Notice("state_unreadable", snapshot.problem)
    for version in snapshot.restored:
        gone = " Rows that were committed in between are gone, and their files are not read again by themselves; "
        names = f"{gone}`rows_deleted` names them." if are_rows_gone else ""
        yield Notice("table_restored", f"version {version} of the table restored an older one.{names}")
    if snapshot.checkpoint.moved_to is not None:
        yield Notice(
            "table_moved",
            f"table {snapshot.checkpoint.moved_to} has taken the place of this one, which gets no more rows. What has "
            "come since is pending here for ever: change `table_uri`, and audit the new table.",
        )
    if copy is not None and copy.sequence > snapshot.checkpoint.sequence:
        of_table = snapshot.checkpoint.sequence if snapshot.checkpoint.sequence >= 0 else "no commit of the source"
        yield Notice(
            "table_behind",
            f"the copy of the checkpoint has sequence {copy.sequence}, and the table {of_table}: "
            "the table was restored with its log, or made anew. The next run removes the copy and the manifest, and "
            "the next sweep finds what the table lacks.",
        )
    if commits := pieces.from_receipts + pieces.from_table:
        yield Notice(
            "ledger_incomplete",
            f"parts of the ledger are lost: {commits:,} commits are in none that can be read. {pieces.from_receipts:,} "
            f"of them were read from receipts, {pieces.from_table:,} from the table's rows, which show neither files "
            "without rows nor how many rows a file had. The next run of the job rebuilds it.",
        )


def file_notices(tally: Tally, rows_problem: str | None) -> Iterator[Notice]:
    for kind, what in _ODD_FILES.items():
        if count := tally.counts[kind]:
            names = _names([each[0] for each in tally.found[kind]], count)
            yield Notice(kind, f"{count:,} files have {what}: {names}.")
    yield from data_file_notices(
        [each[0] for each in tally.found.get(DATA_FILES_LOST, ())], tally.counts[DATA_FILES_LOST]
    )
    if rows_problem is not None:
        yield Notice("rows_not_compared", f"the table's rows were not compared: {rows_problem}.")


def uncounted_notices(tally: Tally, pieces: Pieces) -> Iterator[Notice]:
    """Not beside `ledger_incomplete`, which says the same of files that the ledger itself still counts."""
    count = tally.counts[ROWS_UNCOUNTED]
    if count and not pieces.from_table:
        names = _names([each[0] for each in tally.found[ROWS_UNCOUNTED]], count)
        yield Notice(
            ROWS_UNCOUNTED,
            f"of {count:,} files nobody but the table's rows knows how many records they have: {names}. Rows that were "
            "gone behind the last one of a file before the state was made anew from them, and whole files that the "
            "source no longer has, are not missed. `--sample` reads files again, and after `blizzard replace --path` "
            "their rows are counted.",
        )


def data_file_notices(paths: Sequence[str], count: int) -> Iterator[Notice]:
    """Of data files that are lost."""
    if count:
        text = f"{count:,} data files that the table's log has cannot be read: {_names(paths, count)}. {LOST_REMEDY}"
        yield Notice(DATA_FILES_LOST, text)


def left_out_notices(tally: Tally) -> Iterator[Notice]:
    """Of a local source."""
    if count := tally.counts[OBJECTS_NOT_LISTED]:
        names = _names([f"{path} ({why})" for path, why in tally.found[OBJECTS_NOT_LISTED]], count)
        yield Notice(
            OBJECTS_NOT_LISTED,
            f"{count:,} files or folders of the source are in none of the sums, and no run reads them: {names}. If "
            "they are wanted, put the files themselves there, under names in UTF-8; else take them out of the folder.",
        )


def folder_notices(prefix: str, tally: Tally) -> Iterator[Notice]:
    """`prefix`: of the folder that was asked for; empty: the whole source, which may be empty."""
    is_known = any(tally.fates.values()) or tally.sequences or any(tally.counts[name] for name in _OF_FILES)
    if prefix and not is_known:
        yield Notice(
            NOTHING_THERE,
            f"the source has nothing in {prefix}, and neither state nor table has files of it. Expected a folder such "
            "as an audit of the whole source names; correct --partition.",
        )
    if not prefix and tally.counts["gone"] and not any(tally.total(fate) for fate in Fate):
        yield Notice(
            "source_empty",
            f"the source has no object at all, and all of the {tally.counts['gone']:,} files that were ingested are "
            "gone. If nobody has deleted or archived them, `uri` is another place than it was: correct it, or no new "
            "file is found.",
        )


def deletion_notices(deletions: Deletions) -> Iterator[Notice]:
    if deletions.unexplained:
        yield Notice(
            "rows_gone",
            f"{deletions.unexplained:,} of {deletions.gone:,} rows that are gone were committed, and no commit of the "
            "table's log says that somebody deleted them. `rows_deleted` names the files: `blizzard replace --path` "
            "reads one anew.",
        )
    yield from _before_the_log(deletions)


def _before_the_log(deletions: Deletions) -> Iterator[Notice]:
    if deletions.unknown:
        yield Notice(
            "rows_gone_before_the_log",
            f"{deletions.unknown:,} of {deletions.gone:,} rows that are gone may have been deleted before version "
            f"{deletions.log_begins:,} of the table, from which on there is a log.",
        )
    if deletions.before_rebuild:
        yield Notice(
            "rows_gone_before_the_log",
            f"{deletions.before_rebuild:,} of {deletions.gone:,} rows that are gone were so when the state was made "
            "anew from the other rows. Nobody knows whether somebody had deleted them: `blizzard audit --sample` reads "
            "files again, and `blizzard replace --path` brings their rows back.",
        )


def topic_row_notices(judge: PartitionJudge, deletions: Deletions) -> Iterator[Notice]:
    """Of a source that reads topics."""
    if judge.added:
        yield Notice(
            "rows_added",
            f"{judge.added:,} rows are of offsets that no commit of this source has read, or are more than its commits "
            f"brought: another program wrote them. They are of {_names(judge.with_added, len(judge.with_added))}.",
        )
    if judge.gone:
        yield Notice(
            "rows_deleted",
            f"{deletions.gone:,} rows that commits have brought are not in the table. They are of "
            f"{_names(judge.with_gone, len(judge.with_gone))}.",
        )
    if deletions.unexplained:
        yield Notice(
            "rows_gone",
            f"of {deletions.unexplained:,} of {deletions.gone:,} rows that are gone, no commit of the table's log says "
            "that somebody deleted them. `blizzard replace --path` reads a partition anew, as long as the brokers have "
            "its messages.",
        )
    yield from _before_the_log(deletions)
    if judge.uncounted:
        yield Notice(
            ROWS_UNCOUNTED,
            f"of {_names(judge.uncounted, len(judge.uncounted))} receipts are lost, or are of a version that did not "
            "write what is needed: of messages that the brokers no longer have, nobody knows how many rows there were.",
        )


def stranger_notices(strangers: Iterable[Strangers], *, taken_over: bool) -> Iterator[Notice]:
    """Rows of nobody are those of before in a table that was taken over, and no news."""
    for kind, some in by_kind(strangers).items():
        if kind == "rows_of_nobody" and taken_over:
            continue
        named = _names([str(each.source) for each in some], len(some))
        files = _names([file for each in some for file in each.data_files], sum(len(each.data_files) for each in some))
        rows = sum(each.rows for each in some)
        yield Notice(kind, f"{rows:,} rows {_of_strangers(kind, named)} They are in data files such as {files}.")


def _of_strangers(kind: str, sources: str) -> str:
    match kind:
        case "rows_of_nobody":
            return "name no source: another program wrote them. If they are copies, they are there twice."
        case "rows_of_other_sources":
            return (
                f"are of sources that are not configured for this table, and that Blizzard has committed to it: "
                f"{sources}. Another configuration has them, or they were removed from this one."
            )
        case _:
            return (
                f"say that they are of sources that have never committed to this table: {sources}. Another program "
                "wrote them. Delete them by `_source.source`."
            )


def receipt_notices(source: AuditedSource, tally: Tally) -> Iterator[Notice]:
    """Commits whose files the ledger knows, and whose receipts are not there."""
    if not tally.sequences:
        return
    receipts = Receipts(source.state, source.identity.state_prefix)
    try:
        names = receipts.names(0, max(tally.sequences))
        lost = sorted(tally.sequences - {sequence_of(name) for name in names})
    except BucketMissing:
        return
    if lost:
        yield Notice(
            "receipts_lost",
            f"the receipts of {len(lost):,} commits are not there: {_names([f'{each}' for each in lost], len(lost))}. "
            "Nothing is lost while the ledger is whole.",
        )


def _names(names: Sequence[str], count: int) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if count <= SHOWN else f"{shown} and {count - SHOWN:,} more"
