"""What the local engine leaves to Spark, before anything of it has happened."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import StringType, StructField, StructType

from blizzard.errors import RetryableError
from spark_job.engines.local import open_table
from spark_job.engines.local.table import LocalTable
from spark_job.engines.needs_spark import NeedsSpark
from tests.spark.engine_lake import EngineLake
from tests.unit.table_lake import lake, set_properties
from tests.unit.test_local_commits import table_of

__all__ = ["lake"]


def engine_table(folder: Path) -> LocalTable:
    """A table with one commit and no rows."""
    table = table_of(folder)
    table.append(None, sequence=0, user_metadata="")
    engine = table._engine
    assert isinstance(engine, LocalTable)
    return engine


def test_a_new_column_whose_name_needs_mapping(lake: EngineLake) -> None:
    lake.settings = {"schema": "id STRING", "new_fields": "add"}
    lake.put("a.ndjson", {"id": "0"})
    lake.run()
    lake.put("b.ndjson", {"id": "1", "two words": "x"})
    lake.run()
    [row] = [row for row in lake.rows() if row["id"] == "1"]
    assert json.loads(row["_rescued"]) == {"two words": "x"}
    table = engine_table(lake.folder / "other")
    column = StructField("two words", StringType())
    with pytest.raises(NeedsSpark, match=r"column .two words., whose name table .* has only by column mapping"):
        table.check_changes([column], [], {})
    with pytest.raises(NeedsSpark, match="column 'two words'"):
        table.add_columns([column], {})
    assert DeltaTable(str(lake.folder / "other")).version() == 0


def kept_files(lake: EngineLake) -> list[str]:
    """All files in the table's folder but the backlog: data, log, staged rows, receipts, dead letters."""
    files = [str(file.relative_to(lake.table)) for file in lake.table.rglob("*") if file.is_file()]
    return sorted(file for file in files if "/pending/" not in file and "/sweep" not in file)


def test_a_table_that_needs_sparks_writer_is_refused_with_the_cause_before_anything_is_read(lake: EngineLake) -> None:
    lake.put("a.ndjson", {"id": "0"})
    lake.run()
    set_properties(lake, delta__autoOptimize__optimizeWrite="true")
    before = kept_files(lake)
    lake.put("b.ndjson", {"id": "1"}, "no record")
    cause = r"optimized writes or automatic compaction \(delta.autoOptimize.optimizeWrite\)"
    for _ in range(2):
        with pytest.raises(NeedsSpark, match=rf"Spark is needed for writing to table .*, because of {cause}\. Nothing"):
            lake.run()
        assert kept_files(lake) == before
    assert not lake.logged("batch_read")[1:]


def test_an_overwritten_file_whose_rows_only_spark_replaces_is_not_read(lake: EngineLake) -> None:
    lake.settings = {"on_overwrite": "replace"}
    lake.put("a.ndjson", {"id": "0"})
    lake.run()
    before = kept_files(lake)
    lake.put("a.ndjson", {"id": "1"}, "no record")
    for _ in range(2):
        with pytest.raises(NeedsSpark, match="replacing the rows of overwritten files in table"):
            lake.run()
        assert kept_files(lake) == before
    assert lake.ids() == ["0"]


def test_rows_by_sparks_writer(tmp_path: Path) -> None:
    table = engine_table(tmp_path)
    for replaced, what in ((None, "writing to table"), (["a"], "replacing the rows of overwritten files in table")):
        with pytest.raises(NeedsSpark, match=what):
            table.rewrite([], StructType(), sequence=1, user_metadata="", replaced=replaced)
    with pytest.raises(NeedsSpark, match="looking for data files that no commit has"):
        table.data_file_paths()
    assert DeltaTable(str(tmp_path)).version() == 0


def features(*names: str) -> dict[str, Any]:
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [*names], "writerFeatures": [*names]}


UNOPENED = [
    (features("catalogManaged", "inCommitTimestamp"), "the feature catalogManaged"),
    (features("catalogOwned-preview"), "the feature catalogOwned-preview"),
    (features("ofTheFuture"), "the feature ofTheFuture"),
    ({"minReaderVersion": 4, "minWriterVersion": 8}, "a table of reader version 4 and writer version 8"),
]


@pytest.mark.parametrize(("protocol", "reason"), UNOPENED, ids=[reason for _, reason in UNOPENED])
@pytest.mark.parametrize("checkpointed", [False, True], ids=["in a commit", "in a checkpoint"])
def test_what_a_table_needs_that_deltalake_does_not_even_open_is_named(
    lake: EngineLake, protocol: dict[str, Any], reason: str, checkpointed: bool
) -> None:
    lake.put("a.ndjson", {"id": "0"})
    lake.run()
    set_properties(lake, protocol)
    if checkpointed:
        checkpoint_with(lake, protocol)
    before = kept_files(lake)
    lake.put("b.ndjson", {"id": "1"})
    with pytest.raises(NeedsSpark, match=f"Spark is needed for .*{reason}"):
        lake.run()
    assert kept_files(lake) == before


def checkpoint_with(lake: EngineLake, protocol: dict[str, Any]) -> None:
    """Of the newest version, whose commits are gone. deltalake itself makes none of such a table."""
    for version in lake.versions():
        (lake.log_folder / f"{version:020d}.json").unlink()
    version = 1
    fields = {"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}
    fields |= {name: pa.list_(pa.string()) for name in ("readerFeatures", "writerFeatures")}
    table = pa.table({"protocol": pa.array([None, protocol], pa.struct(fields))})
    pq.write_table(table, lake.log_folder / f"{version:020d}.checkpoint.parquet")
    (lake.log_folder / "_last_checkpoint").write_text(json.dumps({"version": version, "size": 2}))


@pytest.mark.parametrize(("protocol", "reason"), UNOPENED, ids=[reason for _, reason in UNOPENED])
def test_what_another_program_lets_a_table_need_while_it_is_open_is_named(
    tmp_path: Path, protocol: dict[str, Any], reason: str
) -> None:
    table = engine_table(tmp_path)
    (tmp_path / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"protocol": protocol}))
    for _ in range(2):
        with pytest.raises(NeedsSpark, match=reason):
            table.txn_version("blizzard:p:a")


def test_a_log_that_cannot_be_read_is_still_said_to_be_at_fault(tmp_path: Path) -> None:
    table = engine_table(tmp_path)
    (tmp_path / "_delta_log" / f"{1:020d}.json").write_text("{ half")
    for _ in range(2):
        with pytest.raises(RetryableError, match="the table's log or its storage is at fault"), table.translating("x"):
            table.txn_version("blizzard:p:a")


def test_rows_of_a_table_that_has_disappeared(tmp_path: Path) -> None:
    table = engine_table(tmp_path)
    assert not table.holds_rows()
    shutil.rmtree(tmp_path / "_delta_log")
    with pytest.raises(NeedsSpark, match=r"reading table .*, which has just disappeared"):
        table.holds_rows()


def test_a_table_whose_files_are_too_many_when_they_are_counted(
    lake: EngineLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last checkpoint, which is asked first, was made when there were fewer."""
    for number in range(2):
        lake.put(f"{number}.ndjson", {"id": f"{number}"})
        lake.run()
    monkeypatch.setattr(open_table, "MAX_FILES", 1)
    lake.put("2.ndjson", {"id": "2"})
    with pytest.raises(NeedsSpark, match="a table of 2 files, more than the 1 that fit into memory"):
        lake.run()
    assert lake.ids() == ["0", "1"]


def test_a_table_that_grows_too_large_between_two_checkpoints_is_noticed(
    lake: EngineLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the next commit of the process that added the files, without a checkpoint that lets it count them."""
    lake.settings = {"checkpoint": {"interval_files": 1}}
    monkeypatch.setattr(open_table, "MAX_FILES", 3)
    for number in range(6):
        lake.put(f"{number}.ndjson", {"id": f"{number}"})
    with pytest.raises(NeedsSpark, match="a table of 4 files, more than the 3 that fit into memory"):
        lake.run()
    assert lake.ids() == ["0", "1", "2", "3"]
