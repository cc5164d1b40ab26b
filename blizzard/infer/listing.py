"""The names below a place, by a bounded number of requests however many there are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from blizzard.infer.folders import time_template
from blizzard.paths.partition import TimeTemplate
from blizzard.storage.base import ObjectInfo, ObjectStore

PAGE = 1000
"""Names that one LIST request returns."""
FIRST_NAMES = 20 * PAGE
"""How many are listed in order. Only what has more is looked at in places."""
MORE_REQUESTS = 40
MAX_REQUESTS = FIRST_NAMES // PAGE + 1 + MORE_REQUESTS
_DATES = 12
"""Dated folders that are looked at: that of now, and those before it at doubling distances."""
_PLACES = 6
"""Names after the last one that are looked at, for each of its folders: by characters that names have, and by all."""
_CHARACTERS = "0123456789=ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"


@dataclass(slots=True)
class Listing:
    """`is_whole`: whether `files` are all there are. `requests`: at most so many LIST requests it took on S3."""

    files: list[ObjectInfo] = field(default_factory=list)
    is_whole: bool = True
    requests: int = 0


def list_names(store: ObjectStore, now_ts: float) -> Listing:
    """The first names; then, if there are more, those of the newest dated folders, and others spread over the rest."""
    first = list(islice(store.list(), FIRST_NAMES + 1))
    listing = Listing(first[:FIRST_NAMES], len(first) <= FIRST_NAMES, len(first) // PAGE + 1)
    if listing.is_whole:
        return listing
    known = {info.key: info for info in listing.files}
    for prefix, after in islice(_probes(listing.files, now_ts), MORE_REQUESTS):
        listing.requests += 1
        known |= {info.key: info for info in islice(store.list(prefix, start_after=after), PAGE)}
    listing.files = [known[key] for key in sorted(known)]
    return listing


def _probes(first: list[ObjectInfo], now_ts: float) -> Iterator[tuple[str, str]]:
    """What to list, each by one request: names with a prefix that come after another one."""
    template = time_template([info.key for info in first])
    if template is not None:
        dated = TimeTemplate(template)
        yield from ((f"{dated.oldest_folder(now_ts, 1 << step)}/", "") for step in range(_DATES))
    last = first[-1].key
    folders = [at + 1 for at, char in enumerate(last) if char == "/"]
    for start in (0, *folders):
        seen = sorted({char for info in first for char in info.key[start:]})
        wanted = [*_spread(seen, last[start]), *_spread(_CHARACTERS, last[start])]
        yield from (("", last[:start] + char) for char in dict.fromkeys(wanted))


def _spread(characters: Sequence[str], after: str) -> list[str]:
    """Some of those that come after the character, at equal distances, with the last one."""
    later = [char for char in characters if char > after]
    if len(later) <= _PLACES:
        return later
    return [later[at * (len(later) - 1) // (_PLACES - 1)] for at in range(_PLACES)]
