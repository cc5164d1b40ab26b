"""How the files of a source are read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from blizzard.config.schema_rules import NO_RULES, SchemaRules
from spark_job.formats.protocol import Limits

if TYPE_CHECKING:
    from spark_job.formats.protocol import Format
    from spark_job.formats.read_rules import FileCompressions


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How a source's files are read. `memory_bytes`: about how much memory one task may use. `options`: the format's
    own options, as JSON values. `rules`: for data that is not as the schema says."""

    format: str
    compression: str = "auto"
    limits: Limits = field(default_factory=Limits)
    memory_bytes: int = 256 << 20
    options: Mapping[str, Any] = field(default_factory=dict)
    rules: SchemaRules = NO_RULES

    def open_format(self, schema: StructType) -> "Format[Any]":
        """`schema`: a record's columns."""
        from spark_job.formats.registry import open_format

        return open_format(self.format, schema, self.limits, self.options, self.rules)

    def compressions(self) -> "FileCompressions":
        from spark_job.formats.read_rules import FileCompressions

        return FileCompressions(self.format, self.options, self.compression)

    @property
    def formats(self) -> frozenset[str]:
        """Those of which the files may be."""
        from spark_job.formats.read_rules import ReadRules

        rules = ReadRules.of(self.format, self.options)
        return frozenset([self.format] if rules is None else (rule.format for rule in rules.rules))

    @property
    def ahead_bytes(self) -> int:
        """Memory for stored objects that are fetched ahead."""
        return self.memory_bytes // 8

    @property
    def held_bytes(self) -> int:
        """Memory for the decompressed blocks of one file that is not read to its end yet."""
        return self.memory_bytes * 3 // 16

    @property
    def buffer_bytes(self) -> int:
        """Memory for rows that are buffered before they are written."""
        return self.memory_bytes * 3 // 16
