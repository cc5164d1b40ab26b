"""Packing: receipts of days that are over become packs."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from blizzard.errors import NotFound, UnreadableState
from blizzard.history.packs import PackRef, digest_of, get_packs, history_folder, is_ours, last_packed, put_packs
from blizzard.ledger.committed_receipts import CommittedReceipts
from blizzard.ledger.receipt_chain import PARALLEL_READS, ReceiptChain
from blizzard.log import Log
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.delta_log import Commit
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipt, Receipts
from blizzard.state.run_ref import ranges_without
from blizzard.storage.base import ObjectInfo, ObjectStore

if TYPE_CHECKING:
    import pyarrow as pa

DAY_SECS = 86_400.0
CHECKED_BYTES = 32 << 20
"""Before it packs, a session reads packs of about so many bytes whole, and packs anew those that are damaged."""
KEPT_SECS = DAY_SECS
"""What no checkpoint names, because a packer died or another one was faster, is deleted when it is so old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """A pack has the commits of a day, of several days if one has fewer than `commits`, and of a part of a day if it
    has more than `files`. One session packs up to `session_files`, in a thread of its own if `in_background`, with up
    to `parallel_reads` requests at a time."""

    commits: int = 32
    files: int = 200_000
    session_files: int = 1_000_000
    in_background: bool = True
    parallel_reads: int = PARALLEL_READS


@dataclass(frozen=True, slots=True)
class Packer:
    """Packs what a checkpoint's chain of receipts reaches, and nothing else. `commits` gives those in the table's log,
    newest first."""

    store: ObjectStore
    identity: SourceIdentity
    commits: Callable[[], Iterable[Commit]]
    log: Log
    settings: HistorySettings

    def is_due(self, checkpoint: Checkpoint, now_ts: float) -> bool:
        """Whether enough commits wait, and the day of the oldest is over. Makes requests only if enough wait."""
        first = last_packed(checkpoint.history) + 1
        if checkpoint.sequence - first + 1 < self.settings.commits:
            return False
        receipts = self._receipts()
        oldest = next(receipts.names(first, checkpoint.sequence), None)
        try:
            return oldest is not None and day_of(receipts.get(oldest).written_ts) < day_of(now_ts)
        except (NotFound, UnreadableState):
            return True

    def pack(self, checkpoint: Checkpoint, now_ts: float) -> str | None:
        """Packs what is due. Returns the name of the index for the next checkpoint; None if nothing was. What was
        packed before and is gone is packed again."""
        stored = {info.key: info for info in self.store.list(history_folder(self.identity))}
        known = self._undamaged(self._known(checkpoint, stored), day_of(now_ts))
        made: list[PackRef] = []
        for pack in self._packs(checkpoint, known, day_of(now_ts)):
            made.append(pack)
            if sum(each.files for each in made) >= self.settings.session_files:
                break
        if not made:
            return None
        index = put_packs(self.store, self.identity, [*known, *made])
        self.log(
            "history_packed",
            source=self.identity.source_id,
            packs=len(made),
            commits=sum(pack.last - pack.first + 1 for pack in made),
            files=sum(pack.files for pack in made),
            bytes=sum(pack.size for pack in made),
        )
        self._clean(stored, [*known, *made], {index, checkpoint.history}, now_ts)
        return index

    def _known(self, checkpoint: Checkpoint, stored: Mapping[str, ObjectInfo]) -> Sequence[PackRef]:
        """The packs that the checkpoint leads to, and that are there."""
        if checkpoint.history is None:
            return ()
        try:
            packs = get_packs(self.store, self.identity, checkpoint.history)
        except (NotFound, UnreadableState):
            return ()
        folder = history_folder(self.identity)
        sizes = {key: info.size for key, info in stored.items()}
        return [pack for pack in packs if sizes.get(folder + pack.name) == pack.size]

    def _undamaged(self, packs: Sequence[PackRef], day: str) -> Sequence[PackRef]:
        """Without those that are damaged, of some that are read. Which ones depends on the day, by chance, so that in
        the end each is read."""
        from blizzard.history.pack_file import Pack

        start = int(digest_of(day.encode()), 16) % max(1, len(packs))
        damaged, bytes_read = set[str](), 0
        for pack in (*packs[start:], *packs[:start]):
            if bytes_read and bytes_read + pack.size > CHECKED_BYTES:
                break
            bytes_read += pack.size
            try:
                Pack(self.store, history_folder(self.identity), pack).check()
            except (NotFound, UnreadableState) as error:
                damaged.add(pack.name)
                self.log("pack_damaged", source=self.identity.source_id, pack=pack.name, error=str(error))
        return [pack for pack in packs if pack.name not in damaged]

    def _packs(self, checkpoint: Checkpoint, known: Sequence[PackRef], today: str) -> Iterator[PackRef]:
        """Written one by one, the newest commits first."""
        following = {pack.first - 1: pack.previous for pack in known}
        following.setdefault(checkpoint.sequence, checkpoint.receipt)
        committed = CommittedReceipts(self.commits(), self.identity)
        parallel = self.settings.parallel_reads
        chain = ReceiptChain(self._receipts(), parallel=parallel, named_by_commits=committed.newest)
        log = _LogBackwards(iter(self.commits()), self.identity.app_id)
        for gap in ranges_without([pack.range for pack in known], checkpoint.sequence):
            group = _Group(today, self.settings)
            for found in chain.back_from(following.get(gap.last), gap):
                receipt = found if isinstance(found, Receipt) else None
                if group.ends_before(receipt):
                    yield self._write(group)
                    group = _Group(today, self.settings)
                if receipt is not None and not group.is_of_today(receipt):
                    group.add(receipt, log.commit_of(receipt.sequence))
            if group.receipts:
                yield self._write(group)

    def _write(self, group: "_Group") -> PackRef:
        from blizzard.history.pack_file import encode_pack

        encoded, newest, oldest = encode_pack(group.tables), group.receipts[0], group.receipts[-1]
        pack = PackRef(
            first=oldest.sequence,
            last=newest.sequence,
            day=day_of(oldest.written_ts),
            files=encoded.files,
            size=len(encoded.data),
            footer_at=encoded.footer_at,
            digest=encoded.digest,
            previous=oldest.previous,
        )
        self.store.put(history_folder(self.identity) + pack.name, encoded.data)
        return pack

    def _clean(
        self, stored: Mapping[str, ObjectInfo], packs: Sequence[PackRef], indexes: set[str | None], now_ts: float
    ) -> None:
        folder = history_folder(self.identity)
        named = {pack.name for pack in packs} | indexes
        names = {key.removeprefix(folder): info.modified_ts for key, info in stored.items()}
        old = (name for name, ts in names.items() if is_ours(name) and name not in named and ts < now_ts - KEPT_SECS)
        self.store.delete([folder + name for name in old])

    def _receipts(self) -> Receipts:
        return Receipts(self.store, self.identity.state_prefix)


class _Group:
    """Receipts that become one pack, newest first. Their lines are held as columns, which take a tenth of the
    memory."""

    def __init__(self, today: str, settings: HistorySettings) -> None:
        self._today = today
        self._settings = settings
        self.receipts: list[Receipt] = []
        self.tables: list[pa.Table] = []
        self._files = 0

    def is_of_today(self, receipt: Receipt) -> bool:
        """A commit before one of an earlier day is packed with it, whatever its clock said."""
        return not self.receipts and day_of(receipt.written_ts) >= self._today

    def ends_before(self, receipt: Receipt | None) -> bool:
        """Whether an older receipt (None: a lost one) does not join."""
        if not self.receipts:
            return False
        if receipt is None or self._files >= self._settings.files:
            return True
        is_other_day = day_of(receipt.written_ts) != day_of(self.receipts[-1].written_ts)
        return is_other_day and len(self.receipts) >= self._settings.commits

    def add(self, receipt: Receipt, commit: Commit | None) -> None:
        from blizzard.history.pack_file import rows_of

        self.tables.append(rows_of(receipt, commit))
        self.receipts.append(Receipt(receipt.name, receipt.previous, receipt.sequence, receipt.written_ts, ()))
        self._files += len(receipt.lines)


class _LogBackwards:
    """A source's commits in the table's log, read backwards as they are asked for. Those before one that cannot be read
    are not known."""

    def __init__(self, commits: Iterator[Commit], app_id: str) -> None:
        self._commits = commits
        self._app_id = app_id
        self._at: tuple[float, Commit | None] = math.inf, None

    def commit_of(self, sequence: int) -> Commit | None:
        """`sequence`: lower than in the call before."""
        while self._at[0] > sequence:
            commit = self._next()
            if commit is None:
                self._at = -1, None
            elif (own := commit.txns.get(self._app_id)) is not None:
                self._at = own, commit
        return self._at[1] if self._at[0] == sequence else None

    def _next(self) -> Commit | None:
        try:
            return next(self._commits, None)
        except UnreadableState:
            return None


def day_of(ts: float) -> str:
    """In UTC."""
    return datetime.fromtimestamp(ts, UTC).date().isoformat()
