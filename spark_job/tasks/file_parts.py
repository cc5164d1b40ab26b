"""What the records of one file come in: blocks of its format, numbered through the whole file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from spark_job.formats.protocol import Block, Format
from spark_job.tasks.file_content import FileContent


@dataclass(frozen=True, slots=True)
class NumberedBlock:
    """`first_record`: its number in the file. `member`: the member that holds the block, if the file is a zip."""

    block: Block
    first_record: int
    member: str | None = None

    @property
    def end(self) -> int:
        """The number of the next record."""
        return self.first_record + self.block.count


@dataclass(frozen=True, slots=True)
class RefusedMember:
    """A member of a zip that cannot be read. It takes the number of one record."""

    name: str
    reason: str
    first_record: int

    @property
    def end(self) -> int:
        return self.first_record + 1


Part = NumberedBlock | RefusedMember


class FileParts(Protocol):
    """One file's records."""

    @property
    def bytes_read(self) -> int:
        """How many bytes of the file have been read so far for these parts."""
        ...

    def parts(self, *, skip_records: int) -> Iterator[Part]:
        """From this record on, in order. Raises FileFault, and what storage raises."""
        ...


class SingleFile:
    """Of a file that is no zip."""

    def __init__(self, file_format: Format[Any], content: FileContent) -> None:
        self._format = file_format
        self._content = content

    @property
    def bytes_read(self) -> int:
        return self._content.bytes_read

    def parts(self, *, skip_records: int) -> Iterator[Part]:
        for block in self._format.blocks(self._content, first_record=skip_records):
            yield NumberedBlock(block, block.first_record)
