"""What an audit tells besides its sums: faults of the state, each under its own name."""

from collections.abc import Iterator, Mapping, Sequence

from blizzard.audit.announced import Announced
from blizzard.audit.gaps import Pieces
from blizzard.audit.report import Notice
from blizzard.audit.snapshot import Snapshot
from blizzard.audit.source import AuditedSource
from blizzard.audit.tally import Tally
from blizzard.errors import BucketMissing
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.receipts import Receipts, sequence_of

SHOWN = 5
"""So many names are in a text."""
_ODD_FILES: Mapping[str, str] = {
    "rows_deleted": "fewer rows than their commits brought: somebody has deleted them, or restored the table",
    "rows_added": "rows that no commit of this source brought: another program wrote them",
    "other_content": "rows of another content than the one that was committed: another program wrote them. `blizzard "
    "replace --path` takes all rows of a file out, and reads it anew",
    "letters_lost": "fewer dead letters than were written, or some that cannot be read. `blizzard audit --repair` has "
    "files that were refused as a whole read again, and `blizzard replace --path` those with refused records: both "
    "write the letters once more",
    "letters_doubled": "two open letters of a record: somebody has copied them, or a replay was killed, which can be "
    "repeated",
}


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


def state_notices(snapshot: Snapshot, copy: Checkpoint | None, pieces: Pieces) -> Iterator[Notice]:
    if snapshot.problem is not None:
        yield Notice("state_unreadable", snapshot.problem)
    for version in snapshot.restored:
        yield Notice(
            "table_restored",
            f"version {version} of the table restored an older one. Rows that were committed in between are gone, and "
            "their files are not read again by themselves; `rows_deleted` names them.",
        )
    if snapshot.checkpoint.moved_to is not None:
        yield Notice(
            "table_moved",
            f"table {snapshot.checkpoint.moved_to} has taken the place of this one, which gets no more rows. What has "
            "come since is pending here for ever: change `table_uri`, and audit the new table.",
        )
    if copy is not None and copy.sequence > snapshot.checkpoint.sequence:
        yield Notice(
            "table_behind",
            f"the copy of the checkpoint has sequence {copy.sequence}, and the table {snapshot.checkpoint.sequence}: "
            "the table was restored with its log, or made anew. The next run removes the copy and the manifest, and "
            "the next sweep finds what the table lacks.",
        )
    if commits := pieces.from_receipts + pieces.from_table:
        yield Notice(
            "ledger_incomplete",
            f"parts of the ledger are lost: {commits:,} commits are in none that can be read. {pieces.from_receipts:,} "
            f"of them were read from receipts, {pieces.from_table:,} from the table's rows, which do not show files "
            "without rows. The next run of the job rebuilds it.",
        )


def file_notices(tally: Tally, rows_problem: str | None) -> Iterator[Notice]:
    for kind, what in _ODD_FILES.items():
        if count := tally.counts[kind]:
            names = _names([each[0] for each in tally.found[kind]], count)
            yield Notice(kind, f"{count:,} files have {what}: {names}.")
    if rows_problem is not None:
        yield Notice("rows_not_compared", f"the table's rows were not compared: {rows_problem}.")


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
