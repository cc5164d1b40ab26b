"""Records as they are in their file, found again in the blocks that were parsed."""

from collections.abc import Sequence

from spark_job.formats.lines import LineBlock
from spark_job.formats.messages.block import MessageBlock
from spark_job.formats.protocol import Block
from spark_job.formats.record_list import RecordList


def original_text(blocks: Sequence[Block], number: int) -> bytes | None:
    """Of the record with that number, counted through all blocks from 0. None: a record of this format is no text, or
    not in one piece."""
    for block in blocks:
        if number < block.count:
            match block:
                case LineBlock():
                    return block.lines()[number]
                case RecordList():
                    return block.records[number]
                case MessageBlock():
                    return block.messages.payloads[number]
            return None
        number -= block.count
    return None
