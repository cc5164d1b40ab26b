"""What a late sweep looks for among the files that it lists."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from blizzard.storage.base import ObjectInfo

Unsettled = Callable[[Sequence[ObjectInfo]], Sequence[ObjectInfo]]
"""Those of the files whose content, by the ledger, is not settled. Each call looks up all of them at once."""


@dataclass(slots=True)
class LateSearch:
    """Files modified at or after `since_ts` that are neither in `unconsumed` entries (path
    and etag) nor settled."""

    since_ts: float
    unconsumed: Collection[tuple[str, str]]
    unsettled: Unsettled
    found: list[ObjectInfo] = field(default_factory=list)

    def may_be_late(self, info: ObjectInfo) -> bool:
        return info.modified_ts >= self.since_ts and (info.key, info.etag) not in self.unconsumed

    def take(self) -> Sequence[ObjectInfo]:
        found, self.found = self.found, []
        return self.unsettled(found) if found else ()
