"""Data files that are there already enter the table by one commit, or by Spark's writer where the table needs it."""

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from blizzard.errors import BlizzardError, CommitOutcomeUnknown, LostRace, PermanentError, RetryableError
from blizzard.storage.local import LocalStore
from spark_job.ports.stopwatch import Stopwatch
from spark_job.table import transaction
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.snapshot import PARTITIONS_SETTING
from spark_job.write.parquet_files import DataFile, TableLayout
from tests.spark.lake import jobs_so_far

pytestmark = pytest.mark.spark

APP_ID = "blizzard:events:landing"
SCHEMA = "id STRING NOT NULL, n BIGINT"
SOURCE = pa.struct(
    [
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("etag", pa.string()),
        ("modified", pa.timestamp("us", "UTC")),
        ("sequence", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Written:
    data_files: Sequence[DataFile]
    layout: TableLayout


@dataclass
class World:
    """A table in a folder, and a writer of data files by hand."""

    folder: Path
    spark: Callable[[], SparkSession]
    now_ts: Callable[[], float] = time.time
    written: int = 0
    schema: str = SCHEMA
    partition_by: tuple[str, ...] = ()
    partition_columns: dict[str, str] = field(default_factory=dict)

    @property
    def table(self) -> Path:
        return self.folder / "table"

    def source(self, name: str = "landing", **changes: Any) -> DeltaSourceTable:
        """As a new process sees the table."""
        wanted: dict[str, Any] = {
            "uri": str(self.table),
            "store": LocalStore(self.table, may_be_missing=True),
            "app_id": f"blizzard:events:{name}",
            "source_id": f"events:{name}",
            "schema": self.schema,
            "partition_columns": self.partition_columns,
            "partition_by": self.partition_by,
            "clock": self.now_ts,
        }
        return DeltaSourceTable(self.spark, **{**wanted, **changes})

    def write(self, layout: TableLayout, *ids: str | None, folder: str = "", **more: Any) -> DataFile:
        """One Parquet file with these ids; `more`: constant columns, and those of the partition under their names."""
        self.written += 1
        named = f"{self.written:05d}.parquet"
        origin = {"source": "events:landing", "file": f"f{self.written}", "row": 0, "etag": "e", "sequence": 0}
        columns = {"id": pa.array(ids, pa.string()), "n": pa.array(range(len(ids)), pa.int64())}
        columns |= {name: pa.array([value] * len(ids)) for name, value in more.items()}
        columns["_source"] = pa.array([{**origin, "modified": datetime.now(UTC)}] * len(ids), SOURCE)
        partitions = {name: columns.pop(name)[0].as_py() for name in layout.partition_by}
        path = f"{layout.folder}{folder}part-{named}"
        file = self.table / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), file)
        low, high = min(filter(None, ids), default=""), max(filter(None, ids), default="")
        stats = {"numRecords": len(ids), "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
        values = {name: None if value is None else str(value) for name, value in partitions.items()}
        return DataFile(path, file.stat().st_size, len(ids), file.stat().st_mtime, values, json.dumps(stats))

    def append(self, sequence: int, *ids: str | None, table: DeltaSourceTable | None = None) -> None:
        source = table or self.source()
        layout = source.layout()
        rows = Written([self.write(layout, *ids)] if ids else [], layout)
        source.append(rows, sequence=sequence, user_metadata=f"state {sequence}")

    def sql(self, text: str) -> list[Any]:
        """`{t}` is the table."""
        return self.spark().sql(text.replace("{t}", f"delta.`{self.table}`")).collect()

    def make(self, columns: str = SCHEMA, more: str = "", **settings: str) -> None:
        """A table that somebody else has made."""
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in settings.items())
        with_properties = f"TBLPROPERTIES ({properties})" if properties else ""
        source = (
            "STRUCT<source: STRING, file: STRING, row: BIGINT, etag: STRING, modified: TIMESTAMP, sequence: BIGINT>"
        )
        self.sql(f"CREATE TABLE {{t}} ({columns}, _source {source}) USING delta {more} {with_properties}")

    def ids(self) -> list[str]:
        """By another engine."""
        return sorted(DeltaTable(str(self.table)).to_pyarrow_table()["id"].to_pylist())

    def ids_in_spark(self) -> list[str]:
        return sorted(row["id"] for row in self.sql("SELECT id FROM {t}"))

    def versions(self) -> list[int]:
        return sorted(int(f.stem) for f in (self.table / "_delta_log").glob("*.json") if f.stem.isdigit())

    def actions(self, version: int = -1) -> list[dict[str, Any]]:
        file = self.table / "_delta_log" / f"{self.versions()[version]:020d}.json"
        return [json.loads(line) for line in file.read_text().splitlines()]

    def txn(self, app_id: str = APP_ID) -> int | None:
        """By another engine."""
        return DeltaTable(str(self.table)).transaction_version(app_id)

    def staged(self) -> list[Path]:
        return sorted(self.table.glob("_blizzard/*/staging/**/*.parquet"))


@pytest.fixture
def world(tmp_path: Path, spark: Callable[[], SparkSession]) -> World:
    return World(tmp_path, spark)


# -- tables that take the files as they are


def test_the_first_commit_makes_the_table_and_holds_rows_and_state(world: World) -> None:
    world.append(0, "a", "b")
    assert world.versions() == [0]
    assert world.ids() == world.ids_in_spark() == ["a", "b"]
    assert world.txn() == 0
    add = next(action["add"] for action in world.actions() if "add" in action)
    assert (world.table / add["path"]).exists()


def test_commits_run_no_job_of_spark_and_list_no_files_in_their_checksums(world: World) -> None:
    before = jobs_so_far(world.spark())
    for sequence in range(3):
        world.append(sequence, f"{sequence}")
    assert jobs_so_far(world.spark()) == before
    checksums = [json.loads(file.read_text()) for file in sorted((world.table / "_delta_log").glob("[0-9]*.crc"))]
    assert [checksum["numFiles"] for checksum in checksums] == [1, 2, 3]
    assert [checksum["setTransactions"][0]["version"] for checksum in checksums] == [0, 1, 2]
    assert not any("allFiles" in checksum for checksum in checksums)


def test_history_shows_what_was_written_and_the_state(world: World) -> None:
    world.append(0, "a", "b")
    world.append(1, "c")
    newest = world.sql("DESCRIBE HISTORY {t} LIMIT 1")[0]
    assert (newest["operation"], newest["userMetadata"], newest["isBlindAppend"]) == ("WRITE", "state 1", True)
    size = next(action["add"]["size"] for action in world.actions() if "add" in action)
    assert newest["operationMetrics"] == {"numFiles": "1", "numOutputRows": "1", "numOutputBytes": str(size)}


def test_a_commit_of_state_alone_needs_no_files(world: World) -> None:
    source = world.source()
    source.append(None, sequence=0, user_metadata="empty")
    source.append(None, sequence=1, user_metadata="still")
    assert (world.versions(), world.txn(), world.ids()) == ([0, 1], 1, [])
    assert {name for action in world.actions() for name in action} == {"commitInfo", "txn"}


def test_a_table_made_by_a_commit_has_the_columns_and_properties_it_has_by_sparks_writer(world: World) -> None:
    world.schema = "id STRING NOT NULL, n BIGINT, t TIMESTAMP_NTZ, s STRUCT<a: INT, b: ARRAY<STRING>>, `x.y` DATE"
    world.source().append(None, sequence=0, user_metadata="by a transaction")
    by_transaction = world.actions()
    other = World(world.folder / "other", world.spark, schema=world.schema)
    lacking = other.source()
    lacking.preparation.__dict__["unsupported_reason"] = "as in a Delta that lacks something"
    lacking.append(None, sequence=0, user_metadata="by the writer")
    by_writer = other.actions()

    def described(actions: list[dict[str, Any]]) -> tuple[Any, Any]:
        metadata = next(action["metaData"] for action in actions if "metaData" in action)
        return {**metadata, "id": "", "createdTime": 0}, next(a["protocol"] for a in actions if "protocol" in a)

    assert described(by_transaction) == described(by_writer)
    columns = list(lacking._session().read.format("delta").load(str(other.table)).columns)
    assert columns == ["id", "n", "t", "s", "x.y", "_source"]


def test_the_layout_of_a_table_is_the_same_before_and_after_its_first_commit(world: World) -> None:
    world.schema = "id STRING, n BIGINT, s STRUCT<a: INT>, b BINARY, ok BOOLEAN, `x.y` DATE, day DATE"
    world.partition_by = ("day",)
    before = world.source().layout()
    world.source().append(None, sequence=0, user_metadata="")
    assert world.source().layout() == before
    source = tuple(f"_source.{name}" for name in SOURCE.names)
    assert before.stats_columns == ("id", "n", "`x.y`", *source)
    assert (before.folder, before.partition_by, before.string_prefix_chars) == ("", ("day",), 256)


def test_the_layout_follows_the_tables_own_wishes_for_statistics(world: World) -> None:
    world.make("id STRING, n BIGINT, m BIGINT", **{"delta.dataSkippingNumIndexedCols": "2"})
    layout = world.source(target_file_bytes=1000).layout()
    assert (layout.stats_columns, layout.string_prefix_chars) == (("id", "n"), 32)
    assert layout.target_file_bytes == 1000
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'm,_source.file')")
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingStringPrefixLength' = '64')")
    layout = world.source().layout()
    assert (layout.stats_columns, layout.string_prefix_chars) == (("m", "_source.file"), 64)


NAMES = ["plain", "a b", "50%", "a=b", "né", "日本", "a/b", "a#b", "a:b", "q'", "😀"]


def test_any_partition_value_finds_its_file_again_and_vacuum_leaves_it_alone(world: World) -> None:
    world.schema = f"{SCHEMA}, p STRING"
    world.partition_by = ("p",)
    source = world.source()
    layout = source.layout()
    folders = {name: _hive(name) for name in NAMES}
    files = [world.write(layout, f"id {name}", p=name, folder=f"p={folder}/") for name, folder in folders.items()]
    nulls = world.write(layout, "id null", p="", folder="p=__HIVE_DEFAULT_PARTITION__/")
    source.append(Written([*files, nulls], layout), sequence=0, user_metadata="")
    world.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    world.sql("VACUUM {t} RETAIN 0 HOURS")
    expected = {"id null": None, **{f"id {name}": name for name in NAMES}}
    assert dict(world.sql("SELECT id, p FROM {t}")) == expected
    by_another = DeltaTable(str(world.table)).to_pyarrow_table()
    assert dict(zip(by_another["id"].to_pylist(), by_another["p"].to_pylist(), strict=True)) == expected
    asked = ", ".join(f'"{name}"' for name in NAMES)
    assert world.sql(f"SELECT count(*) FROM {{t}} WHERE p IN ({asked})") == [(len(NAMES),)]


def _hive(value: str) -> str:
    """As Spark names folders."""
    return "".join(f"%{ord(char):02X}" if char in "\"#%'*/:=?\\{[]^\x7f" or ord(char) < 32 else char for char in value)


def test_dates_and_numbers_are_partitions_as_delta_spells_them(world: World) -> None:
    world.schema = f"{SCHEMA}, ok BOOLEAN"
    world.partition_columns = {"day": "date", "hour": "int"}
    world.partition_by = ("day", "hour", "ok")
    source = world.source()
    layout = source.layout()
    file = world.write(layout, "a", day=date(2024, 2, 29), hour=7, ok="true", folder="day=2024-02-29/hour=7/ok=true/")
    source.append(Written([file], layout), sequence=0, user_metadata="")
    assert world.sql("SELECT day, hour, ok FROM {t} WHERE day = '2024-02-29' AND hour = 7 AND ok") == [
        (date(2024, 2, 29), 7, True)
    ]


def test_many_files_are_one_commit(world: World) -> None:
    source = world.source()
    layout = source.layout()
    one = world.write(layout, "a")
    body = (world.table / one.path).read_bytes()
    files = []
    for n in range(3000):
        (world.table / f"many-{n}.parquet").write_bytes(body)
        files.append(DataFile(f"many-{n}.parquet", one.size, 1, one.modified_ts, {}, one.stats))
    source.append(Written(files, layout), sequence=0, user_metadata="")
    assert world.sql("SELECT count(*) FROM {t}")[0][0] == 3000
    assert world.versions() == [0]


def test_delta_writes_its_checkpoints_and_they_keep_the_txn(world: World) -> None:
    source = world.source()
    for sequence in range(11):
        world.append(sequence, f"{sequence:02d}", table=source)
    pointer = json.loads((world.table / "_delta_log/_last_checkpoint").read_text())
    assert pointer["version"] == 10
    assert [version for version in range(11) if source.checkpoints_at(version)] == [10]
    log = world.table / "_delta_log"
    for file in [*log.glob("*.crc"), *(log / f"{version:020d}.json" for version in range(10))]:
        file.unlink()
    world.spark()._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert world.source().txn_version(APP_ID) == 10
    with pytest.raises(LostRace, match="sequence 10"):
        world.append(10, "again")
    world.append(11, "11")
    assert world.ids() == [f"{n:02d}" for n in range(12)]


def test_the_tables_own_interval_of_checkpoints_is_known(world: World) -> None:
    world.make(**{"delta.checkpointInterval": "3"})
    source = world.source()
    for sequence in range(7):
        world.append(sequence, f"{sequence:02d}", table=source)
    made = {int(file.name.split(".")[0]) for file in (world.table / "_delta_log").glob("*.checkpoint*.parquet")}
    assert made == {version for version in world.versions() if source.checkpoints_at(version)} == {3, 6}


def test_the_txn_lookup_of_a_commit_is_timed_for_itself(world: World) -> None:
    ticks = itertools.count()
    watch = Stopwatch(lambda: float(next(ticks)))
    source = world.source(watch=watch)
    with watch.part("commit"):
        world.append(0, "a", table=source)
    took = watch.secs()
    assert (took.lookup, took.commit) == (1.0, 2.0)


# -- one winner


def test_a_sequence_that_the_table_has_seen_is_not_committed_again(world: World) -> None:
    world.append(0, "a")
    world.append(1, "b")
    for sequence in (0, 1):
        with pytest.raises(LostRace, match="sequence 1"):
            world.append(sequence, "again")
    assert (world.versions(), world.ids()) == ([0, 1], ["a", "b"])


def test_of_two_transactions_of_one_source_that_overlap_one_wins(world: World) -> None:
    world.append(0, "a")
    slow, fast = world.source(), world.source()
    _overtaken(slow, lambda: world.append(1, "fast", table=fast))
    with pytest.raises(LostRace, match="ConcurrentTransaction"):
        world.append(1, "slow", table=slow)
    assert (world.versions(), world.ids(), world.txn()) == ([0, 1], ["a", "fast"], 1)


def test_of_two_sources_that_overlap_both_win(world: World) -> None:
    world.append(0, "a")
    slow = world.source()
    _overtaken(slow, lambda: world.append(5, "theirs", table=world.source("partner")))
    world.append(1, "ours", table=slow)
    assert world.ids() == ["a", "ours", "theirs"]
    assert (world.txn(), world.txn("blizzard:events:partner")) == (1, 5)


def test_of_two_that_make_the_table_one_wins(world: World) -> None:
    slow = world.source()
    _overtaken(slow, lambda: world.append(0, "fast"))
    with pytest.raises(LostRace):
        world.append(0, "slow", table=slow)
    assert (world.versions(), world.ids()) == ([0], ["fast"])


def test_what_others_do_to_their_rows_is_no_conflict(world: World) -> None:
    world.append(0, "a", "b")
    world.append(1, "c")
    slow = world.source()

    def others() -> None:
        world.sql("OPTIMIZE {t}")
        world.sql("DELETE FROM {t} WHERE id = 'a'")
        world.sql("INSERT INTO {t} (id, n) VALUES ('theirs', 1)")

    _overtaken(slow, others)
    world.append(2, "ours", table=slow)
    assert world.ids() == ["b", "c", "ours", "theirs"]
    assert world.versions() == [0, 1, 2, 3, 4, 5]


def _overtaken(source: DeltaSourceTable, by: Callable[[], object]) -> None:
    """Somebody else commits between the begin of the source's next commit and its end."""
    begin, turns = source.preparation.start_transaction, iter([False, True])

    def overtaken(**named: Any) -> Any:
        transaction = begin(**named)
        if next(turns, False):
            commit = transaction.commit

            def late(*args: Any, **named: Any) -> int:
                by()
                return commit(*args, **named)

            transaction.commit = late  # type: ignore[method-assign]
        return transaction

    source.preparation.start_transaction = overtaken  # type: ignore[method-assign]


def test_an_error_after_the_commit_leaves_its_outcome_open(world: World) -> None:
    source = world.source()
    world.append(0, "a", table=source)
    layout = source.layout()
    begin = source.preparation.start_transaction

    def breaking(**named: Any) -> Any:
        transaction = begin(**named)
        commit = transaction.commit

        def then_break(*args: Any, **named: Any) -> int:
            commit(*args, **named)
            return int(source._session()._jvm.java.lang.Integer.parseInt("a hook that fails"))

        transaction.commit = then_break  # type: ignore[method-assign]
        return transaction

    source.preparation.start_transaction = breaking  # type: ignore[method-assign]
    with pytest.raises(CommitOutcomeUnknown):
        source.append(Written([world.write(layout, "b")], layout), sequence=1, user_metadata="")
    assert world.ids() == ["a", "b"]


# -- a table that changes


def test_a_log_that_delta_cannot_read_is_an_error_of_this_source_whatever_asks_for_it(world: World) -> None:
    world.append(0, "a")
    layout = world.source().layout(staged=True)
    staged = Written([world.write(layout, "b")], layout)
    (world.table / "_delta_log" / f"{1:020d}.json").write_text("torn\n")
    calls: dict[str, Callable[[DeltaSourceTable], object]] = {
        "txn_version": lambda table: table.txn_version(APP_ID),
        "txns": lambda table: table.txns(),
        "loose_files": lambda table: table.loose_files(),
        "holds_rows": lambda table: table.holds_rows(),
        "files_after": lambda table: table.files_after(-1),
        "etags": lambda table: table.etags(["f1"]),
        "prepare": lambda table: table.prepare(),
        "append nothing": lambda table: table.append(None, sequence=1, user_metadata=""),
        "append": lambda table: table.append(Written([], TableLayout("", (), (), 0, 1)), sequence=1, user_metadata=""),
        "append staged": lambda table: table.append(staged, sequence=1, user_metadata=""),
        "replace": lambda table: table.replace(staged, ["f1"], sequence=1, user_metadata=""),
    }
    found: dict[str, object] = {}
    for name, call in calls.items():
        with pytest.raises(BlizzardError) as raised:
            call(world.source())
        found[name] = type(raised.value)
    reading = {name: kind for name, kind in found.items() if name != "replace"}
    assert reading == dict.fromkeys(reading, RetryableError)
    assert world.versions() == [0, 1]


def test_a_constraint_added_since_the_batch_was_read_throws_it_away(world: World) -> None:
    world.append(0, "a")
    source = world.source()
    layout = source.layout()
    rows = Written([world.write(layout, "b")], layout)
    world.sql("ALTER TABLE {t} ADD CONSTRAINT short CHECK (length(id) < 3)")
    with pytest.raises(RetryableError, match=r"delta\.constraints\.short"):
        source.append(rows, sequence=1, user_metadata="")
    assert world.ids() == ["a"]
    assert source.layout().folder.startswith("_blizzard/events_landing/staging/")


def test_a_table_made_otherwise_since_the_batch_was_read_is_refused(world: World) -> None:
    world.make()
    source = world.source()
    layout = source.layout()
    rows = Written([world.write(layout, "b")], layout)
    frame = world.spark().sql(f"SELECT id, CAST(n AS STRING) AS n, _source FROM delta.`{world.table}`")
    overwriting = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    overwriting.partitionBy("n").save(str(world.table))
    with pytest.raises(PermanentError, match="column n: expected bigint, found string; partition_by: expected"):
        source.append(rows, sequence=1, user_metadata="")
    assert world.ids() == []


def test_metadata_changed_within_the_commit_is_a_lost_race(world: World) -> None:
    world.append(0, "a")
    slow = world.source()
    _overtaken(slow, lambda: world.sql("ALTER TABLE {t} ADD CONSTRAINT short CHECK (length(id) < 3)"))
    with pytest.raises(LostRace, match=r"MetadataChanged|ProtocolChanged"):
        world.append(1, "too long", table=slow)
    assert world.ids() == ["a"]


def test_a_column_that_the_table_lacks_is_added_before_the_commit(world: World) -> None:
    world.append(0, "a")
    source = world.source("partner", schema="id STRING, n BIGINT, region STRING")
    layout = source.layout()
    rows = Written([world.write(layout, "b", region="north")], layout)
    source.append(rows, sequence=0, user_metadata="")
    assert sorted(world.sql("SELECT id, region FROM {t}")) == [("a", None), ("b", "north")]


def test_a_table_that_another_source_made_meanwhile_gets_this_ones_columns(world: World) -> None:
    source = world.source("partner", schema="id STRING, n BIGINT, region STRING")
    layout = source.layout()
    rows = Written([world.write(layout, "b", region="north")], layout)
    world.append(0, "a")
    source.append(rows, sequence=0, user_metadata="")
    assert sorted(world.sql("SELECT id, region FROM {t}")) == [("a", None), ("b", "north")]


def test_a_column_of_another_type_stops_the_source(world: World) -> None:
    world.make("id STRING, n STRING")
    with pytest.raises(PermanentError, match="column n: expected bigint, found string"):
        world.source().prepare()


# -- tables that need Spark's writer

NEEDY: Mapping[str, tuple[str, str, dict[str, str]]] = {
    "column n, NOT NULL": ("id STRING, n BIGINT NOT NULL", "", {}),
    "column mapping": (SCHEMA, "", {"delta.columnMapping.mode": "name"}),
    "column id with __CHAR_VARCHAR_TYPE_STRING": ("id VARCHAR(9), n BIGINT", "", {}),
    "partitions by x of type double": ("id STRING, n BIGINT, x DOUBLE", "PARTITIONED BY (x)", {}),
}


@pytest.mark.parametrize("reason", NEEDY)
def test_a_table_that_asks_more_than_files_gets_its_rows_from_sparks_writer(world: World, reason: str) -> None:
    world.make(*NEEDY[reason][:2], **NEEDY[reason][2])
    more = {"x": 0.5} if "x" in reason.split() else {}
    if more:
        world.schema, world.partition_by = f"{SCHEMA}, x DOUBLE", ("x",)
    _stage(world, reason, **more)
    assert world.sql("SELECT id FROM {t} ORDER BY id") == [("a",), ("b",)]


def _stage(world: World, reason: str, **more: Any) -> None:
    """Append `a` and `b`, which is the longer way."""
    source = world.source()
    layout = source.layout()
    assert layout.folder.startswith("_blizzard/events_landing/staging/")
    assert (layout.partition_by, layout.stats_columns) == ((), ())
    assert str(source.layout_reason).startswith(reason)
    source.append(Written([world.write(layout, "a", "b", **more)], layout), sequence=0, user_metadata="state")
    assert world.txn() == 0
    assert world.staged() == []


def test_a_table_that_makes_columns_itself_goes_on_doing_so(world: World) -> None:
    world.make()
    other = World(world.folder / "other", world.spark)
    tables = world.spark()._jvm.io.delta.tables
    column = tables.DeltaTable.columnBuilder(world.spark()._jsparkSession, "twice")
    twice = column.dataType("BIGINT").generatedAlwaysAs("n * 2").build()
    numbered = tables.DeltaTable.columnBuilder(world.spark()._jsparkSession, "k").dataType("BIGINT")
    made = tables.DeltaTable.create(world.spark()._jsparkSession).location(str(other.table))
    for name, kind in (("id", "STRING"), ("n", "BIGINT"), ("_source", _source_type(world))):
        made = made.addColumn(name, kind)
    made.addColumn(twice).addColumn(numbered.generatedAlwaysAsIdentity().build()).execute()
    _stage(other, "column twice with delta.generationExpression")
    rows = other.sql("SELECT id, twice, k FROM {t} ORDER BY id")
    assert [(row["id"], row["twice"]) for row in rows] == [("a", 0), ("b", 2)]
    assert len({row["k"] for row in rows} - {None}) == 2


def _source_type(world: World) -> str:
    schema = world.spark().read.format("delta").load(str(world.table)).schema
    return str(schema["_source"].dataType.simpleString())


FEATURES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpointPolicy": "v2",
    "delta.enableTypeWidening": "true",
}


@pytest.mark.parametrize(("more", "properties"), [("", FEATURES), ("CLUSTER BY (n)", {})])
def test_features_that_ask_nothing_of_an_append_keep_the_fast_path(
    world: World, more: str, properties: Mapping[str, str]
) -> None:
    world.make(SCHEMA, more, **properties)
    source = world.source()
    layout = source.layout()
    assert (layout.folder, source.layout_reason) == ("", None)
    for sequence in range(2):
        files = [world.write(layout, f"{sequence}a", f"{sequence}b")]
        source.append(Written(files, layout), sequence=sequence, user_metadata="")
    world.sql("DELETE FROM {t} WHERE id = '0a'")
    world.sql("UPDATE {t} SET n = 7 WHERE id = '1a'")
    assert sorted(world.sql("SELECT id, n FROM {t}")) == [("0b", 1), ("1a", 7), ("1b", 1)]
    world.sql("OPTIMIZE {t}")
    assert sorted(world.sql("SELECT id, n FROM {t}")) == [("0b", 1), ("1a", 7), ("1b", 1)]
    if properties:
        changes = world.sql(f"SELECT id, _change_type FROM table_changes_by_path('{world.table}', 1, 2)")
        assert sorted(changes) == [(f"{n}{letter}", "insert") for n in range(2) for letter in "ab"]


def test_a_row_that_violates_a_check_does_not_get_in(world: World) -> None:
    world.append(0, "ok")
    world.sql("ALTER TABLE {t} ADD CONSTRAINT short CHECK (length(id) < 3)")
    source = world.source()
    layout = source.layout()
    assert source.layout_reason == "a CHECK constraint (delta.constraints.short)"
    with pytest.raises((CommitOutcomeUnknown, PermanentError), match="short"):
        source.append(Written([world.write(layout, "no", "too long")], layout), sequence=1, user_metadata="")
    assert (world.ids(), world.txn()) == (["ok"], 0)


def test_a_new_table_with_features_by_default_is_made_by_sparks_writer(world: World) -> None:
    setting = "spark.databricks.delta.properties.defaults.columnMapping.mode"
    world.spark().conf.set(setting, "name")
    try:
        world.append(0, "a")
        assert [row[0] for row in world.sql("SELECT id FROM {t}")] == ["a"]
    finally:
        world.spark().conf.unset(setting)
    metadata = next(action["metaData"] for action in world.actions(0) if "metaData" in action)
    assert metadata["configuration"]["delta.columnMapping.mode"] == "name"


def test_a_delta_that_lacks_a_class_gets_staged_files_and_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "_DELTA_PACKAGE", "org.apache.spark.sql.delta.of.another.build.")
    source = world.source()
    world.append(0, "a", "b", table=source)
    assert "another.build" in str(source.layout_reason)
    source.append(None, sequence=1, user_metadata="alone")
    assert (world.ids(), world.txn(), world.versions()) == (["a", "b"], 1, [0, 1])


# -- staged rows


def test_replacing_takes_old_rows_out_and_new_ones_in(world: World) -> None:
    world.append(0, "old 1", "old 2")
    world.append(1, "other")
    source = world.source()
    layout = source.layout(staged=True)
    assert (source.layout_reason, layout.partition_by) == ("rows that replace others", ())
    rows = Written([world.write(layout, "new")], layout)
    rows_file = rows.data_files[0]
    replaced = pq.read_table(world.table / rows_file.path)
    source_column = replaced["_source"].to_pylist()
    fixed = replaced.set_column(2, "_source", pa.array([{**row, "file": "f1"} for row in source_column], SOURCE))
    pq.write_table(fixed, world.table / rows_file.path)
    source.replace(rows, ["f1"], sequence=2, user_metadata="state 2")
    assert (world.ids(), world.txn()) == (["new", "other"], 2)
    assert world.staged() == []


def test_replacing_by_nothing_takes_the_rows_out(world: World) -> None:
    world.append(0, "old")
    source = world.source()
    source.replace(Written([], source.layout(staged=True)), ["f1"], sequence=1, user_metadata="")
    assert (world.ids(), world.txn()) == ([], 1)


def test_what_attempts_left_in_staging_goes_after_a_day_and_nothing_else_goes(world: World) -> None:
    world.append(0, "kept")
    layout = world.source().layout(staged=True)
    world.write(layout, "left behind")
    other = world.table / "_blizzard/events_partner/staging/x/part.parquet"
    beside = world.table / "_blizzard/events_landing/receipts/r.json.gz"
    orphan = world.table / "part-orphan.parquet"
    for file in (other, beside, orphan):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    world.source().prepare()
    assert len(world.staged()) == 2
    world.now_ts = lambda: time.time() + 86_500
    world.source().prepare()
    assert world.staged() == [other]
    assert beside.exists()
    assert orphan.exists()
    assert world.ids() == ["kept"]


def test_staged_paths_with_pattern_characters_are_read(world: World) -> None:
    odd = World(world.folder / "a[b] {c}*", world.spark)
    odd.make("id STRING, n BIGINT NOT NULL")
    odd.append(0, "a")
    assert [row[0] for row in odd.sql("SELECT id FROM {t}")] == ["a"]


# -- Delta's own settings


def test_the_partitions_of_deltas_state_follow_the_table(world: World) -> None:
    world.append(0, "a")
    world.append(1, "b")
    assert world.spark().conf.get(PARTITIONS_SETTING) == "1"
    world.spark().conf.set(PARTITIONS_SETTING, "7")
    try:
        world.append(2, "somebody else has set it")
        assert world.spark().conf.get(PARTITIONS_SETTING) == "7"
    finally:
        world.spark().conf.set(PARTITIONS_SETTING, "1")
