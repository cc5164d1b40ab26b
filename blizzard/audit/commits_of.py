"""Which version of the table has a source's commit, and what its receipt says of a file; from packs of the history as
far as they have it, else from the log and from receipts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from blizzard.audit.lives import EarlierCommit, Life
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

FileInCommit = tuple[str, int]
"""The path of a file, and the sequence of a commit."""


class CommitOfFile(NamedTuple):
    """What is known of one commit of a file. `line`: of its receipt."""

    table_version: int | None
    committed_ts: float | None
    line: ReceiptLine | None


@dataclass(slots=True)
class CommitFinder:
    """Finds commits that no pack has by bisecting the log, since versions grow with a source's sequences. Commits older
    than the log's JSON files are not found. `unreadable`: what is wrong with packs, as keys."""

    source: AuditedSource
    checkpoint: Checkpoint
    unreadable: dict[str, None] = field(init=False, default_factory=dict)
    _versions: list[int] = field(init=False, default_factory=list)
    _commits: dict[int, Commit | None] = field(init=False, default_factory=dict)
    _receipts: dict[int, Receipt] = field(init=False, default_factory=dict)

    def complete(self, lives: Iterable[Life]) -> list[Life]:
        """With what packs, commits and receipts say of these files, and of their commits before a repair."""
        given = [*lives]
        known: dict[FileInCommit, CommitOfFile] = {}
        asked = {(life.path, life.sequence) for life in given if life.sequence is not None}
        while asked:
            found = self.find(asked)
            known |= found
            before = {(path, commit.line.repairs) for (path, _), commit in found.items() if commit.line is not None}
            asked = {(path, sequence) for path, sequence in before if sequence is not None} - known.keys()
        return [_completed(life, known) for life in given]

    def find(self, keys: Iterable[FileInCommit]) -> dict[FileInCommit, CommitOfFile]:
        """What is known of these commits of files."""
        wanted = {*keys}
        history = history_of(self.source.state, self.source.identity, self.checkpoint)
        rows = history.find(wanted)
        self.unreadable.update(dict.fromkeys(history.unreadable))
        unpacked = {sequence for path, sequence in wanted if (path, sequence) not in rows}
        unknown = unpacked | {row.sequence for row in rows.values() if row.table_version is None}
        found: dict[int, Commit | None] = {}
        if unknown and not self._versions:
            self._versions = self._listed()
        with ParallelCalls(PARALLEL_READS, name="commits") as calls:
            for sequence in sorted(unknown, reverse=True)[:MAX_COMMITS]:
                calls.submit(partial(self._find, sequence, found, with_receipt=sequence in unpacked))
        known = {key: _by_pack(found.get(key[1]), row) for key, row in rows.items()}
        for path, sequence in wanted - rows.keys():
            if sequence in found:
                known[path, sequence] = _by_receipt(found[sequence], self._receipts.get(sequence), path)
        return known

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


REPAIR = "repair"
"""What announced a file that an operator had read once more, by `blizzard replay` or `blizzard replace`."""


def _completed(life: Life, known: Mapping[FileInCommit, CommitOfFile]) -> Life:
    commit = None if life.sequence is None else known.get((life.path, life.sequence))
    if commit is None:
        return life
    line = commit.line if commit.line is not None and commit.line.etag == life.etag_committed else None
    is_settled = life.state in ("committed", "dead_lettered")
    is_repaired = line is not None and line.repair is not None
    latency = None if not is_settled or is_repaired else _latency(commit.committed_ts, life.announced_ts)
    return replace(
        life,
        table_version=commit.table_version,
        committed_ts=commit.committed_ts,
        announced_by=life.announced_by or (None if line is None else _found_by(line)),
        reason=life.reason or (None if line is None else line.error),
        latency_secs=latency,
        earlier=tuple(_earlier(life.path, commit, known)),
    )


def _earlier(path: str, commit: CommitOfFile, known: Mapping[FileInCommit, CommitOfFile]) -> Iterator[EarlierCommit]:
    """Those before a repair, newest first."""
    seen = set[int]()
    while (sequence := None if commit.line is None else commit.line.repairs) is not None and sequence not in seen:
        seen.add(sequence)
        commit = known.get((path, sequence), CommitOfFile(None, None, None))
        line = commit.line
        if line is None:
            yield EarlierCommit(sequence, commit.table_version, commit.committed_ts)
            return
        announced_ts = line.event_ts or None
        yield EarlierCommit(
            sequence,
            commit.table_version,
            commit.committed_ts,
            etag=line.etag,
            rows=line.rows,
            rejected=line.dead_records,
            error=line.error,
            announced_by=_found_by(line),
            announced_ts=announced_ts,
            latency_secs=None if line.repair is not None else _latency(commit.committed_ts, announced_ts),
        )


def _found_by(line: ReceiptLine) -> str | None:
    return line.found_by if line.repair is None else REPAIR


def _latency(committed_ts: float | None, announced_ts: float | None) -> float | None:
    return None if committed_ts is None or announced_ts is None else max(0.0, committed_ts - announced_ts)


def _by_receipt(commit: Commit | None, receipt: Receipt | None, path: str) -> CommitOfFile:
    committed_ts = None if commit is None else commit.committed_ts
    if committed_ts is None and receipt is not None:
        committed_ts = receipt.written_ts
    lines = () if receipt is None else receipt.lines
    line = next((line for line in lines if line.path == path), None)
    return CommitOfFile(None if commit is None else commit.version, committed_ts, line)


def _by_pack(commit: Commit | None, row: "PackedLine") -> CommitOfFile:
    """`commit`: only if the pack does not have what the log says."""
    version = row.table_version if commit is None else commit.version
    committed_ts = row.committed_ts if commit is None else commit.committed_ts
    return CommitOfFile(version, row.written_ts if committed_ts is None else committed_ts, row.line)


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
