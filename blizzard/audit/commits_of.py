"""Which version of the table has a source's commit, and what its receipt says of a file; from packs of the history as
far as they have it, else from the log and from receipts."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from blizzard.audit.lives import Life
from blizzard.audit.source import AuditedSource
from blizzard.errors import BucketMissing, NotFound, UnreadableState
from blizzard.history.history import history_of
from blizzard.state import checkpoint as checkpoints
from blizzard.state.base import no_base
from blizzard.state.checkpoint import BaseUnreadable, Checkpoint
from blizzard.state.delta_log import LOG_FOLDER, Commit, DeltaLogTail, commit_version
from blizzard.state.receipts import Receipt, ReceiptLine, Receipts
from blizzard.storage.parallel_calls import ParallelCalls

if TYPE_CHECKING:
    from blizzard.history.pack_file import PackedLine

PARALLEL_READS = 16
MAX_COMMITS = 1_000
"""So many commits that no pack has are looked for, the newest ones; each takes some requests."""
_OTHERS = 32
"""Commits of other writers in a row that are read to find one of the source."""


class CommitOfFile(NamedTuple):
    """What is known of the newest commit of a file. `line`: of its receipt."""

    table_version: int | None
    committed_ts: float | None
    line: ReceiptLine | None


@dataclass(slots=True)
class CommitFinder:
    """Finds commits that no pack has by bisecting the log, since versions grow with a source's sequences. Commits older
    than the log's JSON files are not found."""

    source: AuditedSource
    checkpoint: Checkpoint
    _versions: list[int] = field(init=False, default_factory=list)
    _commits: dict[int, Commit | None] = field(init=False, default_factory=dict)
    _receipts: dict[int, Receipt] = field(init=False, default_factory=dict)

    def complete(self, lives: Iterable[Life]) -> list[Life]:
        """With what packs, commits and receipts say of these files."""
        given = [*lives]
        keys = [(life.path, life.sequence) for life in given if life.sequence is not None]
        rows = history_of(self.source.state, self.source.identity, self.checkpoint).find(keys)
        unpacked = {sequence for path, sequence in keys if (path, sequence) not in rows}
        unknown = unpacked | {row.sequence for row in rows.values() if row.table_version is None}
        found: dict[int, Commit | None] = {}
        if unknown:
            self._versions = self._listed()
        with ParallelCalls(PARALLEL_READS, name="commits") as calls:
            for sequence in sorted(unknown, reverse=True)[:MAX_COMMITS]:
                calls.submit(partial(self._find, sequence, found, with_receipt=sequence in unpacked))
        return [self._completed(life, rows.get((life.path, life.sequence or 0)), found) for life in given]

    def _listed(self) -> list[int]:
        try:
            keys = self.source.state.list(LOG_FOLDER, recursive=False)
            return [found for info in keys if (found := commit_version(info.key)) is not None]
        except BucketMissing:
            return []

    def _find(self, sequence: int, found: dict[int, Commit | None], *, with_receipt: bool) -> None:
        commit = self.commit_of(sequence)
        found[sequence] = commit
        for name in self._names(sequence, commit) if with_receipt else ():
            try:
                self._receipts[sequence] = Receipts(self.source.state, self.source.identity.state_prefix).get(name)
            except (NotFound, UnreadableState):
                continue

    def commit_of(self, sequence: int) -> Commit | None:
        low, high = 0, len(self._versions) - 1
        while low <= high:
            middle = (low + high) // 2
            at, commit = self._own_near(middle, high)
            ours = None if commit is None else commit.txns[self.source.identity.app_id]
            if ours is None or ours > sequence:
                high = middle - 1
            elif ours < sequence:
                low = at + 1
            else:
                return commit
        return None

    def _own_near(self, at: int, high: int) -> tuple[int, Commit | None]:
        """The first commit of the source from `at` on, not above `high`."""
        for place in range(at, min(at + _OTHERS, high + 1)):
            commit = self._commit(self._versions[place])
            if commit is not None and self.source.identity.app_id in commit.txns:
                return place, commit
        return at, None

    def _commit(self, version: int) -> Commit | None:
        if version not in self._commits:
            try:
                self._commits[version] = DeltaLogTail(self.source.state).commit_at(version)
            except UnreadableState:
                self._commits[version] = None
        return self._commits[version]

    def _names(self, sequence: int, commit: Commit | None) -> list[str]:
        """Of the receipt; without the commit, those of all attempts."""
        named = None if commit is None else _receipt_of(commit, self.source)
        if named is not None:
            return [named]
        try:
            return [*Receipts(self.source.state, self.source.identity.state_prefix).names(sequence, sequence)]
        except BucketMissing:
            return []

    def _completed(self, life: Life, row: "PackedLine | None", found: dict[int, Commit | None]) -> Life:
        if life.sequence is None or (row is None and life.sequence not in found):
            return life
        of_log = found.get(life.sequence)
        table_version, committed_ts, line = (
            _by_receipt(of_log, self._receipts.get(life.sequence), life) if row is None else _by_pack(of_log, row, life)
        )
        is_settled = life.state in ("committed", "dead_lettered")
        latency = None
        is_repaired = line is not None and line.repair is not None
        if is_settled and committed_ts is not None and life.announced_ts is not None and not is_repaired:
            latency = max(0.0, committed_ts - life.announced_ts)
        return replace(
            life,
            table_version=table_version,
            committed_ts=committed_ts,
            announced_by=life.announced_by or (None if line is None else REPAIR if is_repaired else line.found_by),
            reason=life.reason or (None if line is None else line.error),
            latency_secs=latency,
        )


REPAIR = "repair"
"""What announced a file that an operator had read once more, by `blizzard replay` or `blizzard replace`."""


def _by_receipt(commit: Commit | None, receipt: Receipt | None, life: Life) -> CommitOfFile:
    committed_ts = None if commit is None else commit.committed_ts
    if committed_ts is None and receipt is not None:
        committed_ts = receipt.written_ts
    lines = () if receipt is None else receipt.lines
    line = next((line for line in lines if (line.path, line.etag) == (life.path, life.etag_committed)), None)
    return CommitOfFile(None if commit is None else commit.version, committed_ts, line)


def _by_pack(commit: Commit | None, row: "PackedLine", life: Life) -> CommitOfFile:
    """`commit`: only if the pack does not have what the log says."""
    version = row.table_version if commit is None else commit.version
    committed_ts = row.committed_ts if commit is None else commit.committed_ts
    line = row.line if row.line.etag == life.etag_committed else None
    return CommitOfFile(version, row.written_ts if committed_ts is None else committed_ts, line)


def _receipt_of(commit: Commit, source: AuditedSource) -> str | None:
    """The receipt that the commit's checkpoint names."""
    identity = source.identity
    try:
        text = commit.user_metadata or ""
        found = checkpoints.decode(text, pipeline=identity.pipeline, source=identity.source, base_of=no_base)
    except BaseUnreadable as error:
        found = error.rest
    except UnreadableState:
        return None
    return found.receipt if found.sequence == commit.txns[identity.app_id] else None
