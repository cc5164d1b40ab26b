"""Tables and names with which it could not be known what is ingested: such a run ends before it writes anything."""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from blizzard.errors import PermanentError, RecoveryError

RETENTION_PROPERTY = "delta.setTransactionRetentionDuration"
FILES_LOOKED_AT = 100
"""The newest ones of other sources; older ones may be gone from the source."""

HasFile = Callable[[str, str], bool]
"""Whether the source has this path with this etag now."""


def check_keeps_txns(properties: Mapping[str, str], uri: str) -> None:
    """Raises PermanentError for a table that forgets Txns: what it has forgotten would be ingested again."""
    for name, value in properties.items():
        if name.lower() == RETENTION_PROPERTY.lower():
            raise PermanentError(
                f"table {uri} has {name} = '{value}', with which Delta forgets what is ingested, so that rows would be "
                f"doubled. Expected a table without it: ALTER TABLE delta.`{uri}` UNSET TBLPROPERTIES ('{name}'), and "
                "take it out of the session's defaults, if it is there."
            )


def check_name(rows: DataFrame, source_id: str, siblings: frozenset[str], has_file: HasFile) -> None:
    """Of a source that the table does not know. `rows`: of the whole table; `siblings`: ids of sources that the
    pipeline has beside this one.

    Raises RecoveryError when the table holds files of this source under a name that the pipeline does not have.
    """
    source, file, etag = (F.col(f"_source.{name}") for name in ("source", "file", "etag"))
    others = rows.where(~source.isin(source_id, *siblings))
    newest = others.groupBy(source, file, etag).agg(F.max("_source.modified").alias("modified"))
    for found in newest.orderBy(F.desc("modified")).limit(FILES_LOOKED_AT).collect():
        if has_file(found["file"], found["etag"]):
            raise RecoveryError(
                f"the table has no Txn of source {source_id}, but it holds the same files under another name: "
                f"{found['file']} came from source {found['source']}. Ingesting them again would double their rows. "
                "The likely cause is that the pipeline or the source was renamed. Give it its former name back, or "
                "write to another table."
            )
