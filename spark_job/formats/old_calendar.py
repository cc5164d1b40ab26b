"""The earliest dates and times of a file that are in today's calendar.

Spark before version 3, and later ones in the mode LEGACY, write days before 1582-10-15 in the Julian calendar, and
times before 1900 by offsets of their zone that are not those of today's zones. A file says so in its metadata, and
Spark converts what it reads, whatever its configuration: `getRebaseSpec` in DataSourceUtils, and RebaseDateTime, of
Spark 4.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

_SPARK = "org.apache.spark."
_FIRST_VERSION, _FIRST_INT96_VERSION = "3.0.0", "3.1.0"
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})
FIRST_SECOND = -62_135_596_800
"""Of the year 1, since 1970."""
GREGORIAN = date(1582, 10, 15)
_GREGORIAN_SECOND = int(datetime(1582, 10, 15, tzinfo=UTC).timestamp())
_ZONES_SECOND = int(datetime(1900, 1, 1, tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True)
class Earliest:
    """What is before is refused. Seconds are those since 1970. `local_second`: of times without a zone."""

    day: date = date.min
    second: int = FIRST_SECOND
    local_second: int = FIRST_SECOND


ANY = Earliest()


def earliest_of(metadata: Mapping[str, str], *, has_int96: bool = False) -> Earliest:
    """`metadata`: of the file. `has_int96`: whether its times without a zone are INT96, which have a mark of their own;
    others without a zone are the same in each calendar."""
    version = metadata.get(f"{_SPARK}version")
    if version is None:
        return ANY
    is_old = version < _FIRST_VERSION or f"{_SPARK}legacyDateTime" in metadata
    is_old_int96 = has_int96 and (version < _FIRST_INT96_VERSION or f"{_SPARK}legacyINT96" in metadata)
    first = _GREGORIAN_SECOND if metadata.get(f"{_SPARK}timeZone") in _UTC else _ZONES_SECOND
    return Earliest(
        GREGORIAN if is_old else ANY.day,
        first if is_old else ANY.second,
        first if is_old_int96 else ANY.local_second,
    )
