"""The local engine's commits: on the disk before anything that follows from them, and Spark is asked before it has to
commit."""

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.log import silent
from blizzard.state.delta_log import LOG_FOLDER
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.auto import AutoEngine
from spark_job.engines.local import open_table
from spark_job.engines.local.engine import LocalEngine
from spark_job.engines.local.open_table import OpenTables
from spark_job.engines.local.table import LocalTable
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.table_source import TableSource

COMMIT, CHECKPOINT = re.compile(r"\d{20}\.json"), re.compile(r"\d{20}\.checkpoint\.parquet")


def source_of(folder: Path) -> TableSource:
    return TableSource(str(folder), "p:a", "blizzard:p:a", "id STRING", {}, ())


def table_of(folder: Path) -> DeltaSourceTable:
    source, store = source_of(folder), LocalStore(folder, may_be_missing=True)
    opened = OpenTables(dict).at(source.table_uri, store)
    return DeltaSourceTable(LocalTable(source, store, opened, clock=time.time, log=silent), source, store=store)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files and folders that were synced, in order."""
    names: list[str] = []
    whole = os.fsync

    def fsync(descriptor: int) -> None:
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        whole(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


def test_each_commit_is_on_the_disk_before_the_job_goes_on(tmp_path: Path, synced: list[str]) -> None:
    table = table_of(tmp_path)
    table.append(None, sequence=0, user_metadata="")
    for sequence in (1, 2):
        synced.clear()
        table.append(None, sequence=sequence, user_metadata="")
        assert [*filter(COMMIT.fullmatch, synced)] == [f"{sequence:020d}.json"]
        assert synced[-1] == "_delta_log"


def test_a_checkpoint_is_on_the_disk_before_commits_are_cleaned_up(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, before = DeltaTable.cleanup_metadata, list[list[str]]()

    def clean_up(self: DeltaTable) -> None:
        before.append([*synced])
        whole(self)

    monkeypatch.setattr(DeltaTable, "cleanup_metadata", clean_up)
    table = table_of(tmp_path)
    for sequence in range(11):
        table.append(None, sequence=sequence, user_metadata="")
    (seen,) = before
    assert [*filter(CHECKPOINT.fullmatch, seen)] == [f"{10:020d}.checkpoint.parquet"]
    assert "_last_checkpoint" in seen
    assert (tmp_path / LOG_FOLDER / f"{10:020d}.checkpoint.parquet").exists()


def test_a_table_is_opened_again_after_each_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of deltalake reads all of the log that was not in a checkpoint when the table was opened."""
    opened: list[int] = []

    class Opened(DeltaTable):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            opened.append(self.version())

    table = table_of(tmp_path)
    table.append(None, sequence=0, user_metadata="")
    monkeypatch.setattr(open_table, "DeltaTable", Opened)
    for sequence in range(1, 32):
        table.append(None, sequence=sequence, user_metadata="")
    assert opened == [0, 10, 20, 30]
    assert table.txn_version("blizzard:p:a") == 31


def test_a_table_that_needs_spark_is_committed_to_only_if_spark_can(tmp_path: Path) -> None:
    """Here it cannot, as with other jars than those of the set-up; its other writer can."""

    class WithoutTransactions:
        def table(self, source: TableSource) -> "WithoutTransactions":
            return self

        def why_no_transactions(self) -> str:
            return "this build of Delta has no transactions"

    folder = tmp_path / "a%20b"
    source, store = source_of(folder), LocalStore(folder, may_be_missing=True)
    engine = AutoEngine(LocalEngine(S3Settings(), dict, silent), WithoutTransactions, silent)  # type: ignore[arg-type]
    table = DeltaSourceTable(engine.table(source), source, store=store)
    assert table.layout().folder
    assert table.layout_reason == "this build of Delta has no transactions"
