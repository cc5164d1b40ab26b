"""Commit existing data files to a table, by a transaction of Delta's own classes on the driver."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from blizzard.errors import PermanentError
from blizzard.state.clustering import CLUSTERING
from spark_job.engines.spark.commit_errors import translate_commit_error
from spark_job.engines.spark.snapshot import Snapshot, set_snapshot_partitions
from spark_job.engines.spark.spark_errors import SPARK_ERRORS
from spark_job.table.add_action import add_fields
from spark_job.table.columns import stored_name
from spark_job.table.engine import NewTable
from spark_job.table.file_layout import TableDescription
from spark_job.table.log_actions import metadata_fields, txn_fields
from spark_job.table.schema import has_ntz
from spark_job.table.widening import WIDENING_PROPERTY, with_type_changes
from spark_job.write.data_file import DataFile

_DELTA_PACKAGE = "org.apache.spark.sql.delta."
_WRITER_PACKAGE = "commands"
CLUSTERING_FEATURES = {f"delta.feature.{name}": "supported" for name in ("clustering", "domainMetadata")}
_WRITE_OPERATION_FIELDS = 4
"""Fields of `DeltaOperations.Write`: mode, partitionBy, predicate, userMetadata. Newer versions have more, all
Options."""
NTZ_SUPPORTED = {"delta.feature.timestampNtz": "supported"}
"""By which Delta upgrades the protocol of a table; it does so for no column alone, and does not keep the property."""
_INDEPENDENT_LOG = "fs.blizzard.apart"
"""An option that nothing reads. Delta caches one DeltaLog for each table and set of `fs.` options, so this option makes
it create a second one."""
MISSING_API_ERRORS = (Py4JError, TypeError, AttributeError, IndexError)
"""Errors of the gateway when a class, constructor or method does not exist."""


class DeltaTransactions:
    """Transactions and snapshots of one table. They use classes that are not part of Delta's public interface and may
    differ in another build; `missing_api` checks them before anything is written."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._delta = jvm.org.apache.spark.sql.delta
        self._some, self._none = jvm.scala.Option.apply, jvm.scala.Option.empty()

    def snapshot(self) -> Snapshot:
        """The newest version of the table."""
        return self._updated(self._delta_log())

    def independent_snapshot(self) -> Snapshot:
        """The newest version, from a second DeltaLog. A snapshot's methods lock its DeltaLog, so a long computation in
        the DeltaLog of the commits would block them."""
        options = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({_INDEPENDENT_LOG: "true"})
        path = self._jvm.org.apache.hadoop.fs.Path(self._uri)
        return self._updated(self._delta.DeltaLog.forTable(self._spark._jsparkSession, path, options))

    def start(self, *, newest: bool = True) -> "Transaction":
        """`newest`: on the newest version of the table; otherwise on the one that this process has seen last."""
        log = self._delta_log()
        version = self._none if newest else self._some(log.unsafeVolatileSnapshot())
        transaction = Transaction(self._spark, log.startTransaction(self._none, version))
        set_snapshot_partitions(self._spark, transaction.snapshot)
        return transaction

    def make(self, table: NewTable) -> None:
        """In a commit of its own, without rows and Txn."""
        self.start().make(table)

    def _updated(self, log: Any) -> Snapshot:
        return Snapshot(self._spark, log.update(False, self._none, self._none))

    def _delta_log(self) -> Any:
        return self._delta.DeltaLog.forTable(self._spark._jsparkSession, self._uri)

    def missing_api(self) -> str | None:
        """The first class or method that a commit needs and this build of Delta lacks, or has with another meaning;
        None if nothing is missing. Commits nothing."""
        try:
            transaction = self.start(newest=False)
        except Py4JJavaError:
            raise  # an exception of Java is a problem of the table, not of Delta's interface
        except MISSING_API_ERRORS as error:
            return _one_line(error)
        try:
            return transaction.dry_run()
        except MISSING_API_ERRORS as error:
            return _one_line(error)


class Transaction:
    """`java` is Delta's OptimisticTransaction."""

    def __init__(self, spark: SparkSession, java: Any) -> None:
        self._spark = spark
        self._java = java
        gateway: Any = spark.sparkContext._gateway
        self._gateway = gateway
        self._jvm = gateway.jvm
        self._delta = self._jvm.org.apache.spark.sql.delta
        self.snapshot = Snapshot(spark, java.snapshot())
        self._domains: list[Any] = []
        self._txns: dict[str, int] = {}

    def description(self) -> TableDescription:
        return TableDescription.from_actions(str(self._java.metadata().json()), str(self._java.protocol().json()))

    @property
    def version(self) -> int:
        return self.snapshot.version

    def stats_columns(self) -> Sequence[str]:
        return self.snapshot.stats_columns()

    def txn_version(self, app_id: str) -> int | None:
        self._java.readTxn().addOne(app_id)
        return self.snapshot.txn_version(app_id)

    def add_txns(self, txns: Mapping[str, int]) -> None:
        for app_id in txns:
            self._java.readTxn().addOne(app_id)
        self._txns = dict(txns)

    def create_table(self, table: NewTable) -> None:
        """If two commits do so, the second one gets ProtocolChangedException."""
        properties = {**table.properties, **(CLUSTERING_FEATURES if table.cluster_by else {})}
        metadata = metadata_fields(table, properties, time.time_ns() // 1_000_000)
        self._java.updateMetadata(self._action("metaData", metadata), False)
        if table.cluster_by:
            self._domains = [self._clustering(table.cluster_by)]

    def _clustering(self, columns: Sequence[str]) -> Any:
        """Delta knows columns by the names under which it stores them."""
        schema = self.description().schema
        stored = [[stored_name(schema[name])] for name in columns]
        text = json.dumps({"clusteringColumns": stored, "domainName": CLUSTERING})
        return self._action("domainMetadata", {"domain": CLUSTERING, "configuration": text, "removed": False})

    def make(self, table: NewTable) -> None:
        """Commit a new table without rows and Txn."""
        self.create_table(table)
        actions = self._jvm.java.util.ArrayList()
        for domain in self._domains:
            actions.add(domain)
        try:
            self._java.commit(self._scala_seq(actions), self._write_operation(""))
        except SPARK_ERRORS as error:
            raise translate_commit_error(error) from error

    def change_schema(self, schema: StructType, *, widens: bool, properties: Mapping[str, str]) -> None:
        """Delta upgrades the table's protocol by itself where a property or a type asks for it."""
        metadata = json.loads(str(self._java.metadata().json()))["metaData"]
        before = StructType.fromJson(json.loads(metadata["schemaString"]))
        metadata["schemaString"] = with_type_changes(before, schema).json()
        asked = {**properties, **({WIDENING_PROPERTY: "true"} if widens else {})}
        asked |= NTZ_SUPPORTED if has_ntz(schema) and not has_ntz(before) else {}
        metadata["configuration"] = {**metadata.get("configuration", {}), **asked}
        self._java.updateMetadata(self._action("metaData", metadata), False)

    def commit(self, files: Sequence[DataFile], *, app_id: str, sequence: int, user_metadata: str) -> int:
        try:
            return int(self._java.commit(*self._commit_arguments(files, app_id, sequence, user_metadata)))
        except SPARK_ERRORS as error:
            raise translate_commit_error(error) from error

    def commit_rows(self, rows: DataFrame, user_metadata: str) -> int:
        """Let Delta write the rows as its public writer does, which takes one Txn, and commit them with those that were
        added. Errors as for `commit`; PermanentError if this build of Delta writes in another way."""
        try:
            written = self._written(rows)
            actions = self._txn_actions(self._txns)
            actions.addAll(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(written.actions()))
            operation, tags = self._write_operation(user_metadata), written.stringTags()
            return int(self._java.commit(self._scala_seq(actions), operation, tags))
        except SPARK_ERRORS as error:
            raise translate_commit_error(error) from error

    def _written(self, rows: DataFrame) -> Any:
        """What Delta's writer has to commit: its TaggedCommitData. The public one makes the same command."""
        python, none = self._jvm.org.apache.spark.api.python.PythonUtils, self._jvm.scala.Option.empty()
        nothing, no_columns = python.toScalaMap({}), self._scala_seq(self._jvm.java.util.ArrayList())
        session, append = rows.sparkSession._jsparkSession, self._jvm.org.apache.spark.sql.SaveMode.Append
        try:
            options = self._delta.DeltaOptions(nothing, session.sessionState().conf())
            arguments = self._java.deltaLog(), append, options, no_columns, nothing, rows._jdf, none, none
            command = getattr(self._delta, _WRITER_PACKAGE).WriteIntoDelta(*arguments)
            return command.writeAndReturnCommitData(self._java, session, none, False)
        except MISSING_API_ERRORS as error:
            if isinstance(error, Py4JError) and type(error) is not Py4JError:
                raise  # of what it did, or of the connection, and not of a method that is not there
            raise PermanentError(
                "the table takes only rows that Delta's own writer has written, and this build of Delta does not write "
                f"them into a commit with more than one Txn: {_one_line(error)}. Nothing was committed. Use the jars "
                "that `blizzard setup` downloads, or let sources of topics feed a table without the property or "
                "feature that the log names (rows_written_twice)."
            ) from error

    def dry_run(self) -> str | None:
        """Build everything that a commit needs, without committing it. Returns what differs from the expected, or
        None."""
        self._java.readTxn().isEmpty()
        self.snapshot.stats_columns()
        if self.snapshot.version < 0:
            self.create_table(NewTable(StructType().add("a", "string"), (), {}))
        _, operation = self._commit_arguments([DataFile("a b", 1, 1, 0.0, {}, "{}")], "blizzard", 0, "rehearsal")
        found = (
            str(operation.mode().name()),
            str(operation.userMetadata().get()),
            bool(operation.predicate().isEmpty()),
        )
        expected = ("Append", "rehearsal", True)
        return (
            None if found == expected else f"{_DELTA_PACKAGE}DeltaOperations.Write: expected {expected}, found {found}"
        )

    def _commit_arguments(
        self, files: Sequence[DataFile], app_id: str, sequence: int, user_metadata: str
    ) -> tuple[Any, Any]:
        """The actions and the operation."""
        self._register_metrics(files)
        actions = self._txn_actions({app_id: sequence, **self._txns})
        actions.addAll(self._add_file_actions(files))
        return self._scala_seq(actions), self._write_operation(user_metadata)

    def _txn_actions(self, txns: Mapping[str, int]) -> Any:
        """A Java list of them, and of what else the commit has beside files."""
        actions, now_ms = self._jvm.java.util.ArrayList(), time.time_ns() // 1_000_000
        for app_id, version in txns.items():
            actions.add(self._action("txn", txn_fields(app_id, version, now_ms)))
        for domain in self._domains:
            actions.add(domain)
        return actions

    def _action(self, kind: str, fields: Mapping[str, object]) -> Any:
        return self._delta.actions.Action.fromJson(json.dumps({kind: fields}))

    def _add_file_actions(self, files: Sequence[DataFile]) -> Any:
        """A Java list of AddFile actions, made by one call to the JVM for all files."""
        adds = [*map(add_fields, files)]
        mapper, array_list = self._delta.util.JsonUtils.mapper(), self._jvm.java.util.ArrayList().getClass()
        list_type = mapper.getTypeFactory().constructCollectionType(array_list, self._load_class("actions.AddFile"))
        return mapper.readValue(json.dumps(adds), list_type)

    def _write_operation(self, user_metadata: str) -> Any:
        """The operation in the table's history: an append."""
        none, some = self._jvm.scala.Option.empty(), self._jvm.scala.Option.apply
        partition_by = self._java.metadata().partitionColumns()
        values = [self._jvm.org.apache.spark.sql.SaveMode.Append, some(partition_by), none, some(user_metadata)]
        constructor = self._load_class("DeltaOperations$Write").getConstructors()[0]
        count = constructor.getParameterCount()
        arguments = self._gateway.new_array(self._jvm.java.lang.Object, count)
        for index, value in enumerate([*values, *[none] * (count - _WRITE_OPERATION_FIELDS)]):
            arguments[index] = value
        return constructor.newInstance(arguments)

    def _register_metrics(self, files: Sequence[DataFile]) -> None:
        """The operation metrics in the table's history."""
        values = {
            "numFiles": len(files),
            "numOutputRows": sum(file.rows for file in files),
            "numOutputBytes": sum(file.size for file in files),
        }
        metrics, context = self._jvm.java.util.HashMap(), self._spark.sparkContext._jsc.sc()
        for name, value in values.items():
            metric = self._jvm.org.apache.spark.sql.execution.metric.SQLMetrics.createMetric(context, name)
            metric.set(value)
            metrics.put(name, metric)
        scala_map = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(metrics)
        self._java.registerSQLMetrics(self._spark._jsparkSession, scala_map)

    def _load_class(self, name: str) -> Any:
        """The class, from the class loader that has loaded Delta, which may differ from the gateway's."""
        return self._java.getClass().getClassLoader().loadClass(_DELTA_PACKAGE + name)

    def _scala_seq(self, java_list: Any) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(java_list)


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
