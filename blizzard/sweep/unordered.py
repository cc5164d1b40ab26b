"""Partitions whose files are named in no order. New files appear anywhere in them, mostly below the watermark, so an
ordinary sweep lists them whole: some at a time, in turn, with a bounded number of requests.

Active ones, which had a file since the last late sweep, come first. A file without an event may also come to an idle
one, after that late sweep. Idle ones get a small share of the requests, and a round of them begins only now and then.
"""

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

IDLE_SHARE = 10
"""An idle partition is listed at most so many times between two late sweeps, and this part of a sweep's requests is for
all idle ones together."""
REFRESH_SECS = 300.0
"""How often the ledger is asked whether a source whose names were in order has become one whose names are not."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Unordered `partitions`, sorted, of which each sweep lists some. `start`: where the last sweep stopped; None: at
    the first of them."""

    partitions: Sequence[str]
    start: ListingPosition | None = None


@dataclass(frozen=True, slots=True)
class UnorderedSearch:
    """What an ordinary sweep lists whole with `max_requests`: `active` partitions, and some `idle` ones with what these
    leave."""

    active: Turns
    idle: Turns
    max_requests: int
    unsettled: Unsettled

    @property
    def max_idle_requests(self) -> int:
        return -(-self.max_requests // IDLE_SHARE)


@dataclass(frozen=True, slots=True)
class UnorderedReport:
    """How an ordinary sweep listed active, or idle, unordered `partitions`. `listed`: how many of them it listed to
    their end, with so many LIST `requests`. `next`: where the next sweep continues; None: none was left."""

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

    def newest_ms(
        self, sequence: int, now_ts: float, partitions: Callable[[], Mapping[str, PartitionStats]]
    ) -> Mapping[str, int]:
        """When they had their newest file, sorted by partition. `sequence`: of the checkpoint whose ledger `partitions`
        reads."""
        due = bool(self._newest_ms) or not 0 <= now_ts - self._read_ts < REFRESH_SECS
        if sequence != self._sequence and due:
            stats = partitions()
            self._newest_ms = {name: stats[name].newest_ms for name in unordered_partitions(stats)}
            self._sequence, self._read_ts = sequence, now_ts
        return self._newest_ms


def idle_turns(partitions: Sequence[str], last: UnorderedReport | None, *, is_due: bool) -> Turns:
    """What is left of the round that the `last` sweep of idle partitions left unfinished. If it finished one, a new
    round if that `is_due`."""
    if last is not None and last.next is not None:
        return Turns([partition for partition in partitions if partition >= last.next.partition], last.next)
    return Turns(partitions if is_due else ())


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
    active: UnorderedReport = field(init=False)
    idle: UnorderedReport = field(init=False)
    """Both after `files`."""
    _requests: int = 0

    def files(self) -> Iterator[ObjectInfo]:
        """Until all partitions had their turn, the requests are used up, or time is."""
        search = self.search
        self.active = yield from self._take_turns(search.active, search.max_requests)
        until = min(self._requests + search.max_idle_requests, search.max_requests)
        self.idle = yield from self._take_turns(search.idle, until)

    def _take_turns(self, turns: Turns, max_requests: int) -> Generator[ObjectInfo, None, UnorderedReport]:
        """Until the sweep has made `max_requests`."""
        positions, before = self._positions(turns), self._requests
        listed, stopped = 0, None
        for position in positions:
            stopped = position
            if self._requests >= max_requests or self.out_of_time():
                break
            stopped = yield from self._list(position, max_requests)
            if stopped is not None:
                break
            listed += 1
        return UnorderedReport(len(positions), listed, self._requests - before, stopped)

    def _positions(self, turns: Turns) -> Sequence[ListingPosition]:
        start = turns.start or ListingPosition()
        names = [p for p in turns.partitions if p in self.progress.watermarks and not self.progress.is_closed(p)]
        later = [
            ListingPosition(p, start.after if p == start.partition else None) for p in names if p >= start.partition
        ]
        return [*later, *(ListingPosition(p) for p in names if p < start.partition)]

    def _list(
        self, position: ListingPosition, max_requests: int
    ) -> Generator[ObjectInfo, None, ListingPosition | None]:
        """Returns where it stopped; None at the watermark."""
        partition, watermark = position.partition, self.progress.watermarks[position.partition]
        self._requests += 1
        for count, info in enumerate(self.list_partition(partition, position.after), 1):
            name = split_path(info.key)[1]
            if name > watermark:
                return None
            yield info
            if self.out_of_time():
                return ListingPosition(partition, name)
            if count % FILES_PER_REQUEST == 0:
                if self._requests >= max_requests:
                    return ListingPosition(partition, name)
                self._requests += 1
        return None
