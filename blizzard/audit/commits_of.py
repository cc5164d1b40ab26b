"""Which version of the table has a source's commit, and what its receipt says of a file."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from blizzard.audit.lives import Life
from blizzard.audit.source import AuditedSource
from blizzard.errors import BucketMissing, NotFound, UnreadableState
from blizzard.state import checkpoint as checkpoints
from blizzard.state.base import no_base
from blizzard.state.checkpoint import BaseUnreadable
from blizzard.state.delta_log import LOG_FOLDER, Commit, DeltaLogTail, commit_version
from blizzard.state.receipts import Receipt, ReceiptLine, Receipts
from blizzard.storage.parallel_calls import ParallelCalls

PARALLEL_READS = 16
MAX_COMMITS = 1_000
"""So many commits are looked for, the newest ones; each takes some requests."""
_OTHERS = 32
"""Commits of other writers in a row that are read to find one of the source."""


@dataclass(slots=True)
class CommitFinder:
    """Finds commits by bisecting the log, since versions grow with a source's sequences. Commits older than the log's
    JSON files are not found."""

    source: AuditedSource
    _versions: list[int] = field(init=False)
    _commits: dict[int, Commit | None] = field(init=False, default_factory=dict)
    _receipts: dict[int, Receipt] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        try:
            keys = self.source.state.list(LOG_FOLDER, recursive=False)
            self._versions = [found for info in keys if (found := commit_version(info.key)) is not None]
        except BucketMissing:
            self._versions = []

    def complete(self, lives: Iterable[Life]) -> list[Life]:
        """With what commits and receipts say of these files."""
        given = [*lives]
        wanted = sorted({life.sequence for life in given if life.sequence is not None}, reverse=True)[:MAX_COMMITS]
        found: dict[int, Commit | None] = {}
        with ParallelCalls(PARALLEL_READS, name="commits") as calls:
            for sequence in wanted:
                calls.submit(partial(self._find, sequence, found))
        return [
            self._completed(life, found.get(life.sequence or 0)) if life.sequence in found else life for life in given
        ]

    def _find(self, sequence: int, found: dict[int, Commit | None]) -> None:
        commit = self.commit_of(sequence)
        found[sequence] = commit
        for name in self._names(sequence, commit):
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

    def _completed(self, life: Life, commit: Commit | None) -> Life:
        receipt = self._receipts.get(life.sequence or 0)
        line = None if receipt is None else _line_of(receipt, life)
        committed_ts = commit.committed_ts if commit is not None else None
        if committed_ts is None and receipt is not None:
            committed_ts = receipt.written_ts
        is_settled = life.state in ("committed", "dead_lettered")
        latency = None
        is_repaired = line is not None and line.repair is not None
        if is_settled and committed_ts is not None and life.announced_ts is not None and not is_repaired:
            latency = max(0.0, committed_ts - life.announced_ts)
        return replace(
            life,
            table_version=None if commit is None else commit.version,
            committed_ts=committed_ts,
            announced_by=life.announced_by or (None if line is None else REPAIR if is_repaired else line.found_by),
            reason=life.reason or (None if line is None else line.error),
            latency_secs=latency,
        )


REPAIR = "repair"
"""What announced a file that an operator had read once more, by `blizzard replay` or `blizzard replace`."""


def _line_of(receipt: Receipt, life: Life) -> ReceiptLine | None:
    return next((line for line in receipt.lines if (line.path, line.etag) == (life.path, life.etag_committed)), None)


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
