"""What formats have in common in which a file is one record."""

from collections.abc import Iterator
from dataclasses import dataclass

from blizzard.state.dead_letters import Stage
from spark_job.formats.protocol import Content, FileFault, Limits
from spark_job.formats.reading import read_up_to


@dataclass(frozen=True, slots=True)
class FileBlock:
    """A whole file, which is record 0."""

    data: bytes
    first_record: int = 0
    count: int = 1

    @property
    def size_bytes(self) -> int:
        return len(self.data)


def whole_file(content: Content, limits: Limits, first_record: int) -> Iterator[FileBlock]:
    """Raises FileFault for a file above the limit of a record."""
    if first_record:
        return
    data = read_up_to(content.stream(), limits.max_record_bytes + 1)
    if len(data) > limits.max_record_bytes:
        reason = f"limit max_record_bytes: the file is one record, and holds more than {limits.max_record_bytes} bytes"
        raise FileFault(Stage.PARSE, reason)
    yield FileBlock(data)
