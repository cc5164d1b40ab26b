"""Some records of a file, which an operator has read once more: by their numbers, or given as texts."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from io import BytesIO
from typing import Any

from spark_job.formats.chosen_records import chosen
from spark_job.formats.protocol import Block, Format, Parsed, Readable
from spark_job.tasks.file_content import FileContent
from spark_job.tasks.file_parts import NumberedBlock, Part
from spark_job.tasks.provenance import RecordRange

OpenText = Callable[[Readable, int, ExitStack], FileContent]
"""From a text and its size in bytes."""


class GivenRecords:
    """Implements `FileParts`: each text is a record, with the number of the one that it replaces."""

    bytes_read = 0

    def __init__(self, file_format: Format[Any], given: Sequence[tuple[int, str]], open_text: OpenText) -> None:
        self._format = file_format
        self._given = given
        self._open_text = open_text

    def parts(self, *, skip_records: int) -> Iterator[Part]:
        for number, text in self._given[skip_records:]:
            data = text.encode()
            with ExitStack() as stack:
                for block in self._format.blocks(self._open_text(BytesIO(data), len(data), stack), first_record=0):
                    yield NumberedBlock(block, number)


def wanted_of(part: Part, records: Sequence[int] | None) -> int:
    """How many records of the part are wanted: those with these numbers, ascending; None: all."""
    if records is None:
        return part.end - part.first_record
    return bisect_left(records, part.end) - bisect_left(records, part.first_record)


def wanted_positions(ranges: Sequence[RecordRange]) -> frozenset[int] | None:
    """The wanted records of some ranges, counted through all of them from 0; None: all are."""
    if all(one.wanted is None for one in ranges):
        return None
    found, start = set[int](), 0
    for one in ranges:
        numbers = range(one.first_record, one.first_record + one.count)
        chosen = numbers if one.wanted is None else one.wanted.intersection(numbers)
        found.update(start + number - one.first_record for number in chosen)
        start += one.count
    return frozenset(found)


def parsed_wanted(file_format: Format[Any], blocks: Sequence[Block], wanted: frozenset[int]) -> Parsed:
    """What became of these records of the blocks, under their numbers there. The others are not parsed, so nothing that
    is odd about them counts. `wanted`: at least one of each block."""
    numbers, some, start = sorted(wanted), list[Block](), 0
    for block in blocks:
        first, end = bisect_left(numbers, start), bisect_left(numbers, start + block.count)
        some.append(chosen(block, [number - start for number in numbers[first:end]]))
        start += block.count
    parsed = file_format.parse(some)
    return replace(
        parsed,
        positions=[numbers[at] for at in parsed.numbers],
        refused=[(numbers[at], why) for at, why in parsed.refused],
        unknown={name: replace(found, first=numbers[found.first]) for name, found in parsed.unknown.items()},
        misfits={name: replace(found, first=numbers[found.first]) for name, found in parsed.misfits.items()},
    )
