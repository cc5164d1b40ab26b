"""The newest version of a Delta table, as Delta's own classes on the driver hold it."""

import json
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_job.ports.table import Txn
from spark_job.table.file_layout import leaves

PARTITIONS_SETTING = "spark.databricks.delta.snapshotPartitions"
FILES_PER_PARTITION = 50_000
MOST_PARTITIONS = 50
"""Delta's own number, made for tables of millions of files."""
_OURS = "spark.blizzard.snapshotPartitions"
"""What this process has set: several tables share a session."""


def partitions_for(files: int) -> int:
    """In how many partitions Delta shall hold the state of a table of so many files."""
    return max(1, min(MOST_PARTITIONS, -(-files // FILES_PER_PARTITION)))


def follow_size(spark: SparkSession, snapshot: "Snapshot") -> None:
    """Keep Delta's setting in step with the table, before anything makes it rebuild the table's state.

    One that somebody else has set is left alone, and without a checksum it stays what it was.
    """
    files = snapshot.files()
    if files is None or spark.conf.get(PARTITIONS_SETTING, None) != spark.conf.get(_OURS, None):
        return
    wanted = str(partitions_for(files))
    if wanted != spark.conf.get(_OURS, None):
        spark.conf.set(PARTITIONS_SETTING, wanted)
        spark.conf.set(_OURS, wanted)


class Snapshot:
    """One version of a table; `java` is Delta's object."""

    def __init__(self, spark: SparkSession, java: Any) -> None:
        self._spark = spark
        self._java = java

    @property
    def version(self) -> int:
        """-1 when there is no table."""
        return int(self._java.version())

    def stats_columns(self) -> tuple[str, ...]:
        """Leaves that Delta collects statistics of."""
        schema = json.loads(str(self._java.statCollectionLogicalSchema().json()))
        return tuple(leaves(StructType.fromJson(schema)))

    def txn_version(self, app_id: str) -> int | None:
        """The newest Txn of this app id. The checksum of the version lists them; without it Delta has to rebuild the
        state of all files."""
        known = self._checksum()
        if known is not None and known.setTransactions().isDefined():
            txns = self._listed(known.setTransactions().get())
            return next((int(txn["version"]) for txn in txns if txn["appId"] == app_id), None)
        found = self._java.transactions().get(app_id)
        return int(found.get()) if found.isDefined() else None

    def txns(self) -> list[Txn]:
        """The newest of each app id."""
        listed = self._listed(self._java.setTransactions())
        times = (txn.get("lastUpdated") for txn in listed)
        return [
            Txn(str(txn["appId"]), int(txn["version"]), None if millis is None else millis / 1000)
            for txn, millis in zip(listed, times, strict=True)
        ]

    def paths(self) -> set[str]:
        """The table's files, and those that it held not long ago; relative to its folder."""
        datasets = (self._java.allFiles(), self._java.tombstones())
        frames = (DataFrame(dataset.toDF(), self._spark).select("path") for dataset in datasets)
        return {unquote(row["path"]) for frame in frames for row in frame.collect()}

    def _listed(self, txns: Any) -> list[dict[str, Any]]:
        jvm: Any = self._spark._jvm
        found: list[dict[str, Any]] = json.loads(
            str(jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper().writeValueAsString(txns))
        )
        return found

    def files(self) -> int | None:
        """How many files the table has, if that is known without rebuilding its state."""
        if self.version < 0:
            return 0
        known = self._checksum()
        return None if known is None else int(known.numFiles())

    def compute_state(self) -> bool:
        """Let Delta compute the table's state, with which each of its checkpoints begins, and forget it again: a pass
        over all its files, so not where these are many, or nobody knows how many. Whether it did."""
        files = self.files()
        if files is None or files > FILES_PER_PARTITION:
            return False
        try:
            self._java.numOfRemoves()  # which no checksum says
        finally:
            self._java.uncache()  # or Spark keeps it on executors, and these from being given back
        return True

    def _checksum(self) -> Any:
        """What Delta wrote beside the version's commit; None when it is missing, or this Delta has none."""
        try:
            found = self._java.checksumOpt()
        except Py4JError:
            return None
        return found.get() if found.isDefined() else None
