"""Recovery from every kind of damage: files in the table are not ingested again, and no others are forgotten."""

import base64
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from blizzard.errors import RecoveryError
from tests.spark.lake import Lake, ids, until

pytestmark = pytest.mark.spark

LARGE = "large.ndjson.gz"
LARGE_ROWS = 15_000


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory, spark: Callable[[], SparkSession]) -> Lake:
    """Three commits, the last of which has a part of a large file."""
    lake = Lake(tmp_path_factory.mktemp("past"), spark, {"checkpoint": {"interval_files": 2, "interval_bytes": "50KB"}})
    lake.put("a.ndjson.gz", *ids(0, 10), "broken")
    lake.put("b.ndjson.gz", *ids(10, 20))
    lake.put("c.ndjson.gz", *ids(20, 30))
    lake.put(LARGE, *({"id": f"{n:060d}-{n * 7919 % 10007}", "n": n} for n in range(LARGE_ROWS)))
    job = lake.job()
    job.sweep(late=False, record_if_empty=True)
    for _ in range(3):
        job.ingest.step(draining=True)
    assert 0 < lake.state().in_progress[LARGE] < LARGE_ROWS
    return lake


@pytest.fixture
def lake(past: Lake, tmp_path: Path, spark: Callable[[], SparkSession]) -> Lake:
    """A copy of that lake, with the same files (hard links) in `landing`."""
    shutil.copytree(past.table, tmp_path / "table")
    shutil.copytree(past.landing(), tmp_path / "landing", copy_function=os.link)
    return Lake(tmp_path, spark, past.settings)


def corrupt_checkpoints(lake: Lake, *versions: int) -> None:
    """Overwrite the checkpoint that these commits carry."""
    for version in versions:
        file = lake.log_folder / f"{version:020d}.json"
        actions = lake.actions(version)
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["userMetadata"] = '{"schema_version": 3, "torn'
        file.write_text("\n".join(map(json.dumps, actions)) + "\n")
        for checksum in lake.log_folder.glob(f"*{version:020d}*crc"):
            checksum.unlink()


def insert_foreign_row(lake: Lake) -> None:
    theirs = "named_struct('source', 'them', 'file', 'theirs', 'row', 0L, 'sequence', 7L)"
    names = "source STRING, file STRING, row BIGINT, etag STRING, modified TIMESTAMP, sequence BIGINT"
    source = f"from_json(to_json({theirs}), '{names}')"
    lake.spark().sql(f"INSERT INTO delta.`{lake.table}` (id, n, _source) SELECT 'foreign', -1, {source}")


def clean_up_log(lake: Lake) -> None:
    """As Delta does after 30 days: it keeps a checkpoint of its own and the newest JSON file, of another writer."""
    insert_foreign_row(lake)
    jvm, session = lake.spark()._jvm, lake.spark()._jsparkSession
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session, str(lake.table))
    none = jvm.scala.Option.empty()
    log.checkpoint(log.update(False, none, none), none)
    for version in lake.versions()[:-1]:
        (lake.log_folder / f"{version:020d}.json").unlink()
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def assert_ingestion_continues(lake: Lake) -> None:
    """The rows in the table stay, and the rest of the large file and new files are ingested once."""
    lake.put("d.ndjson.gz", *ids(30, 40))
    lake.put("0-sorts-first.ndjson.gz", *ids(40, 50))
    lake.run(late=True)
    verdict = lake.verdict()
    theirs = [record for record in verdict.unexpected if record == ("theirs", 0)]
    assert replace(verdict, unexpected=verdict.unexpected[len(theirs) :]).good, list(verdict.lines())
    assert verdict.rows_in == 50 + LARGE_ROWS


def the_newest_state_is_torn(lake: Lake) -> None:
    corrupt_checkpoints(lake, 2)
    lake.copy.unlink()


def the_newest_states_are_torn(lake: Lake) -> None:
    corrupt_checkpoints(lake, 1, 2)
    lake.copy.unlink()


def the_newest_state_is_torn_and_the_copy_is_old(lake: Lake) -> None:
    lake.copy.write_text(lake.user_metadata(0))
    corrupt_checkpoints(lake, 1, 2)


def every_state_is_torn(lake: Lake) -> None:
    corrupt_checkpoints(lake, 0, 1, 2)
    lake.copy.unlink()


def every_state_is_torn_and_manifest_and_receipts_are_gone(lake: Lake) -> None:
    corrupt_checkpoints(lake, 0, 1, 2)
    lake.copy.unlink()
    for name in ("pending", "receipts"):
        shutil.rmtree(lake.copy.parent / "events_landing" / name)


def the_log_was_cleaned_up(lake: Lake) -> None:
    clean_up_log(lake)


def the_log_was_cleaned_up_and_the_copy_is_lost(lake: Lake) -> None:
    clean_up_log(lake)
    lake.copy.unlink()


def others_committed_since(lake: Lake) -> None:
    insert_foreign_row(lake)
    lake.copy.unlink()


@pytest.mark.parametrize(
    ("damage", "repaired_from"),
    [
        (others_committed_since, []),
        (the_log_was_cleaned_up, []),
        (the_newest_state_is_torn, [1]),
        (the_newest_states_are_torn, [0]),
        (the_newest_state_is_torn_and_the_copy_is_old, [0]),
        (every_state_is_torn, [None]),
        (every_state_is_torn_and_manifest_and_receipts_are_gone, [None]),
        (the_log_was_cleaned_up_and_the_copy_is_lost, [None]),
    ],
)
def test_a_run_resumes_exactly_after(
    lake: Lake, damage: Callable[[Lake], None], repaired_from: list[int | None]
) -> None:
    damage(lake)
    assert_ingestion_continues(lake)
    assert [line["from_sequence"] for line in lake.logged("state_repaired")] == repaired_from


def test_a_table_copied_without_its_log_is_refused_and_not_changed(lake: Lake) -> None:
    copied = Lake(lake.folder / "copied", lake.spark)
    copied.put("d.ndjson.gz", *ids(30, 40))
    lake.spark().read.format("delta").load(str(lake.table)).write.format("delta").save(str(copied.table))
    rows = copied.rows()
    with pytest.raises(RecoveryError, match="holds rows of source events:landing but no Txn"):
        copied.run()
    assert copied.rows() == rows


def test_a_table_of_others_without_rows_of_this_source_is_a_fresh_start(lake: Lake) -> None:
    shared = Lake(lake.folder / "shared", lake.spark)
    frame = lake.spark().createDataFrame([("theirs", 1)], "id STRING, n BIGINT")
    frame.write.format("delta").save(str(shared.table))
    shared.put("d.ndjson.gz", *ids(0, 2))
    shared.run()
    rows = [(row["id"], row["_source"] and row["_source"]["file"]) for row in shared.rows_unsorted()]
    assert sorted(rows, key=lambda row: row[0]) == [("0", "d.ndjson.gz"), ("1", "d.ndjson.gz"), ("theirs", None)]


def test_a_table_of_the_first_blizzard_is_resumed_where_it_ended(lake: Lake) -> None:
    """Its state is in the app id, and its rows do not name their files."""
    old = Lake(lake.folder / "old", lake.spark)
    old.put("day/a.ndjson.gz", *ids(0, 2))
    old.put("day/c.ndjson.gz", *ids(20, 22))
    state = {
        "source_state": {"files": {"day/c.ndjson.gz": "Finished"}},
        "watermark": {"state": "Active", "value": "day/a.ndjson.gz"},
        "partition_watermarks": {"day": "a.ndjson.gz"},
        "last_update_ts": int(time.time()) + 1,
    }
    app_id = "blizzard:" + base64.b64encode(json.dumps({"schema_version": 1, **state}).encode()).decode()
    frame = lake.spark().createDataFrame([("old", 1)], "id STRING, n BIGINT")
    frame.write.format("delta").option("txnAppId", app_id).option("txnVersion", "1").save(str(old.table))
    until(lambda: time.time() > state["last_update_ts"])  # what comes later is late
    old.put("day/b.ndjson.gz", *ids(10, 12))
    for _ in range(2):
        old.run(late=True)
    assert sorted(row["id"] for row in old.rows_unsorted()) == ["10", "11", "old"]
