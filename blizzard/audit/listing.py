"""The listing of a source, range by range, kept on the local disk until the table is read."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from blizzard.audit.left_out import LeftOut
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
    with how many objects they have, where these are, and what is left out of the listing."""

    folder: Path
    plan: ListingPlan

    def __call__(self, part: str) -> str:
        collect_seldom()
        numbers = json.loads(part)
        with ThreadPoolExecutor(len(numbers), thread_name_prefix="listing") as threads:
            found = [*threads.map(self._list, numbers)]
        places = joined(places for _, places, _ in found)
        left_out = [each for *_, some in found for each in some]
        objects = sum(count for count, *_ in found)
        return json.dumps({"objects": objects, "places": to_json(places), "left_out": left_out})

    def _list(self, number: int) -> tuple[int, Places, list[tuple[str, str]]]:
        count, left_out = 0, LeftOut()
        with SpillWriter(self.folder, f"listed-{number}") as spill:
            for info in listed(self.plan, number, left_out):
                spill.add(number, (info.key, info.size, info.etag, info.modified_ts))
                count += 1
        ranges = self.plan.ranges
        own = [(path, why) for path, why in left_out.found.items() if ranges.of(path) == number]
        return count, spill.places, own


def parts_of(ranges: Ranges) -> list[str]:
    numbers = range(len(ranges))
    return [json.dumps([*numbers[first : first + AT_ONCE]]) for first in range(0, len(numbers), AT_ONCE)]


def listed(plan: ListingPlan, number: int, left_out: LeftOut) -> Iterator[ObjectInfo]:
    """`left_out` gets what is in no listing, also of the ranges beside this one."""
    after, through = plan.ranges.after(number), plan.ranges.through(number)
    objects = plan.source.files_telling(left_out).list(plan.ranges.prefix, start_after=after)
    return objects if through is None else takewhile(lambda info: info.key <= through, objects)
