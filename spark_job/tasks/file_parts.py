"""What the records of one file come in: blocks of its format, numbered through the whole file."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from spark_job.formats.protocol import Block, FileFault, Format
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

    def __init__(self, file_format: Format[Any], content: FileContent, formats: Collection[str]) -> None:
        self._format = file_format
        self._content = content
        self._formats = formats

    @property
    def bytes_read(self) -> int:
        return self._content.bytes_read

    def parts(self, *, skip_records: int) -> Iterator[Part]:
        try:
            for block in self._format.blocks(self._content, first_record=skip_records):
                yield NumberedBlock(block, block.first_record)
        except FileFault as fault:
            raise explained(fault, self._content, self._formats) from fault


def explained(fault: FileFault, content: FileContent, formats: Collection[str]) -> FileFault:
    """With what the content begins like, if that is nothing of these formats."""
    what = content.likeness(fault.stage, formats)
    return fault if what is None else FileFault(fault.stage, f"{fault.reason.rstrip('.')}; {what}")
