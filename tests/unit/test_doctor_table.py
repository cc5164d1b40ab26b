"""Faults of a table, each found under its id."""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.config.load import parse_config
from blizzard.config.model import Pipeline
from blizzard.doctor import table, table_log
from blizzard.doctor.check import Verdict
from blizzard.doctor.examine import examine
from blizzard.doctor.table import CHECKS, MAX_LOG_ENTRIES, SMALL_FILES, ExaminedTable
from blizzard.doctor.table_log import read_table_log
from blizzard.errors import UnreadableState
from blizzard.state.delta_log import LOG_FOLDER, commit_key
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from blizzard.storage.s3_connection import S3Settings
from tests.unit.doctor_world import DoctorWorld, Fault, assert_found_alone, ingested, write, wrong

ADD = {"path": "x.parquet", "partitionValues": {}, "size": 10, "modificationTime": 0, "dataChange": True}
PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": []}


def info(**fields: Any) -> dict[str, Any]:
    return {
        "commitInfo": {"timestamp": int(time.time() * 1000), "operation": "WRITE", "engineInfo": "theirs", **fields}
    }


def small_files(world: DoctorWorld) -> None:
    adds = [{"add": {**ADD, "path": f"{number}.parquet", "dataChange": False}} for number in range(SMALL_FILES)]
    world.commit(info(operation="OPTIMIZE"), *adds)
    for number in range(SMALL_FILES):
        (world.lake / f"{number}.parquet").write_bytes(bytes(10))


def lost_data_files(world: DoctorWorld) -> None:
    for data_file in world.lake.glob("*.parquet"):
        data_file.unlink()


def foreign_append(world: DoctorWorld) -> None:
    rows = DeltaTable(str(world.lake)).to_pyarrow_table()
    write_deltalake(str(world.lake), rows, mode="append")


def renamed_source(world: DoctorWorld) -> None:
    world.commit(info(), {"txn": {"appId": "blizzard:orders:former", "version": 3}})


def missing_version(world: DoctorWorld) -> None:
    foreign_append(world)
    (world.lake / commit_key(1)).unlink()


def torn_commit(world: DoctorWorld) -> None:
    write(world.lake / commit_key(1), b'{"commitInfo": {')


def newer_protocol(world: DoctorWorld) -> None:
    world.commit({"protocol": {**PROTOCOL, "minWriterVersion": 8}})


def feature_of_spark(world: DoctorWorld) -> None:
    world.commit({"protocol": {**PROTOCOL, "writerFeatures": ["rowTracking"]}})


def other_partitions(world: DoctorWorld) -> None:
    world.pipeline["partition_by"] = ["id"]


def no_source_column(world: DoctorWorld) -> None:
    first = (world.lake / commit_key(0)).read_text().splitlines()
    (metadata,) = (json.loads(line)["metaData"] for line in first if line.startswith('{"metaData"'))
    schema = json.loads(metadata["schemaString"])
    schema["fields"] = [each for each in schema["fields"] if each["name"] != "_source"]
    world.commit({"metaData": {**metadata, "schemaString": json.dumps(schema)}})


def commit_of_the_future(world: DoctorWorld) -> None:
    world.commit(info(operation="OPTIMIZE", timestamp=int((time.time() + 600) * 1000)))


def no_checkpoints(world: DoctorWorld) -> None:
    world.set_properties(delta__checkpointInterval="1")
    for _ in range(30):
        world.commit(info(operation="OPTIMIZE"))


FAULTS: Mapping[str, Fault] = {
    "a version is missing": (missing_version, "table.log", Verdict.PROBLEM, "lacks version 1"),
    "a commit is torn": (torn_commit, "table.log", Verdict.PROBLEM, "commit 1 of the Delta log cannot be read"),
    "a protocol of the future": (newer_protocol, "table.protocol", Verdict.PROBLEM, "writer version 8"),
    "only Spark can write it": (feature_of_spark, "table.protocol", Verdict.PROBLEM, "the feature rowTracking"),
    "other partition columns": (other_partitions, "table.partitioning", Verdict.PROBLEM, "orders by ['id']"),
    "a table of somebody else": (no_source_column, "table.source-column", Verdict.WARNING, "no column _source"),
    "Txns expire": (
        lambda world: world.set_properties(delta__setTransactionRetentionDuration="interval 1 day"),
        "table.txn-retention",
        Verdict.PROBLEM,
        "interval 1 day",
    ),
    "the log is kept for an hour": (
        lambda world: world.set_properties(delta__logRetentionDuration="interval 1 hour"),
        "table.log-retention",
        Verdict.WARNING,
        "interval 1 hour",
    ),
    "a retention that deltalake misreads": (
        lambda world: (
            world.pipeline.update(engine="auto"),
            world.set_properties(delta__logRetentionDuration="60 days"),
        )[1],
        "table.log-retention",
        Verdict.WARNING,
        "60 days",
    ),
    "nobody writes Delta checkpoints": (no_checkpoints, "table.log-checkpoint", Verdict.WARNING, "33 commits"),
    "many small files": (small_files, "table.small-files", Verdict.WARNING, "1,00"),
    "data files are lost": (lost_data_files, "table.data-files", Verdict.PROBLEM, "and 2 are not there: "),
    "a foreign append": (foreign_append, "table.other-writers", Verdict.WARNING, "1 WRITE by delta-rs"),
    "a source of another configuration": (renamed_source, "table.other-sources", Verdict.WARNING, "orders:former"),
    "a writer's clock is ahead": (commit_of_the_future, "table.clock", Verdict.PROBLEM, "the last writer's clock"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_under_its_id_alone(name: str, tmp_path: Path) -> None:
    assert_found_alone(FAULTS[name], tmp_path, ("table.",))


# --- The log as programs write it ---


def pipeline() -> Pipeline:
    text = "pipelines: {p: {table_uri: s3://lake/t, sources: {s: {uri: s3://landing/s, schema: id STRING}}}}"
    return parse_config(text, {}).pipelines["p"]


def test_a_very_long_log_is_found(tmp_path: Path) -> None:
    """Beneath a V2 checkpoint, as a table with few commits a second has it after months."""
    world, store = ingested(tmp_path), MemoryStore(time.time)
    actions = [json.loads(line) for line in (world.lake / commit_key(0)).read_text().splitlines()]
    kept = [json.dumps(each) for each in actions if {"protocol", "metaData"} & each.keys()]
    newest = MAX_LOG_ENTRIES
    store.put(f"{LOG_FOLDER}{newest:020d}.checkpoint.80a0-81.json", "\n".join(kept).encode())
    for version in range(newest + 1):
        store.put(commit_key(version), b'{"commitInfo": {}}')
    table = ExaminedTable("s3://lake/t", store, [pipeline()], time.time, S3Settings())
    found = {each.id: each.finding for each in examine("t", table, CHECKS, lambda check, name: None)}
    assert found["table.log-length"].verdict is Verdict.WARNING
    assert f"{newest + 1:,} commits are kept" in found["table.log-length"].found
    assert found["table.log"].found == f"version {newest:,}; every commit since Delta checkpoint {newest:,} is there"


def test_a_table_is_described_by_its_checkpoint_once_the_commits_are_gone(tmp_path: Path) -> None:
    world = ingested(tmp_path)
    before = read_table_log(world.store)
    assert before is not None
    DeltaTable(str(world.lake)).create_checkpoint()
    for version in range(before.version + 1):
        (world.lake / commit_key(version)).unlink()
    after = read_table_log(world.store)
    assert after is not None
    for name in ("version", "versions", "files", "bytes", "properties", "columns", "partition_by"):
        assert getattr(after, name) == getattr(before, name), name
    assert (after.entries, after.checkpoint) == (0, before.version)
    assert before.files == 2


def test_the_checkpoint_of_a_table_without_data_files_is_read(tmp_path: Path) -> None:
    """All rows of it were deleted."""
    world = ingested(tmp_path)
    table = DeltaTable(str(world.lake))
    table.delete()
    table.create_checkpoint()
    log = read_table_log(world.store)
    assert log is not None
    assert (log.files, [*log.paths], log.checkpoint) == (0, [], table.version())


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_lost_data_file_is_named(tmp_path: Path, *, checkpointed: bool) -> None:
    world = ingested(tmp_path)
    if checkpointed:
        DeltaTable(str(world.lake)).create_checkpoint()
        for version in range(2):
            (world.lake / commit_key(version)).unlink()
    assert world.finding("table.data-files").found == "2 of 2 data files were looked at, and are there"
    lost = max(world.lake.glob("*.parquet"))
    lost.unlink()
    found = world.finding("table.data-files")
    assert found.found == f"2 of 2 data files were looked at, and 1 are not there: {lost.name}"


@pytest.mark.parametrize("checkpointed", [False, True])
def test_of_many_data_files_some_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, checkpointed: bool
) -> None:
    """Spread over all, so that of those that a lifecycle rule deletes some are among them."""
    world = ingested(tmp_path)
    small_files(world)
    if checkpointed:
        DeltaTable(str(world.lake)).create_checkpoint()
    monkeypatch.setattr(table, "LOOKED_AT_FILES", 100)
    monkeypatch.setattr(table_log, "NAMED_FILES", 200)
    for number in range(SMALL_FILES // 5):
        (world.lake / f"{number}.parquet").unlink()
    found = world.finding("table.data-files")
    looked, lost = (
        int(each.replace(",", "")) for each in re.findall(r"^([\d,]+) of .* and ([\d,]+) are", found.found)[0]
    )
    assert (50 <= looked <= 100, 10 <= lost <= 30) == (True, True), found


def test_data_files_that_were_removed_from_the_table_are_not_missed(tmp_path: Path) -> None:
    world = ingested(tmp_path)
    DeltaTable(str(world.lake)).optimize.compact()
    DeltaTable(str(world.lake)).vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert world.finding("table.data-files").found == "1 of 1 data files were looked at, and are there"


def test_removed_files_do_not_count(tmp_path: Path) -> None:
    world = ingested(tmp_path)
    DeltaTable(str(world.lake)).optimize.compact()
    log = read_table_log(world.store)
    assert log is not None
    assert log.files == len(DeltaTable(str(world.lake)).file_uris())
    assert log.bytes == sum(Path(uri).stat().st_size for uri in DeltaTable(str(world.lake)).file_uris())
    assert wrong(world.examine()) == []  # whoever compacts a table changes no rows


def test_a_damaged_checkpoint_is_an_unreadable_log(tmp_path: Path) -> None:
    world = ingested(tmp_path)
    DeltaTable(str(world.lake)).create_checkpoint()
    (file,) = (world.lake / LOG_FOLDER).glob("*.checkpoint.parquet")
    write(file, b"PAR1")
    with pytest.raises(UnreadableState, match="the log cannot be read"):
        read_table_log(LocalStore(world.lake))
    assert world.finding("table.log").verdict is Verdict.PROBLEM
