"""Recovery from every kind of damage: files in the table are not ingested again, and no others are forgotten."""

import base64
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.errors import RecoveryError
from tests.spark.engine_lake import ON_BOTH, ON_SPARK, EngineLake, lake_of
from tests.spark.lake import ids, until
from tests.spark.table_world import SOURCE

LARGE = "large.ndjson.gz"
LARGE_ROWS = 15_000
IN_BATCHES = {"checkpoint": {"interval_files": 2, "interval_bytes": "50KB"}}
on_spark = pytest.mark.parametrize("past", ON_SPARK, indirect=True, scope="module")
on_both = pytest.mark.parametrize("past", ON_BOTH, indirect=True, scope="module")


@pytest.fixture(scope="module", params=["local"])
def past(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineLake]:
    """Three commits, the last of which has a part of a large file."""
    with lake_of(request, tmp_path_factory.mktemp("past"), IN_BATCHES) as lake:
        commit_three_times(lake)
        yield lake


def commit_three_times(lake: EngineLake) -> None:
    lake.put("a.ndjson.gz", *ids(0, 10), "broken")
    lake.put("b.ndjson.gz", *ids(10, 20))
    lake.put("c.ndjson.gz", *ids(20, 30))
    lake.put(LARGE, *({"id": f"{n:060d}-{n * 7919 % 10007}", "n": n} for n in range(LARGE_ROWS)))
    job = lake.job()
    job.sweep(late=False, record_if_empty=True)
    for _ in range(3):
        job.ingest.step(draining=True)
    assert 0 < lake.state().in_progress[LARGE] < LARGE_ROWS


@pytest.fixture
def lake(past: EngineLake, tmp_path: Path) -> Iterator[EngineLake]:
    """A copy of that lake, with the same files (hard links) in `landing`."""
    shutil.copytree(past.table, tmp_path / "table")
    shutil.copytree(past.landing(), tmp_path / "landing", copy_function=os.link)
    with closing(EngineLake(tmp_path, past.spark, past.settings, chosen=past.chosen)) as copied:
        yield copied


@pytest.fixture
def other(past: EngineLake, tmp_path: Path) -> Iterator[EngineLake]:
    """An empty lake of the same engine."""
    with closing(EngineLake(tmp_path / "other", past.spark, chosen=past.chosen)) as made:
        yield made


def corrupt_checkpoints(lake: EngineLake, *versions: int) -> None:
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


def insert_foreign_row(lake: EngineLake) -> None:
    """By another program with the engine of the jobs."""
    if lake.chosen == "spark":
        nothing = "'etag', cast(NULL AS STRING), 'modified', cast(NULL AS TIMESTAMP)"
        theirs = f"named_struct('source', 'them', 'file', 'theirs', 'row', 0L, {nothing}, 'sequence', 7L)"
        lake.spark().sql(f"INSERT INTO delta.`{lake.table}` (id, n, _source) VALUES ('foreign', -1L, {theirs})")
        return
    theirs = {"source": "them", "file": "theirs", "row": 0, "sequence": 7}
    columns = [pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64()), pa.field("_source", SOURCE)]
    row = pa.table({"id": ["foreign"], "n": [-1], "_source": [theirs]}, pa.schema(columns))
    write_deltalake(str(lake.table), row, mode="append")


def clean_up_log(lake: EngineLake) -> None:
    """As Delta does after 30 days: it keeps a checkpoint of its own and the newest JSON file, of another writer."""
    insert_foreign_row(lake)
    if lake.chosen == "spark":
        checkpoint_by_spark(lake)
    else:
        DeltaTable(str(lake.table)).create_checkpoint()
    for version in lake.versions()[:-1]:
        (lake.log_folder / f"{version:020d}.json").unlink()


def checkpoint_by_spark(lake: EngineLake) -> None:
    """From now on it reads the log from there."""
    delta_log, session = lake.spark()._jvm.org.apache.spark.sql.delta.DeltaLog, lake.spark()._jsparkSession
    log, none = delta_log.forTable(session, str(lake.table)), lake.spark()._jvm.scala.Option.empty()
    log.checkpoint(log.update(False, none, none), none)
    delta_log.clearCache()


def assert_ingestion_continues(lake: EngineLake) -> None:
    """The rows in the table stay, and the rest of the large file and new files are ingested once."""
    lake.put("d.ndjson.gz", *ids(30, 40))
    lake.put("0-sorts-first.ndjson.gz", *ids(40, 50))
    lake.run(late=True)
    verdict = lake.verdict()
    theirs = [record for record in verdict.unexpected if record == ("theirs", 0)]
    assert replace(verdict, unexpected=verdict.unexpected[len(theirs) :]).good, list(verdict.lines())
    assert verdict.rows_in == 50 + LARGE_ROWS


def the_newest_state_is_torn(lake: EngineLake) -> None:
    corrupt_checkpoints(lake, 2)
    lake.copy.unlink()


def the_newest_states_are_torn(lake: EngineLake) -> None:
    corrupt_checkpoints(lake, 1, 2)
    lake.copy.unlink()


def the_newest_state_is_torn_and_the_copy_is_old(lake: EngineLake) -> None:
    lake.copy.write_text(lake.user_metadata(0))
    corrupt_checkpoints(lake, 1, 2)


def every_state_is_torn(lake: EngineLake) -> None:
    corrupt_checkpoints(lake, 0, 1, 2)
    lake.copy.unlink()


def every_state_is_torn_and_manifest_and_receipts_are_gone(lake: EngineLake) -> None:
    corrupt_checkpoints(lake, 0, 1, 2)
    lake.copy.unlink()
    for name in ("pending", "receipts"):
        shutil.rmtree(lake.copy.parent / "events_landing" / name)


def the_log_was_cleaned_up(lake: EngineLake) -> None:
    clean_up_log(lake)


def the_log_was_cleaned_up_and_the_copy_is_lost(lake: EngineLake) -> None:
    clean_up_log(lake)
    lake.copy.unlink()


def others_committed_since(lake: EngineLake) -> None:
    insert_foreign_row(lake)
    lake.copy.unlink()


DAMAGES: list[tuple[Callable[[EngineLake], None], list[int | None]]] = [
    (others_committed_since, []),
    (the_log_was_cleaned_up, []),
    (the_newest_state_is_torn, [1]),
    (the_newest_states_are_torn, [0]),
    (the_newest_state_is_torn_and_the_copy_is_old, [0]),
    (every_state_is_torn, [None]),
    (every_state_is_torn_and_manifest_and_receipts_are_gone, [None]),
    (the_log_was_cleaned_up_and_the_copy_is_lost, [None]),
]
"""And the sequences of the states from which the run repairs what is lost; None: there is none."""
OF_THE_ENGINE = (
    others_committed_since,
    the_log_was_cleaned_up,
    the_newest_states_are_torn,
    every_state_is_torn_and_manifest_and_receipts_are_gone,
    the_log_was_cleaned_up_and_the_copy_is_lost,
)
"""After these the engine is asked for Txns and rows, or finds a commit of another program with that engine."""


@pytest.mark.parametrize(("damage", "repaired_from"), DAMAGES)
def test_a_run_resumes_exactly_after(
    lake: EngineLake, damage: Callable[[EngineLake], None], repaired_from: list[int | None]
) -> None:
    damage(lake)
    assert_ingestion_continues(lake)
    assert [line["from_sequence"] for line in lake.logged("state_repaired")] == repaired_from


@on_spark
@pytest.mark.parametrize("damage", OF_THE_ENGINE)
def test_a_run_on_spark_resumes_exactly_after(lake: EngineLake, damage: Callable[[EngineLake], None]) -> None:
    damage(lake)
    assert_ingestion_continues(lake)
    assert [line["from_sequence"] for line in lake.logged("state_repaired")] == dict(DAMAGES)[damage]


@on_both
def test_a_table_copied_without_its_log_is_refused_and_not_changed(lake: EngineLake, other: EngineLake) -> None:
    other.put("d.ndjson.gz", *ids(30, 40))
    write_deltalake(str(other.table), DeltaTable(str(lake.table)).to_pyarrow_table())
    rows = other.rows()
    with pytest.raises(RecoveryError, match="holds rows of source events:landing but no Txn"):
        other.run()
    assert other.rows() == rows


@on_both
def test_a_table_of_others_without_rows_of_this_source_is_a_fresh_start(other: EngineLake) -> None:
    write_deltalake(str(other.table), pa.table({"id": ["theirs"], "n": [1]}))
    other.put("d.ndjson.gz", *ids(0, 2))
    other.run()
    rows = [(row["id"], row["_source"] and row["_source"]["file"]) for row in other.rows_unsorted()]
    assert sorted(rows, key=lambda row: row[0]) == [("0", "d.ndjson.gz"), ("1", "d.ndjson.gz"), ("theirs", None)]


@on_spark
def test_a_table_of_the_first_blizzard_is_resumed_where_it_ended(other: EngineLake) -> None:
    """Its state is in the app id, and its rows do not name their files."""
    other.put("day/a.ndjson.gz", *ids(0, 2))
    other.put("day/c.ndjson.gz", *ids(20, 22))
    state = {
        "source_state": {"files": {"day/c.ndjson.gz": "Finished"}},
        "watermark": {"state": "Active", "value": "day/a.ndjson.gz"},
        "partition_watermarks": {"day": "a.ndjson.gz"},
        "last_update_ts": int(time.time()) + 1,
    }
    app_id = "blizzard:" + base64.b64encode(json.dumps({"schema_version": 1, **state}).encode()).decode()
    frame = other.spark().createDataFrame([("old", 1)], "id STRING, n BIGINT")
    frame.write.format("delta").option("txnAppId", app_id).option("txnVersion", "1").save(str(other.table))
    until(lambda: time.time() > state["last_update_ts"])  # what comes later is late
    other.put("day/b.ndjson.gz", *ids(10, 12))
    for _ in range(2):
        other.run(late=True)
    assert sorted(row["id"] for row in other.rows_unsorted()) == ["10", "11", "old"]
