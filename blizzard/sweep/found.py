"""What a sweep has found, on its way into the manifest."""

from dataclasses import dataclass, field

from blizzard.manifest.segments import Closing, Entry, FoundBy, SettleMark
from blizzard.storage.base import ObjectInfo


@dataclass(slots=True)
class Pending:
    """Found, and not appended yet."""

    entries: list[Entry] = field(default_factory=list)
    marks: list[SettleMark] = field(default_factory=list)
    closing: Closing | None = None


def entry_of(info: ObjectInfo, found_by: FoundBy) -> Entry:
    return Entry(info.key, info.size, info.etag, info.modified_ts, found_by, info.version_id)
