"""What sweeps look for among the files that they list."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from blizzard.storage.base import ObjectInfo

Unsettled = Callable[[Sequence[ObjectInfo]], Sequence[ObjectInfo]]
"""Those of the files whose content, by the ledger, is not settled. Each call looks up all of them at once."""


@dataclass(slots=True)
class LateSearch:
    """For files below a watermark: those modified at or after `since_ts` (None: all) that are neither in `unconsumed`
    entries (path and etag) nor settled."""

    since_ts: float | None
    unconsumed: Collection[tuple[str, str]]
    unsettled: Unsettled
    found: list[ObjectInfo] = field(default_factory=list)

    def may_be_late(self, info: ObjectInfo, *, at_any_time: bool = False) -> bool:
        young_enough = at_any_time or self.since_ts is None or info.modified_ts >= self.since_ts
        return young_enough and (info.key, info.etag) not in self.unconsumed

    def take(self) -> Sequence[ObjectInfo]:
        found, self.found = self.found, []
        return self.unsettled(found) if found else ()


@dataclass(slots=True)
class NewFiles:
    """For files above a watermark: those neither `known` (in progress, or in unconsumed entries) nor settled."""

    known: Collection[str]
    unsettled: Unsettled
    collected: list[ObjectInfo] = field(default_factory=list)

    def collect(self, info: ObjectInfo) -> None:
        if info.key not in self.known:
            self.collected.append(info)

    def take(self) -> Sequence[ObjectInfo]:
        collected, self.collected = self.collected, []
        return self.unsettled(collected) if collected else ()
