"""One version of a Delta table, as Delta's own classes on the driver hold it: Txns, files, statistics columns."""

import json
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_job.ports.table import Txn
from spark_job.table.file_layout import leaf_paths

PARTITIONS_SETTING = "spark.databricks.delta.snapshotPartitions"
FILES_PER_PARTITION = 50_000
MAX_PARTITIONS = 50
"""Delta's default, which suits tables of millions of files."""
_SET_BY_JOB = "spark.blizzard.snapshotPartitions"
"""Setting of the session that holds the value this process has set; several tables share a session."""


def snapshot_partitions(files: int) -> int:
    """The number of partitions for Delta's state of a table with this many files."""
    return max(1, min(MAX_PARTITIONS, -(-files // FILES_PER_PARTITION)))


def set_snapshot_partitions(spark: SparkSession, snapshot: "Snapshot") -> None:
    """Adjust Delta's setting to the table's size. Call it before anything makes Delta rebuild the table's state.

    Changes nothing if somebody else has set the session's value, or if the version has no checksum.
    """
    files = snapshot.file_count()
    if files is None or spark.conf.get(PARTITIONS_SETTING, None) != spark.conf.get(_SET_BY_JOB, None):
        return
    wanted = str(snapshot_partitions(files))
    if wanted != spark.conf.get(_SET_BY_JOB, None):
        spark.conf.set(PARTITIONS_SETTING, wanted)
        spark.conf.set(_SET_BY_JOB, wanted)


class Snapshot:
    """`java` is Delta's Snapshot."""

    def __init__(self, spark: SparkSession, java: Any) -> None:
        self._spark = spark
        self._java = java

    @property
    def version(self) -> int:
        """-1 when there is no table."""
        return int(self._java.version())

    def stats_columns(self) -> tuple[str, ...]:
        """Dotted paths of the fields for which the table keeps statistics."""
        schema = json.loads(str(self._java.statCollectionLogicalSchema().json()))
        return tuple(leaf_paths(StructType.fromJson(schema)))

    def txn_version(self, app_id: str) -> int | None:
        """The newest Txn of this app id. The version's checksum lists them all; without it Delta has to rebuild the
        state of all files."""
        checksum = self._checksum()
        if checksum is not None and checksum.setTransactions().isDefined():
            txns = self._parsed_txns(checksum.setTransactions().get())
            return next((int(txn["version"]) for txn in txns if txn["appId"] == app_id), None)
        found = self._java.transactions().get(app_id)
        return int(found.get()) if found.isDefined() else None

    def txns(self) -> list[Txn]:
        """The newest Txn of each app id."""
        txns = self._parsed_txns(self._java.setTransactions())
        times = (txn.get("lastUpdated") for txn in txns)
        return [
            Txn(str(txn["appId"]), int(txn["version"]), None if millis is None else millis / 1000)
            for txn, millis in zip(txns, times, strict=True)
        ]

    def data_file_paths(self) -> set[str]:
        """Paths of the table's files, and of removed ones that the log still names; relative to the table's folder."""
        datasets = (self._java.allFiles(), self._java.tombstones())
        frames = (DataFrame(dataset.toDF(), self._spark).select("path") for dataset in datasets)
        return {unquote(row["path"]) for frame in frames for row in frame.collect()}

    def _parsed_txns(self, txns: Any) -> list[dict[str, Any]]:
        jvm: Any = self._spark._jvm
        found: list[dict[str, Any]] = json.loads(
            str(jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper().writeValueAsString(txns))
        )
        return found

    def file_count(self) -> int | None:
        """How many files the table has; None if Delta would have to rebuild the table's state to tell."""
        if self.version < 0:
            return 0
        checksum = self._checksum()
        return None if checksum is None else int(checksum.numFiles())

    def compute_state(self) -> bool:
        """Let Delta compute the table's state, the first part of each checkpoint, and drop it again. Returns False if
        the table was skipped: this is a pass over all files, and it has many or an unknown number."""
        files = self.file_count()
        if files is None or files > FILES_PER_PARTITION:
            return False
        try:
            self._java.numOfRemoves()  # needs the state: no checksum has this number
        finally:
            self._java.uncache()  # otherwise executors keep it cached and cannot be released
        return True

    def _checksum(self) -> Any:
        """The checksum file next to the version's commit; None when it is missing, or this Delta writes none."""
        try:
            found = self._java.checksumOpt()
        except Py4JError:
            return None
        return found.get() if found.isDefined() else None
