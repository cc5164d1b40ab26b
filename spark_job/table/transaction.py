"""Commits that adopt: data files that are there already enter the table by one transaction of Delta's own."""

import json
import time
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_job.table.file_layout import Described
from spark_job.table.snapshot import Snapshot
from spark_job.write.parquet_files import DataFile, TableLayout

_CLASSES = "org.apache.spark.sql.delta."
_WRITE_FIELDS = 4
"""Of `DeltaOperations.Write`: mode, partitionBy, predicate, userMetadata. Newer Deltas have more, all Options."""
_IN_PATHS = frozenset("/_-!.~'()*@&=+$,;")
"""Beside letters and digits, what Hadoop leaves as it is in the path of a URI."""
_APART = "fs.blizzard.apart"
"""A setting that nobody reads: Delta has one log in memory for each table and set of such settings."""
LACKING = (Py4JError, TypeError, AttributeError, IndexError)
"""How the gateway says that there is no such class, constructor or method."""


class WrittenRows(Protocol):
    """Rows that lie in data files."""

    @property
    def data_files(self) -> Sequence[DataFile]: ...

    @property
    def layout(self) -> TableLayout: ...


class DeltaTransactions:
    """Transactions of one table. What they need lies behind Delta's public interface and may differ in another build:
    `missing` says so before anything is written."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._delta = jvm.org.apache.spark.sql.delta
        self._some, self._none = jvm.scala.Option.apply, jvm.scala.Option.empty()

    def snapshot(self) -> Snapshot:
        """The newest version of the table."""
        return self._newest(self._log())

    def apart(self) -> Snapshot:
        """The newest version, read anew into objects of its own: while one of Delta's computes something, whoever asks
        it for something else waits."""
        options = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({_APART: "true"})
        path = self._jvm.org.apache.hadoop.fs.Path(self._uri)
        return self._newest(self._delta.DeltaLog.forTable(self._spark._jsparkSession, path, options))

    def begin(self, *, newest: bool = True) -> "Transaction":
        """On the newest version of the table, or on the one that this process has seen last."""
        log = self._log()
        version = self._none if newest else self._some(log.unsafeVolatileSnapshot())
        return Transaction(self._spark, log.startTransaction(self._none, version))

    def _newest(self, log: Any) -> Snapshot:
        return Snapshot(self._spark, log.update(False, self._none, self._none))

    def _log(self) -> Any:
        return self._delta.DeltaLog.forTable(self._spark._jsparkSession, self._uri)

    def missing(self) -> str | None:
        """What an adopting commit needs and this Delta lacks; None if it has all. Commits nothing."""
        try:
            transaction = self.begin(newest=False)
        except Py4JJavaError:
            raise  # the table's trouble, not Delta's
        except LACKING as error:
            return _lack(error)
        try:
            return transaction.rehearse()
        except LACKING as error:
            return _lack(error)


class Transaction:
    """A commit in the making. `java` is Delta's OptimisticTransaction."""

    def __init__(self, spark: SparkSession, java: Any) -> None:
        self._spark = spark
        self._java = java
        gateway: Any = spark.sparkContext._gateway
        self._gateway = gateway
        self._jvm = gateway.jvm
        self._delta = self._jvm.org.apache.spark.sql.delta
        self.snapshot = Snapshot(spark, java.snapshot())

    def described(self) -> Described:
        """The table as it is after this commit."""
        return Described.of(str(self._java.metadata().json()), str(self._java.protocol().json()))

    def txn_version(self, app_id: str) -> int | None:
        """The newest Txn of this app id. From here on a concurrent commit of the same app id is a conflict."""
        self._java.readTxn().addOne(app_id)
        return self.snapshot.txn_version(app_id)

    def create_table(self, schema: StructType, partition_by: Sequence[str], properties: Mapping[str, str]) -> None:
        """The commit makes the table, too. Of two that do, one gets ProtocolChangedException."""
        metadata = {
            "id": str(uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema.json(),
            "partitionColumns": list(partition_by),
            "configuration": dict(properties),
            "createdTime": time.time_ns() // 1_000_000,
        }
        self._java.updateMetadata(self._action("metaData", metadata), False)

    def commit(self, files: Sequence[DataFile], *, app_id: str, sequence: int, user_metadata: str) -> int:
        """Returns the version. Any error may come after the commit has reached the log."""
        return int(self._java.commit(*self._prepared(files, app_id, sequence, user_metadata)))

    def rehearse(self) -> str | None:
        """Make all that a commit needs, and look at it; nothing is committed. None if it is as expected."""
        self._java.readTxn().isEmpty()
        self.snapshot.stats_columns()
        if self.snapshot.version < 0:
            self.create_table(StructType().add("a", "string"), (), {})
        _, operation = self._prepared([DataFile("a b", 1, 1, 0.0, {}, "{}")], "blizzard", 0, "rehearsal")
        found = (
            str(operation.mode().name()),
            str(operation.userMetadata().get()),
            bool(operation.predicate().isEmpty()),
        )
        expected = ("Append", "rehearsal", True)
        return None if found == expected else f"{_CLASSES}DeltaOperations.Write: expected {expected}, found {found}"

    def _prepared(self, files: Sequence[DataFile], app_id: str, sequence: int, user_metadata: str) -> tuple[Any, Any]:
        self._register_metrics(files)
        actions = self._added(files)
        txn = {"appId": app_id, "version": sequence, "lastUpdated": time.time_ns() // 1_000_000}
        actions.add(0, self._action("txn", txn))
        return self._seq(actions), self._write(user_metadata)

    def _action(self, kind: str, fields: Mapping[str, object]) -> Any:
        return self._delta.actions.Action.fromJson(json.dumps({kind: fields}))

    def _added(self, files: Sequence[DataFile]) -> Any:
        """A Java list of AddFile actions, made by one call however many there are."""
        adds = [
            {
                "path": url_path(file.path),
                "partitionValues": {name: value or None for name, value in file.partition_values.items()},
                "size": file.size,
                "modificationTime": round(file.modified_ts * 1000),
                "dataChange": True,
                "stats": file.stats,
            }
            for file in files
        ]
        mapper, array_list = self._delta.util.JsonUtils.mapper(), self._jvm.java.util.ArrayList().getClass()
        list_type = mapper.getTypeFactory().constructCollectionType(array_list, self._class("actions.AddFile"))
        return mapper.readValue(json.dumps(adds), list_type)

    def _write(self, user_metadata: str) -> Any:
        """The operation that history shows: an append."""
        none, some = self._jvm.scala.Option.empty(), self._jvm.scala.Option.apply
        partition_by = self._java.metadata().partitionColumns()
        values = [self._jvm.org.apache.spark.sql.SaveMode.Append, some(partition_by), none, some(user_metadata)]
        constructor = self._class("DeltaOperations$Write").getConstructors()[0]
        count = constructor.getParameterCount()
        arguments = self._gateway.new_array(self._jvm.java.lang.Object, count)
        for index, value in enumerate([*values, *[none] * (count - _WRITE_FIELDS)]):
            arguments[index] = value
        return constructor.newInstance(arguments)

    def _register_metrics(self, files: Sequence[DataFile]) -> None:
        """What history shows beside the operation."""
        counted = {
            "numFiles": len(files),
            "numOutputRows": sum(file.rows for file in files),
            "numOutputBytes": sum(file.size for file in files),
        }
        metrics, context = self._jvm.java.util.HashMap(), self._spark.sparkContext._jsc.sc()
        for name, value in counted.items():
            metric = self._jvm.org.apache.spark.sql.execution.metric.SQLMetrics.createMetric(context, name)
            metric.set(value)
            metrics.put(name, metric)
        scala_map = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(metrics)
        self._java.registerSQLMetrics(self._spark._jsparkSession, scala_map)

    def _class(self, name: str) -> Any:
        """Found by the loader that has Delta, which need not be the gateway's own."""
        return self._java.getClass().getClassLoader().loadClass(_CLASSES + name)

    def _seq(self, java_list: Any) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(java_list)


def _lack(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def url_path(path: str) -> str:
    """A path as Delta's log has it: encoded as Hadoop encodes the path of a URI."""
    return "".join(map(_url_char, path))


def _url_char(char: str) -> str:
    if char in _IN_PATHS or (char.isascii() and char.isalnum()):
        return char
    if char.isascii() or unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cc"):
        return "".join(f"%{byte:02X}" for byte in char.encode())
    return char
