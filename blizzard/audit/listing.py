"""The listing of a source, range by range, kept on the local disk until the table is read."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from blizzard.audit.ranges import Ranges
from blizzard.audit.source import AuditedSource
from blizzard.audit.spill import Places, SpillWriter, collect_seldom, joined, to_json
from blizzard.storage.base import ObjectInfo

AT_ONCE = 3
"""Ranges that a process lists at the same time."""


@dataclass(frozen=True, slots=True)
class ListingPlan:
    source: AuditedSource
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class ListRanges:
    """Called with the numbers of some ranges, which are listed at the same time, since requests mostly wait. Answers
    with how many objects they have, and where these are."""

    folder: Path
    plan: ListingPlan

    def __call__(self, part: str) -> str:
        collect_seldom()
        numbers = json.loads(part)
        with ThreadPoolExecutor(len(numbers), thread_name_prefix="listing") as threads:
            found = [*threads.map(self._list, numbers)]
        places = joined(places for _, places in found)
        return json.dumps({"objects": sum(count for count, _ in found), "places": to_json(places)})

    def _list(self, number: int) -> tuple[int, Places]:
        count = 0
        with SpillWriter(self.folder, f"listed-{number}") as spill:
            for info in listed(self.plan, number):
                spill.add(number, (info.key, info.size, info.etag, info.modified_ts))
                count += 1
        return count, spill.places


def parts_of(ranges: Ranges) -> list[str]:
    numbers = range(len(ranges))
    return [json.dumps([*numbers[first : first + AT_ONCE]]) for first in range(0, len(numbers), AT_ONCE)]


def listed(plan: ListingPlan, number: int) -> Iterator[ObjectInfo]:
    after, through = plan.ranges.after(number), plan.ranges.through(number)
    objects = plan.source.files.list(plan.ranges.prefix, start_after=after)
    return objects if through is None else takewhile(lambda info: info.key <= through, objects)
