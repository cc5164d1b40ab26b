"""What the product makes of one file of a corpus."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import StructType

from blizzard.config.formats import FILE_FORMATS
from spark_job.formats.protocol import FileFault, Limits
from spark_job.formats.registry import open_format


class Bytes:
    """A file's content as a format reads it."""

    path = "file"
    chunk_bytes = 1 << 20

    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self) -> io.BytesIO:
        return io.BytesIO(self._data)

    def random_access(self) -> io.BytesIO:
        return io.BytesIO(self._data)


@dataclass(slots=True)
class Read:
    """`refused`: the reasons of records; `fault`: why the whole file is refused."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str | None] = field(default_factory=list)
    fault: str | None = None

    @property
    def records(self) -> int:
        return len(self.rows) + len(self.refused)


def read(name: str, schema: StructType, data: bytes, options: Mapping[str, Any]) -> Read:
    """Any exception but a FileFault is a defect, and goes on."""
    block = FILE_FORMATS[name].options
    file_format = open_format(name, schema, Limits(), {} if block is None else block(**options).model_dump(mode="json"))
    found = Read()
    try:
        for part in file_format.blocks(Bytes(data), first_record=0):
            parsed = file_format.parse([part])
            found.rows += parsed.records.to_pylist()
            found.refused += [why for _, why in parsed.refused]
    except FileFault as fault:
        return Read(fault=fault.reason)
    return found
