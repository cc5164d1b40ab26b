"""Existing data files enter the table by one transaction: what the commit holds, and who wins a race."""

import gc
import itertools
import json
from datetime import date
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.errors import CommitOutcomeUnknown, LostRace
from spark_job.engines.spark.java_references import USES_BETWEEN_COLLECTIONS, JavaReferences
from spark_job.engines.spark.table import SparkTable
from spark_job.ports.stopwatch import Stopwatch
from spark_job.table.table_source import TableSource
from spark_job.write.data_file import DataFile
from tests.spark.lake import jobs_so_far, until
from tests.spark.table_world import APP_ID, SCHEMA, SOURCE, World, Written, overtaken_by

pytestmark = pytest.mark.spark


def test_the_first_commit_creates_the_table_and_holds_rows_and_state(world: World) -> None:
    world.append(0, "a", "b")
    assert world.versions() == [0]
    assert world.ids() == world.ids_in_spark() == ["a", "b"]
    assert world.txn() == 0
    add = next(action["add"] for action in world.actions() if "add" in action)
    assert (world.table / add["path"]).exists()


def test_commits_run_no_spark_job_and_list_no_files_in_their_checksums(world: World) -> None:
    before = jobs_so_far(world.spark())
    for sequence in range(3):
        world.append(sequence, f"{sequence}")
    assert jobs_so_far(world.spark()) == before
    checksums = [json.loads(file.read_text()) for file in sorted((world.table / "_delta_log").glob("[0-9]*.crc"))]
    assert [checksum["numFiles"] for checksum in checksums] == [1, 2, 3]
    assert [checksum["setTransactions"][0]["version"] for checksum in checksums] == [0, 1, 2]
    assert not any("allFiles" in checksum for checksum in checksums)


def test_history_shows_the_metrics_and_the_state_of_a_commit(world: World) -> None:
    world.append(0, "a", "b")
    world.append(1, "c")
    newest = world.sql("DESCRIBE HISTORY {t} LIMIT 1")[0]
    assert (newest["operation"], newest["userMetadata"], newest["isBlindAppend"]) == ("WRITE", "state 1", True)
    size = next(action["add"]["size"] for action in world.actions() if "add" in action)
    assert newest["operationMetrics"] == {"numFiles": "1", "numOutputRows": "1", "numOutputBytes": str(size)}


def test_the_jvm_forgets_transactions_that_python_no_longer_uses(world: World) -> None:
    world.append(0, "a")
    source, jvm = TableSource(str(world.table), "events:landing", APP_ID, SCHEMA, {}, ()), world.spark()._jvm
    table = SparkTable(world.spark, source, JavaReferences())

    def is_forgotten() -> bool:
        jvm.java.lang.System.gc()
        return held.get() is None

    gc.disable()  # by itself Python collects now and then
    try:
        held = jvm.java.lang.ref.WeakReference(table.start()._java)
        for _ in range(USES_BETWEEN_COLLECTIONS):
            table.start()
        until(is_forgotten)
    finally:
        gc.enable()


def test_a_commit_of_state_alone_needs_no_files(world: World) -> None:
    source = world.source()
    source.append(None, sequence=0, user_metadata="empty")
    source.append(None, sequence=1, user_metadata="still")
    assert (world.versions(), world.txn(), world.ids()) == ([0, 1], 1, [])
    assert {name for action in world.actions() for name in action} == {"commitInfo", "txn"}


def test_a_table_created_by_a_transaction_equals_one_created_by_sparks_writer(world: World) -> None:
    world.schema = "id STRING NOT NULL, n BIGINT, t TIMESTAMP_NTZ, s STRUCT<a: INT, b: ARRAY<STRING>>, `x.y` DATE"
    world.source().append(None, sequence=0, user_metadata="by a transaction")
    by_transaction = world.actions()
    other = World(world.folder / "other", world.spark, schema=world.schema)
    by_spark = other.source()
    by_spark.preparation._engine.why_no_transactions = lambda: "no API"  # type: ignore[method-assign]
    by_spark.append(None, sequence=0, user_metadata="by the writer")
    by_writer = other.actions()

    def described(actions: list[dict[str, Any]]) -> tuple[Any, Any]:
        metadata = next(action["metaData"] for action in actions if "metaData" in action)
        return {**metadata, "id": "", "createdTime": 0}, next(a["protocol"] for a in actions if "protocol" in a)

    assert described(by_transaction) == described(by_writer)
    columns = list(other.spark().read.format("delta").load(str(other.table)).columns)
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


def test_the_layout_follows_the_tables_properties_for_statistics(world: World) -> None:
    world.make("id STRING, n BIGINT, m BIGINT", **{"delta.dataSkippingNumIndexedCols": "2"})
    layout = world.source(target_file_bytes=1000).layout()
    assert (layout.stats_columns, layout.string_prefix_chars) == (("id", "n"), 32)
    assert layout.target_file_bytes == 1000
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'm,_source.file')")
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingStringPrefixLength' = '64')")
    layout = world.source().layout()
    assert (layout.stats_columns, layout.string_prefix_chars) == (("m", "_source.file"), 64)


NAMES = ["plain", "a b", "50%", "a=b", "né", "日本", "a/b", "a#b", "a:b", "q'", "😀"]


def test_files_of_any_partition_value_are_found_and_survive_vacuum(world: World) -> None:
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
    """Escaped as Spark escapes folder names."""
    return "".join(f"%{ord(char):02X}" if char in "\"#%'*/:=?\\{[]^\x7f" or ord(char) < 32 else char for char in value)


def test_dates_numbers_and_booleans_are_partition_values(world: World) -> None:
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


def test_the_tables_checkpoint_interval_is_followed(world: World) -> None:
    world.make(**{"delta.checkpointInterval": "3"})
    source = world.source()
    for sequence in range(7):
        world.append(sequence, f"{sequence:02d}", table=source)
    made = {int(file.name.split(".")[0]) for file in (world.table / "_delta_log").glob("*.checkpoint*.parquet")}
    assert made == {version for version in world.versions() if source.checkpoints_at(version)} == {3, 6}


def test_the_txn_lookup_of_a_commit_is_timed_separately(world: World) -> None:
    ticks = itertools.count()
    watch = Stopwatch(lambda: float(next(ticks)))
    source = world.source(watch=watch)
    with watch.part("commit"):
        world.append(0, "a", table=source)
    took = watch.secs()
    assert (took.lookup, took.commit) == (1.0, 2.0)


# -- one winner


def test_a_committed_sequence_is_not_committed_again(world: World) -> None:
    world.append(0, "a")
    world.append(1, "b")
    for sequence in (0, 1):
        with pytest.raises(LostRace, match="sequence 1"):
            world.append(sequence, "again")
    assert (world.versions(), world.ids()) == ([0, 1], ["a", "b"])


def test_one_of_two_concurrent_transactions_of_a_source_wins(world: World) -> None:
    world.append(0, "a")
    slow, fast = world.source(), world.source()
    overtaken_by(slow, lambda: world.append(1, "fast", table=fast))
    with pytest.raises(LostRace, match="ConcurrentTransaction"):
        world.append(1, "slow", table=slow)
    assert (world.versions(), world.ids(), world.txn()) == ([0, 1], ["a", "fast"], 1)


class ThenBreaking:
    """A transaction of Delta's in whose commit a hook fails afterwards."""

    def __init__(self, java: Any, spark: Any) -> None:
        self._java, self._spark = java, spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._java, name)

    def commit(self, *arguments: Any) -> int:
        self._java.commit(*arguments)
        return int(self._spark._jvm.java.lang.Integer.parseInt("a hook that fails"))


def test_an_error_after_the_commit_leaves_the_outcome_unknown(world: World) -> None:
    source = world.source()
    world.append(0, "a", table=source)
    layout = source.layout()
    begin = source.preparation.start_transaction

    def breaking(**named: Any) -> Any:
        transaction: Any = begin(**named)
        transaction._java = ThenBreaking(transaction._java, world.spark())
        return transaction

    source.preparation.start_transaction = breaking  # type: ignore[method-assign]
    with pytest.raises(CommitOutcomeUnknown):
        source.append(Written([world.write(layout, "b")], layout), sequence=1, user_metadata="")
    assert world.ids() == ["a", "b"]
