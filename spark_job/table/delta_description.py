"""What deltalake tells of a table, for its commits and for those who only compare."""

import json
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from spark_job.table.file_layout import TableDescription

if TYPE_CHECKING:
    from deltalake import DeltaTable


def describe(table: "DeltaTable") -> TableDescription:
    metadata, protocol = table.metadata(), table.protocol()
    return TableDescription(
        schema=StructType.fromJson(json.loads(table.schema().to_json())),
        partition_by=tuple(metadata.partition_columns),
        properties=metadata.configuration,
        writer_version=protocol.min_writer_version,
        writer_features=frozenset(protocol.writer_features or ()),
    )
