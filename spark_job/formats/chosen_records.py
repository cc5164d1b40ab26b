"""Some records of a block, as a block of their own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_job.formats.lines import LineBlock
from spark_job.formats.protocol import Block
from spark_job.formats.record_list import RecordList

if TYPE_CHECKING:
    from spark_job.formats.columns import BatchBlock


def chosen(block: Block, places: Sequence[int]) -> Block:
    """The records at these places of the block, counted from 0, ascending, at least one. The block that is returned
    counts them from `first_record` on without gaps."""
    from spark_job.formats.mixed import RuleBlock  # few sources have one

    if len(places) == block.count:
        return block
    match block:
        case RuleBlock():
            return replace(block, block=chosen(block.block, places))
        case LineBlock():
            lines = block.lines()
            return replace(block, data=b"\n".join(lines[place] for place in places), count=len(places))
        case RecordList():
            broken = {at: block.broken[place] for at, place in enumerate(places) if place in block.broken}
            return replace(block, records=[block.records[place] for place in places], broken=broken)
    return _of_batch(block, places)


def _of_batch(block: Block, places: Sequence[int]) -> "BatchBlock":
    import pyarrow as pa

    from spark_job.formats.columns import BatchBlock

    assert isinstance(block, BatchBlock), block
    return replace(block, batch=block.batch.take(pa.array(places, pa.int64())))
