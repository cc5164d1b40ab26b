"""The columns of a table as the schema of a source, in DDL."""

from collections.abc import Collection

from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from blizzard.config import ddl
from blizzard.config.formats import FORMATS
from blizzard.config.provenance import PROVENANCE, RESERVED
from blizzard.config.schema_limits import storage_problems
from blizzard.config.schema_rules import RESCUED
from blizzard.infer.ddl_text import ddl_of
from spark_job.table.file_layout import GENERATED


def schema_of(table: StructType, *, without: Collection[str]) -> str:
    """`without`: names of columns that do not come from records, such as those of folders, in any case. Those that the
    table computes itself do not, either. Empty if there is no other column."""
    others = {PROVENANCE, RESCUED, *(name.lower() for name in without)}
    columns = [
        column_of(field)
        for field in table.fields
        if field.name.lower() not in others
        and not field.name.lower().startswith(RESERVED)
        and GENERATED not in (field.metadata or {})
    ]
    return ddl_of(columns)


def schema_problems(schema: str, formats: Collection[str]) -> list[str]:
    """Why files of these formats cannot hold such records."""
    found = list[str]()
    for name in formats:
        limits = FORMATS[name].limits
        try:
            found += storage_problems(ddl.parse(schema, limits.types), limits)
        except ddl.DdlError as error:
            found.append(str(error))
    return list(dict.fromkeys(found))


def column_of(field: StructField) -> ddl.Column:
    return ddl.Column(field.name, _type(field.dataType), field.nullable)


def _type(kind: DataType) -> ddl.Type:
    match kind:
        case StructType():
            return ddl.Struct(tuple(map(column_of, kind.fields)))
        case ArrayType():
            return ddl.Array(_type(kind.elementType))
        case MapType():
            return ddl.Map(_type(kind.keyType), _type(kind.valueType))
        case DecimalType():
            return ddl.Decimal(kind.precision, kind.scale)
    return ddl.Atomic(kind.simpleString())
