"""The reader: a Python Data Source that yields Arrow batches of lines, and Spark's own `from_json` behind it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from blizzard.batch import PlannedFile
from blizzard.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.errors import PermanentError
from blizzard.partition import BadPartition, partition_values
from blizzard.storage.s3_connection import S3Settings
from spark_job.decode import Limits
from spark_job.engine import engine
from spark_job.fit import misfits, nullable_type, parsing_type
from spark_job.ports import Outcome
from spark_job.task import ReadSettings, TaskFile, TaskReader, column_names, outcome_of

if TYPE_CHECKING:
    import pyarrow as pa

CORRUPT = "_blizzard_corrupt"
PARSING = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    # What Spark 1.5 did: '20240128' as a DATE is the day so many days after 1970.
    "enableDateTimeParsingFallback": "false",
}
READ_AGAIN_OTHERWISE = "a file gave another outcome when it was read again; the batch is thrown away"
TARGET_TASK_BYTES = 128 << 20
TASKS_PER_CORE = 2


class BlizzardDataSource(DataSource):
    """`format("blizzard")`: reads exactly the files that its options name, in tasks that the driver packed."""

    @classmethod
    def name(cls) -> str:
        return "blizzard"

    def schema(self) -> StructType:
        return line_schema(int(self.options["partition_columns"]))

    def reader(self, schema: StructType) -> "BlizzardReader":
        return BlizzardReader(dict(self.options))


class BlizzardReader(DataSourceReader):
    """One read; it travels to the executors, so it holds nothing but text."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in json.loads(self._options["tasks"])]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        from blizzard.storage.open import open_store

        settings = json.loads(self._options["settings"])
        store = open_store(self._options["uri"], S3Settings(**json.loads(self._options["s3"])))
        read_settings = ReadSettings(settings["format"], settings["compression"], Limits(**settings["limits"]))
        files = [TaskFile(**{**file, "partitions": tuple(file["partitions"])}) for file in partition.value]
        return TaskReader(store, read_settings, int(self._options["partition_columns"])).batches(files)


def line_schema(partition_columns: int) -> StructType:
    """What the source yields: a row for each record, and one for each file that carries only its outcome."""
    types: dict[str, DataType] = {"row": LongType(), "modified": TimestampType(), "undecodable": BinaryType()}
    return StructType([StructField(name, types.get(name, StringType())) for name in column_names(partition_columns)])


def pack(files: Sequence[TaskFile], cores: int) -> list[list[TaskFile]]:
    """Spread the files over tasks of about equal bytes, files of one folder together where that costs no balance."""
    total = sum(file.size for file in files) + 4096 * len(files)  # a small file costs its request, not its bytes
    count = max(1, min(len(files), max(cores * TASKS_PER_CORE, -(-total // TARGET_TASK_BYTES))))
    share = total / count
    tasks: list[list[TaskFile]] = [[]]
    filled = 0.0
    for file in sorted(files, key=lambda file: file.path):
        if filled >= share * len(tasks) and len(tasks) < count:
            tasks.append([])
        tasks[-1].append(file)
        filled += file.size + 4096
    return tasks


class SparkReader:
    """Reads planned files of one source into rows of its table. `schema` is DDL; `spark` may start the session."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        *,
        uri: str,
        s3: S3Settings,
        settings: ReadSettings,
        schema: str,
        partition_columns: Mapping[str, str],
        source_id: str,
        dead_letters: DeadLetters,
        clock: Callable[[], float],
    ) -> None:
        self._session = spark
        self._uri = uri
        self._s3 = s3
        self._settings = settings
        self._ddl = schema
        self._partition_columns = partition_columns
        self._source_id = source_id
        self._dead_letters = dead_letters
        self._clock = clock
        self._registered = False

    @property
    def _spark(self) -> SparkSession:
        return self._session()

    @property
    def _schema(self) -> StructType:
        self._session()
        return columns_of(self._ddl)

    def read(self, files: Sequence[PlannedFile], *, sequence: int) -> "SparkRows":
        if not self._registered:
            self._spark.dataSource.register(BlizzardDataSource)
            self._registered = True
        lines = self._lines([self._task(file) for file in files])
        records = self._records(lines).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with engine(f"reading a batch of {len(files)} files"):
                found = self._outcomes(records)
        except BaseException:
            records.unpersist()
            raise
        outcomes = [_with_refused(row) for row in found]
        prints = [row["fingerprint"] for row in found]
        return SparkRows(records, outcomes, prints, self._to_rows(sequence), self._dead_letters, self._clock)

    def _task(self, file: PlannedFile) -> TaskFile:
        task = TaskFile(file.path, file.size, file.skip_records, file.slice_bytes, file.expected_etag)
        try:
            values = partition_values(file.path, self._partition_columns)
        except BadPartition as error:
            return replace(task, partitions=(None,) * len(self._partition_columns), refusal=str(error))
        return replace(task, partitions=tuple(values[column] for column in self._partition_columns))

    def _lines(self, files: Sequence[TaskFile]) -> DataFrame:
        tasks = pack(files, self._spark.sparkContext.defaultParallelism)
        options = {
            "uri": self._uri,
            "s3": json.dumps(asdict(self._s3)),
            "settings": json.dumps(asdict(self._settings)),
            "partition_columns": str(len(self._partition_columns)),
            "tasks": json.dumps([[asdict(file) for file in task] for task in tasks]),
        }
        return self._spark.read.format("blizzard").options(**options).load()

    def _records(self, lines: DataFrame) -> DataFrame:
        """Lines parsed into `record`; `fault` says why one is refused, and `line` is kept for those alone."""
        if self._settings.format == "text":
            parsed = lines.withColumn("record", F.struct(F.col("line").alias("value")))
        else:
            parsed = self._parsed(lines)
        keep = F.col("fault").isNotNull()
        return parsed.withColumn("line", F.when(keep, F.col("line")))

    def _parsed(self, lines: DataFrame) -> DataFrame:
        to_parse = F.when(F.col("fault").isNull(), F.col("line"))
        record = F.from_json(to_parse, _with_corrupt(self._schema.fields), PARSING)
        parsed = lines.withColumn("record", record)
        is_record = F.col("line").isNotNull() & F.col("fault").isNull()
        misfit = F.when(is_record, self._misfit())
        return parsed.withColumn("fault", F.coalesce(F.col("fault"), misfit))

    def _misfit(self) -> Column:
        """Why a record that is good JSON does not fit the schema; null when it fits."""
        wrong_type = F.when(F.col(f"record.{CORRUPT}").isNotNull(), self._which_column())
        others = [F.when(m.condition, F.lit(m.reason)) for m in misfits(self._schema, F.col("record"))]
        return F.coalesce(wrong_type, *others)

    def _which_column(self) -> Column:
        """The first column whose value alone does not fit; evaluated for refused records only."""
        checks = []
        for field in self._schema.fields:
            parsed = F.from_json("line", _with_corrupt([field]), PARSING)
            text = f"{field.name}: the value does not fit {field.dataType.simpleString()}"
            checks.append(F.when(parsed[CORRUPT].isNotNull(), F.lit(text)))
        return F.coalesce(*checks, F.lit("the record does not fit the schema"))

    def _outcomes(self, records: DataFrame) -> list[Row]:
        """Run the read, once: everything is cached by this, the rows are written from the cache."""
        counted = (
            records.where(F.col("outcome").isNotNull() | F.col("fault").isNotNull())
            .groupBy("file")
            .agg(
                F.max("outcome").alias("outcome"),
                F.max(_fingerprint()).alias("fingerprint"),
                F.count("fault").alias("refused"),
            )
        )
        return counted.collect()

    def _to_rows(self, sequence: int) -> Callable[[DataFrame], DataFrame]:
        columns = [_as_wanted(field) for field in self._schema.fields]
        partitions = [
            F.col(f"partition_{index}").cast(type_name).alias(name)
            for index, (name, type_name) in enumerate(self._partition_columns.items())
        ]
        source = F.struct(
            F.lit(self._source_id).alias("source"),
            F.col("file"),
            F.col("row"),
            F.col("etag"),
            F.col("modified"),
            F.lit(sequence).cast("bigint").alias("sequence"),
        ).alias("_source")
        return lambda records: records.select(*columns, *partitions, source)


def _with_corrupt(fields: Iterable[StructField]) -> StructType:
    """What to parse: these fields, and where Spark says that one of them did not fit."""
    columns = [StructField(field.name, parsing_type(field.dataType)) for field in fields]
    return StructType([*columns, StructField(CORRUPT, StringType())])


def _as_wanted(field: StructField) -> Column:
    column = F.col("record").getField(field.name)
    wanted = nullable_type(field.dataType)
    return (column if parsing_type(field.dataType) == wanted else column.cast(wanted)).alias(field.name)


def _fingerprint() -> Column:
    return F.when(F.col("outcome").isNotNull(), F.xxhash64("outcome"))


def _with_refused(row: Row) -> Outcome:
    outcome = outcome_of(row["outcome"])
    dead = 0 if outcome.error is not None else int(row["refused"])
    rows = 0 if outcome.error is not None else outcome.rows - dead
    return replace(outcome, rows=rows, dead_records=dead)


class SparkRows:
    """The records of a batch in Spark's cache."""

    def __init__(
        self,
        records: DataFrame,
        outcomes: Sequence[Outcome],
        fingerprints: Sequence[int],
        to_rows: Callable[[DataFrame], DataFrame],
        dead_letters: DeadLetters,
        clock: Callable[[], float],
    ) -> None:
        self._records = records
        self._outcomes = outcomes
        self._fingerprints = fingerprints
        self._to_rows = to_rows
        self._dead_letters = dead_letters
        self._clock = clock

    @property
    def outcomes(self) -> Sequence[Outcome]:
        return self._outcomes

    @property
    def frame(self) -> DataFrame:
        """The rows to write. Should Spark lose a cached block and read a file again with another outcome, the write
        fails instead of committing something else than what was decided."""
        failed = [outcome.path for outcome in self._outcomes if outcome.error is not None]
        is_outcome = F.col("outcome").isNotNull()
        as_decided = _fingerprint().isin(list(self._fingerprints))
        changed = F.raise_error(F.lit(READ_AGAIN_OTHERWISE))
        good = F.col("fault").isNull() & (~F.col("file").isin(failed) if failed else F.lit(True))
        keep = F.when(is_outcome, F.when(as_decided, F.lit(False)).otherwise(changed.cast("boolean"))).otherwise(good)
        return self._to_rows(self._records.where(keep))

    def put_dead_records(self) -> None:
        failed = [outcome.path for outcome in self._outcomes if outcome.error is not None]
        refused = self._records.where(F.col("fault").isNotNull())
        if failed:
            refused = refused.where(~F.col("file").isin(failed))
        columns = ("file", "etag", "row", "line", "undecodable", "fault")
        letters = refused.select(*columns).sort("file", "row").toLocalIterator()
        self._dead_letters.put_records((_letter(row) for row in letters), self._clock())

    def release(self) -> None:
        self._records.unpersist()


def _letter(row: Row) -> DeadLetter:
    raw = bytes(row["undecodable"]) if row["undecodable"] is not None else row["line"]
    return DeadLetter(row["file"], row["etag"], Stage.PARSE, row["fault"], row["row"], raw)


def columns_of(ddl: str) -> StructType:
    """A DDL schema's columns. Needs a session: Spark's own parser reads it."""
    parsed = StructType.fromDDL(ddl)
    if not isinstance(parsed, StructType):
        raise PermanentError(f"schema {ddl!r}: expected columns, found the type {parsed.simpleString()}")
    return parsed
