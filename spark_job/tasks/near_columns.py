"""Which columns may be meant by fields that no column is for."""

from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from blizzard.config.field_places import in_place
from blizzard.config.schema_rules import RESCUED, SchemaRules
from spark_job.formats.source_keys import SourceKeys


def near_columns(columns: StructType, rules: SchemaRules) -> dict[str, str]:
    """The columns of a source, and what is inside them, by the keys of its files in lower case: `address.zip`,
    `items[].sku`."""
    taken = StructType([field for field in columns if field.name != RESCUED or not rules.rescues])
    keys = SourceKeys(taken, rules.fields)
    return {name.lower(): keys.column_at(name) for name in _names(keys.schema, "")}


def _names(data_type: DataType, path: str) -> Iterator[str]:
    if isinstance(data_type, StructType):
        for field in data_type:
            name = f"{path}.{in_place(field.name)}" if path else in_place(field.name)
            yield name
            yield from _names(field.dataType, name)
    elif isinstance(data_type, ArrayType):
        yield from _names(data_type.elementType, f"{path}[]")
    elif isinstance(data_type, MapType):
        yield from _names(data_type.valueType, f"{path}{{}}")
