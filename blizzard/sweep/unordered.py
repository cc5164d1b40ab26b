"""Partitions whose files are named in no order. New files appear anywhere in them, mostly below the watermark, so an
ordinary sweep lists them whole: some at a time, in turn, with a bounded number of requests."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from blizzard.ledger.run_index import PartitionStats
from blizzard.state.watermark import SourceProgress, split_path
from blizzard.storage.base import ObjectInfo
from blizzard.sweep.late_cursor import ListingPosition
from blizzard.sweep.searches import Unsettled

FILES_PER_REQUEST = 1_000
"""What a LIST request of S3 returns."""
LOOKUP_FILES = 20_000
"""So many listed files are looked up at a time. They are neighbours, so this takes few requests."""
MIN_DISORDERED = 3
MIN_DISORDERED_SHARE = 0.02
"""Names by time have fewer: a producer is some minutes late now and then. Names in no order have nearly a half, and
fewer only if most of the files came at once."""
FEW_FILES = 50
"""A partition with fewer files may not show its order yet. It is judged as all files of the source together."""

REFRESH_SECS = 300.0
"""How often the ledger is asked whether a source whose names were in order has become one whose names are not."""


@dataclass(frozen=True, slots=True)
class UnorderedSearch:
    """`partitions`: the unordered ones, sorted. `start`: where the last sweep stopped; None: at the first of them."""

    partitions: Sequence[str]
    start: ListingPosition | None
    max_requests: int
    unsettled: Unsettled


@dataclass(frozen=True, slots=True)
class UnorderedReport:
    """How an ordinary sweep listed the unordered partitions. `listed`: how many of them it listed to their end, with so
    many LIST `requests`. `next`: where the next sweep continues; None: none was left."""

    partitions: int
    listed: int
    requests: int
    next: ListingPosition | None = None

    @property
    def left(self) -> int:
        return self.partitions - self.listed


def unordered_partitions(stats: Mapping[str, PartitionStats]) -> list[str]:
    """Sorted."""
    total = PartitionStats()
    for each in stats.values():
        total.add_run(each)
    everywhere = is_unordered(total)
    return sorted(
        partition for partition, each in stats.items() if is_unordered(each) or (everywhere and each.files < FEW_FILES)
    )


def is_unordered(stats: PartitionStats) -> bool:
    return stats.disordered >= MIN_DISORDERED and stats.disordered > MIN_DISORDERED_SHARE * stats.files


@dataclass(slots=True)
class KnownOrder:
    """Which partitions of a source are unordered, remembered between sweeps. As long as there are none, the ledger is
    read for it only now and then."""

    _sequence: int = -1
    _read_ts: float = float("-inf")
    _newest_ms: Mapping[str, int] = field(default_factory=dict)

    def unordered(
        self,
        sequence: int,
        now_ts: float,
        partitions: Callable[[], Mapping[str, PartitionStats]],
        active_since_ts: float,
    ) -> list[str]:
        """Those that had a file since `active_since_ts`, sorted: in others a late sweep has found what there was.
        `sequence`: of the checkpoint whose ledger `partitions` reads."""
        due = bool(self._newest_ms) or not 0 <= now_ts - self._read_ts < REFRESH_SECS
        if sequence != self._sequence and due:
            stats = partitions()
            self._newest_ms = {name: stats[name].newest_ms for name in unordered_partitions(stats)}
            self._sequence, self._read_ts = sequence, now_ts
        return [name for name, newest_ms in self._newest_ms.items() if newest_ms >= active_since_ts * 1000]


@dataclass(slots=True)
class UnorderedListing:
    """One sweep's share of the listing. `list_partition` lists a partition after a file name (None: from its start).

    Only files up to the watermark are listed: the sweep has listed the others already. A partition without a watermark
    is skipped for the same reason.
    """

    search: UnorderedSearch
    progress: SourceProgress
    list_partition: Callable[[str, str | None], Iterator[ObjectInfo]]
    out_of_time: Callable[[], bool]
    requests: int = 0
    _listed: int = 0
    _stopped: ListingPosition | None = None
    _turns: Sequence[ListingPosition] = field(init=False)

    def __post_init__(self) -> None:
        start = self.search.start or ListingPosition()
        names = [p for p in self.search.partitions if p in self.progress.watermarks and not self.progress.is_closed(p)]
        later = [
            ListingPosition(p, start.after if p == start.partition else None) for p in names if p >= start.partition
        ]
        self._turns = [*later, *(ListingPosition(p) for p in names if p < start.partition)]

    def files(self) -> Iterator[ObjectInfo]:
        """Until all partitions had their turn, the requests are used up, or time is."""
        for position in self._turns:
            self._stopped = position
            if self.requests >= self.search.max_requests or self.out_of_time():
                return
            self._stopped = yield from self._list(position)
            if self._stopped is not None:
                return
            self._listed += 1

    def report(self) -> UnorderedReport:
        """After `files`."""
        return UnorderedReport(len(self._turns), self._listed, self.requests, self._stopped)

    def _list(self, position: ListingPosition) -> Generator[ObjectInfo, None, ListingPosition | None]:
        """Returns where it stopped; None at the watermark."""
        partition, watermark = position.partition, self.progress.watermarks[position.partition]
        self.requests += 1
        for count, info in enumerate(self.list_partition(partition, position.after), 1):
            name = split_path(info.key)[1]
            if name > watermark:
                return None
            yield info
            if self.out_of_time():
                return ListingPosition(partition, name)
            if count % FILES_PER_REQUEST == 0:
                if self.requests >= self.search.max_requests:
                    return ListingPosition(partition, name)
                self.requests += 1
        return None
