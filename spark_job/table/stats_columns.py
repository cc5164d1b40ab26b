"""For which columns a table keeps statistics, from its properties, as Delta's own writers decide it."""

import re
from collections.abc import Iterator, Sequence

from pyspark.sql.types import StructType

from spark_job.table.file_layout import STATS_PROPERTY, TableDescription, leaf_paths

COUNT_PROPERTY = "delta.dataSkippingNumIndexedCols"
DEFAULT_COUNT = 32
_NAMED = re.compile(r"\s*((?:`(?:[^`]|``)*`|[^`,.])+(?:\.(?:`(?:[^`]|``)*`|[^`,.])+)*)\s*(?:,|$)")


def stats_columns(table: TableDescription) -> Sequence[str]:
    """Dotted paths of the fields, in the order of the schema. A name with a dot or a backtick is quoted."""
    data = StructType([field for field in table.schema.fields if field.name not in table.partition_by])
    paths = [*leaf_paths(data)]
    named = table.properties.get(STATS_PROPERTY)
    if named is not None:
        wanted = [*_names(named)]
        return tuple(path for path in paths if any(_is_below(path, name) for name in wanted))
    count = int(table.properties.get(COUNT_PROPERTY, DEFAULT_COUNT))
    return tuple(paths if count < 0 else paths[:count])


def _names(text: str) -> Iterator[str]:
    for found in _NAMED.finditer(text):
        parts = re.findall(r"`((?:[^`]|``)*)`|([^`.]+)", found[1])
        yield ".".join(_shown(quoted.replace("``", "`") or plain.strip()) for quoted, plain in parts)


def _shown(name: str) -> str:
    return "`" + name.replace("`", "``") + "`" if {".", "`"} & set(name) else name


def _is_below(path: str, name: str) -> bool:
    """Column names do not depend on case, as in Spark."""
    path, name = path.lower(), name.lower()
    return path == name or path.startswith(f"{name}.")
